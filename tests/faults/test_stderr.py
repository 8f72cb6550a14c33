"""A program's data file has the number of stderr: not a byte of ours in it; what there was to say is in the log."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.programs import Outcome, Runner

pytestmark = pytest.mark.slow  # half a second each

DATA = b"d" * 100
#: As C libraries open files: children inherit it.
OPENS = """
fd = os.open("kept", os.O_CREAT | os.O_RDWR)
assert fd == 2
os.set_inheritable(fd, True)
os.write(fd, b"d" * 100)
"""
WAYS = {
    "closed, then opened": "os.close(2)" + OPENS,
    "closed, then opened for itself": "os.close(2)" + OPENS.replace("True", "False"),
    "closed from the start": OPENS,
    "by dup2": 'fd = os.open("kept", os.O_CREAT | os.O_RDWR); os.write(fd, b"d" * 100); os.dup2(fd, 2)',
    "by a C stream": "os.close(2)\nc = ctypes.CDLL(None); c.fopen.restype = ctypes.c_void_p\n"
                     "c.fputs.argtypes = [ctypes.c_char_p, ctypes.c_void_p]\n"
                     "c.fputs(b'd' * 100, c.fopen(b'kept', b'w'))",
    "before it becomes another program": "os.close(2)" + OPENS + "\nos.execv(sys.executable, "
                                         "[sys.executable, '-c', 'import sys; sys.exit(7)'])",
}  # fmt: skip
#: What fails at the end, so that there is something to say: in the packer, and where no packer can start.
FAILS = {
    "the packer": "r.setrlimit(r.RLIMIT_AS, (150 << 20, 150 << 20))",
    "its start": "r.setrlimit(r.RLIMIT_NOFILE, (3, 3))",
}
IMPORTS = "import ctypes, os, resource as r, signal, sys\n"


def closes_stderr(way: str) -> Callable[[], object] | None:
    """For subprocess: what is done before the program starts."""
    return (lambda: os.close(2)) if way == "closed from the start" else None


def ended(program: Runner, deed: str, way: str = "", **env: str | None) -> Outcome:
    """The program, which ends with a status of its own and has written nothing but its data."""
    outcome = program.traced(
        f"{IMPORTS}{deed}\nsys.exit(7)",
        log="run.parquet",
        env={"PYIO_TRACE_QUIET": None, **env},
        before=closes_stderr(way),
    )
    assert (outcome.status, outcome.stdout, outcome.stderr) == (7, "", "")
    return outcome


@pytest.mark.parametrize("quiet", [None, "1"])
@pytest.mark.parametrize("way", WAYS)
def test_no_summary_in_a_data_file(program: Runner, way: str, quiet: str | None) -> None:
    # GIVEN a program whose data file gets the number of stderr WHEN it ends
    outcome = ended(program, WAYS[way], way, PYIO_TRACE_QUIET=quiet)
    # THEN the file has the program's bytes alone, and the log is packed
    assert (program.folder / "kept").read_bytes() == DATA
    assert [row["bytes_moved"] for row in outcome.select(path=program.folder / "kept", op=("write", "fputs"))] == [100]


@pytest.mark.parametrize("quiet", [None, "1"])
@pytest.mark.parametrize("fails", FAILS)
def test_a_failure_is_noted_in_the_log(program: Runner, fails: str, quiet: str | None) -> None:
    # GIVEN the same, and limits that its log cannot be packed under WHEN it ends
    ended(program, f"os.close(2){OPENS}{FAILS[fails]}", PYIO_TRACE_QUIET=quiet)
    # THEN nothing is in the file either; the live log is whole, and says why it is not packed
    assert (program.folder / "kept").read_bytes() == DATA
    left = Outcome(7, "", "", program.folder / "run.pyio")
    assert left.select(path=program.folder / "kept", op="write")
    note = left.processes[0]["note"]
    assert not note if quiet else "the live log " in note, note


def test_messages_of_a_running_program(program: Runner) -> None:
    # GIVEN a program with such a file that asks for a dump, which there is no descriptor for
    deed = f"""os.close(2){OPENS.replace("True", "False")}
soft, hard = r.getrlimit(r.RLIMIT_NOFILE)
r.setrlimit(r.RLIMIT_NOFILE, (3, hard))
signal.raise_signal(signal.SIGUSR1)
r.setrlimit(r.RLIMIT_NOFILE, (soft, hard))
from pyio_trace import native
native.say("a line of ours")
"""
    # WHEN it has run THEN both lines are in the process table, and not in the file
    outcome = ended(program, deed, PYIO_TRACE_DUMP_SIGNAL="USR1")
    assert (program.folder / "kept").read_bytes() == DATA
    note = outcome.processes[0]["note"]
    assert note.startswith("no dump: ") and len(note) <= 127
    assert not list(program.folder.glob("*dump*"))


def test_a_stderr_that_comes_back(program: Runner) -> None:
    # GIVEN a program that sends its stderr elsewhere for a while WHEN it ends
    deed = 'saved = os.dup(2); fd = os.open("kept", os.O_CREAT | os.O_RDWR); os.dup2(fd, 2)\nos.dup2(saved, 2)'
    outcome = program.traced(f"{IMPORTS}{deed}", log="run.parquet", env={"PYIO_TRACE_QUIET": None})
    # THEN it has the summary
    assert outcome.stderr.startswith("pyio_trace: ")
    assert Path(program.folder / "kept").read_bytes() == b""
