"""Where files cannot be mapped, the log is kept in memory during the run and then written to its place."""

from __future__ import annotations

import mmap
import os
import re
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.mirror import mirror
from tests.support.programs import Runner, succeeded

#: Writes 300 times, forks, and writes 200 times more in the child.
PROGRAM = """
import os, sys
fd = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT)
for _ in range(300):
    os.write(fd, b"a")
if os.fork() == 0:
    for _ in range(200):
        os.write(fd, b"b")
    os._exit(0)
os.wait()
"""


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Path]:
    """A folder of such a file system."""
    with mirror(tmp_path) as where:
        yield where


@pytest.fixture
def word() -> Iterator[str]:
    """A name for the log; at the end nothing of that name is in memory."""
    yield (word := f"run-{uuid.uuid4().hex}")
    assert not [name for name in os.listdir("/dev/shm") if word in name]


def test_it_is_such_a_place(place: Path) -> None:
    with open(place / "file", "w+b") as file:
        file.write(bytes(8192))
        file.flush()
        with pytest.raises(OSError, match="No such device"):
            mmap.mmap(file.fileno(), 8192)


@pytest.mark.parametrize("ending", ["pyio", "parquet"])
def test_a_run(program: Runner, place: Path, word: str, ending: str) -> None:
    data, name = program.folder / "data", f"{word}.{ending}"
    outcome = succeeded(program.traced(PROGRAM, data, log=place / name, env={"PYIO_TRACE_QUIET": "0"}))
    # THEN a line says where the log is during the run; at the end it is in its place, whole and not sparse
    assert re.search(rf"^pyio-trace: files cannot be mapped where '.*' is; until .* '/dev/shm/.*{word}.pyio'$",
                     outcome.stderr, re.MULTILINE)  # fmt: skip
    assert len(outcome.select(op="write", path=data)) == 500
    assert outcome.log.losses() == {}
    assert sorted(os.listdir(place)) == [name]
    assert (place / name).stat().st_size < 10 << 20


def test_a_program_that_becomes_another(program: Runner, place: Path, word: str) -> None:
    data = program.folder / "data"
    program.write(PROGRAM, "next.py")
    text = f"""
    import os, sys
    os.execv(sys.executable, [sys.executable, {str(program.folder / "next.py")!r}, sys.argv[1]])
    """
    outcome = succeeded(program.traced(text, data, log=place / f"{word}.pyio"))
    assert len(outcome.select(op="write", path=data)) == 500


@pytest.mark.parametrize("ending", ["pyio", "parquet"])
def test_a_part_of_a_program(program: Runner, place: Path, word: str, ending: str) -> None:
    log = str(place / f"{word}.{ending}")
    text = f"""
    import os, sys
    import pyio_trace
    with pyio_trace.trace({log!r}) as run:
        assert run.path.startswith("/dev/shm/")
        fd = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT)
        for _ in range(300):
            os.write(fd, b"a")
    assert run.path == {log!r}
    operations = pyio_trace.open(run.path).operations().to_pylist()
    print(sum(row["op"] == "write" for row in operations))
    """
    assert succeeded(program.bare(text, program.folder / "data")).stdout == "300\n"


def test_a_run_that_is_killed(program: Runner, place: Path, word: str) -> None:
    text = """
    import os, signal, sys
    fd = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT)
    for _ in range(300):
        os.write(fd, b"a")
    os.kill(os.getpid(), signal.SIGKILL)
    """
    data = program.folder / "data"
    outcome = program.traced(text, data, log=place / f"{word}.pyio", env={"PYIO_TRACE_QUIET": "0"})
    assert outcome.status == -9
    # THEN the log is where that line says
    [told] = re.findall(r"'(/dev/shm/.*)'$", outcome.stderr, re.MULTILINE)
    outcome.path = Path(told)
    try:
        assert len(outcome.select(op="write", path=data)) == 300
    finally:
        os.unlink(told)
