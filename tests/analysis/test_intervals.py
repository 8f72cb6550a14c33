"""Unions against a model that marks every single unit."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from pyio_trace.analysis.sums.intervals import BusyTime, merge

Intervals = list[tuple[int, int]]
intervals = st.lists(st.tuples(st.integers(0, 60), st.integers(0, 20)).map(lambda p: (p[0], p[0] + p[1])), max_size=30)


def columns(pairs: Intervals) -> tuple[np.ndarray, np.ndarray]:
    table = np.array(pairs, np.int64).reshape(-1, 2)
    return table[:, 0].copy(), table[:, 1].copy()


def marked(pairs: Intervals) -> set[int]:
    return {unit for start, end in pairs for unit in range(start, end)}


@given(intervals)
def test_merge(pairs: Intervals) -> None:
    starts, ends = merge(*columns(pairs))
    assert marked(list(zip(starts.tolist(), ends.tolist(), strict=True))) == marked(pairs)
    assert (starts[1:] > ends[:-1]).all()


@given(st.lists(st.tuples(st.integers(0, 2), intervals), max_size=6), st.sampled_from([1, 4, 1 << 20]))
def test_busy_time_of_processes(parts: list[tuple[int, Intervals]], limit: int) -> None:
    busy = BusyTime(2, 3, 100, limit)
    for process, pairs in parts:
        starts, ends = columns(pairs)
        busy.add((0, 1), *busy.on_axis(np.full(len(starts), process), starts, ends))
    totals, last = busy.finish()
    for process in range(3):
        mine = [pair for number, pairs in parts if number == process for pair in pairs]
        assert totals[0, process] == totals[1, process] == len(marked(mine))
        assert last[process] == max((end for _, end in mine), default=0)


@given(intervals)
def test_settling_in_the_order_of_begins_changes_nothing(pairs: Intervals) -> None:
    pairs.sort()
    busy = BusyTime(1, 1, 100, limit=0)
    for start, end in pairs:
        busy.add_up_before(start)
        busy.add((0,), *busy.on_axis(np.zeros(1, np.int64), np.array([start]), np.array([end])))
    totals, _ = busy.finish()
    assert totals[0, 0] == len(marked(pairs))


def test_a_late_interval_never_makes_the_union_longer_than_the_clock() -> None:
    busy = BusyTime(1, 1, 100, limit=0)
    zero = np.zeros(1, np.int64)
    busy.add((0,), *busy.on_axis(zero, np.array([0]), np.array([10])))
    busy.add_up_before(20)
    busy.add((0,), *busy.on_axis(zero, np.array([5]), np.array([30])))
    assert busy.finish()[0].tolist() == [[10 + 10]]


def test_processes_added_up_do_not_bind_those_of_another_log() -> None:
    busy = BusyTime(1, 2, 100, limit=0)
    one = np.ones(1, np.int64)
    busy.add((0,), *busy.on_axis(0 * one, np.array([0]), np.array([10])))
    busy.add_up_before(50)
    busy.add((0,), *busy.on_axis(one, np.array([0]), np.array([7])))
    assert busy.finish()[0].tolist() == [[10, 7]]


def test_months_of_many_processes() -> None:
    wall, processes = 90 * 24 * 3600 * 10**9, 100_000
    busy = BusyTime(1, processes, wall)
    last = np.full(1, processes - 1)
    busy.add((0,), *busy.on_axis(last, np.array([wall - 10**12]), np.array([wall])))
    total = int(busy.finish()[0][0, processes - 1])
    assert abs(total - 10**12) < 10**9
