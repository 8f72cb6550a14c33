"""What the codes of a dictionary column stand for."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from pyio_trace.join.base.arrow_arrays import of_numbers

if TYPE_CHECKING:
    from pyio_trace.join.sources.facade import Log

Ints = NDArray[np.int64]


def texts(log: Log, column: str, codes: Ints) -> list[str | None]:
    """What these codes of a dictionary column stand for; None for -1."""
    distinct, place = np.unique(codes, return_inverse=True)  # a text may be long, and in many rows
    words = log.dictionary(column).take(of_numbers(np.maximum(distinct, 0), distinct < 0)).to_pylist()
    return [words[at] for at in place.ravel().tolist()]
