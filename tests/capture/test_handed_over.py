"""Work submitted to another thread's event loop or pool: its span, and the line that submitted it."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest

from pyio_trace.analysis.summary.summarize import summarize
from pyio_trace.join.pack.packer import pack
from pyio_trace.join.sources.opening import open_log
from pyio_trace.report.text import print_summary
from tests.capture.test_threads import NO_TASKS
from tests.support import frameworks
from tests.support.programs import Outcome, Row, Runner, alike, succeeded

#: A loop in a thread that was started outside of any span.
PRELUDE = """\
import asyncio, os, sys, threading
import pyio_trace
{imported}
loop = {loop}.new_event_loop()
thread = threading.Thread(target=loop.run_forever)
thread.start()

def stop():
    loop.call_soon_threadsafe(loop.stop)
    thread.join()
"""
LOOPS = pytest.mark.parametrize("loop", frameworks.LOOPS)


def prelude(loop: str) -> str:
    return PRELUDE.format(loop=loop, imported="" if loop == "asyncio" else f"import {loop}")


def line_of(text: str, part: str) -> int:
    """The number of the one line that has this in it."""
    (found,) = [number for number, line in enumerate(text.splitlines(), 1) if part in line]
    return found


def known(outcome: Outcome, row: Row) -> tuple[Any, ...]:
    """What is known of where a row comes from: its outermost span, link, line and mark."""
    spans = [parent["op"] for parent in outcome.parents(row)]
    file, line, function = row["site"].rsplit(":", 2)
    return spans[-1] if spans else None, row["link"], Path(file).name, int(line), function, row["submitted"]


def check_given_away(outcome: Outcome, gives: int) -> None:
    """Both calls have their giver's line, marked as submitted; the one given away in the span has the span too."""
    for name, span, link in (("inside", "load", "context"), ("outside", None, "none")):
        (row,) = outcome.select(op="stat", path=outcome.path.parent / name)
        assert known(outcome, row) == (span, link, "program.py", gives, "give", True)
        assert "run_coroutine_threadsafe" not in row["call_stack"] and "program.py" not in row["call_stack"]


@LOOPS
def test_coroutines_for_another_threads_loop(program: Runner, tmp_path: Path, loop: str) -> None:
    # GIVEN coroutines of the library's alone that are given to another thread's loop, in a span and outside of any; in
    # a thread pool of that loop they look at files
    text = prelude(loop) + (
        "def give(name):\n"
        "    coroutine = asyncio.to_thread(os.path.exists, name)\n"
        "    return asyncio.run_coroutine_threadsafe(coroutine, loop).result()  # gives\n"
        "async def own():\n"
        "    os.stat('.')  # own\n"
        "    await asyncio.sleep(0)\n"
        "    await asyncio.to_thread(os.path.exists, 'of-own')  # hands on\n"
        "with pyio_trace.span('load'):\n"
        "    give('inside')\n"
        "    asyncio.run_coroutine_threadsafe(own(), loop).result()\n"
        "give('outside')\n"
        "stop()\n"
    )
    # WHEN it is run traced, and its log packed
    outcome = succeeded(program.traced(text, env=NO_TASKS))
    pack(outcome.path, tmp_path / "run.parquet")
    assert open_log(tmp_path / "run.parquet").operations().equals(outcome.table)
    # THEN each has its caller's span, and its caller's line, which is marked as such
    check_given_away(outcome, line_of(text, "# gives"))
    (of_own,) = outcome.select(op="stat", path=tmp_path / "of-own")
    assert known(outcome, of_own) == ("load", "context", "program.py", line_of(text, "# hands on"), "own", True)
    # THEN what has a line of the program's on its own stack keeps that
    (own,) = outcome.select(op="stat", path=tmp_path)
    assert known(outcome, own) == ("load", "context", "program.py", line_of(text, "# own"), "own", False)


