"""Spans of work that runs in a context of its own, and of threads that outlive the span in which they were started."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from pyio_trace.join.pack.packer import pack
from pyio_trace.join.sources.opening import open_log
from tests.support.programs import Outcome, Runner, succeeded

PRELUDE = """\
import asyncio, contextvars, os, queue, threading
import pyio_trace

def put(name):
    with open(name, "wb", buffering=0) as file:
        file.write(b"x" * 100)

"""


def spans_around(outcome: Outcome, folder: Path, name: str) -> list[str]:
    """The user's spans around the one write to this file, innermost first."""
    (row,) = outcome.select(op="write", path=folder / name)
    return [parent["op"] for parent in outcome.parents(row) if parent["layer"] == "user"]


def check(outcome: Outcome, folder: Path, expected: dict[str, list[str]]) -> None:
    """Each file was written in these spans; the packed log says the same as the live one."""
    pack(outcome.path, folder / "packed.parquet")
    assert open_log(folder / "packed.parquet").operations().equals(outcome.table)
    assert {name: spans_around(outcome, folder, name) for name in expected} == expected


OWN_WORKER = """\
    work = queue.SimpleQueue()
    def serve():
        while (item := work.get()) is not None:
            context, function, name, done = item
            context.run(function, name)
            loop.call_soon_threadsafe(done.set_result, None)
    workers = []
    async def hand_over(name):
        done = loop.create_future()
        if not workers:
            workers.append(threading.Thread(target=serve))
            workers[0].start()
        work.put((contextvars.copy_context(), put, name, done))
        await done
    async def job(n):
        with pyio_trace.span(f"job-{n}"):
            await hand_over(f"job-{n}")
    async def main():
        global loop
        loop = asyncio.get_running_loop()
        for n in range(3):
            await job(n)
        await hand_over("no-job")
        work.put(None)
    asyncio.run(main())
"""
ANYIO = """\
    import anyio
    async def job(n):
        with pyio_trace.span(f"job-{n}"):
            await anyio.to_thread.run_sync(put, f"job-{n}")
    async def main():
        for n in range(3):
            await job(n)
        await anyio.to_thread.run_sync(put, "no-job")
    anyio.run(main)
"""


@pytest.mark.parametrize("library", ["none", "anyio"])
def test_worker_threads_that_run_what_they_get_in_its_context(program: Runner, tmp_path: Path, library: str) -> None:
    # GIVEN a worker thread that is started in the first span, and runs functions of others in their contexts
    if library == "anyio":
        pytest.importorskip("anyio", reason="anyio's worker threads are what is tried here")
    text = "".join(f"    {line}" for line in PRELUDE.splitlines(True)) + (ANYIO if library == "anyio" else OWN_WORKER)
    # WHEN it is run traced THEN each is in the span that handed it over, or in none
    outcome = succeeded(program.traced(text))
    check(outcome, tmp_path, {"job-0": ["job-0"], "job-1": ["job-1"], "job-2": ["job-2"], "no-job": []})


OWN_TASKS = """\
    def job(n):
        with pyio_trace.span(f"job-{n}"):
            put(f"first-{n}")
            yield
            put(f"job-{n}")
    def main():
        tasks = [(contextvars.copy_context(), job(n)) for n in range(3)]
        for context, task in tasks:
            context.run(next, task)
        for context, task in reversed(tasks):
            context.run(next, task, None)
        put("no-job")
    main()
    with pyio_trace.span("around"):
        context, task = contextvars.copy_context(), job("within")
        context.run(next, task)
        put("around")
        context.run(next, task, None)
"""
TRIO = """\
    import trio
    async def job(n):
        with pyio_trace.span(f"job-{n}"):
            put(f"first-{n}")
            await trio.sleep(0.01)
            put(f"job-{n}")
    async def main():
        async with trio.open_nursery() as nursery:
            for n in range(3):
                nursery.start_soon(job, n)
        put("no-job")
    async def within():
        async with trio.open_nursery() as nursery:
            nursery.start_soon(job, "within")
            await trio.lowlevel.checkpoint()
            put("around")
    trio.run(main)
    with pyio_trace.span("around"):
        trio.run(within)
"""
EAGER = """\
    async def job(n):
        with pyio_trace.span(f"job-{n}"):
            put(f"first-{n}")
            await asyncio.sleep(0.01)
            put(f"job-{n}")
    async def main():
        asyncio.get_running_loop().set_task_factory(asyncio.eager_task_factory)
        await asyncio.gather(*(job(n) for n in range(3)))
        put("no-job")
        with pyio_trace.span("around"):
            task = asyncio.create_task(job("within"))
            put("around")
            await task
    asyncio.run(main())
"""


