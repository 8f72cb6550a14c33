"""Our own forms of numpy's functions give what numpy's do."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from pyio_trace.log.sorting import distinct, median


@given(st.lists(st.integers(-(2**63), 2**63 - 1) | st.integers(0, 3), max_size=30))
def test_distinct(numbers: list[int]) -> None:
    values = np.array(numbers, np.int64)
    assert distinct(values).tolist() == np.unique(values).tolist()


@given(st.lists(st.floats(1e-3, 1e6), min_size=1, max_size=30))
def test_median(numbers: list[float]) -> None:
    values = np.array(numbers)
    assert median(values) == np.median(values)
