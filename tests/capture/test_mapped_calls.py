"""Calls on mapped files: the methods of mmap objects, and calls that name a part of a mapping."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

import pytest

from tests.capture.test_blind_spots import measured
from tests.support.programs import Outcome, Runner, succeeded

MAPPED = """
import ctypes, mmap, os, signal, sys
PAGE = mmap.PAGESIZE
fd = os.open("map", os.O_CREAT | os.O_RDWR)
os.ftruncate(fd, 64 * PAGE)
"""


def sums(outcome: Outcome) -> dict[str, tuple[int, int]]:
    """Calls and bytes moved of each method of mmap objects."""
    found: dict[str, list[int]] = defaultdict(lambda: [0, 0])
    for row in outcome.select(layer="app", op=lambda op: op.startswith("mmap.")):
        found[row["op"]][0] += row["calls"]
        found[row["op"]][1] += row["bytes_moved"] or 0
    return {op: (calls, moved) for op, (calls, moved) in found.items()}


def test_methods_that_read_or_write(program: Runner) -> None:
    # GIVEN each such method
    text = f"""{MAPPED}
with mmap.mmap(fd, 64 * PAGE) as memory:
    for n in range(2): memory.write(bytes(100_000))
    memory.seek(0)
    memory.write(b"small")
    memory.seek(0)
    memory.read(5000); memory.read(None)
    memory.move(0, 5000, 4300)
    memory.move(0, 5000, 30)
    memory.seek(0)
    for n in range(3): memory.write_byte(200)
    memory.seek(0)
    for n in range(2): assert memory.read_byte() == 200
    for n, byte in zip(range(4), memory): pass
"""
    # WHEN they are called THEN each has its calls and bytes
    outcome = succeeded(program.traced(text))
    found = sums(outcome)
    page = 4096
    assert {op: found[op] for op in found if op not in ("mmap.mmap", "mmap.close")} == {
        "mmap.write": (3, 200_005), "mmap.read": (2, 64 * page), "mmap.move": (2, 4330), "mmap.write_byte": (3, 3),
        "mmap.read_byte": (2, 2), "mmap.__iter__": (4, 4),
    }  # fmt: skip
    large = outcome.select(op="mmap.write", bytes_requested=100_000, bytes_moved=100_000, calls=1)
    assert len(large) == 2
    assert outcome.select(op="mmap.read", bytes_requested=5000)
    assert outcome.select(op="mmap.move", bytes_requested=4300, bytes_moved=4300)


@pytest.mark.parametrize(
    ("call", "found", "searched"),
    [
        ("find(b'zz')", 1000, 1002),
        ("find(b'zz', 500)", 1000, 502),
        ("find(b'zz', 500, 600)", -1, 100),
        ("find(b'zz', -5000)", -1, 5000),
        ("find(b'no')", -1, 64 * 4096),
        ("rfind(b'zz')", 1000, 64 * 4096 - 1000),
        ("rfind(b'zz', 0, 2000)", 1000, 1000),
        ("rfind(b'zz', 0, -(1 << 30))", -1, 0),
    ],
)
def test_searches(program: Runner, call: str, found: int, searched: int) -> None:
    # GIVEN a file with a word at 1000 WHEN it is searched for THEN the bytes are those that had to be looked at
    text = f"""{MAPPED}
os.pwrite(fd, b"zz", 1000)
memory = mmap.mmap(fd, 64 * PAGE)
assert memory.{call} == {found}
"""
    outcome = succeeded(program.traced(text))
    [row] = outcome.select(op=lambda op: op in ("mmap.find", "mmap.rfind"))
    assert row["bytes_moved"] == searched


def test_calls_on_a_part_of_a_mapping(program: Runner, tmp_path: Path) -> None:
    # GIVEN a mapping that is written, flushed and advised about in eight parts, among anonymous memory and other files
    text = f"""{MAPPED}
