"""Dask: every task that a local scheduler runs, and the calls that build what reads and writes.

A call such as read_parquet moves few of its bytes itself: tasks do, later, in
whatever thread or process.  So what counts is the span around each task; all
operations beneath it know its key.  Where the scheduler is one of processes,
their interpreters import dask.local to run tasks, and are armed by that.
distributed's workers run tasks in functions of their own: instruments/distributed.py.
"""

from __future__ import annotations

import sys

from pyio_trace.capture.instrument import Instrument, Target

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def named(key: Any) -> dict[str, object]:
    """A task's key as Dask shows it, and the prefix under which Dask sums tasks up."""
    utils = sys.modules.get("dask.utils")
    return {"key": str(key), "prefix": utils.key_split(key) if utils else None}


def _task(key: Any, *args: Any, **kwargs: Any) -> dict[str, object]:
    return named(key)


def _ended(result: Any, *args: Any, **kwargs: Any) -> dict[str, object] | None:
    return {"failed": True} if result[2] else None


class _Where:
    """Which argument says where the data is: one file or folder is the span's path, anything else a detail."""

    __slots__ = ("name", "position")

    def __init__(self, position: int, name: str) -> None:
        self.position = position
        self.name = name

    def _value(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        return args[self.position] if len(args) > self.position else kwargs.get(self.name)

    def path(self, *args: Any, **kwargs: Any) -> object:
        """The path, or None where there are several, or a pattern of them."""
        value = self._value(args, kwargs)
        return None if isinstance(value, str) and "*" in value else value

    def details(self, *args: Any, **kwargs: Any) -> dict[str, object] | None:
        """The pattern, or how many paths there are."""
        value = self._value(args, kwargs)
        if isinstance(value, str):
            return {"pattern": value} if "*" in value else None
        return {"paths": len(value)} if isinstance(value, (list, tuple)) and len(value) > 1 else None


def _io(module: str, function: str, position: int, argument: str) -> Target:
    """A reader or a writer: `argument`, at `position`, is where the data is."""
    where = _Where(position, argument)
    name = ".".join((*module.split(".")[:2], function))
    return Target(
        function, module=module, name=name, path=where.path, details=where.details, optional=True
    )  # where a version has them elsewhere, the tasks and what is beneath them are there still


instrument = Instrument(
    "dask",
    minimum="2025.1",
    targets=(
        Target("execute_task", module="dask.local", name="task", details=_task, after=_ended),
        _io("dask.dataframe.io.csv", "read_csv", 0, "urlpath"),
        _io("dask.dataframe.io.csv", "read_table", 0, "urlpath"),
        _io("dask.dataframe.io.csv", "read_fwf", 0, "urlpath"),
        _io("dask.dataframe.io.csv", "to_csv", 1, "filename"),
        _io("dask.dataframe.io.json", "read_json", 0, "url_path"),
        _io("dask.dataframe.io.json", "to_json", 1, "url_path"),
        _io("dask.dataframe.io.hdf", "read_hdf", 0, "pattern"),
        _io("dask.dataframe.io.hdf", "to_hdf", 1, "path"),
        _io("dask.dataframe.io.orc.core", "read_orc", 0, "path"),
        _io("dask.dataframe.io.orc.core", "to_orc", 1, "path"),
        # the last arguments of these are databases, which may have passwords in their names
        Target("read_sql_table", module="dask.dataframe.io.sql", name="dask.dataframe.read_sql_table", optional=True),
        Target("read_sql_query", module="dask.dataframe.io.sql", name="dask.dataframe.read_sql_query", optional=True),
        Target("to_sql", module="dask.dataframe.io.sql", name="dask.dataframe.to_sql", optional=True),
        _io("dask.dataframe.dask_expr._collection", "read_parquet", 0, "path"),
        _io("dask.dataframe.dask_expr.io.parquet", "to_parquet", 1, "path"),
        _io("dask.dataframe.io.parquet.core", "read_parquet", 0, "path"),
        _io("dask.dataframe.io.parquet.core", "to_parquet", 1, "path"),
        Target("store", module="dask.array.core", name="dask.array.store", optional=True),
        _io("dask.array.core", "from_zarr", 0, "url"),
        _io("dask.array.core", "to_zarr", 1, "url"),
        _io("dask.array.core", "to_hdf5", 0, "filename"),
        _io("dask.array.core", "from_npy_stack", 0, "dirname"),
        _io("dask.array.core", "to_npy_stack", 0, "dirname"),
        _io("dask.array.tiledb_io", "from_tiledb", 0, "uri"),
        _io("dask.array.tiledb_io", "to_tiledb", 1, "uri"),
        _io("dask.array.image", "imread", 0, "filename"),
        _io("dask.bag.text", "read_text", 0, "urlpath"),
        _io("dask.bag.core", "to_textfiles", 1, "path"),
        _io("dask.bag.avro", "read_avro", 0, "urlpath"),
        _io("dask.bag.avro", "to_avro", 1, "filename"),
    ),
)
