"""The samples table: what a log says of its threads, live, packed and merged; whatever a forged log claims."""

from __future__ import annotations

import errno
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pyio_trace.errors import LogError
from pyio_trace.join.base import samples as kept
from pyio_trace.join.base.samples import NAMES, Collected
from pyio_trace.join.base.samples_text import decoded, encoded
from pyio_trace.join.pack.packer import pack
from pyio_trace.join.processes.known_losses import SAMPLER_COUNTS, sampler_counts
from pyio_trace.join.sources.facade import Log
from pyio_trace.join.sources.opening import open_log
from pyio_trace.log import layout
from pyio_trace.log.parquet_log import open_parquet
from tests.support.logwriter import LogWriter
from tests.support.smallrun import small_run

pytestmark = pytest.mark.once

START = 1_700_000_000_000_000_000
MS = 1_000_000


def sampled_log(path: Path, run: int = 1) -> Path:
    """A run of two processes; the second is forked at line 7 of the first."""
    writer = LogWriter(mono=0, ticks=0)
    writer.header["sampling_hz"], writer.header["run_id"] = 100, run
    main = writer.code("/home/u/train.py", "<module>")
    loads = writer.code("/usr/lib/python3.11/json/__init__.py", "loads")
    # The sampler's own entries of the same code.
    again = writer.code("/home/u/train.py", "<module>")
    work = writer.code("/home/u/train.py", "work")
    at_fork = writer.stack((main, 7))
    first = writer.process(100, argv=["python", "train.py"], version=b"3.11")
    fork = writer.thread(first, 100).record("FORK", begin=50 * MS, stack=at_fork)
    child = writer.process(101, start=layout.START_FORK, parent=first, started_by=fork, version=b"3.11")
    parse, beneath = writer.stack((loads, 300), (again, 3)), writer.stack((work, 12), (again, 7))
    writer.sample(first, 100, begin=10 * MS, ticks=30 * MS, stack=parse, cpu=25 * MS, delay=2 * MS, samples=3)
    writer.sample(first, 100, "sleep", begin=40 * MS, ticks=20 * MS, stack=writer.stack((again, 4)), samples=2)
    writer.sample(child, 101, "gil", begin=60 * MS, ticks=5 * MS, stack=beneath)
    writer.sample(child, 101, "system call", begin=65 * MS, ticks=5 * MS, flags=layout.SAMPLE_UNREADABLE)
    return writer.save(path)


EXPECTED = [
    (0, 100, 10 * MS, 30 * MS, 25 * MS, 2 * MS,
     "/home/u/train.py:3:<module>;/usr/lib/python3.11/json/__init__.py:300:loads", "running", 3),
    (0, 100, 40 * MS, 20 * MS, 0, 0, "/home/u/train.py:4:<module>", "sleep", 2),
    # The frame that the child has from its parent is no line of the child's.
    (1, 101, 60 * MS, 5 * MS, 0, 0, "/home/u/train.py:12:work", "gil", 1),
    (1, 101, 65 * MS, 5 * MS, 0, 0, None, "system call", 1),
]  # fmt: skip


def rows_of(log: Log) -> list[tuple[Any, ...]]:
    return [
        (*list(row.values())[:2], row["time"] - START, *list(row.values())[3:]) for row in log.samples().to_pylist()
    ]


def test_the_table_of_a_live_a_packed_and_a_packed_again_log(tmp_path: Path) -> None:
    live = sampled_log(tmp_path / "a.pyio")
    pack(live, tmp_path / "b.parquet")
    pack(tmp_path / "b.parquet", tmp_path / "c.parquet")
    logs = [open_log(tmp_path / name) for name in ("a.pyio", "b.parquet", "c.parquet")]
    assert [rows_of(log) for log in logs] == [EXPECTED] * 3
    assert logs[0].samples().equals(logs[2].samples())
    assert [log.info()["sampling_hz"] for log in logs] == [100] * 3