libc = ctypes.CDLL(None)
anonymous = mmap.mmap(-1, 64 * PAGE)
other = os.open("other", os.O_CREAT | os.O_RDWR)
os.ftruncate(other, PAGE)
others = [mmap.mmap(other, PAGE) for n in range(10)]
memory = mmap.mmap(fd, 64 * PAGE)
start = ctypes.addressof(ctypes.c_char.from_buffer(memory))
memory[:] = bytes([1]) * 64 * PAGE
for page in range(0, 64, 8): memory.flush(page * PAGE, 8 * PAGE)
for page in range(0, 64, 8): memory.madvise(mmap.MADV_WILLNEED, page * PAGE, 8 * PAGE)
for page in range(0, 64, 8):
    assert not libc.posix_madvise(ctypes.c_void_p(start + page * PAGE), ctypes.c_size_t(PAGE), 0)
anonymous.madvise(mmap.MADV_WILLNEED, PAGE, PAGE)
anonymous.flush(PAGE, PAGE)
"""
    # WHEN it is traced THEN each call has a row with its file, and all pages count as written
    outcome = measured(program, text)
    for op, count in (("msync", 8), ("madvise", 16)):
        rows = outcome.select(op=op)
        assert [(row["path"], row["calls"]) for row in rows] == [(str(tmp_path / "map"), 1)] * count
        assert rows[0]["bytes_requested"] == 8 * 4096
    [row] = [row for row in outcome.log.mappings().to_pylist() if row["path"] == str(tmp_path / "map")]
    assert row["written"] == 64 * 4096


def test_a_part_of_a_mapping_that_moves(program: Runner, tmp_path: Path) -> None:
    # GIVEN the second half of a mapping, moved elsewhere, and the pages of both halves written
    text = f"""{MAPPED}
libc = ctypes.CDLL(None)
libc.mmap.restype = libc.mremap.restype = ctypes.c_void_p
size, none = ctypes.c_size_t, None
def mapped(length, fd, flags): return libc.mmap(none, size(length), 3, flags, fd, size(0))
start = mapped(64 * PAGE, fd, mmap.MAP_SHARED)
room = mapped(64 * PAGE, -1, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
half = libc.mremap(ctypes.c_void_p(start + 32 * PAGE), size(32 * PAGE), size(32 * PAGE), 3, ctypes.c_void_p(room))
assert half == room
ctypes.memset(start, 1, 32 * PAGE)
ctypes.memset(half, 1, 16 * PAGE)
assert not libc.msync(ctypes.c_void_p(half + PAGE), size(PAGE), 4)
assert not libc.munmap(ctypes.c_void_p(half), size(32 * PAGE))
"""
    # WHEN it is traced THEN the calls on either half are on the file, and the pages of both count
    outcome = measured(program, text)
    rows = outcome.select(op=("mremap", "msync", "munmap"), path=tmp_path / "map")
    assert [row["op"] for row in rows] == ["mremap", "msync", "munmap"]
    [row] = [row for row in outcome.log.mappings().to_pylist() if row["path"] == str(tmp_path / "map")]
    assert (row["mappings"], row["touched"], row["unmeasured"]) == (2, 48 * 4096, 0)


def test_inherited_mappings_of_a_killed_child(program: Runner, tmp_path: Path) -> None:
    # GIVEN children that inherit a mapping: one uses it and is killed, one uses it, two leave it alone, one of these
    # becomes another program
    text = f"""{MAPPED}
memory = mmap.mmap(fd, 64 * PAGE)
def child(work):
    if (pid := os.fork()) == 0:
        work()
        os._exit(0)
    os.waitpid(pid, 0)
def write(): memory[: 32 * PAGE] = b"x" * 32 * PAGE
child(lambda: (write(), os.kill(os.getpid(), signal.SIGKILL)))
child(write)
child(lambda: None)
child(lambda: os.execv("/bin/true", ["true"]))
"""
    # WHEN it is traced THEN nothing is known of the first, and the others have what they used
    for attempt in range(10):
        outcome = succeeded(program.traced(text, log=f"run{attempt}.pyio"))
        rows = [row for row in outcome.log.mappings().to_pylist() if row["path"] == str(tmp_path / "map")]
        if sum(row["unmeasured"] for row in rows) == 1:
            break  # else the time for measuring has run out, on a busy machine
    assert [(row["inherited"], row["unmeasured"], row["touched"]) for row in rows] == [
        (False, 0, 0), (True, 1, 0), (True, 0, 32 * 4096),
    ]  # fmt: skip
    assert outcome.log.losses()["mappings_unmeasured"] == 1
