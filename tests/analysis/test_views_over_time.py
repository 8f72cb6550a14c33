"""Views over time: bins, heat map, phases, imbalance."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pyio_trace.analysis.reducer import scan
from pyio_trace.analysis.reducers.by_time import ByTime, TimeTable
from pyio_trace.analysis.reducers.heat_map import Heat, HeatMap
from pyio_trace.analysis.reducers.imbalance import Imbalance, ImbalanceOfKinds
from pyio_trace.analysis.reducers.phases import Phases, PhasesOfRun
from pyio_trace.analysis.sums.time_bins import TimeBins
from pyio_trace.join.sources.facade import Log
from pyio_trace.join.sources.opening import open_log
from tests.support.logwriter import LogWriter
from tests.support.programs import Runner, succeeded

pytestmark = pytest.mark.once

MS = 1_000_000


def written_by_hand(path: Path) -> Log:
    """Process 100 writes for 40 ms, both read from 100 to 180 ms, where 200 has three quarters; then it syncs."""
    writer = LogWriter()
    names = {"argv": ["python", "-c", "work()"]}
    first = writer.process(100, begin=0, end=400 * MS, **names)
    second = writer.process(200, ppid=100, parent=first, begin=0, end=400 * MS, **names)
    desc = writer.desc(3, "/d/data", kind=1, dev=1, ino=11)
    one, two = writer.thread(first, 100), writer.thread(second, 200)
    for n in range(4):
        one.record("PWRITE", begin=10 * n * MS, duration=10 * MS, desc=desc, aux=3, offset=0, size=50, result=50)
    one.record("PREAD", begin=100 * MS, duration=20 * MS, desc=desc, aux=3, offset=0, size=100, result=100)
    for n in range(3):
        two.record(
            "PREAD", begin=(120 + 20 * n) * MS, duration=20 * MS, desc=desc, aux=3, offset=0, size=100, result=100
        )
    one.record("FSYNC", begin=300 * MS, duration=50 * MS, desc=desc, aux=3)
    return open_log(writer.save(path))


@pytest.fixture
def log(tmp_path: Path) -> Log:
    return written_by_hand(tmp_path / "run.pyio")


def result(log: Log, reducer: Any) -> Any:
    (found,) = scan(log, [reducer])
    assert found.dropped == 0
    return found


def test_phases_between_gaps(log: Log) -> None:
    found = result(log, PhasesOfRun())
    assert isinstance(found, Phases)
    assert [phase.kind for phase in found.rows] == ["write", "read", "sync"]
    write, read, sync = found.rows
    # GIVEN bins of a certain width THEN begins and ends are right to that
    for phase, begin, end in ((write, 0, 40), (read, 100, 180), (sync, 300, 350)):
        assert abs(phase.begin_ns - begin * MS) <= found.width_ns and abs(phase.end_ns - end * MS) <= found.width_ns
    assert (write.io_ns, write.write_ns, write.calls, write.moved_bytes) == (40 * MS, 40 * MS, 4, 200)
    assert (read.io_ns, read.read_ns, read.processes, read.imbalance) == (80 * MS, 80 * MS, 2, 1.5)
    assert "(200)" in read.slowest and abs(sync.gap_ns - 120 * MS) <= 2 * found.width_ns
    assert found.width_ns <= 350 * MS / 128


def test_phases_of_one_kind_with_a_pause_between_them(tmp_path: Path) -> None:
    # GIVEN reads from 0 to 40 ms and from 300 to 350 ms
    writer = LogWriter()
    thread = writer.thread(writer.process(100, begin=0, end=400 * MS), 100)
    desc = writer.desc(3, "/d/data", kind=1, dev=1, ino=11)
    for begin, duration in ((0, 40), (300, 50)):
        thread.record("PREAD", begin=begin * MS, duration=duration * MS, desc=desc, aux=3, offset=0, size=9, result=9)
    # WHEN phases are computed THEN there are two
    found = result(open_log(writer.save(tmp_path / "run.pyio")), PhasesOfRun())
    assert [(phase.kind, phase.io_ns) for phase in found.rows] == [("read", 40 * MS), ("read", 50 * MS)]
    assert abs(found.rows[1].gap_ns - 260 * MS) <= 2 * found.width_ns


def test_ranks_are_compared_whatever_they_are_called(tmp_path: Path) -> None:
    # GIVEN two ranks that named themselves
    writer = LogWriter()
    desc = writer.desc(3, "/d/data", kind=1, dev=1, ino=11)
    for rank, name in enumerate(("reader.py", "writer.py")):
        process = writer.process(100 + rank, begin=0, end=400 * MS, global_rank=rank + 1, world_size=2,
                                 kind=writer.string("script"), name=writer.string(name))  # fmt: skip
        writer.thread(process, 100 + rank).record(
            "PREAD", begin=10 * MS, duration=(1 + rank) * MS, desc=desc, aux=3, offset=0, size=9, result=9
        )
    # WHEN imbalance is computed THEN they are compared with each other
    found = result(open_log(writer.save(tmp_path / "run.pyio")), ImbalanceOfKinds())
    assert [(row.kind, row.processes, row.largest_ns) for row in found.rows] == [("ranks", 2, 2 * MS)]


def test_imbalance_of_processes(log: Log) -> None:
    found = result(log, ImbalanceOfKinds())
    assert isinstance(found, Imbalance)
    rows = {row.kind: row for row in found.rows}
    (row,) = rows.values()
    # 100: 40 + 20 + 50 ms, 300 bytes; 200: 60 ms, 300 bytes
    assert (row.processes, row.io_ns, row.largest_ns) == (2, 170 * MS, 110 * MS)
    assert row.time_ratio == pytest.approx(110 / 85) and "(100)" in row.slowest
    assert (row.moved_bytes, row.largest_bytes, row.bytes_ratio) == (600, 300, 1.0)
    phases = {phase.phase: phase for phase in found.phases}
    assert phases["read"].time_ratio == 1.5 and phases["read"].bytes_ratio == 1.5
    assert phases["write"].time_ratio == 2.0  # one of two processes wrote all


def test_bins_add_up(log: Log) -> None:
    found = result(log, ByTime())
    assert isinstance(found, TimeTable)
    assert sum(row.io_ns for row in found.rows) == 170 * MS
    assert (sum(row.read_bytes for row in found.rows), sum(row.written_bytes for row in found.rows)) == (400, 200)
    assert all(row.io_ns <= found.width_ns for row in found.rows)  # nothing overlaps here
    few = result(log, ByTime(bins=4))
    assert len(few.rows) <= 4 and sum(row.io_ns for row in few.rows) == 170 * MS


def test_metadata_over_time(tmp_path: Path) -> None:
    # GIVEN calls that open, stat, seek, read and close a file
    writer = LogWriter()
    thread = writer.thread(writer.process(100, begin=0, end=400 * MS), 100)
    desc = writer.desc(3, "/d/data", kind=1, dev=1, ino=11)
    thread.record("OPEN", begin=10 * MS, desc=writer.string("/d/data"), aux=0, offset=desc, result=3)
    for number, op in enumerate(("FSTAT", "LSEEK", "READ", "CLOSE")):
        thread.record(op, begin=(20 + number) * MS, desc=desc, aux=3, offset=-1 if op == "READ" else 0)
    # WHEN sums over time are computed THEN all but the read are metadata
    found = result(open_log(writer.save(tmp_path / "run.pyio")), ByTime())
    assert sum(row.calls for row in found.rows) == 5
    assert sum(row.metadata for row in found.rows) == 4


def test_heat_map_by_process(log: Log) -> None:
    found = result(log, Heat())
    assert isinstance(found, HeatMap)
    one, two = found.rows
    assert found.bins <= 200 and {len(one.read_bytes), len(two.io_ns)} == {found.bins}
    assert (sum(one.read_bytes), sum(one.written_bytes), sum(one.io_ns)) == (100, 200, 110 * MS)
    assert (sum(two.read_bytes), sum(two.written_bytes), sum(two.io_ns)) == (300, 0, 60 * MS)
    at = (120 * MS - found.begin_ns) // found.width_ns
    assert two.read_bytes[at] == 100


def test_time_in_bins_is_that_of_brute_force() -> None:
    # GIVEN calls at random, in several parts
    chance = np.random.default_rng(7)
    begin = chance.integers(0, 5000, 400)
    end = begin + chance.integers(0, 900, 400)
    key = chance.integers(0, 3, 400)
    parts = []
    for at in np.array_split(np.arange(400), 9):
        part = TimeBins(("key",), ("calls",), bins=16)
        part.add({"key": key[at]}, begin[at], end[at], {"calls": np.ones(len(at), np.int64)})
        parts.append(part)
    # WHEN they are added up in another order than that of time
    whole = parts.pop(4)
    for part in parts:
        whole.update(part)
    # THEN each bin has the time that the calls spent in it
    assert whole.width == 512  # 5,900 ns in at most 16 bins
    expected: dict[tuple[int, int], list[int]] = {}
    for first, last, which in zip(begin.tolist(), end.tolist(), key.tolist(), strict=True):
        for bin_begin in range(first // 512 * 512, last + 1, 512):
            sums = expected.setdefault((bin_begin, which), [0, 0])
            sums[0] += min(last, bin_begin + 512) - max(first, bin_begin)
            sums[1] += bin_begin <= first
    found = whole.columns()
    rows = zip(*(found[name].tolist() for name in ("bin", "key", "time", "calls")), strict=True)
    assert {(at, which): [time, calls] for at, which, time, calls in rows} == expected


def test_wider_bins_still_say_what_was_dropped() -> None:
    # GIVEN ten keys and room for four sums WHEN a late call makes the time bins wider
    part = TimeBins(("key",), ("calls",), bins=4, most=4)
    keys = np.arange(10)
    part.add({"key": keys}, keys, keys + 1, {"calls": np.ones(10, np.int64)})
    part.columns()
    dropped = part.dropped
    part.add({"key": keys[:1]}, keys[:1] + 5000, keys[:1] + 5001, {"calls": keys[:1]})
    # THEN the sums dropped before are still reported as dropped
    assert part.dropped >= dropped > 0


def test_one_process_does_all(program: Runner) -> None:
    # GIVEN a parent that writes little and a child that writes much WHEN their balance is asked for
    text = """\
        import os
        def write(count):
            fd = os.open("data", os.O_WRONLY | os.O_CREAT)
            for n in range(count): os.pwrite(fd, bytes(1000), 0)
            os.close(fd)
        write(1)
        if os.fork() == 0:
            write(99)
            os._exit(0)
        child, _ = os.wait()
        print(child)
        """
    outcome = succeeded(program.traced(text))
    found = result(outcome.log, ImbalanceOfKinds())
    (row,) = [row for row in found.rows if row.kind == "all processes"]
    # THEN it is that of 100 writes, of which the child made 99; a print and the like are beside them
    assert row.processes == 2 and f"({outcome.stdout.strip()})" in row.most_bytes
    assert row.largest_bytes == 99_000 and row.bytes_ratio == pytest.approx(99 / 50, rel=0.05)
