# ruff: noqa: E501 - in the tables a program stands on one line
"""Descriptors: which file each one is, however it came to be."""

from __future__ import annotations

import ctypes
import os
import re
import shutil
import sys
from pathlib import Path

import pytest

from tests.support.programs import Runner, succeeded
from tests.support.surroundings import allow_descriptors


def test_descriptors_above_1024(program: Runner, tmp_path: Path) -> None:
    # GIVEN a program with 3000 files open, which writes to each by its descriptor
    allow_descriptors(8192)
    text = """\
    import os
    os.mkdir("many")
    fds = [os.open(f"many/{n}", os.O_CREAT | os.O_RDWR) for n in range(3000)]
    high = os.dup2(fds[7], 8000)
    for n, fd in enumerate(fds):
        os.pwrite(fd, b"x" * (n + 1), n)
    os.pwrite(high, b"high", 77)
    for fd in fds: os.close(fd)
    """
    # WHEN it is run traced THEN each write and close has its own file, descriptor and offset
    outcome = succeeded(program.traced(text))
    rows = outcome.select(op="pwrite")
    assert [(row["path"], row["file_offset"], row["bytes_moved"]) for row in rows[:-1]] == [
        (f"{tmp_path}/many/{n}", n, n + 1) for n in range(3000)
    ]
    assert max(row["fd"] for row in rows[:-1]) >= 3000
    assert (rows[-1]["path"], rows[-1]["fd"], rows[-1]["file_offset"]) == (f"{tmp_path}/many/7", 8000, 77)
    closes = outcome.select(op="close", path=lambda path: path is not None and "/many/" in path)
    assert [row["path"] for row in closes] == [f"{tmp_path}/many/{n}" for n in range(3000)]


