"""Reads that went to storage are told from reads of the page cache, and no cached byte is put down to storage."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pyio_trace.analysis.results.overview_figures import Overview, SlowReads
from pyio_trace.analysis.summary.summarize import summarize
from pyio_trace.join.pack.packer import pack
from pyio_trace.join.sources.opening import open_log
from pyio_trace.log import layout
from pyio_trace.report.bars import Letters
from pyio_trace.report.overview_text import overview_lines
from tests.support.logwriter import LogWriter
from tests.support.programs import Runner, succeeded

pytestmark = pytest.mark.once

KIB, MIB = 1 << 10, 1 << 20


def overview(path: Path) -> Overview:
    found = summarize(open_log(path)).overview
    assert found is not None
    return found


class Run:
    """Processes that read files; times are ns."""

    def __init__(self) -> None:
        self.writer, self.at = LogWriter(), 2_000
        self.files = [self.writer.desc(3 + n, f"/d/{n}.bin", kind=1, dev=1, ino=11 + n) for n in range(2)]

    def process(self, pid: int, fetched: int | None) -> Any:
        """A process, and what the kernel fetched from storage for it."""
        whole = layout.ACCOUNT_BEGIN | layout.ACCOUNT_END
        account = np.zeros((), layout.ACCOUNT)
        account["storage_read"] = fetched or 0
        process = self.writer.process(
            pid, argv=["python", "x.py"], begin=1_000, end=10_000_000_000, end_kind=layout.END_EXIT,
            accounts=0 if fetched is None else whole, end_account=account, version=b"3.11.7",
        )  # fmt: skip
        return self.writer.thread(process, pid)

    def reads(self, thread: Any, count: int, duration: int, size: int = 4 * KIB, file: int = 0) -> None:
        for _ in range(count):
            self.at += duration + 1_000
            thread.record("PREAD", begin=self.at, duration=duration, desc=self.files[file], result=size, offset=0)

    def slow(self, path: Path) -> SlowReads:
        """Those of the live log, which the packed one has too."""
        live = self.writer.save(path)
        pack(live, path.with_suffix(".parquet"))
        found = overview(live)
        assert overview(path.with_suffix(".parquet")).storage == found.storage
        return found.storage.slow


def test_slow_reads_of_a_file(tmp_path: Path) -> None:
    # GIVEN 90 reads of 4 KiB in 2 us and 10 in 300 us, in a process for which the kernel fetched 1 MiB
    run = Run()
    thread = run.process(100, MIB)
    run.reads(thread, 90, 2_000)
    run.reads(thread, 10, 300_000)
    # THEN the 10 reads of 300 us count as slow; their bytes and times are summed
    assert run.slow(tmp_path / "run.pyio") == SlowReads(10, 40 * KIB, 3_000_000, 100, 3_180_000)
    groups = {Path(one.pattern).name: one for one in overview(tmp_path / "run.pyio").files}
    assert [(one.slow_calls, one.slow_ns) for one in groups.values()] == [(10, 3_000_000)]


@pytest.mark.parametrize(("size", "duration", "slow"), [(MIB, 1_000_000, 0), (MIB, 1_100_000, 1), (1, 19_000, 0),
                                                        (1, 21_000, 1)])  # fmt: skip
def test_latency_against_size(tmp_path: Path, size: int, duration: int, slow: int) -> None:
    run = Run()
    run.reads(run.process(100, 10 * MIB), 1, duration, size)
    assert run.slow(tmp_path / "run.pyio").calls == slow


def test_a_file_whose_cached_reads_are_slow_too(tmp_path: Path) -> None:
    # GIVEN a file whose reads take 20 us as a rule, near the bound of 24 us; one takes 60 us, one 300 us; in another
    # file, whose reads take 2 us, one of 60 us
    run = Run()
    thread = run.process(100, MIB)
    run.reads(thread, 100, 20_000)
    run.reads(thread, 1, 60_000)
    run.reads(thread, 1, 300_000)
    run.reads(thread, 100, 2_000, file=1)
    run.reads(thread, 1, 60_000, file=1)
    # THEN each file has its own bound
    slow = run.slow(tmp_path / "run.pyio")
    assert (slow.calls, slow.time_ns) == (2, 360_000)


def test_nothing_is_slow_where_the_kernel_fetched_nothing(tmp_path: Path) -> None:
    # GIVEN slow reads in a process without anything from storage, in one of which nothing is known, and in one for
    # which the kernel fetched less than they moved
    run = Run()
    for pid, fetched in ((100, 0), (101, None), (102, 6 * KIB)):
        run.reads(run.process(pid, fetched), 5, 300_000)
    # THEN only the last one's count, and no more of them than can have fetched it; the second one's were not compared
    assert run.slow(tmp_path / "run.pyio") == SlowReads(2, 6 * KIB, 600_000, 10, 3_000_000)


def test_the_slowest_count_first(tmp_path: Path) -> None:
    # GIVEN 20 reads of one file that take 100 us, and 4 of another that take 300 us; the kernel fetched as much as 5
    run = Run()
    thread = run.process(100, 5 * 4 * KIB)
    run.reads(thread, 20, 100_000)
    run.reads(thread, 4, 300_000, file=1)
    # THEN those 4 count, and one of the others
    assert run.slow(tmp_path / "run.pyio") == SlowReads(5, 20 * KIB, 1_300_000, 24, 3_200_000)


@pytest.mark.parametrize("moved", [1, (1 << 62)])
def test_forged_values(tmp_path: Path, moved: int) -> None:
    run = Run()
    thread = run.process(100, (1 << 63) - 1)
    run.reads(thread, 3, (1 << 31) - 1, moved)
    slow = run.slow(tmp_path / "run.pyio")
    assert 0 <= slow.calls <= slow.compared <= 3 and slow.bytes >= 0


#: Makes two files, drops one of them from the page cache, and reads 64 blocks of each, far apart, without readahead.
PROGRAM = """
import json, os
BLOCK, STEP = 1 << 14, 1 << 20
def opened(name):
    with open(name, "wb") as file:
        file.write(os.urandom(64 * STEP))
        os.fsync(file.fileno())
    data = os.open(name, os.O_RDONLY)
    os.posix_fadvise(data, 0, 0, os.POSIX_FADV_RANDOM)
    return data
