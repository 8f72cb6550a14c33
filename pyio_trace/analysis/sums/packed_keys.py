"""Several int64 keys as one: a table is grouped and sorted by one key in a fraction of the time that ten take."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
#: Codes stay below it.
_MOST = 1 << 62


class KeyPacking(NamedTuple):
    """How rows of keys become codes that are ordered as the rows are.  low, span: of each key, the least value and the
    number of values from there on."""

    low: list[int]
    span: list[int]

    def pack(self, keys: Sequence[Ints]) -> Ints:
        """One code for each row; keys: the arrays that the packing was made for."""
        codes = np.zeros(len(keys[0]), np.int64)
        for values, low, span in zip(keys, self.low, self.span, strict=True):
            if span > 1:
                codes *= span
                codes += values
                codes -= low
        return codes

    def unpack(self, codes: Ints) -> list[Ints]:
        """The keys of some codes."""
        found = []
        for low, span in zip(reversed(self.low), reversed(self.span), strict=True):
            if span > 1:
                codes, rest = np.divmod(codes, span)
                found.append(rest + low)
            else:
                found.append(np.full(len(codes), low, np.int64))
        return found[::-1]


def packing_of(keys: Sequence[Ints]) -> KeyPacking | None:
    """A packing for arrays; None: they have no rows, or their ranges are too wide together for 62 bits."""
    if not len(keys[0]):
        return None
    low, span, size = [], [], 1
    for values in keys:
        low.append(int(values.min()))
        span.append(int(values.max()) - low[-1] + 1)
        size *= span[-1]
        if size > _MOST:
            return None
    return KeyPacking(low, span)
