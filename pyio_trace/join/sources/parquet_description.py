"""Checks the description in a Parquet log, so that its readers need not.

It is JSON in a file that anyone may have written: any value may have the wrong
type or be missing.
"""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, Any

from pyio_trace import enums
from pyio_trace.join.processes.mapped_files import mappings_table
from pyio_trace.join.processes.op_counters import counters_table
from pyio_trace.join.processes.process_names import add_names
from pyio_trace.join.processes.process_table import Process, arrow_schema, table_of

if TYPE_CHECKING:
    import pyarrow as pa

#: Keys of info and their types; those of _NEEDED must be there.
_INFO: dict[str, Any] = {
    "run": str, "host": str, "start": int, "end": int | None, "mode": str,
    "boot": str, "owner_pid": int, "version": int, "records": int, "logs": list,
    "format": str, "bytes": int, "bytes_per_operation": int | float | None,
    "ring_since": int | None, "cores": int | None, "file_systems": dict | None,
    "lock_options": dict | None, "clock_error": int | None, "files_by_path": int, "tool": str,
    "sampling_hz": int, "sampler_refused": int, "sampler_cpu": int,
}  # fmt: skip
#: Tables of mount points.
_MOUNTS = ("file_systems", "lock_options")
#: Most levels of packed folders in packed folders.
_DEEPEST = 8
_NEEDED = ("run", "host", "start", "end", "mode")
_PROCESS = [field.name for field in fields(Process)]
#: Those that older Parquet logs do not have.
_ADDED = {
    "end_by", "process_kind", "process_name", "global_rank", "local_rank", "world_size", "cpu_user", "cpu_system",
    "imports", "import_time", "early_import_time", "script_begin", "import_packages", "import_package_times",
    "watch_time", "program_packages", "node", "job", "step", "job_run", "mpi_init_begin", "mpi_init_end",
}  # fmt: skip
#: Lists that belong together.
_PACKAGES = ("import_packages", "import_package_times")
#: Columns of the process table that are never null.
_KNOWN = ("index", "host", "pid", "ppid", "start", "begin", "ended", "argv", "executable", "version", "followed",
          "lost", "blind", "stack_state", "note")  # fmt: skip


def is_sound(description: dict[str, Any]) -> bool:
    """Whether info, processes, losses, counters and mappings fit the tables that are made of them."""
    import pyarrow as pa

    try:
        if not all(_are_of(description[name], schema) for name, schema in _schemas().items()):
            return False
        processes, counters = table_of(description["processes"]), counters_table(description["counters"])
        processes.validate(full=True)
        counters.validate(full=True)
        mappings = mappings_table(description["mappings"])
        mappings.validate(full=True)
        return (
            all(row.keys() >= set(_PROCESS) - _ADDED for row in description["processes"])
            and all("process" in row for row in description["counters"] + description["mappings"])
            and _sound_processes(processes)
            and _sound_counters(counters, processes.num_rows)
            and _sound_mappings(mappings, processes.num_rows)
            and _sound_info(description["info"])
            and all(_sound_loss(name, value) for name, value in description["losses"].items())
        )
    except (pa.ArrowException, TypeError, AttributeError, ValueError, OverflowError, KeyError):
        return False


def _schemas() -> dict[str, pa.Schema]:
    return {"processes": arrow_schema(), "counters": counters_table([]).schema, "mappings": mappings_table([]).schema}


def _are_of(rows: list[Any], schema: pa.Schema) -> bool:
    """Whether each value has the type of its column, which readers of the rows rely on.  pyarrow alone would accept
    more: a text for a list, ``{}`` for 0."""
    return all(isinstance(row, dict) for row in rows) and all(
        _is_of([row.get(one.name) for row in rows], one.type) for one in schema
    )


