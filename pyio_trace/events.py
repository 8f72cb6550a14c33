"""The columns of the operations table.

The capture half writes numbers (csrc/core/format/log_*.h); the reader turns them
into these columns, which every analysis, report and export uses.  The words
for layers, classes and links are in enums.py.  Only the standard library is
imported here; the one function that needs pyarrow imports it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from pyio_trace.enums import LAYERS, LINKS, ROLES
from pyio_trace.light_dataclass import dataclass

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True)
class Column:
    """One column.

    type: int64, int32, bool or dictionary (strings indexed by int32).
    """

    name: str
    type: str
    nullable: bool
    meaning: str
    later: bool = False  #: missing in Parquet logs of earlier versions; reads as null or false there


#: The operations table, in the order of its columns.
OPERATIONS: tuple[Column, ...] = (
    Column("id", "int64", False, "the operation; larger is later within a thread"),
    Column("parent", "int64", True, "id of the span that it happened in; null: none"),
    Column("link", "dictionary", False, f"how sure the parent is: {', '.join(LINKS)}"),
    Column("time", "int64", False, "begin, ns since the epoch (UTC)"),
    Column("duration", "int64", True, "ns; null: still in flight when its process ended"),
    Column("layer", "dictionary", False, ", ".join(LAYERS)),
    Column("op", "dictionary", False, "plain name of the call, without variants such as 64 and _chk"),
    Column("op_class", "dictionary", False, "read, write, meta, lock, open, close, seek, ..."),
    Column("host", "dictionary", False, "where it ran"),
    Column("pid", "int32", True, "process id; null: the process entry is missing"),
    Column("tid", "int32", True, "thread id; null: several threads, one after another"),
    Column("process", "int32", True, "index into the process table"),
    Column("path", "dictionary", True, "the path as given, made absolute"),
    Column("file", "int64", True, "identity of the file: positive by device and inode, negative by path"),
    Column("fd", "int32", True, "descriptor"),
    Column("file_offset", "int64", True, "bytes from the start of the file; null: none, or unknown"),
    Column("bytes_requested", "int64", True, "bytes that the call was to move; null: none"),
    Column("bytes_moved", "int64", True, "bytes that the call moved; null: it moves none, or is in flight"),
    Column("errno", "int32", False, "0, or the error number; -1: an exception without one"),
    Column("site", "dictionary", True, "innermost Python line outside libraries, file:line:function"),
    Column("call_stack", "dictionary", True, "the whole stack, outermost frame first, separated by ;"),
    Column("calls", "int32", False, "how many like calls this row stands for"),
    Column("detail", "dictionary", True, "JSON: whatever else is known"),
    Column("submitted", "bool", False, "whether site is the line that submitted the work to this thread", later=True),
    Column("to_file", "int64", True, "for a copy: identity of the file written to", later=True),
    Column("to_file_offset", "int64", True, "for a copy: the offset there; null: unknown", later=True),
    Column("op_role", "dictionary", False, ", ".join(ROLES[1:]), later=True),
    Column("request_id", "int64", True, "id of the outermost request around it in its process, or its own", later=True),
    Column("task_id", "int64", True, "id of the innermost container around it in its process", later=True),
    Column("global_rank", "int32", True, "rank of the process in its parallel job; null: none", later=True),
    Column("file_kind", "dictionary", True, "regular, directory, fifo, device, ...; null: not known", later=True),
    Column(
        "command",
        "dictionary",
        True,
        "what a lock, fcntl or wait was to do: LOCK_EX, ...; flags of an open: O_WRONLY|O_TRUNC, ...; whence of a seek",
        later=True,
    ),
    Column("cpu_time", "int64", True, "ns of processor time of the thread in a span; null: not measured", later=True),
)

#: Further columns, which operations() and batches() give only by name.
INTERNAL: tuple[Column, ...] = (
    Column("imported", "bool", False, "issued by an import, or by an interpreter that starts"),
    Column("in_transfer", "bool", False, "a request around it in its process moves bytes", later=True),
    Column("in_import", "bool", False, "made while a module of a library is imported, by whichever code", later=True),
)
#: The columns that pyio_trace.join.parents.enclosures makes.
ENCLOSING: tuple[str, ...] = ("op_role", "request_id", "task_id", "in_transfer")

OPERATION_COLUMNS: tuple[str, ...] = tuple(column.name for column in OPERATIONS)
_BY_NAME: dict[str, Column] = {column.name: column for column in OPERATIONS + INTERNAL}
ALL_COLUMNS: tuple[str, ...] = tuple(_BY_NAME)


def columns_of(names: Iterable[str] | None = None) -> tuple[Column, ...]:
    """The columns of these names, in this order; None: those of the operations table.

    Raises KeyError for an unknown name.
    """
    if names is None:
        return OPERATIONS
    return tuple(_BY_NAME[name] for name in names)


def arrow_schema(names: Iterable[str] | None = None) -> pa.Schema:
    """The same columns as an Arrow schema."""
    import pyarrow as pa

    types = {
        "int64": pa.int64(),
        "int32": pa.int32(),
        "bool": pa.bool_(),
        "dictionary": pa.dictionary(pa.int32(), pa.string()),
    }
    return pa.schema([pa.field(c.name, types[c.type], c.nullable) for c in columns_of(names)])
