"""Concurrency, overlap, shared files, sizes: against logs by hand, programs, and brute force."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pyio_trace.analysis.reducer import found, scan
from pyio_trace.analysis.sums.event_counts import EventCounts
from pyio_trace.analysis.sums.grouped_ranges import GroupedRanges
from pyio_trace.join.sources.facade import Log
from pyio_trace.join.sources.opening import open_log
from pyio_trace.log import layout
from tests.support.logwriter import LogWriter
from tests.support.programs import Runner, succeeded
from tests.support.smallrun import small_run

pytestmark = pytest.mark.once

MS = 1_000_000


def result(log: Log, name: str) -> Any:
    (one,) = scan(log, [found()[name]()])
    return one


@pytest.fixture
def log(tmp_path: Path) -> Log:
    """The main thread reads from 10 to 20 ms and waits from 40 to 50; another reads from 15 to 45 ms."""
    writer = LogWriter()
    process = writer.process(100, argv=["python", "train.py"], begin=0, end=60 * MS)
    desc = writer.desc(3, "/d/data", kind=1, dev=1, ino=11)
    main, other = writer.thread(process, 100), writer.thread(process, 101)
    main.record("PREAD", begin=10 * MS, duration=10 * MS, desc=desc, aux=3, offset=0, size=5, result=5)
    main.record("WAITPID", begin=40 * MS, duration=10 * MS)
    other.record("PREAD", begin=15 * MS, duration=30 * MS, desc=desc, aux=3, offset=0, size=5, result=5)
    return open_log(writer.save(tmp_path / "run.pyio"))


def test_calls_in_flight(log: Log) -> None:
    view = result(log, "concurrency")
    assert (view.peak_calls, view.busy_ns, view.io_ns, view.resolution_ns) == (2, 35 * MS, 40 * MS, 1)
    assert [(row.in_flight, row.calls_ns) for row in view.rows] == [(1, 30 * MS), (2, 5 * MS)]
    assert view.mean_calls == pytest.approx(40 / 35) and view.unplaced_ns == 0


def test_what_is_hidden_behind_the_main_thread(log: Log) -> None:
    view = result(log, "overlap")
    (row,) = view.rows
    assert (row.io_ns, row.main_io_ns, row.other_io_ns) == (35 * MS, 10 * MS, 30 * MS)
    # from 15 to 20 ms the main thread reads itself, from 40 to 45 it waits
    assert (row.hidden_ns, row.exposed_ns, row.wait_ns) == (20 * MS, 15 * MS, 10 * MS)
    assert (row.left_out_ns, view.left_out_ns) == (0, 0)
    assert row.hidden == pytest.approx(20 / 35) and (view.hidden_ns, view.exposed_ns) == (20 * MS, 15 * MS)


def test_calls_that_have_no_times_of_their_own_are_not_hidden(tmp_path: Path) -> None:
    # GIVEN a single call, and one row for many short calls: 2 ms of I/O somewhere within 20 ms
    writer = LogWriter()
    process = writer.process(100, begin=0, end=60 * MS)
    desc = writer.desc(3, "/d/data", kind=1, dev=1, ino=11)
    other = writer.thread(process, 101)
    other.record("PREAD", begin=10 * MS, duration=10 * MS, desc=desc, aux=3, offset=0, size=5, result=5)
    other.record("FGETC", begin=30 * MS, duration=2 * MS, flags=layout.COALESCED, desc=desc, aux=9, offset=20 * MS,
                 result=9)  # fmt: skip
    log = open_log(writer.save(tmp_path / "run.pyio"))
    # WHEN overlap and concurrency are computed THEN both leave out the 2 ms, and say so
    overlap, concurrency = result(log, "overlap"), result(log, "concurrency")
    assert (overlap.io_ns, overlap.hidden_ns, overlap.unplaced_ns) == (10 * MS, 10 * MS, 2 * MS)
    assert (concurrency.busy_ns, concurrency.unplaced_ns) == (10 * MS, 2 * MS)


def test_overlap_says_what_it_forgot(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    # GIVEN room for two intervals, where there are three WHEN overlap is asked for
    monkeypatch.setattr(GroupedRanges.__init__, "__defaults__", (2,))
    view = result(log, "overlap")
    # THEN the time that cannot be split is given, and what it would be split into is a bound, or not known
    (row,) = view.rows
    assert (row.left_out_ns, view.left_out_ns) == (40 * MS, 40 * MS)
    assert (row.io_ns, row.hidden_ns, row.exposed_ns, row.hidden) == (0, None, None, None)
    assert (view.hidden_ns, view.exposed_ns) == (None, None)


def test_a_share_of_a_part_is_no_share(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    # GIVEN that the last read's kind is known, and those of the others were forgotten WHEN overlap is asked for
    forget = GroupedRanges.ranges

    def ranges(self: GroupedRanges) -> Any:
        (process, kind), starts, ends = forget(self)
        return (process, np.where(kind == kind.max(), kind, -1)), starts, ends

    monkeypatch.setattr(GroupedRanges, "ranges", ranges)
    (row,) = result(log, "overlap").rows
    # THEN what is hidden is not known, and neither is its share
    assert row.io_ns > 0 and row.left_out_ns > 0
    assert (row.hidden_ns, row.hidden) == (None, None)


@pytest.mark.parametrize("most", [1 << 20, 50])
def test_levels_are_those_of_brute_force(most: int) -> None:
    # GIVEN intervals at random, in several parts, and room for all moments or for few
    chance = np.random.default_rng(3)
    begin = chance.integers(0, 4000, 300)
    end = begin + chance.integers(0, 300, 300)
    parts = []
    for at in np.array_split(np.arange(300), 7):
        part = EventCounts(most)
        part.add(begin[at], end[at])
        parts.append(part)
    whole = parts.pop(3)
    for part in parts:
        whole.update(part)
    levels = whole.levels()
    # WHEN the levels are made THEN they are those of each nanosecond, or their mean has the same sum
    depth = np.zeros(4400, np.int64)
    for first, last in zip(begin, end, strict=True):
        depth[first:last] += 1
    total = sum(number * time for number, time in enumerate(levels.time, 1))
    if most == 50:
        assert levels.resolution > 1 and levels.peak >= int(depth.max())
        assert total == pytest.approx(int(depth.sum()), rel=0.1)
    else:
        assert levels.time == np.bincount(depth)[1:].tolist() and levels.peak == int(depth.max())
        assert (levels.first, levels.last) == (int(begin[end > begin].min()), int(end.max()))


SHARED = """\
import os
fd = os.open("both", os.O_RDWR | os.O_CREAT)
os.pwrite(fd, bytes(1000), 0)
os.pread(fd, 100, 0)
os.close(fd)
if os.fork() == 0:
    fd = os.open("both", os.O_RDWR)
    os.pread(fd, 300, 500)
    os.pwrite(fd, bytes(2000), 900)
    os.close(fd)
    own = os.open("own", os.O_WRONLY | os.O_CREAT)
    os.write(own, bytes(10))
    os._exit(0)
