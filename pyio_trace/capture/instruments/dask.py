"""Dask: each task that a local scheduler runs, and the calls that build readers and writers.

A call such as read_parquet moves few bytes itself; tasks move most of them
later, in any thread or process.  So the important span is that of a task: all
operations in it know its key.  The processes of the multiprocessing scheduler
import dask.local to run tasks, which arms this instrument there.  The workers of
distributed run tasks by functions of their own: see distributed.py.
"""

from __future__ import annotations

import sys

from pyio_trace.capture.instrumentation.instrument import Instrument, Target

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def named(key: Any) -> dict[str, object]:
    """A task's key as Dask shows it, and the prefix by which Dask groups tasks."""
    utils = sys.modules.get("dask.utils")
    return {"key": str(key), "prefix": utils.key_split(key) if utils else None}


def _task(key: Any, *args: Any, **kwargs: Any) -> dict[str, object]:
    return named(key)


def _ended(result: Any, *args: Any, **kwargs: Any) -> dict[str, object] | None:
    return {"failed": True} if result[2] else None


class _Where:
    """The argument that says where the data is: one file or folder becomes the span's path, anything else a detail."""

    __slots__ = ("name", "position")

    def __init__(self, position: int, name: str) -> None:
        self.position = position
        self.name = name

    def _value(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        return args[self.position] if len(args) > self.position else kwargs.get(self.name)

    def path(self, *args: Any, **kwargs: Any) -> object:
        """The path; None for several paths or a pattern."""
        value = self._value(args, kwargs)
        return None if isinstance(value, str) and "*" in value else value

    def details(self, *args: Any, **kwargs: Any) -> dict[str, object] | None:
        """The pattern, or how many paths there are."""
        value = self._value(args, kwargs)
        if isinstance(value, str):
            return {"pattern": value} if "*" in value else None
        return {"paths": len(value)} if isinstance(value, (list, tuple)) and len(value) > 1 else None


def _io(module: str, function: str, position: int, argument: str) -> Target:
    """A reader or writer: `argument`, at `position`, says where the data is."""
    where = _Where(position, argument)
    return _graph(module, function, path=where.path, details=where.details)


def _graph(module: str, function: str, **rest: Any) -> Target:
    """What builds a graph of tasks (a reader), or waits for its tasks (a writer)."""
    name = ".".join((*module.split(".")[:2], function))
    kind = "wait" if function.startswith(("to_", "store")) else "container"
    # optional: a version that lacks it still has tasks, with operations in them
    return Target(function, module=module, name=name, kind=kind, optional=True, **rest)


instrument = Instrument(
    "dask",
    minimum="2025.1",
    targets=(
        Target("execute_task", module="dask.local", name="task", kind="container", details=_task, after=_ended),
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
        # the last argument of these is a database's URL, which may contain a password
        _graph("dask.dataframe.io.sql", "read_sql_table"),
        _graph("dask.dataframe.io.sql", "read_sql_query"),
        _graph("dask.dataframe.io.sql", "to_sql"),
        _io("dask.dataframe.dask_expr._collection", "read_parquet", 0, "path"),
        _io("dask.dataframe.dask_expr.io.parquet", "to_parquet", 1, "path"),
        _io("dask.dataframe.io.parquet.core", "read_parquet", 0, "path"),
        _io("dask.dataframe.io.parquet.core", "to_parquet", 1, "path"),
        _graph("dask.array.core", "store"),
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
