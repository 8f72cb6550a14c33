"""Parts of a run of any size: the longest operations in each, and the others as time in bins.

One pass over the log counts all of it in bins, and keeps the longest operations.
So a large part of the run costs no reading; for a small one, the divisions of the
log that reach into it are read again.  Memory grows with neither operations nor
parts: bins become wider, and fewer operations are kept.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pyio_trace.join.base.arrow_arrays import codes, numbers, present
from pyio_trace.page.bins import Bins, Grid, binned, summed
from pyio_trace.page.depths import DEPTHS, depths, free_from_the_start
from pyio_trace.page.rows import (
    COLUMNS,
    FARTHEST,
    MOST_LANES,
    TEXTS,
    Lane,
    Rows,
    Taken,
    extents,
    in_order,
    lengths,
    process_ends,
)
from pyio_trace.page.thread_names import names

if TYPE_CHECKING:
    from pyio_trace.join.sources.facade import Log

Ints = NDArray[np.int64]

#: Bins of a part, and operations in it that are shown one by one.
BINS, MOST_ROWS = 2048, 40_000
#: Parts of level 0 are the whole run; each level halves them.  Up to this one, they come from the first pass.
_FROM_BINS = 4
#: More levels than there are ns in a century.
MOST_LEVELS = 52
#: Bins of all strands together.
_MOST_BINS = 1 << 22
#: Bins of each strand, however many strands there are.
_LEAST_BINS = 128
#: Operations that are kept from the first pass.
_MOST_KEPT = 100_000
#: Divisions of the log whose times are kept.
_MOST_READ = 4
_LIGHT = ("time", "duration", "process", "tid", "calls", "detail", "op_role")


class Part(NamedTuple):
    """rows: in the order of the timeline; lanes: all of the log; strands: (lane, depth, role) of each row of the bins;
    bins: of what is not in rows."""

    rows: Rows
    lanes: Sequence[Lane]
    grid: Grid
    strands: Sequence[tuple[int, int, str]]
    bins: Bins


class _Times(NamedTuple):
    """Operations of a division, lane by lane.  at: row of the division; begin, length, busy: ns, begin since the run
    began; strand: lane, depth and role as one number."""

    division: int
    at: Ints
    begin: Ints
    length: Ints
    busy: Ints
    strand: Ints

    def only(self, chosen: NDArray[np.generic]) -> _Times:
        return _Times(self.division, *(one[chosen] for one in self[1:]))


class Levels:
    """The parts of a log."""

    def __init__(
        self, log: Log, start: int, span: tuple[int, int], progress: Callable[[int], None] | None = None
    ) -> None:
        """start: of the run, ns since the epoch; span: of what is shown, ns since then; progress: called with a
        number of rows read.  Raises what reading raises."""
        self.log, self._start, self._ends = log, start, process_ends(log)
        self.first, self.last = span[0], max(span[1], span[0] + 1)
        self._texts = {name: log.dictionary(name) for name in TEXTS}
        self._roles = [text or "" for text in self._texts["op_role"].to_pylist()] + [""]
        self._lanes: dict[tuple[int, int], int] = {}
        self._of = np.zeros(0, np.int64)
        self._free = free_from_the_start(0)
        self._before: list[Ints] = []  # self._free before each division
        self._reach: list[tuple[int, int]] = []  # first begin and last end of each, of operations that are not long
        self._read: OrderedDict[int, _Times] = OrderedDict()
        self._strands: dict[int, int] = {}
        self._count = BINS << _FROM_BINS
        self._bins = Bins(np.zeros((0, self._count)), np.zeros((0, self._count)))
        kept: list[_Times] = []
        for division in range(sum(log.divisions())):
            self._before.append(self._free.copy())
            times = self._times(division, self._free, True)
            self._add(times)
            is_long = times.length > self._long
            short = times.only(~is_long)
            self._reach.append(
                (int(short.begin.min()), int((short.begin + short.length).max())) if len(short.at) else (1, 0)
            )
            kept = _longest([*kept, times.only(times.length >= self._least)], _MOST_KEPT)
            if progress is not None:
                progress(len(times.at))
        self._kept_times = kept
        self._kept = self._rows(kept)
        self._number()

    @property
    def _long(self) -> int:
        """ns: what takes longer is kept from the first pass."""
        return (self.last - self.first) >> (_FROM_BINS + 2)

    @property
    def _least(self) -> int:
        """ns: what is shorter is never wider than a bin in parts that come from the first pass."""
        return (self.last - self.first) >> (_FROM_BINS + 11)

    def has(self, level: int, place: int) -> bool:
        """Whether there is such a part: parts begin at each half of one."""
        return 0 <= level < MOST_LEVELS and 0 <= place < (2 << level) - 1

    def bounds(self, level: int, place: int) -> tuple[float, float]:
        """ns from and to which the part reaches."""
        width = (self.last - self.first) / (1 << level)
        return self.first + place * width / 2, self.first + place * width / 2 + width

    def part(self, level: int, place: int) -> Part:
        """Raises what reading raises; has() must be true."""
        grid = Grid(*self.bounds(level, place), min(BINS, self._count))
        deep = level > _FROM_BINS
        found = [one.only(_within(one, grid) & (not deep or one.length > self._long)) for one in self._kept_times]
        others: list[_Times] = []
        if deep:
            for division, (begin, end) in enumerate(self._reach):
                if begin <= end and begin < grid.last and end >= grid.first:
                    times = self._times_again(division)
                    others.append(times.only(_within(times, grid) & (times.length <= self._long)))
        chosen = _longest([*found, *others], MOST_ROWS)
        if deep:
            bins = self._binned(grid, [*found, *others])
        else:
            factor = self._count >> level
            at = place * factor >> 1
            bins = summed(Bins(*(one[:, at : at + factor] for one in self._bins)), max(factor // BINS, 1))
            grid = Grid(grid.first, grid.last, bins.time.shape[1])
        shown = self._binned(grid, chosen)
        calls = np.maximum(bins.calls - shown.calls, 0)
        # What is left of a difference of sums is no time.
        rest = bins.time - shown.time
        bins = Bins(np.where(rest > 1e-6 * bins.time + 1e-3, rest, 0), calls)
        used = np.flatnonzero(bins.time.any(axis=1) | bins.calls.any(axis=1))
        strands = [self._parts_of(one) for one in np.array([*self._strands], np.int64)[used].tolist()]
        rows, counts = self._shown(chosen)
        lanes = [
            Lane(*key, int(counts[lane]), int(self._deep[lane]), int(self._of[lane])) for key, lane in self._in_order
        ]
        place_of = {lane: at for at, (_, lane) in enumerate(self._in_order)}
        named = [(place_of[lane], depth, self._roles[role]) for lane, depth, role in strands]
        return Part(rows, lanes, grid, named, Bins(bins.time[used], bins.calls[used]))

    # ---- the first pass

    def _add(self, times: _Times) -> None:
        used, which = np.unique(times.strand, return_inverse=True)
        for one in used.tolist():
            self._strands.setdefault(one, len(self._strands))
        while len(self._strands) * self._count > _MOST_BINS and self._count > _LEAST_BINS:
            self._count //= 2
            self._bins = summed(self._bins, 2)
        place = np.array([self._strands[one] for one in used.tolist()], np.int64)
        grid = Grid(self.first, self.last, self._count)
        found = binned(grid, place[which], len(self._strands), times.begin, times.length, times.busy)
        for one, more in zip(self._bins, found, strict=True):
            more[: len(one)] += one
        self._bins = found

    def _number(self) -> None:
        """What is known of the lanes after the first pass."""
        self._in_order = sorted(self._lanes.items())
        kept, keys = self._kept.values, self._lanes
        pairs = zip(kept["process"].tolist(), kept["tid"].tolist(), strict=True)
        self._names = names(self._kept, np.array([keys[one] for one in pairs], np.int64), len(keys))
        self._deep = np.ones(len(self._lanes), np.int64)
        for strand in self._strands:
            lane, depth, _ = self._parts_of(strand)
            self._deep[lane] = max(self._deep[lane], depth + 1)

    def _parts_of(self, strand: int) -> tuple[int, int, int]:
        """lane, depth, role."""
        rest, role = divmod(strand, len(self._roles))
        return *divmod(rest, DEPTHS), role

    # ---- reading

    def _times_again(self, division: int) -> _Times:
        if division not in self._read:
            self._read[division] = self._times(division, self._before[division].copy(), False)
        self._read.move_to_end(division)
        while len(self._read) > _MOST_READ:
            self._read.popitem(last=False)
        return self._read[division]

    def _times(self, division: int, free: Ints, new: bool) -> _Times:
        """free: see depths(); new: the lanes of this division are not known yet."""
        parts: list[list[Ints]] = []
        for batch in self.log.batches(_LIGHT, 1 << 20, (division, division + 1)):
            process, tid = numbers(batch["process"], -1).astype(np.int64), numbers(batch["tid"], -1).astype(np.int64)
            calls = numbers(batch["calls"])
            end = self._ends[np.where(process < len(self._ends) - 1, process, -1)]
            time = np.clip(numbers(batch["time"]), -FARTHEST, FARTHEST)
            duration, returned = numbers(batch["duration"]), present(batch["duration"])
            extent = extents(calls, codes(batch["detail"]), self._texts["detail"])
            length = lengths(time, duration, returned, extent, end)
            busy = np.where(returned, np.clip(duration, 0, FARTHEST), length)
            parts.append([process, tid, time - self._start, length, busy, codes(batch["op_role"])])
        if not parts:
            return _Times(division, *(np.zeros(0, np.int64) for _ in range(5)))
        process, tid, begin, length, busy, role = (np.concatenate(one) for one in zip(*parts, strict=True))
        lane = self._lane(process, tid, new)
        if new and len(self._free) < len(self._lanes):
            self._free = np.concatenate([self._free, free_from_the_start(len(self._lanes) - len(self._free))])
            self._of = np.append(self._of, np.zeros(len(self._lanes) - len(self._of), np.int64))
            free = self._free
        if not new and len(free) < len(self._lanes):
            free = np.concatenate([free, free_from_the_start(len(self._lanes) - len(free))])
        if new:
            self._of += np.bincount(lane, minlength=len(self._of))
        order = np.lexsort((-length, begin, lane))
        lane, begin, length = lane[order], begin[order], length[order]
        depth = depths(lane, begin, begin + length, free)
        roles = np.where(role < 0, len(self._roles) - 1, role)[order]
        return _Times(division, order, begin, length, busy[order], (lane * DEPTHS + depth) * len(self._roles) + roles)

    def _lane(self, process: Ints, tid: Ints, new: bool) -> Ints:
        """The lane of each row; threads beyond MOST_LANES share one."""
        keys, which = np.unique((process + 1) * (1 << 32) + tid + 1, return_inverse=True)
        found = []
        for key in keys.tolist():
            one = (key >> 32) - 1, (key & 0xFFFFFFFF) - 1
            if one not in self._lanes and (not new or len(self._lanes) >= MOST_LANES):
                one = (-1, -1)
            found.append(self._lanes.setdefault(one, len(self._lanes)))
        return np.array(found, np.int64)[which]

    def _binned(self, grid: Grid, parts: Sequence[_Times]) -> Bins:
        known = np.array([*self._strands], np.int64)
        order = np.argsort(known)
        total = Bins(np.zeros((len(known), grid.bins)), np.zeros((len(known), grid.bins)))
        for one in parts:
            place = order[np.searchsorted(known, one.strand, sorter=order)] if len(known) else one.strand
            more = binned(grid, place, len(known), one.begin, one.length, one.busy)
            total = Bins(total.time + more.time, total.calls + more.calls)
        return total

    def _rows(self, parts: Sequence[_Times]) -> Rows:
        """These operations with all that is known of them, in the order of parts; their lanes in process and tid."""
        taken, lanes = Taken(), {lane: key for key, lane in self._lanes.items()}
        strand = []
        for one in parts:
            order, first = np.argsort(one.at), 0
            at = one.at[order]
            for batch in self.log.batches(COLUMNS, 1 << 18, (one.division, one.division + 1)) if len(at) else ():
                low, high = np.searchsorted(at, [first, first + len(batch)])
                taken.add(batch, at[low:high] - first)
                first += len(batch)
            strand.append(one.strand[order])
        rows = taken.rows(self._texts)
        strands = np.concatenate(strand) if strand else np.zeros(0, np.int64)
        lane = strands // len(self._roles) // DEPTHS
        keys = np.array([lanes[one] for one in range(len(lanes))], np.int64).reshape(-1, 2)
        rows.values["process"], rows.values["tid"] = keys[lane, 0], keys[lane, 1]
        for name in ("process", "tid"):
            rows.there[name] = rows.values[name] >= 0
        rows.values["depth"] = strands // len(self._roles) % DEPTHS
        return rows

    def _shown(self, chosen: Sequence[_Times]) -> tuple[Rows, Ints]:
        """(the rows in the order of the timeline, how many each lane has); those of the first pass are at hand."""
        kept = {one.division: one for one in self._kept_times}
        first, at = 0, []
        starts = {}
        for one in self._kept_times:
            starts[one.division] = first
            first += len(one.at)
        others = []
        for one in chosen:
            there = kept.get(one.division)
            known = np.isin(one.at, there.at) if there is not None else np.zeros(len(one.at), np.bool_)
            if there is not None:
                at.append(starts[one.division] + np.searchsorted(np.sort(there.at), one.at[known]))
            if not known.all():
                others.append(one.only(~known))
        parts = [self._kept.only(np.concatenate(at)) if at else self._kept.only(np.zeros(0, np.int64))]
        parts.append(self._rows(others))
        rows = in_order(joined(parts))
        lanes = np.array(
            [
                (self._lanes[key])
                for key in zip(rows.values["process"].tolist(), rows.values["tid"].tolist(), strict=True)
            ],
            np.int64,
        )
        return rows, np.bincount(lanes, minlength=len(self._lanes))


def joined(parts: Sequence[Rows]) -> Rows:
    """The rows of all."""
    one = parts[0]
    values = {name: np.concatenate([part.values[name] for part in parts]) for name in one.values}
    there = {name: np.concatenate([part.there[name] for part in parts]) for name in one.there}
    return replace(one, values=values, there=there, extent=np.concatenate([part.extent for part in parts]))


def _within(times: _Times, grid: Grid) -> NDArray[np.bool_]:
    found: NDArray[np.bool_] = (times.begin < grid.last) & (times.begin + times.length >= grid.first)
    return found


def _longest(parts: Sequence[_Times], most: int) -> list[_Times]:
    """The longest so many of them; some of equal length may be missing."""
    parts = [one for one in parts if len(one.at)]
    length = np.concatenate([one.length for one in parts]) if parts else np.zeros(0, np.int64)
    if len(length) <= most:
        return [*parts]
    kept = np.zeros(len(length), np.bool_)
    kept[np.argpartition(-length, most)[:most]] = True
    ends = np.cumsum([len(one.at) for one in parts])
    return [one.only(mask) for one, mask in zip(parts, np.split(kept, ends[:-1]), strict=True)]
