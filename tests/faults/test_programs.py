"""Programs that are hard to trace: output, status and warnings stay the same, and every read is in the log."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from tests.support.programs import Runner, accounted, alike

#: Before each program: reads(n) makes n preads of the data.
PRELUDE = """\
import ctypes, gc, os, random, resource, signal, subprocess, sys, threading, time, warnings
warnings.simplefilter("ignore")
DATA = sys.argv[1]
def reads(times):
    fd = os.open(DATA, os.O_RDONLY)
    for n in range(times):
        assert len(os.pread(fd, 16, n)) == 16
    os.close(fd)
"""

#: name -> (how many preads, the program)
QUICK = {
    "all descriptors closed": (3000, """\
os.closerange(3, 65536)
reads(3000)
"""),
    "descriptors closed that are not the program's": (2000, """\
chance = random.Random(1)
for n in range(1000):
    try: os.close(chance.randrange(3, 80))
    except OSError: pass
    reads(2)
"""),
    "10,000 frames deep": (10, """\
sys.setrecursionlimit(100_000)
def down(n):
    return down(n - 1) if n else reads(10)
down(10_000)
"""),
    "as deep as it goes": (3, """\
def down(n):
    try:
        return down(n + 1)
    except RecursionError:
        return n
print(down(0))
reads(3)
"""),
    "a recursion error in the middle of a read": (3, """\
class Own:
    def __index__(self): return len(os.pread(fd, self, 0))
fd = os.open(DATA, 0)
try: os.pread(fd, Own(), 0)
except RecursionError as error: print(error)
reads(3)
"""),
    "daemon threads at the end": (100, """\
def forever():
    while True:
        with open(os.devnull, "rb") as file: file.read(10)
for n in range(4): threading.Thread(target=forever, daemon=True).start()
reads(100)
"""),
    "finalizers at the end": (7, """\
class Last:
    def __init__(self): self.read, self.open, self.data = os.pread, os.open, DATA
    def __del__(self):
        fd = self.open(self.data, 0)
        for n in range(7): self.read(fd, 16, n)
keep = Last()
keep.itself = keep
"""),
    "sys.exit in threads": (20, """\
def leave():
    reads(5)
    sys.exit(3)
threads = [threading.Thread(target=leave) for n in range(4)]
for thread in threads: thread.start()
for thread in threads: thread.join()
"""),
    "stopped and continued": (200, """\
pid = os.fork()
if pid == 0:
    for n in range(20):
        os.kill(os.getpid(), signal.SIGSTOP)
        reads(10)
    os._exit(4)
while True:
    _, status = os.waitpid(pid, os.WUNTRACED)
    if not os.WIFSTOPPED(status): break
    os.kill(pid, signal.SIGCONT)
print(os.waitstatus_to_exitcode(status))
"""),
    "dies with its parent": (100, """\
ours, theirs = os.pipe()
middle = os.fork()
if middle == 0:
    if os.fork() == 0:
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)
        reads(100)
        os.write(theirs, b"x")
        signal.pause()
    os.read(ours, 1)
    os._exit(0)
os.close(theirs)
print(os.waitpid(middle, 0)[1], os.read(ours, 1))
"""),
    "not dumpable": (100, """\
print(ctypes.CDLL(None).prctl(4, 0))
reads(100)
print(ctypes.CDLL(None).prctl(3))
"""),
    "a folder that is gone": (10, """\
os.mkdir("gone"); os.chdir("gone"); os.rmdir("../gone")
try: open("x", "w")
except FileNotFoundError as error: print(error)
reads(5)
if os.fork() == 0:
    reads(5)
    os._exit(0)
os.wait()
print(subprocess.run([sys.executable, "-c", "print(1)"], capture_output=True, text=True))
"""),
    "memory mapped beside the log": (20_000, """\
libc = ctypes.CDLL(None)
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
def neighbours():
    ends = [[int(end, 16) for end in line.split()[0].split("-")] for line in open("/proc/self/maps")]
    for (_, end), (start, _) in zip(ends, ends[1:]):
        if start - end >= 3 * 65536 and end < 1 << 47: yield end
for at in list(neighbours()): assert libc.mmap(at, 65536, 3, 0x32, -1, 0) == at
reads(20_000)
"""),
    "a fault of its own": (10, """\
resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
import mmap
reads(10)
with open("short", "wb+") as file:
    file.truncate(8192)
    memory = mmap.mmap(file.fileno(), 8192)
    file.truncate(0)
    sys.stdout.flush()
    memory[4096] = 1
"""),
    "a bus error from outside": (10, """\
resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
reads(10)
os.kill(os.getpid(), signal.SIGBUS)
"""),
    "its own handler of bus errors": (10, """\
print(signal.getsignal(signal.SIGBUS))
print(signal.signal(signal.SIGBUS, lambda *a: print("mine", a[0])))
os.kill(os.getpid(), signal.SIGBUS)
signal.signal(signal.SIGBUS, signal.SIG_IGN)
os.kill(os.getpid(), signal.SIGBUS)
print(signal.signal(signal.SIGBUS, signal.SIG_DFL))
reads(10)
"""),
    "names that are not text": (6, """\
for name in (b"\\xff\\xfe", b"two\\nlines", b"tab\\t", b"quote\\"'", b"\\x01", "\\U0001f600".encode()):
    with open(os.path.join(os.getcwdb(), name), "wb") as file: file.write(name)
    fd = os.open(name, os.O_RDONLY)
    assert os.read(fd, 99) == name
reads(6)
"""),
    "other users": (20, """\
fd = os.open(DATA, 0)
os.setgid(65534); os.setuid(65534)
for n in range(10): assert len(os.pread(fd, 16, n)) == 16
pid = os.fork()
if pid == 0:
    for n in range(10): assert len(os.pread(fd, 16, n)) == 16
    os._exit(os.getuid() % 251)
print(os.waitpid(pid, 0)[1], os.getresuid())
"""),
    "another root": (20, """\
fd = os.open(DATA, 0)
os.mkdir("root")
os.chroot("root"); os.chdir("/")
for n in range(10): assert len(os.pread(fd, 16, n)) == 16
if os.fork() == 0:
    for n in range(10): assert len(os.pread(fd, 16, n)) == 16
    os._exit(0)
print(os.wait()[1], os.listdir("/"))
"""),
}  # fmt: skip

#: As above, for those that take their time.
SLOW = {
    "50 times itself": (10 * 51, """\
reads(10)
turn = int(sys.argv[2]) if sys.argv[2:] else 0
if turn < 50:
    os.execv(sys.executable, [sys.executable, __file__, DATA, str(turn + 1)])
print(turn)
"""),
    "10,000 threads": (10_000, """\
for n in range(200):
    threads = [threading.Thread(target=reads, args=[1]) for _ in range(50)]
    for thread in threads: thread.start()
    for thread in threads: thread.join()
"""),
    "1,000 forks": (2000, """\
for n in range(1000):
    pid = os.fork()
    if pid == 0:
        reads(2)
        os._exit(n % 200)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == n % 200
"""),
    "1,000 forks, 50 at a time": (2000, """\
for burst in range(20):
    pids = []
    for n in range(50):
        pid = os.fork()
        if pid == 0:
            reads(2)
            os._exit(n)
        pids.append(pid)
    assert [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in pids] == list(range(50))
"""),
}  # fmt: skip


def run_both(program: Runner, data: Path, what: tuple[int, str]) -> None:
    # GIVEN a program WHEN it is run bare and traced THEN its output is the same, and every read is accounted for
    times, text = what
    bare = program.bare(PRELUDE + text, data)
    shutil.rmtree(program.folder / "root", ignore_errors=True)
    outcome = alike(program.traced(PRELUDE + text, data), bare)
    assert accounted(outcome, "pread", data) == times
    assert "torn" not in outcome.log.losses()


ROOT_ONLY = pytest.mark.skipif(os.geteuid() != 0, reason="only root can change the root")


@pytest.mark.parametrize("what", [pytest.param(one, marks=[ROOT_ONLY] * (one == "another root")) for one in QUICK])
def test_hard_on_the_watcher(program: Runner, data: Path, what: str) -> None:
    run_both(program, data, QUICK[what])


@pytest.mark.slow
@pytest.mark.parametrize("what", SLOW)
def test_many(program: Runner, data: Path, what: str) -> None:
    run_both(program, data, SLOW[what])
