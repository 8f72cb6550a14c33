"""The reducers of the summary, one by one, on tables made by hand: figures that can be checked on paper."""

from __future__ import annotations

import json
import threading

import numpy as np
import pytest

from pyio_trace.analysis.calls import sum_details
from pyio_trace.analysis.scan.batch_rows import FileNumbers
from pyio_trace.analysis.scan.prefetch import BackgroundCalls, read_ahead
from pyio_trace.analysis.scan.saturation import MOST as LARGEST
from pyio_trace.analysis.scan.saturation import addable
from pyio_trace.analysis.summary import cost
from pyio_trace.analysis.sums.byte_ranges import ByteRanges
from pyio_trace.analysis.sums.dense_sums import DenseSums
from pyio_trace.analysis.sums.intervals import BusyTime, merge
from pyio_trace.analysis.sums.size_histogram import BINS, AccessSizes

MOST = np.iinfo(np.int64).max


def ints(*values: int) -> np.ndarray:
    return np.array(values, np.int64)


# ---- sums


def test_sums_of_nothing() -> None:
    sums = DenseSums()
    sums.add(ints(), 0, None, ints(), ints())
    assert len(sums.count) == len(sums.time) == len(sums.moved) == 0


def test_sums_by_key() -> None:
    # key 0: 10 + 30 ns, 1 + 4 bytes; key 2: 20 ns, 2 bytes; key 1: nothing
    sums = DenseSums()
    sums.add(ints(0, 2, 0), 3, None, ints(10, 20, 30), ints(1, 2, 4))
    assert (sums.count.tolist(), sums.time.tolist(), sums.moved.tolist()) == ([2, 0, 1], [40, 0, 20], [5, 0, 2])
    # a row that stands for 5 calls; a key beyond those there were
    sums.add(ints(3), 4, ints(5), ints(0), ints(0))
    assert sums.count[:4].tolist() == [2, 0, 1, 5]
    assert sums.time[:4].tolist() == [40, 0, 20, 0]


