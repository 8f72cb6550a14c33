"""Access sizes: Darshan's ten bins and the most common sizes, of reads and of writes.

Sizes up to 256 KiB, nearly all of them, are counted exactly in a table by
size; a bin is then a sum over a stretch of that table, and the most common
sizes are its largest entries.
"""

from __future__ import annotations

from collections import Counter

import numpy as np
from numpy.typing import NDArray

#: (label, largest size in the bin or None), as Darshan has them.
BINS: tuple[tuple[str, int | None], ...] = (
    ("0-100", 100), ("100-1K", 1 << 10), ("1K-10K", 10 << 10), ("10K-100K", 100 << 10), ("100K-1M", 1 << 20),
    ("1M-4M", 4 << 20), ("4M-10M", 10 << 20), ("10M-100M", 100 << 20), ("100M-1G", 1 << 30), ("1G+", None),
)  # fmt: skip
COMMON = 4
_TABLE = (256 << 10) + 1
_MANY = 1 << 16
_MOST = 1 << 62  # transfers: of a damaged log


class AccessSizes:
    """Counts transfers by size."""

    def __init__(self) -> None:
        self._table = np.zeros(_TABLE, np.int64)
        self._large: Counter[int] = Counter()  # sizes beyond the table, the rarest forgotten past _MANY
        self._large_bins = np.zeros(len(BINS), np.int64)
        self._partial = False

    def add(self, sizes: NDArray[np.int64]) -> None:
        """Enter transfers by their size in bytes, none negative."""
        if not len(sizes):
            return
        if int(sizes.max()) < _TABLE:
            counts = np.bincount(sizes)
            self._table[: len(counts)] += counts
            return
        small = sizes < _TABLE
        self.add(sizes[small])
        values, counts = np.unique(sizes[~small], return_counts=True)
        self._large_bins += _bin_sums(values, counts)
        self._large.update(dict(zip(values.tolist(), counts.tolist(), strict=True)))
        if len(self._large) > _MANY:
            self._large = Counter(dict(self._large.most_common(_MANY // 2)))

    def add_sum(self, bins: dict[str, int], common: dict[str, int]) -> None:
        """Enter transfers by how many are in which bin, and how many have which size (as text, of JSON).

        A sum keeps the first few distinct sizes it meets; where there were more, the most common ones are not known.
        """
        self._partial |= sum(common.values()) < sum(bins.values())
        for position, (label, _) in enumerate(BINS):
            self._large_bins[position] = min(int(self._large_bins[position]) + bins.get(label, 0), _MOST)
        self._large.update({int(size): count for size, count in common.items() if size.isdecimal() and len(size) < 19})

    def bins(self) -> list[tuple[str, int]]:
        """(label, transfers) of each of the ten bins."""
        sizes = np.flatnonzero(self._table)
        counts = self._large_bins + _bin_sums(sizes, self._table[sizes])
        return [(label, int(count)) for (label, _), count in zip(BINS, counts, strict=True)]

    def common(self) -> list[tuple[int, int]]:
        """(size, transfers) of the four most common sizes, the most common first, larger ones first among equals.

        Empty where that is not known.
        """
        if self._partial:
            return []
        counts = Counter(self._large)
        top = np.argsort(self._table, kind="stable")[-2 * COMMON :]
        counts.update({int(size): int(self._table[size]) for size in top if self._table[size]})
        return sorted(counts.items(), key=lambda pair: (-pair[1], -pair[0]))[:COMMON]


def _bin_sums(sizes: NDArray[np.int64], counts: NDArray[np.int64]) -> NDArray[np.int64]:
    """Transfers in each of the ten bins, from distinct sizes and how often each occurred."""
    limits = np.array([limit for _, limit in BINS if limit is not None], np.int64)
    bins = np.searchsorted(limits, sizes, side="left")
    return np.rint(np.bincount(bins, weights=counts, minlength=len(BINS))).astype(np.int64)
