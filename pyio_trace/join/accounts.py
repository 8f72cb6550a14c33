"""What the kernel says a process moved, against what its rows say.

/proc/PID/io counts every byte of every read- and write-like system call, by
whichever instruction it was made.  What the log has of a process, with rows or
only counted, is taken off; the rest passed the hooks by: raw system calls, and
calls that libc made for itself.  docs/blind-spots.md has the errors of this.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pyio_trace.join.vocabulary import KERNEL_READS, KERNEL_WRITES, Vocabulary
from pyio_trace.log import layout
from pyio_trace.log.live import Block, LiveLog

#: (id of a process chunk, bytes read, bytes written)
Moved = tuple[int, int, int]


class Account(NamedTuple):
    """One process between the start and the end of its tracing, in bytes.

    kernel_*: moved by read- and write-like calls, of files, pipes and sockets
    alike; storage_*: fetched from storage, and of page cache made dirty;
    unseen_*: of kernel_* what the log has not (estimated).
    """

    kernel_read: int
    kernel_written: int
    storage_read: int
    storage_written: int
    major_faults: int
    unseen_read: int
    unseen_written: int


def moved_in(block: Block, words: Vocabulary) -> tuple[list[Moved], list[tuple[int, int, int]]]:
    """What a block's rows moved, by process, as the kernel would count it; and (id, process, direction) of the rows
    whose bytes stand elsewhere (Wide)."""
    if not len(block):
        return [], []
    direction = words.kernel.take(block.op)
    result = block.records["result"].copy()
    there = result != layout.NO_BYTES
    counted = (direction != 0) & (block.flags & layout.FAILED == 0)
    later: list[tuple[int, int, int]] = []
    if not there.all():
        missing = np.flatnonzero(counted & ~there & (block.flags & layout.WIDE != 0))
        later = [(int(block.ids[at]), int(block.process[at]), int(direction[at])) for at in missing.tolist()]
        counted &= there
    moved = result.astype(np.int64)
    if block.sums is not None:
        moved = np.minimum(block.sums["moved"], np.uint64(1 << 61)).astype(np.int64)
    starts = np.append(0, np.flatnonzero(block.process[1:] != block.process[:-1]) + 1)
    read = np.add.reduceat(moved * (counted & (direction & KERNEL_READS != 0)), starts)
    written = np.add.reduceat(moved * (counted & (direction & KERNEL_WRITES != 0)), starts)
    return list(zip(block.process[starts].tolist(), read.tolist(), written.tolist(), strict=True)), later


def total(parts: Iterable[Moved]) -> dict[int, tuple[int, int]]:
    """Process id -> (bytes read, bytes written)."""
    result: dict[int, tuple[int, int]] = {}
    for process, read, written in parts:
        before = result.get(process, (0, 0))
        result[process] = before[0] + read, before[1] + written
    return result


def accounts_of(log: LiveLog, words: Vocabulary, moved: dict[int, tuple[int, int]]) -> list[Account | None]:
    """Each process's account, in the order of log.processes(); None: its begin or end was not seen (killed; no /proc),
    or the kernel has added a child's to it that is not known."""
    entries = log.processes()
    if log.header["ring_slots"]:
        return [None] * len(entries)  # most of what they did is not in the log any more
    ids = entries["chunk"]["offset"].astype(np.int64) >> layout.ID_SHIFT
    rows = (moved.get(identity, (0, 0)) for identity in ids.tolist())
    in_rows = np.array([(min(read, _MOST), min(written, _MOST)) for read, written in rows], np.int64).reshape(-1, 2)
    begin, end, children = entries["begin_account"], entries["end_account"], entries["children_account"]

    def grown(name: str) -> NDArray[np.int64]:
        return np.maximum(_sane(end[name]) - (_sane(begin[name]) + _sane(children[name])), 0)

    kernel = np.maximum(grown("read_chars") - _sane(entries["own_read"]), 0), grown("write_chars")
    unrecorded = _sane(entries["unrecorded_read"]), _sane(entries["unrecorded_written"])
    unseen = [
        np.maximum(kernel[at] - in_rows[:, at] - _counted(log, words, direction, len(entries)) - unrecorded[at], 0)
        for at, direction in enumerate((KERNEL_READS, KERNEL_WRITES))
    ]
    # of this process alone, unlike the bytes
    faults = np.maximum(_sane(end["major_faults"]) - _sane(begin["major_faults"]), 0)
    columns = (*kernel, grown("storage_read"), grown("storage_written"), faults, *unseen)
    known = (entries["accounts"] == layout.ACCOUNT_BEGIN | layout.ACCOUNT_END).tolist()
    figures = zip(*(column.tolist() for column in columns), strict=True)
    return [Account(*figure) if there else None for there, figure in zip(known, figures, strict=True)]


def _counted(log: LiveLog, words: Vocabulary, direction: int, processes: int) -> NDArray[np.int64]:
    """Bytes of each process that were only counted."""
    position, number, counters = log.counted
    mine = (position >= 0) & (words.kernel[number] & direction != 0)
    sums = np.zeros(processes, np.int64)
    np.add.at(sums, position[mine], np.minimum(_sane(counters["bytes"][mine]), _MOST // layout.MAX_OPS))
    return sums


#: Damaged ones must still add up.
_MOST = np.iinfo(np.int64).max >> 2


def _sane(values: NDArray[np.uint64]) -> NDArray[np.int64]:
    return np.minimum(values, np.uint64(_MOST)).astype(np.int64)
