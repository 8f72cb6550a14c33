"""A live log is private to its owner, and no run replaces the log of another that still runs.

It is private whatever the umask, is never made through a link, and gets its name only once it is complete.  A name in
use stays with its run: on this host, in another container, and where there are no locks.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import pyio_trace
from pyio_trace.log import layout
from tests.support.mirror import mirror
from tests.support.programs import TIMEOUT, Outcome, Runner, clean_environment, succeeded

NOBODY = 65534
root_only = pytest.mark.skipif(os.geteuid() != 0, reason="only root can make another user's file")
READS = """
import os, sys
fd = os.open(sys.argv[1], os.O_RDONLY)
for n in range(50):
    os.pread(fd, 16, n)
"""
#: Reads, says so by a file, and waits until somebody else has said so as well.
MEETS = (
    READS
    + """
from waiting import wait_until
def said():
    return [name for name in os.listdir(sys.argv[2]) if name.startswith("here-")]
open(f"{sys.argv[2]}/here-{sys.argv[3]}", "x").close()
wait_until(lambda: len(said()) == int(sys.argv[4]), "the others")
"""
)


def reads(path: Path, data: Path) -> int:
    return len(Outcome(0, "", "", path).select(op="pread", path=data))


# ---- modes and links ---------------------------------------------------------


@pytest.mark.parametrize("umask", [0, 0o022, 0o077, 0o777])
def test_logs_and_dumps_are_their_owners_alone(program: Runner, umask: int) -> None:
    outcome = succeeded(program.bare(f"""
        import os
        import pyio_trace
        os.umask({umask})
        with pyio_trace.trace("run.pyio") as run:
            names = ["run.pyio", run.dump()]
            print([oct(os.stat(name).st_mode) for name in names], sorted(os.listdir()))
    """))  # fmt: skip
    assert outcome.stdout == f"{['0o100600'] * 2} ['program.py', 'run-dump-1.pyio', 'run.pyio']\n"


def test_no_descriptor_and_no_temporary_file_stays(program: Runner) -> None:
    text = "import os\nprint(sorted(os.listdir('/proc/self/fd')), os.listdir())"
    traced, bare = program.traced(text), program.bare(text)
    assert eval(traced.stdout.partition("]")[0] + "]") == eval(bare.stdout.partition("]")[0] + "]")
    assert ".tmp" not in traced.stdout


def test_a_planted_link_is_not_followed(program: Runner, data: Path) -> None:
    # GIVEN links of the log's name, to a file and to nothing, and one of the temporary name's pattern
    victim = program.folder / "victim"
    victim.write_text("precious")
    (program.folder / ".pyio-0123456789abcdef.tmp").symlink_to(victim)
    for number, target in enumerate([victim, program.folder / "made"]):
        link = program.folder / f"run-{number}.pyio"
        link.symlink_to(target)
        outcome = program.traced(READS, data, log=link.name)
        # THEN neither is written through, whatever becomes of the link
        assert outcome.status == 0 and victim.read_text() == "precious" and not (program.folder / "made").exists()
    # and a link of one's own to nothing is replaced by the log
    assert reads(program.folder / "run-1.pyio", data) == 50 and not link.is_symlink()


@root_only
@pytest.mark.parametrize("kind", ["log", "empty", "link"])
def test_another_users_name_is_left_alone(program: Runner, data: Path, kind: str) -> None:
    # GIVEN a shared folder in which another user's file has the name
    theirs = program.folder / "run.pyio"
    if kind == "link":
        theirs.symlink_to("nowhere")
    elif kind == "empty":
        theirs.touch()
    else:
        succeeded(program.traced(READS, data))
    os.lchown(theirs, NOBODY, NOBODY)
    before = theirs.lstat()
    # WHEN the core is to make its log there THEN it takes another name
    outcome = succeeded(program.bare(f"""
        import os
        from pyio_trace.capture.runtime import tracer
        from pyio_trace.config import Config
        begun = tracer.start(Config(), {str(theirs)!r}, None, create=True)
        tracer.stop()
        print(os.path.basename(begun.live))
    """))  # fmt: skip
    assert outcome.stdout == "run-2.pyio\n"
    now = theirs.lstat()
    assert (now.st_ino, now.st_size, now.st_uid) == (before.st_ino, before.st_size, NOBODY)
    # AND an error says so to a caller that names it
    if kind != "link":
        outcome = succeeded(program.traced(READS, data))
        assert outcome.stderr.count("\n") == 1 and outcome.stderr.endswith("[log-exists]\n")


KILLED = """
#include <signal.h>
int link(const char *from, const char *to) { (void)from; (void)to; return raise(SIGKILL); }
"""


def test_a_program_that_is_killed_while_it_makes_its_log(program: Runner, data: Path) -> None:
    # GIVEN a program that is killed right before its log takes its name
    killed = program.traced(READS, data, env={"LD_PRELOAD": str(compiled(program, INCLUDES + FILTER + KILLED))})
    # THEN there is a file whose name says that it is no log
    assert killed.status == -9
    (path,) = program.folder.glob(".pyio-*")
    assert re.fullmatch(r"\.pyio-[0-9a-f]{16}\.tmp", path.name) and path.stat().st_mode & 0o777 == 0o600
    assert not list(program.folder.glob("*.pyio"))
    # AND nothing reads it, or minds it
    succeeded(program.traced(READS, data))
    assert reads(program.folder, data) == 50 and "logs" not in pyio_trace.open(program.folder).info()


# ---- two runs, one name ------------------------------------------------------


def start(program: Runner, words: list[str], log: str | None, **env: str) -> subprocess.Popen[str]:
    """A traced program in the background."""
    extra = {"PYIO_TRACE": "1", "PYIO_TRACE_QUIET": "0", **env}
    if log is not None:
        extra["PYIO_TRACE_OUTPUT"] = log
    return subprocess.Popen(words, cwd=program.folder, env=clean_environment(**extra), text=True,
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE)  # fmt: skip


def test_twenty_at_once(program: Runner, data: Path) -> None:
    # GIVEN twenty programs that start at once with one name, and all live until the last has begun
    script = program.write(MEETS)
    program.write_waiting()
    started = [
        start(program, [sys.executable, str(script), str(data), str(program.folder), str(n), "20"], "run.pyio")
        for n in range(20)
    ]
    said = [process.communicate(timeout=TIMEOUT)[1] for process in started]
    assert [process.returncode for process in started] == [0] * 20
    # THEN each is in a log of its own, whole, or says that it is not traced
    refused = [text for text in said if "[log-in-use]" in text]
    logs = sorted(program.folder.glob("run*.pyio"))
    assert len(logs) + len(refused) == 20 and logs
    assert [reads(log, data) for log in logs] == [50] * len(logs)
    assert len({pyio_trace.open(log).info()["run"] for log in logs}) == len(logs)
    for text in said:
        assert re.search(r"another run's, or no log of yours; the log is|\[log-in-use\]|^pyio_trace: ", text), text


#: A name that a child of a run holds when another run takes it, without the look that the launch takes before.
HELD = (
    READS
    + """
