"""Ranges of bytes against a model that marks every single byte."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from pyio_trace.analysis.sums.byte_ranges import ByteRanges
from tests.analysis.test_intervals import Intervals, columns, intervals, marked


@given(st.lists(st.tuples(st.integers(0, 3), intervals), max_size=6))
def test_bytes_of_files(parts: list[tuple[int, Intervals]]) -> None:
    ranges = ByteRanges(limit=8)
    for file, pairs in parts:
        starts, ends = columns(pairs)
        ranges.add(np.full(len(starts), file), starts, ends)
    assert ranges.total() == len({(file, unit) for file, pairs in parts for unit in marked(pairs)})


def test_bytes_far_out_and_many_files() -> None:
    ranges, other = ByteRanges(), ByteRanges()
    far = 1 << 50
    ranges.add(np.array([1, 1, 1 << 40]), np.array([0, far, 5]), np.array([10, far + 10, 8]))
    other.add(np.array([1, 1]), np.array([5, far + 5]), np.array([15, far + 15]))
    assert (ranges.total(), other.total()) == (23, 20)
    ranges.update(other)
    assert ranges.total() == 15 + 15 + 3


def test_files_that_have_another_number_in_the_other_part() -> None:
    # GIVEN two parts that number the same files differently, with bytes at small and at very large offsets
    far = 1 << 50
    ranges, other = ByteRanges(), ByteRanges()
    ranges.add(np.array([2, 2]), np.array([0, far]), np.array([10, far + 10]))
    other.add(np.array([1, 1]), np.array([5, far + 5]), np.array([15, far + 15]))
    # WHEN the parts are merged THEN bytes that both touched count once
    ranges.update(other, np.array([0, 2]))
    assert ranges.total() == 15 + 15


def test_neighbouring_files_stay_apart() -> None:
    ranges = ByteRanges()
    end = 1 << 41
    ranges.add(np.array([1, 2]), np.array([end - 10, 0]), np.array([end - 1, 10]))
    assert ranges.total() == 19


@given(st.lists(st.tuples(st.integers(0, 2), st.booleans(), intervals), max_size=12), st.booleans())
def test_bytes_of_two_together(parts: list[tuple[int, bool, Intervals]], far: bool) -> None:
    # GIVEN ranges that were read and written, in several files, perhaps beyond what a key has room for
    base = 1 << 45 if far else 0
    read, written = ByteRanges(limit=4), ByteRanges(limit=4)
    touched: dict[bool, set[tuple[int, int]]] = {True: set(), False: set()}
    for file, reads, pairs in parts:
        starts, ends = columns(pairs)
        (read if reads else written).add(np.full(len(starts), file, np.int64), starts + base, ends + base)
        touched[reads] |= {(file, unit) for unit in marked(pairs)}
    # WHEN the parts are merged THEN a byte that is in both counts once, and neither part has changed
    for _ in range(2):
        assert read.with_those_of(written).total() == len(touched[True] | touched[False])
        assert (read.total(), written.total()) == (len(touched[True]), len(touched[False]))


@given(st.lists(st.tuples(st.integers(0, 2), intervals), max_size=8), st.integers(0, 3), st.sampled_from([0, 1 << 45]))
def test_more_ranges_than_are_kept(parts: list[tuple[int, Intervals]], divided: int, base: int) -> None:
    # GIVEN more separate ranges than are kept, collected together or in two parts, perhaps far out in their files
    collected = [ByteRanges(limit=2, most=8), ByteRanges(limit=2, most=8)]
    for number, (file, pairs) in enumerate(parts):
        starts, ends = columns(pairs)
        side = collected[number % 2 if divided else 0]
        side.add(np.full(len(starts), file, np.int64), starts + base, ends + base)
    # WHEN they are added up THEN the true number is between the two bounds, and never more than was moved
    collected[0].update(collected[1])
    both = collected[0]
    true = len({(file, unit) for file, pairs in parts for unit in marked(pairs)})
    moved = sum(end - start for _, pairs in parts for start, end in pairs)
    assert both.total() - both.may_exceed() <= true <= both.total() <= max(moved, true)
    # AND together with other ranges too
    other = ByteRanges()
    other.add(np.array([1]), np.array([base]), np.array([base + 100]))
    whole, united = both.with_those_of(other), true + len(set(range(100)) - touched(parts, 1))
    assert whole.total() - whole.may_exceed() <= united <= whole.total()


def touched(parts: list[tuple[int, Intervals]], file: int) -> set[int]:
    return {unit for one, pairs in parts if one == file for unit in marked(pairs)}


def test_random_offsets_take_bounded_memory() -> None:
    # GIVEN reads of one byte each at many places of two files, none beside another
    ranges = ByteRanges(limit=1 << 10, most=1 << 12)
    places = np.random.default_rng(1).permutation(1 << 17) * 2
    for part in np.split(places, 64):
        ranges.add(part >> 17 & 1, part, part + 1)
        # THEN there are never more of them in memory than may be kept and may wait
        assert len(ranges._merged()[0]) <= 1 << 12
    # AND the bounds are those of the reads: each was a different byte, and no more were read
    assert ranges.total() == 1 << 17
    assert ranges.total() - ranges.may_exceed() <= 1 << 17
    assert ranges.may_exceed() > 0


def test_gaps_are_filled_within_files_only() -> None:
    # GIVEN two ranges in each of a hundred files, and room for fewer
    ranges = ByteRanges(limit=1, most=16)
    files = np.repeat(np.arange(1, 101), 2)
    starts = np.tile(np.array([0, 30]), 100)
    ranges.add(files, starts, starts + 10)
    ranges.add(files, starts, starts + 10)  # again, so that more were moved than was touched
    # THEN what is filled lies between ranges of the same file
    assert (ranges.total(), ranges.may_exceed()) == (100 * 40, 100 * 20)
