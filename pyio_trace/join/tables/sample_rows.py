"""The samples of a live log: its raw ones with processes, times and stacks in place of ids and ticks."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pyio_trace.join.base.samples import NOTHING, Collected, Columns, Samples
from pyio_trace.join.references.call_stacks import Stacks
from pyio_trace.join.references.sent_code import SentCode
from pyio_trace.join.tables.log_tables import LogTables
from pyio_trace.log.heap import ObjectNumbers
from pyio_trace.log.samples import read_samples
from pyio_trace.log.sorting import distinct, find


def samples_of(tables: LogTables) -> Samples:
    """The samples of a log.  Frames that a forked process had from its parent are cut off, as those of operations."""
    log = tables.log
    collected = Collected()
    for raw in read_samples(log.file, log.chunks):
        collected.add(_columns(tables, raw))
    columns = collected.columns()
    if not len(columns["time"]):
        return NOTHING
    columns["stack"], stacks = _stacks(tables, columns["stack"], columns["process"])
    return Samples(columns, stacks)


def _columns(tables: LogTables, raw: NDArray[np.void]) -> Columns:
    """Columns in which a stack is still its id."""
    log, clock = tables.log, tables.clock
    place, known = find(log.process_ids, raw["process"].astype(np.int64))
    # The time of a damaged sample may be before the run, or beyond 64 bits.
    since = np.minimum(raw["begin"], np.uint64((1 << 63) - 1))
    small = {
        name: np.minimum(raw[name], np.uint64(1 << 62)).astype(np.int64) for name in ("ticks", "cpu_ns", "delay_ns")
    }
    return {
        "process": np.where(known, place, -1), "thread": (raw["tid"] & np.uint32(0x7FFFFFFF)).astype(np.int64),
        "time": clock.epoch(since), "duration": clock.span(small["ticks"]), "cpu": small["cpu_ns"],
        "delay": small["delay_ns"], "stack": raw["stack"].astype(np.int64), "state": raw["state"].astype(np.int64),
        "samples": raw["samples"].astype(np.int64),
    }  # fmt: skip


def _stacks(
    tables: LogTables, ids: NDArray[np.int64], process: NDArray[np.int64]
) -> tuple[NDArray[np.int64], list[str]]:
    """(by row the index of its stack, -1: none; the texts)."""
    heap, (forks, _) = tables.heap, tables.forks
    used = distinct(ids[ids > 0])
    numbers = ObjectNumbers(heap.slots, distinct(heap.slots.of(used.astype(np.uint32))))
    stacks = Stacks(heap, numbers, used, SentCode(tables.log, heap), tables.own, forks, sampled=True)
    rows = numbers.of(np.maximum(ids, 0).astype(np.uint32))
    index = np.where(rows > 0, stacks.stack.take(rows), -1)
    fork = tables.fork_of(process.astype(np.int32))
    if fork is not None:
        stacks.cut_in("stack", index, rows, fork)
    return index.astype(np.int64), stacks.folded