import pyio_trace
from pyio_trace.capture.runtime import tracer
from pyio_trace.config import Config
ready, begin = os.pipe(), os.pipe()
with pyio_trace.trace("run.pyio"):
    if os.fork() == 0:  # it lives on when its parent has stopped tracing
        os.read(begin[0], 1)
        for n in range(50):
            os.pread(fd, 16, n)
        os._exit(0)
for number in range(2):
    begun = tracer.start(Config(), os.path.abspath("run.pyio"), None, create=True)
    for n in range(20):
        os.pread(fd, 16, n)
    tracer.stop()
    print(os.path.basename(begun.live))
os.write(begin[1], b"x")
os.wait()
"""
)
#: Commands for unshare --mount: runs the rest in a folder on overlayfs.
OVERLAY = """
set -e
mkdir lower upper work merged
mount -t overlay -o lowerdir=lower,upperdir=upper,workdir=work overlay merged
cd merged
exec "$@"
"""


def test_the_core_numbers_a_name_that_is_held(program: Runner, data: Path) -> None:
    outcome = succeeded(program.bare(HELD, data))
    assert outcome.stdout == "run-2.pyio\nrun-3.pyio\n"
    assert [reads(program.folder / name, data) for name in ("run.pyio", "run-2.pyio", "run-3.pyio")] == [50, 20, 20]


def test_a_name_that_is_held_on_overlayfs(program: Runner, data: Path) -> None:
    # GIVEN overlayfs, where close() releases the lock of a mapped file
    unshare = ["unshare", "--mount", "sh", "-c", OVERLAY, "sh"]
    probe = program.folder / "probe"
    probe.mkdir()
    if os.geteuid() or subprocess.run([*unshare, "true"], cwd=probe, capture_output=True).returncode:
        pytest.skip("needs root, unshare --mount, and a folder that overlayfs can be mounted over")
    # WHEN two more runs are told to use the log of a run whose child is still alive
    outcome = succeeded(program.command([*unshare, sys.executable, program.write(HELD), data]))
    # THEN their logs get a number in their names, and the first log is whole
    assert outcome.stdout == "run-2.pyio\nrun-3.pyio\n"
    logs = [program.folder / "upper" / name for name in ("run.pyio", "run-2.pyio", "run-3.pyio")]
    assert [reads(log, data) for log in logs] == [50, 20, 20]


def test_a_stretch_that_is_over_is_replaced(program: Runner, data: Path) -> None:
    outcome = succeeded(program.bare(READS + """
