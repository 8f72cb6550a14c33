"""The offsets of a log's plain reads, writes and copies; O_APPEND writes go to the end of the file (file_sizes.py)."""

from __future__ import annotations

import os

import numpy as np
from numpy.typing import NDArray

from pyio_trace.join.base import parallel
from pyio_trace.join.base.records import UNKNOWN, WideValues
from pyio_trace.join.offsets.file_sizes import FileSizes
from pyio_trace.join.offsets.positions import (
    AT_ONCE,
    OUTPUT,
    SETS,
    STREAM,
    WANTED,
    WRITES,
    AllPositionEvents,
    around_streams,
    compressed,
    grouped_by_root,
    positions,
    sorted_by_time,
)
from pyio_trace.join.references.log_parts import LogParts
from pyio_trace.log.sorting import find

#: How often at most a plain write may follow an append on the same description, for its offset to be known.
_ROUNDS = 16


class Offsets:
    """The offsets of all plain reads and writes of a log, and of copies' output, by record id."""

    def __init__(
        self, parts: LogParts, events: AllPositionEvents, wide: WideValues, appended: NDArray[np.int64]
    ) -> None:
        """events: overwritten; appended: object numbers of descriptors with appends that a call's flags asked for."""
        log, files = parts.log, parts.files
        self._appended = appended
        self._placed: tuple[NDArray[np.int64], NDArray[np.int64]] | None = None  # appends that leave the position
        root = self._roots(parts, events)
        streams = self._of_streams(parts, events, root)
        if streams is not None:
            root = around_streams(events, root, len(files.root_start))
        # If a ring has lost operations, only the openings that are left give a first position.
        self._start = np.full_like(files.root_start, UNKNOWN) if log.header["ring_lost"] else files.root_start
        found = self._with_appends(parts, events, root, wide)
        if found is None:
            found = self._solve(root, events.ticks, events.kind, events.value)
        if files.root_lost.any():
            found[files.root_lost[root]] = UNKNOWN
        if log.header["full_since"]:  # from then on some operations have no record
            found[events.ticks >= log.header["full_since"]] = UNKNOWN
        outputs = np.flatnonzero(events.kind & OUTPUT)
        self._outputs = events.ids[outputs].astype(np.int64), found[outputs]
        self._ids, self._values = compressed((events.kind & WANTED) != 0, events.ids, found)
        for more in (streams, self._placed):
            if more is not None:
                ids, values = np.append(self._ids, more[0].astype(np.uint32)), np.append(self._values, more[1])
                order = np.argsort(ids, kind="stable")
                self._ids, self._values = ids[order], values[order]

    def _roots(self, parts: LogParts, events: AllPositionEvents) -> NDArray[np.int32]:
        """The root of each event; those without one are removed.  Overwrites the events' descs unless streams or
        appends need them: these arrays are as large as the log."""
        files = parts.files
        needed = bool((files.root_flags & os.O_APPEND).any()) or bool((events.kind & STREAM).any())
        needed |= len(self._appended) > 0
        root = np.empty(len(events), np.int32) if needed else events.descs
        for low in range(0, len(root), AT_ONCE):
            root[low : low + AT_ONCE] = files.root.take(events.descs[low : low + AT_ONCE])
        if len(root) and int(root.min()) < 0:  # their descriptor is missing
            known = root >= 0
            events.keep(known)
            root = compressed(known, root)[0] if needed else events.descs
        return root

    def _of_streams(
        self, parts: LogParts, events: AllPositionEvents, root: NDArray[np.int32]
    ) -> tuple[NDArray[np.uint32], NDArray[np.int64]] | None:
        """(ids, offsets) of the transfers of C streams; None: there are no streams.

        A stream that fopen() made begins where its description does; of any other it is not known where it is until
        it says so.
        """
        at = np.flatnonzero(events.kind & STREAM)
        if not len(at):
            return None
        files, kind, ticks = parts.files, events.kind[at], events.ticks[at]
        descs, stream = np.unique(events.descs[at], return_inverse=True)
        moved_below = np.zeros(len(files.root_start), np.bool_)
        moved_below[root[(events.kind & STREAM) == 0]] = True
        first = files.root[descs]
        fresh = files.first[descs] & ~moved_below[first] & (parts.log.header["ring_lost"] == 0)
        start = np.where(fresh, files.root_start[first], UNKNOWN)
        order = np.lexsort((ticks, stream))
        found = np.empty(len(at), np.int64)
        found[order] = positions(stream[order].astype(np.int32), events.value[at][order], kind[order], start)
        appends = (files.root_flags[root[at]] & os.O_APPEND) != 0
        unknown = (appends & ((kind & WRITES) != 0)) | files.root_lost[root[at]]
        if parts.log.header["full_since"]:
            unknown |= ticks >= parts.log.header["full_since"]
        found[unknown] = UNKNOWN
        wanted = (kind & WANTED) != 0
        return events.ids[at][wanted], found[wanted]

    def _with_appends(
        self, parts: LogParts, events: AllPositionEvents, root: NDArray[np.int32], wide: WideValues
    ) -> NDArray[np.int64] | None:
        """The position before each event, where something was appended; None: nothing was.

        Appends depend on file sizes, which depend on the offsets of the other writes.  So there are three steps: the
        positions without the appends, whose ends are unknown; the file sizes before and after each append; and again
        the positions on descriptions with appends, each of which now sets the position to the new end of the file.
        Where only flags of a call ask for an append, other writes may follow it, so the last two are repeated.
        """
        appends = (parts.files.root_flags & os.O_APPEND) != 0
        if not appends.any() and not len(self._appended):
            return None
        # A failed write, or one of no bytes, leaves the position where it is.
        by_flag = (events.kind & (WRITES | SETS)) == (WRITES | SETS)
        appending = by_flag | (appends[root] & ((events.kind & (WRITES | SETS)) == WRITES) & (events.value != 0))
        kind = np.where(appending, events.kind | SETS, events.kind)
        found = self._solve(root, events.ticks, kind, np.where(appending, UNKNOWN, events.value))
        found[parts.files.root_lost[root]] = UNKNOWN
        ends = appends
        ends[root[by_flag]] = True
        rows = np.flatnonzero(ends[root])
        before = after = np.full(len(events), UNKNOWN, np.int64)
        # Operations without a record may have made the file longer too.
        sizes = None if parts.log.selective() else FileSizes(parts, wide, self._appended)
        for _ in range(_ROUNDS if by_flag.any() else 1):
            if sizes is not None:
                before, after, self._placed = sizes.at_appends(events, appending, found)
            value = np.where(appending, after, events.value)
            known = found[rows]
            found[rows] = self._solve(root[rows], events.ticks[rows], kind[rows], value[rows])
            found[appending] = before[appending]
            if np.array_equal(known, found[rows]):
                break
        return found

    def _solve(
        self, root: NDArray[np.int32], ticks: NDArray[np.uint64], kind: NDArray[np.uint8], value: NDArray[np.int64]
    ) -> NDArray[np.int64]:
        """The position before each event, in the events' own order; overwrites and returns value."""

        def solve(events: NDArray[np.int64]) -> None:
            order, roots = sorted_by_time(events, root, ticks)
            value[order] = positions(roots, value.take(order), kind.take(order), self._start)

        for _ in parallel.map_in_order(solve, grouped_by_root(root)):
            pass
        return value

    def of(self, ids: NDArray[np.int64]) -> NDArray[np.int64]:
        """The offsets of these records (ids ascending); UNKNOWN for others."""
        if len(ids) == 0 or len(self._ids) == 0:
            return np.full(len(ids), UNKNOWN, np.int64)
        # Bounds of the same type as the ids: with any other, numpy would convert the whole array.
        ends = np.array([ids[0], ids[-1]], self._ids.dtype)
        low, high = np.searchsorted(self._ids, ends[0]), np.searchsorted(self._ids, ends[1], side="right")
        own, values = self._ids[low:high], self._values[low:high]
        if len(own) == len(ids) and np.array_equal(own, ids):
            return np.asarray(values)
        if len(own) == 0:
            return np.full(len(ids), UNKNOWN, np.int64)
        at = np.minimum(np.searchsorted(own, ids.astype(own.dtype)), len(own) - 1)
        return np.where(own[at] == ids, values[at], UNKNOWN)

    def of_outputs(self, ids: NDArray[np.int64]) -> NDArray[np.int64]:
        """The offsets at which copies wrote at the position of their output; UNKNOWN for others."""
        own, values = self._outputs
        if len(own) == 0:
            return np.full(len(ids), UNKNOWN, np.int64)
        at, known = find(own, ids)
        return np.where(known, values[at], UNKNOWN)
