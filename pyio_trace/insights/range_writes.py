"""When each process wrote which bytes of a file, and whether anything put two processes' writes there in order.

Only writes whose place is known count: single calls that returned, on regular
files.  How the files were opened is kept beside them, as appends go elsewhere.
Writes of the same bytes by the same line are one piece with the times of the first
and the last of them, so that memory grows with the different ranges.  A file with
too many is left out as a whole; so are all files if these are too many together.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pyio_trace.analysis.scan.columns import MEANING, Columns
from pyio_trace.analysis.sums.grouped_ranges import covered_twice, group_numbers, merged
from pyio_trace.enums import Layer, OpClass
from pyio_trace.light_dataclass import dataclass
from pyio_trace.log.sorting import distinct, distinct_pairs

if TYPE_CHECKING:
    from pyio_trace.join.sources.facade import Log

Ints = NDArray[np.int64]
Pieces = dict[str, Ints]

#: Writes that name their offset, and those at the position of the descriptor.
_PLACED, _AT_POSITION = ("pwrite", "pwritev"), ("write", "writev")
_KEYS = ("file", "process", "path", "site", "start", "end", "placed")
_NAMES = (*_KEYS, "first", "last")
#: Pieces of one file, and of all files; rows that collect before they become pieces.
_MOST_OF_FILE, _MOST, _FEW = 1 << 16, 1 << 19, 1 << 17
#: Cut pieces of one file that are looked at.
_MOST_CUT = 1 << 19


class Opened:
    """How a process opened a file.  DOUBTFUL: to append, or it is not known how; ALONE: only if it did not exist yet
    (the file is the code of the path)."""

    WELL, DOUBTFUL, ALONE = range(3)


class Part:
    """What some batches contribute.  The result does not depend on how a log is divided."""

    def __init__(self) -> None:
        self.full = False
        self._left_out: set[int] = set()
        self._opens: set[tuple[int, int, int]] = set()
        self._parts: list[Pieces] = []
        self._rows, self._limit = 0, _FEW

    def add(self, pieces: Pieces, opens: set[tuple[int, int, int]]) -> None:
        """Adds pieces, and (file, process, Opened)."""
        if self.full:
            return
        self._opens |= opens
        self._parts.append(pieces)
        self._rows += len(pieces["file"])
        if self._rows > self._limit or len(self._opens) > _MOST:
            self.pieces()

    def update(self, other: Part) -> None:
        """Adds another part."""
        self._left_out |= other._left_out
        for pieces in other._parts or [_none()]:
            self.add(pieces, other._opens)
        if other.full:
            self._fill()

    def pieces(self) -> Pieces:
        """All pieces, without those of files that have too many; none if all are too many."""
        whole = _joined({name: np.concatenate([_none()[name], *(one[name] for one in self._parts)]) for name in _NAMES})
        files, of, count = np.unique(whole["file"], return_inverse=True, return_counts=True)
        self._left_out |= set(files[count > _MOST_OF_FILE].tolist())
        kept = ~np.isin(files, list(self._left_out))[of.ravel()]
        whole = {name: column[kept] for name, column in whole.items()}
        self._parts, self._rows = [whole], len(whole["file"])
        self._limit = max(_FEW, 2 * self._rows)
        if max(self._rows, len(self._opens), len(self._left_out)) > _MOST:
            self._fill()
        return self._parts[0] if self._parts else _none()

    def _fill(self) -> None:
        self.full, self._parts, self._opens, self._left_out = True, [], set(), set()

    def __getstate__(self) -> dict[str, Any]:
        self.pieces()
        return self.__dict__

    @property
    def opens(self) -> frozenset[tuple[int, int, int]]:
        """(file, process, Opened)"""
        return frozenset(self._opens)


def _none() -> Pieces:
    return {name: np.zeros(0, np.int64) for name in _NAMES}


def _joined(pieces: Pieces) -> Pieces:
    """Pieces of equal keys as one, ordered by key."""
    if not len(pieces["file"]):
        return pieces
    number, example = group_numbers(tuple(pieces[name] for name in _KEYS))
    found = {name: pieces[name][example] for name in _NAMES}
    np.minimum.at(found["first"], number, pieces["first"])
    np.maximum.at(found["last"], number, pieces["last"])
    return found


@dataclass(frozen=True)
class RangeWrites:
    """pieces: of the files that two or more processes wrote, by name of the column: file, process (index), path and
    site (codes), start and end (bytes), placed (1: the call named the offset), first and last (ns since the epoch);
    opens: (file, process, Opened)."""

    pieces: Pieces
    opens: frozenset[tuple[int, int, int]]


@dataclass(frozen=True)
class WritesByRange:
    """The reducer."""

    columns: ClassVar[tuple[str, ...]] = tuple(dict.fromkeys((
        *MEANING, "time", "duration", "process", "file", "path", "site", "op", "errno", "command", "file_kind",
        "file_offset", "bytes_moved", "in_flight",
    )))  # fmt: skip

    def partial(self, batch: pa.RecordBatch) -> Part:
        part = Part()
        columns = Columns(batch)
        fine = (columns.numbers("errno") == 0) & columns.ended & ~columns.imported
        part.add(_pieces_of(columns, fine), _opens_of(columns, fine))
        return part

    def combine(self, part: Part, later: Part) -> Part:
        part.update(later)
        return part

    def finish(self, part: Part | None, log: Log) -> RangeWrites:
        part = part or Part()
        pieces = part.pieces()
        files, count = np.unique(distinct_pairs(pieces["file"], pieces["process"])[0], return_counts=True)
        at = np.isin(pieces["file"], files[count > 1])
        return RangeWrites({name: column[at] for name, column in pieces.items()}, part.opens)


#: For a rule's `needs`.
RANGE_WRITES = WritesByRange()


def _pieces_of(columns: Columns, fine: NDArray[np.bool_]) -> Pieces:
    writes = fine & (columns.layer == Layer.POSIX) & columns.of_words("op", (*_PLACED, *_AT_POSITION))
    process = columns.numbers("process", -1)
    writes &= (process >= 0) & (columns.calls == 1) & (columns.moved > 0) & (columns.offset >= 0) & (columns.file > 0)
    at = np.flatnonzero(writes & columns.of_words("file_kind", ("regular",)))
    time, start = columns.time[at], columns.offset[at]
    return _joined({
        "file": columns.file[at], "process": process[at], "path": columns.codes("path")[at],
        "site": columns.codes("site")[at], "start": start, "end": start + columns.moved[at],
        "placed": columns.of_words("op", _PLACED)[at].astype(np.int64), "first": time.copy(), "last": time.copy(),
    })  # fmt: skip


def _opens_of(columns: Columns, fine: NDArray[np.bool_]) -> set[tuple[int, int, int]]:
    opens = fine & (columns.kind == OpClass.OPEN) & (columns.layer >= Layer.STDIO)
    words = [set(word.split("|")) if word else set() for word in columns.words("command")]
    known = [one for one in words if one & {"O_RDONLY", "O_WRONLY", "O_RDWR", "O_ACCMODE", "O_PATH"}]
    well = [one & {"O_WRONLY", "O_RDWR"} and "O_APPEND" not in one for one in words]
    reading = [one in known and not one & {"O_WRONLY", "O_RDWR"} for one in words]
    alone = [one >= {"O_CREAT", "O_EXCL"} for one in words]
    # The last place is that of a null.
    is_well, is_reading, is_alone = (
        np.array([*map(bool, mask), False])[columns.codes("command")] for mask in (well, reading, alone)
    )
    doubtful = (opens & ~is_well & ~is_reading) | (fine & columns.of_words("command", ("F_SETFL",)))
    process, found = columns.numbers("process", -1), set[tuple[int, int, int]]()
    for mask, ids, how in (
        (opens & is_well, columns.file, Opened.WELL),
        (doubtful, columns.file, Opened.DOUBTFUL),
        (opens & is_alone, columns.codes("path"), Opened.ALONE),
    ):
        at = np.flatnonzero(mask)
        files, processes = distinct_pairs(ids[at], process[at])
        found |= {(file, index, how) for file, index in zip(files.tolist(), processes.tolist(), strict=True)}
    return found


@dataclass(frozen=True)
class Contested:
    """Stretches of one file that two processes wrote in turn: a row for each stretch and each two writes there that
    follow each other and are of different processes.

    start, end: bytes; earlier, later: processes; earlier_time, later_time: ns since the epoch; earlier_site,
    later_site: codes.
    """

    file: int
    path: int
    rows: Pieces
    first: int
    last: int


def contested(pieces: Pieces) -> list[Contested]:
    """What of each file several processes wrote; files with too many stretches are left out."""
    if not len(pieces["file"]):
        return []
    unit, example = group_numbers((pieces["file"], pieces["path"]))
    (of, _), starts, ends = merged((unit, pieces["process"]), pieces["start"], pieces["end"])
    units, low, high = covered_twice(of, starts, ends)
    order = np.argsort(unit, kind="stable")
    numbers = distinct(units)
    of_pieces = (np.searchsorted(unit[order], numbers, side) for side in ("left", "right"))
    of_stretches = (np.searchsorted(units, numbers, side) for side in ("left", "right"))
    places = (borders.tolist() for borders in (numbers, *of_pieces, *of_stretches))
    found = []
    for one, first, last, least, most in zip(*places, strict=True):
        mine = {name: column[order[first:last]] for name, column in pieces.items()}
        rows = _in_turn(mine, low[least:most], high[least:most])
        if rows is not None and len(rows["start"]):
            row = int(example[one])
            file, path = int(pieces["file"][row]), int(pieces["path"][row])
            found.append(Contested(file, path, rows, int(mine["first"].min()), int(mine["last"].max())))
    return found


def _in_turn(mine: Pieces, low: Ints, high: Ints) -> Pieces | None:
    """The rows of a Contested; low, high: the stretches that several processes wrote."""
    borders = distinct(np.concatenate([mine["start"], mine["end"], low, high]))
    inside = np.zeros(len(borders), np.int64)
    np.add.at(inside, np.searchsorted(borders, low), 1)
    np.subtract.at(inside, np.searchsorted(borders, high), 1)
    inside = np.cumsum(inside)
    begin, end = np.searchsorted(borders, mine["start"]), np.searchsorted(borders, mine["end"])
    count = end - begin
    if int(count.sum()) > _MOST_CUT:
        return None
    piece = np.repeat(np.arange(len(count)), count)
    cut = np.arange(len(piece)) - np.repeat(np.cumsum(count) - count, count) + begin[piece]
    kept = inside[cut] > 0
    piece, cut = np.concatenate([piece[kept]] * 2), np.concatenate([cut[kept]] * 2)
    half = len(piece) // 2
    time = np.concatenate([mine["first"][piece[:half]], mine["last"][piece[:half]]])
    process = mine["process"][piece]
    order = np.lexsort((process, time, cut))
    piece, cut, time, process = piece[order], cut[order], time[order], process[order]
    at = np.flatnonzero((cut[1:] == cut[:-1]) & (process[1:] != process[:-1]))
    site = mine["site"][piece]
    return {
        "start": borders[cut[at]], "end": borders[cut[at] + 1],
        "earlier": process[at], "later": process[at + 1], "earlier_time": time[at], "later_time": time[at + 1],
        "earlier_site": site[at], "later_site": site[at + 1],
    }  # fmt: skip