import pyio_trace
for number in range(3):
    with pyio_trace.trace("run.pyio") as run:
        os.pread(fd, 16, number)
    print(os.path.basename(run.path))
""", data))  # fmt: skip
    assert outcome.stdout == "run.pyio\n" * 3
    assert reads(program.folder / "run.pyio", data) == 1


def test_a_log_that_was_full_when_it_ended(program: Runner, data: Path) -> None:
    """Its file is as long as its budget, as that of one which is being written."""
    text = (
        READS
        + """
import mmap, pyio_trace
for number in range(3):
    with pyio_trace.trace("run.pyio", max_log_size="1M") as run:
        for n in range(30_000):
            os.pread(fd, 16, n % 100)
    memory = [mmap.mmap(-1, 1 << 20) for _ in range(64)]
    for block in memory:
        block[:] = b"x" * len(block)
    with pyio_trace.trace("other.pyio"):
        pass
    assert all(block[:] == b"x" * len(block) for block in memory)
    print(os.path.basename(run.path))
"""
    )
    assert succeeded(program.bare(text, data)).stdout == "run.pyio\n" * 3


NAMES = {"same": "run.pyio", "packed": "run.parquet", "pattern": "run-%p.pyio", "default": None}


@pytest.mark.parametrize("naming", NAMES)
def test_two_namespaces_with_one_process_number(program: Runner, data: Path, naming: str) -> None:
    # GIVEN two containers that share a folder and a host's name, and a program in each whose number is 1
    unshare = ["unshare", "--pid", "--fork", "--mount-proc", "--kill-child"]
    if os.geteuid() or subprocess.run([*unshare, "true"], capture_output=True).returncode:
        pytest.skip("needs root and unshare --pid")
    work = program.folder / "work"
    work.mkdir()
    script = program.write(MEETS + "print(os.getpid())")
    program.write_waiting()
    words = [*unshare, sys.executable, str(script), str(data), str(program.folder)]
    # WHEN both run at once, each in a pid namespace of its own
    log = NAMES[naming]
    started = [start(program, [*words, str(n), "2"], None if log is None else str(work / log)) for n in range(2)]
    said = [process.communicate(timeout=TIMEOUT) for process in started]
    assert [out for out, _ in said] == ["1\n"] * 2, said
    logs = [*program.folder.glob("pyio-*.parquet"), *program.folder.glob("*.pyio"), *work.iterdir()]
    # THEN there are two whole logs
    assert [reads(path, data) for path in logs] == [50, 50], said


# ---- no locks, other hosts ----------------------------------------------------

NO_LOCKS = """
#include <errno.h>
#include <stdlib.h>
int flock(int fd, int how) { (void)fd; (void)how; errno = atoi(getenv("NO_LOCKS")); return -1; }
"""
#: a program that looks like an earlier run's owner or not -> how the header is forged
LEFT = {
    "its owner is gone": ({}, "run.pyio"),
    "its owner lives": ({"owner_pid": "live", "owner_start": "live"}, "run-2.pyio"),
    "its owner's number is another process's": ({"owner_pid": "live"}, "run.pyio"),
    "it is another host's": ({"boot_id": b"0" * 36, "host": b"elsewhere"}, "run-2.pyio"),
    "it is another container's": ({"namespace_inode": bytes(8)}, "run-2.pyio"),
    "it has a forked child without an entry": ({"forks_pending": b"\1"}, "run-2.pyio"),
}


def compiled(program: Runner, text: str) -> Path:
    compiler = shutil.which("gcc")
    if not compiler:
        pytest.skip("needs gcc")
    source, library = program.folder / "own.c", program.folder / "own.so"
    source.write_text(text)
    subprocess.run([compiler, "-shared", "-fPIC", "-o", str(library), str(source)], check=True)
    return library


@pytest.fixture
def left(program: Runner, data: Path) -> Path:
    """The uncut log of a run that was killed."""
    text = f"{READS}\nimport signal\nos.kill(os.getpid(), signal.SIGKILL)"
    assert program.traced(text, data, env={"PYIO_TRACE_MAX_LOG_SIZE": "1M", "PYIO_TRACE_SAMPLE": "off"}).status == -9
    return program.folder / "run.pyio"


def forge(log: Path, values: dict[str, bytes | str]) -> None:
    with log.open("r+b") as file:
        for field, value in values.items():
            if value == "live":
                start_time = Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19]
                number = os.getpid() if field == "owner_pid" else int(start_time)
                value = number.to_bytes(4 if field == "owner_pid" else 8, "little")
            kind, at = layout.HEADER.fields[field][:2]
            assert isinstance(value, bytes)
            file.seek(int(at))
            file.write(value.ljust(kind.itemsize, b"\0"))


# error 0: there are locks; the others all say that there are none: EOPNOTSUPP, ENOLCK, ENOSYS, EINVAL
@pytest.mark.parametrize(
    ("what", "error"),
    [(what, error) for what in LEFT for error in (0, 95)] + [("its owner lives", error) for error in (37, 38, 22)],
)
def test_a_log_that_was_left(program: Runner, data: Path, left: Path, what: str, error: int) -> None:
    values, name = LEFT[what]
    forge(left, dict(values))
    env = {"LD_PRELOAD": str(compiled(program, NO_LOCKS)), "NO_LOCKS": str(error)} if error else {}
    if not error and what in ("it is another container's", "it has a forked child without an entry"):
        name = "run.pyio"  # locks reach across the containers of a host, and say who still has the log
    before = left.read_bytes()
    outcome = succeeded(program.traced(READS, data, env={**env, "PYIO_TRACE_QUIET": "0"}))
    assert reads(program.folder / name, data) == 50
    if name != "run.pyio":
        assert left.read_bytes() == before
        line = r"^pyio-trace: '.*/run.pyio' is another run's, or no log of yours; the log is '.*/run-2.pyio'$"
        assert re.search(line, outcome.stderr, re.MULTILINE)


def test_without_locks_a_finished_log_is_replaced(program: Runner, data: Path) -> None:
    env = {"LD_PRELOAD": str(compiled(program, NO_LOCKS)), "NO_LOCKS": "95"}
    for _ in range(2):
        succeeded(program.traced(READS, data, env=env))
        assert sorted(path.name for path in program.folder.glob("*.pyio")) == ["run.pyio"]


@pytest.mark.parametrize("error", [95, 37])
def test_without_locks_children_join_their_run(program: Runner, data: Path, error: int) -> None:
    # GIVEN a file system without locks WHEN a child joins its parent's log THEN both are in that one log
    env = {"LD_PRELOAD": str(compiled(program, NO_LOCKS)), "NO_LOCKS": str(error)}
    text = f"import subprocess, sys\nsubprocess.run([sys.executable, 'child.py', sys.argv[1]], check=True)\n{READS}"
    program.write(READS, "child.py")
    outcome = succeeded(program.traced(text, data, env=env))
    assert [path.name for path in program.folder.glob("*.pyio")] == ["run.pyio"]
    made = outcome.select(op="pread", path=data)
    assert len(made) == 100 and len({row["process"] for row in made}) == 2


@pytest.mark.parametrize("filtered", [False, True])
def test_a_log_is_mapped_by_its_name(program: Runner, filtered: bool) -> None:
    # GIVEN a log that takes its name by renameat2, or, where there is none (NFS), by a link
    env = {"LD_PRELOAD": str(compiled(program, INCLUDES + FILTER))} if filtered else {}
    # WHEN the program looks at its own mappings THEN they have the log's name, which doctors and debuggers go by
    outcome = succeeded(program.traced("print(*{line.split()[-1] for line in open('/proc/self/maps') if 'pyio' in line "
                                       "and line.split()[1] == 'rw-s'})", env=env))  # fmt: skip
    assert outcome.stdout == f"{outcome.path}\n"


NO_LINKS = """
#define _GNU_SOURCE
#include <errno.h>
#include <sys/syscall.h>
#include <unistd.h>
int link(const char *from, const char *to) { (void)from; (void)to; errno = EPERM; return -1; }
"""


@pytest.mark.parametrize("filtered", [False, True])
def test_without_links(program: Runner, data: Path, filtered: bool) -> None:
    # GIVEN no link(2), and perhaps no renameat2 either
    env = {"LD_PRELOAD": str(compiled(program, NO_LINKS))}
    if filtered:
        env["LD_PRELOAD"] = str(compiled(program, NO_LINKS + FILTER))
    (program.folder / "run.pyio").touch()  # an empty file may be replaced
    outcome = succeeded(program.traced(READS, data, env=env))
    assert outcome.stderr == "" and reads(outcome.path, data) == 50
    succeeded(program.traced(READS, data, env=env))
    assert not [name for name in os.listdir(program.folder) if name.endswith(".tmp") or "-2" in name]
    # AND a log that is held is not replaced so either
    text = (
        READS
        + """
