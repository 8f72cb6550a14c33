"""The file offsets that records give themselves, and which rows of a block need to be looked up."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pyio_trace.join.offsets.positions import of_streams
from pyio_trace.join.references.file_table import Files
from pyio_trace.log import layout
from pyio_trace.log.layout import Trait

_PLACED = Trait.USES_POSITION | Trait.WRITES


def given_places(
    records: NDArray[np.void],
    traits: NDArray[np.uint16],
    fine: NDArray[np.bool_],
    files: Files,
    objects: NDArray[np.int64],
) -> tuple[NDArray[np.int64], NDArray[np.bool_], NDArray[np.int64]]:
    """(offsets, where they are missing, the rows with a missing offset whose calls have one).

    fine: the rows that ended without an error; objects: the numbers of their `desc`.  An offset passed to a write on a
    descriptor with O_APPEND does not count, because Linux appends.
    """
    offset = records["offset"].copy()
    moves = (traits & (Trait.USES_POSITION | Trait.COPIES)) != 0
    moves |= of_streams(traits) & ((traits & (Trait.READS | Trait.WRITES)) != 0)
    seeks = (traits & Trait.SETS_POSITION) != 0
    missing: NDArray[np.bool_] = (offset == -1) & ~seeks
    negative = np.flatnonzero((offset < -1) & moves)
    if len(negative):
        there = (offset[negative] <= layout.AT_PLACE) & fine[negative]
        missing[negative[~there]] = True
        offset[negative[there]] = layout.AT_PLACE - offset[negative[there]]
    if files.any_appends:
        rows = np.flatnonzero(fine & ((traits & _PLACED) == _PLACED) & (records["offset"] >= 0))
        missing[rows[files.appends(objects[rows]) & (records["result"][rows] != 0)]] = True
    return offset, missing, np.flatnonzero(missing & moves)
