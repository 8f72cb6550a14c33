"""What can be wrong with a Parquet log: its bytes, its columns, its values, its description."""

from __future__ import annotations

import copy
import io
import json
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from pyio_trace.log.parquet_log import KEY

Mutation = tuple[int, int, int, int]
_JSON: list[Any] = [
    None, True, False, 0, 1, -1, 2**31, -(2**31) - 1, 2**53, 2**63 - 1, 2**63, -(2**63), 2**64, 10**400, 1.5, 1e300,
    float("nan"), float("inf"), "", "x", "\x1b[31m", "\ud800", "\x00", "x" * 10_000, [], {}, [None], [[]], [{}],
    ["\ud800"], {"a": 1}, [1, "x", None],
]  # fmt: skip
_NUMBERS = [0, 1, -1, 2, 127, 2**31 - 1, -(2**31), 2**32, 2**40, 2**53, 2**62, 2**63 - 1, -(2**63), -(2**63) + 1]
_TYPES = [
    pa.int8(), pa.int32(), pa.int64(), pa.uint64(), pa.float64(), pa.string(), pa.large_string(), pa.binary(),
    pa.bool_(), pa.timestamp("ns"), pa.list_(pa.int64()), pa.dictionary(pa.int32(), pa.string()), pa.null(),
    pa.dictionary(pa.int32(), pa.int64()), pa.struct([("a", pa.int64())]),
]  # fmt: skip


class Mutator:
    """Applies mutations to one sound Parquet log."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._table = pq.read_table(io.BytesIO(data))
        self._description = json.loads(self._table.schema.metadata[KEY])

    def apply(self, mutations: list[Mutation]) -> bytes:
        """The bytes; those of the file change last."""
        table, description = self._table, copy.deepcopy(self._description)
        raw: list[Mutation] = []
        group = 1 << 20
        for kind, where, part, value in mutations:
            choice = _KINDS[kind % len(_KINDS)]
            if choice in ("bytes", "cut"):
                raw.append((0 if choice == "bytes" else 1, where, part, value))
            elif choice == "json":
                description = _json(description, where, value)
            elif choice == "groups":
                group = part % 100 + 1
            else:
                table = _COLUMNS[choice](table, where, part, value)
        data = self._data if len(raw) == len(mutations) else _written(table, description, group)
        for cut, where, part, value in raw:
            data = data[: where % (len(data) + 1)] if cut else _flipped(data, where, part, value)
        return data


def _written(table: pa.Table, description: Any, group: int) -> bytes:
    out = io.BytesIO()
    text = description if isinstance(description, bytes) else json.dumps(description).encode()
    pq.write_table(table.replace_schema_metadata({KEY: text}), out, row_group_size=group, compression="zstd")
    return out.getvalue()


def _flipped(data: bytes, where: int, part: int, value: int) -> bytes:
    """Any bytes, half the time in the footer."""
    if not data:
        return data
    at = where % len(data) if part & 16 else max(len(data) - 1 - where % 4096, 0)
    raw = value.to_bytes(4, "little")[: part % 4 + 1]
    return data[:at] + raw + data[at + len(raw) :]


def _json(node: Any, where: int, value: int) -> Any:
    """Some node of the description becomes another value, goes away, or is nested deeply."""
    if not isinstance(node, (dict, list)) or not node or where % 7 == 0:
        if value % 97 == 0:
            return b"[" * 100_000
        return copy.deepcopy(_JSON[value % len(_JSON)])
    keys: list[Any] = list(node) if isinstance(node, dict) else list(range(len(node)))
    key = keys[where // 7 % len(keys)]
    if value % 11 == 0:
        del node[key]
        return node
    changed = _json(node[key], where // 7 // len(keys) + where % 7, value)
    if isinstance(changed, bytes):
        return changed
    node[key] = changed
    return node


def _type(table: pa.Table, where: int, part: int, value: int) -> pa.Table:
    """A column has another type."""
    at = where % table.num_columns
    kind = _TYPES[part % len(_TYPES)]
    column = table.column(at)
    try:
        column = column.cast(kind)
    except pa.ArrowException:
        column = pa.nulls(table.num_rows, kind)
    return table.set_column(at, table.schema.names[at], column)


def _null(table: pa.Table, where: int, part: int, value: int) -> pa.Table:
    at = where % table.num_columns
    return table.set_column(at, pa.field(table.schema.names[at], table.schema.types[at]),
                            pa.nulls(table.num_rows, table.schema.types[at]))  # fmt: skip


def _values(table: pa.Table, where: int, part: int, value: int) -> pa.Table:
    """A column of numbers has other ones; one of strings other strings."""
    at = where % table.num_columns
    kind = table.schema.types[at]
    rows = range(table.num_rows)
    column: pa.Array
    if pa.types.is_integer(kind):
        bits = 8 * kind.byte_width
        least = 0 if pa.types.is_unsigned_integer(kind) else -(2 ** (bits - 1))
        numbers = [_NUMBERS[(value + row * (part % 3)) % len(_NUMBERS)] for row in rows]
        column = pa.array([(number - least) % 2**bits + least for number in numbers], kind)
    elif pa.types.is_dictionary(kind):
        words = ["", "read", "posix", "\x1b[31m\u202e\n", "x" * 5000, "\x85\u2028", 'a"b,c', "\ud7ff"]
        column = pa.array([words[(value + row * (part % 3)) % len(words)] for row in rows], pa.string())
        column = column.dictionary_encode()
    else:
        column = pa.array([True] * table.num_rows, pa.bool_())
    return table.set_column(at, table.schema.names[at], column)


def _drop(table: pa.Table, where: int, part: int, value: int) -> pa.Table:
    return table.remove_column(where % table.num_columns) if table.num_columns > 1 else table


def _add(table: pa.Table, where: int, part: int, value: int) -> pa.Table:
    """A further column, perhaps of a name that there is."""
    name = table.schema.names[where % table.num_columns] if value % 2 else "more"
    return table.append_column(name, pa.array(["x"] * table.num_rows, pa.string()))


def _rows(table: pa.Table, where: int, part: int, value: int) -> pa.Table:
    return table.slice(0, 0) if value % 2 else table.take(pa.array(range(table.num_rows)[::-1], pa.int64()))


_COLUMNS: dict[str, Callable[[pa.Table, int, int, int], pa.Table]] = {
    "type": _type, "null": _null, "values": _values, "drop": _drop, "add": _add, "rows": _rows,
}  # fmt: skip
_KINDS = ["bytes", "bytes", "json", "json", "json", "values", "values", "values", "values", "type", "type", "null",
          "drop", "add", "rows", "groups", "cut"]  # fmt: skip
