"""Slices: the intervals of a picture, with all that is shown of each, as columns."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import field
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from pyio_trace.analysis.calls.code_texts import texts
from pyio_trace.errors import printable
from pyio_trace.join.base.arrow_arrays import of_numbers
from pyio_trace.light_dataclass import dataclass
from pyio_trace.log import runs
from pyio_trace.log.sorting import distinct
from pyio_trace.timeline.choice import Chosen, Rows
from pyio_trace.timeline.nesting import lanes
from pyio_trace.timeline.tracks import Tracks

if TYPE_CHECKING:
    from pyio_trace.join.sources.facade import Log

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

#: What the detail of a row of several calls has: ns from the first begin to the last end.
_SPAN = r'"span_ns": ?(?P<span>[0-9]{1,18})'
_LEFT_OUT = "left out (sum)"
#: Characters of a text that is shown, of a longer one the last ones: more than any path has.
_LONGEST = 4096
#: Slices, and characters of their texts, that are written at a time.
_AT_ONCE, _LETTERS = 1 << 16, 1 << 24


@dataclass
class Texts:
    """A column of texts.  code: of each slice, -1 none; words: what codes stand for."""

    code: Ints
    words: list[str]


@dataclass
class Numbers:
    """A column of integers.  present: where there is one."""

    value: Ints
    present: Bools


@dataclass
class Slices:
    """Intervals on tracks.  begin, length: ns, begin since the epoch.  name, category: of each.  texts, numbers: what
    else is known of each, by the name that is shown.  arguments: further things as a JSON object, of other traces."""

    track: Ints
    begin: Ints
    length: Ints
    name: Texts
    category: Texts
    texts: dict[str, Texts] = field(default_factory=dict)
    numbers: dict[str, Numbers] = field(default_factory=dict)
    arguments: Texts | None = None

    def __len__(self) -> int:
        return len(self.begin)

    def portions(self, order: Ints) -> Iterator[tuple[int, int]]:
        """(first, end) of parts of these slices that are small enough to be written at a time."""
        letters = np.zeros(len(order), np.int64)
        for one in (self.name, self.category, *self.texts.values(), *filter(None, [self.arguments])):
            letters += np.array([*map(len, one.words), 0])[one.code[order]]
        place = np.maximum(np.cumsum(letters) // _LETTERS, np.arange(len(order)) // _AT_ONCE)
        borders = [*runs.starts(place).tolist(), len(order)] if len(order) else []
        yield from pairwise(borders)


def spread(slices: Slices, tracks: Tracks) -> None:
    """Gives slices that overlap on a track further tracks."""
    lane = lanes(slices.track, slices.begin, slices.begin + slices.length)
    further = np.flatnonzero(lane)
    keys, row = np.unique((slices.track[further] << 32) + lane[further], return_inverse=True)
    made = np.array([tracks.add_lane(key >> 32) for key in keys.tolist()], np.int64)
    slices.track = slices.track.copy()
    slices.track[further] = made[row] if len(made) else 0


def of_operations(rows: Rows, log: Log) -> Slices:
    """The slices of operations, without tracks.  A row of several calls lasts from the first begin to the last end."""
    several = rows["calls"] > 1
    found = Slices(rows["time"], rows["time"], extents(rows, log), _words(rows, log, "op"), _words(rows, log, "layer"))
    found.texts = {"path": _words(rows, log, "path"), "line": _words(rows, log, "site")}
    present = {
        "offset": ("file_offset", rows["file_offset"] >= 0), "bytes": ("bytes_moved", rows["bytes_moved"] >= 0),
        "errno": ("errno", rows["errno"] != 0), "calls": ("calls", several), "time_ns": ("duration", several),
        "in_flight": ("in_flight", rows["in_flight"].astype(np.bool_)),
    }  # fmt: skip
    found.numbers = {name: Numbers(rows[column].astype(np.int64), there) for name, (column, there) in present.items()}
    return found


def extents(rows: Rows, log: Log) -> Ints:
    """From the begin of each row to its end; of a row of several calls, to the end of the last one."""
    import pyarrow.compute as pc

    found = rows["duration"].copy()
    at = np.flatnonzero((rows["calls"] > 1) & (rows["detail"] >= 0))
    codes = distinct(rows["detail"][at])
    if len(codes):
        spans = pc.extract_regex(log.dictionary("detail").take(of_numbers(codes)), _SPAN)
        known = pc.fill_null(pc.cast(pc.struct_field(spans, "span"), "int64"), -1).to_numpy(zero_copy_only=False)
        span = known[np.searchsorted(codes, rows["detail"][at])]
        found[at] = np.where(span >= 0, span, found[at])
    whole: Ints = np.minimum(found, (1 << 62) - rows["time"])
    return whole


def of_sums(chosen: Chosen, log: Log) -> Slices:
    """The slices of the operations that are not shown: one for each process and line; track: the process."""
    sums = chosen.rest.columns()
    count = len(sums["time"])
    every = np.ones(count, np.bool_)
    zero = np.zeros(count, np.int64)
    unknown = "(other lines)" if chosen.rest.dropped else "(no line)"
    lines = [printable((line or unknown)[-_LONGEST:]) for line in texts(log, "site", sums["site"])]
    found = Slices(
        sums["process"], sums["first"], sums["last"] - sums["first"], Texts(zero, [_LEFT_OUT]), Texts(zero, ["sum"])
    )
    found.texts = {"line": Texts(np.arange(count), lines)}
    amounts = {"bytes": sums["read"] + sums["written"], "calls": sums["calls"], "time_ns": sums["time"]}
    found.numbers = {name: Numbers(values, every) for name, values in amounts.items()}
    return found


def joined(parts: list[Slices]) -> Slices:
    """The slices of all parts."""
    arrays = {name: np.concatenate([getattr(one, name) for one in parts]) for name in ("track", "begin", "length")}
    names = list(dict.fromkeys(name for one in parts for name in one.texts))
    numbers = list(dict.fromkeys(name for one in parts for name in one.numbers))
    return Slices(
        **arrays, name=_together([one.name for one in parts]), category=_together([one.category for one in parts]),
        texts={name: _together([one.texts.get(name) or _absent(len(one)) for one in parts]) for name in names},
        numbers={name: _numbers(parts, name) for name in numbers},
        arguments=_together([one.arguments or _absent(len(one)) for one in parts]),
    )  # fmt: skip


def _absent(count: int) -> Texts:
    return Texts(np.full(count, -1), [])


def _together(parts: list[Texts]) -> Texts:
    words: list[str] = []
    codes = []
    for part in parts:
        codes.append(np.where(part.code >= 0, part.code + len(words), -1))
        words += part.words
    return Texts(np.concatenate(codes), words)


def _numbers(parts: list[Slices], name: str) -> Numbers:
    found = [one.numbers.get(name) or _no_numbers(len(one)) for one in parts]
    return Numbers(*(np.concatenate([getattr(one, what) for one in found]) for what in ("value", "present")))


def _no_numbers(count: int) -> Numbers:
    return Numbers(np.zeros(count, np.int64), np.zeros(count, np.bool_))


def _words(rows: Rows, log: Log, column: str) -> Texts:
    """A dictionary column with the words that occur."""
    used = distinct(rows[column])
    used = used[used >= 0]
    words = [printable((word or "")[-_LONGEST:]) for word in texts(log, column, used.astype(np.int64))]
    codes = np.searchsorted(used, rows[column]) if len(used) else np.zeros(len(rows[column]), np.int64)
    return Texts(np.where(rows[column] >= 0, codes, -1), words)
