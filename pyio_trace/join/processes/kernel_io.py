"""Compares the kernel's account of a process's I/O with what the log has of it.

/proc/PID/io counts the bytes of every read- and write-like system call, however
it was made.  Subtract what the log has of a process, in rows or in counters, and
the rest bypassed the hooks: raw system calls, and calls that libc made
internally.  docs/explanation/blind-spots.md describes the errors of this method.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pyio_trace.join.base.vocabulary import Vocabulary
from pyio_trace.log import layout, runs
from pyio_trace.log.blocks import Block
from pyio_trace.log.layout import Trait
from pyio_trace.log.live import LiveLog


class ProcessBytes(NamedTuple):
    """Bytes that rows of one process (by id) moved, as the kernel would count them."""

    process: int
    read: int
    written: int


class WideRow(NamedTuple):
    """A row whose bytes are in another record (WideValues).  direction: of Trait.READS and Trait.WRITES."""

    id: int
    process: int
    direction: int
    failed: bool


class KernelIO(NamedTuple):
    """One process between the start and the end of its tracing, in bytes.

    kernel_*: moved by read- and write-like calls, of files, pipes and sockets
    alike; storage_*: fetched from storage, and page cache made dirty, but for
    the log's own pages; unseen_*: the part of kernel_* that the log does not
    have (estimated).
    """

    kernel_read: int
    kernel_written: int
    storage_read: int
    storage_written: int
    major_faults: int
    unseen_read: int
    unseen_written: int


def bytes_in(block: Block, words: Vocabulary) -> tuple[list[ProcessBytes], list[WideRow]]:
    """What a block's rows moved, by process, and the rows whose bytes are still to be looked up."""
    if not len(block):
        return [], []
    direction = words.kernel.take(block.op)
    result = block.records["result"].copy()
    failed = block.flags & layout.FAILED != 0
    known = (result != layout.NO_BYTES) & ~failed
    counted = direction != 0
    wide: list[WideRow] = []
    if block.sums is None and not known.all():
        at = np.flatnonzero(counted & ~known & (block.flags & layout.WIDE != 0))
        columns = (block.ids[at], block.process[at], direction[at], failed[at])
        wide = [WideRow(*row) for row in zip(*(column.tolist() for column in columns), strict=True)]
        counted &= known
    moved = result.astype(np.int64)
    if block.sums is not None:
        moved = np.minimum(block.sums["moved"], np.uint64(1 << 61)).astype(np.int64)
    starts = runs.starts(block.process)
    read = np.add.reduceat(moved * (counted & (direction & Trait.READS != 0)), starts)
    written = np.add.reduceat(moved * (counted & (direction & Trait.WRITES != 0)), starts)
    found = zip(block.process[starts].tolist(), read.tolist(), written.tolist(), strict=True)
    return [ProcessBytes(*one) for one in found], wide


def totals(parts: Iterable[ProcessBytes]) -> dict[int, tuple[int, int]]:
    """Process id -> (bytes read, bytes written)."""
    result: dict[int, tuple[int, int]] = {}
    for process, read, written in parts:
        before = result.get(process, (0, 0))
        result[process] = before[0] + read, before[1] + written
    return result


def kernel_io_of(
    log: LiveLog, words: Vocabulary, bytes_by_process: dict[int, tuple[int, int]], own_pages: NDArray[np.int64]
) -> list[KernelIO | None]:
    """The account of each process, in the order of log.processes().

    None: its begin or end was not seen (killed; no /proc), or the kernel has
    added an unknown child's account to it.  bytes_by_process: of the rows;
    own_pages: see own_pages().
    """
    entries = log.processes()
    if log.header["ring_slots"]:
        return [None] * len(entries)  # the log has overwritten most of what they did
    rows = (bytes_by_process.get(identity, (0, 0)) for identity in log.process_ids.tolist())
    in_rows = np.array([(min(read, _MOST), min(written, _MOST)) for read, written in rows], np.int64).reshape(-1, 2)
    begin, end, children = entries["begin_account"], entries["end_account"], entries["children_account"]

    def increase(name: str) -> NDArray[np.int64]:
        return np.maximum(sane(end[name]) - (sane(begin[name]) + sane(children[name])), 0)

    kernel = np.maximum(increase("read_chars") - sane(entries["own_read"]), 0), increase("write_chars")
    unrecorded = sane(entries["unrecorded_read"]), sane(entries["unrecorded_written"])
    unseen = [
        np.maximum(kernel[at] - in_rows[:, at] - _only_counted(log, words, direction, len(entries)) - unrecorded[at], 0)
        for at, direction in enumerate((Trait.READS, Trait.WRITES))
    ]
    # Unlike the bytes, the kernel does not add children's faults to their parents'.
    faults = np.maximum(sane(end["major_faults"]) - sane(begin["major_faults"]), 0)
    written = np.maximum(increase("storage_written") - own_pages, 0)
    columns = (*kernel, increase("storage_read"), written, faults, *unseen)
    whole = layout.ACCOUNT_BEGIN | layout.ACCOUNT_END
    known = (entries["accounts"] & (whole | layout.ACCOUNT_MIXED) == whole).tolist()
    figures = zip(*(column.tolist() for column in columns), strict=True)
    return [KernelIO(*figure) if complete else None for complete, figure in zip(known, figures, strict=True)]


def _only_counted(log: LiveLog, words: Vocabulary, direction: int, processes: int) -> NDArray[np.int64]:
    """Bytes of each process that are only in its counters."""
    position, number, counters = log.counted
    chosen = (position >= 0) & (words.kernel[number] & direction != 0)
    sums = np.zeros(processes, np.int64)
    np.add.at(sums, position[chosen], np.minimum(sane(counters["bytes"][chosen]), _MOST // layout.MAX_OPS))
    return sums


#: Sums of damaged values must still fit int64.
_MOST = np.iinfo(np.int64).max >> 2


def sane(values: NDArray[np.uint64]) -> NDArray[np.int64]:
    """Counts of the log, of which several can be added."""
    return np.minimum(values, np.uint64(_MOST)).astype(np.int64)
