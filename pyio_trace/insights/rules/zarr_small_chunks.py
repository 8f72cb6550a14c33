"""A zarr array of many small chunks: each is a file, which costs several calls and some work of zarr's.

Choose chunks of a megabyte or more of what is read together, or put many chunks
into one file with shards (zarr 3).
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from pyio_trace.enums import OpClass, Role
from pyio_trace.insights import sql
from pyio_trace.insights.finding import Confidence, Evidence, Finding, Remedy
from pyio_trace.insights.observed import OVERHEAD
from pyio_trace.insights.rule import Limit, Rule
from pyio_trace.units import number, seconds, significant, size

if TYPE_CHECKING:
    from pyio_trace.analysis.view_sums.call_table import CallTable
    from pyio_trace.insights.observed import Observed

#: How zarr 3 names a chunk while it is written.  (In format 2 that name does not tell which chunk it is.)
_PARTIAL = r"(?:\.[0-9a-f]{32}\.partial)?"
_SUFFIX = re.compile(rf"{_PARTIAL}\Z")
#: zarr's file in the folder of an array -> how its chunks are named beneath that.
_FORMATS = {
    "zarr.json": re.compile(rf"c(?:[/.]\d+)+{_PARTIAL}"),
    ".zarray": re.compile(r"\d+(?:[/.]\d+)*"),
}
#: Folders between an array's and its chunks, at most.
_DEEPEST = 34


_SMALL = "zarr.create_array(path, shape=shape, chunks=(10, 10), dtype='f8')"
_READ = Remedy(
    "Make chunks of 1 MiB and more, or keep many in one file.",
    _SMALL,
    "zarr.create_array(path, shape=shape, chunks=(100, 100),\n                  shards=(1000, 1000), dtype='f8')",
    "zarr",
)
_WRITTEN = Remedy(
    "Make chunks of 1 MiB and more, and write whole chunks in one call: to change a part of one, all of it is read and "
    "written. The same holds for whole shards, which keep many chunks in one file.",
    _SMALL,
    "zarr.create_array(path, shape=shape, chunks=(400, 400), dtype='f8')",
    "zarr",
)


def find(run: Observed, limits: Mapping[str, float]) -> Iterator[Finding]:
    for array, chunks in _arrays(run.calls.paths()).items():
        if len(chunks) < limits["chunks"]:
            continue
        calls = run.calls.where_paths(chunks)
        moves = calls.where(role=Role.IO, kind=(OpClass.READ, OpClass.WRITE), errno=0)
        used = len({_SUFFIX.sub("", path, 1) for path in moves.paths()})
        if used >= limits["chunks"] and moves.total("moved") <= limits["bytes"] * used:
            yield _finding(run, array, calls, moves, used)


def _arrays(paths: list[str]) -> dict[str, list[str]]:
    """The chunks of each array, by its folder."""
    forms: dict[str, list[re.Pattern[str]]] = defaultdict(list)
    for path in paths:
        folder, _, name = path.rpartition("/")
        if name in _FORMATS:  # a reader looks for the files of both formats
            forms[folder].append(_FORMATS[name])
    found: dict[str, list[str]] = defaultdict(list)
    for path in paths if forms else ():
        folder = path
        for _ in range(_DEEPEST):
            folder = folder.rpartition("/")[0]
            if not folder:
                break
            if folder in forms:
                if any(form.fullmatch(path, len(folder) + 1) for form in forms[folder]):
                    found[folder].append(path)
                break
    return found


def _finding(run: Observed, array: str, calls: CallTable, moves: CallTable, chunks: int) -> Finding:
    """calls: on the chunks; moves: those of them that read or write."""
    moved = moves.total("moved")
    around = calls.where(role=Role.IO, kind=OVERHEAD)
    asked = around.total("calls")
    how = "all calls on the chunks, with what Python's file objects add; larger ones need some"
    gain = run.gain(run.times(calls, value="outer"), how)
    name = array.rpartition("/")[2]
    return Finding(
        title=f"{name} has chunks of {size(moved // chunks)} in the file: {number(chunks)} were used",
        evidence=[
            Evidence(
                f"{number(asked)} opens, closes and other metadata calls were made, {significant(asked / chunks)} for "
                f"a chunk; {size(moved)} were moved. The calls took {seconds(calls.total('outer'))}.",
                {"chunks": chunks, "bytes": moved, "metadata_calls": asked, "time_ns": calls.total("outer")},
            )
        ],
        remedy=_WRITTEN if _is_written(run, array) else _READ,
        confidence=Confidence(0.7, "the names of zarr's files are in the log, what zarr does besides is not"),
        query=sql.rows({}, more=f"starts_with(path, {sql.literal(array + '/')})"),
        **{**run.about(calls, gain), "files": [array], "sites": run.sites(moves)},
    )


def _is_written(run: Observed, array: str) -> bool:
    """Whether the run wrote chunks, be it by other names that it then renamed."""
    written = run.calls.where(kind=OpClass.WRITE, errno=0).paths()
    names = (path.rpartition("/")[2] for path in written if path.startswith(f"{array}/"))
    return any(not name.startswith(tuple(_FORMATS)) for name in names)


RULE = Rule(
    "zarr",
    find,
    limits={
        "chunks": Limit(200, "of an array that were read or written, at least", few=20),
        "bytes": Limit(65536, "of a chunk in the file on average, at most"),
    },
    topic="metadata",
)
