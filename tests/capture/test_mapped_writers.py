"""What several mappings of one file say they have written is never more than what was written."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.capture.test_blind_spots import measured
from tests.support.programs import Runner
from tests.support.surroundings import file_system

MIB = 1 << 20
HEAD = """
import mmap, os, subprocess, sys
SIZE = 8 << 20
with open("mapped", "wb") as new:
    new.write(bytes(SIZE))
    os.fsync(new.fileno())
file = open("mapped", "r+b")
def mapped(length=SIZE): return mmap.mmap(file.fileno(), length)
def other(work, mapping):  # runs a Python that maps the file, works on it at a word, and ends at another
    text = f"import mmap, sys; file = open('mapped', 'r+b'); m = mmap.mmap(file.fileno(), {mapping}); m[0]; print(flush=True); sys.stdin.readline(); {work}; print(flush=True); sys.stdin.readline(); m.close()"
    child = subprocess.Popen([sys.executable, "-c", text], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    child.stdout.readline()
    return child
def go(child): child.stdin.write("go\\n"); child.stdin.flush(); child.stdout.readline()
"""  # noqa: E501

#: Programs: what the mappings have written in all, in MiB, and how much of it is known at least (of a mapping that was
#: made when other pages of the file were dirty, less).
PROGRAMS = {
    "siblings flush in turn": (6, 6, """
shared = mapped()
ready, go = os.pipe(), [os.pipe() for _ in range(3)]
for n in range(3):
    if os.fork() == 0:
        shared[n << 21 : (n + 1) << 21] = bytes([n + 1]) * (2 << 20)
        os.write(ready[1], b"r"); os.read(go[n][0], 1)
        shared.flush(); os._exit(0)
for n in range(3): os.read(ready[0], 1)
for n in range(3): os.write(go[n][1], b"g"); os.wait()
"""),
    "another process reads it": (8, 8, """
reader = other("m[:]", 0)
shared = mapped()
shared[:] = b"x" * SIZE
go(reader); reader.communicate("end\\n"); shared.close()
"""),
    "another process reads a part": (2, 2, """
reader = other("m[:]", 0)
shared = mapped()
shared[: 2 << 20] = b"x" * (2 << 20)
go(reader); shared.close(); reader.communicate("end\\n")
"""),
    "two mappings in one process": (2, 2, """
one, two = mapped(), mapped()
one[: 2 << 20] = b"x" * (2 << 20)
two[:]
"""),
    "two mappings, closed without a descriptor": (2, 2, """
one, two = mapped(), mapped()
file.close()
one[: 2 << 20] = b"x" * (2 << 20)
two[:]
one.close(); two.close()
"""),
    "other processes write parts of their own": (4, 4, """
writers = [other(f"m[{n} << 21 : {n + 1} << 21] = b'x' * (2 << 20)", 0) for n in (1, 2)]
for writer in writers: go(writer)
for writer in writers: writer.communicate("end\\n")
"""),
    "msync over two mappings": (8, 8, """
import ctypes
libc = ctypes.CDLL(None)
libc.mmap.restype = ctypes.c_void_p
size = ctypes.c_size_t(SIZE)
room = libc.mmap(None, size, 0, 0x22, -1, ctypes.c_long(0))
for half in (0, SIZE // 2):
    at = ctypes.c_void_p(room + half)
    assert libc.mmap(at, ctypes.c_size_t(SIZE // 2), 3, 0x11, file.fileno(), ctypes.c_long(half)) == room + half
ctypes.memset(ctypes.c_void_p(room), 1, size)
assert libc.msync(ctypes.c_void_p(room), size, 4) == 0
"""),
    "a mapping for each part": (8, 2, """
for n in range(4):
    part = mapped()
    part[n << 21 : (n + 1) << 21] = b"x" * (2 << 20)
    part.close()
"""),
    "written again after a flush": (4, 4, """
shared = mapped()
for _ in range(2):
    shared[: 2 << 20] = b"x" * (2 << 20)
    shared.flush()
"""),
}  # fmt: skip


@pytest.mark.once
@pytest.mark.parametrize("what", PROGRAMS)
def test_no_more_than_was_written(program: Runner, tmp_path: Path, what: str) -> None:
    if file_system(tmp_path) == "overlayfs":
        pytest.skip("the kernel does not tell what is dirty in a file on overlayfs")
    # GIVEN a file that several mappings write and read WHEN they are traced
    most, least, text = PROGRAMS[what]
    outcome = measured(program, HEAD + text)
    written = [row["written"] for row in outcome.log.mappings().to_pylist() if row["path"] == str(tmp_path / "mapped")]
    # THEN their sum is no more than what was written, and no page is missed that can be told apart
    assert sum(written) <= most * MIB
    assert sum(written) >= least * MIB, written
