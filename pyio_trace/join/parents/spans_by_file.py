"""Finds which spans that declared a file were open at a moment, for many moments at once.

The spans of one process that declared the same file form a *group*.  Sort the
spans by (group, begin), and number them in that order.  Of a group, the spans
begun by a moment are then consecutive numbers, and the ends come from a second
list, sorted by (group, end).  So for each moment:

1. Two binary searches tell how many spans of the group had begun and how many
   had ended.  The difference is how many were open.
2. If one was open, its number is the sum of the numbers of all that had begun,
   less the sum of those that had ended: both are cumulative sums.
3. If several were open, the last one begun that had not ended is searched for
   in a tree of maxima over the ends (`_tree`).  If each of the open spans
   encloses the next, on one thread, it is the innermost and stands for them all.
   Else none is picked, and `every` lists them, one search a span.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pyio_trace.join.parents.span_table import Spans
from pyio_trace.light_dataclass import dataclass
from pyio_trace.log.sorting import distinct, find

Ints = NDArray[np.int64]

#: If more spans than this are open, only the latest are listed.
MOST_LISTED = 32


@dataclass(frozen=True)
class OpenSpans:
    """The spans of one file that were open at each moment; parallel arrays.

    group: -1 if nobody declared the file; count: of spans open; single: the only
    or innermost one (index of Spans; -1 none, or not certain); unchanged: none
    began or ended until `last`; begun (number of the first span of the group
    that had not begun) and rank (of the moment): where `every` searches.
    """

    group: Ints
    count: Ints
    single: Ints
    unchanged: NDArray[np.bool_]
    begun: Ints
    rank: Ints

    @classmethod
    def none(cls, length: int) -> OpenSpans:
        """Nothing open, for this many moments."""
        zeros, nothing = np.zeros(length, np.int64), np.full(length, -1, np.int64)
        return cls(nothing, zeros, nothing, np.ones(length, np.bool_), zeros, zeros)

    def where(self, mask: NDArray[np.bool_]) -> OpenSpans:
        """The moments of the mask."""
        return OpenSpans(*(getattr(self, name)[mask] for name in self.__dataclass_fields__))

    def replaced(self, at: Ints, other: OpenSpans) -> OpenSpans:
        """A copy with the other's values in these places."""
        result = OpenSpans(*(getattr(self, name).copy() for name in self.__dataclass_fields__))
        for name in self.__dataclass_fields__:
            getattr(result, name)[at] = getattr(other, name)
        return result


