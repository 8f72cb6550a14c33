"""Converts between Arrow and numpy arrays through their buffers.

pyarrow.array() and pyarrow.scalar() check for pandas objects and import pandas
wherever it is installed.  That takes a quarter of a second; a small log is read
in a tenth of one.  Array.to_numpy() and pyarrow.compute are slow to import too.
So every conversion that all logs need is made here.
"""

from __future__ import annotations

from collections.abc import Sequence, Sized
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import pyarrow as pa


def of_numbers(values: NDArray[Any], null: NDArray[np.bool_] | None = None) -> pa.Array:
    """Integers or booleans as an array, which shares their memory where possible; null: mask of missing values."""
    import pyarrow as pa

    valid = None if null is None or not null.any() else _bits(~null)
    kind = pa.from_numpy_dtype(values.dtype)
    data = _bits(values) if values.dtype == np.bool_ else pa.py_buffer(np.ascontiguousarray(values))
    return pa.Array.from_buffers(kind, len(values), [valid, data])


def of_codes(codes: NDArray[Any], dictionary: pa.Array) -> pa.Array:
    """A dictionary array from indexes into the dictionary; negative ones become null."""
    import pyarrow as pa

    codes = codes.astype(np.int32, copy=False)
    return pa.DictionaryArray.from_arrays(of_numbers(codes, codes < 0), dictionary, safe=False)


def coded(texts: Sequence[str | None]) -> pa.Array:
    """Strings as a dictionary array, which has each distinct one once; None becomes null."""
    index: dict[str, int] = {}
    codes = [-1 if text is None else index.setdefault(text, len(index)) for text in texts]
    return of_codes(np.array(codes, np.int32), of_texts(list(index)))


def of_texts(texts: Sequence[str | None]) -> pa.Array:
    """Strings as an array; None becomes null."""
    import pyarrow as pa

    raw = [b"" if text is None else text.encode() for text in texts]
    data = pa.py_buffer(b"".join(raw))
    return pa.Array.from_buffers(pa.string(), len(raw), [_valid(texts), _offsets(raw), data])


def table_of_rows(rows: Sequence[dict[str, Any]], schema: pa.Schema) -> pa.Table:
    """pa.Table.from_pylist(rows, schema), for integers, booleans, strings and lists of these."""
    import pyarrow as pa

    columns = [_column([row.get(field.name) for row in rows], field.type) for field in schema]
    return pa.Table.from_arrays(columns, schema=schema)


# ---- from Arrow to numpy


def numbers(column: pa.Array, missing: int = 0) -> NDArray[np.int64]:
    """A column of integers, with `missing` in place of nulls."""
    dtype = np.dtype(column.type.to_pandas_dtype())
    values: NDArray[np.int64] = np.frombuffer(column.buffers()[1], dtype, len(column), column.offset * dtype.itemsize)
    if not column.null_count:
        return values
    # A product is several times as fast as np.where() if nulls come at random.
    return np.where(present(column), values, dtype.type(missing)) if missing else values * present(column)


def present(column: pa.Array) -> NDArray[np.bool_]:
    """Which elements of a column are not null."""
    bits = column.buffers()[0]
    return np.ones(len(column), np.bool_) if bits is None else _unpacked(bits, column)


def truths(column: pa.Array) -> NDArray[np.bool_]:
    """A column of booleans without nulls."""
    return _unpacked(column.buffers()[1], column)


def _unpacked(bits: pa.Buffer, column: pa.Array) -> NDArray[np.bool_]:
    first, skip = divmod(column.offset, 8)
    packed = np.frombuffer(bits, np.uint8, -(-(skip + len(column)) // 8), first)
    return np.unpackbits(packed, count=skip + len(column), bitorder="little")[skip:].view(np.bool_)


def codes(column: pa.DictionaryArray) -> NDArray[np.int64]:
    """Indexes into a dictionary column's dictionary, -1 for null."""
    return numbers(column.indices, -1)


def texts_at(texts: pa.Array, at: NDArray[np.integer]) -> list[str | None]:
    """The strings with these indexes; few of them are read without pyarrow.compute, which Array.take() imports."""
    if len(at) <= _FEW_TEXTS:
        return [texts[one].as_py() for one in at.tolist()]
    return list(texts.take(of_numbers(at)).to_pylist())


# ---- helpers

_FEW_TEXTS = 1 << 14


def _column(values: list[Any], kind: pa.DataType) -> pa.Array:
    import pyarrow as pa

    if pa.types.is_string(kind):
        return of_texts(values)
    if pa.types.is_list(kind):
        lists = [value or () for value in values]
        every = _column([one for part in lists for one in part], kind.value_type)
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