@LOOPS
def test_callbacks_for_another_threads_loop(program: Runner, tmp_path: Path, loop: str) -> None:
    # GIVEN library functions that are given to another thread's loop as callbacks, also of a loop that runs in a span
    text = prelude(loop) + (
        "def give(name):\n"
        "    loop.call_soon_threadsafe(os.path.exists, name)  # gives\n"
        "with pyio_trace.span('load'):\n"
        "    give('inside')\n"
        "give('outside')\n"
        "stop()\n"
        "def later():\n"
        "    loop.call_soon_threadsafe(os.path.exists, 'of nobody')\n"
        "    loop.call_soon_threadsafe(loop.stop)\n"
        "with pyio_trace.span('serve'):\n"
        "    import _thread\n"
        "    beside = threading.Timer(0, later)\n"
        "    loop.call_soon(beside.start)\n"
        "    loop.run_forever()\n"
        "    beside.join()\n"
    )
    # WHEN it is run traced THEN they have the caller's span and line, and where the caller had no span the loop's
    outcome = succeeded(program.traced(text))
    check_given_away(outcome, line_of(text, "# gives"))
    (of_nobody,) = outcome.select(op="stat", path=tmp_path / "of nobody")
    assert [parent["op"] for parent in outcome.parents(of_nobody)] == ["serve"]


def test_a_pool_runs_what_the_program_gave_it(program: Runner, tmp_path: Path) -> None:
    # GIVEN a thread pool that runs functions of the library's, and one of the program's
    text = (
        "import os\n"
        "from concurrent.futures import ThreadPoolExecutor\n"
        "def own(name):\n"
        "    os.path.exists(name)  # own\n"
        "with ThreadPoolExecutor(1) as pool:\n"
        "    for name in ('one', 'two'):\n"
        "        pool.submit(os.path.exists, name).result()  # submits\n"
        "    list(pool.map(os.path.exists, ['mapped']))  # maps\n"
        "    pool.submit(own, 'own').result()\n"
    )
    # WHEN it is run traced THEN the first have the lines that submitted them, marked, the other has its own
    outcome = succeeded(program.traced(text))
    expected = {"one": "# submits", "two": "# submits", "mapped": "# maps", "own": "# own"}
    for name, part in expected.items():
        (row,) = outcome.select(op="stat", path=tmp_path / name)
        _, _, file, line, _, submitted = known(outcome, row)
        assert (file, line, submitted) == ("program.py", line_of(text, part), name != "own"), name
    # THEN the summary says so
    sites = {site.site.split(":", 1)[1]: site for site in summarize(outcome.log).sites}
    submits = sites[f"{line_of(text, '# submits')}:<module>"]
    assert (submits.count, submits.submitted) == (2, 2)
    assert sites[f"{line_of(text, '# own')}:own"].submitted == 0
    told = io.StringIO()
    print_summary(summarize(outcome.log), told, names=None)
    assert f":{line_of(text, '# maps')}:<module> (submitted)" in told.getvalue()


def test_a_thread_that_is_started_in_a_span(program: Runner, tmp_path: Path) -> None:
    # GIVEN a thread of a library function alone, started in a span WHEN it is run traced THEN it is the starter's
    text = (
        "import os, pyio_trace, threading\n"
        "with pyio_trace.span('load'):\n"
        "    thread = threading.Thread(target=os.path.exists, args=['one'])\n"
        "    thread.start()  # starts\n"
        "    thread.join()\n"
    )
    outcome = succeeded(program.traced(text))
    (row,) = outcome.select(op="stat", path=tmp_path / "one")
    assert known(outcome, row) == ("load", "context", "program.py", line_of(text, "# starts"), "<module>", True)