def fetched():
    with open("/proc/self/io") as account:
        return int(dict(line.split(": ") for line in account)["read_bytes"])
def read(data):
    before = fetched()
    for number in range(64):
        os.pread(data, BLOCK, number * STEP)
    return fetched() - before
cached, dropped = opened("cached.bin"), opened("dropped.bin")
os.posix_fadvise(dropped, 0, 0, os.POSIX_FADV_DONTNEED)
print(json.dumps([read(cached), read(dropped)]))
"""


def test_a_file_dropped_from_the_page_cache(program: Runner) -> None:
    # GIVEN one process that reads a file in the page cache, and one on this machine's disk
    outcome = succeeded(program.traced(PROGRAM))
    of_cached, of_dropped = json.loads(outcome.stdout)
    summary = summarize(outcome.log)
    assert summary.overview is not None
    groups = {Path(one.pattern).name: one for one in summary.overview.files}
    if of_dropped < 64 << 14:
        pytest.skip("this file system has no storage, or does not drop pages")
    # THEN what was cached is not put down to storage, whatever else the process fetched: at most the reads that waited
    # for a processor longer than the rule allows, of which a busy machine makes a few
    slow_rows = [row for row in outcome.rows if row["layer"] == "posix" and row["op_class"] == "read"
                 and row["duration"] > 20_000 + row["bytes_moved"]]  # fmt: skip
    dropped = [row for row in slow_rows if str(row["path"]).endswith("dropped.bin")]
    others = [row for row in slow_rows if not str(row["path"]).endswith("dropped.bin")]
    if of_cached == 0:
        assert groups["cached.bin"].slow_calls <= sum(str(row["path"]).endswith("cached.bin") for row in others)
    # THEN the other file's reads are slow, with at most the bytes that the kernel fetched, and the rule is stated
    taken = sum(row["bytes_moved"] for row in others) >> 14
    assert len(dropped) >= 48 and len(dropped) - taken - 1 <= groups["dropped.bin"].slow_calls <= len(dropped)
    slow, storage = summary.overview.storage.slow, summary.overview.processes[0].storage_read
    assert storage is not None and groups["dropped.bin"].slow_calls << 14 <= slow.bytes <= storage
    text = "\n".join(overview_lines(summary, Letters()))
    assert "us + 1 ns a byte" in text and "none of it from storage" not in text
