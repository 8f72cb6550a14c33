"""Counters of exported Darshan logs: against a model that follows Darshan's rules call by call."""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pyio_trace.export import Options
from pyio_trace.export.darshan import write
from pyio_trace.join.sources.opening import open_log
from tests.export.darshan_log import DarshanLog
from tests.support.darshan import Model
from tests.support.logwriter import LogWriter

FILES, RANKS = 60, 5
START = 1_000
OPS = {"open": "OPEN", "close": "CLOSE", "read": "PREAD", "write": "PWRITE", "seek": "LSEEK", "stat": "FSTAT",
       "fsync": "FSYNC", "fdatasync": "FDATASYNC"}  # fmt: skip


class TimedModel(Model):
    """A record with what depends on alignment and time."""

    def __init__(self) -> None:
        super().__init__()
        self.seconds: Counter[str] = Counter()
        self.first: dict[str, int] = {}
        self.last: dict[str, int] = {}
        self.longest: dict[str, tuple[int, int]] = {}

    def timed(self, call: str, offset: int, size: int, begin: int, duration: int) -> None:
        """One successful call; no two overlap."""
        self.meet(call, offset, size)
        timer = {"read": "READ", "write": "WRITE", "fsync": "WRITE", "fdatasync": "WRITE"}.get(call, "META")
        self.seconds[timer] += duration
        self.first.setdefault(call, begin)
        self.last[call] = begin + duration
        if call in ("read", "write"):
            self.counts["FILE_NOT_ALIGNED"] += offset % 4096 != 0
            if duration > self.longest.get(call, (0, 0))[0]:
                self.longest[call] = duration, size

    def record(self) -> dict[str, Any]:
        """All that a record says."""
        found: dict[str, Any] = {name.removeprefix("POSIX_"): value for name, value in self.counters().items()}
        found |= {f"F_{name}_TIME": value / 1e9 for name, value in self.seconds.items()}
        for call, (duration, size) in self.longest.items():
            found |= {f"F_MAX_{call.upper()}_TIME": duration / 1e9, f"MAX_{call.upper()}_TIME_SIZE": size}
        for call in ("open", "read", "write", "close"):
            if call in self.first:
                found[f"F_{call.upper()}_START_TIMESTAMP"] = (self.first[call] - START) / 1e9
                found[f"F_{call.upper()}_END_TIMESTAMP"] = (self.last[call] - START) / 1e9
        return {name: value for name, value in found.items() if value}


def calls_at_random(chance: random.Random) -> list[tuple[str, int, int]]:
    """Calls on one file by one rank: name, offset, size."""
    found = [("open", 0, 0)]
    at = 0
    for _ in range(chance.randrange(40)):
        call = chance.choice(["read", "read", "write", "write", "seek", "stat", "fsync", "fdatasync", "open", "close"])
        if call in ("read", "write"):
            at = chance.choice([at, at, 0, 1, at + 4096, at + 100, 1 << 33])
            size = chance.choice([0, 1, 100, 101, 4096, 4096, 70_000, 1 << 20, (1 << 30) + 1])
            found.append((call, at, size))
            at += size
        else:
            found.append((call, 0, 0))
    return found


def exported(writer: LogWriter, folder: Path, imports: bool = False) -> DarshanLog:
    """The log that the writer's log becomes."""
    log = open_log(writer.save(folder / "run.pyio"))
    write(log, str(folder / "run.darshan"), Options(imports=imports), None)
    return DarshanLog(folder / "run.darshan")


def plain(record: dict[str, Any]) -> dict[str, Any]:
    """The counters of a record that say something; those about ranks apart."""
    return {
        name: value for name, value in record.items()
        if value not in (0, -1) and name not in ("id", "rank", "name", "FILE_ALIGNMENT") and "RANK" not in name
    }  # fmt: skip


def ranks(writer: LogWriter, count: int) -> list[int]:
    """Processes that are ranks 0, 1, ..."""
    return [writer.process(100 + n, global_rank=n + 1, world_size=count, begin=START) for n in range(count)]