def _is_of(values: list[Any], kind: pa.DataType) -> bool:
    import pyarrow as pa

    if pa.types.is_list(kind):
        lists = [value for value in values if value is not None]
        return all(type(value) is list for value in lists) and _is_of(
            [one for v in lists for one in v], kind.value_type
        )
    wanted = str if pa.types.is_string(kind) else bool if pa.types.is_boolean(kind) else int
    return all(value is None or type(value) is wanted for value in values)


def processes_of(description: dict[str, Any]) -> list[dict[str, Any]]:
    """The rows of the process table, from a sound description; names that it lacks come from the command lines."""
    rows = [{name: row.get(name) for name in _PROCESS} for row in description["processes"]]
    for row in rows:
        if row["end_by"] == "reader":  # an older log, with the moment at which the process was found gone
            row["end"] = row["end_by"] = None
    add_names(rows)
    return rows


def renames_of(description: dict[str, Any]) -> list[dict[str, Any]]:
    """The renames that are sound; older logs have none."""
    found = description.get("renames", [])
    texts = ("path", "to", "how")
    return [
        {"file": one["file"], **{name: one[name] for name in texts}}
        for one in (found if isinstance(found, list) else [])
        if isinstance(one, dict)
        and all(isinstance(one.get(name), str) for name in texts)
        and isinstance(one.get("file"), int)
        and _fits(one["file"])
    ]


def info_of(info: dict[str, Any]) -> dict[str, Any]:
    """The documented keys of info, and no others."""
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
        and all(_texts([text for pair in (info.get(name) or {}).items() for text in pair]) for name in _MOUNTS)
        and all(isinstance(log, dict) and _sound_info(log, depth + 1) for log in info.get("logs", ()))
    )


def _sound_processes(table: pa.Table) -> bool:
    rows = table.num_rows
    parents = [parent for parent in table["parent"].to_pylist() if parent is not None]
    lists = (
        table[name].combine_chunks().values for name in ("argv", "blind", "program_packages", *_PACKAGES)
    )  # flatten() imports much
    packages = zip(*(table[name].to_pylist() for name in _PACKAGES), strict=True)
    return (
        all(table[name].null_count == 0 for name in _KNOWN)
        and all(texts.null_count == 0 for texts in lists)
        and all(len(names or ()) == len(times or ()) for names, times in packages)
        and table["index"].to_pylist() == list(range(rows))
        and all(0 <= parent < rows for parent in parents)
    )


def _sound_counters(table: pa.Table, processes: int) -> bool:
    return all(
        (row["process"] is None or 0 <= row["process"] < processes)
        and row["why"] in ("counted", "excluded")
        and (row["why"] == "counted" or row["kind"] is not None)
        and row["layer"] in (None, *enums.LAYERS)
        and row["op_class"] in (None, *enums.CLASSES)
        and (row["calls"] or 0) >= 0
        and (row["bytes"] or 0) >= 0
        for row in table.to_pylist()
    )


def _sound_mappings(table: pa.Table, processes: int) -> bool:
    own = [process for process in table["process"].to_pylist() if process is not None]
    known = [name for name in table.schema.names if name not in ("process", "pid", "path")]
    return all(table[name].null_count == 0 for name in known) and all(0 <= process < processes for process in own)


def _sound_loss(name: str, value: Any) -> bool:
    """All losses are counts, except the reason, the moment, and lists of command lines or texts."""
    if name == "reason":
        return isinstance(value, str)
    if name == "since":
        return value is None or (isinstance(value, int) and _fits(value))
    if name == "unfollowed_children":
        return isinstance(value, list) and all(isinstance(one, list) and _texts(one) for one in value)
    if name in ("unreadable_logs", "raw_call_libraries", "sampler_refused", "not_in_log"):
        return isinstance(value, list) and _texts(value)
    return isinstance(value, int) and 0 <= value < 1 << 64


def _texts(values: list[Any]) -> bool:
    return all(isinstance(value, str) for value in values)


def _fits(number: int) -> bool:
    return -(1 << 63) <= number < 1 << 63
