"""What the codes of a dictionary column stand for."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from pyio_trace.join.base.arrow_arrays import texts_at
from pyio_trace.log.sorting import distinct

if TYPE_CHECKING:
    from pyio_trace.join.sources.facade import Log

Ints = NDArray[np.int64]


def texts(log: Log, column: str, codes: Ints) -> list[str | None]:
    """What these codes of a dictionary column stand for; None for -1."""
    used = distinct(codes)  # a text may be long, and in many rows
    known = used >= 0
    words = [*[None] * int((~known).sum()), *texts_at(log.dictionary(column), used[known])]
    return [words[at] for at in np.searchsorted(used, codes).tolist()]