@pytest.mark.parametrize("seed", range(3))
def test_counters_of_random_calls(tmp_path: Path, seed: int) -> None:
    # GIVEN five ranks that make some 6,000 calls on 60 files each, 300 records in all, of which no two overlap
    chance, writer, models = random.Random(seed), LogWriter(), {}
    now = START
    for rank, process in enumerate(ranks(writer, RANKS)):
        thread = writer.thread(process, 100 + rank, 1 << 16)
        for number in range(FILES):
            model = models[rank, f"/d/{number}-{rank}"] = TimedModel()
            name = f"/d/{number}-{rank}"
            desc = writer.desc(3, name, kind=1, dev=1, ino=number * RANKS + rank + 1)
            for call, offset, size in calls_at_random(chance):
                duration = chance.randrange(1, 1_000_000)
                model.timed(call, offset, size, now, duration)
                fields = {"desc": desc, "aux": 3}
                if call in ("read", "write"):
                    fields |= {"offset": offset, "size": size, "result": size}
                if call == "open":
                    fields = {"desc": writer.string(name), "offset": desc, "result": 3}
                thread.record(OPS[call], begin=now, duration=duration, **fields)
                now += duration + chance.randrange(1000)
    # WHEN it is exported
    found = exported(writer, tmp_path)
    # THEN each record is what the model says
    assert found.job["nprocs"] == RANKS and len(found.records["POSIX"]) == FILES * RANKS
    for (rank, name), model in models.items():
        record, expected = plain(found.of("POSIX", name, rank)), model.record()
        assert record.keys() == expected.keys(), name
        for counter, value in expected.items():
            assert record[counter] == pytest.approx(value, abs=2e-9), (name, counter)


def test_a_file_of_all_ranks_has_one_record(tmp_path: Path) -> None:
    # GIVEN four ranks that read one file, each another number of bytes for another time, and three that read another
    writer = LogWriter()
    moved, time = defaultdict(list), defaultdict(list)
    for rank, process in enumerate(ranks(writer, 4)):
        thread = writer.thread(process, 100)
        for name, inode in (("/d/all", 1), ("/d/some", 2)):
            if name == "/d/some" and rank == 2:
                continue
            desc = writer.desc(3, name, kind=1, dev=1, ino=inode)
            for number in range(rank + 1):
                size, duration = 1000 * (rank + 1), 10_000 * (4 - rank)
                begin = 2_000 + 10_000_000 * rank + 100_000 * number
                thread.record(
                    "PREAD", begin=begin, duration=duration, desc=desc, aux=3, offset=0, size=size, result=size
                )
            moved[name].append((rank + 1) * 1000 * (rank + 1))
            time[name].append((rank + 1) * 10_000 * (4 - rank) / 1e9)
    found = exported(writer, tmp_path)
    # THEN the first has one record with sums, fastest, slowest and variance
    one = found.of("POSIX", "/d/all")
    assert one["rank"] == -1 and one["READS"] == 10 and one["BYTES_READ"] == sum(moved["/d/all"])
    assert one["F_READ_TIME"] == pytest.approx(sum(time["/d/all"]))
    # ranks 0 and 3 took 40 us, 1 and 2 took 60 us
    assert (one["FASTEST_RANK"], one["FASTEST_RANK_BYTES"]) == (0, 1000)
    assert (one["SLOWEST_RANK"], one["SLOWEST_RANK_BYTES"]) == (1, 4000)
    assert one["F_FASTEST_RANK_TIME"] == pytest.approx(40e-6) and one["F_SLOWEST_RANK_TIME"] == pytest.approx(60e-6)
    assert one["F_VARIANCE_RANK_BYTES"] == pytest.approx(np.var(moved["/d/all"]))
    assert one["F_VARIANCE_RANK_TIME"] == pytest.approx(np.var(time["/d/all"]))
    assert (one["ACCESS1_ACCESS"], one["ACCESS1_COUNT"]) == (4000, 4)
    assert one["F_MAX_READ_TIME"] == pytest.approx(40e-6) and one["MAX_READ_TIME_SIZE"] == 1000
    # AND the other one for each rank; segments stay with their ranks
    assert {one["rank"] for one in found.records["POSIX"] if one["name"] == "/d/some"} == {0, 1, 3}
    assert Counter(one["rank"] for one in found.records["DXT_POSIX"]) == {0: 2, 1: 2, 2: 1, 3: 2}


