"""A child reads and then ends in each way a process can end: none of its operations is lost."""

from __future__ import annotations

import errno
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from pyio_trace.analysis.summary.summarize import summarize
from tests.support.programs import Outcome, Runner, alike, succeeded

BLOCKS = 1000
BLOCK = 4096

#: name -> (the child's last line, what the process table says)
ENDINGS = {
    "falls off the end": ("sys.exit()", ("exit 0",)),
    "exits with a status": ("sys.exit(7)", ("exit 7",)),
    "os._exit": ("os._exit(5)", ("exit 5",)),
    "uncaught exception": ("raise RuntimeError('as intended')", ("exit 1",)),
    "SIGTERM": ("os.kill(os.getpid(), signal.SIGTERM)", ("signal 15 (SIGTERM)",)),
    "SIGKILL": ("os.kill(os.getpid(), signal.SIGKILL)", ("signal 9 (SIGKILL)",)),
    "segfault": ("ctypes.string_at(0)", ("signal 11 (SIGSEGV)",)),
    "abort": ("os.abort()", ("signal 6 (SIGABRT)",)),
    "exec": ("os.execv('/bin/true', ['true'])", ("exec", "exit 0")),
}

READS = f"""
def read(fd):
    for n in range({BLOCKS}):
        assert len(os.pread(fd, {BLOCK}, n * {BLOCK})) == {BLOCK}
"""


def check_reads(outcome: Outcome, pid: int, data: Path, op: str = "pread") -> None:
    rows = outcome.select(pid=pid, op=op, path=data)
    assert [row["file_offset"] for row in rows] == [n * BLOCK for n in range(BLOCKS)]
    assert {(row["bytes_requested"], row["bytes_moved"], row["errno"], row["calls"]) for row in rows} == {
        (BLOCK, BLOCK, 0, 1)
    }
    assert all(row["duration"] is not None for row in rows)


@pytest.mark.parametrize("ending", ENDINGS)
@pytest.mark.parametrize("opened", ["in the child", "before the fork"])
def test_child_reads_then_ends(program: Runner, data: Path, opened: str, ending: str) -> None:
    # GIVEN a parent that forks a child, which does 1000 preads and ends in this way
    line, ended = ENDINGS[ending]
    before = "fd = os.open(sys.argv[1], os.O_RDONLY)" if opened == "before the fork" else "fd = None"
    text = f"""\
import ctypes, os, resource, signal, sys
resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
{READS}
{before}
pid = os.fork()
if pid == 0:
    if fd is None:
        fd = os.open(sys.argv[1], os.O_RDONLY)
    read(fd)
    {line}
print(pid, os.waitpid(pid, 0)[1])
"""
    # WHEN it is run traced
    outcome = succeeded(program.traced(text, data))
    # THEN all of its reads are there, and how it ended
    pid = int(outcome.stdout.split()[0])
    check_reads(outcome, pid, data)
    assert outcome.process(pid)["ended"] in ended
    parent = outcome.processes[outcome.process(pid)["parent"]]
    assert parent["pid"] == outcome.pid and parent["ended"] == "exit 0"
    assert set(outcome.log.losses()) <= ({"unfollowed", "unfollowed_children"} if ending == "exec" else set())


@pytest.mark.parametrize("ending", [name for name in ENDINGS if name != "exec"])
def test_top_process_reads_then_ends(program: Runner, data: Path, ending: str) -> None:
    # GIVEN a program that does 1000 preads itself and ends in this way
    text = f"""\
import ctypes, os, resource, signal, sys
resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
{READS}
read(os.open(sys.argv[1], os.O_RDONLY))
{ENDINGS[ending][0]}
"""
    # WHEN it is run traced and bare
    outcome, bare = program.traced(text, data), program.bare(text, data)
    # THEN it ends as it does untraced, and its reads are there
    alike(outcome, bare)
    check_reads(outcome, outcome.pid, data)
    # a process that nobody of the run waits for takes the name of its signal with it, unless it asked itself to end
    seen = outcome.process(outcome.pid)["ended"]
    known = bare.status >= 0 or ending == "SIGTERM"
    assert seen == (ENDINGS[ending][1][0] if known else "lost (killed or crashed; not seen)")


NO_FORKS = """
#define _GNU_SOURCE
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
int fail_forks(void)
{
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_clone, 0, 3),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[0])),
        BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, CLONE_VM, 1, 0),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EAGAIN),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof code / sizeof *code, code};
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
}
"""


