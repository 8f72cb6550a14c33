"""Reads and writes by file and line: against what a program says that it did."""

from __future__ import annotations

from dataclasses import replace
from functools import reduce

import pytest

from pyio_trace.analysis.calls.call_order import PendingCalls
from pyio_trace.analysis.reducer import scan
from pyio_trace.analysis.reducers.accesses import Access, Accesses, AccessesByLine
from pyio_trace.analysis.scan.decoding import decoded
from pyio_trace.analysis.view_sums import access_sums
from tests.support.programs import Outcome, Runner, succeeded

pytestmark = pytest.mark.once

#: Line -> what it does; each file and line is one pattern of access.
PROGRAM = """\
import os
fd = os.open("data", os.O_RDWR | os.O_CREAT)
os.write(fd, bytes(100_000))
os.close(fd)
fd = os.open("data", os.O_RDONLY)
while os.read(fd, 1000): pass                                       # 6: in order, to the end
os.close(fd)
fd = os.open("data", os.O_RDONLY)
for n in range(20): os.pread(fd, 4096, 4096 * (19 - n))             # 9: backwards, aligned
os.close(fd)
fd = os.open("data", os.O_RDONLY)
for n in range(10): os.pread(fd, 100, 8192 * n + 1)                 # 12: strided, not aligned
os.close(fd)
fd = os.open("data", os.O_RDWR)
for n in range(5):
    os.pwrite(fd, bytes(10), 4096 * n)                              # 16: after each, a read
    os.pread(fd, 10 + n % 2, 0)                                     # 17
os.close(fd)
for n in range(3):
    fd = os.open(f"part{n}", os.O_WRONLY | os.O_CREAT)
    os.write(fd, bytes(50 * (n + 1)))                               # 21: three files
    os.close(fd)
"""


def accesses(outcome: Outcome) -> Accesses:
    (found,) = scan(outcome.log, [AccessesByLine()])
    assert isinstance(found, Accesses) and found.dropped == 0
    return found


def of_line(rows: list[Access], line: int, direction: str = "read") -> list[Access]:
    return [row for row in rows if f"program.py:{line}:" in (row.line or "") and row.direction == direction]


def test_accesses_of_lines(program: Runner) -> None:
    # GIVEN a program whose lines each access a file in one way WHEN their accesses are summed THEN they say so
    outcome = succeeded(program.traced(PROGRAM))
    found = accesses(outcome)
    (row,) = of_line(found.rows, 6)
    assert (row.path, row.calls, row.moved_bytes) == (str(outcome.path.parent / "data"), 101, 100_000)
    assert (row.first, row.consecutive, row.forward, row.backward) == (1, 100, 0, 0)
    assert row.common_sizes == [(1000, 100), (0, 1)] and (row.smallest_bytes, row.largest_bytes) == (0, 1000)
    (row,) = of_line(found.rows, 9)
    assert (row.first, row.consecutive, row.forward, row.backward) == (1, 0, 0, 19)
    assert (row.unaligned, row.unaligned_end, row.block_bytes) == (0, 0, 4096)
    (row,) = of_line(found.rows, 12)
    assert (row.first, row.forward, row.strides, row.unaligned) == (1, 9, [(8092, 9)], 10)
    (read,), (written,) = of_line(found.rows, 17), of_line(found.rows, 16, "write")
    assert (written.switches, read.switches) == (5, 5)  # the first write too: reads came before it
    assert written.strides == [(4086, 4)] and read.common_sizes == [(10, 3), (11, 2)]
    assert read.backward == 4


def test_switches_are_counted_across_openings(program: Runner) -> None:
    found = accesses(succeeded(program.traced(PROGRAM)))
    assert sum(row.switches for row in found.lines) == 1 + 5 + 5  # the first is between lines 3 and 6


def test_lines_add_up_their_files(program: Runner) -> None:
    outcome = succeeded(program.traced(PROGRAM))
    found = accesses(outcome)
    (line,) = of_line(found.lines, 21, "write")
    assert len(of_line(found.rows, 21, "write")) == 3
    assert (line.path, line.files, line.calls) == (str(outcome.path.parent / "part*"), 3, 3)
    assert (line.smallest_bytes, line.largest_bytes, line.moved_bytes) == (50, 150, 300)


def test_order_does_not_depend_on_how_many_calls_wait(program: Runner, monkeypatch: pytest.MonkeyPatch) -> None:
    # GIVEN a result, and a bound on the calls that wait for their order, so low that it is met at each batch
    outcome = succeeded(program.traced(PROGRAM))
    whole = accesses(outcome)
    monkeypatch.setattr(access_sums, "PENDING", 20)
    monkeypatch.setattr(PendingCalls, "CHUNK", 1)
    reducer = AccessesByLine()
    # WHEN small batches are combined THEN the result is the same
    parts = [reducer.partial(batch) for batch in decoded(outcome.log, reducer.columns, rows=16)]
    assert len(parts) > 5
    assert reducer.finish(reduce(reducer.combine, parts), outcome.log) == whole


def test_sizes_and_strides_of_lines_only(program: Runner) -> None:
    # GIVEN a result WHEN sizes and strides are summed by line THEN lines are the same, and files lack just these
    log = succeeded(program.traced(PROGRAM)).log
    whole, lines = (scan(log, [AccessesByLine(by_line=by_line)])[0] for by_line in (False, True))
    assert lines.lines == whole.lines and any(line.strides for line in lines.lines)
    assert lines.rows == [replace(row, common_sizes=[], strides=[]) for row in whole.rows]
