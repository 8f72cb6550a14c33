"""Flows of a picture: from the span that handed work over to the work, and from a loader's fetch to the wait for it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from pyio_trace.analysis.calls.code_texts import texts
from pyio_trace.analysis.calls.details import number, parsed, text
from pyio_trace.analysis.view_sums.loader_calls import FETCH, WAIT, hosts
from pyio_trace.timeline.choice import Rows

if TYPE_CHECKING:
    from pyio_trace.join.sources.facade import Log

Ints = NDArray[np.int64]


def flows(rows: Rows, track: Ints, log: Log) -> tuple[Ints, Ints]:
    """(source, target) of each flow, as places in the rows; track: of each row."""
    parts = [_handed_over(rows, track), _fetched(rows, log)]
    return np.concatenate([one for one, _ in parts]), np.concatenate([other for _, other in parts])


def _handed_over(rows: Rows, track: Ints) -> tuple[Ints, Ints]:
    """From a span to the first operation of another thread in it."""
    order = np.argsort(rows["id"], kind="stable")
    ids = rows["id"][order]
    if not len(ids):
        return order, order
    place = np.minimum(np.searchsorted(ids, rows["parent"]), len(ids) - 1)
    source = order[place]
    target = np.flatnonzero((rows["parent"] > 0) & (ids[place] == rows["parent"]) & (track[source] != track))
    target = target[np.argsort(rows["time"][target], kind="stable")]
    pairs = np.stack([source[target], track[target]], axis=1)
    _, first = np.unique(pairs, axis=0, return_index=True)
    # each container, such as a task, is work of its own; what has none begins with its first operation
    first = np.union1d(first, np.flatnonzero(rows["container"][target]))
    return source[target[first]], target[first]


def _fetched(rows: Rows, log: Log) -> tuple[Ints, Ints]:
    """From the fetch of a batch to the wait for it."""
    words = log.dictionary("op").to_pylist()
    of_loaders = [code for code, word in enumerate(words) if word in (FETCH, WAIT)]
    at = np.flatnonzero(np.isin(rows["op"], of_loaders))
    details = parsed(log, rows["detail"][at].astype(np.int64))
    host_of = hosts(log.processes().to_pylist())
    ops = texts(log, "op", rows["op"][at].astype(np.int64))
    found: dict[tuple[object, ...], dict[str, int]] = {}
    for op, row, process, detail in zip(
        ops, at.tolist(), rows["process"][at].tolist(), rows["detail"][at].tolist(), strict=True
    ):
        about = details[detail]
        batch = text(about, "loader"), number(about, "epoch"), number(about, "batch")
        if op is not None and None not in batch and "raised" not in about:
            found.setdefault((host_of(process), *batch), {})[op] = row
    pairs = [(one[FETCH], one[WAIT]) for one in found.values() if len(one) == 2]
    both = np.array(pairs, np.int64).reshape(-1, 2)
    return both[:, 0], both[:, 1]
