# ruff: noqa: E501 - in the tables a program's line is as long as it is
"""Ways to start Python and to confine it: the output is the same as untraced, and all reads are in the log."""

from __future__ import annotations

import os
import re
import resource
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from pyio_trace.log import layout
from tests.support.programs import Runner, accounted, alike, clean_environment, succeeded
from tests.support.surroundings import let_everybody_enter

pytestmark = pytest.mark.slow  # half a second each

READS = """\
import os, sys
fd = os.open(sys.argv[1], os.O_RDONLY)
def reads(times):
    for n in range(times):
        if len(os.pread(fd, 16, n)) != 16: sys.exit("short")  # no assert: there is -O
"""

#: What a start of Python may show: file objects left open, warnings, assertions, frames, types.
SHOWS = (
    READS
    + """\
import json, subprocess, threading, warnings
reads(100)
with open("text", "w", encoding="utf-8") as file: print("line\\n" * 1000, file=file, end="")
print(sum(1 for line in open("text", encoding="utf-8")))
assert not __debug__ or reads(10) is None
print(__debug__, sys.flags, reads.__doc__)
try: bytes([1]) == "x"; str(b"x")
except BytesWarning as error: print("BytesWarning", error)
try: warnings.warn("deprecated", DeprecationWarning)
except DeprecationWarning: print("raised")
thread = threading.Thread(target=reads, args=[10]); thread.start(); thread.join()
warnings.simplefilter("ignore")  # from 3.12 on fork() warns if a joined thread has not left the kernel yet
pid = os.fork()
if pid == 0:
    reads(10)
    os._exit(0)
print(os.waitpid(pid, 0)[1])
open("text", encoding="utf-8").read()
"""
)
FLAGS: dict[str, tuple[list[str], dict[str, str | None]]] = {
    "-X dev": (["-X", "dev"], {}),
    "PYTHONDEVMODE": ([], {"PYTHONDEVMODE": "1"}),
    "PYTHONMALLOC=debug": ([], {"PYTHONMALLOC": "debug"}),
    "PYTHONMALLOC=malloc_debug": ([], {"PYTHONMALLOC": "malloc_debug"}),
    "-b": (["-b"], {}),
    "-bb -W error": (["-bb", "-W", "error"], {}),
    "-W error -X dev": (["-W", "error", "-X", "dev"], {}),
    "-O": (["-O"], {}),
    "-OO": (["-OO"], {}),
    "-I": (["-I"], {}),
    "-s -P -B -q": (["-s", "-P", "-B", "-q"], {}),
    "-u": (["-u"], {}),
    "-X tracemalloc": (["-X", "tracemalloc=5"], {}),
    "-X utf8": (["-X", "utf8"], {}),
    "no home, LANG=C": ([], {"HOME": None, "LANG": "C", "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}),
    "nothing in the environment": ([], dict.fromkeys(os.environ)),
    "a hash seed": ([], {"PYTHONHASHSEED": "7"}),
    "faulthandler": (["-X", "faulthandler"], {}),
}  # fmt: skip


@pytest.mark.parametrize("how", FLAGS)
def test_ways_to_start_python(program: Runner, data: Path, how: str) -> None:
    # GIVEN a way to start Python WHEN a program is so started, bare and traced
    flags, environment = FLAGS[how]
    bare = program.bare(SHOWS, data, flags=flags, env=environment)
    if {"-I", "-E"} & set(flags):  # these options are in no variable
        words = [sys.executable, *flags, "-m", "pyio_trace", "-q", "-o", "run.pyio", program.write(SHOWS), data]
        outcome = alike(program.command(words, environment), bare)
    else:
        outcome = alike(program.traced(SHOWS, data, flags=flags, env=environment), bare)
    # THEN its output is the same, and its reads are there
    assert accounted(outcome, "pread", data) == (130 if "True sys.flags" in bare.stdout else 120)


def test_importtime_shows_what_the_program_imports(program: Runner, data: Path) -> None:
    # GIVEN -X importtime, which shows our modules too WHEN a program is run THEN its own are in the same order
    def imported(text: str) -> list[str]:
        names = [line.split("|")[-1].strip() for line in text.splitlines() if "|" in line]
        return names[names.index("fractions") - 1 :]

    text = READS + "import fractions\nreads(10)"
    bare = program.bare(text, data, flags=["-X", "importtime"])
    outcome = succeeded(program.traced(text, data, flags=["-X", "importtime"]))
    assert imported(outcome.stderr)[1:] == imported(bare.stderr)[1:]
    assert accounted(outcome, "pread", data) == 10


def limit(which: int, value: int) -> Callable[[], None]:
    """Sets both limits before the program starts."""
    return lambda: resource.setrlimit(which, (value, value))


LIMITS: dict[str, Callable[[], object]] = {
    "6 descriptors": limit(resource.RLIMIT_NOFILE, 6),
    "no core": limit(resource.RLIMIT_CORE, 0),
    "a stack of 256 KiB": limit(resource.RLIMIT_STACK, 256 << 10),
    "256 MiB of data": limit(resource.RLIMIT_DATA, 256 << 20),
    "512 MiB of address space": limit(resource.RLIMIT_AS, 512 << 20),
    "128 MiB of address space": limit(resource.RLIMIT_AS, 128 << 20),
    "no locked memory": limit(resource.RLIMIT_MEMLOCK, 0),
    "60 s of time": limit(resource.RLIMIT_CPU, 60),
    "umask 0777": lambda: os.umask(0o777),
    "nice": lambda: os.nice(5),
}  # fmt: skip


@pytest.mark.parametrize("what", LIMITS)
def test_limits(program: Runner, data: Path, what: str) -> None:
    # GIVEN a process under a limit WHEN it is traced THEN it gets as far as untraced, and all is there
    text = (
        READS
        + "reads(3000)\nprint('done')\nos.close(fd)\ntry: open('made', 'x').close()\nexcept OSError as e: print(e)\n"
    )
    bare = program.bare(text, data, before=LIMITS[what])
    (program.folder / "made").unlink(missing_ok=True)
    assert "done" in bare.stdout
    outcome = alike(program.traced(text, data, before=LIMITS[what]), bare)
    assert accounted(outcome, "pread", data) == 3000


@pytest.fixture
def open_folder(program: Runner) -> Path:
    """A folder that every user may enter and write to."""
    let_everybody_enter(program.folder)
    folder = program.folder / "everyone"
    folder.mkdir()
    folder.chmod(0o777)
    return folder


BECOME_NOBODY = "os.setgroups([]); os.setgid(65534); os.setuid(65534)\n"
root_only = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")


@root_only
@pytest.mark.parametrize(
    "also", ["", "resource.setrlimit(resource.RLIMIT_NPROC, (0, 0))", "ctypes.CDLL(None).prctl(4, 0)"]
)
def test_a_program_that_gives_up_its_rights(program: Runner, data: Path, open_folder: Path, also: str) -> None:
    # GIVEN a program that becomes a user without rights, without more processes, without its own /proc
    text = (
        READS
        + f"""\
import ctypes, resource, subprocess
later = os.dup(fd)
{BECOME_NOBODY}{also}
reads(100)
os.pread(later, 16, 0)
try: print(subprocess.run(["/usr/bin/id", "-u"], capture_output=True))
except OSError as error: print(error)
try: pid = os.fork()
except OSError as error: pid = print(error)
if pid == 0:
    reads(100)
    os._exit(5)
if pid: print(os.waitpid(pid, 0)[1])
reads(100)
"""
    )
    bare = program.bare(text, data)
    # WHEN it is run THEN its output is the same, and the operations of all its processes are there
    outcome = alike(program.traced(text, data, log=open_folder / "run.pyio"), bare)
    assert accounted(outcome, "pread", data) == 201 + 100 * ("1280\n" in bare.stdout)


@root_only
def test_a_umask_that_leaves_nothing(program: Runner, data: Path, open_folder: Path) -> None:
    # GIVEN a user without rights whose files nobody may open, not even they WHEN they trace
    text = (
        READS
        + f"""\
import pyio_trace
with pyio_trace.trace("first.pyio"): pass  # all is imported, which nobody may not be able to
{BECOME_NOBODY}os.umask(0o777)
with pyio_trace.trace({str(open_folder / "run.pyio")!r}):
    reads(100)
os.close(os.open({str(open_folder / "run.pyio")!r}, os.O_RDWR))
"""
    )
    succeeded(program.bare(text, data))
    # THEN the log can be read by them
    assert accounted(program.command(["true"], log=open_folder / "run.pyio"), "pread", data) == 100


@root_only
def test_a_program_that_runs_as_another_user(program: Runner, data: Path, open_folder: Path) -> None:
    # GIVEN a copy of id that belongs to root and is setuid WHEN a traced program of another user runs it
    shutil.copy(shutil.which("id") or "/usr/bin/id", open_folder / "id")
    (open_folder / "id").chmod(0o4755)
    text = (
        READS
        + f"import subprocess\n{BECOME_NOBODY}reads(10)\nprint(subprocess.run([{str(open_folder / 'id')!r}, '-u'], capture_output=True))"
    )
    bare = program.bare(text, data)
    assert "b'0\\n'" in bare.stdout
    outcome = alike(program.traced(text, data, log=open_folder / "run.pyio"), bare)
    # THEN it is what it was, and the program's reads are there
    assert accounted(outcome, "pread", data) == 10


def test_paths_as_long_as_they_can_be(program: Runner, data: Path) -> None:
    # GIVEN names of 255 bytes, paths of up to 4095, and one that is too long
    text = """\
    import os
    here = os.getcwd()
    deep = here
    while len(deep) + 201 < 3900:
        deep += "/" + "d" * 200
        os.mkdir(deep)
    last = deep + "/" + "f" * (4095 - len(deep) - 1)
    last = last[: len(deep) + 1 + 255]
    for path in (deep + "/short", deep + "/" + "n" * (4094 - len(deep)) if 4094 - len(deep) < 256 else last):
        os.close(os.open(path, os.O_CREAT | os.O_RDWR))
        os.stat(path)
        print(len(path))
    try: os.open(deep + "/" + "x" * 5000, 0)
    except OSError as error: print(error.errno)
    os.chdir(deep)
    os.close(os.open("here", os.O_CREAT | os.O_RDWR))
    print(len(deep))
    """
    bare = program.bare(text)
    shutil.rmtree(next(path for path in program.folder.iterdir() if path.name.startswith("ddd")))
    # WHEN it is run THEN the messages have the whole paths
    outcome = alike(program.traced(text), bare)
    first, second, refused, depth = map(int, outcome.stdout.split())
    opened = [row["path"] for row in outcome.select(op="open") if "ddd" in row["path"] and not row["errno"]]
    assert [len(path) for path in opened] == [first, second, depth + len("/here")]
    assert refused == 36  # ENAMETOOLONG


SECCOMP = """\
import ctypes, struct
def deny(number, error=1):  # EPERM, or another error, for one system call of x86-64
    program = b"".join(struct.pack("HBBI", *line) for line in (
        (0x20, 0, 0, 0), (0x15, 0, 1, number), (0x06, 0, 0, 0x00050000 | error), (0x06, 0, 0, 0x7fff0000)))
    held = ctypes.create_string_buffer(program)
    libc = ctypes.CDLL(None, use_errno=True)
    assert libc.prctl(38, 1, 0, 0, 0) == 0
    assert libc.prctl(22, 2, ctypes.byref(ctypes.create_string_buffer(
        struct.pack("HxxxxxxQ", 4, ctypes.addressof(held)))), 0, 0) == 0, ctypes.get_errno()
"""


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="numbers of system calls are the machine's")
@pytest.mark.parametrize("name, number", [("madvise", 28), ("readlinkat", 267), ("fallocate", 285), ("getcwd", 79)])
def test_a_system_call_of_ours_is_forbidden(program: Runner, data: Path, name: str, number: int) -> None:
    # GIVEN a program that lets a filter forbid itself a call that we need WHEN it goes on
    text = READS + SECCOMP + f"deny({number})\nreads(20_000)\nprint('done')\n"
    outcome = alike(program.traced(text, data), program.bare(text, data))
    # THEN it is as untraced, and everything is recorded all the same
    assert accounted(outcome, "pread", data) == 20_000
    assert outcome.log.losses() == {}


#: Each takes away what the log's blocks are allocated with where madvise cannot do it: by its name, for a moment.
TAKEN = {
    "nothing": "pass",
    "fallocate": "deny(285)",
    "descriptors": "resource.setrlimit(resource.RLIMIT_NOFILE, (4, 4))",
    "the size of files": "resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))",
    "the log's name": "os.rename(log, log + '.moved')",
    "the log's name, by another file": "os.rename(log, log + '.moved'); os.close(os.open(log, os.O_CREAT | os.O_RDWR)); os.truncate(log, 9 << 30)",
    "the root": "os.makedirs('root' + os.path.dirname(log)); os.close(os.open('root' + log, os.O_CREAT | os.O_RDWR)); "
                "os.truncate('root' + log, 9 << 30); os.chroot('root')",
}  # fmt: skip


@root_only
@pytest.mark.skipif(os.uname().machine != "x86_64", reason="numbers of system calls are the machine's")
@pytest.mark.parametrize("what", TAKEN)
def test_what_the_log_is_allocated_with_is_taken(program: Runner, data: Path, what: str) -> None:
    # GIVEN a program without madvise, as on an old kernel, that changes what it may do, or where the log is to be found
    log = program.folder / "run.pyio"
    text = (
        READS
        + SECCOMP
        + f"""\
import resource
reads(1000)
log = {str(log)!r}
open(log, "ab").close()  # untraced there is none
{TAKEN[what]}
deny(28)
reads(50_000)
print('done')
"""
    )
    bare = program.bare(text, data)
    for left in (log, Path(f"{log}.moved")):
        left.unlink(missing_ok=True)
    shutil.rmtree(program.folder / "root", ignore_errors=True)
    # WHEN it goes on THEN it is as untraced, all is recorded or counted, and nothing was allocated anywhere else
    outcome = alike(program.traced(text, data), bare)
    if (moved := Path(f"{log}.moved")).exists():
        strange = log.exists() and log.stat().st_blocks
        assert not strange
        moved.replace(log)
    if (other := Path(f"{program.folder}/root{log}")).exists():
        assert other.stat().st_blocks == 0
    assert accounted(outcome, "pread", data) == 51_000
    if what in ("nothing", "fallocate"):
        assert len(outcome.select(op="pread", path=data)) == 51_000


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="numbers of system calls are the machine's")
@pytest.mark.parametrize("what, reason", [
    ("for number in (28, 257, 285): deny(number, 38)", layout.FULL_REFUSED),
    ("for number in (28, 302): deny(number)", layout.FULL_REFUSED),
    ("deny(28); resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))", layout.FULL_LIMIT),
    ("deny(28); os.rename(log, log + '.moved')", layout.FULL_MOVED),
])  # fmt: skip
def test_why_there_is_no_more_room(program: Runner, data: Path, what: str, reason: int) -> None:
    # GIVEN a program that may not make the system calls that reserve room in the log, and a child that may
    text = (
        READS
        + SECCOMP
        + f"""\
import resource
log = {str(program.folder / "run.pyio")!r}
told, tell = os.pipe()
if (child := os.fork()) == 0:
    os.close(tell)
    os.read(told, 1)
    reads(20_000)
    os._exit(0)
{what}
reads(50_000)
os.close(tell)
os.waitpid(child, 0)
"""
    )
    # WHEN it is run traced THEN the reason is the right one, its operations are counted, and the child's recorded
    outcome = program.traced(text, data)
    assert (outcome.status, outcome.stderr) == (0, "")
    if (moved := program.folder / "run.pyio.moved").exists():
        moved.rename(outcome.path)
    losses = outcome.log.losses()
    assert losses["reason"] == layout.FULL_REASONS[reason]
    assert set(losses) == {"operations_counted_only", "since", "reason"}
    assert accounted(outcome, "pread", data) == 70_000
    child = [row["pid"] for row in outcome.processes][-1]
    assert len(outcome.select(op="pread", path=data, pid=child)) == 20_000


