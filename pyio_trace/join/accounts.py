"""What the kernel says a process moved, against what its rows say.

/proc/PID/io counts every byte of every read- and write-like system call, by
whichever instruction it was made.  What the log has of a process, with rows or
only counted, is taken off; the rest passed the hooks by: raw system calls, and
calls that libc made for itself.  docs/blind-spots.md has the errors of this.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pyio_trace.join.vocabulary import KERNEL_READS, KERNEL_WRITES, Vocabulary
from pyio_trace.log import layout
from pyio_trace.log.live import Block, LiveLog

#: (id of a process chunk, bytes read, bytes written)
Moved = tuple[int, int, int]


@dataclass(frozen=True)
class Account:
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


def account_of(
    log: LiveLog, raw: np.void, identity: int, words: Vocabulary, moved: dict[int, tuple[int, int]]
) -> Account | None:
    """A process's account; None: its begin or end was not seen (killed; no /proc), or the kernel has added a child's to
    it that is not known."""
    if int(raw["accounts"]) != layout.ACCOUNT_BEGIN | layout.ACCOUNT_END:
        return None
    if log.header["ring_slots"]:
        return None  # most of what it did is not in the log any more

    def grown(name: str) -> int:
        before = _signed(raw["begin_account"][name]) + _signed(raw["children_account"][name])
        return max(_signed(raw["end_account"][name]) - before, 0)

    read, written = moved.get(identity, (0, 0))
    counted_read, counted_written = _counted(log.counters(identity), words)
    kernel_read, kernel_written = max(grown("read_chars") - _signed(raw["own_read"]), 0), grown("write_chars")
    return Account(
        kernel_read=kernel_read,
        kernel_written=kernel_written,
        storage_read=grown("storage_read"),
        storage_written=grown("storage_written"),
        # of this process alone, unlike the bytes
        major_faults=max(
            _signed(raw["end_account"]["major_faults"]) - _signed(raw["begin_account"]["major_faults"]), 0
        ),
        unseen_read=max(kernel_read - read - counted_read - _signed(raw["unrecorded_read"]), 0),
        unseen_written=max(kernel_written - written - counted_written - _signed(raw["unrecorded_written"]), 0),
    )


def _counted(counters: NDArray[np.void], words: Vocabulary) -> tuple[int, int]:
    direction = words.kernel[: len(counters)]
    read = sum(map(_signed, counters["bytes"][direction & KERNEL_READS != 0]))
    return read, sum(map(_signed, counters["bytes"][direction & KERNEL_WRITES != 0]))


def _signed(value: np.generic) -> int:
    return min(int(value), np.iinfo(np.int64).max >> 2)  # damaged ones must still add up
