"""However a program leaves its process, its run ends with a packed log or with one line that says where the log is."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from tests.faults.test_surroundings import BECOME_NOBODY, SECCOMP
from tests.support.programs import Outcome, Runner
from tests.support.surroundings import let_everybody_enter

pytestmark = pytest.mark.slow  # a second each

root_only = pytest.mark.skipif(os.geteuid() != 0, reason="only root can do this")
x86_64 = pytest.mark.skipif(os.uname().machine != "x86_64", reason="numbers of system calls are the machine's")
LIMIT = "r.setrlimit(r.RLIMIT_{}, ({}, {}))"
ANY = "r.getrlimit(r.RLIMIT_{})[1]"
KILL = SECCOMP.replace("0x00050001", "0x80000000") + "deny({})"  # SECCOMP_RET_KILL_PROCESS


def soft(which: str, value: str) -> str:
    """The program limits itself, and could go back."""
    return LIMIT.format(which, value, ANY.format(which))


def hard(which: str, value: str) -> str:
    """It cannot."""
    return LIMIT.format(which, value, value)


#: What a program does to itself that its log is packed after.
PACKED = {
    "3 descriptors": soft("NOFILE", "3"),
    "20 descriptors for ever": hard("NOFILE", "20"),
    "a little address space": soft("AS", "16 << 20"),
    "a little data": soft("DATA", "1 << 20"),
    "no processes": soft("NPROC", "0"),
    "small files": soft("FSIZE", "1000"),
    "a small stack": soft("STACK", "20_000"),
    "a second that is over": "signal.signal(signal.SIGXCPU, lambda *_: sys.exit(7))\n" + soft("CPU", "1")
                             + "\nwhile True: pass",
    "no stdin and no stdout": "os.closerange(0, 2)",
    "no children waited for": "signal.signal(signal.SIGCHLD, signal.SIG_IGN)",
    "a folder that is gone": "os.mkdir('d'); os.chdir('d'); os.rmdir('../d')",
    "a umask that leaves nothing": "os.umask(0o777)",
    "all descriptors, which children inherit": soft("NOFILE", "1500") + """
try:
    while True: os.set_inheritable(os.open("/dev/null", os.O_RDONLY), True)
except OSError: pass""",
    "a home without Python": "os.environ['PYTHONHOME'] = '/nowhere'",
    "an encoding that is none": "os.environ['PYTHONIOENCODING'] = 'nothing'",
    "UTF-8 neither on nor off": "os.environ['PYTHONUTF8'] = 'perhaps'",
    "a library to load that is not there": "os.environ['LD_PRELOAD'] = '/nowhere/library.so'",
    "libraries that are none": "os.mkdir('d'); open('d/libc.so.6', 'w').close(); open('d/libm.so.6', 'w').close(); "
                               "os.environ['LD_LIBRARY_PATH'] = os.path.abspath('d')",
    "modules that fail": "os.mkdir('d'); open('d/argparse.py', 'w').write('fail'); "
                         "os.environ['PYTHONPATH'] = os.path.abspath('d')",
    "no sockets, by a filter": KILL.format(41),
    "no files in memory, by a filter": SECCOMP + "deny(319)",
    "no links, by a filter": SECCOMP + "deny(265)",
}  # fmt: skip
#: What no interpreter starts or works after.
TOLD = {
    "3 descriptors for ever": hard("NOFILE", "3"),
    "6 descriptors for ever": hard("NOFILE", "6"),
    "a little address space for ever": hard("AS", "16 << 20"),
    "less address space than Python needs": hard("AS", "100 << 20"),
    "less address space than Arrow needs": hard("AS", "150 << 20"),
    "a little data for ever": hard("DATA", "1 << 20"),
    "small files for ever": hard("FSIZE", "1000"),
    "a small stack for ever": hard("STACK", "20_000"),
    "no processes for ever": BECOME_NOBODY + hard("NPROC", "0"),
    "another root": "os.mkdir('d'); os.chroot('d')",
    "no other program, by a filter": SECCOMP + "deny(59)",
    "death to another program, by a filter": KILL.format(59),
    "the same, no children waited for": "signal.signal(signal.SIGCHLD, signal.SIG_IGN)\n" + KILL.format(59),
}
IMPORTS = "import ctypes, os, resource as r, signal, struct, sys\nopen('data', 'w').close()\n"


def cases(table: dict[str, str]) -> list[object]:
    """With what each needs."""
    needs = {"filter": x86_64, "no processes": root_only, "another root": root_only}
    return [pytest.param(deed, marks=[mark for word, mark in needs.items() if word in name or word in deed], id=name)
            for name, deed in table.items()]  # fmt: skip


def ended(program: Runner, deed: str, **env: str | None) -> Outcome:
    """The program, which ends with a status of its own.  Its folder is everybody's: it may become another user."""
    let_everybody_enter(program.folder)
    program.folder.chmod(0o777)
    outcome = program.traced(f"{IMPORTS}{deed}\nsys.exit(7)", log="run.parquet", env=env)
    assert (outcome.status, outcome.stdout) == (7, "")
    return outcome


