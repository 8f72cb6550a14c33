"""JSON of many rows at once, joined by Arrow: a row is its parts one after the other, without those that are null."""

from __future__ import annotations

import json
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from pyio_trace.join.base.arrow_arrays import of_numbers, of_texts
from pyio_trace.timeline.slices import Texts

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

#: What follows the point, by nanoseconds of a microsecond, and of a millisecond.
_THOUSANDTHS = [f".{number:03d}" for number in range(1000)]


def quoted(text: str) -> str:
    """A text as JSON; also safe in a page of HTML."""
    return json.dumps(text).replace("<", "\\u003c")


def whole_numbers(values: Ints, present: Bools | None = None) -> pa.Array:
    """Integers as text."""
    return pc.cast(of_numbers(values, None if present is None else ~present), pa.string())


def microseconds(ns: Ints) -> Sequence[pa.Array]:
    """Parts of numbers: ns as microseconds."""
    return [whole_numbers(ns // 1000), of_texts(_THOUSANDTHS).take(of_numbers(ns % 1000))]


def milliseconds(ns: Ints) -> Sequence[pa.Array]:
    """Parts of numbers: ns as milliseconds, with all their digits."""
    thousandths = of_texts([one[1:] for one in _THOUSANDTHS]).take(of_numbers(ns % 1000))
    return [whole_numbers(ns // 1000000), of_texts(_THOUSANDTHS).take(of_numbers(ns // 1000 % 1000)), thousandths]


def words(texts: Texts, before: str = "", raw: bool = False) -> pa.Array:
    """Texts as JSON after some letters; null where there is none.  raw: they are JSON already."""
    spelled = of_texts([before + (one if raw else quoted(one)) for one in texts.words])
    return spelled.take(of_numbers(texts.code, texts.code < 0))


def numbers(values: Ints, before: str, present: Bools | None = None) -> pa.Array:
    """Integers after some letters; null where they are not present."""
    return pc.binary_join_element_wise(before, whole_numbers(values, present), "")


def rows(parts: Sequence[pa.Array | str]) -> pa.Array:
    """The parts of each row joined; at least one of them is an array."""
    return pc.binary_join_element_wise("", *parts, "", null_handling="skip")  # Arrow drops rows of nulls only


def whole(parts: Sequence[pa.Array | str]) -> pa.Array:
    """The parts of each row joined; null where one of them is."""
    return pc.binary_join_element_wise(*parts, "", null_handling="emit_null")


def objects(members: Sequence[pa.Array]) -> pa.Array:
    """JSON objects of members that each begin with a comma."""
    return rows(["{", pc.utf8_slice_codeunits(rows(members), 1), "}"])


def first_of(*columns: pa.Array | str) -> pa.Array:
    """In each row, the first text that is not null."""
    return pc.coalesce(*columns)


def listed(texts: pa.Array) -> bytes:
    """The texts of all rows with commas between them."""
    joined = pc.binary_join(pa.ListArray.from_arrays(pa.array([0, len(texts)], pa.int32()), texts), ",")
    return joined[0].as_buffer().to_pybytes()  # type: ignore[no-any-return]
