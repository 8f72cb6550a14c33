"""Finds the declared folder that each path of a log lies in, for all paths at once.

A dataset is a folder: the program names the folder, and a library's threads
open the files in it.  When paths are sorted as text, the contents of a folder
follow it directly, since `folder/` is a prefix of all of them and of nothing
else.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pyio_trace.log.sorting import distinct


def nearest(paths: list[str], folders: NDArray[np.int64]) -> NDArray[np.int64]:
    """For each path, the innermost of these folders that it lies in, as indexes into paths; -1: none.

    The result has one more element, -1, for the index -1 ("no path").  A folder does not lie in itself.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    folders = distinct(folders[folders >= 0])
    keys = [path.removesuffix("/") + "/" for path in paths]
    # "0" follows "/" in ASCII: it sorts after everything in the folder and before everything else.
    keys += [keys[folder][:-1] + "0" for folder in folders.tolist()]
    order = pc.array_sort_indices(pa.array(keys, pa.large_string())).to_numpy().astype(np.int64)
    place = np.empty(len(order), np.int64)
    place[order] = np.arange(len(order))
    first, last = place[folders] + 1, place[len(paths) :]
    within = np.full(len(order), -1, np.int64)
    at = np.flatnonzero(last > first)
    for folder in at[np.argsort(first[at], kind="stable")].tolist():  # inner folders after those they lie in
        within[first[folder] : last[folder]] = folders[folder]
    return np.append(within[place[: len(paths)]], -1)