#: what a program does with descriptors, and the writes that must be seen: (file, fd, offset, bytes)
REUSES = {
    "dup shares the position": (
        "a = os.open('a', W); b = os.dup(a); os.write(a, b'12'); os.write(b, b'345'); os.lseek(b, 10, 0); os.write(a, b'6')",
        [("a", 0, 2), ("a", 2, 3), ("a", 10, 1)],
    ),
    "dup2 replaces": (
        "a = os.open('a', W); b = os.open('b', W); os.write(b, b'1'); os.dup2(a, b); os.write(b, b'22'); os.write(a, b'333')",
        [("b", 0, 1), ("a", 0, 2), ("a", 2, 3)],
    ),
    "dup2 to itself": ("a = os.open('a', W); os.dup2(a, a); os.write(a, b'1')", [("a", 0, 1)]),
    "a number used again": (
        "a = os.open('a', W); os.write(a, b'1'); os.close(a); b = os.open('b', W); assert a == b; os.write(b, b'22')",
        [("a", 0, 1), ("b", 0, 2)],
    ),
    "a number used again by a copy": (
        "a = os.open('a', W); b = os.open('b', W); os.close(a); assert os.dup(b) == a; os.write(a, b'1'); os.write(b, b'22')",
        [("b", 0, 1), ("b", 1, 2)],
    ),
    "closerange": (
        "a = os.open('a', W); b = os.open('b', W); os.write(b, b'1'); os.closerange(3, 65536); "
        "c = os.open('c', W); assert c == 3; os.write(c, b'22'); d = os.open('d', W); os.write(d, b'333')",
        [("b", 0, 1), ("c", 0, 2), ("d", 0, 3)],
    ),
    "a pipe takes the number": (
        "a = os.open('a', W); os.close(a); r, w = os.pipe(); assert r == a; os.write(w, b'no'); os.close(r); "
        "b = os.open('b', W); assert b == a; os.write(b, b'22')",
        [("b", 0, 2)],
    ),
    "a socket takes the number": (
        "a = os.open('a', W); os.close(a); s, t = socket.socketpair(); assert s.fileno() == a; s.send(b'no'); s.close(); "
        "b = os.open('b', W); assert b == a; os.write(b, b'22')",
        [("b", 0, 2)],
    ),
    "a file from a socket takes a pipe's number": (
        "a = os.open('a', W); s, t = socket.socketpair(); t.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1); r, w = os.pipe(); "
        "close = {'x86_64': 3, 'aarch64': 57}[os.uname().machine]; ctypes.CDLL(None).syscall(close, r); "
        "socket.send_fds(s, [b'x'], [a]); ancillary = t.recvmsg(10, 1000)[1]; assert len(ancillary) == 2; "
        "assert struct.unpack('i', ancillary[1][2]) == (r,); os.write(r, b'12')",
        [("a", 0, 2)],
    ),
    "append": (
        "a = os.open('a', W | os.O_APPEND | os.O_EXCL); b = os.open('a', W | os.O_APPEND); os.write(a, b'1'); os.write(b, b'22'); "
        "os.write(a, b'333'); os.lseek(a, 0, 0); os.write(a, b'4')",
        [("a", 0, 1), ("a", 1, 2), ("a", 3, 3), ("a", 6, 1)],
    ),
    "seeks": (
        "a = os.open('a', W); os.write(a, b'x' * 100); os.lseek(a, -10, 2); os.write(a, b'1'); os.lseek(a, 5, 1); "
        "os.write(a, b'22'); os.lseek(a, 7, 0); os.write(a, b'333')",
        [("a", 0, 100), ("a", 90, 1), ("a", 96, 2), ("a", 7, 3)],
    ),
    "a failed seek changes nothing": (
        "a = os.open('a', W); os.write(a, b'12')\ntry: os.lseek(a, -5, 0)\nexcept OSError: pass\nos.write(a, b'3')",
        [("a", 0, 2), ("a", 2, 1)],
    ),
    "fcntl dup": (
        "a = os.open('a', W); b = fcntl.fcntl(a, fcntl.F_DUPFD_CLOEXEC, 100); assert b == 100; os.write(b, b'1'); os.write(a, b'22')",
        [("a", 0, 1), ("a", 1, 2)],
    ),
    "writev and pwritev": (
        "a = os.open('a', W); os.writev(a, [b'12', b'345']); os.pwritev(a, [b'x', b'y'], 50); os.write(a, b'6')",
        [("a", 0, 5), ("a", 50, 2), ("a", 5, 1)],
    ),
    "another directory": (
        "os.mkdir('d'); os.chdir('d'); a = os.open('../a', W); os.write(a, b'1'); b = os.open('b', W); os.write(b, b'22')",
        [("a", 0, 1), ("d/b", 0, 2)],
    ),
    "relative to a directory": (
        "os.mkdir('d'); d = os.open('d', 0); a = os.open('a', W, dir_fd=d); os.write(a, b'1'); os.fchdir(d); b = os.open('b', W); os.write(b, b'22')",
        [("d/a", 0, 1), ("d/b", 0, 2)],
    ),
    "unlinked while open": ("a = os.open('a', W); os.unlink('a'); os.write(a, b'1')", [("a", 0, 1)]),
    "a name that is not text": ("a = os.open(b'\\xff', W); os.write(a, b'1')", [("\\xff", 0, 1)]),
    "non-ASCII name": ("a = os.open('ä☃', W); os.write(a, b'1')", [("ä☃", 0, 1)]),
}  # fmt: skip


@pytest.mark.parametrize("what", REUSES)
def test_which_file_a_descriptor_is(program: Runner, tmp_path: Path, what: str) -> None:
    # GIVEN a program that uses descriptor numbers in this way
    line, wanted = REUSES[what]
    text = f"import ctypes, fcntl, os, socket, struct\nW = os.O_CREAT | os.O_RDWR\n{line}\n"
    # WHEN it is run traced THEN each write has the right file and offset
    outcome = succeeded(program.traced(text))
    rows = outcome.select(op=("write", "writev", "pwritev", "pwritev2"), layer="posix", pid=outcome.pid)
    seen = [(row["path"], row["file_offset"], row["bytes_moved"]) for row in rows if row["path"] != "/dev/null"]
    assert [(path.replace("/d/../", "/"), offset, moved) for path, offset, moved in seen] == [
        (f"{tmp_path}/{name}", offset, moved) for name, offset, moved in wanted
    ]


