"""Calls on file objects that raise an exception which has no errno."""

from __future__ import annotations

import json

import pytest

from pyio_trace.analysis.summary.summarize import summarize
from pyio_trace.join.pack.packer import pack
from pyio_trace.join.sources.opening import open_log
from tests.support.programs import Outcome, Row, Runner, succeeded

CALLS = {
    "FileIO.write": ("f = open('file', 'wb', buffering=0)", "f.write(memoryview(bytes(10_000))[::2])", "BufferError"),
    "BufferedWriter.write": ("f = open('file', 'wb')", "f.write('text' * 2000)", "TypeError"),
    "TextIOWrapper.write": ("f = open('file', 'w', encoding='ascii')", "f.write('\xe9' * 5000)", "UnicodeEncodeError"),
    "TextIOWrapper.read": ("f = open('bytes', encoding='ascii')", "f.read()", "UnicodeDecodeError"),
    "TextIOWrapper.readline": ("f = open('bytes', encoding='ascii')", "f.readline()", "UnicodeDecodeError"),
    "TextIOWrapper.__next__": ("f = open('bytes', encoding='ascii')", "next(f)", "UnicodeDecodeError"),
    "BufferedReader.read": ("f = open('bytes', 'rb')", "f.read(-5)", "ValueError"),
    "FileIO.seek": ("f = open('bytes', 'rb', buffering=0)", "f.seek('1')", "TypeError"),
    "mmap.__getitem__": ("f = mmap.mmap(os.open('bytes', os.O_RDWR), 0)", "f[10 ** 9]", "IndexError"),
    "mmap.__setitem__": ("f = mmap.mmap(os.open('bytes', os.O_RDWR), 0)", "f[0:5] = b'abc'", "IndexError"),
    "mmap.mmap": ("fd = os.open('bytes', os.O_RDWR)", "mmap.mmap(fd, 1 << 30, prot=mmap.PROT_READ)", "ValueError"),
    "open": ("", "open('bytes', 'rb', opener=lambda *_: 'no descriptor')", "TypeError"),
}
PROGRAM = """
import mmap, os
with open("bytes", "wb") as made: made.write(b"\\xff" * 9000)
{}
try:
    {}
except {}:
    pass
else:
    raise SystemExit("did not raise")
"""


def failed(outcome: Outcome, op: str) -> list[Row]:
    """The calls that failed."""
    return outcome.select(layer="app", op=op, errno=-1)


@pytest.mark.parametrize("op", CALLS)
def test_what_was_raised(program: Runner, op: str) -> None:
    # GIVEN a call that raises an exception without an errno WHEN it is traced THEN it has failed, with the type
    outcome = succeeded(program.traced(PROGRAM.format(*CALLS[op])))
    [row] = failed(outcome, op)
    assert json.loads(row["detail"])["raised"] == CALLS[op][2] and not row["bytes_moved"]
    # THEN the summary counts it, live or packed
    packed = outcome.path.with_suffix(".parquet")
    pack(outcome.path, packed)
    for log in (outcome.log, open_log(packed)):
        summary = summarize(log)
        assert [(one.op, one.name, one.count) for one in summary.errors if one.errno == -1] == [(op, "exception", 1)]


def test_in_the_middle_of_a_series(program: Runner) -> None:
    # GIVEN small writes, each of one line, of which every tenth raises
    text = """
with open("file", "w", encoding="ascii") as f:
    for n in range(100):
        try:
            f.write("\xe9" if n % 10 == 9 else "x")
        except UnicodeEncodeError:
            pass
"""
    # WHEN they are traced THEN those that raise are not among the others
    outcome = succeeded(program.traced(text))
    rows = outcome.select(op="TextIOWrapper.write", path=lambda path: path.endswith("/file"))
    good = [row for row in rows if not row["errno"]]
    assert sum(row["calls"] for row in good) == 90 and sum(row["bytes_moved"] for row in good) == 90
    assert [(row["errno"], row["calls"]) for row in rows if row["errno"]] == [(-1, 1)] * 10


def test_the_end_is_no_failure(program: Runner) -> None:
    # GIVEN loops over files to their end WHEN they are traced THEN nothing has failed
    text = """
import mmap, os
with open("file", "w") as f: f.write("line\\n" * 10)
for line in open("file"): pass
for line in open("file", "rb"): pass
for byte in mmap.mmap(os.open("file", os.O_RDWR), 0): pass
"""
    outcome = succeeded(program.traced(text))
    assert not outcome.select(layer="app", errno=-1)