class SpansByFile:
    """The spans (indexes `which` of a Spans) that declared files, by group.

    Moments are compared by rank: the number of begins and ends up to then.
    (group, rank) is packed into one integer for the binary searches.
    """

    def __init__(self, spans: Spans, which: Ints) -> None:
        which = which[spans.end[which] > spans.begin[which]]  # spans of no length are open at no moment
        self._files, file = np.unique(spans.file[which], return_inverse=True)
        self._processes, process = np.unique(spans.process[which], return_inverse=True)
        self._groups, group = np.unique(process * max(len(self._files), 1) + file, return_inverse=True)
        group = group.astype(np.int64)
        self._times = distinct(np.concatenate([spans.begin[which], spans.end[which]]))
        self._stride = len(self._times) + 2
        order = np.lexsort((spans.id[which], spans.begin[which], group))
        #: by number, that is in the order of (group, begin): index in Spans
        self._which = which[order]
        self._begins = group[order] * self._stride + np.searchsorted(self._times, spans.begin[self._which])
        end_rank = np.searchsorted(self._times, spans.end[self._which])
        by_end = np.argsort(group[order] * self._stride + end_rank, kind="stable")
        self._ends = (group[order] * self._stride + end_rank)[by_end]
        #: sum of the numbers of the spans that ended first, second, ...
        self._ended_sum = np.concatenate([np.zeros(1, np.int64), np.cumsum(by_end)])
        self._start = np.searchsorted(group[order], np.arange(len(self._groups)))
        self._tree = _tree(end_rank)
        group_of_span = np.full(len(spans), -1, np.int64)
        group_of_span[which] = group
        self._depth = spans.nesting(self._which, group_of_span)
        #: whether spans of one group were ever open at once without one enclosing the other
        self.overlapping = self._ever_overlapping(group[order])

    def __len__(self) -> int:
        return len(self._which)

    def _ever_overlapping(self, group: Ints) -> bool:
        # When a span begins, it and those that enclose it are open; if there are more, some overlap.
        begun = np.arange(1, len(group) + 1) - self._start[group]
        ended = np.searchsorted(self._ends, self._begins + 1) - self._start[group]
        return bool((begun - ended > self._depth + 1).any())

    def open_at(self, file: Ints, process: Ints, begin: Ints, last: Ints) -> OpenSpans:
        """Which of the spans that declared this file in this process were open at begin; unchanged: up to last."""
        group = self._group(file, process)
        at = np.flatnonzero(group >= 0)
        result = OpenSpans.none(len(file))
        if not len(at):
            return result
        own = group[at]
        rank = np.searchsorted(self._times, begin[at], side="right")
        begun, ended = self._until(own, rank)
        count = begun - ended
        single = self._single(own, begun, ended, rank)
        unchanged = np.ones(len(at), np.bool_)
        long = np.flatnonzero(last[at] > begin[at])
        if len(long):
            later = np.searchsorted(self._times, last[at][long], side="right")
            until = self._until(own[long], later)
            unchanged[long] = (until[0] == begun[long]) & (until[1] == ended[long])
        span = np.where((single >= 0) & unchanged, self._which[single], -1)
        return result.replaced(at, OpenSpans(own, count, span, unchanged, begun, rank))

    def _single(self, group: Ints, begun: Ints, ended: Ints, rank: Ints) -> Ints:
        """The number of the only or innermost span open; -1: none, or several that do not enclose one another."""
        start, count = self._start[group], begun - ended
        sum_begun = (begun * (begun - 1) - start * (start - 1)) // 2
        sum_ended = self._ended_sum[ended] - self._ended_sum[start]
        single = np.where(count == 1, sum_begun - sum_ended, -1)
        several = np.flatnonzero(count > 1)
        if len(several):
            latest = self._latest_open(begun[several], rank[several])
            nested = self._depth[latest] + 1 == count[several]
            single[several] = np.where(nested, latest, -1)
        return single

    def every(self, found: OpenSpans, mask: NDArray[np.bool_]) -> tuple[Ints, Ints]:
        """(moment, index of Spans) of each span open at the moments of the mask; at most MOST_LISTED a moment, the
        latest."""
        moments = np.flatnonzero(mask & (found.count > 0))
        left, below, rank = found.count[moments], found.begun[moments], found.rank[moments]
        rows, spans = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
        for _ in range(MOST_LISTED):
            if not len(moments):
                break
            below = self._latest_open(below, rank)
            rows.append(moments)
            spans.append(self._which[below])
            more = left > 1
            moments, left, below, rank = moments[more], left[more] - 1, below[more], rank[more]
        return np.concatenate(rows), np.concatenate(spans)

    def _group(self, file: Ints, process: Ints) -> Ints:
        number, file_known = find(self._files, file)
        own, process_known = find(self._processes, process)
        group, known = find(self._groups, own * len(self._files) + number)
        return np.where(file_known & process_known & known & (file != 0), group, -1)

    def _until(self, group: Ints, rank: Ints) -> tuple[Ints, Ints]:
        """How many spans, of this group and those before it, had begun and had ended by a moment."""
        moment = group * self._stride + rank
        return np.searchsorted(self._begins, moment), np.searchsorted(self._ends, moment)

    def _latest_open(self, below: Ints, rank: Ints) -> Ints:
        """The highest number below `below` of a span that had not ended at the moment; there must be one.

        Climbs the tree from `below` until a left sibling holds an end that is
        late enough, and descends there, to the right where possible.  All
        moments climb and descend together, level by level.
        """
        node, level = below.copy(), np.zeros(len(below), np.int64)
        climbing = np.ones(len(below), np.bool_)
        for depth, ends in enumerate(self._tree):
            right_child = climbing & (node & 1 == 1)
            hit = right_child & (ends[np.where(right_child, node - 1, 0)] >= rank)
            level[hit], node[hit] = depth, node[hit] - 1
            climbing &= ~hit
            node = np.where(climbing, node >> 1, node)
        for depth in range(len(self._tree) - 1, 0, -1):
            down = np.flatnonzero((level == depth) & ~climbing)
            right = 2 * node[down] + 1
            ends = self._tree[depth - 1]
            node[down] = np.where(ends[right] >= rank[down], right, right - 1)
            level[down] = depth - 1
        return node


def _tree(ends: Ints) -> list[Ints]:
    """The ends, then the latest of each two, of each four, ... up to one."""
    size = 1 << max(len(ends) - 1, 0).bit_length()
    level = np.full(2 * size, -1, np.int64)  # longer than the ends: `below` may be one more than the last number
    level[: len(ends)] = ends
    levels = [level]
    while len(level) > 1:
        level = np.maximum(level[0::2], level[1::2])
        levels.append(level)
    return levels