def test_segments_and_heat_maps_have_every_byte(tmp_path: Path) -> None:
    # GIVEN transfers of three processes on several files, some of which last for seconds
    chance, writer, expected = random.Random(5), LogWriter(), defaultdict(list)
    bytes_of: Counter[tuple[int, str]] = Counter()
    for rank in range(3):
        thread = writer.thread(writer.process(100 + rank, begin=START), 100 + rank, 1 << 16)
        now = START + chance.randrange(1_000_000_000)
        for _ in range(300):
            name = f"/d/{chance.randrange(4)}"
            op = chance.choice(["PREAD", "PWRITE"])
            size, offset = chance.randrange(1 << 20), chance.randrange(1 << 40)
            duration = chance.choice([10, 1_000, 250_000_000])
            desc = writer.desc(3, name, kind=1, dev=1, ino=int(name[-1]) + 1)
            thread.record(op, begin=now, duration=duration, desc=desc, aux=3, offset=offset, size=size, result=size)
            times = ((now - START) / 1e9, (now + duration - START) / 1e9)
            expected[rank, name, op].append((offset, size, *times))
            bytes_of[rank, op] += size
            now += duration + chance.randrange(100_000_000)
    found = exported(writer, tmp_path)
    # THEN each has its segment, in the order of time
    for (rank, name, op), segments in expected.items():
        record = found.of("DXT_POSIX", name, rank)
        got = record["writes" if op == "PWRITE" else "reads"]
        assert [one[:2] for one in got] == [one[:2] for one in segments]
        assert np.array(got)[:, 2:] == pytest.approx(np.array(segments)[:, 2:], abs=2e-9)
    # AND the heat map has all bytes, in at most 200 intervals of one width
    maps = found.records["HEATMAP"]
    assert {one["name"] for one in maps} == {"heatmap:POSIX"} and len(maps) == 3
    for one in maps:
        assert len(one["reads"]) <= 200 and min(one["reads"]) >= 0 and min(one["writes"]) >= 0
        assert sum(one["reads"]) == bytes_of[one["rank"], "PREAD"]
        assert sum(one["writes"]) == bytes_of[one["rank"], "PWRITE"]
    assert len({(one["width"], len(one["reads"])) for one in maps}) == 1


@pytest.mark.parametrize("seed", range(20))
def test_bytes_are_in_the_interval_in_which_they_were_moved(tmp_path: Path, seed: int) -> None:
    # GIVEN a few long transfers WHEN the heat map is compared with shares of time worked out one by one
    chance, writer = random.Random(seed), LogWriter()
    thread = writer.thread(writer.process(100, begin=START), 100)
    desc = writer.desc(3, "/d/x", kind=1, dev=1, ino=1)
    moved, now = [], START
    for _ in range(10):
        now += chance.randrange(3_000_000_000)
        duration = chance.randrange(1, 5_000_000_000)
        thread.record("PWRITE", begin=now, duration=duration, desc=desc, aux=3, offset=0, size=10_000, result=10_000)
        moved.append((now - START, now - START + duration))
        now += duration
    (record,) = exported(writer, tmp_path).records["HEATMAP"]
    width = round(record["width"] * 1e9)
    for number, found in enumerate(record["writes"]):
        low, high = number * width, (number + 1) * width
        share = sum(10_000 * max(min(end, high) - max(begin, low), 0) / (end - begin) for begin, end in moved)
        assert found == pytest.approx(share, abs=len(moved) + 1)
