"""The system beside the program in a live log: its raw rows with times and names in place of ticks and bytes."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pyio_trace.join.base.system import MOST, NAMES, NOTHING, System, bounded
from pyio_trace.join.tables.log_tables import LogTables
from pyio_trace.log import layout
from pyio_trace.log.samples import read_system

_MOST_ID, _UNKNOWN = np.uint64((1 << 63) - 1), np.uint64(layout.SYSTEM_UNKNOWN)


def system_of(tables: LogTables, host: str) -> System:
    """What the sampler of a log saw of the machine."""
    parts: list[NDArray[np.void]] = []
    rows = 0
    for raw in read_system(tables.log.file, tables.log.chunks):
        known = raw[raw["kind"] < len(layout.SYSTEM_KINDS)]
        parts.append(known[: MOST - rows])
        rows += len(parts[-1])
    if not rows:
        return NOTHING
    raw = np.concatenate(parts)
    names, place = np.unique(raw["name"], return_inverse=True)
    numbers = {name: np.minimum(raw[name], _MOST_ID).astype(np.int64) for name in ("ticks", "device", "pid")}
    columns = dict.fromkeys(NAMES, np.full(rows, -1, np.int64)) | {
        "time": tables.clock.epoch(np.minimum(raw["begin"], _MOST_ID)),
        "duration": tables.clock.span(numbers["ticks"]),
        "kind": raw["kind"].astype(np.int64),
        "host": np.zeros(rows, np.int64),
        "name": place.ravel().astype(np.int64) + 1,
    }
    of_disks = columns["kind"] == layout.SYSTEM_KINDS.index("disk")
    of_processes = (columns["kind"] == layout.SYSTEM_KINDS.index("other")) & (numbers["pid"] > 0)
    columns["pid"] = np.where(of_processes, numbers["pid"], -1)
    columns["device"] = np.where(of_disks, numbers["device"], -1)
    for kind, values in enumerate(layout.SYSTEM_COLUMNS.values()):
        mine = np.flatnonzero(columns["kind"] == kind)
        for at, name in enumerate(values):
            given = raw["values"][mine, at]
            columns[name] = columns[name].copy()
            columns[name][mine] = np.where(given == _UNKNOWN, -1, np.minimum(given, _MOST_ID).astype(np.int64))
    texts = [host, *(name.decode("utf-8", "backslashreplace") for name in names.tolist())]
    return System(bounded(columns), texts)
