"""The one ceiling of sums, whatever a log claims.

The border (scan.decoding) cuts the amounts of each batch so that they add up to
at most OF_BATCH.  So what is summed within a batch needs no check.  Sums over
many batches go through addable() each time they are added up again; then the
values of a whole column add up to at most MOST, and so do those of any of its
rows.  A few such totals can be added to each other.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]

#: The largest sum of the amounts of one batch: 4 years of calls, 128 PiB.  And of a log: 73 years, 2 EiB.
OF_BATCH, MOST = 1 << 57, 1 << 61


def addable(values: Ints, most: int = MOST) -> Ints:
    """The values, cut so that they add up to at most `most`; those of logs that are not damaged stay as they are."""
    if not values.size:
        return values
    each = most // values.size
    if int(values.max()) <= each and int(values.min()) >= -each:
        return values
    if float(np.abs(values.astype(np.float64)).sum()) <= most:
        return values
    return np.clip(values, -each, each)


def total(values: Ints) -> int:
    """The sum of values that may come from many batches."""
    return int(addable(values).sum())
