"""Which spans that declared a file were open at a moment: for many moments at once.

The spans of one process that declared one file are a *key*.  Per key, how many
had begun and how many had ended by a moment is a binary search each; where the
difference is one, the difference of two sums is which one.  Only where it is
more are single spans looked for, in a tree of the latest ends.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pyio_trace.join.spans import Spans
from pyio_trace.log.sorting import distinct

Ints = NDArray[np.int64]

#: Of more candidates than this the latest are listed.
MOST_LISTED = 32


@dataclass(frozen=True)
class Open:
    """Of each moment: key (-1: nobody declared that file), count of spans open, single: the only or innermost one
    (index of Spans; -1 none, or not certain), steady: nothing began or ended until `last`; high, rank: where to look
    for all of them."""

    key: Ints
    count: Ints
    single: Ints
    steady: NDArray[np.bool_]
    high: Ints
    rank: Ints

    @classmethod
    def none(cls, length: int) -> Open:
        """For that many moments: nothing open."""
        zeros, nothing = np.zeros(length, np.int64), np.full(length, -1, np.int64)
        return cls(nothing, zeros, nothing, np.ones(length, np.bool_), zeros, zeros)

    def only(self, mask: NDArray[np.bool_]) -> Open:
        """The moments of the mask."""
        return Open(*(getattr(self, name)[mask] for name in self.__dataclass_fields__))

    def where(self, at: Ints, other: Open) -> Open:
        """This with the other's in these places."""
        result = Open(*(getattr(self, name).copy() for name in self.__dataclass_fields__))
        for name in self.__dataclass_fields__:
            getattr(result, name)[at] = getattr(other, name)
        return result


