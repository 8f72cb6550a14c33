"""The rule about calls on files that hold up an event loop, and what it rests on: stacks beneath a loop's dispatch."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

import pyio_trace
from pyio_trace.analysis.scan.workers import local_processes
from pyio_trace.insights import insights, registry
from pyio_trace.insights.event_loops import Beneath, beneath
from pyio_trace.insights.finding import Finding
from pyio_trace.join.pack import packer
from tests.support.findings import evidence_of, findings_of, none, without_times
from tests.support.frameworks import LOOPS as EVENT_LOOPS
from tests.support.programs import Outcome, Runner

SLUG = "blocking-call-in-event-loop"
#: Every line is found, and is as bad as its confidence allows.
ALL = without_times(
    {
        SLUG: {"ms": 0, "calls": 0},
        "severity": dict.fromkeys(("critical_ms", "critical_share", "warning_ms", "warning_share"), 0.0),
    }
)

#: Two functions that call on files, and tasks that use them in turns.  RUN: how a coroutine has a function run.
TASKS = """
    import os
    def load(name):
        file = os.open(name, os.O_RDONLY)
        data = os.read(file, 5000)
        os.close(file)
        return data
    def ask(name):
        return os.stat(name)
    def fill():
        for n in range(40):
            with open(f"{n}.bin", "wb") as file:
                file.write(bytes(5000))
        load("0.bin")    # no loop runs yet
    async def loads(run, sleep):
        for n in range(40):
            await run(load, f"{n}.bin")
            await sleep(0)
    async def asks(run, sleep):
        for n in range(60):
            await run(ask, f"{n % 40}.bin")
            await sleep(0)
    async def directly(function, name):
        return function(name)
    fill()
"""
ASYNCIO = """
    import asyncio
    async def main():
        run = RUN
        await asyncio.gather(loads(run, asyncio.sleep), asks(run, asyncio.sleep), asks(run, asyncio.sleep))
    if LOOP == "uvloop":
        import uvloop
        uvloop.run(main())
    else:
        asyncio.run(main())
"""
ANYIO = """
    import anyio
    async def main():
        run = RUN
        async with anyio.create_task_group() as group:
            for each in (loads, asks, asks):
                group.start_soon(each, run, anyio.sleep)
    anyio.run(main, backend="LOOP")
"""
TRIO = """
    import trio
    async def main():
        run = RUN
        async with trio.open_nursery() as nursery:
            for each in (loads, asks, asks):
                nursery.start_soon(each, run, trio.sleep)
    trio.run(main)
