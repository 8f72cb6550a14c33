"""What the rule about event loops sums up, and what its thresholds and its confidence rest on, in logs made by hand."""

from __future__ import annotations

import pickle
from collections.abc import Mapping
from pathlib import Path

import pytest

import pyio_trace
from pyio_trace.analysis.reducer import scan
from pyio_trace.analysis.scan.decoding import decoded
from pyio_trace.insights import insights, loop_calls, registry
from pyio_trace.insights.finding import Finding
from pyio_trace.insights.loop_calls import LOOPS, LoopCalls, LoopTable
from pyio_trace.insights.settings import Settings
from pyio_trace.log import layout
from tests.support.logwriter import LogWriter, Thread

pytestmark = pytest.mark.once

SLUG = "blocking-call-in-event-loop"
MS = 1_000_000


def by_hand() -> tuple[LogWriter, Thread, list[int]]:
    """(a log of a run of a second, the thread of its loop, stacks: of a task's line, of another task's, of no task)."""
    writer = LogWriter()
    process = writer.process(100, argv=["python", "p.py"], begin=1_000, end=1_000 * MS, end_kind=layout.END_EXIT,
                             end_status=0, stack_state=1, version=b"3.11.7")  # fmt: skip
    run = (writer.code("/py/asyncio/events.py", "Handle._run"), 80), (writer.code("/a/p.py", "<module>"), 9)
    stacks = [writer.stack((writer.code("/a/p.py", name), line), *run) for name, line in (("one", 5), ("two", 6))]
    return writer, writer.thread(process, 100), [*stacks, writer.stack((writer.code("/a/p.py", "one"), 5))]


def found_of(table: LoopTable) -> dict[tuple[str | None, str | None], tuple[int, ...]]:
    """By line and path: calls, time, longest."""
    calls = table.calls.columns
    keys = zip(
        map(table.calls.site, calls["site"].tolist()), map(table.calls.path, calls["path"].tolist()), strict=True
    )
    values = zip(*(calls[name].tolist() for name in ("calls", "time", "longest")), strict=True)
    return dict(zip(keys, values, strict=True))


def written(tmp_path: Path) -> pyio_trace.Log:
    """Three files that two tasks use in turns; a request in a request, with a call inside; calls of no task."""
    writer, thread, (one, two, none_) = by_hand()
    files = [writer.desc(3 + n, f"/d/{n}", kind=1, dev=1, ino=11 + n) for n in range(3)]
    for n in range(12):
        thread.record("PREAD", begin=(10 + 10 * n) * MS, duration=(n + 1) * 1000, desc=files[n % 3], aux=3, offset=0,
                      size=10, result=10, stack=(one, two, none_)[n % 3])  # fmt: skip
    span = thread.record("SPAN_APP", begin=200 * MS, duration=7 * MS, aux=writer.string("pandas.read_csv"), offset=0,
                         stack=one, desc=files[0])  # fmt: skip
    inner = thread.record("SPAN_APP", begin=201 * MS, duration=6 * MS, aux=writer.string("pandas.read_csv"), offset=0,
                          stack=one, desc=files[0], parent=span, link=1)  # fmt: skip
    thread.record("FSYNC", begin=201 * MS, duration=5 * MS, desc=files[0], aux=3, stack=one, parent=inner, link=1)
    thread.record("FSYNC", begin=300 * MS, duration=5 * MS, desc=files[1], aux=3, stack=two)
    return pyio_trace.open(writer.save(tmp_path / "run.pyio"))


LINES = ("/a/p.py:5:one", "/a/p.py:6:two")


@pytest.mark.parametrize("rows", [1, 2, 5, 100])
def test_batches_of_any_size_give_the_same(tmp_path: Path, rows: int) -> None:
    log = written(tmp_path)
    parts = [pickle.loads(pickle.dumps(LOOPS)).partial(batch) for batch in decoded(log, LOOPS.columns, rows)]
    # WHEN parts are sent and combined, neighbours first
    while len(parts) > 1:
        pairs = [parts[n : n + 2] for n in range(0, len(parts), 2)]
        parts = [LOOPS.combine(*map(pickle.loads, map(pickle.dumps, pair))) if pair[1:] else pair[0] for pair in pairs]
    table = LOOPS.finish(parts[0], log)
    # THEN the request counts once, with its own time
    assert found_of(table) == {
        (LINES[0], "/d/0"): (5, 22_000 + 7 * MS, 7 * MS),
        (LINES[1], "/d/1"): (5, 26_000 + 5 * MS, 5 * MS),
    }
    assert {stack.root for stack in table.stacks} == {"/a/p.py:one", "/a/p.py:two"}


def test_nothing_to_sum(tmp_path: Path) -> None:
    log = written(tmp_path)
    assert found_of(LOOPS.finish(None, log)) == {}


def test_like_calls_in_one_row(tmp_path: Path) -> None:
    # GIVEN 1,000 lines of a text that have one row, of 30 ms, and one read beneath them, of 9 ms
    writer, thread, (one, _, _) = by_hand()
    file = writer.desc(3, "/d/lines", kind=1, dev=1, ino=11)
    request = thread.record("A_TEXT_NEXT", begin=100 * MS, duration=30 * MS, flags=layout.COALESCED, desc=file,
                            aux=1000, offset=40 * MS, result=30_000, stack=one)  # fmt: skip
    thread.record("PREAD", begin=105 * MS, duration=9 * MS, desc=file, aux=3, offset=0, size=32_768, result=30_000,
                  parent=request, link=1, stack=one)  # fmt: skip
    # THEN the loop stood still for the lines, and at least for that read at once
    (finding,) = limited(pyio_trace.open(writer.save(tmp_path / "run.pyio")), {})
    assert finding.evidence[0].values == {"calls": 1000, "time_ns": 30 * MS, "longest_ns": 9 * MS}
    assert "in the longest call for at least 9 ms" in finding.evidence[0].text
    assert finding.recoverable_ns == 30 * MS