class Declared:
    """The spans (indexes `which` of a Spans) that declared files, by key."""

    def __init__(self, spans: Spans, which: Ints) -> None:
        which = which[spans.end[which] > spans.begin[which]]  # of no length: open at no moment
        self._files, file = np.unique(spans.file[which], return_inverse=True)
        self._processes, process = np.unique(spans.process[which], return_inverse=True)
        self._keys, key = np.unique(process * max(len(self._files), 1) + file, return_inverse=True)
        key = key.astype(np.int64)
        self._times = distinct(np.concatenate([spans.begin[which], spans.end[which]]))
        self._stride = len(self._times) + 2
        order = np.lexsort((spans.id[which], spans.begin[which], key))
        #: in the order of (key, begin): index in Spans
        self._which = which[order]
        self._begun = key[order] * self._stride + np.searchsorted(self._times, spans.begin[self._which])
        end_rank = np.searchsorted(self._times, spans.end[self._which])
        by_end = np.argsort(key[order] * self._stride + end_rank, kind="stable")
        self._ended = (key[order] * self._stride + end_rank)[by_end]
        self._ended_sum = np.concatenate([np.zeros(1, np.int64), np.cumsum(by_end)])
        self._start = np.searchsorted(key[order], np.arange(len(self._keys)))
        self._tree = _tree(end_rank)
        own_key = np.full(len(spans), -1, np.int64)
        own_key[which] = key
        self._depth = spans.nesting(self._which, own_key)
        #: whether spans of one key were ever open at once without being nested in one another
        self.overlapping = self._ever_several(key[order])

    def __len__(self) -> int:
        return len(self._which)

    def _ever_several(self, key: Ints) -> bool:
        # When a span begins, as many are open as it is nested in, and itself: else there were several.
        begun = np.arange(1, len(key) + 1) - self._start[key]
        ended = np.searchsorted(self._ended, self._begun + 1) - self._start[key]
        return bool((begun - ended > self._depth + 1).any())

    def open(self, file: Ints, process: Ints, begin: Ints, last: Ints) -> Open:
        """What was open of those that declared this file in this process, at begin; steady: up to last."""
        key = self._key(file, process)
        at = np.flatnonzero(key >= 0)
        result = Open.none(len(file))
        if not len(at):
            return result
        own = key[at]
        rank = np.searchsorted(self._times, begin[at], side="right")
        high, ended = self._until(own, rank)
        start = self._start[own]
        count = high - ended
        # Of all up to a place, the sum of their places, less those that have ended: the place of the one that is left.
        left = (high * (high - 1) - start * (start - 1)) // 2 - (self._ended_sum[ended] - self._ended_sum[start])
        single = np.where(count == 1, left, -1)
        several = np.flatnonzero(count > 1)
        if len(several):
            latest = self._latest(high[several], rank[several])
            chain = self._depth[latest] + 1 == count[several]
            single[several] = np.where(chain, latest, -1)
        steady = np.ones(len(at), np.bool_)
        long = np.flatnonzero(last[at] > begin[at])
        if len(long):
            later = np.searchsorted(self._times, last[at][long], side="right")
            until = self._until(own[long], later)
            steady[long] = (until[0] == high[long]) & (until[1] == ended[long])
        span = np.where((single >= 0) & steady, self._which[single], -1)
        return result.where(at, Open(own, count, span, steady, high, rank))

    def every(self, found: Open, mask: NDArray[np.bool_]) -> tuple[Ints, Ints]:
        """(moment, index of Spans) of each span that was open at the moments of the mask; of many the latest."""
        moments = np.flatnonzero(mask & (found.count > 0))
        left, high, rank = found.count[moments], found.high[moments], found.rank[moments]
        rows, spans = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
        for _ in range(MOST_LISTED):
            if not len(moments):
                break
            high = self._latest(high, rank)
            rows.append(moments)
            spans.append(self._which[high])
            more = left > 1
            moments, left, high, rank = moments[more], left[more] - 1, high[more], rank[more]
        return np.concatenate(rows), np.concatenate(spans)

    def _key(self, file: Ints, process: Ints) -> Ints:
        if not len(self._which):
            return np.full(len(file), -1, np.int64)
        number, there = _index(self._files, file)
        own, known = _index(self._processes, process)
        key, declared = _index(self._keys, own * len(self._files) + number)
        return np.where(there & known & declared & (file != 0), key, -1)

    def _until(self, key: Ints, rank: Ints) -> tuple[Ints, Ints]:
        """How many, of all up to this key, had begun and had ended by a moment."""
        moment = key * self._stride + rank
        return np.searchsorted(self._begun, moment), np.searchsorted(self._ended, moment)

    def _latest(self, high: Ints, rank: Ints) -> Ints:
        """The last place below high whose span had not ended by a moment; there has to be one."""
        node, level = high.copy(), np.zeros(len(high), np.int64)
        looking = np.ones(len(high), np.bool_)
        for depth, ends in enumerate(self._tree):
            beside = looking & (node & 1 == 1)
            hit = beside & (ends[np.where(beside, node - 1, 0)] >= rank)
            level[hit], node[hit] = depth, node[hit] - 1
            looking &= ~hit
            node = np.where(looking, node >> 1, node)
        for depth in range(len(self._tree) - 1, 0, -1):
            down = np.flatnonzero((level == depth) & ~looking)
            right = 2 * node[down] + 1
            ends = self._tree[depth - 1]
            node[down] = np.where(ends[right] >= rank[down], right, right - 1)
            level[down] = depth - 1
        return node


def _tree(ends: Ints) -> list[Ints]:
    """The ends, the later of each two of them, the latest of each four, ..."""
    size = 1 << max(len(ends) - 1, 0).bit_length()
    level = np.full(2 * size, -1, np.int64)  # a place further than the last may be asked for
    level[: len(ends)] = ends
    levels = [level]
    while len(level) > 1:
        level = np.maximum(level[0::2], level[1::2])
        levels.append(level)
    return levels


def _index(table: Ints, values: Ints) -> tuple[Ints, NDArray[np.bool_]]:
    at = np.minimum(np.searchsorted(table, values), len(table) - 1)
    return at, table[at] == values
