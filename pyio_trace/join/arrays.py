"""Arrow arrays made of their buffers, without pyarrow.array() and pyarrow.scalar().

Those look for pandas objects first, and import pandas for it wherever it is
installed: a quarter of a second, for a log that may be read in a tenth of one.
What is made for every log goes through here.
"""

from __future__ import annotations

from collections.abc import Sequence, Sized
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import pyarrow as pa


def of_numbers(values: NDArray[Any], null: NDArray[np.bool_] | None = None) -> pa.Array:
    """Integers or truth values as an array that shares their memory where it can; null: which are missing."""
    import pyarrow as pa

    valid = None if null is None or not null.any() else _bits(~null)
    kind = pa.from_numpy_dtype(values.dtype)
    data = _bits(values) if values.dtype == np.bool_ else pa.py_buffer(np.ascontiguousarray(values))
    return pa.Array.from_buffers(kind, len(values), [valid, data])


def of_texts(texts: Sequence[str | None]) -> pa.Array:
    """Strings; None: null."""
    import pyarrow as pa

    raw = [b"" if text is None else text.encode() for text in texts]
    data = pa.py_buffer(b"".join(raw))
    return pa.Array.from_buffers(pa.string(), len(raw), [_valid(texts), _offsets(raw), data])


def table_of_rows(rows: Sequence[dict[str, Any]], schema: pa.Schema) -> pa.Table:
    """pa.Table.from_pylist(rows, schema), of integers, truth values, strings and lists of strings."""
    import pyarrow as pa

    columns = [_column([row.get(field.name) for row in rows], field.type) for field in schema]
    return pa.Table.from_arrays(columns, schema=schema)


def _column(values: list[Any], kind: pa.DataType) -> pa.Array:
    import pyarrow as pa

    if pa.types.is_string(kind):
        return of_texts(values)
    if pa.types.is_list(kind):
        lists = [value or () for value in values]
        every = of_texts([text for texts in lists for text in texts])
        return pa.Array.from_buffers(kind, len(values), [_valid(values), _offsets(lists)], children=[every])
    numbers = np.array([value or 0 for value in values], kind.to_pandas_dtype())
    return of_numbers(numbers, np.array([value is None for value in values], np.bool_))


def _valid(values: Sequence[object]) -> pa.Buffer | None:
    there = np.array([value is not None for value in values], np.bool_)
    return None if there.all() else _bits(there)


def _offsets(parts: Sequence[Sized]) -> pa.Buffer:
    import pyarrow as pa

    return pa.py_buffer(np.cumsum([0, *map(len, parts)], dtype=np.int32))


def _bits(values: NDArray[np.bool_]) -> pa.Buffer:
    import pyarrow as pa

    return pa.py_buffer(np.packbits(values, bitorder="little"))