@pytest.mark.parametrize("library", ["none", "trio", "asyncio"])
def test_tasks_that_take_turns_are_not_in_each_other(program: Runner, tmp_path: Path, library: str) -> None:
    # GIVEN tasks that have a span open while others run: stepped by hand in contexts, trio's, and asyncio's eager ones
    if library == "trio":
        pytest.importorskip("trio", reason="trio's tasks are what is tried here")
    if library == "asyncio" and sys.version_info < (3, 12):
        pytest.skip("asyncio has eager tasks from Python 3.12 on")
    if library == "asyncio" and "_asyncio" in sys.builtin_module_names:
        pytest.skip("eager tasks of an _asyncio that is built into the interpreter enter their contexts unseen")
    tasks = {"none": OWN_TASKS, "trio": TRIO, "asyncio": EAGER}[library]
    # WHEN it is run traced THEN each is in its own span and in the one around all, and what comes after is in none
    outcome = succeeded(program.traced("".join(f"    {line}" for line in PRELUDE.splitlines(True)) + tasks))
    expected = {f"{when}-{n}": [f"job-{n}"] for n in range(3) for when in ("first", "job")} | {"no-job": []}
    expected |= {f"{when}-within": ["job-within", "around"] for when in ("first", "job")} | {"around": ["around"]}
    check(outcome, tmp_path, expected)


def test_a_thread_leaves_the_span_in_which_it_was_started_when_that_ends(program: Runner, tmp_path: Path) -> None:
    # GIVEN threads that are started in a span within another, and work in, between and after them: one of the program's
    # own, with a span of its own that stays open, with a thread that it starts, and a listener of the logging module
    text = (
        "".join(f"    {line}" for line in PRELUDE.splitlines(True))
        + """
    import logging, logging.handlers
    work, done = queue.SimpleQueue(), queue.SimpleQueue()
    def serve():
        own = pyio_trace.span("own")
        while (item := work.get()) is not None:
            if item == "opens":
                own.__enter__()
            elif item == "closes":
                own.__exit__(None, None, None)
            elif item == "starts":
                thread = threading.Thread(target=put, args=["of-thread"])
                thread.start()
                thread.join()
            else:
                put(item)
            done.put(None)
    def give(item):
        work.put(item)
        done.get()
    class Handler(logging.Handler):
        def emit(self, record):
            put(record.getMessage())
            done.put(None)
    logs = queue.SimpleQueue()
    def log(text):
        logs.put(logging.makeLogRecord({"msg": text}))
        done.get()
    with pyio_trace.span("outer"):
        with pyio_trace.span("inner"):
            server = threading.Thread(target=serve)
            server.start()
            give("in-inner")
            give("opens")
            give("in-own")
            listener = logging.handlers.QueueListener(logs, Handler())
            listener.start()
            log("log-inner")
        give("in-own-later")
        give("closes")
        give("in-outer")
    give("after")
    give("starts")
    log("log-after")
    give("opens")
    give("in-own-last")
    give("closes")
    work.put(None)
    listener.stop()
    """
    )
    # WHEN it is run traced THEN each is in the spans that were open, and in no other
    outcome = succeeded(program.traced(text))
    check(outcome, tmp_path, {
        "in-inner": ["inner", "outer"], "in-own": ["own", "inner", "outer"], "in-own-later": ["own", "inner", "outer"],
        "in-outer": ["outer"], "after": [], "of-thread": [], "in-own-last": ["own"], "log-inner": [], "log-after": [],
    })  # fmt: skip
    # THEN the link says how each is known
    links = {name: outcome.select(op="FileIO.write", path=tmp_path / name)[0]["link"] for name in ("in-inner", "after")}
    assert links == {"in-inner": "context", "after": "none"}
