"""Sums by key: few rows are summed without Arrow's engine, many with it, with the same result."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyio_trace.analysis.sums import grouped_sums
from pyio_trace.analysis.sums.grouped_sums import GroupedSums

numbers = st.integers(-3, 3)
rows = st.lists(st.tuples(numbers, numbers, st.integers(-(1 << 40), 1 << 40), numbers, numbers), max_size=40)
KEYS, VALUES = ("a", "b"), {"total": "sum", "least": "min", "most": "max"}


def sums_of(parts: list[list[tuple[int, ...]]], *without: str) -> dict[str, list[int]]:
    sums = GroupedSums(KEYS, VALUES)
    for part in parts:
        table = np.array(part, np.int64).reshape(-1, 5)
        sums.add({name: table[:, at].copy() for at, name in enumerate((*KEYS, *VALUES))})
    return {name: values.tolist() for name, values in sums.columns(*without).items()}


@given(st.lists(rows, max_size=4), st.booleans())
def test_few_and_many_rows(parts: list[list[tuple[int, ...]]], fewer_keys: bool) -> None:
    # GIVEN rows in some parts WHEN they are summed, by both keys or by one THEN both ways agree with plain sums
    without = ("b",) if fewer_keys else ()
    found: dict[tuple[int, ...], list[int]] = {}
    for a, b, total, least, most in (row for part in parts for row in part):
        before = found.get((a,) if fewer_keys else (a, b))
        now = [total, least, most]
        if before is not None:
            now = [before[0] + total, min(before[1], least), max(before[2], most)]
        found[(a,) if fewer_keys else (a, b)] = now
    keys = sorted(found)
    expected = {name: [key[at] for key in keys] for at, name in enumerate(KEYS[: 1 if fewer_keys else 2])}
    expected |= {name: [found[key][at] for key in keys] for at, name in enumerate(VALUES)}
    assert sums_of(parts, *without) == expected
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(grouped_sums, "_SMALL", -1)
        patch.setattr(grouped_sums, "_NOT_WORTH_IT", 0)
        assert sums_of(parts, *without) == expected


@pytest.mark.parametrize("few", [1 << 12, -1])
def test_the_smallest_are_added_up_with_others(few: int, monkeypatch: pytest.MonkeyPatch) -> None:
    # GIVEN sums of which at most four are kept, the others without their key "b"
    monkeypatch.setattr(grouped_sums, "_SMALL", few)
    sums = GroupedSums(KEYS, {"total": "sum"}, most=4, instead={"b": -1})
    # WHEN there are six
    keys = np.array([[1, 1], [1, 2], [1, 3], [2, 1], [2, 2], [2, 3]])
    sums.add({"a": keys[:, 0].copy(), "b": keys[:, 1].copy(), "total": np.array([50, 1, 2, 3, 40, 4])})
    found = {name: values.tolist() for name, values in sums.columns().items()}
    # THEN the two largest are there, and the rest by the other key
    assert found == {"a": [1, 1, 2, 2], "b": [-1, 1, -1, 2], "total": [3, 50, 7, 40]}
    assert sums.dropped == 4


def test_what_two_parts_have_dropped_adds_up() -> None:
    # GIVEN two parts with ten keys each and room for four
    one, other = (GroupedSums(("key",), {"value": "sum"}, most=4) for _ in range(2))
    for part in (one, other):
        part.add({"key": np.arange(10), "value": np.arange(10)})
        part.columns()
    assert one.dropped == other.dropped == 8
    # WHEN the parts are merged THEN the result says how much both of them dropped
    one.update(other)
    assert one.dropped == 16
