"""The largest of each group: the most common sizes of a file, the line that reads most of it."""

from __future__ import annotations

from collections import defaultdict

import numpy as np
from numpy.typing import NDArray

from pyio_trace.log import runs

Ints = NDArray[np.int64]


def most_common(
    keys: tuple[Ints, ...], values: Ints, counts: Ints, most: int
) -> dict[tuple[int, ...], list[tuple[int, int]]]:
    """Key -> its `most` values with the highest counts, as (value, count); the larger value first among equals."""
    if not len(values):
        return {}
    order = np.lexsort((-values, -counts, *reversed(keys)))
    begins = runs.starts(*(key[order] for key in keys))
    rank = np.arange(len(order)) - np.repeat(begins, np.diff(begins, append=len(order)))
    chosen = order[rank < most]
    found: dict[tuple[int, ...], list[tuple[int, int]]] = defaultdict(list)
    columns = [key[chosen].tolist() for key in keys]
    for *key, value, count in zip(*columns, values[chosen].tolist(), counts[chosen].tolist(), strict=True):
        found[tuple(key)].append((value, count))
    return dict(found)
