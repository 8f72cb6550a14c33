"""Parents of the rows of other tools' logs, which do not say what called what.

A span above POSIX encloses what happened during it in the same thread; where a
log has no threads, what happened to the same file in the same process.  Rows that
stand for many calls have no moment: of these, the log's reader says which belong
together (foreign_log.ROW, group).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pyio_trace.enums import CLASSES, Layer, OpClass

Ints = NDArray[np.int64]

#: Spans within spans that are looked for.
_DEEPEST = 64
#: ns by which a call may seem to outlast what made it, as its times are rounded.
_ROUNDED = 1000
#: The layers that enclose others, from the lowest on.
_ABOVE = (Layer.MPIIO, Layer.HDF5)


def parents_of(rows: NDArray[np.void]) -> Ints:
    """By row (foreign_log.ROW, in order of time): 1 + the place of its parent, 0: none."""
    found = np.zeros(len(rows), np.int64)
    grouped = rows["group"] > 0
    if grouped.any():
        at = np.flatnonzero(grouped)
        found[at] = _of_groups(rows[at], at)
    if (~grouped & (rows["layer"] < Layer.STDIO)).any():
        at = np.flatnonzero(~grouped & (rows["process"] >= 0) & (rows["duration"] >= 0))
        found[at] = _of_nested(rows[at], at)
    return found


def _of_groups(rows: NDArray[np.void], at: Ints) -> Ints:
    """The parents of rows of groups: the only row of the next layer above with the same class; of a read or write, if
    there is none, the one with the other."""
    found = np.zeros(len(rows), np.int64)
    klass = rows["op_class"].astype(np.int64)
    other = np.where(klass == OpClass.READ, OpClass.WRITE, np.where(klass == OpClass.WRITE, OpClass.READ, klass))
    group = rows["group"].astype(np.int64) * len(CLASSES)
    for layer in _ABOVE:
        spans = np.flatnonzero(rows["layer"] == layer)
        keys, first, count = np.unique((group + klass)[spans], return_index=True, return_counts=True)
        if not len(keys):
            continue
        for wanted in (group + klass, group + other):
            place = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
            fits = (found == 0) & (rows["layer"] > layer) & (keys[place] == wanted) & (count[place] == 1)
            found[fits] = at[spans[first[place[fits]]]] + 1
    return found


def _of_nested(rows: NDArray[np.void], at: Ints) -> Ints:
    """The parents of rows with a moment, by thread and time."""
    where = np.where(rows["tid"] >= 0, rows["tid"], rows["path"]).astype(np.int64)
    thread = np.unique((rows["process"].astype(np.int64) << 32) + where, return_inverse=True)[1].ravel()
    begin, end = rows["time"], rows["time"] + rows["duration"]
    span = rows["layer"] < Layer.STDIO
    open_spans = _open_at(thread, begin, end, span)
    order = np.lexsort((np.arange(len(rows)), thread))  # rows are in order of time
    found = np.zeros(len(rows), np.int64)
    ranked = np.empty(len(rows), np.int64)
    ranked[order] = np.arange(len(rows))
    for depth in range(min(int(open_spans.max(initial=0)), _DEEPEST)):
        spans = order[span[order] & (open_spans[order] == depth)]
        inside = np.flatnonzero(open_spans == depth + 1)
        if not len(spans) or not len(inside):
            continue
        parent = spans[np.maximum(np.searchsorted(ranked[spans], ranked[inside]) - 1, 0)]
        encloses = (thread[parent] == thread[inside]) & (begin[parent] <= begin[inside])
        encloses &= end[parent] + _ROUNDED >= end[inside]
        found[inside[encloses]] = at[parent[encloses]] + 1
    return found


def _open_at(thread: Ints, begin: Ints, end: Ints, span: NDArray[np.bool_]) -> Ints:
    """How many earlier spans of its thread are open when each row begins."""
    spans, size = np.flatnonzero(span), len(thread)
    # of events at one moment: ends, then beginnings in the order of rows; an empty span ends after its beginning
    moment = np.concatenate([begin, np.maximum(end[spans], begin[spans] + 1)])
    kind = np.concatenate([np.ones(size, np.int8), np.zeros(len(spans), np.int8)])
    change = np.concatenate([span.astype(np.int64), np.full(len(spans), -1)])
    number = np.concatenate([np.arange(size), spans])
    of = np.concatenate([thread, thread[spans]])
    order = np.lexsort((number, kind, moment, of))
    total = np.cumsum(change[order])  # of each thread, all spans end: it begins with 0
    found = np.zeros(size, np.int64)
    beginnings = order < size
    found[order[beginnings]] = total[beginnings] - change[order[beginnings]]
    return found