def test_descriptor_inherited_over_exec_and_open_before_the_start(program: Runner, data: Path) -> None:
    # GIVEN a program whose standard input is a file, and that inherits another one
    text = """\
    import os
    os.read(0, 10)
    os.read(0, 10)
    """
    words = ["/bin/sh", "-c", f"exec {__import__('sys').executable} {program.write(text)} < {data}"]
    env = {"PYIO_TRACE": "1", "PYIO_TRACE_OUTPUT": str(program.folder / "run.pyio"), "PYIO_TRACE_QUIET": "1"}
    # WHEN it is run traced THEN it is found by what the kernel calls it
    outcome = succeeded(program.command(words, env))
    assert [(row["fd"], row["file_offset"]) for row in outcome.select(op="read", path=data)] == [(0, 0), (0, 10)]


def test_pipes_sockets_and_terminals_are_counted_only(program: Runner) -> None:
    # GIVEN a program that moves bytes through a pipe and a socket
    text = """\
    import os, socket
    r, w = os.pipe()
    for n in range(10):
        os.write(w, b"x" * 100)
        os.read(r, 100)
    a, b = socket.socketpair()
    os.write(a.fileno(), b"x" * 50)
    """
    # WHEN it is run traced THEN they have no rows, and their counters are exact
    outcome = succeeded(program.traced(text))
    assert outcome.select(op="write", bytes_moved=(100, 50)) == []
    counters = {row["kind"]: row for row in outcome.log.counters().to_pylist() if row["why"] == "excluded"}
    assert counters["pipe"]["bytes"] >= 2000 and counters["pipe"]["calls"] >= 20
    assert counters["socket"]["bytes"] == 50


@pytest.mark.skipif(shutil.which("strace") is None, reason="there is no strace")
def test_what_no_file_is_nobody_asks_the_kernel(program: Runner) -> None:
    # GIVEN a program that uses pipes, sockets and others, all of new numbers
    script = program.write("""\
    import os, select, socket
    before = [os.open("/dev/null", os.O_RDONLY) for _ in range(100)]
    r, w = os.pipe()
    a, b = socket.socketpair()
    os.write(w, b"1"), os.read(r, 1), os.write(a.fileno(), b"1"), os.read(b.fileno(), 1)
    memory = os.memfd_create("memory")
    os.write(memory, b"1")
    event = os.eventfd(1)
    os.read(event, 8)
    waiting = select.epoll()
    numbers = [r, w, a.fileno(), b.fileno(), memory, event, waiting.fileno()]
    for number in numbers: os.close(os.dup(number))
    for number in (r, w, memory, event): os.close(number)
    a.close(), b.close(), waiting.close()
    print(*numbers)
    """)
    trace, log = program.folder / "strace.txt", program.folder / "run.pyio"
    words = ["strace", "-f", "-qq", "-e", "trace=readlink,readlinkat", "-o", str(trace), sys.executable, str(script)]
    env = {"PYIO_TRACE": "1", "PYIO_TRACE_OUTPUT": str(log), "PYIO_TRACE_QUIET": "1"}
    # WHEN it is run traced
    outcome = program.command(words, env)
    if not trace.exists() or not trace.stat().st_size:
        pytest.skip(f"strace cannot trace here: {outcome.stderr[-300:]}")
    # THEN none of them is looked up; only descriptors that existed before are
    numbers = set(map(int, succeeded(outcome).stdout.split()))
    asked = set(map(int, re.findall(r'"/proc/self/fd/(\d+)"', trace.read_text())))
    assert len(numbers) == 7 and min(numbers) > 100
    assert not asked & numbers
    # THEN what went through them is counted as what they are
    counters = {row["kind"]: row for row in outcome.log.counters().to_pylist() if row["why"] == "excluded"}
    assert {"pipe", "socket", "anon"} <= counters.keys()


