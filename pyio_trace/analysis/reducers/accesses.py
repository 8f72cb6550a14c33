"""Reads and writes by file and line: sizes, order, strides, alignment, switches between reading and writing.

Result: Accesses, of which rows and lines are lists of Access.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from copy import copy
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from pyio_trace.analysis.calls.code_texts import texts
from pyio_trace.analysis.calls.name_patterns import patterns
from pyio_trace.analysis.sums.ranked import most_common
from pyio_trace.analysis.view_sums.access_sums import COLUMNS, KEYS, AccessSums, Ints
from pyio_trace.analysis.view_sums.key_sums import TOP
from pyio_trace.light_dataclass import dataclass
from pyio_trace.log.sorting import distinct

if TYPE_CHECKING:
    import pyarrow as pa

    from pyio_trace.join.sources.facade import Log

#: Bytes, where the log does not know the file system's.
BLOCK = 4096
#: Sizes, and strides, that are named.
_COMMON = 4


@dataclass(frozen=True)
class Access:
    """The reads, or the writes, of one line on one file, or of one line on all its files.

    path: of the file; in lines, the pattern of most of the bytes.  line:
    file:line:function, None where not known.  direction: "read" or "write"; a
    copy reads.  calls, moved_bytes, time_ns: transfers of POSIX and C streams that
    succeeded.  smallest_bytes, largest_bytes: of one transfer; None: not known, as
    in sums of the mode profile.  common_sizes: the four most common sizes, as
    (bytes, calls).

    Offsets are known of `placed` transfers and not of `unplaced`.  Each of them is
    first (since its process opened or closed the file), consecutive (begins where
    the one before by this process ended), forward (begins further on) or backward.
    strides: the four most common numbers of bytes that forward ones skipped, as
    (bytes, calls).  unaligned, unaligned_end: begin, and end, at no multiple of
    block_bytes.  switches: transfers that came after one in the other direction.
    files, processes: how many the row is about; in lines, processes is None.
    """

    SHOWN: ClassVar[tuple[str, ...]] = (
        "line", "direction", "calls", "moved_bytes", "consecutive", "forward", "backward",
    )  # fmt: skip

    path: str
    line: str | None
    direction: str
    calls: int
    moved_bytes: int
    time_ns: int
    smallest_bytes: int | None
    largest_bytes: int | None
    common_sizes: list[tuple[int, int]]
    placed: int
    unplaced: int
    first: int
    consecutive: int
    forward: int
    backward: int
    strides: list[tuple[int, int]]
    unaligned: int
    unaligned_end: int
    block_bytes: int
    switches: int
    files: int
    processes: int | None


@dataclass(frozen=True)
class Accesses:
    """rows: by file and line, most time first.  lines: by line alone.  more: further rows, with less time.  dropped:
    sums that did not fit into memory (0: all figures are exact)."""

    rows: list[Access]
    lines: list[Access]
    more: int
    dropped: int


class AccessesByLine:
    """The reducer."""

    columns: ClassVar[tuple[str, ...]] = COLUMNS

    def __init__(self, top: int = TOP, block: int = BLOCK, imports: bool = False, by_line: bool = False) -> None:
        """top: rows of the result; block: bytes to which accesses should be aligned; imports: also what Python's
        imports did; by_line: common sizes and strides of lines only, and none of their files."""
        self.top, self.block, self.imports, self.by_line = top, block, imports, by_line
        self.whole = True

    def of_a_part(self) -> AccessesByLine:
        """For parts that do not begin where the log does: which call was before their first ones is not known."""
        other = copy(self)
        other.whole = False
        return other

    def partial(self, batch: pa.RecordBatch) -> AccessSums:
        part = AccessSums(self.block, self.by_line)
        part.add(batch, self.imports)
        return part

    def combine(self, part: AccessSums, later: AccessSums) -> AccessSums:
        part.update(later, self.whole)
        return part

    def finish(self, part: AccessSums | None, log: Log) -> Accesses:
        part = part or AccessSums(self.block, self.by_line)
        part.finish()
        by_file = part.sums.columns()
        files = distinct(by_file["file"])
        name = dict(zip(files.tolist(), part.names.of(files, log), strict=True))
        rows = self._rows(part, by_file)
        lines = self._rows(part, part.sums.columns("file"), "file")
        sites = sorted({row["site"] for row in (*rows, *lines)})
        used = part.users.columns()["file"]
        user = distinct(used)
        count = np.bincount(np.searchsorted(user, used), minlength=len(user))
        about = _About(
            name=name,
            users=dict(zip(user.tolist(), count.tolist(), strict=True)),
            pattern=_patterns(by_file, name),
            line=dict(zip(sites, texts(log, "site", np.array(sites, np.int64)), strict=True)),
        )
        more = len(by_file["file"]) - len(rows)
        return Accesses(
            [self._access(row, about) for row in rows], [self._access(row, about) for row in lines], more, part.dropped
        )

    def _rows(self, part: AccessSums, sums: dict[str, Ints], *without: str) -> list[dict[str, Any]]:
        """The sums with the most time, with their most common sizes and strides."""
        names = [name for name in KEYS if name not in without]
        keys = tuple(sums[name] for name in names)
        order = np.lexsort((*reversed(keys), -sums["bytes"], -sums["time"]))[: self.top]
        rows: list[dict[str, Any]] = [{} for _ in order]
        for column, values in sums.items():
            for row, value in zip(rows, values[order].tolist(), strict=True):
                row[column] = value
        for column, source in (("size", part.sizes), ("stride", part.strides)):
            common: dict[tuple[int, ...], list[tuple[int, int]]] = {}
            if without or not self.by_line:
                found = source.columns(*without)
                common = most_common(tuple(found[name] for name in names), found[column], found["count"], _COMMON)
            for row in rows:
                row[column] = common.get(tuple(row[name] for name in names), [])
        return rows

    def _access(self, row: dict[str, Any], about: _About) -> Access:
        one = "file" in row
        path, files = (about.name[row["file"]], 1) if one else about.pattern[row["site"], row["write"]]
        known = row["smallest"] <= row["largest"]
        counts = {name: row[name] for name in _PLAIN}
        return Access(
            path=path, line=about.line[row["site"]], direction="write" if row["write"] else "read",
            moved_bytes=row["bytes"], time_ns=row["time"], smallest_bytes=row["smallest"] if known else None,
            largest_bytes=row["largest"] if known else None, common_sizes=row["size"], strides=row["stride"],
            block_bytes=self.block, files=files, processes=about.users.get(row["file"], 1) if one else None, **counts,
        )  # fmt: skip


#: Fields of Access that are sums of the same name.
_PLAIN = (
    "calls", "placed", "unplaced", "first", "consecutive", "forward", "backward", "unaligned", "unaligned_end",
    "switches",
)  # fmt: skip


@dataclass
class _About:
    """name, users: of a file, its name and number of processes; pattern: of a line and direction, the pattern of most
    bytes and the number of files; line: of its code."""

    name: dict[int, str]
    users: dict[int, int]
    pattern: dict[tuple[int, int], tuple[str, int]]
    line: dict[int, str | None]


def _patterns(sums: dict[str, Ints], name: dict[int, str]) -> dict[tuple[int, int], tuple[str, int]]:
    pattern = patterns(set(name.values()))
    moved: dict[tuple[int, int], Counter[str]] = defaultdict(Counter)
    files: Counter[tuple[int, int]] = Counter()
    columns = (sums[column].tolist() for column in ("file", "site", "write", "bytes"))
    for file, site, write, size in zip(*columns, strict=True):
        moved[site, write][pattern[name[file]]] += size
        files[site, write] += 1
    return {key: (max(sorted(one), key=lambda path: one[path]), files[key]) for key, one in moved.items()}


REDUCER = AccessesByLine