@pytest.mark.skipif(not shutil.which("strace"), reason="needs strace")
def test_under_another_tracer(program: Runner, data: Path) -> None:
    # GIVEN a program under ptrace, each of whose system calls stops it WHEN it is traced by us too
    text = (
        READS + "import threading\nthreads = [threading.Thread(target=reads, args=[200]) for _ in range(3)]\n"
        "for t in threads: t.start()\nfor t in threads: t.join()\nif os.fork() == 0:\n    reads(50)\n    os._exit(0)\nprint(os.wait()[1])\n"
    )
    environment = clean_environment(
        PYIO_TRACE="1", PYIO_TRACE_OUTPUT=str(program.folder / "run.pyio"), PYIO_TRACE_QUIET="1"
    )
    words = [
        "strace",
        "-f",
        "-qq",
        "-e",
        "trace=pread64",
        "-o",
        "seen",
        sys.executable,
        str(program.write(text)),
        str(data),
    ]
    told = subprocess.run(words, cwd=program.folder, env=environment, capture_output=True, text=True, timeout=100)
    assert (told.returncode, told.stdout, told.stderr) == (0, "0\n", "")
    # THEN both have seen the same
    seen = re.findall(r"pread64.*, 16, \d+\) += 16", (program.folder / "seen").read_text())
    outcome = program.command(["true"])
    assert accounted(outcome, "pread", data) == len(seen) == 650