def test_marking_descriptors_to_be_closed_closes_none(program: Runner) -> None:
    # GIVEN a file opened through a link, and a call that only marks its descriptor close-on-exec
    if not hasattr(ctypes.CDLL(None), "close_range"):
        pytest.skip("a libc without close_range")
    text = """\
    import ctypes, os
    open("file", "w").write("0123456789")
    os.symlink("file", "link")
    fd = os.open("link", os.O_RDONLY)
    os.read(fd, 3)
    ctypes.CDLL(None).close_range(fd, fd, 4)
    os.read(fd, 3)
    """
    # WHEN it is traced THEN later reads still have the link's name and the right offset
    rows = succeeded(program.traced(text)).select(op="read", path=program.folder / "link")
    assert [(row["file_offset"], row["bytes_moved"]) for row in rows] == [(0, 3), (3, 3)]


def test_failed_calls_have_their_errno(program: Runner, tmp_path: Path) -> None:
    # GIVEN calls that fail in different ways
    text = """\
    import errno, os, sys
    def fails(function, *args):
        try:
            function(*args)
        except OSError:
            return
        sys.exit("no error")
    fails(os.open, "missing", 0)
    fails(os.read, 999, 10)
    fails(os.mkdir, ".")
    fails(os.rmdir, "missing")
    fails(os.stat, "missing")
    fails(os.rename, "missing", "other")
    fails(os.listdir, "missing")
    fd = os.open("there", os.O_CREAT | os.O_WRONLY)
    fails(os.read, fd, 10)
    fails(os.open, "there/below", 0)
    fails(os.open, "there", os.O_CREAT | os.O_EXCL)
    fails(os.close, 999)
    """
    # WHEN it is run traced THEN their rows have them
    outcome = succeeded(program.traced(text))
    failed = [(row["op"], row["path"], row["errno"]) for row in outcome.rows
              if row["errno"] and (row["site"] or "").startswith(str(tmp_path))]  # fmt: skip
    here = str(tmp_path)
    assert failed == [
        ("open", f"{here}/missing", 2), ("read", None, 9), ("mkdir", here, 17), ("rmdir", f"{here}/missing", 2),
        ("stat", f"{here}/missing", 2), ("rename", f"{here}/missing", 2), ("opendir", f"{here}/missing", 2),
        ("read", f"{here}/there", 9), ("open", f"{here}/there/below", 20), ("open", f"{here}/there", 17), ("close", None, 9),
    ]  # fmt: skip


#: ways to open what a descriptor is already, and the mode of the opening
REOPENINGS = {
    "/dev/stdin": "os.dup2(fd, 0); f = os.open('/dev/stdin', os.O_RDONLY); os.read(f, 100)",
    "/dev/fd": "f = os.open(f'/dev/fd/{fd}', os.O_RDONLY); os.read(f, 100)",
    "/proc/self/fd": "f = os.open(f'/proc/self/fd/{fd}', os.O_RDONLY); os.read(f, 100)",
    "/proc/PID/fd": "f = os.open(f'/proc/{os.getpid()}/fd/{fd}', os.O_RDONLY); os.read(f, 100)",
    "openat": "f = os.open(f'/dev/fd/{fd}', os.O_RDONLY, dir_fd=os.open('.', 0)); os.read(f, 100)",
    "a file object": "open(f'/dev/fd/{fd}', 'rb', buffering=0).read(100)",
    "a number that another file had before": (
        "os.read(os.open(f'/dev/fd/{fd}', 0), 5); os.dup2(os.open('other', os.O_RDONLY), fd); "
        "os.read(os.open(f'/dev/fd/{fd}', 0), 5); os.dup2(os.open('data', os.O_RDONLY), fd); "
        "f = os.open(f'/dev/fd/{fd}', os.O_RDONLY); os.read(f, 100)"
    ),
}  # fmt: skip


