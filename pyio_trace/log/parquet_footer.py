"""Checks what a Parquet file's footer says of its column chunks, before pyarrow is asked for one.

Where that contradicts the schema, or is encrypted, the C++ library throws, and
pyarrow ends the process.  So the footer (Thrift's compact protocol) is walked
through here: only the lengths of lists that have to fit are looked at.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, NoReturn

_I64, _BINARY, _LIST, _SET, _STRUCT = 6, 8, 9, 10, 12
_LONG_LIST = 15
_DEEPEST = 16
#: Fields and their types, as parquet.thrift has them.
_ROW_GROUPS, _COLUMNS, _META_DATA = (4, _LIST), (1, _LIST), (3, _STRUCT)
_ENCRYPTED = ((8, _STRUCT), (9, _BINARY))
_SIZE_STATISTICS = (16, _STRUCT)
_BYTES_UNENCODED, _REPETITIONS, _DEFINITIONS = (1, _I64), (2, _LIST), (3, _LIST)

_Walk = Callable[[int], int]


class Leaf(NamedTuple):
    """A column of the schema: its most levels of repetition and of definition, and whether it has texts."""

    repetition: int
    definition: int
    texts: bool


def check(descriptor: int, leaves: Sequence[Leaf]) -> None:
    """Raises ValueError if pyarrow must not be asked for a chunk, OSError."""
    size = os.fstat(descriptor).st_size
    length = int.from_bytes(os.pread(descriptor, 4, size - 8), "little")
    if not 0 < length <= size - 8:
        raise ValueError("a footer longer than its file")
    try:
        _Footer(os.pread(descriptor, length, size - 8 - length), leaves).file()
    except IndexError:
        raise ValueError("a footer that does not end") from None


class _Footer:
    """Methods named after structs walk through one, from an offset to where it ends."""

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
        count, _, at = self._list(at)
        if count not in (0, most + 1):
            raise ValueError("a histogram that contradicts the schema")
        for _ in range(count):
            at = self._varint(at)[1]
        return at

    # ---- Thrift ----------------------------------------------------------------------------------

    def _fields(self, at: int, wanted: Mapping[tuple[int, int], _Walk], depth: int = 0) -> int:
        """wanted: by number and type, what walks through a field; others are skipped."""
        data, number = self._data, 0
        while byte := data[at]:
            at += 1
            kind = byte & 15
            if byte >> 4:
                number += byte >> 4
            else:
                value, at = self._varint(at)
                number = value >> 1 ^ -(value & 1)
            walk = wanted.get((number, kind))
            at = walk(at) if walk else self._skipped(at, kind, depth)
        return at + 1

    def _structs(self, at: int, walk: Callable[[int, int], int]) -> int:
        count, _, at = self._list(at)
        for number in range(count):
            at = walk(at, number)
        return at

    def _list(self, at: int) -> tuple[int, int, int]:
        """(how many, of which kind, where they begin)."""
        byte = self._data[at]
        count, at = (byte >> 4, at + 1) if byte >> 4 != _LONG_LIST else self._varint(at + 1)
        if count > len(self._data):
            raise ValueError("a list longer than the footer")
        return count, byte & 15, at

    def _skipped(self, at: int, kind: int, depth: int) -> int:
        """Where a field's value ends."""
        if depth > _DEEPEST:
            raise ValueError("values too deep")
        if kind in (1, 2):  # true, false: in the field's own header
            return at
        if kind in (_LIST, _SET):
            count, kind, at = self._list(at)
            for _ in range(count):
                at = at + 1 if kind in (1, 2) else self._skipped(at, kind, depth + 1)
            return at
        if kind == 3:
            return at + 1
        if kind in (4, 5, _I64):
            return self._varint(at)[1]
        if kind == 7:
            return at + 8
        if kind == _BINARY:
            length, at = self._varint(at)
            return at + length
        if kind == _STRUCT:
            return self._fields(at, {}, depth + 1)
        raise ValueError("a value of an unknown kind")

    def _varint(self, at: int) -> tuple[int, int]:
        data, value, shift = self._data, 0, 0
        while (byte := data[at]) & 0x80:
            value |= (byte & 0x7F) << shift
            shift += 7
            at += 1
            if shift > 63:
                raise ValueError("a number of more than 64 bits")
        return value | byte << shift, at + 1


def _refuse(at: int) -> NoReturn:
    raise ValueError("a field that this column cannot have")