def test_a_fork_that_fails_leaves_nothing_to_wait_for(program: Runner, tmp_path: Path) -> None:
    # GIVEN a program whose forks fail
    source, library = program.write(NO_FORKS, "forks.c"), tmp_path / "forks.so"
    subprocess.run(["cc", "-shared", "-fPIC", "-o", library, source], check=True)
    text = f"""\
    import ctypes, os
    print(ctypes.CDLL({str(library)!r}).fail_forks())
    for _ in range(3):
        try:
            os.fork()
        except OSError as error:
            print(error.errno)
    """
    # WHEN it is run traced THEN the run counts as ended: its log is cut to the part in use
    outcome = succeeded(program.traced(text))
    assert outcome.stdout.split() == ["0", *[str(errno.EAGAIN)] * 3]
    assert [row["errno"] for row in outcome.select(op="fork")] == [errno.EAGAIN] * 3
    assert outcome.path.stat().st_size < 4 << 20


def test_what_was_not_flushed_to_a_command(program: Runner) -> None:
    # GIVEN a program that ends with unflushed text for a popen()ed command, while a helper waits for a pipe to close
    text = """\
    import ctypes, os
    libc = ctypes.CDLL(None)
    libc.popen.restype = ctypes.c_void_p
    libc.fputs(b"said\\n", ctypes.c_void_p(libc.popen(b"cat", b"w")))
    end, told = os.pipe()
    if os.fork() == 0:
        os.close(told)
        os.read(end, 1)
        os._exit(0)
    """
    # WHEN it is run traced THEN the command gets the text, as it does untraced
    outcome = succeeded(alike(program.traced(text), program.bare(text)))
    assert outcome.stdout == "said\n"


def test_top_process_becomes_another_program(program: Runner, data: Path) -> None:
    # GIVEN a program that reads, then execs /bin/true
    text = f"import os, sys\n{READS}\nread(os.open(sys.argv[1], os.O_RDONLY))\nos.execv('/bin/true', ['true'])\n"
    # WHEN it is run traced THEN its reads are there, and that it went on as something that is not followed
    outcome = succeeded(program.traced(text, data))
    check_reads(outcome, outcome.pid, data)
    assert outcome.process(outcome.pid)["ended"] == "exec"
    assert outcome.log.losses()["unfollowed"] == 1


def test_exec_of_another_python_goes_on_in_the_same_log(program: Runner, data: Path) -> None:
    # GIVEN a program that reads, then execs another Python that reads as well
    other = program.write(f"import os, sys\n{READS}\nread(os.open(sys.argv[1], os.O_RDONLY))\n", "other.py")
    text = f"import os, sys\n{READS}\nread(os.open(sys.argv[1], os.O_RDONLY))\n" \
           f"os.execv(sys.executable, [sys.executable, {str(other)!r}, sys.argv[1]])\n"  # fmt: skip
    # WHEN it is run traced
    outcome = succeeded(program.traced(text, data))
    # THEN the pid has two entries, each with its own reads; the second continues the run and was started by that exec
    entries = [entry for entry in outcome.processes if entry["pid"] == outcome.pid]
    assert [entry["ended"] for entry in entries] == ["exec", "exit 0"]
    assert entries[1]["parent"] == entries[0]["index"]
    assert [entry["start"] for entry in entries] == ["top", "joined"]
    [exec_row] = outcome.select(op="execve")
    assert (entries[1]["started_by"], entries[1]["site"]) == (exec_row["id"], exec_row["site"])
    for entry in entries:
        assert len(outcome.select(process=entry["index"], op="pread", path=data)) == BLOCKS
    assert outcome.log.losses() == {}


def test_plain_reads_share_one_position_between_parent_and_child(program: Runner, data: Path) -> None:
    # GIVEN a descriptor opened before the fork, read in turns by parent and child
    text = f"""\
    import os, sys
    fd = os.open(sys.argv[1], os.O_RDONLY)
    to_child, to_parent = os.pipe(), os.pipe()
    pid = os.fork()
    hear, say = (to_child[0], to_parent[1]) if pid == 0 else (to_parent[0], to_child[1])
    if pid != 0:
        os.read(fd, {BLOCK})
        os.write(say, b"x")
    for n in range(50):
        os.read(hear, 1)
        os.read(fd, {BLOCK})
        os.write(say, b"x")
    if pid == 0:
        os._exit(0)
    os.waitpid(pid, 0)
    """
    # WHEN it is run traced THEN the offsets of both, put together, are the file's in order
    outcome = succeeded(program.traced(text, data))
    rows = sorted(outcome.select(op="read", path=data), key=lambda row: row["time"])
    assert [row["file_offset"] for row in rows] == [n * BLOCK for n in range(101)]
    assert len({row["pid"] for row in rows}) == 2