@pytest.mark.parametrize("way", REOPENINGS)
def test_a_file_opened_by_the_name_of_a_descriptor(program: Runner, tmp_path: Path, way: str) -> None:
    # GIVEN a file that is open, WHEN a program opens it again by the name of its descriptor and reads from it
    if not os.path.exists("/dev/fd/0") or not os.path.exists("/dev/stdin"):
        pytest.skip("a /dev without the names of descriptors")
    text = f"""\
    import os
    for name in ("data", "other"):
        with open(name, "wb") as f: f.write(b"x" * 100)
    fd = os.open("data", os.O_RDONLY)
    {REOPENINGS[way]}
    """
    outcome = succeeded(program.traced(text))
    # THEN opening and bytes are that file's, at a position of its own
    reads = outcome.select(op="read", layer="posix", path=f"{tmp_path}/data", bytes_requested=100)
    assert [(row["file_offset"], row["bytes_moved"]) for row in reads] == [(0, 100)]
    opens = outcome.select(op=("open", "openat"), layer="posix", path=f"{tmp_path}/data")
    assert opens[-1]["fd"] == reads[0]["fd"]
    if way == "a file object":
        assert outcome.select(op="open", layer="app", path=f"{tmp_path}/data", fd=reads[0]["fd"])
    if "another file" in way:
        assert [row["bytes_moved"] for row in outcome.select(op="read", layer="posix", path=f"{tmp_path}/other")] == [5]


@pytest.mark.skipif(not os.path.isdir("/dev/fd"), reason="a /dev without the names of descriptors")
def test_what_is_no_file_stays_left_out_however_it_is_opened(program: Runner) -> None:
    outcome = succeeded(program.traced("""\
        import os
        r, w = os.pipe()
        os.write(w, b"12345")
        again = os.open(f"/dev/fd/{r}", os.O_RDONLY)
        os.read(again, 5)
        os.stat(f"/proc/self/fd/{r}"); os.readlink(f"/proc/self/fd/{r}"); open("/proc/self/status").read()
        os.listdir("/proc/self/fd")
    """))  # fmt: skip
    assert not [row for row in outcome.rows if row["op"] in ("open", "openat", "read", "stat", "readlink", "opendir")
                and (row["path"] or "").startswith(("/proc", "/dev", "pipe"))]  # fmt: skip


@pytest.mark.parametrize("way", ["os.open", "tempfile"])
def test_files_without_a_name_have_one_of_their_own(program: Runner, tmp_path: Path, way: str) -> None:
    # GIVEN two files of one folder that have no name
    if not hasattr(os, "O_TMPFILE"):
        pytest.skip("no O_TMPFILE")
    try:
        os.close(os.open(tmp_path, os.O_TMPFILE | os.O_RDWR))
    except OSError:
        pytest.skip("a file system without O_TMPFILE")
    made = {"os.open": "files = [os.open('.', os.O_TMPFILE | os.O_RDWR) for _ in range(2)]",
            "tempfile": "keep = [tempfile.TemporaryFile(dir='.', buffering=0) for _ in range(2)]; "
                        "files = [f.fileno() for f in keep]"}[way]  # fmt: skip
    outcome = succeeded(program.traced(f"""\
        import os, tempfile
        {made}
        for n, fd in enumerate(files):
            print(os.readlink(f"/proc/self/fd/{{fd}}"))
            os.write(fd, b"x" * (n + 1))
    """))  # fmt: skip
    # WHEN it is written to THEN its rows have the kernel's name for it, not the folder's
    names = outcome.stdout.splitlines()
    assert len(set(names)) == 2 and str(tmp_path) not in names
    for n, name in enumerate(names):
        assert [(row["file_offset"], row["bytes_moved"]) for row in outcome.select(op="write", path=name)] == [
            (0, n + 1)
        ]
        assert len(outcome.select(op=("open", "openat"), layer="posix", path=name)) == 1
        assert way == "os.open" or len(outcome.select(op="open", layer="app", path=name)) == 1


