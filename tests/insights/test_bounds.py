"""What insights keep of a large run is bounded, and what they leave out is counted."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pyio_trace.analysis.reducer import scan
from pyio_trace.analysis.reducers import library_calls, line_calls
from pyio_trace.analysis.reducers.library_calls import LibraryCalls
from pyio_trace.analysis.reducers.line_calls import LineCalls
from pyio_trace.analysis.scan.decoding import decoded
from pyio_trace.cli.main import main
from pyio_trace.insights import insights, registry
from pyio_trace.insights.settings import Settings
from pyio_trace.join.sources.opening import open_log
from tests.insights.test_formats import PROGRAM
from tests.support.logwriter import LogWriter
from tests.support.programs import Runner, succeeded

pytestmark = pytest.mark.once


def test_findings_of_one_rule(
    program: Runner, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    # GIVEN a run with three findings of one rule, of which the second takes the most time
    twice = PROGRAM.replace("range(50)", "range(200)")
    log = succeeded(program.traced(PROGRAM + twice + PROGRAM)).log
    rules = {"sync-per-write": registry.found()["sync-per-write"]}
    every = insights.find(log, rules, Settings())[1]
    assert len(every.findings) == 3 and every.more == {}
    # WHEN one is listed THEN it is that, and the others are counted
    monkeypatch.setattr(insights, "MOST_OF_A_RULE", 1)
    found = insights.find(log, rules, Settings())[1]
    assert found.findings == every.findings[:1] and found.more == {"sync-per-write": 2}
    # THEN a format that has no place for this number leaves it to stderr
    assert main(["insights", str(log.path), "--rule", "sync-per-write", "--format", "json"]) == 0
    out, err = capfd.readouterr()
    assert len(json.loads(out)) == 1 and "2 further findings of sync-per-write" in err


STATS = """
import os
for n in range(300):
    try: os.stat(f"missing{n}")
    except OSError: pass
for n in range(500):
    os.stat(".")
"""


def test_calls_of_many_paths(program: Runner, monkeypatch: pytest.MonkeyPatch) -> None:
    # GIVEN calls on 301 paths, of which one has more than the others
    log = succeeded(program.traced(STATS)).log
    every = scan(log, [LineCalls()])[0]
    asking = every.where(op=("stat",), own=True)
    assert asking.total("calls") == 800 and asking.distinct("path") == 301 and every.more == 0
    # WHEN there is memory for far fewer sums
    monkeypatch.setattr(line_calls, "MOST", 60)
    found = scan(log, [LineCalls()])[0]
    # THEN all calls and their time are there, the common path too, and it is said that others have none
    few = found.where(op=("stat",), own=True)
    assert few.total("calls") == 800 and few.total("time") == asking.total("time")
    assert few.distinct("path") < 60
    assert max(group.calls for group in few.by("path") if group["path"] >= 0) == 500
    assert found.more > 200
    said = insights.find(log, registry.found(), Settings())[1].weak
    assert any("were added up without their paths" in text for text in said)


LINES = """
for n in range(20):
    with open("lines", "w") as file:
        for line in range(100): file.write("x" * 5000)
"""


def test_calls_beneath_file_objects_need_no_memory(program: Runner) -> None:
    # GIVEN a run that only uses Python's file objects, which are no calls of libraries
    log = succeeded(program.traced(LINES)).log
    reducer = LibraryCalls()
    (batch,) = decoded(log, reducer.columns)
    # THEN nothing is kept of the calls beneath them
    beneath = reducer.partial(batch).beneath.columns()
    assert sum(request is not None for request in batch["request_id"].to_pylist()) > 1000
    assert len(beneath["request"]) == 0


def test_calls_of_libraries_beyond_those_kept_are_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # GIVEN six calls of a library in two batches, and room for two
    writer = LogWriter()
    thread = writer.thread(writer.process(100), 100)
    for number in range(6):
        thread.record("SPAN_APP", begin=2_000 + 100 * number, aux=writer.string("pandas.read_csv"), offset=0)
    monkeypatch.setattr(library_calls, "_MOST", 2)
    log, reducer = open_log(writer.save(tmp_path / "run.pyio")), LibraryCalls()
    first, second = map(reducer.partial, decoded(log, reducer.columns, 3))
    # WHEN they are combined THEN two are kept, and the result says how many are missing
    found = reducer.finish(reducer.combine(first, second), log)
    assert (len(found), found.dropped) == (2, 4)