def test_a_folder_of_logs_counts_on(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    folder.mkdir()
    sampled_log(folder / "a.pyio")
    pack(sampled_log(tmp_path / "b.pyio", 2), folder / "b.parquet")
    later = [(one[0] + 2, *one[1:]) for one in EXPECTED]
    assert rows_of(open_log(folder)) == [*EXPECTED, *later]
    pack(folder, tmp_path / "whole.parquet")
    assert rows_of(open_log(tmp_path / "whole.parquet")) == [*EXPECTED, *later]


def test_sql_and_the_table_without_a_sampler(tmp_path: Path) -> None:
    pytest.importorskip("duckdb")
    log = open_log(sampled_log(tmp_path / "a.pyio"))
    found = log.sql("select state, sum(samples) as looks from samples group by state order by looks desc, state")
    assert found.to_pylist()[0] == {"state": "running", "looks": 3}
    # Without a sampler there is nothing, in the log and about it.
    without = small_run(tmp_path / "none.pyio")
    pack(without, tmp_path / "none.parquet")
    for path in (without, tmp_path / "none.parquet"):
        assert open_log(path).samples().num_rows == 0
        assert open_log(path).info().keys().isdisjoint(("sampling_hz", "sampler_refused", "sampler_cpu"))
    keys = open_parquet(tmp_path / "none.parquet").file.metadata.metadata
    assert not [key for key in keys if b"samples" in key]


@pytest.mark.parametrize(
    "name", ["begin", "ticks", "cpu_ns", "delay_ns", "process", "tid", "stack", "samples", "state"]
)
@pytest.mark.parametrize("value", [1, (1 << 63) - 1, (1 << 64) - 1])
def test_forged_samples_are_rows_within_bounds(name: str, value: int, tmp_path: Path) -> None:
    # GIVEN a sample of which one field is anything
    writer = LogWriter(mono=0, ticks=0)
    process = writer.process(100)
    row = np.zeros((), layout.SAMPLE)
    row["begin"], row["ticks"], row["process"], row["samples"] = MS, MS, process, 1
    row[name] = value & (1 << 8 * row[name].dtype.itemsize) - 1
    at = writer.chunk(layout.CHUNK_SAMPLES, layout.PAGE)
    writer.put(at + layout.HEAP_START, row)
    writer.save(tmp_path / "a.pyio")
    # WHEN it is read and packed THEN it is one row, whose amounts can be added up
    pack(tmp_path / "a.pyio", tmp_path / "a.parquet")
    for path in ("a.pyio", "a.parquet"):
        (found,) = open_log(tmp_path / path).samples().to_pylist()
        assert all(0 <= found[amount] <= 1 << 41 for amount in ("duration", "cpu", "delay", "samples"))
        assert found["process"] == (None if name == "process" else 0) and found["stack"] is None
        assert found["state"] in layout.SAMPLE_STATES and 0 <= found["thread"] < 1 << 31


def test_a_torn_sample_ends_its_chunk_and_no_other(tmp_path: Path) -> None:
    writer = LogWriter(mono=0, ticks=0)
    process = writer.process(100)
    for number in range(200):  # three chunks
        writer.sample(process, 100, begin=(1 + number) * MS, ticks=MS)
    whole = len(open_log(writer.save(tmp_path / "a.pyio")).samples())
    headers = open_log(tmp_path / "a.pyio")._source._log.chunks.of_kind(layout.CHUNK_SAMPLES)[0]  # type: ignore[attr-defined]
    writer.put(int(headers["offset"][0]) + layout.HEAP_START + 10 * layout.SAMPLE.itemsize, bytes(8))
    writer.data += b"\0" * 100  # and the file is cut off within a page
    torn = open_log(writer.save(tmp_path / "b.pyio")).samples()
    in_chunk = (layout.PAGE - layout.HEAP_START) // layout.SAMPLE.itemsize
    assert (whole, len(torn)) == (200, 200 - in_chunk + 10)


def test_more_samples_than_are_kept_become_fewer_and_add_up(monkeypatch: pytest.MonkeyPatch) -> None:
    # GIVEN an hour of two threads with three stacks each, one of them running
    count = 40_000
    number = np.arange(count, dtype=np.int64)
    columns = dict.fromkeys(NAMES, np.zeros(count, np.int64)) | {
        "thread": number % 2, "stack": number // 2 % 3, "state": number // 2 % 3, "time": START + number // 2 * 90 * MS,
        "duration": np.full(count, 90 * MS), "cpu": number, "samples": np.full(count, 9),
    }  # fmt: skip
    # WHEN only a few of them are kept
    collected = Collected(5_000)
    for first in range(0, count, 3_000):
        collected.add({name: values[first : first + 3_000] for name, values in columns.items()})
    found = collected.columns()
    # THEN sums by thread and stack are those of all, and the rows of a thread do not overlap
    assert 1_000 < len(found["time"]) <= 5_000
    for thread in range(2):
        own = found["thread"] == thread
        ends = found["time"][own] + found["duration"][own]
        assert (found["time"][own][1:] >= ends[:-1]).all()
        for stack in range(3):
            all_of_it = (columns["thread"] == thread) & (columns["stack"] == stack)
            some = own & (found["stack"] == stack)
            for amount in kept.AMOUNTS:
                assert found[amount][some].sum() == columns[amount][all_of_it].sum()


def test_many_threads_of_a_forged_log(monkeypatch: pytest.MonkeyPatch) -> None:
    number = np.arange(10_000, dtype=np.int64)
    collected = Collected(1_000)
    collected.add(dict.fromkeys(NAMES, number) | {"state": number % 8, "samples": np.ones(10_000, np.int64)})
    found = collected.columns()
    assert len(found["time"]) <= 1_000 and found["samples"].sum() == 10_000


def test_an_hour_of_a_busy_process_packs_small() -> None:
    # GIVEN an hour of one thread that runs, found at one of 50 stacks in turn for up to 50 ms
    random = np.random.default_rng(1)
    duration = random.integers(5 * MS, 50 * MS, 130_000)
    columns = dict.fromkeys(NAMES, np.zeros(len(duration), np.int64)) | {
        "time": START + np.cumsum(duration) - duration, "duration": duration,
        "cpu": duration - random.integers(0, 50_000, len(duration)),
        "stack": random.integers(0, 50, len(duration)), "samples": duration // (10 * MS) + 1,
    }  # fmt: skip
    samples = kept.Samples(columns, [f"/home/u/a.py:{line}:f" for line in range(50)])
    # WHEN it is packed THEN it takes less than 10 bytes a row and is the same
    text = encoded(samples)
    assert len(text) < 10 * len(samples)
    again = decoded(text, 1)
    assert all((again[name] == columns[name]).all() for name in NAMES) and again.stacks == samples.stacks


@pytest.mark.parametrize("cut", [0, 1, 5, 40, -10])
def test_a_damaged_text_is_an_error_and_no_crash(cut: int, tmp_path: Path) -> None:
    samples = open_log(sampled_log(tmp_path / "a.pyio")).sampled()
    text = encoded(samples)
    for broken in (text[:cut], text[:cut] + "A" + text[cut + 1 :], text.replace(" 4 ", " 1048576 "), "1 4 2 AAAA"):
        if broken != text:
            with pytest.raises(ValueError):
                decoded(broken, 2)
    with pytest.raises(ValueError, match="does not exist"):
        decoded(text, 1)


def test_a_packed_log_with_damaged_samples_says_so(tmp_path: Path) -> None:
    sampled_log(tmp_path / "a.pyio")
    pack(tmp_path / "a.pyio", tmp_path / "a.parquet")
    raw = (tmp_path / "a.parquet").read_bytes()
    at = raw.index(b"pyio_trace.samples") + 40
    (tmp_path / "b.parquet").write_bytes(raw[:at] + b"!!" + raw[at + 2 :])
    log = open_log(tmp_path / "b.parquet")
    assert log.operations().num_rows == 1
    with pytest.raises(LogError, match="samples are damaged"):
        log.samples()


def test_processes_that_no_sampler_has_seen(tmp_path: Path) -> None:
    # GIVEN a sampler that was not allowed to read all processes: one of 3 s has samples, one of 3 s and one of 1 s have
    # none, nor has a program that is not Python
    def run(path: Path, refused: int, sampled: bool = True) -> Path:
        writer = LogWriter(mono=0, ticks=0)
        writer.header["sampling_hz"], writer.header["sampler_refused"], writer.header["run_id"] = (
            100,
            refused,
            ord(path.stem[0]),
        )
        known = {"version": b"3.11", "end_kind": layout.END_EXIT, "begin": 1}
        first = writer.process(100, end=3000 * MS, **known)
        writer.process(101, end=3000 * MS, parent=first, **known)
        writer.process(102, end=1000 * MS, parent=first, **known)
        writer.process(103, end=3000 * MS, parent=first, **(known | {"version": b""}))
        if sampled:
            writer.sample(first, 100, "sleep", begin=10 * MS, ticks=900 * MS)
        return writer.save(path)

    # WHEN the log is read THEN it is said which error that was, and how many long processes have none; packed as well
    path = run(tmp_path / "a.pyio", errno.EACCES)
    expected = {"sampler_refused": ["EACCES"], "unsampled": 1}
    assert open_log(path).losses() == expected
    pack(path, tmp_path / "a.parquet")
    assert open_log(tmp_path / "a.parquet").losses() == expected
    # ... and of a sampler that never was, only that
    assert open_log(run(tmp_path / "b.pyio", errno.ECHILD, sampled=False)).losses() == {"sampler_refused": ["ECHILD"]}
    assert open_log(run(tmp_path / "c.pyio", 0, sampled=False)).losses() == {"unsampled": 2}
    # ... and of logs together, each error once
    (tmp_path / "all").mkdir()
    for name, error in zip("xyz", (errno.EACCES, errno.EMFILE, errno.EACCES), strict=True):
        run(tmp_path / "all" / f"{name}.pyio", error)
    assert open_log(tmp_path / "all").losses() == {"sampler_refused": ["EACCES", "EMFILE"], "unsampled": 3}


def test_a_sampler_that_ended_before_the_run(tmp_path: Path) -> None:
    # GIVEN a sampler that was killed after 2 s: one process went on for 7 s, one for 1 s
    writer = LogWriter(mono=0, ticks=0)
    writer.header["sampling_hz"] = 100
    known = {"version": b"3.11", "end_kind": layout.END_EXIT, "begin": 1}
    long, short = writer.process(100, end=9000 * MS, **known), writer.process(101, end=3000 * MS, **known)
    for process, number in ((long, 100), (short, 101)):
        writer.sample(process, number, "sleep", begin=10 * MS, ticks=500 * MS)
        writer.sample(process, number, "sleep", begin=1000 * MS, ticks=1000 * MS)
    path = writer.save(tmp_path / "a.pyio")
    # WHEN the log is read THEN that is counted, packed as well
    assert open_log(path).losses() == {"sampled_in_part": 1}
    pack(path, tmp_path / "a.parquet")
    assert open_log(tmp_path / "a.parquet").losses() == {"sampled_in_part": 1}


def test_what_a_sampler_counts() -> None:
    # GIVEN the header of a log whose sampler counts, or that is older WHEN read THEN what is not zero
    header = np.zeros((), [(name, "<u8") for name in ("sampling_hz", *SAMPLER_COUNTS)])[()]
    header["samples_lost"], header["sampler_unseen"] = 7, (1 << 64) - 1
    assert sampler_counts(header) == {"samples_lost": 7, "sampler_unseen": (1 << 63) - 1}
    assert sampler_counts(np.zeros((), [("sampling_hz", "<u4")])[()]) == {}
