"""How many bytes of a live log its processes made dirty: the kernel counts them as written by the program.

A process reserves the pages of a chunk when it claims it, which makes them dirty.
Pages that reached the disk since and were written to again count once more for
the kernel; here they count once, so that the rest is an upper bound.
"""

from __future__ import annotations

import os

import numpy as np
from numpy.typing import NDArray

from pyio_trace.log import layout
from pyio_trace.log.live import LiveLog
from pyio_trace.log.sorting import find

_IN_MEMORY = (b"tmpfs", b"ramfs", b"devtmpfs")


def own_pages(log: LiveLog) -> NDArray[np.int64]:
    """Bytes by process, in the order of log.processes(), since the process has an account."""
    entries, ids = log.processes(), log.process_ids
    found = np.zeros(len(entries), np.int64)
    if not len(entries) or _is_in_memory(log.file.device):
        return found
    order = np.argsort(ids)
    chunks = log.chunks.headers
    claimed = chunks[(chunks["kind"] != layout.CHUNK_PROCESS) & (chunks["kind"] != layout.CHUNK_PAD)]
    _add(found, ids, order, claimed["process"].astype(np.int64), claimed)
    start = entries["start"]
    forked = np.flatnonzero(start == layout.START_FORK)  # its account begins with its life; others' after their entry
    found[forked] += _made_dirty(entries["chunk"][forked])
    spawned = entries[(start == layout.START_SPAWN) | (start == layout.START_VFORK)]  # entered by the parent
    _add(found, ids, order, spawned["parent"].astype(np.int64), spawned["chunk"])
    return found


def _add(
    found: NDArray[np.int64],
    ids: NDArray[np.int64],
    order: NDArray[np.int64],
    owners: NDArray[np.int64],
    chunks: NDArray[np.void],
) -> None:
    """Adds the sizes of chunks to their owners (ids)."""
    at, known = find(ids[order], owners)
    np.add.at(found, order[at[known]], _made_dirty(chunks[known]))


def _made_dirty(chunks: NDArray[np.void]) -> NDArray[np.int64]:
    """Bytes of each chunk, without what was written when the log was made."""
    begin = chunks["offset"].astype(np.int64)
    end = begin + chunks["size"].astype(np.int64)
    made: NDArray[np.int64] = end - np.maximum(begin, np.minimum(layout.BEGINNING, end))
    return made


def _is_in_memory(device: int) -> bool:
    """Whether a file system has no storage: the kernel does not count what is written to it."""
    number = f"{os.major(device)}:{os.minor(device)}".encode()
    try:
        with open("/proc/self/mountinfo", "rb") as file:
            mounts = [line.split() for line in file]
    except OSError:
        return False
    return any(
        fields[2] == number and fields[fields.index(b"-") + 1] in _IN_MEMORY for fields in mounts if b"-" in fields
    )
