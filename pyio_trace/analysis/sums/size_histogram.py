"""Access sizes: Darshan's ten bins and the most common sizes, of reads and of writes.

Nearly all sizes are at most 256 KiB.  These are counted exactly, in a table
indexed by size: a bin is a sum over a range of the table, and the most common
sizes are its largest entries.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from pyio_trace.analysis.scan.saturation import addable

#: (label, largest size in the bin or None), as Darshan has them.
BINS: tuple[tuple[str, int | None], ...] = (
    ("0-100", 100), ("100-1K", 1 << 10), ("1K-10K", 10 << 10), ("10K-100K", 100 << 10), ("100K-1M", 1 << 20),
    ("1M-4M", 4 << 20), ("4M-10M", 10 << 20), ("10M-100M", 100 << 20), ("100M-1G", 1 << 30), ("1G+", None),
)  # fmt: skip
COMMON = 4
_TABLE = (256 << 10) + 1
_MANY = 1 << 16


class AccessSizes:
    """Counts transfers by size."""

    def __init__(self) -> None:
        self._table = np.zeros(0, np.int64)  # grows with the sizes seen
        self._large: Counter[int] = Counter()  # sizes beyond the table; beyond _MANY, the rarest are dropped
        self._large_bins = np.zeros(len(BINS), np.int64)
        self._partial = False

    def add(self, sizes: NDArray[np.int64]) -> None:
        """Adds transfers by their size in bytes, none negative."""
        if not len(sizes):
            return
        if int(sizes.max()) < _TABLE:
            self._add_counts(np.bincount(sizes))
            return
        small = sizes < _TABLE
        self.add(sizes[small])
        values, counts = np.unique(sizes[~small], return_counts=True)
        self._large_bins += _bin_sums(values, counts)
        self._add_large(dict(zip(values.tolist(), counts.tolist(), strict=True)))

    def update(self, other: AccessSizes) -> None:
        """Adds the transfers of another one."""
        self._add_counts(other._table)
        self._large_bins = addable(self._large_bins + other._large_bins)
        self._add_large(other._large)
        self._partial |= other._partial

    def _add_counts(self, counts: NDArray[np.int64]) -> None:
        """Adds the number of transfers of each size."""
        if len(counts) > len(self._table):
            grown = np.zeros(min(max(len(counts), 2 * len(self._table)), _TABLE), np.int64)
            grown[: len(self._table)] = self._table
            self._table = grown
        self._table[: len(counts)] += counts

    def _add_large(self, counts: Mapping[int, int]) -> None:
        self._large.update(counts)
        if len(self._large) > _MANY:
            self._large = Counter(dict(self._large.most_common(_MANY // 2)))

    def add_sum(self, bins: Mapping[str, int], common: Mapping[int, int]) -> None:
        """Adds transfers by the number in each bin (label -> count) and of each size.

        A sum keeps the first few distinct sizes it meets.  If there were more, the most common ones are not known.
        """
        self._partial |= sum(common.values()) < sum(bins.values())
        for position, (label, _) in enumerate(BINS):
            self._large_bins[position] += bins.get(label, 0)
        self._large_bins = addable(self._large_bins)
        self._add_large(common)

    def bins(self) -> list[tuple[str, int]]:
        """(label, transfers) of each of the ten bins."""
        sizes = np.flatnonzero(self._table)
        counts = self._large_bins + _bin_sums(sizes, self._table[sizes])
        return [(label, int(count)) for (label, _), count in zip(BINS, counts, strict=True)]

    def common(self) -> list[tuple[int, int]]:
        """(size, transfers) of the four most common sizes, the most common first, larger ones first among equals.

        Empty if that is not known.
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
