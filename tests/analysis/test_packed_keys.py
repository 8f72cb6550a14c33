"""Several keys as one: order and values stay."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyio_trace.analysis.sums.grouped_sums import GroupedSums
from pyio_trace.analysis.sums.packed_keys import packing_of

pytestmark = pytest.mark.once
SMALL = st.integers(-1000, 1000)
ANY = st.integers(-(1 << 63), (1 << 63) - 1)


def rows(values: st.SearchStrategy[int]) -> st.SearchStrategy[list[tuple[int, int, int]]]:
    return st.lists(st.tuples(values, values, values), min_size=1, max_size=40)


@given(rows(SMALL | st.just(1 << 40)))
def test_codes_have_the_order_of_the_rows(table: list[tuple[int, int, int]]) -> None:
    keys = [np.array(column, np.int64) for column in zip(*table, strict=True)]
    packing = packing_of(keys)
    if packing is None:  # too wide
        assert max(np.ptp(column.astype(object)) for column in keys) >= 1 << 20
        return
    codes = packing.pack(keys)
    assert [tuple(row) for row in zip(*(one.tolist() for one in packing.unpack(codes)), strict=True)] == table
    assert [table[at] for at in np.argsort(codes, kind="stable")] == sorted(table)


@given(rows(ANY))
def test_sums_do_not_depend_on_how_wide_the_keys_are(table: list[tuple[int, int, int]]) -> None:
    # GIVEN keys of any width, many times, so that Arrow sums them
    expected: dict[tuple[int, int, int], int] = {}
    sums = GroupedSums(("a", "b", "c"), {"n": "sum"})
    for _ in range(200):
        for row in table:
            expected[row] = expected.get(row, 0) + 1
        a, b, c = (np.array(column, np.int64) for column in zip(*table, strict=True))
        sums.add({"a": a, "b": b, "c": c, "n": np.ones(len(table), np.int64)})
    # WHEN they are summed THEN each key has its sum, in the order of the keys
    found = sums.columns()
    got = zip(*(found[name].tolist() for name in ("a", "b", "c", "n")), strict=True)
    assert list(got) == [(*row, count) for row, count in sorted(expected.items())]
