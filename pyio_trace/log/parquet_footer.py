"""Checks a Parquet file's footer before pyarrow is asked for a column chunk.

If a chunk is encrypted, or its statistics contradict the schema, Arrow's C++ code
throws an exception that pyarrow does not catch, and the process aborts.  The checks
here cover just what makes it throw.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, NoReturn

from pyio_trace.log import thrift

#: Fields and their types, as parquet.thrift has them.
_ROW_GROUPS, _COLUMNS, _META_DATA = (4, thrift.LIST), (1, thrift.LIST), (3, thrift.STRUCT)
_ENCRYPTED = ((8, thrift.STRUCT), (9, thrift.BINARY))
_SIZE_STATISTICS = (16, thrift.STRUCT)
_BYTES_UNENCODED, _REPETITIONS, _DEFINITIONS = (1, thrift.I64), (2, thrift.LIST), (3, thrift.LIST)

_Walk = Callable[[int], int]


class Leaf(NamedTuple):
    """A column of the schema.  repetition, definition: its highest levels; texts: whether its values are texts."""

    repetition: int
    definition: int
    texts: bool


def check(descriptor: int, leaves: Sequence[Leaf]) -> None:
    """Raises ValueError if asking pyarrow for a chunk could abort the process; OSError.

    leaves: the columns of the schema, in their order.
    """
    size = os.fstat(descriptor).st_size
    length = int.from_bytes(os.pread(descriptor, 4, size - 8), "little")
    if not 0 < length <= size - 8:
        raise ValueError("a footer longer than its file")
    try:
        _Footer(os.pread(descriptor, length, size - 8 - length), leaves).file()
    except IndexError:
        raise ValueError("a footer that does not end") from None


class _Footer:
    """A walk through the footer.  Each method goes through one struct or list, and returns where it ends."""

    def __init__(self, data: bytes, leaves: Sequence[Leaf]) -> None:
        self._data = data
        self._leaves = leaves

    def file(self) -> None:
        self._fields(0, {_ROW_GROUPS: lambda at: self._structs(at, lambda at, _: self._row_group(at))})

    def _row_group(self, at: int) -> int:
        return self._fields(at, {_COLUMNS: lambda at: self._structs(at, self._chunk)})

    def _chunk(self, at: int, number: int) -> int:
        if number >= len(self._leaves):
            raise ValueError("more columns than in the schema")
        leaf = self._leaves[number]
        wanted: dict[tuple[int, int], _Walk] = dict.fromkeys(_ENCRYPTED, _refuse)
        wanted[_META_DATA] = lambda at: self._fields(at, {_SIZE_STATISTICS: lambda at: self._size_statistics(at, leaf)})
        return self._fields(at, wanted)

    def _size_statistics(self, at: int, leaf: Leaf) -> int:
        wanted: dict[tuple[int, int], _Walk] = {
            _REPETITIONS: lambda at: self._histogram(at, leaf.repetition),
            _DEFINITIONS: lambda at: self._histogram(at, leaf.definition),
        }
        return self._fields(at, wanted if leaf.texts else {**wanted, _BYTES_UNENCODED: _refuse})

    def _histogram(self, at: int, most: int) -> int:
        count, _, at = thrift.list_header(self._data, at)
        if count not in (0, most + 1):
            raise ValueError("a histogram that contradicts the schema")
        for _ in range(count):
            at = thrift.varint(self._data, at)[1]
        return at

    def _fields(self, at: int, wanted: Mapping[tuple[int, int], _Walk]) -> int:
        """Walks through a struct.  wanted: by a field's number and type, what walks through its value; other values are
        skipped."""
        data, number = self._data, 0
        while True:
            kind, number, at = thrift.field(data, at, number)
            if kind == thrift.STOP:
                return at
            walk = wanted.get((number, kind))
            at = walk(at) if walk else thrift.value_end(data, at, kind)

    def _structs(self, at: int, walk: Callable[[int, int], int]) -> int:
        """Walks through a list of structs; walk: through one, from its offset and its number in the list."""
        count, _, at = thrift.list_header(self._data, at)
        for number in range(count):
            at = walk(at, number)
        return at


def _refuse(at: int) -> NoReturn:
    raise ValueError("a field that this column cannot have")
