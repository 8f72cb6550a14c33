"""Copies from file to file: both files, both offsets, and all the bytes that they touched."""

from __future__ import annotations

import json
from pathlib import Path

from pyio_trace.analysis.summary.summarize import summarize
from pyio_trace.join.pack.packer import pack
from pyio_trace.join.sources.opening import open_log
from tests.support.programs import Outcome, Runner, succeeded

PROGRAM = """\
import os, shutil, sys

def report(name, moved, *, at, to, out="out"):
    print(name, at, moved, to, out)

open("in", "wb").write(os.urandom(20_000))
source = os.open("in", os.O_RDONLY)
out = os.open("out", os.O_RDWR | os.O_CREAT)
copy = os.copy_file_range
report("copy_file_range", copy(source, out, 100), at=0, to=0)
report("copy_file_range", copy(source, out, 100), at=100, to=100)
report("copy_file_range", copy(source, out, 100, 500, 5000), at=500, to=5000)
report("copy_file_range", copy(source, out, 100, offset_dst=7000), at=200, to=7000)
report("copy_file_range", copy(source, out, 100, offset_src=9000), at=9000, to=200)
report("sendfile", os.sendfile(out, source, 1000, 50), at=1000, to=300)
report("sendfile", os.sendfile(out, source, None, 50), at=300, to=350)
second = os.dup(out)
report("sendfile", os.sendfile(second, source, None, 50), at=350, to=400)
os.lseek(out, 9000, os.SEEK_SET)
report("sendfile", os.sendfile(second, source, 0, 10), at=0, to=9000)
os.write(out, b"x" * 90)
report("copy_file_range", copy(source, out, 30), at=400, to=9100)
sys.stdout.flush()
if os.fork() == 0:
    report("sendfile", os.sendfile(out, source, None, 50), at=430, to=9130)
    sys.stdout.flush()
    os._exit(0)
os.wait()
report("sendfile", os.sendfile(out, source, None, 20), at=480, to=9180)
os.close(out)
os.close(second)
again = os.open("out", os.O_RDWR)
report("sendfile", os.sendfile(again, source, 0, 4000), at=0, to=0)
os.close(again)
shutil.copyfile("in", "copied")
"""


def told(outcome: Outcome) -> list[tuple[str, int, int, int, str]]:
    """What the program says that it has copied."""
    lines = (line.split() for line in outcome.stdout.splitlines())
    return [(name, int(at), int(moved), int(to), out) for name, at, moved, to, out in lines]


def distinct(ranges: list[tuple[int, int]]) -> int:
    """How many bytes these (start, end) have."""
    return len(set().union(*(range(start, end) for start, end in ranges)))


def test_copies_have_both_offsets(program: Runner, tmp_path: Path) -> None:
    # GIVEN copies to given places and to where the output stands, through duplicates, a child and another opening
    # WHEN they are traced, and the log packed
    outcome = succeeded(program.traced(PROGRAM))
    pack(outcome.path, tmp_path / "run.parquet")
    packed = open_log(tmp_path / "run.parquet")
    assert packed.operations().equals(outcome.table)
    rows = outcome.select(op=("sendfile", "copy_file_range"), path=tmp_path / "in")
    rows.sort(key=lambda row: row["time"])
    by_name = [row for row in rows if json.loads(row["detail"])["to"] == str(tmp_path / "out")]
    # THEN each row says where it read and where it wrote
    found = [(row["op"], row["file_offset"], row["bytes_moved"], row["to_file_offset"], "out") for row in by_name]
    assert found == told(outcome)
    whole = [row for row in rows if row not in by_name and row["bytes_moved"]]
    assert [(row["file_offset"], row["bytes_moved"], row["to_file_offset"]) for row in whole] == [(0, 20_000, 0)]
    # THEN the file written to is the one that its own rows have
    (copied,) = {row["to_file"] for row in whole}
    assert copied in {row["file"] for row in outcome.select(op="open", path=tmp_path / "copied")}
    (write,) = outcome.select(op="write", path=tmp_path / "out")
    assert {row["to_file"] for row in by_name} == {write["file"]}
    # THEN the distinct bytes are those that were copied
    for log in (outcome.log, packed):
        figures = summarize(log).bytes
        others = sum(row["bytes_moved"] for row in outcome.select(layer="posix", op="write"))
        written = distinct([(to, to + moved) for _, _, moved, to, _ in told(outcome)] + [(9010, 9100)])
        assert figures.distinct_written == written + 20_000 + others - 90
        assert figures.distinct_read == 20_000
        assert figures.copied == sum(moved for _, _, moved, _, _ in told(outcome)) + 20_000


def test_sums_of_copies_say_where_they_wrote(program: Runner, tmp_path: Path) -> None:
    # GIVEN one line that copies to where the output stands, one that copies to given places, backwards
    text = """\
    import os
    open("in", "wb").write(bytes(100_000))
    source, out = os.open("in", os.O_RDONLY), os.open("out", os.O_RDWR | os.O_CREAT)
    for n in range(10):
        os.sendfile(out, source, 1000 * n, 1000)
    for n in range(5):
        os.copy_file_range(source, out, 500, 4096 * n, 50_000 - 500 * n)
    """
    # WHEN it is summed
    outcome = succeeded(program.traced(text, env={"PYIO_TRACE_MODE": "profile"}))
    # THEN either sum has both files
    (sent,), (copied,) = (outcome.select(op=op, path=tmp_path / "in") for op in ("sendfile", "copy_file_range"))
    detail = json.loads(sent["detail"])
    assert (sent["calls"], sent["bytes_moved"], detail["to"]) == (10, 10_000, str(tmp_path / "out"))
    places = {"placed": 10, "consecutive": 9, "sequential": 9, "unaligned": 9, "highest": 10_000}
    assert {name: detail[name] for name in places} == detail["output"] == places
    detail = json.loads(copied["detail"])
    assert {name: detail[name] for name in places} == {
        "placed": 5, "consecutive": 0, "sequential": 4, "unaligned": 0, "highest": 4 * 4096 + 500,
    }  # fmt: skip
    assert detail["output"] == {"placed": 5, "consecutive": 0, "sequential": 1, "unaligned": 5, "highest": 50_500}
    # THEN nothing else is in the table or in its figures
    assert not [row for row in outcome.rows if row["op"].startswith("(")]
    assert summarize(outcome.log).bytes.copied == 12_500
