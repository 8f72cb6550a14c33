"""Metadata operations by path and line: against what a program says that it did."""

from __future__ import annotations

from functools import reduce

import pytest

from pyio_trace.analysis.calls.call_order import PendingCalls
from pyio_trace.analysis.reducer import scan
from pyio_trace.analysis.reducers.metadata import Metadata, MetadataByPath, MetadataCalls
from pyio_trace.analysis.scan.decoding import decoded
from pyio_trace.analysis.view_sums import metadata_sums
from tests.support.programs import Outcome, Runner, succeeded

pytestmark = pytest.mark.once

PROGRAM = """\
import os, threading
os.mkdir("folder")
for n in range(10):
    fd = os.open("data", os.O_RDWR | os.O_CREAT)                # 4: opened ten times
    os.close(fd)
for n in range(7): os.path.exists("nothing")                    # 6: missing
for n in range(3):
    if os.path.exists("data"):                                  # 8
        os.stat("data")                                         # 9: asks again
        fd = os.open("data", os.O_RDONLY)                       # 10: after asking
        os.close(fd)
for n in range(5): os.listdir("folder")                         # 12
for n in range(4):
    fd = os.open(f"temp{n}", os.O_WRONLY | os.O_CREAT)          # 14: four paths
    os.close(fd)
    os.unlink(f"temp{n}")                                       # 16
"""
POLLING = """\
import os, time

for n in range(20):
    time.sleep(0.01)
    os.path.exists("lock")                                      # 5: 10 ms apart, or more on a busy machine
"""


def metadata(outcome: Outcome) -> Metadata:
    (found,) = scan(outcome.log, [MetadataByPath()])
    assert isinstance(found, Metadata) and found.dropped == 0
    return found


def row(found: Metadata, line: int, op: str) -> MetadataCalls:
    (one,) = [row for row in found.rows if f"program.py:{line}:" in (row.line or "") and row.op == op]
    return one


def test_calls_by_path_and_line(program: Runner) -> None:
    # GIVEN a program with storms of metadata calls WHEN they are summed THEN each line has its own
    outcome = succeeded(program.traced(PROGRAM))
    found = metadata(outcome)
    opened = row(found, 4, "open")
    assert (opened.path, opened.kind, opened.calls) == (str(outcome.path.parent / "data"), "open", 10)
    assert (opened.reopens, opened.checked, opened.missing) == (9, 0, 0)
    missing = row(found, 6, "stat")
    assert (missing.kind, missing.calls, missing.missing, missing.errors, missing.again) == ("ask", 7, 7, 7, 6)
    assert (row(found, 8, "stat").again, row(found, 9, "stat").again) == (0, 3)
    assert (row(found, 10, "open").checked, row(found, 10, "open").reopens) == (3, 3)
    assert [one.calls for one in found.rows if one.kind == "list" and ":12:" in (one.line or "")] == [5]
    assert 0 <= opened.first_ns < opened.last_ns


def test_closing_a_file_is_not_between_two_looks_at_it(program: Runner) -> None:
    # GIVEN a file that is stat()ed, closed, stat()ed again, closed again, and opened
    text = """\
        import os
        one, two = (os.open("data", os.O_RDWR | os.O_CREAT) for _ in range(2))
        os.stat("data")
        os.close(one)
        os.stat("data")                                         # 5: again
        os.close(two)
        os.open("data", os.O_RDONLY)                            # 7: after asking
        """
    # WHEN its metadata calls are summed THEN closing it changes nothing
    found = metadata(succeeded(program.traced(text)))
    assert row(found, 5, "stat").again == 1
    assert row(found, 7, "open").checked == 1


def test_sums_by_line_and_by_path(program: Runner) -> None:
    outcome = succeeded(program.traced(PROGRAM))
    found = metadata(outcome)
    lines = {(line.line or "").rsplit(":", 2)[1]: line for line in found.lines if "program.py" in (line.line or "")
             and line.kind in ("open", "remove")}  # fmt: skip
    assert (lines["14"].paths, lines["14"].calls, lines["14"].reopens) == (4, 4, 0)
    assert (lines["16"].paths, lines["16"].kind) == (4, "remove")
    paths = {path.path: path for path in found.paths}
    data = paths[str(outcome.path.parent / "data")]
    assert (data.asks, data.opens, data.reopens, data.checked, data.processes) == (6, 13, 12, 3, 1)
    temp = paths[str(outcome.path.parent / "temp0")]
    assert (temp.opens, temp.removes) == (1, 1)
    assert found.calls == sum(one.calls for one in found.paths) == sum(one.calls for one in found.lines)


def test_polling_has_an_interval(program: Runner) -> None:
    polled = row(metadata(succeeded(program.traced(POLLING))), 5, "stat")
    assert polled.calls == 20 and polled.interval_ns is not None
    # THEN the interval is known to a tenth: no two calls were closer than the program slept
    assert polled.interval_ns > 9_000_000


def test_quartiles_of_intervals() -> None:
    import numpy as np

    bins = metadata_sums._bins(np.array([1000] * 6 + [1_000_000] * 2))
    distinct, counts = np.unique(bins, return_counts=True)
    low, middle, high = metadata_sums.quartiles(distinct, counts)
    assert low == middle == high and 900 < middle < 1100


def test_order_does_not_depend_on_how_many_calls_wait(program: Runner, monkeypatch: pytest.MonkeyPatch) -> None:
    outcome = succeeded(program.traced(PROGRAM))
    whole = metadata(outcome)
    monkeypatch.setattr(metadata_sums, "PENDING", 10)
    monkeypatch.setattr(PendingCalls, "CHUNK", 1)
    reducer = MetadataByPath()
    parts = [reducer.partial(batch) for batch in decoded(outcome.log, reducer.columns, rows=8)]
    assert len(parts) > 5
    assert reducer.finish(reduce(reducer.combine, parts), outcome.log) == whole
