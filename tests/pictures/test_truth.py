"""The data of each picture is what the run did, and its table says the same."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pyio_trace.analysis.reducer import scan
from pyio_trace.analysis.reducers.latencies import LatenciesOfCalls
from pyio_trace.analysis.reducers.offsets import PARTS, OffsetsOfFiles
from pyio_trace.join.sources.facade import Log
from pyio_trace.join.sources.opening import open_log
from pyio_trace.pictures.found import found, results_of
from pyio_trace.units import number, seconds, size
from tests.support.logwriter import LogWriter
from tests.support.programs import Runner, succeeded

MS = 1_000_000


def drawn(log: Log, name: str) -> list[tuple[Any, Any]]:
    """(data, picture) of each drawing of one kind."""
    kind = next(kind for kind in found() if kind.name == name)
    return [(data, kind.picture(data, place)) for place, data in enumerate(kind.data(results_of(log, [kind])), 1)]


def only(log: Log, name: str) -> tuple[Any, Any]:
    (one,) = drawn(log, name)
    return one


class Job:
    """A log by hand, from tick 1,000: processes 100 and 200 on /d/data, with lines 5 and 7 of /w/job.py."""

    def __init__(self) -> None:
        self.writer = LogWriter()
        first = self.writer.process(100, argv=["python", "job.py"], begin=0, end=1000 * MS, stack_state=1)
        second = self.writer.process(
            200, argv=["python", "job.py"], parent=first, begin=0, end=1000 * MS, stack_state=1
        )
        self.threads = [self.writer.thread(first, 100, 1 << 20), self.writer.thread(second, 200, 1 << 20)]
        self.desc = self.writer.desc(3, "/d/data", kind=1, dev=1, ino=11)
        code = self.writer.code("/w/job.py", "main")
        self.stacks = {line: self.writer.stack((code, line)) for line in (5, 7)}

    def call(
        self, op: str, process: int, begin: int, duration: int, offset: int = 0, moved: int = 0, line: int = 5
    ) -> None:
        self.threads[process].record(
            op, begin=1000 + begin, duration=duration, desc=self.desc, aux=3, offset=offset, size=moved, result=moved,
            stack=self.stacks[line],
        )  # fmt: skip

    def log(self, folder: Path) -> Log:
        return open_log(self.writer.save(folder / "run.pyio"))


def test_the_heat_map_has_the_bytes_of_each_process_and_time(tmp_path: Path) -> None:
    # GIVEN a process that writes 50 bytes every 10 ms, 20 times, and another one that reads 70 every 20 ms, from 100 on
    job = Job()
    for at in range(20):
        job.call("PWRITE", 0, 10 * MS * at, MS, 50 * at, 50)
    for at in range(10):
        job.call("PREAD", 1, (100 + 20 * at) * MS, MS, 70 * at, 70)
    data, picture = only(job.log(tmp_path), "heat_map")
    # THEN each row has its own, where it was, and the table their sums
    assert [name.split(" ")[0] for name in data.rows] == ["job.py", "job.py"]
    assert [sum(row) for row in data.written] == [1000, 0] and [sum(row) for row in data.read] == [0, 700]
    for direction, row, step, moved, first in (("written", 0, 10, 50, 0), ("read", 1, 20, 70, 100)):
        times = [(first + step * at) * MS for at in range(1000 // 50 if step == 10 else 10)]
        edges = [data.begin_ns + data.width_ns * at for at in range(len(data.read[0]) + 1)]
        expected = np.histogram(np.array(times), edges)[0] * moved
        assert list(getattr(data, direction)[row]) == expected.tolist()
    assert [row[1:] for row in picture.rows] == [("0 B", "1000 B"), ("700 B", "0 B")]


def test_processes_beyond_those_that_fit_are_added_up(tmp_path: Path) -> None:
    # GIVEN 70 processes that write WHEN they are drawn THEN no byte is lost
    writer = LogWriter()
    desc = writer.desc(3, "/d/data", kind=1, dev=1, ino=1)
    for at in range(70):
        thread = writer.thread(writer.process(100 + at, argv=["python", "x.py"], begin=0, end=1000 * MS), 100 + at)
        thread.record("PWRITE", begin=at * MS, duration=5, desc=desc, aux=3, offset=0, size=at + 1, result=at + 1)
    data, _ = only(open_log(writer.save(tmp_path / "run.pyio")), "heat_map")
    assert len(data.rows) <= 32 and data.processes == 70
    assert sum(map(sum, data.written)) == sum(range(1, 71))


def test_offsets_of_few_transfers_are_those_of_the_program(tmp_path: Path) -> None:
    # GIVEN transfers of both directions, by two processes
    job = Job()
    done = [
        ("PREAD", 0, 10 * MS, 2 * MS, 0, 4096), ("PREAD", 1, 20 * MS, 3 * MS, 1 << 20, 100),
        ("PWRITE", 0, 30 * MS, 4 * MS, 5000, 300), ("PWRITE", 1, 40 * MS, 5 * MS, 9000, 700),
        ("PREAD", 0, 50 * MS, MS, 0, 4096),
    ]  # fmt: skip
    for one in done:
        job.call(*one)
    data, picture = only(job.log(tmp_path), "offsets")
    # THEN each is where it was, to the byte and the ns
    cells = [(one.direction, one.begin_ns, one.end_ns, one.low_bytes, one.high_bytes, one.calls) for one in data.cells]
    assert cells == [
        ("read" if op == "PREAD" else "write", begin, begin + time, offset, offset + moved, 1)
        for op, _, begin, time, offset, moved in done
    ]
    assert (data.read_bytes, data.written_bytes, data.end_bytes) == (8292, 1000, (1 << 20) + 100)
    assert data.times_read[0] == pytest.approx(2 * 4096 / (data.end_bytes / PARTS))
    assert [(row[0], row[2], row[5]) for row in picture.rows] == [
        (direction, size(low), size(high - low)) for direction, _, _, low, high, _ in cells
    ]


def test_offsets_of_many_transfers_lose_none(tmp_path: Path) -> None:
    # GIVEN 30,000 transfers at random places and times WHEN there are too many to draw THEN they share cells,
    # which hold them all
    random = np.random.default_rng(5)
    job = Job()
    count = 30_000
    begins = np.sort(random.integers(0, 900 * MS, count)).tolist()
    offsets, sizes = random.integers(0, 1 << 30, count).tolist(), random.integers(1, 1 << 16, count).tolist()
    for at, (begin, offset, moved) in enumerate(zip(begins, offsets, sizes, strict=True)):
        job.call("PREAD" if at % 3 else "PWRITE", at % 2, begin, 1000, offset, moved)
    log = job.log(tmp_path)
    (result,) = scan(log, [OffsetsOfFiles()])
    (file,) = result.rows
    assert result.dropped == 0 and len(file.cells) <= 4096
    assert sum(cell.calls for cell in file.cells) == file.calls == count
    assert sum(cell.moved_bytes for cell in file.cells) == file.read_bytes + file.written_bytes == sum(sizes)
    low = min(offsets), max(offset + moved for offset, moved in zip(offsets, sizes, strict=True))
    assert (min(cell.low_bytes for cell in file.cells), file.end_bytes) == low
    # AND the parts of a file have, rounded, all the bytes of their processes
    for user in file.users:
        mine = [moved for at, moved in enumerate(sizes) if at % 2 == (0 if "(100)" in user.process else 1)]
        assert sum(user.read_bytes) + sum(user.written_bytes) == pytest.approx(sum(mine), abs=2 * PARTS)


def test_who_shares_a_file_has_its_own_parts(tmp_path: Path) -> None:
    # GIVEN two processes, of which one reads the first half of a file, the other one the second one and 1,000 bytes
    job = Job()
    half = 64 * 4096
    for at in range(64):
        job.call("PREAD", 0, at * MS, 1000, 4096 * at, 4096)
        job.call("PREAD", 1, at * MS, 1000, half + 4096 * at, 4096)
    job.call("PREAD", 1, 200 * MS, 1000, 0, 1000)
    data, picture = only(job.log(tmp_path), "shared")
    first, second = data.read
    assert list(first) == [4096] * 64 + [0] * 64
    assert list(second) == [1000] + [0] * 63 + [4096] * 64
    assert data.common_bytes == 1000
    assert [row[1:3] for row in picture.rows] == [(size(half), "0 B"), (size(half + 1000), "0 B")]


def test_sizes_and_latencies_count_calls_and_time(tmp_path: Path) -> None:
    # GIVEN reads of 50 bytes that take 5 us each, one of 2 MB that takes 30 ms, and a sync of 2 s
    job = Job()
    for at in range(9):
        job.call("PREAD", 0, at * MS, 5000, 50 * at, 50)
    job.call("PREAD", 0, 20 * MS, 30 * MS, 0, 2_000_000)
    job.call("FSYNC", 0, 100 * MS, 2000 * MS)
    log = job.log(tmp_path)
    # THEN the bins have them
    data, picture = only(log, "sizes")
    assert (data.labels[0], data.labels[-1]) == ("up to 100 B", "1 MiB to 4 MiB")
    assert (data.calls["read"][0], data.calls["read"][-1]) == (9, 1)
    assert (data.time_ns["read"][0], data.time_ns["read"][-1]) == (45_000, 30 * MS)
    assert data.slowest == len(data.labels) - 1
    assert picture.rows == (
        ("up to 100 B", "reads", number(9), seconds(45_000)), ("1 MiB to 4 MiB", "reads", "1", seconds(30 * MS)),
    )  # fmt: skip
    data, picture = only(log, "latencies")
    shown = {label: (data.calls[kind][at], kind) for at, label in enumerate(data.labels) for kind in data.calls
             if data.calls[kind][at]}  # fmt: skip
    assert shown == {"1 to 10 us": (9, "read"), "10 to 100 ms": (1, "read"), "1 to 10 s": (1, "sync")}
    assert sum(int(row[2]) for row in picture.rows) == 11


def test_latencies_lie_in_their_bins(tmp_path: Path) -> None:
    # GIVEN calls of many durations, at the borders too WHEN they are counted THEN each is in the bin that holds it
    durations = [1, 2, 3, 5, 999, 1000, 1001, 1999, 2000, 4999, 5000, 10**7, 10**9 - 1]
    job = Job()
    for at, duration in enumerate(durations):
        job.call("PREAD", 0, at * MS, duration, 0, 10)
    (result,) = scan(job.log(tmp_path), [LatenciesOfCalls()])
    for row in result.rows:
        inside = [one for one in durations if row.from_ns <= one < row.to_ns]
        assert (row.kind, row.calls, row.time_ns, row.longest_ns) == ("read", len(inside), sum(inside), max(inside))
    assert sum(row.calls for row in result.rows) == len(durations)


def test_lines_and_flames_share_out_the_time(tmp_path: Path) -> None:
    # GIVEN reads of 30 ms at line 5 and writes and a sync of 10 ms at line 7
    job = Job()
    for at in range(3):
        job.call("PREAD", 0, 20 * at * MS, 10 * MS, 0, 100, 5)
    job.call("PWRITE", 0, 100 * MS, 4 * MS, 0, 900, 7)
    job.call("FSYNC", 0, 110 * MS, 6 * MS, line=7)
    log = job.log(tmp_path)
    data, picture = only(log, "lines")
    assert [(row.line, row.time_ns) for row in data.rows] == [
        ("/w/job.py:5:main", 30 * MS), ("/w/job.py:7:main", 10 * MS),
    ]  # fmt: skip
    assert (data.rows[1].parts["io"], data.rows[1].parts["sync"]) == (4 * MS, 6 * MS)
    assert all(sum(row.parts.values()) == row.time_ns for row in data.rows) and not data.sampled
    assert [row[:2] for row in picture.rows] == [(row.line, seconds(row.time_ns)) for row in data.rows]
    (by_time, shown), (by_bytes, _) = drawn(log, "flame")
    assert [(one.line, one.level, one.begin, one.value) for one in by_time.frames] == [
        ("/w/job.py:5:main", 0, 0, 30 * MS), ("/w/job.py:7:main", 0, 30 * MS, 10 * MS),
    ]  # fmt: skip
    assert (by_bytes.whole, by_bytes.lines) == (1200, (("/w/job.py:7:main", 900), ("/w/job.py:5:main", 300)))
    assert shown.rows == (("/w/job.py:5:main", "30 ms", "75 %"), ("/w/job.py:7:main", "10 ms", "25 %"))


def test_frames_lie_within_those_above(tmp_path: Path) -> None:
    # GIVEN the stacks of a recursive program WHEN they are drawn THEN each lies in one of the level above
    text = (
        "def walk(depth):\n"
        "    if depth == 0:\n"
        "        open('data', 'ab').write(bytes(10)); return\n"
        "    walk(depth - 1)\n"
        "    walk(depth // 2)\n"
        "walk(6)\n"
    )
    log = succeeded(Runner(tmp_path).traced(text)).log
    for data, _ in drawn(log, "flame"):
        levels: dict[int, list[tuple[int, int]]] = {}
        for one in data.frames:
            levels.setdefault(one.level, []).append((one.begin, one.begin + one.value))
        assert len(levels) > 3
        for level, spans in levels.items():
            spans.sort()
            assert all(one[1] <= other[0] for one, other in itertools.pairwise(spans))
            above = levels.get(level - 1, [(0, data.whole)])
            assert all(any(low <= begin and end <= high for low, high in above) for begin, end in spans)


def test_the_timeline_has_all_bytes_and_time(tmp_path: Path) -> None:
    # GIVEN two reads at once, for 100 ms, and a write long after
    job = Job()
    job.call("PREAD", 0, 100 * MS, 100 * MS, 0, 5000)
    job.call("PREAD", 1, 100 * MS, 100 * MS, 0, 6000)
    job.call("PWRITE", 0, 800 * MS, 50 * MS, 0, 700)
    data, picture = only(job.log(tmp_path), "timeline")
    assert (sum(data.read), sum(data.written), sum(data.io_ns)) == (11_000, 700, 250 * MS)
    # AND the read bytes are where the reads began, and two calls were in flight then
    place = (100 * MS - data.begin_ns) // data.width_ns
    assert data.read[place] == 11_000 and data.io_ns[place + 1] == 2 * data.width_ns
    assert any(row[2] == size(11_000) for row in picture.rows)


def test_the_most_time_of_a_process_is_seen(tmp_path: Path) -> None:
    # GIVEN ranks that read for 1, 2, 3 and 10 ms
    writer = LogWriter()
    desc = writer.desc(3, "/d/data", kind=1, dev=1, ino=1)
    for rank, time in enumerate((1, 2, 3, 10)):
        # an entry has ranks from 1 on: 0 is none
        process = writer.process(
            100 + rank, argv=["python", "x.py"], begin=0, end=1000 * MS, global_rank=rank + 1, world_size=4
        )
        writer.thread(process, 100 + rank).record(
            "PREAD", begin=rank * MS, duration=time * MS, desc=desc, aux=3, offset=0, size=10, result=10
        )
    data, picture = only(open_log(writer.save(tmp_path / "run.pyio")), "ranks")
    assert [row.time_ns for row in data.rows] == [10 * MS, 3 * MS, 2 * MS, MS] and data.mean_ns == 4 * MS
    assert "2.50 times the mean of 4 ranks" in picture.sentence and picture.rows[0][0] == "rank 3"


def test_batches_lie_where_they_were_fetched(tmp_path: Path) -> None:
    # GIVEN a batch that a worker fetches from 10 to 30 and the trainer waits for from 20 to 35, and one that is never
    # waited for, fetched from 40 to 60
    job = Job()
    calls = (("FETCH", 1, 10, 30, 0), ("WAIT", 0, 20, 35, 0), ("FETCH", 1, 40, 60, 1))
    names = {"FETCH": ("SPAN_APP_CONTAINER", "DataLoader.fetch"), "WAIT": ("SPAN_APP_WAIT", "DataLoader.__next__")}
    for what, process, begin, end, batch in calls:
        op, name = names[what]
        detail = json.dumps({"loader": "1.5", "epoch": 0, "batch": batch})
        job.threads[process].record(
            op, begin=begin * MS, duration=(end - begin) * MS, aux=job.writer.string(name),
            offset=job.writer.string(detail), stack=job.stacks[5],
        )  # fmt: skip
    data, picture = only(job.log(tmp_path), "batches")
    start = data.begin_ns - 10 * MS
    assert [(begin - start, end - start) for begin, end in data.waits] == [(20 * MS, 35 * MS)]
    assert [(begin - start, end - start) for _, begin, end in data.fetches] == [(10 * MS, 30 * MS), (40 * MS, 60 * MS)]
    first, second = data.bars
    assert (first.not_ready_ns, first.hand_over_ns, first.fetch_ns) == (10 * MS, 5 * MS, 20 * MS)
    assert (second.not_ready_ns, second.fetch_ns, data.wait_ns) == (None, 20 * MS, 15 * MS)
    assert picture.rows == (("0", "0", "10 ms", "5 ms", "20 ms"), ("0", "1", "", "", "20 ms"))


def test_tasks_read_what_they_read(tmp_path: Path) -> None:
    # GIVEN a pool whose nine tasks read three files in turn
    text = (
        "from concurrent.futures import ProcessPoolExecutor\n"
        "def load(name): return len(open(name, 'rb').read())\n"
        "if __name__ == '__main__':\n"
        "    for n in range(3): open(f'part-{n}', 'wb').write(bytes(10_000 * (n + 1)))\n"
        "    with ProcessPoolExecutor(2) as pool:\n"
        "        list(pool.map(load, [f'part-{n % 3}' for n in range(9)]))\n"
    )
    data, picture = only(succeeded(Runner(tmp_path).traced(text)).log, "tasks")
    # THEN three tasks have read each, and the distinct bytes are those of the file
    assert data.tasks == 9 and len(data.columns) == 9 and {name for name, _ in data.columns} == {"load"}
    assert [Path(path).name for path in data.files] == ["part-2", "part-1", "part-0"]
    assert [sorted(row)[-4:] for row in data.read] == [[0, *[10_000 * n] * 3] for n in (3, 2, 1)]
    assert (data.tasks_of, data.distinct) == ((3, 3, 3), (30_000, 20_000, 10_000))
    assert [row[1:] for row in picture.rows] == [("3", size(30_000 * n), size(10_000 * n)) for n in (3, 2, 1)]


SELECTIONS = [np.s_[:, 3], np.s_[:, 3], np.s_[5], np.s_[10:30, 20:40], np.s_[-1:, ...]]


@pytest.mark.parametrize("chunks", [(10, 16), None])
def test_chunks_are_needed_as_often_as_they_are_selected(tmp_path: Path, chunks: tuple[int, int] | None) -> None:
    # GIVEN a program that selects parts of a dataset
    pytest.importorskip("h5py")
    text = (
        "import h5py, numpy as np\n"
        "with h5py.File('a.h5', 'w') as file:\n"
        f"    file.create_dataset('x', data=np.ones((60, 48), 'f4'), chunks={chunks})\n"
        "with h5py.File('a.h5') as file:\n"
        "    x = file['x']\n"
        "    x[:, 3]; x[:, 3]; x[5]; x[10:30, 20:40]; x[-1:, ...]\n"
    )
    log = succeeded(Runner(tmp_path).traced(text)).log
    found = [(data, picture) for data, picture in drawn(log, "chunks") if not data.writing]
    ((data, picture),) = found
    # WHEN each selection is counted by hand THEN the grid has the same, each cell the mean of its chunks
    high, wide = chunks or (1, 1)
    times = np.zeros((60 // high, 48 // wide))
    elements = 0
    for selection in SELECTIONS:
        chosen = np.zeros((60, 48), bool)
        chosen[selection] = True
        elements += int(chosen.sum())
        times += chosen.reshape(60 // high, high, 48 // wide, wide).any(axis=(1, 3))
    down, across = data.cell
    expected = [
        [times[row : row + down, column : column + across].mean() for column in range(0, times.shape[1], across)]
        for row in range(0, times.shape[0], down)
    ]
    assert np.allclose(data.grid, expected)
    assert (data.calls, data.unknown, data.asked_bytes, data.dataset_bytes) == (5, 0, 4 * elements, 60 * 48 * 4)
    assert (data.needed, data.different) == (times.sum(), (times > 0).sum())
    assert data.needed_bytes == (times.sum() * high * wide * 4 if chunks else None)
    assert dict(picture.rows)["calls"] == "5" and dict(picture.rows)["read, in memory"] == size(4 * elements)
