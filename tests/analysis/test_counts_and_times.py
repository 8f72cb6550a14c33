"""Sums by key against a dictionary, and what happens when there are too many keys."""

from __future__ import annotations

from collections import Counter

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from pyio_trace.analysis.sums.counts_and_times import KeyedSums

calls = st.lists(st.tuples(st.integers(0, 1 << 62), st.integers(1, 9), st.integers(0, 1 << 40)), max_size=20)
few = st.lists(st.tuples(st.integers(0, 4), st.integers(1, 9), st.integers(0, 1 << 40)), max_size=20)


def columns(rows: list[tuple[int, int, int]]) -> tuple[np.ndarray, ...]:
    return tuple(np.array(rows, np.int64).reshape(-1, 3).T.copy())


@given(st.lists(calls | few, max_size=5), st.sampled_from([0, 3, 1 << 20]))
def test_sums_by_key(parts: list[list[tuple[int, int, int]]], limit: int) -> None:
    # GIVEN calls in several batches, of which every second goes to another collection
    collected = [KeyedSums(limit), KeyedSums(limit)]
    count: Counter[int] = Counter()
    time: Counter[int] = Counter()
    for number, rows in enumerate(parts):
        collected[number % 2].add(*columns(rows))
        for key, calls, spent in rows:
            count[key] += calls
            time[key] += spent
    # WHEN both are put together THEN each key has its sums, and the keys are in order
    collected[0].update(collected[1])
    keys, counts, times = (column.tolist() for column in collected[0].sums())
    assert keys == sorted(count)
    assert dict(zip(keys, counts, strict=True)) == count
    assert dict(zip(keys, times, strict=True)) == {key: time[key] for key in count}


def test_sums_of_a_damaged_log_never_get_negative() -> None:
    sums = KeyedSums(0)
    huge = np.full(3, (1 << 62) - 1)
    for _ in range(3):
        sums.add(np.array([1, 1, 2]), huge, huge)
    assert all(int(column.min()) > 0 for column in sums.sums())


def test_too_many_keys() -> None:
    # GIVEN more keys than may be kept, of which some take much more time than all others
    sums = KeyedSums(limit=100, most=1000)
    busy = np.arange(400)
    for first in range(0, 20_000, 500):
        keys = np.concatenate([busy, np.arange(first, first + 500) + 1_000_000])
        times = np.concatenate([np.full(400, 1000), np.full(500, 1)])
        sums.add(keys, np.ones(len(keys), np.int64), times)
    # THEN memory is bounded, those that take the time have all of theirs, and it is known that others are missing
    keys, counts, times = sums.sums()
    assert len(keys) <= 1000
    kept = np.isin(keys, busy)
    assert kept.sum() == 400
    assert set(counts[kept].tolist()) == {40} and set(times[kept].tolist()) == {40_000}
    assert sums.given_up >= 20_400 - 1000


def test_what_two_parts_have_given_up_adds_up() -> None:
    # GIVEN two parts with room for four keys, the second of which has met ten
    one, other = (KeyedSums(limit=1, most=4) for _ in range(2))
    for keys in (np.arange(5), np.arange(5, 10)):
        other.add(keys, np.ones(5, np.int64), keys)
    # WHEN the parts are merged THEN the result says how much was dropped
    assert len(other.sums()[0]) == 2
    one.update(other)
    assert one.given_up == other.given_up == 8
