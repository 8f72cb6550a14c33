"""Which bytes of which files were touched: unions of ranges, in bounded memory.

Memory grows with the separate ranges, and a program that reads at random makes
as many as it reads.  So beyond a number of them the narrowest gaps are filled.
From then on the union is an upper bound, and what was filled says how far the
truth may be below it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from pyio_trace.analysis.sums.intervals import joined, merge

Ints = NDArray[np.int64]

#: Separate ranges that are kept, at 16 bytes each; half as many are left once gaps were filled.
_MOST_RANGES = 1 << 23
#: Ranges that are collected before they are merged.
_PENDING = 1 << 22
#: Values that are moved at once: few enough to stay in the cache.
_AT_ONCE = 1 << 16
_OFFSET_BITS = 42
_FILE_BITS = 21
#: No gap between ranges of one file is wider; those between files are, where keys have the file number.
_WIDEST, _WIDEST_OF_KEYS = 1 << 62, (1 << (_OFFSET_BITS - 1)) - 1


class ByteRanges:
    """Which bytes of which files were touched, as merged ranges.

    A range is a pair of keys that have the file number in the bits above the
    offset, so that one merge serves all files.  Ranges that do not fit such keys
    (offsets past 2 TiB, file numbers past two million) are kept file by file.
    """

    def __init__(self, limit: int = _PENDING, most: int = _MOST_RANGES) -> None:
        """limit: ranges collected before they are merged; most: merged ranges, beyond which gaps are filled."""
        self._limit, self._most = limit, most
        self._whole = np.zeros(0, np.int64), np.zeros(0, np.int64)  # merged
        self._pending: list[tuple[Ints, Ints]] = []
        self._count = 0
        self._large: dict[int, tuple[Ints, Ints]] = {}
        self._added = 0  # the lengths of all ranges
        self._filled = 0  # bytes of the gaps that were filled

    def add(self, file: Ints, starts: Ints, ends: Ints) -> None:
        """Adds ranges: file number (not negative) and [start, end) bytes of each; in any order."""
        if len(starts):
            self._added += int((ends - starts).sum())
            self._add(file, starts, ends)

    def _add(self, file: Ints, starts: Ints, ends: Ints) -> None:
        if not len(starts):
            return
        # One bit stays free, so that a range never touches the first byte of the next file.
        if int(ends.max()) >> (_OFFSET_BITS - 1) or int(file.max()) >> _FILE_BITS:
            fits = (ends < 1 << (_OFFSET_BITS - 1)) & (file < 1 << _FILE_BITS)
            self._add_large(file[~fits], starts[~fits], ends[~fits])
            self._add(file[fits], starts[fits], ends[fits])
            return
        keys = file << _OFFSET_BITS
        self._keep(*joined(keys + starts, keys + ends))

    def _keep(self, starts: Ints, ends: Ints) -> None:
        self._pending.append((starts, ends))
        self._count += len(starts)
        if self._count > self._limit:
            self._limit = max(self._limit, 3 * len(self._merged()[0]) // 2)

    def _add_large(self, file: Ints, starts: Ints, ends: Ints) -> None:
        order = np.argsort(file, kind="stable")
        file, starts, ends = file[order], starts[order], ends[order]
        firsts = np.flatnonzero(np.diff(file, prepend=-1))
        lasts = [*firsts[1:].tolist(), len(file)]
        for one, first, last in zip(file[firsts].tolist(), firsts.tolist(), lasts, strict=True):
            before = self._large.get(one, (starts[:0], ends[:0]))
            merged = merge(np.append(before[0], starts[first:last]), np.append(before[1], ends[first:last]))
            # These are merged again for each batch, so there must be fewer.
            self._large[one] = self._filled_up(*merged, self._most >> 3, _WIDEST)

    def update(self, other: ByteRanges, files: Ints | None = None) -> None:
        """Adds everything that another ByteRanges has; files: the number here of each file number there, None: the
        same."""
        starts, ends = other._merged()
        file = starts >> _OFFSET_BITS
        base = file << _OFFSET_BITS
        self._add(file if files is None else files.take(file), starts - base, ends - base)
        for one, (starts, ends) in other._large.items():
            same = one if files is None else int(files[one])
            self._add(np.full(len(starts), same, np.int64), starts, ends)
        self._added += other._added
        self._filled += other._filled

    def __getstate__(self) -> dict[str, Any]:
        self._merged()
        return self.__dict__

    def _merged(self) -> tuple[Ints, Ints]:
        if self._pending:
            parts, self._pending = [self._whole, *self._pending], []
            del self._whole
            starts, ends = _merge_parts(parts)
            self._whole = self._filled_up(starts, ends, self._most, _WIDEST_OF_KEYS)
            self._count = len(self._whole[0])
        return self._whole

    def _filled_up(self, starts: Ints, ends: Ints, most: int, widest: int) -> tuple[Ints, Ints]:
        """The merged ranges; if there are more than `most`, half of that, without the narrowest gaps up to `widest`."""
        if len(starts) <= most:
            return starts, ends
        gaps = starts[1:] - ends[:-1]
        last = min(len(starts) - most // 2, len(gaps)) - 1
        fill = gaps <= min(int(np.partition(gaps, last)[last]), widest)
        self._filled += int(gaps[fill].sum(dtype=np.float64))  # of a damaged log it may exceed 63 bits
        return starts[np.append(True, ~fill)], ends[np.append(~fill, True)]

    def total(self) -> int:
        """Bytes in the union of all ranges, or more by up to may_exceed().  A file's offsets below and past 2 TiB are
        summed separately, which is exact unless ranges overlap across that limit."""
        union = self._union()
        return min(union, self._added) if self._filled else union

    def may_exceed(self) -> int:
        """By how many bytes total() may exceed the truth; 0: by none."""
        return self.total() - max(self._union() - self._filled, 0) if self._filled else 0

    def _union(self) -> int:
        starts, ends = self._merged()
        large = sum(int((last - first).sum()) for first, last in self._large.values())
        return int((ends - starts).sum()) + large

    def with_those_of(self, other: ByteRanges) -> ByteRanges:
        """The ranges of both."""
        both = ByteRanges(most=self._most + other._most)
        for ranges in (self, other):
            both._pending.append(ranges._merged())
            for file, (starts, ends) in ranges._large.items():
                both._add(np.full(len(starts), file, np.int64), starts, ends)
            both._added += ranges._added
            both._filled += ranges._filled
        return both


def _merge_parts(parts: list[tuple[Ints, Ints]]) -> tuple[Ints, Ints]:
    """merge() of all parts, in little more memory than they take; empties the list."""
    ends_of_parts = [ends for _, ends in parts]
    starts = np.concatenate([starts for starts, _ in parts])
    parts.clear()
    starts.sort()
    ends = np.concatenate(ends_of_parts)
    ends_of_parts.clear()
    ends.sort()
    if len(starts):
        separate = starts[1:] > ends[:-1]
        _keep_some(starts, np.append(True, separate))
        _keep_some(ends, np.append(separate, True))
    return starts, ends


def _keep_some(values: Ints, mask: NDArray[np.bool_]) -> None:
    """Keeps only the values of the mask, in their own memory."""
    used = 0
    for low in range(0, len(values), _AT_ONCE):
        part = values[low : low + _AT_ONCE][mask[low : low + _AT_ONCE]]
        values[used : used + len(part)] = part
        used += len(part)
    values.resize(used, refcheck=False)  # the only reference to this array