def test_child_killed_while_blocked_in_a_read(program: Runner, tmp_path: Path) -> None:
    # GIVEN a child that is killed while it waits for the first byte of a FIFO
    text = """\
    import os, signal, sys
    from waiting import wait_for_reader
    os.mkfifo("queue")
    pid = os.fork()
    if pid == 0:
        fd = os.open("queue", os.O_RDWR)
        os.read(fd, 123)
        os._exit(0)
    wait_for_reader(pid)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    print(pid)
    """
    program.write_waiting()
    # WHEN it is run traced
    outcome = succeeded(program.traced(text))
    # THEN the read is there, in flight: no duration, nothing moved
    (row,) = outcome.select(pid=int(outcome.stdout), op="read", path=tmp_path / "queue")
    assert (row["duration"], row["bytes_moved"], row["bytes_requested"]) == (None, None, 123)
    assert outcome.process(row["pid"])["ended"] == "signal 9 (SIGKILL)"


@pytest.mark.parametrize("way", ["os._exit(0)", "sys.exit()", "os.kill(os.getpid(), signal.SIGKILL)"])
def test_parent_that_ends_at_once_leaves_its_child_to_be_traced(program: Runner, data: Path, way: str) -> None:
    # GIVEN a program that puts itself into the background: the parent ends when it has forked
    text = f"""\
import fcntl, os, signal, sys
{READS}
fd = os.open(sys.argv[1], os.O_RDONLY)
if os.fork():
    {way}
read(fd)
print(os.getpid())
sys.stdout.flush()
os._exit(6)
"""
    for _ in range(10):
        # WHEN it is run traced THEN the child's reads are there (its end of the output was waited for)
        outcome = program.traced(text, data)
        pid = int(outcome.stdout)
        check_reads(outcome, pid, data)
        assert outcome.log.losses() == {}


def test_a_child_takes_little_of_the_log(program: Runner, data: Path) -> None:
    # GIVEN a program that forks two hundred children, each of which opens a file and reads it
    text = """\
import os, sys
for _ in range(200):
    if os.fork() == 0:
        os._exit(len(os.read(os.open(sys.argv[1], os.O_RDONLY), 100)))
    os.wait()
"""
    # WHEN it is run traced
    outcome = succeeded(program.traced(text, data))
    # THEN all is in the log: a child has its entry there (12 KiB), and a page each for its records and its names
    assert len(outcome.select(op="read", path=data, bytes_moved=100, fd=lambda fd: fd > 2)) == 200
    assert outcome.path.stat().st_size < 200 * (12 + 4 + 4 << 10) + (512 << 10)


KILLED = """\
    import os, signal, sys, time
    told, tell = os.pipe()
    if (child := os.fork()) == 0:
        os.stat("/")
        os.write(tell, b"x")
        signal.pause()
    os.read(told, 1)
    before = time.time_ns()
    os.kill(child, signal.SIGKILL)
    {wait}
    print(child, before, time.time_ns())
"""


@pytest.mark.parametrize("waits", [True, False])
def test_a_killed_process_lived_until_somebody_knew_of_its_end(program: Runner, waits: bool) -> None:
    # GIVEN a child that is killed long after its last operation, and waited for or only dead WHEN it is run traced
    dead = 'while " Z " not in open(f"/proc/{child}/stat").read(): time.sleep(0.001)'  # a signal takes its time
    wait = "os.waitpid(child, 0)" if waits else dead
    outcome = succeeded(program.command(
        [sys.executable, "-m", "pyio_trace", "-o", "run.parquet", program.write(KILLED.format(wait=wait))],
        log="run.parquet",
    ))  # fmt: skip
    child, before, after = map(int, outcome.stdout.split())
    entry = outcome.process(child)
    # THEN it counts as ended when its parent learned of it, or when the parent ended, and the summary says so
    assert (entry["end_by"], entry["ended"]) == ("parent", "signal 9 (SIGKILL)")
    assert entry["end"] >= before - 1_000_000  # of the two clocks
    assert not waits or entry["end"] <= after + 1_000_000
    assert outcome.process(outcome.processes[0]["pid"])["end_by"] == "itself"
    summary = summarize(outcome.log)
    assert [process.wall_is for process in summary.processes] == ["", "at most"]
    assert "at most" not in outcome.stderr
    words = [sys.executable, "-m", "pyio_trace", "summary", outcome.path, "--section", "processes"]
    assert "<=" in program.command(words).stdout


