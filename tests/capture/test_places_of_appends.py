"""Where writes take place that append although the descriptor does not, or do not although it does."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from tests.support.programs import Runner, succeeded

APPENDS = """
import ctypes, fcntl, os
libc = ctypes.CDLL(None, use_errno=True)
class Vector(ctypes.Structure): _fields_ = [("at", ctypes.c_char_p), ("size", ctypes.c_size_t)]
def write(fd, data, place, flags):
    vector = Vector(data, len(data))
    result = libc.pwritev2(fd, ctypes.byref(vector), 1, ctypes.c_long(place), flags)
    assert result == len(data), os.strerror(ctypes.get_errno())
    where.append(open("data", "rb").read().find(data))
where = []
fd = os.open("data", os.O_RDWR | os.O_CREAT | os.O_EXCL)
os.write(fd, b"." * 5000); where.append(0)
os.lseek(fd, 100, os.SEEK_SET)
copy = os.dup(fd)
write(copy, b"0123456789", 5, 16)    # RWF_APPEND
write(fd, b"tail", -1, 16)           # the position goes there, too
os.write(copy, b"end"); where.append(5014)
append = os.open("data", os.O_RDWR | os.O_APPEND)
os.pwrite(append, b"appended", 3); where.append(5017)
try:
    write(append, b"here", 7, 32)    # RWF_NOAPPEND
except AssertionError:
    pass                             # Linux before 6.9
changed = os.open("data", os.O_RDWR)
fcntl.fcntl(changed, fcntl.F_SETFL, os.O_APPEND)
os.write(changed, b"unknown"); where.append(None)
assert os.fstat(fd).st_size == 5032
import json; print(json.dumps(where))
"""


@pytest.mark.once
@pytest.mark.skipif(not hasattr(os, "RWF_APPEND"), reason="no RWF_APPEND")
@pytest.mark.parametrize("mode", ["trace", "profile"])
def test_flags_that_say_where_to_write(program: Runner, tmp_path: Path, mode: str) -> None:
    # GIVEN a program that looks in the file for what it has written WHEN it is traced
    outcome = succeeded(program.traced(APPENDS, env={"PYIO_TRACE_MODE": mode}))
    rows = outcome.select(op_class="write", layer="posix", path=tmp_path / "data")
    rows = [row for row in rows if row["errno"] == 0]
    # THEN each offset is that place, or it is unknown
    places = json.loads(outcome.stdout)
    if mode == "trace":
        assert [row["file_offset"] for row in rows] == places
    else:
        ends = [json.loads(row["detail"]).get("highest") for row in rows]
        known = zip(ends, places, rows, strict=True)
        assert all(end is None or end == place + row["bytes_moved"] for end, place, row in known)
