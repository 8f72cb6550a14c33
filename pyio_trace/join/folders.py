"""Which folder that a span declared a path lies in: for all paths of a log at once.

A dataset is a folder; who reads or writes one names the folder, and a
library's threads open the parts.  Sorted as text, what lies in a folder stands
right behind it: `f/` is a prefix of all of it and of nothing else.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pyio_trace.log.sorting import distinct


def nearest(paths: list[str], folders: NDArray[np.int64]) -> NDArray[np.int64]:
    """By index into paths, and one more for "no path" (the last): the innermost of these folders (indexes too) that the
    path lies in, -1 none.  A folder does not lie in itself."""
    import pyarrow as pa
    import pyarrow.compute as pc

    folders = distinct(folders[folders >= 0])
    keys = [path.removesuffix("/") + "/" for path in paths]
    # "0" is what comes after "/": all that the folder holds stands in front of it, all else behind.
    keys += [keys[folder][:-1] + "0" for folder in folders.tolist()]
    order = pc.array_sort_indices(pa.array(keys, pa.large_string())).to_numpy().astype(np.int64)
    place = np.empty(len(order), np.int64)
    place[order] = np.arange(len(order))
    first, last = place[folders] + 1, place[len(paths) :]
    within = np.full(len(order), -1, np.int64)
    at = np.flatnonzero(last > first)
    for folder in at[np.argsort(first[at], kind="stable")].tolist():  # an inner one after what it is in
        within[first[folder] : last[folder]] = folders[folder]
    return np.append(within[place[: len(paths)]], -1)
