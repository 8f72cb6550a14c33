"""Columns of numbers as the page reads them: byte planes, deflated.

A column is an array of uint64.  Its planes are its lowest bytes, then the next,
as many as its largest value needs; numbers of like size have planes that
compress well, and a browser puts them together in a few lines.  A column that
may have no value has a plane in front, 1 where there is one.
"""

from __future__ import annotations

import zlib
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pyio_trace.light_dataclass import dataclass

U64 = NDArray[np.uint64]
Ints = NDArray[np.int64]
Mask = NDArray[np.bool_]

_LEVEL = 6


@dataclass(frozen=True)
class Column:
    """A column as it stands in the page.  width: planes of its values; masked: whether there is one in front; data:
    deflated."""

    width: int
    masked: bool
    data: bytes


def column(values: NDArray[Any], present: Mask | None = None) -> Column:
    """values: uint64, or integers none of which is negative; present: where there is a value, None: everywhere."""
    values = values.astype(np.uint64, copy=False)
    masked = present is not None and not bool(present.all())
    if present is not None and masked:
        values = np.where(present, values, np.uint64(0))
    largest = int(values.max()) if len(values) else 0
    width = (largest.bit_length() + 7) // 8
    planes = values.astype("<u8").view(np.uint8).reshape(-1, 8)
    deflate = zlib.compressobj(_LEVEL, zlib.DEFLATED, -zlib.MAX_WBITS)
    parts = [deflate.compress(present.view(np.uint8).tobytes())] if present is not None and masked else []
    parts += [deflate.compress(np.ascontiguousarray(planes[:, plane]).tobytes()) for plane in range(width)]
    return Column(width, masked, b"".join([*parts, deflate.flush()]))


def zigzag(values: Ints) -> U64:
    """0, -1, 1, -2, ... as 0, 1, 2, 3, ..."""
    folded: U64 = ((values << 1) ^ (values >> 63)).view(np.uint64)
    return folded


def packed_text(text: str) -> bytes:
    """A text, deflated as the columns are."""
    deflate = zlib.compressobj(_LEVEL, zlib.DEFLATED, -zlib.MAX_WBITS)
    return deflate.compress(text.encode()) + deflate.flush()
