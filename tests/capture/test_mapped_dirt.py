"""What relatives write through a mapping that they share: each byte counts once, for its writer if it can be told."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from tests.capture.test_blind_spots import measured
from tests.support.programs import Row, Runner
from tests.support.surroundings import file_system

MIB = 1 << 20
SIZE = 8 * MIB


@pytest.fixture(params=["disk", "memory"])
def file(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Path]:
    """A file that is to be made: with writeback, and without."""
    if request.param == "disk":
        yield tmp_path / "mapped"
    else:
        with TemporaryDirectory(dir="/dev/shm") as folder:
            yield Path(folder) / "mapped"


def rows_of(program: Runner, file: Path, text: str) -> list[Row]:
    """The rows of the file's mappings in a program that makes it and maps it as `shared`; child(work) forks."""
    head = f"""
import mmap, os
SIZE = {SIZE}
def child(work):
    if (pid := os.fork()) == 0:
        work()
        os._exit(0)
    os.waitpid(pid, 0)
def write(): shared[:] = b"x" * SIZE
def read(): assert len(shared[:]) == SIZE
def sync(): read(); shared.flush()
with open({str(file)!r}, "wb") as new:
    new.write(bytes(SIZE))
    os.fsync(new.fileno())
with open({str(file)!r}, "r+b") as file:
    shared = mmap.mmap(file.fileno(), SIZE)
"""
    outcome = measured(program, head + text)
    rows = [row for row in outcome.log.mappings().to_pylist() if row["path"] == str(file)]
    assert outcome.log.losses().get("mapped_written", 0) == sum(row["written"] for row in rows)
    file.unlink()
    return rows


def test_readers_of_what_another_has_written(program: Runner, file: Path) -> None:
    # GIVEN one child that writes all, and others, and the parent, that read it WHEN they are traced
    rows = rows_of(program, file, "for work in (write, read, read, read): child(work)\nread()\n")
    # THEN it was written once
    assert sum(row["written"] for row in rows) == SIZE
    assert [row["written"] for row in rows if row["inherited"]] == [SIZE, 0, 0, 0]


def test_each_writes_its_share(program: Runner, file: Path) -> None:
    # GIVEN children that write a quarter each, one after the other WHEN they are traced THEN each has its quarter
    text = "for n in range(4): child(lambda: shared.__setitem__(slice(n << 21, (n + 1) << 21), b'x' * (2 << 20)))\n"
    rows = rows_of(program, file, text)
    assert [row["written"] for row in rows if row["inherited"]] == [2 * MIB] * 4


def test_a_child_syncs_what_another_has_written(program: Runner, file: Path) -> None:
    if file_system(file.parent) == "overlayfs":
        pytest.skip("the kernel does not tell what another has made dirty on overlayfs")
    # GIVEN a child that writes and has ended before another syncs WHEN they are traced THEN the first has written it
    rows = rows_of(program, file, "child(write)\nchild(sync)\n")
    assert [row["written"] for row in rows if row["inherited"]] == [SIZE, 0]


def test_a_child_syncs_while_the_writer_lives(program: Runner, file: Path) -> None:
    # GIVEN a child that writes, forks one that syncs, and goes on WHEN they are traced THEN it was written once
    rows = rows_of(program, file, "child(lambda: (write(), child(sync)))\n")
    assert sum(row["written"] for row in rows) == SIZE