def test_sums_past_63_bits_stay_at_the_largest_number() -> None:
    sums = DenseSums(1)
    for _ in range(3):
        sums.add(ints(0), 1, None, ints(MOST // 2 + 1), ints(0))
    assert sums.time[0] > 0


# ---- unions of time


def test_busy_time_of_threads_that_overlap() -> None:
    # one process: 0..10 and 5..15 overlap, 15..20 touches them, 30..30 is empty: 20 ns, the last end at 30
    busy = BusyTime(1, 1, 100)
    starts, ends = ints(0, 5, 15, 30), ints(10, 15, 20, 30)
    busy.add((0,), *busy.on_axis(np.zeros(4, np.int64), starts, ends))
    totals, last = busy.finish()
    assert (totals.tolist(), last.tolist()) == ([[20]], [30])


def test_busy_time_of_processes_and_channels_is_their_own() -> None:
    # process 0: 0..10 on channel 0; process 1: 0..7 on both
    busy = BusyTime(2, 2, 100)
    busy.add((0,), *busy.on_axis(ints(0), ints(0), ints(10)))
    busy.add((0, 1), *busy.on_axis(ints(1), ints(0), ints(7)))
    totals, last = busy.finish()
    assert (totals.tolist(), last.tolist()) == ([[10, 7], [0, 7]], [10, 7])


def test_busy_time_of_nothing() -> None:
    totals, last = BusyTime(2, 3, 100).finish()
    assert (totals.tolist(), last.tolist()) == ([[0, 0, 0], [0, 0, 0]], [0, 0, 0])


def test_intervals_that_touch_are_one_and_empty_ones_add_nothing() -> None:
    # 1..3 and 3..5 touch; 9..9 has no length
    starts, ends = merge(ints(3, 9, 1), ints(5, 9, 3))
    assert (starts.tolist(), ends.tolist()) == ([1, 9], [5, 9])
    assert [part.tolist() for part in merge(ints(), ints())] == [[], []]


# ---- ranges of bytes


def test_bytes_read_twice_are_distinct_once() -> None:
    # file 1: 0..100 and 50..150 are 150 bytes; file 2: 0..100 are 100; 7..7 is none
    ranges = ByteRanges()
    ranges.add(ints(1, 1, 2, 2), ints(0, 50, 0, 7), ints(100, 150, 100, 7))
    assert ranges.total() == 250
    ranges.add(ints(1), ints(0), ints(150))
    assert ranges.total() == 250


def test_no_ranges() -> None:
    ranges = ByteRanges()
    ranges.add(ints(), ints(), ints())
    ranges.update(ByteRanges())
    assert ranges.total() == 0


# ---- sizes


def test_sizes_of_nothing() -> None:
    sizes = AccessSizes()
    sizes.add(ints())
    assert (sizes.bins(), sizes.common()) == ([(label, 0) for label, _ in BINS], [])


def test_of_sizes_as_common_the_larger_is_named_first() -> None:
    # 10 and 300,000 twice each; four are named of five
    sizes = AccessSizes()
    sizes.add(ints(10, 10, 20, 300_000, 300_000, 30, 40))
    assert sizes.common() == [(300_000, 2), (10, 2), (40, 1), (30, 1)]


def test_sizes_of_rows_that_are_sums() -> None:
    # 3 transfers of 4,096, and 2 in "0-100" of one size: all are known
    sizes = AccessSizes()
    sizes.add_sum({"1K-10K": 3, "0-100": 2}, {4096: 3, 8: 2})
    assert dict(sizes.bins())["1K-10K"] == 3 and dict(sizes.bins())["0-100"] == 2
    assert sizes.common() == [(4096, 3), (8, 2)]
    # of 5 more only 1 has its size: which are the most common is not known any more
    sizes.add_sum({"0-100": 5}, {9: 1})
    assert dict(sizes.bins())["0-100"] == 7
    assert sizes.common() == []


def test_sizes_that_are_no_numbers_are_left_out() -> None:
    found = sum_details.parse(json.dumps({"common_sizes": {"-5": 1, "x": 1, "9" * 30: 1, "7": 1}}))
    assert found.common == {7: 1}


def test_sums_without_further_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    # GIVEN a process that may start no threads
    def refused(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refused)
    # WHEN batches are read ahead and summed beside THEN both happen in this thread, once each, in order
    seen: list[int] = []
    with BackgroundCalls() as beside:
        for number in read_ahead(iter(range(5))):
            beside(seen.append, number)
    assert seen == [0, 1, 2, 3, 4]


# ---- files, and numbers of damaged logs


def test_files_have_small_numbers_of_their_own() -> None:
    files = FileNumbers()
    # 1, 2, ... and -1, -2, ... fold into each other; 0 is none
    told = files.of(ints(1, -1, 2, 0, 1)).tolist()
    assert told[3] == 0 and told[0] == told[4] and len({*told}) == 4
    # one from far away gets a number of its own, and the others keep theirs
    again = files.of(ints(1, -1, 2, 1 << 60, 0)).tolist()
    assert again[:3] == told[:3] and again[4] == 0 and again[3] not in told
    assert max(again) < files.size
    # each number leads back to its file
    assert files.identities()[again].tolist() == [1, -1, 2, 1 << 60, 0]


def test_times_that_cannot_be_are_cut() -> None:
    assert addable(ints()).tolist() == []
    assert addable(ints(1, 2)).tolist() == [1, 2]
    cut = addable(ints(-5, MOST, MOST)).tolist()
    assert cut[0] == -5 and 0 < sum(cut) <= LARGEST
    assert sum(addable(ints(*[-MOST] * 9)).tolist()) >= -LARGEST


# ---- cost


@pytest.mark.parametrize(
    ("records", "coalesced", "counted", "ns"),
    # 65 ns a record, 20 ns a call in a row of many, 40 ns a call that is only counted
    [(0, 0, 0, 0), (10, 0, 0, 650), (0, 10, 0, 200), (0, 0, 10, 400), (2, 3, 4, 130 + 60 + 160)],
)
def test_cost(records: int, coalesced: int, counted: int, ns: int) -> None:
    assert cost.estimate(records, coalesced, counted) == ns


@pytest.mark.parametrize(
    ("mappings", "unmeasured", "length", "ns"),
    # 4 us a mapping that was measured, 30 ns for each of its pages, of 131,072 at most
    [(1, 0, 40_960, 4_000 + 300), (4, 2, 81_920, 8_000 + 300), (3, 3, 1 << 40, 0), (0, 0, 0, 0),
     (1, 0, 1 << 40, 4_000 + 131_072 * 30), (-1, 5, -7, 0)],
)  # fmt: skip
def test_cost_of_measuring_mappings(mappings: int, unmeasured: int, length: int, ns: int) -> None:
    assert cost.estimate(0, 0, 0, [{"mappings": mappings, "unmeasured": unmeasured, "length": length}]) == ns


# ---- work beside


def test_calls_beside_are_made_in_their_order_by_one_thread() -> None:
    done: list[tuple[int, str]] = []
    with BackgroundCalls(depth=1) as beside:
        for n in range(20):
            beside(lambda n=n: done.append((n, threading.current_thread().name)))
    assert [n for n, _ in done] == list(range(20))
    assert len({name for _, name in done}) == 1 and threading.current_thread().name not in {name for _, name in done}


def test_an_error_beside_is_raised_at_the_end_at_the_latest() -> None:
    def fails() -> None:
        raise KeyError("beside")

    with pytest.raises(KeyError, match="beside"), BackgroundCalls() as beside:
        beside(fails)


def test_an_error_of_the_caller_is_not_hidden_by_one_beside() -> None:
    def fails() -> None:
        raise KeyError("beside")

    with pytest.raises(ValueError, match="own"), BackgroundCalls() as beside:
        beside(fails)
        raise ValueError("own")
