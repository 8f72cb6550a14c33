"""What the codes of a dictionary column stand for."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from pyio_trace.join.base.arrow_arrays import texts_at

if TYPE_CHECKING:
    from pyio_trace.join.sources.facade import Log

Ints = NDArray[np.int64]


def texts(log: Log, column: str, codes: Ints) -> list[str | None]:
    """What these codes of a dictionary column stand for; None for -1."""
    distinct, place = np.unique(codes, return_inverse=True)  # a text may be long, and in many rows
    known = distinct >= 0
    words = [*[None] * int((~known).sum()), *texts_at(log.dictionary(column), distinct[known])]
    return [words[at] for at in place.ravel().tolist()]