ORPHAN = """\
    import os, signal, sys, time
    told, tell = os.pipe()
    if (between := os.fork()) == 0:
        if (child := os.fork()) == 0:
            os.stat("/")
            os.write(tell, str(os.getpid()).encode())
            signal.pause()
        os._exit(0)
    child = int(os.read(told, 100))
    os.waitpid(between, 0)
    before = time.time_ns()
    os.kill(child, signal.SIGKILL)
    print(child, before)
"""


def test_the_end_of_a_killed_orphan_is_not_known(program: Runner) -> None:
    # GIVEN a process that is killed after its parent has ended WHEN it is run traced
    words = [sys.executable, "-m", "pyio_trace", "-o", "run.parquet", program.write(ORPHAN)]
    outcome = succeeded(program.command(words, log="run.parquet"))
    entry = outcome.process(int(outcome.stdout.split()[0]))
    # THEN it has no end, whenever the log is packed
    assert (entry["end"], entry["end_by"], entry["ended"]) == (None, None, "lost (killed or crashed; not seen)")


def test_a_killed_run_lived_until_the_last_that_was_seen(program: Runner) -> None:
    # GIVEN a program that is killed WHEN its log is read THEN the time it lived is a bound, and said to be
    outcome = program.traced(
        "import os, signal, time; print(time.time_ns(), flush=True); os.kill(os.getpid(), signal.SIGKILL)"
    )
    assert outcome.status == -signal.SIGKILL
    [entry] = outcome.processes
    assert (entry["end"], entry["end_by"], entry["ended"]) == (None, None, "lost (killed or crashed; not seen)")
    told = program.command([sys.executable, "-m", "pyio_trace", "summary", outcome.path]).stdout
    assert "at least" in told.splitlines()[0]


#: Children are killed right after the fork, before they get the only processor.  The last three are never waited for.
KILLS = """
import ctypes, os, signal, sys
os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
libc = ctypes.CDLL(None)
killed = []
for n in range(30):
    pid = os.fork() if n % 3 else libc._Fork() if hasattr(libc, "_Fork") else libc.fork()
    if not pid:
        signal.pause()
    os.kill(pid, signal.SIGKILL)
    if n >= 27:
        os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    elif n % 2:
        os.waitpid(pid, 0)
    else:
        assert libc.waitid(os.P_PID, pid, None, os.WEXITED) == 0
    killed.append(pid)
print(*killed)
"""

#: Killed likewise, and never waited for: more than the core remembers.
MANY_KILLS = """
import os, signal
os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
killed = []
for n in range(200):
    pid = os.fork()
    if not pid:
        signal.pause()
    os.kill(pid, signal.SIGKILL)
    killed.append(pid)
print(*killed)
"""


def test_many_children_that_are_killed_and_not_waited_for(program: Runner) -> None:
    # GIVEN a parent that kills each of many children right after the fork WHEN it is traced
    outcome = succeeded(program.traced(MANY_KILLS))
    # THEN each child is in the process table with the signal that ended it
    ended = {row["pid"]: row["ended"] for row in outcome.processes}
    assert {ended.get(int(word)) for word in outcome.stdout.split()} == {"signal 9 (SIGKILL)"}
    assert outcome.path.stat().st_size < 8 << 20  # AND the log was cut


def test_children_that_are_killed_before_they_begin(program: Runner) -> None:
    # GIVEN a parent that kills each child right after the fork, and waits for it in several ways
    outcome = succeeded(program.traced(KILLS))
    pids = [int(word) for word in outcome.stdout.split()]
    # WHEN the process table is read THEN each child is there, with its parent and the signal that ended it
    children = {row["pid"]: row for row in outcome.processes if row["pid"] != outcome.pid}
    assert [(row["ppid"], row["start"], row["ended"]) for row in (children[pid] for pid in pids)] == [
        (outcome.pid, "fork", "signal 9 (SIGKILL)")
    ] * 30
    assert outcome.log.losses() == {}
    # AND the run counts as ended: the log is cut to the part in use
    assert outcome.path.stat().st_size < 1 << 20