child, _ = os.wait()
print(child)
"""


def test_files_of_several_processes(program: Runner) -> None:
    # GIVEN two processes that use one file WHEN shared files are asked for THEN it is there, and no other
    outcome = succeeded(program.traced(SHARED))
    rows = [row for row in result(outcome.log, "shared_files").rows if row.path.startswith(str(outcome.path.parent))]
    (row,) = rows
    assert (row.path, row.processes, row.readers, row.writers) == (str(outcome.path.parent / "both"), 2, 2, 2)
    assert (row.read_bytes, row.written_bytes) == (400, 3000)
    # the first one touched 0 to 1000, the other 500 to 800 and 900 to 2900; all of what is common was written
    assert (row.common_bytes, row.conflict_bytes) == (300 + 100, 300 + 100)
    assert row.bytes_ratio == pytest.approx(2300 / 1700) and f"({outcome.stdout.strip()})" in row.most


def test_who_copies_from_a_file_reads_it(tmp_path: Path) -> None:
    # GIVEN a process that copies a shared file to a private one, and another process that reads the same bytes
    writer = LogWriter()
    first, second = (writer.process(pid, begin=0, end=60 * MS) for pid in (100, 200))
    source, target = (writer.desc(3 + n, f"/d/{n}", kind=1, dev=1, ino=n + 1) for n in range(2))
    copied = {"offset": 0, "size": 30, "result": 30}
    writer.thread(first, 100).record("SENDFILE", begin=10 * MS, desc=source, aux=target, **copied)
    writer.thread(second, 200).record("PREAD", begin=20 * MS, desc=source, aux=3, **copied)
    # WHEN shared files are listed THEN the shared file has no writer and no conflict
    (row,) = result(open_log(writer.save(tmp_path / "run.pyio")), "shared_files").rows
    assert (row.path, row.readers, row.writers, row.read_bytes, row.written_bytes) == ("/d/0", 2, 0, 60, 0)
    assert (row.common_bytes, row.conflict_bytes) == (30, 0)


@pytest.mark.parametrize(("most", "known"), [(4, (400, None)), (1, (None, None))])
def test_shared_bytes_are_not_told_where_memory_does_not_suffice(
    program: Runner, monkeypatch: pytest.MonkeyPatch, most: int, known: tuple[int | None, ...]
) -> None:
    # GIVEN room for the ranges of processes, but not for whether they wrote; or for neither
    outcome = succeeded(program.traced(SHARED))
    monkeypatch.setattr(GroupedRanges.__init__, "__defaults__", (most,))
    # WHEN shared files are asked for THEN what cannot be told is not told, and nothing else changes
    (row,) = [row for row in result(outcome.log, "shared_files").rows if row.path.endswith("/both")]
    assert (row.common_bytes, row.conflict_bytes) == known
    assert (row.processes, row.readers, row.writers, row.written_bytes) == (2, 2, 2, 3000)


def test_bytes_that_all_only_read_are_no_conflict(program: Runner) -> None:
    text = SHARED.replace("os.pwrite(fd, bytes(1000), 0)", "os.ftruncate(fd, 1000)")
    text = text.replace("os.pwrite(fd, bytes(2000), 900)", "os.pread(fd, 10, 90)")
    outcome = succeeded(program.traced(text))
    (row,) = [row for row in result(outcome.log, "shared_files").rows if row.path.endswith("/both")]
    assert (row.common_bytes, row.conflict_bytes, row.writers) == (10, 0, 0)


def test_sizes_of_requests_and_calls(tmp_path: Path) -> None:
    view = result(open_log(small_run(tmp_path / "run.pyio")), "access_sizes")
    rows = {(row.level, row.direction, row.size): (row.calls, row.moved_bytes) for row in view.rows}
    # 1,000 lines of 30 bytes, and a read of 100; beneath and beside: 8,192 twice, 30,000, 500, 4,096; a write of 1,000
    assert rows["requests", "read", "0-100"] == (1001, 30_100) and view.averaged == 1000
    assert rows["calls", "read", "1K-10K"] == (3, 8_192 + 8_192 + 4_096)
    assert rows["calls", "read", "10K-100K"] == (1, 30_000) and rows["calls", "read", "100-1K"] == (1, 500)
    assert rows["calls", "write", "100-1K"] == (1, 1_000)