import pyio_trace
if os.fork():
    os.wait()
else:
    os.environ["PYIO_TRACE"] = "0"
    os.execv(sys.executable, [sys.executable, sys.argv[2], os.path.abspath("run.pyio")])
"""
    )
    other = program.write("""
        import sys
        from pyio_trace.capture.runtime import tracer
        from pyio_trace.config import Config
        begun = tracer.start(Config(), sys.argv[1], None, create=True)
        tracer.stop()
        print(begun.live)
    """, "other.py")  # fmt: skip
    outcome = succeeded(program.traced(text, data, other, env=env))
    assert outcome.stdout.endswith("/run-2.pyio\n") and reads(outcome.path, data) == 50


#: renameat2 fails with ENOSYS: as on Linux before 3.15, and on file systems that do not know the flag.
INCLUDES = """
#define _GNU_SOURCE
#include <errno.h>
#include <sys/syscall.h>
"""
FILTER = """
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
__attribute__((constructor)) static void filter(void)
{
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_renameat2, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof code / sizeof *code, code};
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
}
"""


# ---- file systems that keep neither owner nor mode ----------------------------


@pytest.fixture(params=["owner", "mode"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Path]:
    """A place where every file is one user's, or can be read by all."""
    with mirror(tmp_path, request.param) as where:
        yield where