@pytest.mark.parametrize("deed", cases(PACKED))
def test_it_is_packed(program: Runner, deed: str) -> None:
    # GIVEN a program that does this to itself WHEN it ends THEN there is a summary, and a packed log alone
    outcome = ended(program, deed, PYIO_TRACE_QUIET=None)
    assert outcome.stderr.startswith("pyio_trace: ") and "pyio-trace: " not in outcome.stderr
    assert outcome.select(op="open", layer="posix", path=program.folder / "data")
    files = sorted(path.name for path in program.folder.iterdir() if path.is_file())
    assert files == ["data", "program.py", "run.parquet"]


@pytest.mark.parametrize("deed", cases(TOLD))
def test_it_is_told(program: Runner, deed: str) -> None:
    # GIVEN a program that leaves no room for its packer WHEN it ends
    outcome = ended(program, deed, PYIO_TRACE_QUIET=None)
    # THEN one line says where the live log is, which is whole
    live = program.folder / "run.pyio"
    assert re.fullmatch(r"pyio-trace: .*\n", outcome.stderr) and f" {live}" in outcome.stderr, outcome.stderr
    assert sorted(path.name for path in program.folder.iterdir() if path.is_file()) == ["data", "program.py", live.name]
    left = Outcome(0, "", "", live)
    assert left.select(op="open", layer="posix", path=program.folder / "data")


@pytest.mark.parametrize("deed", cases(PACKED | TOLD))
def test_nothing_is_said_where_that_is_not_wanted(program: Runner, deed: str) -> None:
    # GIVEN the same under -q WHEN it ends THEN nothing was printed, also not by an interpreter that fails
    assert ended(program, deed, PYIO_TRACE_QUIET="1").stderr == ""


def test_a_packer_that_is_killed_is_told(program: Runner) -> None:
    # GIVEN a program that leaves somebody behind who kills its packer
    deed = """
if os.fork() == 0:
    ours = os.getppid()
    os.environ.clear()
    children = f"/proc/{ours}/task/{ours}/children"
    while os.getppid() == ours:
        try:
            for pid in open(children).read().split():
                if int(pid) != os.getpid(): os.kill(int(pid), 9)
        except OSError: pass  # it has ended
    os._exit(0)
"""
    outcome = program.traced(f"{IMPORTS}{deed}\nsys.exit(7)", log="run.parquet", env={"PYIO_TRACE_QUIET": None})
    assert outcome.status == 7
    assert re.fullmatch(r"pyio-trace: .* \(it was ended by signal 9\); .*\n", outcome.stderr), outcome.stderr


def test_what_is_inherited_is_not_written_to(program: Runner) -> None:
    # GIVEN a program without a stderr, which has a file open for its children under the number that comes after it
    deed = (
        "os.closerange(0, 3)\nfor _ in range(3): os.open('/dev/null', 0)\n"
        "kept = os.open('kept', os.O_CREAT | os.O_RDWR)\nassert kept == 3 or os.dup2(kept, 3)\n"
        "os.set_inheritable(3, True); os.closerange(0, 3)"
    )
    # WHEN it ends THEN the summary is not in that file, nor anything of ours in the log
    assert ended(program, deed, PYIO_TRACE_QUIET=None).stderr == ""
    assert Path(program.folder / "kept").read_bytes() == b""
    assert Outcome(0, "", "", program.folder / "run.parquet").rows
