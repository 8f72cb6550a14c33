"""Protocol buffers, as far as traces and profiles need them: one message at a time, or a column of messages at once.

A column of n messages is a matrix of bytes with n rows, and a mask that says which
bytes of it are there.  So fields are columns beside each other, optional fields and
short numbers are bytes that are not there, and no row is looked at alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Bools = NDArray[np.bool_]
_VARINT, _FIXED64, _BYTES = 0, 1, 2


class Piece(NamedTuple):
    """A part of n messages.  data, there: n rows of bytes, and which of them are there."""

    data: NDArray[np.uint8]
    there: Bools


# ---- one message


def varint(value: int) -> bytes:
    """A number; negative ones as 64 bits."""
    value &= (1 << 64) - 1
    found = bytearray()
    while value > 0x7F:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*found, value])


def number(field: int, value: int) -> bytes:
    """A field that is an integer."""
    return varint(field << 3 | _VARINT) + varint(value)


def numbers(field: int, values: Sequence[int]) -> bytes:
    """A repeated field of integers, packed."""
    return chunk(field, b"".join(map(varint, values)))


def chunk(field: int, value: bytes) -> bytes:
    """A field that is a message, or bytes."""
    return varint(field << 3 | _BYTES) + varint(len(value)) + value


def text(field: int, value: str) -> bytes:
    """A field that is a string."""
    return chunk(field, value.encode("utf-8", "backslashreplace"))


# ---- columns of messages


def constants(rows: int, value: bytes) -> Piece:
    """The same bytes in each message."""
    data = np.broadcast_to(np.frombuffer(value, np.uint8), (rows, len(value)))
    return Piece(data, np.ones((rows, len(value)), np.bool_))


def integers(field: int, values: NDArray[np.int64], present: Bools | None = None) -> Piece:
    """A field that is an integer; present: where it is there."""
    return _tagged(field, _VARINT, _varints(values), present)


def fixed64s(field: int, values: NDArray[np.uint64], present: Bools) -> Piece:
    """A repeated field of 64-bit numbers.  values, present: a row for each message, a column for each number."""
    rows, columns = values.shape
    key = np.frombuffer(varint(field << 3 | _FIXED64), np.uint8)
    data = np.empty((rows, columns, len(key) + 8), np.uint8)
    data[:, :, : len(key)] = key
    data[:, :, len(key) :] = np.ascontiguousarray(values, "<u8").view(np.uint8).reshape(rows, columns, 8)
    width = columns * (len(key) + 8)
    return Piece(data.reshape(rows, width), np.repeat(present, len(key) + 8, axis=1).reshape(rows, width))


def messages(field: int, pieces: Sequence[Piece], present: Bools | None = None) -> Piece:
    """A field that is a message of these pieces."""
    inside = joined(pieces)
    length = _varints(inside.there.sum(axis=1, dtype=np.int64))
    return _tagged(field, _BYTES, joined([length, inside]), present)


def joined(pieces: Sequence[Piece]) -> Piece:
    """The pieces of each message one after the other."""
    return Piece(
        np.concatenate([piece.data for piece in pieces], axis=1),
        np.concatenate([piece.there for piece in pieces], axis=1),
    )


def written(piece: Piece) -> bytes:
    """All messages, one after the other."""
    return piece.data[piece.there].tobytes()


def _tagged(field: int, kind: int, value: Piece, present: Bools | None) -> Piece:
    found = joined([constants(len(value.data), varint(field << 3 | kind)), value])
    return found if present is None else Piece(found.data, found.there & present[:, None])


def _varints(values: NDArray[np.int64]) -> Piece:
    unsigned = values.astype(np.int64, copy=False).view(np.uint64)
    width = max(-(-int(unsigned.max(initial=0)).bit_length() // 7), 1)
    rest = unsigned[:, None] >> (np.arange(width, dtype=np.uint64) * np.uint64(7))
    there = rest != 0
    there[:, 0] = True
    data = (rest & np.uint64(0x7F)).astype(np.uint8)
    data[:, :-1] |= there[:, 1:].astype(np.uint8) << 7
    return Piece(data, there)
