"""Names of columns and fields in Parquet logs of earlier versions.

Version 3 renamed columns whose names are methods or keywords in pandas, polars
and SQL.  Everything else in a log of version 2 is the same as today.
"""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import Any

from pyio_trace.enums import Role

#: Earlier versions that can be read, and their column names: today's name -> the name in the file.
COLUMNS: dict[int, dict[str, str]] = {
    2: {
        "file_offset": "offset", "bytes_requested": "size", "bytes_moved": "moved", "call_stack": "stack",
        "calls": "count", "to_file_offset": "to_offset",
    },
}  # fmt: skip
#: The name of today of each column that was renamed, by its earlier name.
RENAMED_COLUMNS = {stored: name for columns in COLUMNS.values() for name, stored in columns.items()}
#: As COLUMNS, for fields of the description, by table.
FIELDS: dict[int, dict[str, dict[str, str]]] = {
    2: {
        "processes": {"call_stack": "stack"},
        "counters": {"calls": "count"},
        "mappings": {"mappings": "count"},
    },
}


#: In logs without roles: the named spans that are no requests, by patterns of their names.
_SPAN_ROLES = {
    "DataLoader.__iter__": Role.STARTING, "DataLoader.__next__": Role.WAIT, "DataLoader.fetch": Role.CONTAINER,
    "task": Role.CONTAINER, "ray.task": Role.CONTAINER, "ray.actor_task": Role.CONTAINER,
    "torch.distributed.checkpoint.async_save": Role.CONTAINER,
    "dask.*.to_*": Role.WAIT, "dask.array.store": Role.WAIT, "dask.*": Role.CONTAINER,
}  # fmt: skip


def span_role(name: str) -> int:
    """The role of a named span of the layer app, in a log that does not say it."""
    return next((role for pattern, role in _SPAN_ROLES.items() if fnmatchcase(name, pattern)), Role.REQUEST)


def stored_names(version: int) -> dict[str, str]:
    """Columns that have another name in a log of this version: today's name -> the name in the file."""
    return COLUMNS.get(version, {})


def upgraded(description: dict[str, Any]) -> dict[str, Any]:
    """The description with today's names.  Rows that are not objects stay as they are, for the reader to reject."""
    tables = FIELDS.get(description["version"], {})
    return description | {name: [_renamed(row, names) for row in description[name]] for name, names in tables.items()}


def _renamed(row: Any, names: dict[str, str]) -> Any:
    if not isinstance(row, dict):
        return row
    today = {stored: name for name, stored in names.items()}
    return {today.get(name, name): value for name, value in row.items()}
