"""gzip, bz2, lzma, zstd: bytes out of a file, exact, and how often it was begun again."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support.programs import Outcome, Runner, alike, succeeded

#: Module -> the class of its files, and the function that fills their buffers.
CODECS = {
    "gzip": ("GzipFile", "_GzipReader.read"),
    "bz2": ("BZ2File", "DecompressReader.read"),
    "lzma": ("LZMAFile", "DecompressReader.read"),
}
if sys.version_info >= (3, 14):
    CODECS["compression.zstd"] = ("ZstdFile", "DecompressReader.read")
MADE = """
import {0} as codec
data = b"".join(b"line %06d\\n" % n for n in range(50_000))
with codec.open("packed", "wb") as file:
    file.write(data[:100])
    file.write(data[100:])
"""
SIZE = 600_000


def closings(outcome: Outcome, path: Path | None, owner: str) -> list[dict[str, Any]]:
    rows = outcome.select(layer="app", op=f"{owner}.close", path=path)
    return [json.loads(row["detail"]) for row in rows]


def bytes_out(outcome: Outcome, op: str) -> int:
    return sum(row["bytes_moved"] for row in outcome.select(layer="app", op=op))


@pytest.mark.parametrize("module", CODECS)
def test_lines_and_passes(program: Runner, module: str) -> None:
    # GIVEN a file that is written, read by lines, and read from two places before that
    owner, op = CODECS[module]
    text = (
        MADE.format(module)
        + """
file = codec.open("packed")
assert sum(map(len, file)) == len(data)
file.seek(20)
assert file.read(5) == data[20:25]
file.seek(30)              # in the buffer
file.seek(len(data) - 5)
file.seek(0)
file.read(1)
file.close()
file.close()
"""
    )
    outcome = alike(succeeded(program.traced(text)), program.bare(text))
    path = program.folder / "packed"
    # THEN the rows of close() have what was written, and what came out in three passes
    written, read = closings(outcome, path, owner)
    assert written == {"in": SIZE}
    assert read["passes"] == 3
    # AND they are the bytes of the calls that fill the buffer, of which there are few
    assert read["out"] == bytes_out(outcome, op)
    assert len(outcome.select(layer="app", op=op)) < 300
    again = [json.loads(row["detail"]) for row in outcome.select(op="DecompressReader._rewind", path=path)]
    assert [one["pass"] for one in again] == [2, 3]
    assert again[0]["out"] == SIZE
    assert SIZE - 200_000 < again[1]["out"] <= SIZE
    # AND every read of the file is beneath such a call
    beneath = outcome.select(layer="posix", op="read", path=path)
    assert beneath
    assert all(op in [parent["op"] for parent in outcome.parents(row)] for row in beneath)


def test_members_subclasses_errors_and_memory(program: Runner) -> None:
    # GIVEN a file of two members, a subclass, a file that is cut off, one in memory, and one left to the collector
    text = """
    import gzip, io, lzma, pickle, traceback, weakref
    data = bytes(range(256)) * 400
    with open("two.gz", "wb") as file:
        file.write(gzip.compress(data) * 2)
    class Mine(gzip.GzipFile):
        __slots__ = ("mine",)
        def __getattr__(self, name):
            print("asked", name)
            raise AttributeError(name)
    with Mine("two.gz") as file:
        assert weakref.ref(file)() is file
        print(len(file.read()), file.tell())
    with open("cut.gz", "wb") as file:
        file.write(gzip.compress(data)[:-20])
    try:
        with gzip.open("cut.gz") as file:
            file.read()
    except EOFError as problem:
        print(problem, [entry.name for entry in traceback.extract_tb(problem.__traceback__)])
    print(len(gzip.GzipFile(fileobj=io.BytesIO(gzip.compress(data))).read()), pickle.dumps(gzip.GzipFile.close))
    filters = [{"id": lzma.FILTER_LZMA2, "preset": 1}]
    with lzma.open("raw", "wb", format=lzma.FORMAT_RAW, filters=filters) as file:
        file.write(data)
    print(len(lzma.open("raw", format=lzma.FORMAT_RAW, filters=filters).read()))
    """
    outcome = alike(succeeded(program.traced(text)), program.bare(text))
    # THEN what came out is what the program got, of every kind, and there is no row of close() for what was in memory
    assert closings(outcome, program.folder / "two.gz", "GzipFile") == [{"out": 204_800, "passes": 1}]
    (cut,) = closings(outcome, program.folder / "cut.gz", "GzipFile")
    assert cut["out"] < 102_400
    assert closings(outcome, None, "GzipFile") == []
    assert closings(outcome, program.folder / "raw", "LZMAFile") == [{"in": 102_400}, {"out": 102_400, "passes": 1}]
    failed = [row for row in outcome.select(op="_GzipReader.read") if "raised" in (row["detail"] or "")]
    assert [json.loads(row["detail"]) for row in failed] == [{"raised": "EOFError"}]


def test_libraries_that_read_compressed_files(program: Runner) -> None:
    # GIVEN libraries that open such files themselves
    for name in ("pandas", "fsspec"):
        pytest.importorskip(name)
    text = """
    import bz2, gzip
    import fsspec, numpy, pandas
    data = b"a,b\\n" + b"1,2\\n" * 100_000
    for name, codec in (("t.gz", gzip), ("t.bz2", bz2)):
        with codec.open(name, "wb") as file:
            file.write(data)
    print(len(pandas.read_csv("t.gz")), numpy.loadtxt("t.gz", delimiter=",", skiprows=1).shape)
    with fsspec.open("t.bz2", compression="infer") as file:
        print(len(file.read()))
    """
    outcome = alike(succeeded(program.traced(text)), program.bare(text))
    # THEN the bytes are those of the data each time
    gz = closings(outcome, program.folder / "t.gz", "GzipFile")
    assert gz == [{"in": 400_004}, *[{"out": 400_004, "passes": 1}] * 2]
    assert closings(outcome, program.folder / "t.bz2", "BZ2File")[0] == {"in": 400_004}
    assert bytes_out(outcome, "DecompressReader.read") == 400_004
