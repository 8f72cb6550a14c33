"""Trials with a cold and with a warm page cache: what `insights --verify` says is what the kernel's account has."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from pyio_trace.analysis.results.overview_figures import SlowReads
from pyio_trace.analysis.summary.summarize import summarize
from pyio_trace.insights import verify
from pyio_trace.insights.trials import page_cache
from tests.insights.test_verify import verified
from tests.insights.test_verify_readers import ANY as STARVED
from tests.insights.test_verify_readers import ITEMS
from tests.support.programs import Runner, succeeded

pytestmark = [pytest.mark.once, pytest.mark.usefixtures("own_time")]
SIZE, PART = 4 << 20, 4096
#: argv: whether the program forgets the file before it reads it.
READS = f"""
import os, sys
f = os.open("data.bin", os.O_RDONLY)
if sys.argv[1] == "cold": os.posix_fadvise(f, 0, 0, os.POSIX_FADV_DONTNEED)
for n in range({SIZE // PART}): os.read(f, {PART})
"""


@pytest.fixture
def data(program: Runner) -> Path:
    """A file on a disk that is in memory, too; skips where it cannot be dropped, or the kernel counts no reads."""
    path = program.folder / "data.bin"
    with open(path, "w+b") as file:
        file.write(bytes(SIZE))
        file.flush()
        os.fsync(file.fileno())
        page_cache.drop([file.fileno()])
        if page_cache.state({file.fileno(): SIZE}) != "cold":
            pytest.skip("this file system keeps its files in memory")
        before = from_storage()
        os.pread(file.fileno(), SIZE, 0)
        if from_storage() - before < SIZE:
            pytest.skip("the kernel has no account of what is read from this file system")
    return path


def from_storage() -> int:
    """Bytes that this process has read from storage, by the kernel's account."""
    with open("/proc/self/io") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("read_bytes"))


def test_cold(program: Runner, data: Path) -> None:
    # GIVEN a run that read its file from storage
    outcome = succeeded(program.traced(READS, "cold"))
    # WHEN its remedy is tried THEN each round reads it from storage again, and that is said
    before = from_storage()
    _, shown = verified(outcome, "small-accesses")
    assert shown.cache == "cold", shown
    read = shown.operations * PART
    assert shown.operations and from_storage() - before >= 2 * shown.rounds * read


def test_warm(program: Runner, data: Path) -> None:
    # GIVEN a run whose file was in memory WHEN its remedy is tried THEN so it is again, and that is said
    outcome = succeeded(program.traced(READS, "warm"))
    before = from_storage()
    _, shown = verified(outcome, "small-accesses")
    assert shown.cache == "cached", shown
    assert shown.rounds and from_storage() - before < SIZE


@pytest.mark.parametrize(("share", "cold"), [(0.25, False), (0.26, True)])
def test_warm_though_libraries_were_cold(program: Runner, data: Path, share: float, cold: bool) -> None:
    # GIVEN a run that reads a file, and maps as much from storage, as a library is loaded
    with open(program.folder / "library.bin", "wb") as file:
        file.write(bytes(4 * SIZE))
        file.flush()
        os.fsync(file.fileno())
    text = f"""
    import mmap, os
    f = os.open("library.bin", os.O_RDONLY)
    os.posix_fadvise(f, 0, 0, os.POSIX_FADV_DONTNEED)
    mmap.mmap(f, 0, prot=mmap.PROT_READ)[:]
    f = os.open("data.bin", os.O_RDONLY)
    for n in range({SIZE // PART}): os.pread(f, {PART}, n * {PART})
    """
    outcome = succeeded(program.traced(text))
    assert outcome.log.processes()["storage_read"][0].as_py() >= 4 * SIZE
    # WHEN slow reads are this share of the time of all reads, which on a busy machine is chance
    summary = summarize(outcome.log)
    assert summary.overview is not None
    slow = SlowReads(calls=9, bytes=9 * PART, time_ns=int(share * 10**6), compared=SIZE // PART, compared_ns=10**6)
    storage = replace(summary.overview.storage, slow=slow)
    # THEN the file was in memory unless that is much
    changed = replace(summary, overview=replace(summary.overview, storage=storage))
    assert verify._was_cold(changed, forked=()) == cold
    # AND a forked process proves nothing by what it fetched, if that is more than it read
    assert verify._was_cold(changed, forked={0}) == cold


def test_cold_files_that_are_opened_for_each_use(program: Runner, data: Path) -> None:
    # GIVEN a run that opened its file for each read, from storage WHEN the remedy is tried THEN it is cold
    text = f"""
    import os
    for n in range(300):
        with open("data.bin", "rb", buffering=0) as f:
            if n == 0: os.posix_fadvise(f.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
            f.seek(n * 8192)
            f.read({PART})
    """
    _, shown = verified(succeeded(program.traced(text)), "reopen-per-item")
    assert shown.rounds and shown.cache == "cold"


@pytest.mark.frameworks("torch")
def test_cold_items_of_a_loader(program: Runner, data: Path) -> None:
    # GIVEN a loader whose items came from storage WHEN other numbers of readers are tried
    text = ITEMS.replace("range(30)", "range(1)").replace(
        "f.write(bytes(100_000))", "f.write(bytes(2_000_000)); os.fsync(f.fileno()); "
        "os.posix_fadvise(f.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)",
    ).replace("import sys", "import os, sys")  # fmt: skip
    _, shown = verified(succeeded(program.traced(text, 1)), "loader-starved", STARVED)
    # THEN they read from storage, too
    assert shown.readers and shown.cache == "cold", shown