"""
THREADS = {"asyncio": "asyncio.to_thread", "anyio": "anyio.to_thread.run_sync", "trio": "trio.to_thread.run_sync"}


def program_of(library: str, run: str, loop: str = "asyncio") -> str:
    text = {"asyncio": ASYNCIO.replace("LOOP", repr(loop)), "anyio": ANYIO.replace("LOOP", loop), "trio": TRIO}[library]
    return TASKS + text.replace("RUN", run)


def lines(found: list[Finding], name: str = "program.py") -> dict[int, int]:
    """By line of the program, the calls of its finding."""
    of_rule = [one for one in found if one.slug == SLUG]
    by_line = {site.line: int(one.evidence[0].values["calls"]) for one in of_rule for site in one.sites}
    assert len(by_line) == len(of_rule) and all(site.file.endswith(name) for one in of_rule for site in one.sites)
    return by_line


def check_tasks(outcome: Outcome, folder: Path, library: str) -> None:
    """What is found of TASKS that call by themselves: 40 loads and 120 questions beneath the loop."""
    found = findings_of(outcome, ALL)
    assert lines(found) == {4: 40, 5: 40, 6: 40, 9: 120}
    for finding in (one for one in found if one.slug == SLUG):
        line = finding.sites[0].line
        rows = [row for row in outcome.select(site=str_site(finding)) if row["tid"] == outcome.rows[0]["tid"]]
        if line != 9:
            rows = rows[1:]  # fill() did one before
        values = finding.evidence[0].values
        assert values["time_ns"] == sum(row["duration"] for row in rows) >= finding.recoverable_ns
        assert values["longest_ns"] == max(row["duration"] for row in rows)
        assert finding.files == [f"{folder}/*.bin"] and finding.recoverable.bound == "upper"
        assert "Calls of 2 coroutines or callbacks alternate" in finding.evidence[0].text
        assert finding.remedy is not None and finding.remedy.library == library
        assert THREADS[library].split(".", 1)[1] in finding.remedy.after
        assert sum(int(row["calls"]) for row in evidence_of(finding, outcome.log)) == values["calls"]
    # THEN without other thresholds only the line with more than 100 calls is named
    assert lines(findings_of(outcome)) == {9: 120}


def str_site(finding: Finding) -> str:
    site = finding.sites[0]
    return f"{site.file}:{site.line}:{site.function}"


@pytest.mark.parametrize("loop", EVENT_LOOPS)
def test_tasks_that_call_on_files(program: Runner, loop: str) -> None:
    # GIVEN three tasks that read and ask for files by functions of two lines of depth
    outcome = program.traced(program_of("asyncio", "directly", loop))
    # WHEN findings are made THEN each line is one, with exactly the calls that were made beneath the loop
    check_tasks(outcome, program.folder, "asyncio")


@pytest.mark.parametrize("loop", EVENT_LOOPS)
def test_tasks_that_let_threads_call(program: Runner, loop: str) -> None:
    outcome = program.traced(program_of("asyncio", "asyncio.to_thread", loop))
    assert len(outcome.select(op="stat", site=f"{program.folder}/program.py:9:ask")) == 120
    assert none(findings_of(outcome, ALL), SLUG)


@pytest.mark.parametrize("run", ["directly", "threads"])
@pytest.mark.parametrize(("library", "loop"), [("trio", "trio"), ("anyio", "asyncio"), ("anyio", "trio")])
def test_tasks_of_other_libraries(program: Runner, library: str, loop: str, run: str) -> None:
    for needed in (library, loop):
        pytest.importorskip(needed, reason=f"tasks of {needed} are what is tried here")
    outcome = program.traced(program_of(library, "directly" if run == "directly" else THREADS[library], loop))
    if run == "directly":
        check_tasks(outcome, program.folder, library)
    else:
        assert len(outcome.select(op="stat", site=f"{program.folder}/program.py:9:ask")) == 120
        assert none(findings_of(outcome, ALL), SLUG)


def test_tasks_that_start_at_once(program: Runner) -> None:
    # GIVEN tasks that run up to their first await in the stack of the one that makes them
    if sys.version_info < (3, 12):
        pytest.skip("asyncio has eager tasks from Python 3.12 on")
    eager = "run = directly\n        asyncio.get_running_loop().set_task_factory(asyncio.eager_task_factory)"
    outcome = program.traced(program_of("asyncio", "directly").replace("run = directly", eager))
    assert lines(findings_of(outcome, ALL)) == {4: 40, 5: 40, 6: 40, 9: 120}


CALLBACKS = """
import asyncio, functools, os
import helper
def called(): helper.ask(".")
async def main():
    loop = asyncio.get_running_loop()
    done = asyncio.Event()
    for n in range(5):
        loop.call_later(0.001 * n, called)
    loop.call_soon(functools.partial(os.stat, "."))    # without a line of the program
    loop.call_later(0.01, done.set)
    await done.wait()
    await loop.run_in_executor(None, called)
    task = asyncio.create_task(asyncio.sleep(0))
    task.add_done_callback(lambda task: os.stat("program.py"))
    await asyncio.wait_for(task, 60)
called()
asyncio.run(main())
"""


def test_callbacks(program: Runner) -> None:
    # GIVEN callbacks that ask for a file by a function of another module, which is also called elsewhere
    program.write("import os\ndef ask(path): os.stat(path)\n", "helper.py")
    outcome = program.traced(CALLBACKS)
    assert len(outcome.select(op="stat", site=lambda site: site is not None and "helper.py:2" in site)) == 7
    # THEN the line is the helper's, with the calls of the callbacks only
    asked, last = sorted(of_rule(outcome), key=lambda one: str(one.sites[0]))
    assert str(asked.sites[0]) == "helper.py:2" and asked.evidence[0].values["calls"] == 5
    assert str(last.sites[0]) == "program.py:15" and last.files == [f"{program.folder}/program.py"]
    assert [int(row["calls"]) for row in evidence_of(asked, outcome.log)] == [5]


ONE_TASK = """
import asyncio, os
def config():
    with open("config.json") as file:
        return file.read()
async def main():
    for n in range(TIMES):
        config()
    await asyncio.sleep(0)