@pytest.mark.parametrize("mode", ["trace", "profile"])
def test_runs_of_small_calls_end_with_their_submitter(program: Runner, tmp_path: Path, mode: str) -> None:
    # GIVEN two lines that submit reads of one file to one pool thread, in alternation
    (tmp_path / "text").write_text("line\n" * 1000)
    text = (
        "from concurrent.futures import ThreadPoolExecutor\n"
        "with ThreadPoolExecutor(1) as pool, open('text') as file:\n"
        "    file.readline()\n"
        "    for _ in range(3):\n"
        "        for _ in range(20): pool.submit(file.readline).result()  # first\n"
        "        for _ in range(20): pool.submit(file.readline).result()  # second\n"
    )
    # WHEN it is run traced THEN each line has all of its own calls
    outcome = succeeded(program.traced(text, env={"PYIO_TRACE_MODE": mode}))
    calls = {"# first": 0, "# second": 0}
    for row in outcome.select(op="TextIOWrapper.readline", submitted=lambda mark: mark):
        line = int(row["site"].rsplit(":", 2)[1])
        calls[next(part for part in calls if line_of(text, part) == line)] += row["calls"]
    assert calls == {"# first": 60, "# second": 60}


def test_small_calls_of_callbacks_are_their_submitters(program: Runner, tmp_path: Path) -> None:
    # GIVEN two lines that submit callbacks outside any span, each of which reads a line of one file
    (tmp_path / "text").write_text("line\n" * 1000)
    text = prelude("asyncio") + (
        "done, file = threading.Event(), open('text')\n"
        "for _ in range(3):\n"
        "    for _ in range(20): loop.call_soon_threadsafe(file.readline)  # first\n"
        "    for _ in range(20): loop.call_soon_threadsafe(file.readline)  # second\n"
        "loop.call_soon_threadsafe(done.set)\n"
        "done.wait()\n"
        "stop()\n"
    )
    # WHEN it is run traced THEN each line has all of its own calls
    outcome = succeeded(program.traced(text))
    calls = {line_of(text, "# first"): 0, line_of(text, "# second"): 0}
    for row in outcome.select(op="TextIOWrapper.readline"):
        assert row["parent"] is None and row["submitted"]
        calls[int(row["site"].rsplit(":", 2)[1])] += row["calls"]
    assert list(calls.values()) == [60, 60]


def test_work_that_submits_itself_does_not_grow_the_log(program: Runner) -> None:
    # GIVEN a callback that gives itself to its loop, and work that hands itself from pool to loop and back, many times
    text = prelude("asyncio") + (
        "from concurrent.futures import ThreadPoolExecutor\n"
        "pool, done = ThreadPoolExecutor(1), threading.Event()\n"
        "def tick(left):\n"
        "    os.path.exists('.')\n"
        "    if left: loop.call_soon_threadsafe(tock, left - 1)\n"
        "    else: done.set()\n"
        "def tock(left):\n"
        "    os.path.exists('.')\n"
        "    if left % 3: loop.call_soon_threadsafe(tock, left - 1)\n"
        "    else: pool.submit(tick, left)\n"
        "loop.call_soon_threadsafe(tick, int(sys.argv[1]))\n"
        "done.wait()\n"
        "pool.shutdown()\n"
        "stop()\n"
    )
    # WHEN it goes on for longer THEN a log of sums, which has each stack once, is no larger
    profile = {"PYIO_TRACE_MODE": "profile", "PYIO_TRACE_SAMPLE": "off", **NO_TASKS}  # the longer, the more samples
    sizes = [succeeded(program.traced(text, turns, env=profile)).log.info()["bytes"] for turns in (300, 3000)]
    assert sizes[0] == sizes[1]