@pytest.mark.parametrize("handler", ["os.write(out, b'x')", "open('other', 'ab').close(); os.write(out, b'x')"])
def test_a_handler_of_signals_at_a_thousand_a_second(program: Runner, data: Path, handler: str) -> None:
    # GIVEN a handler of Python that does I/O, a thousand times a second WHEN it comes in anywhere
    text = (
        READS
        + f"""\
import signal
out, calls = os.open("out", os.O_CREAT | os.O_WRONLY), 0
def handle(*args):
    global calls
    calls += 1
    {handler}
signal.signal(signal.SIGALRM, handle)
signal.setitimer(signal.ITIMER_REAL, 0.001, 0.001)
with open("text", "w") as file:
    while calls < 300:
        reads(100)
        for n in range(20): file.write("some text\\n")
signal.setitimer(signal.ITIMER_REAL, 0)
print(os.fstat(out).st_size == calls, calls)
"""
    )
    outcome = succeeded(program.traced(text, data))
    same, calls = outcome.stdout.split()
    # THEN none of its writes is missing, and no temporary file is left
    assert same == "True"
    assert accounted(outcome, "write", program.folder / "out") == int(calls)
    assert outcome.log.losses() == {}


def test_many_subinterpreters(program: Runner, data: Path) -> None:
    # GIVEN interpreters in threads of their own, from 3.12 on each with its own lock WHEN all do I/O at once
    text = """\
    import sys, threading
    try: import _interpreters as interpreters
    except ImportError: import _xxsubinterpreters as interpreters
    run = getattr(interpreters, "run_string", None) or interpreters.exec
    code = f'''if 1:
        import os
        fd = os.open({sys.argv[1]!r}, os.O_RDONLY)
        for n in range(50): assert len(os.pread(fd, 16, n)) == 16
        os.close(fd)
        with open({sys.argv[1]!r}, "rb") as file: file.read(5000)
    '''
    def work():
        for n in range(5):
            number = interpreters.create()
            run(number, code)
            interpreters.destroy(number)
    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads: thread.start()
    for thread in threads: thread.join()
    print("done")
    """
    outcome = alike(program.traced(text, data), program.bare(text, data))
    assert accounted(outcome, "pread", data) == 750