with open("config.json", "w") as file: file.write("{}")
asyncio.run(main())
"""


def test_one_task_that_reads_its_configuration(program: Runner) -> None:
    outcome = program.traced(ONE_TASK.replace("TIMES", "1"))
    assert none(findings_of(outcome), SLUG)
    # WHEN all is to be named, and nothing is too little for a warning THEN it is no warning: nobody is known to wait
    found = of_rule(outcome)
    assert {one.sites[0].line for one in found} == {4, 5}
    assert {(one.severity, one.confidence.level) for one in found} == {("info", "low")}
    assert all("of one coroutine or callback" in one.evidence[0].text for one in found)


def test_a_program_without_a_loop(program: Runner) -> None:
    outcome = program.traced(ONE_TASK.replace("TIMES", "200").replace("asyncio.run(main())", "main().send(None)"))
    assert len(outcome.select(op="open", layer="app", path=program.folder / "config.json")) == 201
    assert of_rule(outcome) == []


SERVER = """
import asyncio
async def serve(reader, writer):
    await reader.readexactly(1000)
    with open("answer", "rb", buffering=0) as file:
        writer.write(file.read())
    writer.close()
async def main():
    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    for n in range(20):
        reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
        writer.write(bytes(1000))
        await reader.readexactly(1000)
        writer.close()
        await writer.wait_closed()
    server.close()
with open("answer", "wb") as file: file.write(bytes(1000))
if LOOP == "uvloop":
    import uvloop
    uvloop.run(main())
else:
    asyncio.run(main())
"""


@pytest.mark.parametrize("loop", EVENT_LOOPS)
def test_a_server(program: Runner, loop: str) -> None:
    # GIVEN a server of which only one coroutine calls on files, and twenty connections
    found = of_rule(program.traced(SERVER.replace("LOOP", repr(loop))))
    # THEN the sockets suggest that others wait, with less confidence than calls of other coroutines would give
    assert {one.sites[0].line for one in found} == {5, 6}
    assert all(one.confidence.value <= 0.6 and "of sockets were counted" in one.evidence[0].text for one in found)
    if loop == "asyncio":  # uvloop uses io_uring, which weakens all findings of a log
        assert {(one.severity, one.confidence.level) for one in found} == {("warning", "medium")}


@pytest.mark.parametrize("loop", EVENT_LOOPS)
def test_many_loops(program: Runner, loop: str) -> None:
    # GIVEN many loops, each of which has sockets of its own to be woken up by, and one task
    run = "asyncio.run" if loop == "asyncio" else "__import__('uvloop').run"
    text = ONE_TASK.replace("TIMES", "1").replace("asyncio.run(main())", f"for n in range(40): {run}(main())")
    # THEN these sockets are nobody that waits
    found = of_rule(program.traced(text))
    assert found and all("of one coroutine or callback" in one.evidence[0].text for one in found)


IMPORTS = """
import asyncio
async def main():
    import own
    own.read()
    import colorsys