#: how a program is run that has the descriptor fd too, and moves its position
MOVERS = {
    "subprocess": "subprocess.run(['sh', '-c', MOVE], stdout=fd, stdin=fd, check=True)",
    "a copy": "subprocess.run(['sh', '-c', MOVE], stdout=os.dup(fd), stdin=fd, check=True)",
    "posix_spawn": (
        "os.waitpid(os.posix_spawn('/bin/sh', ['sh', '-c', MOVE], os.environ, "
        "file_actions=[(os.POSIX_SPAWN_DUP2, fd, 0), (os.POSIX_SPAWN_DUP2, fd, 1)]), 0)"
    ),
    "fork and exec": (
        "pid = os.fork()\n"
        "if pid == 0: os.dup2(fd, 0); os.dup2(fd, 1); os.execv('/bin/sh', ['sh', '-c', MOVE])\n"
        "os.waitid(os.P_PID, pid, os.WEXITED)"
    ),
    "system": "os.set_inheritable(fd, True); os.system(f'({MOVE}) <&{fd} >&{fd}')",
    "Python": "subprocess.run([sys.executable, '-c', 'import os; os.read(0, 3); os.write(1, b\"12345\")'], stdin=fd, stdout=fd)",
}  # fmt: skip
MOVED = """\
import os, subprocess, sys
MOVE = "dd bs=3 count=1 of=/dev/null 2>/dev/null; echo 1234"
def where():
    with open(f"/proc/self/fdinfo/{fd}") as f: return int(f.readline().split()[1])
with open("data", "wb") as f: f.write(b"x" * 1000)
fd = os.open("data", os.O_RDWR | os.O_CLOEXEC)
others = [os.open("data", os.O_RDONLY) for _ in range(3)]
for n in range(2):
    print(where()); os.write(fd, b"w" * 7)
    print(where()); os.read(fd, 11)
    MOVER
for n in range(2):
    print(where()); os.write(fd, b"w" * 7)
for other in others: os.read(other, 20); os.close(other)
"""


@pytest.mark.parametrize("way", MOVERS)
def test_positions_that_another_program_moved(program: Runner, tmp_path: Path, way: str) -> None:
    # GIVEN a file at whose position another program reads and writes too, now and then
    text = MOVED.replace("    MOVER\n", "".join(f"    {line}\n" for line in MOVERS[way].splitlines()))
    # WHEN it is traced THEN each read and write has the offset that the kernel says
    outcome = succeeded(program.traced(text))
    true = [int(line) for line in outcome.stdout.split()]
    assert true[2] - true[1] > 11  # it was moved
    rows = outcome.select(op=("read", "write"), layer="posix", pid=outcome.pid, path=f"{tmp_path}/data")
    assert [row["file_offset"] for row in rows if row["bytes_requested"] in (7, 11)] == true
    assert [row["file_offset"] for row in rows if row["bytes_requested"] == 20] == [0] * 3


def test_positions_shared_with_forked_children(program: Runner, tmp_path: Path) -> None:
    # GIVEN children without exec that write at a shared position WHEN they are waited for
    outcome = succeeded(program.traced("""\
        import os
        fd = os.open("data", os.O_CREAT | os.O_RDWR)
        for n in range(3):
            os.write(fd, b"parent")
            if os.fork() == 0:
                os.write(fd, b"child"); os._exit(0)
            os.wait()
    """))  # fmt: skip
    # THEN all offsets follow from what they did
    rows = outcome.select(op="write", layer="posix", path=f"{tmp_path}/data")
    assert sorted((row["file_offset"], row["bytes_moved"]) for row in rows) == [
        (offset, size) for offset, size in zip((0, 6, 11, 17, 22, 28), (6, 5) * 3, strict=True)
    ]
