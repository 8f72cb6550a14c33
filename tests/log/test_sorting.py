"""Our replacements for numpy functions return what numpy's do."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from pyio_trace.log.sorting import Places, distinct, distinct_pairs, find, median


@given(st.lists(st.integers(-(2**63), 2**63 - 1) | st.integers(0, 3), max_size=30))
def test_distinct(numbers: list[int]) -> None:
    values = np.array(numbers, np.int64)
    assert distinct(values).tolist() == np.unique(values).tolist()


@given(st.lists(st.tuples(st.integers(-1, 2**40) | st.integers(-1, 3), st.integers(-1, 2**20) | st.integers(-1, 3))))
def test_distinct_pairs(pairs: list[tuple[int, int]]) -> None:
    first, second = np.array(pairs, np.int64).reshape(-1, 2).T
    found = [values.tolist() for values in distinct_pairs(first, second)]
    assert list(zip(*found, strict=True)) == sorted(set(pairs))


@given(st.lists(st.floats(1e-3, 1e6), min_size=1, max_size=30))
def test_median(numbers: list[float]) -> None:
    values = np.array(numbers)
    assert median(values) == np.median(values)


@given(st.lists(st.integers(-1, 5), max_size=30), st.sets(st.integers(-2, 6)))
def test_places(numbers: list[int], wanted: set[int]) -> None:
    places = Places(np.array(numbers, np.int64)).of(sorted(wanted))
    assert places.tolist() == [place for place, number in enumerate(numbers) if number in wanted]


def test_find() -> None:
    table = np.array([2, 3, 7])
    at, known = find(table, np.array([7, 1, 3, 5, 9]))
    assert known.tolist() == [True, False, True, False, False]
    assert table[at[known]].tolist() == [7, 3]
    assert ((at >= 0) & (at < len(table))).all()
    at, known = find(np.empty(0, np.int64), np.array([1, 2]))
    assert at.tolist() == [0, 0] and not known.any()
