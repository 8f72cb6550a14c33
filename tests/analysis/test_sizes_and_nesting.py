"""Access sizes in Darshan's bins, and what counts as outermost."""

from __future__ import annotations

import numpy as np

from pyio_trace.analysis.nesting import DATA, NOTHING, OTHER, USER, Nesting
from pyio_trace.analysis.sizes import BINS, AccessSizes


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


def test_what_is_around() -> None:
    nesting = Nesting()
    nesting.enter(np.array([100, 200]), np.array([DATA, OTHER], np.uint8))
    assert nesting.around(np.array([0, 100, 200, 300, 1 << 31])).tolist() == [NOTHING, DATA, OTHER, NOTHING, NOTHING]
    nesting.enter(np.array([1 << 31]), np.array([DATA], np.uint8))
    assert nesting.around(np.array([100, 1 << 31])).tolist() == [DATA, DATA]


def test_user_spans_are_what_they_are_in() -> None:
    nesting = Nesting()
    nesting.enter(np.array([10]), np.array([DATA], np.uint8))
    # 20 in nothing, 30 in 20; 40 in a read, 50 in 40, 60 in 50: entered in one go, the inner ones first
    nesting.enter_user_spans(np.array([60, 50, 40, 30, 20]), np.array([50, 40, 10, 20, 0]))
    assert nesting.around(np.array([20, 30, 40, 50, 60])).tolist() == [USER, USER, OTHER, OTHER, OTHER]


def test_merged_logs_do_not_meet() -> None:
    nesting = Nesting()
    other = 1 << 40
    nesting.enter(np.array([10, other + 10]), np.array([DATA, USER], np.uint8))
    assert nesting.around(np.array([10, 0])).tolist() == [DATA, NOTHING]
    assert nesting.around(np.array([other + 10, 0, 10])).tolist() == [USER, NOTHING, DATA]
