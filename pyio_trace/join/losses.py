"""What a live log does not have: counters of what was not recorded, losses, and the run's description."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from pyio_trace import events
from pyio_trace.join.arrays import table_of_rows
from pyio_trace.join.processes import Process
from pyio_trace.join.vocabulary import Vocabulary
from pyio_trace.log import layout
from pyio_trace.log.live import LiveLog

if TYPE_CHECKING:
    import pyarrow as pa

_REASONS = {
    layout.FULL_BUDGET: "the log reached its size limit",
    layout.FULL_DISK: "disk full",
    layout.FULL_LIMIT: "file-size limit of the process",
}


def counters_schema() -> pa.Schema:
    """The counters table's columns: see read_counters."""
    import pyarrow as pa

    text, big = pa.string(), pa.int64()
    return pa.schema(
        {
            "process": pa.int32(), "pid": pa.int32(), "why": text, "layer": text, "op_class": text, "op": text,
            "kind": text, "count": big, "bytes": big, "duration": big, "errors": big,
        }
    )  # fmt: skip


def counters_table(rows: list[dict[str, Any]]) -> pa.Table:
    """Counter rows as a table."""
    return table_of_rows(rows, counters_schema())


def read_counters(log: LiveLog, words: Vocabulary, processes: list[Process]) -> list[dict[str, Any]]:
    """Exact counters of operations that have no row.

    why: "counted" (the log was full, or counts were all that was asked for; by
    layer, op_class and op) or "excluded" (pipes, sockets, ...: not recorded by
    choice; by kind).  bytes: moved; duration: ns; null where not kept.
    process null: of processes that had no entry left.
    """
    position, number, counters = log.counted
    times = log.clock.span(counters["ticks"].view(np.int64)).tolist()
    rows: list[tuple[int, dict[str, Any]]] = []
    for at, operation, counter, time in zip(position.tolist(), number.tolist(), counters, times, strict=True):
        if counter["count"]:
            figures = {name: _signed(counter[name]) for name in ("count", "bytes", "errors")}
            rows.append((at, _named(words, operation) | figures | {"duration": time}))
    for first, entries in ((-1, np.array([log.header])), (0, log.processes())):
        for at, kind in np.argwhere(entries["excluded_ops"]).tolist():
            left_out = {
                "kind": layout.DESC_KINDS[kind] if kind < len(layout.DESC_KINDS) else f"kind-{kind}",
                "count": _signed(entries["excluded_ops"][at, kind]),
                "bytes": _signed(entries["excluded_bytes"][at, kind]),
            }
            rows.append((at + first, {"why": "excluded"} | left_out))
    rows.sort(key=lambda row: row[0])  # of one process: what was counted first
    return [_of(processes[at] if at >= 0 else None) | row for at, row in rows]


def _named(words: Vocabulary, number: int) -> dict[str, Any]:
    layer, klass = events.LAYERS[words.layer[number]], events.CLASSES[words.klass[number]]
    return {"why": "counted", "layer": layer, "op_class": klass, "op": words.names[number]}


def _of(process: Process | None) -> dict[str, Any]:
    return {"process": process.index if process else None, "pid": process.pid if process else None}


def _left_alone(process: Process) -> bool:
    """Standard-library helpers that are not traced on purpose (capture/bootstrap.py): no I/O of the program's."""
    return any("multiprocessing.resource_tracker import" in word for word in process.argv)


def read_losses(log: LiveLog, processes: list[Process], mappings: list[dict[str, Any]]) -> dict[str, Any]:
    """What is known to be missing; empty if nothing.

    operations_counted_only, since (ns since the epoch), reason: the log was
    full, and files and lines first met after that may have no name;
    unfollowed_children: command lines of children that did not trace
    themselves; unfollowed: how many there were in all; torn: bytes of the log
    that are not there or not readable; tracer_faults: of pyio_trace itself.
    unseen_read, unseen_written: bytes moved by calls that passed the hooks by
    (estimated; of the processes where they are more than 64 KiB and 1 %);
    mapped_touched, mapped_at_least, mapped_written: bytes of pages of mapped
    files (estimated); mappings_unmeasured: how many more mappings there were.
    """
    header = log.header
    losses: dict[str, Any] = {}
    full = int(header["full_reason"])
    if int(header["lost"]) or full:
        losses["operations_counted_only"] = _signed(header["lost"])
        losses["since"] = log.clock.epoch_of(int(header["full_since"])) if header["full_since"] else None
        losses["reason"] = _REASONS.get(full, "not known")
    children = [
        process.argv or [process.executable]
        for process in processes
        if not process.followed and not _left_alone(process)
    ]
    gone_on = {
        process.parent
        for process in processes
        if process.parent is not None and processes[process.parent].pid == process.pid
    }
    children += [
        process.argv
        for process in processes
        if process.followed and process.ended == "exec" and process.index not in gone_on
    ]
    if children:
        losses["unfollowed_children"] = children
    if children or int(header["unfollowed"]):
        losses["unfollowed"] = max(int(header["unfollowed"]), len(children))
    if log.torn:
        losses["torn"] = log.torn
    if int(header["fault_count"]):
        losses["tracer_faults"] = _signed(header["fault_count"])
    return losses | passed_by(processes) | _mapped(mappings)


def passed_by(processes: list[Process]) -> dict[str, int]:
    """Sums of what passed the hooks by, of the processes where it is more than the method's error."""
    sums = {}
    for unseen, kernel in (("unseen_read", "kernel_read"), ("unseen_written", "kernel_written")):
        figures = [(getattr(process, unseen) or 0, getattr(process, kernel) or 0) for process in processes]
        bytes_ = sum(size for size, moved in figures if size > 65536 and size * 100 > moved)
        if bytes_:
            sums[unseen] = bytes_
    return sums


def _mapped(mappings: list[dict[str, Any]]) -> dict[str, int]:
    sums = {f"mapped_{name}": sum(row[name] for row in mappings) for name in ("touched", "at_least", "written")}
    sums["mappings_unmeasured"] = sum(row["unmeasured"] for row in mappings)
    return {name: value for name, value in sums.items() if value}


def read_info(log: LiveLog, processes: list[Process], rows: int) -> dict[str, Any]:
    """The run: run (id), host, boot, owner_pid, start, end (ns since the epoch; end null while some process
    runs), mode, format, version, records, bytes (of the log), bytes_per_operation and ring_since (ns since the
    epoch: a ring wrote over operations that began up to then, and has all later ones; null: it wrote over none)."""
    header = log.header
    mode = int(header["mode"])
    used = min(int(header["next"]), log.file.whole)
    ends = [process.end for process in processes if process.end is not None]
    running = any(process.ended == "running" for process in processes)
    return {
        "run": f"{int(header['run_id']):016x}",
        "host": bytes(header["host"]).decode("utf-8", "backslashreplace"),
        "boot": bytes(header["boot_id"]).decode("utf-8", "backslashreplace"),
        "owner_pid": int(header["owner_pid"]),
        "start": int(header["first"]["real"]),
        "end": max(ends) if ends and not running else None,
        "mode": layout.MODES[mode] if mode < len(layout.MODES) else "unknown",
        "format": "live",
        "version": int(header["version"]),
        "records": rows,
        "bytes": used,
        "bytes_per_operation": used / rows if rows else None,
        "ring_since": log.clock.epoch_of(int(header["ring_lost"])) if header["ring_lost"] else None,
    }


def _signed(value: np.generic) -> int:
    return min(int(value), np.iinfo(np.int64).max)
