"""The parts of Thrift's compact protocol that Parquet uses: numbers, headers of fields and lists, and where values end.

All functions take the bytes and an offset, and raise IndexError where the bytes end,
ValueError where they cannot be right.
"""

from __future__ import annotations

STOP, TRUE, FALSE, BYTE, I16, I32, I64, DOUBLE, BINARY, LIST, SET, _MAP, STRUCT = range(13)

#: In place of a list's length: the length follows as a number.
_LONG_LIST = 15
_DEEPEST = 16


def varint(data: bytes, at: int) -> tuple[int, int]:
    """(an unsigned number, where it ends)."""
    value = shift = 0
    while (byte := data[at]) & 0x80:
        value |= (byte & 0x7F) << shift
        shift += 7
        at += 1
        if shift > 63:
            raise ValueError("a number of more than 64 bits")
    return value | byte << shift, at + 1


def integer(data: bytes, at: int) -> tuple[int, int]:
    """(a signed number, where it ends)."""
    value, at = varint(data, at)
    return value >> 1 ^ -(value & 1), at


def field(data: bytes, at: int, before: int) -> tuple[int, int, int]:
    """(the type of a struct's next field, its number, where its value begins); STOP ends the struct.

    before: the number of the field before it, 0 for the first.
    """
    byte = data[at]
    if byte == STOP:
        return STOP, before, at + 1
    if byte & 15 == STOP:
        raise ValueError("a field without a type")
    if byte >> 4:
        return byte & 15, before + (byte >> 4), at + 1
    number, at = integer(data, at + 1)
    return byte & 15, number, at


def list_header(data: bytes, at: int) -> tuple[int, int, int]:
    """(the length of a list or set, the type of its elements, where the first one begins)."""
    byte = data[at]
    count, at = (byte >> 4, at + 1) if byte >> 4 != _LONG_LIST else varint(data, at + 1)
    if count > len(data):
        raise ValueError("a list longer than the data")
    return count, byte & 15, at


def value_end(data: bytes, at: int, kind: int, depth: int = 0) -> int:
    """Where a field's value of this type ends."""
    if depth > _DEEPEST:
        raise ValueError("values too deep")
    if kind in (TRUE, FALSE):  # the type is the value
        return at
    if kind == BYTE:
        return at + 1
    if kind in (I16, I32, I64):
        return varint(data, at)[1]
    if kind == DOUBLE:
        return at + 8
    if kind == BINARY:
        length, at = varint(data, at)
        return at + length
    if kind in (LIST, SET):
        count, kind, at = list_header(data, at)
        for _ in range(count):
            at = at + 1 if kind in (TRUE, FALSE) else value_end(data, at, kind, depth + 1)
        return at
    if kind == STRUCT:
        number = 0
        while True:
            kind, number, at = field(data, at, number)
            if kind == STOP:
                return at
            at = value_end(data, at, kind, depth + 1)
    raise ValueError("a value of an unknown type")
