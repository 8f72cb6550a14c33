"""Intervals on tracks: what overlaps gets lanes of its own, and begins and ends are in a valid order."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyio_trace import protobuf
from pyio_trace.timeline.nesting import lanes, nested
from tests.export import wire

pytestmark = pytest.mark.once
_INTERVALS = st.lists(st.tuples(st.integers(0, 2), st.integers(0, 12), st.integers(0, 12)), max_size=40)


def columns(intervals: list[tuple[int, int, int]]) -> list[np.ndarray]:
    found = np.array(intervals, np.int64).reshape(-1, 3).T
    return [found[0], found[1], found[1] + found[2]]


def replay(track: np.ndarray, begin: np.ndarray, end: np.ndarray) -> list[int]:
    """The depth of each interval when events are replayed; fails if they are not those of nested intervals."""
    which, begins = nested(track, begin, end).events()
    stacks: dict[int, list[int]] = {}
    depth = [-1] * len(track)
    last: dict[int, int] = {}
    for one, opens in zip(which.tolist(), begins.tolist(), strict=True):
        stack = stacks.setdefault(int(track[one]), [])
        moment = int(begin[one] if opens else end[one])
        assert moment >= last.get(int(track[one]), moment)
        last[int(track[one])] = moment
        if opens:
            depth[one] = len(stack)
            stack.append(one)
        else:
            assert stack.pop() == one
    assert not any(stacks.values()) and -1 not in depth
    return depth


@given(_INTERVALS)
def test_any_intervals(intervals: list[tuple[int, int, int]]) -> None:
    track, begin, end = columns(intervals)
    lane = lanes(track, begin, end)
    # GIVEN any intervals WHEN they have their lanes THEN on each one they are nested
    replay(track * 1000 + lane, begin, end)
    # AND a track without overlaps has one lane
    for one in range(3):
        of_track = [(first, last) for which, first, last in zip(track, begin, end, strict=True) if which == one]
        crossing = any(a < c < b < d for a, b in of_track for c, d in of_track)
        assert bool(lane[track == one].any()) == crossing


def test_depths_and_touching_ends() -> None:
    # GIVEN 0-100 around 0-50, 50-50, 50-100 with 60-60 in it THEN each lies where it should
    track, begin, end = columns([(0, 50, 50), (0, 0, 100), (0, 50, 0), (0, 60, 0), (0, 0, 50), (1, 10, 5)])
    assert not lanes(track, begin, end).any()
    assert replay(track, begin, end) == [1, 0, 2, 2, 1, 0]  # what begins with a longer one is in it


def test_very_many_overlaps() -> None:
    # GIVEN 300 intervals that all overlap, and 300 later ones THEN there is a lane for each of the first
    begin = np.concatenate([np.arange(300), np.arange(10_000, 10_300)])
    track, end = np.zeros(600, np.int64), begin + 1000
    lane = lanes(track, begin, end)
    assert len(set(lane[:300].tolist())) == 300 and lane.max() == 299
    replay(track * 1000 + lane, begin, end)


@given(st.lists(st.tuples(st.integers(-(1 << 63), (1 << 63) - 1), st.booleans(), st.integers(0, 3)), min_size=1))
def test_columns_of_messages(rows: list[tuple[int, bool, int]]) -> None:
    # GIVEN any numbers WHEN they are written as a column of messages THEN they are what single messages would be
    values = np.array([value for value, _, _ in rows], np.int64)
    there = np.array([one for _, one, _ in rows])
    fixed = np.arange(3)[None, :] < np.array([count for _, _, count in rows])[:, None]
    pieces = [
        protobuf.integers(1, values), protobuf.integers(77, values, there),
        protobuf.fixed64s(5, np.broadcast_to(values.view(np.uint64)[:, None], fixed.shape), fixed),
        protobuf.constants(len(values), protobuf.text(3, "word")),
    ]  # fmt: skip
    found = wire.fields(protobuf.written(protobuf.messages(9, pieces, there | ~there)))[9]
    for (value, present, count), message in zip(rows, map(wire.fields, found), strict=True):
        unsigned = value % (1 << 64)
        assert message[1] == [unsigned] and message[3] == [b"word"]
        assert message[77] == [unsigned] * present and message[5] == [unsigned] * count
