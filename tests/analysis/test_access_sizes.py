"""Access sizes in Darshan's bins."""

from __future__ import annotations

import numpy as np

from pyio_trace.analysis.sums.size_histogram import BINS, AccessSizes


def test_the_edges_of_the_bins() -> None:
    sizes = AccessSizes()
    edges = [limit for _, limit in BINS if limit is not None]
    sizes.add(np.array([0, *edges, *(edge + 1 for edge in edges)], np.int64))
    # each edge is in its bin with the one after the edge below; the first has 0 and 100, the last 1G+1
    assert [count for _, count in sizes.bins()] == [2] * 9 + [1]
    assert [label for label, _ in sizes.bins()][:3] == ["0-100", "100-1K", "1K-10K"]


def test_the_four_most_common() -> None:
    sizes = AccessSizes()
    for size, count in ((4096, 5), (8, 3), (1 << 30, 4), (512, 2), (7, 1)):
        sizes.add(np.full(count, size, np.int64))
    assert sizes.common() == [(4096, 5), (1 << 30, 4), (8, 3), (512, 2)]
    assert AccessSizes().common() == []


def test_what_is_not_known_of_one_part_is_not_known_of_both() -> None:
    # GIVEN two calls of 8 bytes, and a sum of five calls that knows the size of only two of them
    sizes, summed = AccessSizes(), AccessSizes()
    sizes.add(np.array([8, 8], np.int64))
    summed.add_sum({"0-100": 5}, {7: 2})
    # WHEN the two are merged THEN each size range counts the calls of both, but the most common sizes are not known
    sizes.update(summed)
    assert sizes.bins()[0] == ("0-100", 7)
    assert sizes.common() == []
