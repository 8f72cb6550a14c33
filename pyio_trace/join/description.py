"""What a Parquet log's description has to be, so that nobody who reads it need look again.

It is JSON in a file that anyone may have written: numbers may be words, lists
numbers, and anything may be missing.
"""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, Any

from pyio_trace import events
from pyio_trace.join.losses import counters_table
from pyio_trace.join.mappings import mappings_table
from pyio_trace.join.processes import Process, table_of

if TYPE_CHECKING:
    import pyarrow as pa

#: Of info, what may be there and of which type; the first ones have to be.
_INFO: dict[str, Any] = {
    "run": str, "host": str, "start": int, "end": int | None, "mode": str,
    "boot": str, "owner_pid": int, "version": int, "records": int, "logs": list,
    "format": str, "bytes": int, "bytes_per_operation": int | float | None,
    "ring_since": int | None,
}  # fmt: skip
#: Folders packed with packed folders in them.
_DEEPEST = 8
_NEEDED = ("run", "host", "start", "end", "mode")
_PROCESS = [field.name for field in fields(Process)]
#: Columns of the process table that are null where something is not known.
_KNOWN = ("index", "host", "pid", "ppid", "start", "begin", "ended", "argv", "executable", "version", "followed",
          "lost", "blind", "stack_state", "note")  # fmt: skip


def is_sound(description: dict[str, Any]) -> bool:
    """Whether info, processes, losses, counters and mappings are what the tables made of them promise."""
    import pyarrow as pa

    try:
        processes, counters = table_of(description["processes"]), counters_table(description["counters"])
        processes.validate(full=True)
        counters.validate(full=True)
        mappings = mappings_table(description["mappings"])
        mappings.validate(full=True)
        return (
            all(row.keys() >= set(_PROCESS) for row in description["processes"])
            and all("process" in row for row in description["counters"] + description["mappings"])
            and _sound_processes(processes)
            and _sound_counters(counters, processes.num_rows)
            and _sound_mappings(mappings, processes.num_rows)
            and _sound_info(description["info"])
            and all(_sound_loss(name, value) for name, value in description["losses"].items())
        )
    except (pa.ArrowException, TypeError, AttributeError, ValueError, OverflowError, KeyError):
        return False


def processes_of(description: dict[str, Any]) -> list[dict[str, Any]]:
    """The rows of the process table, of a sound description."""
    return [{name: row[name] for name in _PROCESS} for row in description["processes"]]


def info_of(info: dict[str, Any]) -> dict[str, Any]:
    """What is known of the run: nothing but what is promised."""
    known = {name: info[name] for name in _INFO if name in info}
    if "logs" in known:
        known["logs"] = [info_of(log) for log in known["logs"]]
    return known


def _sound_info(info: dict[str, Any], depth: int = 0) -> bool:
    return (
        depth < _DEEPEST
        and info.keys() >= set(_NEEDED)
        and all(isinstance(info[name], kind) for name, kind in _INFO.items() if name in info)
        and all(_fits(value) for value in info.values() if isinstance(value, int))
        and all(isinstance(log, dict) and _sound_info(log, depth + 1) for log in info.get("logs", ()))
    )


def _sound_processes(table: pa.Table) -> bool:
    rows = table.num_rows
    parents = [parent for parent in table["parent"].to_pylist() if parent is not None]
    lists = (table[name].combine_chunks().flatten() for name in ("argv", "blind"))
    return (
        all(table[name].null_count == 0 for name in _KNOWN)
        and all(texts.null_count == 0 for texts in lists)
        and table["index"].to_pylist() == list(range(rows))
        and all(0 <= parent < rows for parent in parents)
    )


def _sound_counters(table: pa.Table, processes: int) -> bool:
    return all(
        (row["process"] is None or 0 <= row["process"] < processes)
        and row["why"] in ("counted", "excluded")
        and (row["why"] == "counted" or row["kind"] is not None)
        and row["layer"] in (None, *events.LAYERS)
        and row["op_class"] in (None, *events.CLASSES)
        and (row["count"] or 0) >= 0
        and (row["bytes"] or 0) >= 0
        for row in table.to_pylist()
    )


def _sound_mappings(table: pa.Table, processes: int) -> bool:
    own = [process for process in table["process"].to_pylist() if process is not None]
    known = [name for name in table.schema.names if name not in ("process", "pid", "path")]
    return all(table[name].null_count == 0 for name in known) and all(0 <= process < processes for process in own)


def _sound_loss(name: str, value: Any) -> bool:
    """Counts, but for the reason, the moment, and lists of command lines or of texts."""
    if name == "reason":
        return isinstance(value, str)
    if name == "since":
        return value is None or (isinstance(value, int) and _fits(value))
    if name == "unfollowed_children":
        return isinstance(value, list) and all(isinstance(one, list) and _texts(one) for one in value)
    if name == "unreadable_logs":
        return isinstance(value, list) and _texts(value)
    return isinstance(value, int) and 0 <= value < 1 << 64


def _texts(values: list[Any]) -> bool:
    return all(isinstance(value, str) for value in values)


def _fits(number: int) -> bool:
    return -(1 << 63) <= number < 1 << 63
