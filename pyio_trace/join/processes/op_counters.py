"""Exact counters of operations that have no row."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from pyio_trace import enums
from pyio_trace.join.base.arrow_arrays import table_of_rows
from pyio_trace.join.base.vocabulary import Vocabulary
from pyio_trace.join.processes.process_table import Process, int64
from pyio_trace.log import layout
from pyio_trace.log.live import LiveLog

if TYPE_CHECKING:
    import pyarrow as pa


def counters_schema() -> pa.Schema:
    """The counters table's columns: see read_counters."""
    import pyarrow as pa

    text, big = pa.string(), pa.int64()
    return pa.schema(
        {
            "process": pa.int32(), "pid": pa.int32(), "why": text, "layer": text, "op_class": text, "op": text,
            "kind": text, "calls": big, "bytes": big, "duration": big, "errors": big,
        }
    )  # fmt: skip


def counters_table(rows: list[dict[str, Any]]) -> pa.Table:
    """Counter rows as a table."""
    return table_of_rows(rows, counters_schema())


def read_counters(log: LiveLog, words: Vocabulary, processes: list[Process]) -> list[dict[str, Any]]:
    """The rows of the counters table.

    why: "counted" (the log was full, or counts were all that was asked for; by
    layer, op_class and op) or "excluded" (pipes, sockets, ...: not recorded by
    choice; by kind).  bytes: moved; duration: ns; null where not kept.
    process null: of processes for which the log had no entry left.
    """
    rows = _counted(log, words) + _excluded(log)
    rows.sort(key=lambda row: row[0])  # stable: of one process, "counted" rows first
    return [_owner(processes[at] if at >= 0 else None) | row for at, row in rows]


#: (position of the process or -1, fields of a row)
_Row = tuple[int, dict[str, Any]]


def _counted(log: LiveLog, words: Vocabulary) -> list[_Row]:
    position, number, counters = log.counted
    times = log.clock.span(counters["ticks"].view(np.int64)).tolist()
    rows: list[_Row] = []
    for at, operation, counter, time in zip(position.tolist(), number.tolist(), counters, times, strict=True):
        if counter["count"]:
            fields = {"calls": "count", "bytes": "bytes", "errors": "errors"}
            figures = {name: int64(int(counter[field])) for name, field in fields.items()}
            rows.append((at, _operation(words, operation) | figures | {"duration": time}))
    return rows


def _excluded(log: LiveLog) -> list[_Row]:
    rows: list[_Row] = []
    for first, entries in ((-1, np.array([log.header])), (0, log.processes())):
        for at, kind in np.argwhere(entries["excluded_ops"]).tolist():
            figures = {
                "kind": layout.DESC_KINDS[kind] if kind < len(layout.DESC_KINDS) else f"kind-{kind}",
                "calls": int64(int(entries["excluded_ops"][at, kind])),
                "bytes": int64(int(entries["excluded_bytes"][at, kind])),
            }
            rows.append((at + first, {"why": "excluded"} | figures))
    return rows


def _operation(words: Vocabulary, number: int) -> dict[str, Any]:
    layer, klass = enums.LAYERS[words.layer[number]], enums.CLASSES[words.klass[number]]
    return {"why": "counted", "layer": layer, "op_class": klass, "op": words.names[number]}


def _owner(process: Process | None) -> dict[str, Any]:
    return {"process": process.index if process else None, "pid": process.pid if process else None}
