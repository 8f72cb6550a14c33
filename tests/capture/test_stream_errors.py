"""Calls on C streams that end in an error: what they moved before it, and whose errno it is."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from tests.capture.test_stream_runs import OPENED
from tests.support.programs import Runner, succeeded

#: Files end at 100,000 bytes: what is written beyond fails with EFBIG.
LIMITED = f"""{OPENED}
import resource, signal
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, resource.getrlimit(resource.RLIMIT_FSIZE)[1]))
libc.fwrite.restype = libc.fread.restype = ctypes.c_size_t
"""


@pytest.mark.parametrize("function", ["fwrite", "fwrite_unlocked"])
def test_a_write_that_moves_a_part_and_fails(program: Runner, function: str) -> None:
    # GIVEN items of 8 bytes, of which a part fits into the file
    text = f"""{LIMITED}
libc.{function}.restype = ctypes.c_size_t
items = libc.{function}(b"x" * 160_000, ctypes.c_size_t(8), ctypes.c_size_t(20_000), f)
assert items == 12_500, items
libc.fclose(f)
"""
    # WHEN they are written THEN the row has the error and the bytes, and none count as having passed us by
    outcome = succeeded(program.traced(text))
    [row] = outcome.select(op="fwrite")
    assert (row["bytes_requested"], row["bytes_moved"], row["errno"]) == (160_000, 100_000, errno.EFBIG)
    assert "unseen_written" not in outcome.log.losses()


@pytest.mark.parametrize("mode", ["profile", "selection"])
def test_the_part_counts_without_a_record(program: Runner, mode: str) -> None:
    # GIVEN such a write where rows are sums, or where the function is left out
    text = f"""{LIMITED}
libc.fwrite(b"x" * 160_000, ctypes.c_size_t(8), ctypes.c_size_t(20_000), f)
libc.fclose(f)
"""
    settings = {"profile": {"PYIO_TRACE_MODE": "profile"}, "selection": {"PYIO_TRACE_EXCLUDE": "op:fwrite"}}[mode]
    # WHEN it is traced THEN the bytes are known
    outcome = succeeded(program.traced(text, env=settings))
    assert "unseen_written" not in outcome.log.losses()
    if mode == "profile":
        [row] = outcome.select(op="fwrite")
        assert (row["bytes_requested"], row["bytes_moved"], row["errno"]) == (160_000, 100_000, errno.EFBIG)


@pytest.mark.parametrize("function", ["fread", "fread_unlocked", "__fread_chk", "__fread_unlocked_chk"])
def test_a_read_that_moves_a_part_and_fails(program: Runner, function: str) -> None:
    # GIVEN a stream over memory of which the second page cannot be read
    room = "ctypes.c_size_t(8192), " if "chk" in function else ""
    text = f"""{OPENED}
import mmap
libc.mmap.restype = ctypes.c_void_p
at = libc.mmap(None, ctypes.c_size_t(2 * 4096), 3, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, -1, ctypes.c_size_t(0))
libc.munmap(ctypes.c_void_p(at + 4096), ctypes.c_size_t(4096))
g = stream("/proc/self/mem", "r")
libc.setvbuf(g, None, 0, ctypes.c_size_t(4096))
libc.fseek(g, ctypes.c_long(at), 0)
out = ctypes.create_string_buffer(8192)
items = libc.{function}(out, {room}ctypes.c_size_t(64), ctypes.c_size_t(128), g)
assert items == 64, items
"""
    # WHEN both are read THEN the row has the error and the first page
    outcome = succeeded(program.traced(text, env={"PYIO_TRACE_INCLUDE": "proc"}))
    [row] = outcome.select(op="fread", bytes_requested=8192)
    assert (row["bytes_moved"], row["errno"]) == (4096, errno.EIO)


def test_the_errors_of_earlier_calls(program: Runner, tmp_path: Path) -> None:
    # GIVEN a stream whose error flag is set, and calls on it that are good, or end at the end of the file
    text = f"""{OPENED}
libc.fputs(b"some text" + b"\\xff" * 8, f)
libc.fclose(f)
f = stream("file", "r+")
libc.putw.restype = libc.getw.restype = ctypes.c_int
r = stream("file", "r")
assert libc.fputs(b"text", r) == -1 and libc.ferror(r)          # a stream for reading
out = ctypes.create_string_buffer(100)
ctypes.set_errno(77)
assert libc.fread(out, 1, 9, r) == 9 and ctypes.get_errno() == 77
assert libc.getw(r) == -1 and libc.getw(r) == -1                # two words that are -1
assert libc.fread(out, 1, 100, r) == 0 and libc.feof(r) and ctypes.get_errno() == 77
assert not libc.fgets(out, 50, r)
assert libc.fgetc(r) == -1
assert libc.fread(out, 0, 5, r) == 0 and libc.fread(out, 5, 0, r) == 0 and libc.fwrite(out, 0, 5, f) == 0
assert libc.fputs(b"more", r) == -1
"""
    # WHEN it is traced THEN only those have an errno that failed, and the program's errno is as it was
    outcome = succeeded(program.traced(text))
    rows = outcome.select(layer="stdio", path=tmp_path / "file")
    failed = [(row["op"], row["errno"], row["bytes_moved"]) for row in rows if row["errno"]]
    assert failed == [("fputs", errno.EBADF, 0), ("fputs", errno.EBADF, 0)]
    assert sum(row["bytes_moved"] for row in rows if row["op"] == "fread") == 9 + 8
