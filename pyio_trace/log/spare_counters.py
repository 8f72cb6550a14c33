"""Process entries and counters in the extents that a log sets aside for a full disk.

On a file system that copies on write, even a store into the log's own pages
needs a new block.  When the disk is full, a process writes its entry and its
counters here instead (csrc/core/log/spare.c).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pyio_trace.log import layout
from pyio_trace.log.log_file import LogFile


class SpareEntry(NamedTuple):
    """One process's entry (layout.PROCESS_ENTRY) and its counters (layout.COUNTER by operation number)."""

    entry: np.void
    counters: NDArray[np.void]


def read_spare_entries(file: LogFile, header: np.void) -> tuple[dict[int, SpareEntry], list[SpareEntry]]:
    """(entries by the id of the process chunk that each replaces, entries of processes without such a chunk)."""
    replacing: dict[int, SpareEntry] = {}
    others: dict[tuple[int, int], SpareEntry] = {}
    start = int(header["kept_room"]) << layout.ID_SHIFT
    for slot in range(layout.KEPT_SLOTS if start >= layout.FIRST_CHUNK else 0):
        read = file.read(start + slot * layout.PROCESS_CHUNK, layout.PROCESS_CHUNK)
        if len(read) < layout.PROCESS_CHUNK:
            break
        entry = np.frombuffer(read, layout.PROCESS_ENTRY, 1)[0]
        if int(entry["chunk"]["magic"]) != layout.CHUNK_MAGIC:
            break
        spare = SpareEntry(entry, np.frombuffer(read, layout.COUNTER, layout.MAX_OPS, layout.COUNTERS_OFFSET))
        if process := int(entry["chunk"]["process"]):
            replacing[process] = spare
        else:  # a process writes again after an exec that failed: its last entry counts
            others[int(entry["pid"]), int(entry["begin"])] = spare
    return replacing, list(others.values())