asyncio.run(main())
"""


def test_imports_in_a_coroutine(program: Runner) -> None:
    # GIVEN a module that reads a file when it is imported, and again when it is asked to
    program.write("import os\nos.stat('.')\ndef read():\n    os.stat('.')\n", "own.py")
    outcome = program.traced(IMPORTS)
    assert len(outcome.select(op="stat", site=lambda site: site is not None and "own.py:" in site)) == 2
    # THEN what the import did is none of the task's calls
    assert lines(findings_of(outcome, ALL), "own.py") == {4: 1}


def test_a_run_without_stacks(program: Runner) -> None:
    text = program_of("asyncio", "directly")
    outcome = program.traced(text, env={"PYIO_TRACE_STACKS": "off"})
    assert len(outcome.select(op="stat")) >= 120 and of_rule(outcome) == []


def of_rule(outcome: Outcome) -> list[Finding]:
    return [one for one in findings_of(outcome, ALL) if one.slug == SLUG]


def test_a_profile(program: Runner) -> None:
    # GIVEN a log of sums of like calls
    outcome = program.traced(program_of("asyncio", "directly"), env={"PYIO_TRACE_MODE": "profile"})
    found = of_rule(outcome)
    # THEN the calls are the same, and the longest one is that of the sums
    assert {one.sites[0].line: one.evidence[0].values["calls"] for one in found} == {4: 40, 5: 40, 6: 40, 9: 120}
    for one in found:
        rows = outcome.select(site=str_site(one), call_stack=lambda stack: "Handle._run;" in stack)
        longest = [json.loads(row["detail"])["longest_ns"] if row["calls"] > 1 else row["duration"] for row in rows]
        assert one.evidence[0].values["longest_ns"] == max(longest)
        assert "alternate" in one.evidence[0].text and "at least" not in one.evidence[0].text


@pytest.mark.once
def test_several_processes_give_the_same(program: Runner, monkeypatch: pytest.MonkeyPatch) -> None:
    # GIVEN a packed log of many row groups
    outcome = program.traced(program_of("asyncio", "directly"))
    monkeypatch.setattr(packer, "_ROW_GROUP", 50)
    packer.pack(outcome.path, program.folder / "packed.parquet")
    log, rules = pyio_trace.open(program.folder / "packed.parquet"), {SLUG: registry.found()[SLUG]}
    _, expected = insights.find(log, rules, ALL)
    # WHEN two processes read it THEN the findings are those of one, and of the live log
    with local_processes(2) as workers:
        _, found = insights.find(log, rules, ALL, workers=workers)
    assert found == expected and len(found.findings) == 4
    assert insights.find(outcome.log, rules, ALL)[1].findings == expected.findings


# ---- stacks

RUN = "/a/p.py:9:<module>;/py/asyncio/runners.py:195:run;/py/asyncio/runners.py:118:Runner.run"
LOOP = f"{RUN};/py/asyncio/base_events.py:719:BaseEventLoop.run_until_complete"
STEP = f"{LOOP};/py/asyncio/events.py:94:Handle._run"
NURSERY = "/a/p.py:9:<module>;/s/site-packages/trio/_core/_run.py:2532:run"
TURN = f"{NURSERY};/s/site-packages/trio/_core/_run.py:2866:unrolled_run"
MAIN, FILES = "/a/p.py:5:main", "/usr/lib/python3.14/pathlib/__init__.py:787:Path.read_text"
ANYIO_RUN = "/s/site-packages/anyio/_core/_tasks.py:327:TaskHandle._run_coro"
KERNEL = "/s/site-packages/ipykernel/kernelbase.py:500:Kernel.dispatch_shell"
IMPORT = "<frozen importlib._bootstrap>:1387:_find_and_load"
SERVE = "/s/site-packages/aiohttp/web.py:502:run_app"
ROOT = "/a/p.py:main"


@pytest.mark.once
@pytest.mark.parametrize(
    ("stack", "expected"),
    [
        (f"{STEP};{MAIN}", Beneath("asyncio", "asyncio", ROOT)),
        (f"{STEP};{MAIN};{FILES}", Beneath("asyncio", "asyncio", ROOT)),
        (f"{STEP};{MAIN};/a/q.py:2:read".replace("Handle._run", "_run"), Beneath("asyncio", "asyncio", ROOT)),
        (f"...;/py/asyncio/events.py:94:Handle._run;{MAIN}", Beneath("asyncio", "asyncio", ROOT)),
        (f"{IMPORT};{STEP};{MAIN}", Beneath("asyncio", "asyncio", ROOT)),
        (f"{STEP};{ANYIO_RUN};{MAIN}", Beneath("asyncio", "anyio", ROOT)),
        (f"{TURN};{MAIN}", Beneath("trio", "trio", ROOT)),
        (f"{TURN};{ANYIO_RUN};{MAIN}", Beneath("trio", "anyio", ROOT)),
        (f"{RUN};{MAIN}", Beneath("uvloop", "asyncio", ROOT)),
        (f"{RUN};/s/site-packages/uvloop/__init__.py:48:run.<locals>.wrapper;{MAIN}",
         Beneath("uvloop", "asyncio", ROOT)),
        (f"/a/p.py:9:<module>;{SERVE};{MAIN}", Beneath("uvloop", "asyncio", ROOT)),
        (None, None),
        ("", None),
        (MAIN, None),
        (f"...;{MAIN}", None),
        (STEP, None),
        (f"{STEP};{FILES}", None),
        (LOOP, None),
        (f"{LOOP};/py/asyncio/base_events.py:2050:BaseEventLoop._run_once;/py/selectors.py:415:select", None),
        (f"{RUN};/py/asyncio/runners.py:140:Runner._lazy_init;{MAIN}", None),
        (f"{STEP};{MAIN};{IMPORT};/a/q.py:1:<module>", None),
        (f"{STEP};{KERNEL};/s/site-packages/IPython/core/interactiveshell.py:3700:run_code;{MAIN}", None),
        (f"{STEP};/py/asyncio/__main__.py:34:callback;<console>:1:<module>", None),
        (f"{NURSERY};{MAIN}", None),
        ("/py/threading.py:1002:Thread._bootstrap;/py/concurrent/futures/thread.py:58:_WorkItem.run;" + MAIN, None),
    ],
)  # fmt: skip
def test_stacks(stack: str | None, expected: Beneath | None) -> None:
    assert beneath(stack) == expected