@LOOPS
def test_giving_away_leaves_no_trace_in_the_program(program: Runner, loop: str) -> None:
    # GIVEN a program that looks at functions, contexts and errors around what it gives to another thread's loop
    text = prelude(loop) + (
        "import contextvars, pickle\n"
        "given = type(loop).call_soon_threadsafe\n"
        "print(len(contextvars.copy_context()), type(given).__name__, given.__name__)\n"
        "print(given is type(loop).call_soon_threadsafe)\n"
        "try:\n"
        "    loop.call_soon_threadsafe()\n"
        "except TypeError as error:\n"
        "    print(type(error), error.__context__)\n"
        "own = contextvars.ContextVar('own')\n"
        "own.set(5)\n"
        "with pyio_trace.span('load'):\n"
        "    seen = []\n"
        "    async def look():\n"
        "        return own.get()\n"
        "    print(asyncio.run_coroutine_threadsafe(look(), loop).result(), len(contextvars.copy_context()))\n"
        "stop()\n"
        "loop.close()\n"
        "try:\n"
        "    loop.call_soon_threadsafe(print)\n"
        "except RuntimeError as error:\n"
        "    print(error, len(contextvars.copy_context()))\n"
    )
    # WHEN it is run bare and traced THEN it says the same
    alike(succeeded(program.traced(text)), program.bare(text))


def test_zarr_reads_belong_to_the_line_that_asked(program: Runner, tmp_path: Path) -> None:
    # GIVEN an array of 16 chunks, which zarr writes and reads in threads of a loop of its own
    zarr = pytest.importorskip("zarr", reason="zarr is not installed")
    if int(zarr.__version__.split(".")[0]) < 3:
        pytest.skip("zarr before 3 has no event loop")
    text = (
        "import zarr, pyio_trace\n"
        "array = zarr.create_array('array', shape=(64,), chunks=(4,), dtype='i8', compressors=None)\n"
        "array[:] = range(64)\n"
        "with pyio_trace.span('load'):\n"
        "    print(int(array[:].sum()))\n"
        "print(int(array[:32].sum()))\n"
    )
    # WHEN it is run traced THEN the chunks are read for the line that asked for them, and in its span
    outcome = succeeded(program.traced(text))
    assert outcome.stdout.split() == ["2016", "496"]
    chunks = [row for row in outcome.rows if row["path"] and row["path"].startswith(f"{tmp_path}/array/c/")]
    assert {Path(row["site"].rsplit(":", 2)[0]).name for row in chunks} == {"program.py"}
    moved: dict[tuple[Any, ...], int] = {}
    for row in chunks:
        if row["layer"] == "posix" and row["bytes_moved"]:
            span = next((parent["op"] for parent in outcome.parents(row) if parent["layer"] == "user"), None)
            place = (row["op"], int(row["site"].rsplit(":", 2)[1]), row["submitted"], span)
            moved[place] = moved.get(place, 0) + row["bytes_moved"]
    assert moved == {("write", 3, True, None): 512, ("read", 5, True, "load"): 512, ("read", 6, True, None): 256}


def test_fsspec_reads_belong_to_the_line_that_asked(program: Runner, tmp_path: Path) -> None:
    # GIVEN a file that fsspec reads by coroutines on a loop of its own
    pytest.importorskip("fsspec.implementations.asyn_wrapper", reason="no fsspec with its asynchronous wrapper")
    (tmp_path / "data").write_bytes(bytes(1000))
    text = (
        "import os, pyio_trace\n"
        "from fsspec.implementations.asyn_wrapper import AsyncFileSystemWrapper\n"
        "from fsspec.implementations.local import LocalFileSystem\n"
        "files = AsyncFileSystemWrapper(LocalFileSystem(), asynchronous=False)\n"
        "with pyio_trace.span('load'):\n"
        "    print(len(files.cat_file(os.path.abspath('data'))))  # reads\n"
    )
    # WHEN it is run traced THEN all its operations on the file are of that line, in that span
    outcome = succeeded(program.traced(text))
    assert outcome.stdout == "1000\n"
    rows = outcome.select(path=tmp_path / "data")
    assert sum(row["bytes_moved"] or 0 for row in rows if row["layer"] == "posix") == 1000
    lines = {(Path(file).name, int(line)) for file, line, _ in (row["site"].rsplit(":", 2) for row in rows)}
    assert lines == {("program.py", line_of(text, "# reads"))}
    assert {(known(outcome, row)[0], row["submitted"]) for row in rows} == {("load", True)}
