"""Sums by file, time and offset, in bounded memory, however long the run and large the files.

Bins of time and of offsets are powers of two wide, and their borders multiples of
that.  So the widths follow from the first and last time, and from the end of each
file, alone, and the sums do not depend on the order in which transfers came.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from pyio_trace.analysis.sums.grouped_sums import GroupedSums
from pyio_trace.log.sorting import distinct

Ints = NDArray[np.int64]
#: Bins of each axis, at most; and sums in memory.
BINS, _MOST = 1024, 1 << 20
_POWERS = np.int64(1) << np.arange(63, dtype=np.int64)
_HOW = {
    "time": "sum", "calls": "sum", "read": "sum", "written": "sum", "low": "min", "high": "max", "first": "min",
    "last": "max",
}  # fmt: skip


class PlaceBins:
    """Sums by the keys file, write, process, bin of time, and bin of offset, which is `at` << `shift` bytes.

    time: ns in calls; low, high: first byte touched, and one past the last; first, last: ns since the epoch.
    """

    def __init__(self) -> None:
        self._shift = 0
        self._first, self._last = 1 << 62, -(1 << 62)
        self._sums = self._empty()

    def add(
        self, file: Ints, write: Ints, process: Ints, begin: Ints, end: Ints, offset: Ints, values: Mapping[str, Ints]
    ) -> None:
        """Adds transfers at known offsets; values: time, calls, read, written."""
        if not len(file):
            return
        self._widen(int(begin.min()), int(begin.max()), self._shift)
        high = offset + values["read"] + values["written"]
        files = distinct(file)
        number = np.searchsorted(files, file)
        ends = np.zeros(len(files), np.int64)
        np.maximum.at(ends, number, high)
        shift = shift_for(ends)[number]
        self._sums.add(
            {
                "file": file, "write": write, "process": process, "bin": begin >> self._shift, "shift": shift,
                "at": offset >> shift, "low": offset, "high": high, "first": begin, "last": end, **values,
            }
        )  # fmt: skip

    def update(self, other: PlaceBins) -> None:
        """Adds the sums of another one."""
        if other._first > other._last:
            return
        self._widen(other._first, other._last, max(self._shift, other._shift))
        other._widen(other._first, other._last, self._shift)
        self._sums.update(other._sums)

    def _widen(self, first: int, last: int, shift: int) -> None:
        """Makes the bins of time, which are at least 2 ** shift wide, as wide as these times need."""
        self._first, self._last = min(self._first, first), max(self._last, last)
        while (self._last >> shift) - (self._first >> shift) >= BINS:
            shift += 1
        by, self._shift = shift - self._shift, shift
        if by:
            self._sums = self._sums.rekeyed(lambda sums: sums | {"bin": sums["bin"] >> by})

    def _empty(self) -> GroupedSums:
        return GroupedSums(("file", "write", "process", "bin", "shift", "at"), _HOW, _MOST)

    @property
    def dropped(self) -> int:
        """Sums that did not fit into memory."""
        return self._sums.dropped

    def columns(self) -> dict[str, Ints]:
        """All keys and sums; the bins of offsets are equally wide in each file."""
        return self._sums.rekeyed(_equally_wide).columns()


def coarser(sums: dict[str, Ints], most: int, *without: str) -> dict[str, Ints]:
    """The sums of one file by wider bins, so that there are at most `most`; without: keys that are summed over."""
    by = 0
    while True:
        found = GroupedSums(tuple(name for name in ("write", "process", "bin", "at") if name not in without), _HOW)
        keys = {"bin": sums["bin"] - int(sums["bin"].min()) >> by, "at": sums["at"] >> by}
        found.add({name: keys.get(name, sums[name]) for name in (*found.keys, *_HOW)})
        columns = found.columns()
        if len(columns["at"]) <= most:
            return columns
        by += 1


def _equally_wide(sums: dict[str, Ints]) -> dict[str, Ints]:
    files = distinct(sums["file"])
    number = np.searchsorted(files, sums["file"])
    shift = np.zeros(len(files), np.int64)
    np.maximum.at(shift, number, sums["shift"])
    return sums | {"shift": shift[number], "at": sums["at"] >> (shift[number] - sums["shift"])}


def shift_for(ends: Ints) -> Ints:
    """How wide bins have to be for these to be at most BINS up to an end, as powers of two."""
    return np.maximum(np.searchsorted(_POWERS, ends) - (BINS.bit_length() - 1), 0)