def test_a_file_system_that_keeps_neither_owner_nor_mode(program: Runner, data: Path, place: Path) -> None:
    # GIVEN such a place, which can be mapped
    (place / "file").write_bytes(bytes(8192))
    text = "import mmap, sys\nf = open(sys.argv[1], 'r+b')\nmmap.mmap(f.fileno(), 8192)\n"
    succeeded(program.bare(text, place / "file"))
    # WHEN a log is made there THEN it is in memory during the run, private, and is written there at the end
    text = READS + "print(oct(os.stat(os.environ['PYIO_TRACE_LOG']).st_mode), os.environ['PYIO_TRACE_LOG'])"
    outcome = succeeded(program.traced(text, data, log=place / "run.pyio", env={"PYIO_TRACE_QUIET": "0"}))
    mode, live = outcome.stdout.split()
    assert mode == "0o100600" and live.startswith("/dev/shm/")
    assert f"its log is {live!r}" in outcome.stderr and "kept private" in outcome.stderr
    assert reads(place / "run.pyio", data) == 50 and not os.path.exists(live)


@pytest.mark.parametrize("name", ["run.parquet", "run.pyio"])
def test_an_isolated_launch_needs_a_place_of_the_usual_kind(
    program: Runner, data: Path, place: Path, name: str
) -> None:
    # GIVEN a program that would learn from its log alone where that is to go at the end WHEN it cannot lie beside that
    script = program.write(READS)
    words = [sys.executable, "-I", "-m", "pyio_trace", "-o", place / name, script, data]
    outcome = program.command(words)
    # THEN the launch is refused before it runs, and nothing stays
    assert (outcome.status, outcome.stdout, outcome.stderr.count("\n")) == (2, "", 1)
    assert "name another place with -o [unwritable-log]" in outcome.stderr
    assert list(place.iterdir()) == [] and not list(Path("/dev/shm").glob("*-run.pyio"))
