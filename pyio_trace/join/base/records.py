"""Values that several parts of the join read from raw records, and the records that complete others."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pyio_trace.log import layout
from pyio_trace.log.sorting import find

#: Stands for a file offset that is not known.
UNKNOWN = np.iinfo(np.int64).min
#: The errno of an operation that raised an exception without one.
RAISED = -1
#: The latest tick a forged record may claim, so that a duration can be added to it.
LAST_TICK = 1 << 61


def ids_in(offsets: NDArray[np.int64]) -> NDArray[np.uint32]:
    """The ids in records' offset fields; 0 for values that cannot be ids."""
    return np.where((offsets > 0) & (offsets <= 0xFFFFFFFF), offsets, 0).astype(np.uint32)


def begin_ticks(begin: NDArray[np.uint64]) -> NDArray[np.int64]:
    """The begin field of records as int64 ticks."""
    ticks: NDArray[np.int64] = np.minimum(begin, np.uint64(LAST_TICK)).view(np.int64)
    return ticks


def duration_ticks(records: NDArray[np.void]) -> NDArray[np.int64]:
    """The durations of records, which have 48 bits in two fields."""
    ticks: NDArray[np.int64] = records["duration_lo"].astype(np.int64)
    high = records["duration_hi"]
    if high.any():
        ticks += high.astype(np.int64) << 32
    return ticks


def is_done(records: NDArray[np.void]) -> NDArray[np.bool_]:
    """Which operations returned without an error."""
    done: NDArray[np.bool_] = (records["flags"] & (layout.STATE_MASK | layout.FAILED)) == layout.DONE
    return done


def has_raised(records: NDArray[np.void]) -> NDArray[np.bool_]:
    """Which operations ended with an exception that has no errno."""
    failed = (records["flags"] & (layout.STATE_MASK | layout.FAILED)) == layout.DONE | layout.FAILED
    raised: NDArray[np.bool_] = failed & (records["result"] == 0)
    return raised


class WideValues:
    """Sizes and results that did not fit into 32 bits, by record id; from EXT records.

    The result of an operation that failed is what it moved before.
    """

    def __init__(self, ext: NDArray[np.void]) -> None:
        ext = ext[np.argsort(ext["parent"], kind="stable")]
        self._ids = ext["parent"].astype(np.int64)
        self._sizes = ext["offset"].astype(np.int64)
        self._results = ext["begin"].astype(np.uint64).view(np.int64)
        self._of_failed = (ext["flags"] & layout.FAILED) != 0

    def of(self, ids: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.bool_]]:
        """(sizes, results, mask of the records that have them)."""
        if len(self._ids) == 0:
            zeros = np.zeros(len(ids), np.int64)
            return zeros, zeros, np.zeros(len(ids), np.bool_)
        at, known = find(self._ids, ids)
        return self._sizes[at], self._results[at], known

    def moved_by_failed(self, ids: NDArray[np.int64]) -> NDArray[np.int64]:
        """Bytes that failed operations moved; 0 where that is not known."""
        if len(self._ids) == 0:
            return np.zeros(len(ids), np.int64)
        at, known = find(self._ids, ids)
        # Earlier logs have the errno there, and do not say that it failed.
        return np.where(known & self._of_failed[at], np.maximum(self._results[at], 0), 0)


class Completions:
    """A number of each record that did not fit in, by its id and begin: the offset of OUTPUT and of CPU records.

    The begin is needed because a ring may have put another record in the same place.
    """

    def __init__(self, records: NDArray[np.void]) -> None:
        records = records[np.lexsort((records["begin"], records["parent"]))]
        self._ids = records["parent"].astype(np.int64)
        self._begins = records["begin"].copy()
        self._offsets = records["offset"].copy()

    def fill(self, numbers: NDArray[np.int64], ids: NDArray[np.int64], begins: NDArray[np.uint64]) -> None:
        """Writes the known numbers of these records into `numbers`."""
        if len(self._ids) == 0:
            return
        # If several have the same id, the latest counts: a record is only overwritten by later ones.
        at = np.searchsorted(self._ids, ids, side="right") - 1
        known = (at >= 0) & (self._ids[at] == ids) & (self._begins[at] == begins) & (self._offsets[at] >= 0)
        numbers[known] = self._offsets[at[known]]