def test_sums_of_many_paths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # GIVEN 40 files of a line, of which the last has two calls, and room for ten sums
    writer, thread, (one, _, _) = by_hand()
    files = [writer.desc(3 + n, f"/d/{n}", kind=1, dev=1, ino=11 + n) for n in range(40)]
    for n in range(41):
        thread.record("FSYNC", begin=(10 + n) * MS, duration=1000, desc=files[min(n, 39)], aux=3, stack=one)
    log = pyio_trace.open(writer.save(tmp_path / "run.pyio"))
    monkeypatch.setattr(loop_calls, "MOST", 10)
    (table,) = scan(log, [LoopCalls()])
    # THEN all calls are there, most of them without a path
    found = found_of(table)
    assert sum(calls for calls, _, _ in found.values()) == 41 and table.calls.total("time") == 41_000
    assert found[LINES[0], "/d/39"][0] == 2 and len(found) < 10 and table.calls.more > 0


def limited(log: pyio_trace.Log, limits: Mapping[str, float]) -> list[Finding]:
    _, found = insights.find(log, {SLUG: registry.found()[SLUG]}, Settings(limits={SLUG: limits}))
    assert found.failed == {}
    return found.findings


@pytest.mark.parametrize(
    ("limits", "expected"),
    [
        ({}, []),
        ({"ms": 7}, [5]),
        ({"ms": 5}, [5, 6]),
        ({"ms": 5, "longest_ms": 7}, [5]),
        ({"ms": 5, "longest_ms": 8}, []),
        ({"ms": 5, "longest_ms": 8, "calls": 5}, [5, 6]),
        ({"ms": 5, "longest_ms": 8, "calls": 6}, []),
    ],
)
def test_thresholds(tmp_path: Path, limits: Mapping[str, float], expected: list[int]) -> None:
    found = limited(written(tmp_path), limits)
    assert [one.sites[0].line for one in found] == expected
    assert all("Calls of 2 coroutines or callbacks alternate" in one.evidence[0].text for one in found)


def test_coroutines_one_after_the_other(tmp_path: Path) -> None:
    # GIVEN a coroutine that has made its last call when another makes its first
    writer, thread, (one, two, _) = by_hand()
    file = writer.desc(3, "/d/0", kind=1, dev=1, ino=11)
    for n in range(4):
        thread.record("FSYNC", begin=(100 + 100 * n) * MS, duration=50 * MS, desc=file, aux=3, stack=(one, two)[n // 2])
    # THEN neither is known to wait for the other
    found = limited(pyio_trace.open(writer.save(tmp_path / "run.pyio")), {})
    assert [one.confidence.level for one in found] == ["low", "low"] and found[0].recoverable_ns == 100 * MS


def test_coroutines_that_are_at_work_at_other_times(tmp_path: Path) -> None:
    # GIVEN a line of a coroutine whose calls are over when another coroutine begins, and a later one whose are not
    writer, thread, (one, two, _) = by_hand()
    file = writer.desc(3, "/d/0", kind=1, dev=1, ino=11)
    later = writer.stack((writer.code("/a/p.py", "one"), 7), (writer.code("/py/asyncio/events.py", "Handle._run"), 80))
    for n, stack in enumerate((one, one, later, two, later)):
        thread.record("FSYNC", begin=(100 + 100 * n) * MS, duration=50 * MS, desc=file, aux=3, stack=stack)
    found = limited(pyio_trace.open(writer.save(tmp_path / "run.pyio")), {})
    assert {one.sites[0].line: one.confidence.level for one in found} == {5: "low", 6: "medium", 7: "medium"}


def test_coroutines_that_share_a_line(tmp_path: Path) -> None:
    # GIVEN a helper's line that two coroutines use, and a third that makes a call when neither is at work
    writer, thread, (_, two, _) = by_hand()
    file, run = writer.desc(3, "/d/0", kind=1, dev=1, ino=11), (writer.code("/py/asyncio/events.py", "Handle._run"), 80)
    helper = writer.code("/a/p.py", "helper"), 8
    first, last = (writer.stack(helper, (writer.code("/a/p.py", name), 20), run) for name in ("first", "last"))
    for n, stack in enumerate((first, first, two, last, last)):
        thread.record("FSYNC", begin=(100 + 100 * n) * MS, duration=50 * MS, desc=file, aux=3, stack=stack)
    found = limited(pyio_trace.open(writer.save(tmp_path / "run.pyio")), {})
    assert {one.sites[0].line: one.confidence.level for one in found} == {8: "low", 6: "low"}


def test_calls_inside_requests_of_another_line(tmp_path: Path) -> None:
    # GIVEN a request whose only call on a file is on another line of the program
    writer, thread, (one, two, _) = by_hand()
    file = writer.desc(3, "/d/0", kind=1, dev=1, ino=11)
    span = thread.record("SPAN_APP", begin=200 * MS, duration=7 * MS, aux=writer.string("pandas.read_csv"), offset=0,
                         stack=one, desc=file)  # fmt: skip
    thread.record("FSYNC", begin=201 * MS, duration=5 * MS, desc=file, aux=3, stack=two, parent=span, link=1)
    # THEN the request's line is the only one
    found = limited(pyio_trace.open(writer.save(tmp_path / "run.pyio")), {"ms": 0, "calls": 0, "longest_ms": 0})
    assert [(one.sites[0].line, one.evidence[0].values["calls"]) for one in found] == [(5, 1)]
