"""The vocabulary of the operations table: its columns, layers, classes, links.

Both halves of pyio_trace meet here and nowhere else: capture writes numbers
(csrc/core/log_format.h), the reader turns them into these names, and every
analysis, report and export speaks in them.  Nothing is imported but the
standard library; pyarrow is imported by the one function that needs it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa

#: By number: enum pt_layer.
LAYERS: tuple[str, ...] = ("app", "user", "hdf5", "mpiio", "stdio", "posix")

#: By number: enum pt_class.  "internal" operations never reach the table.
CLASSES: tuple[str, ...] = (
    "meta", "read", "write", "sync", "copy", "map", "open", "close", "seek", "span", "internal", "process",
)  # fmt: skip

#: By number: enum pt_link, how sure a row's parent is.
LINKS: tuple[str, ...] = ("none", "thread", "context", "descriptor", "inferred")


@dataclass(frozen=True)
class Column:
    """One column: its name, type (int64, int32, bool or dictionary, which is
    strings indexed by int32), whether it may be null, and what it means."""

    name: str
    type: str
    nullable: bool
    meaning: str


#: The operations table, in the order of its columns.
OPERATIONS: tuple[Column, ...] = (
    Column("id", "int64", False, "the operation; larger is later within a thread"),
    Column("parent", "int64", True, "id of the span it happened in; null: none"),
    Column("link", "dictionary", False, "how sure the parent is: thread, context, descriptor, inferred, none"),
    Column("time", "int64", False, "begin, ns since the epoch (UTC)"),
    Column("duration", "int64", True, "ns; null: still in flight when its process ended"),
    Column("layer", "dictionary", False, "app, user, hdf5, mpiio, stdio or posix"),
    Column("op", "dictionary", False, "plain name of the call, whatever its spelling"),
    Column("host", "dictionary", False, "where it ran"),
    Column("pid", "int32", True, "process id; null: its process entry is missing"),
    Column("tid", "int32", True, "thread id; null: several threads, one after the other"),
    Column("process", "int32", True, "index into the process table"),
    Column("path", "dictionary", True, "name as given, made absolute"),
    Column("file", "int64", True, "identity of the file: positive by device and inode, negative by path"),
    Column("fd", "int32", True, "descriptor"),
    Column("offset", "int64", True, "bytes from the start of the file; null: none or not known"),
    Column("size", "int64", True, "bytes asked for; null: none"),
    Column("moved", "int64", True, "bytes moved; null: none can, or in flight"),
    Column("errno", "int32", False, "0 or the error"),
    Column("site", "dictionary", True, "innermost Python line outside libraries, file:line:function"),
    Column("stack", "dictionary", True, "the whole stack folded, outermost first, ; between"),
    Column("count", "int32", False, "like calls this row stands for"),
    Column("detail", "dictionary", True, "JSON: what else is known"),
)

#: Further columns that batches() gives by name; operations() never has them.
INTERNAL: tuple[Column, ...] = (
    Column("op_class", "dictionary", False, "read, write, meta, open, close, seek, ..."),
    Column("imported", "bool", False, "issued by Python's import machinery, or by the start of an interpreter"),
)

OPERATION_COLUMNS: tuple[str, ...] = tuple(column.name for column in OPERATIONS)
_BY_NAME: dict[str, Column] = {column.name: column for column in OPERATIONS + INTERNAL}


def columns_of(names: Iterable[str] | None = None) -> tuple[Column, ...]:
    """The named columns in the order asked for; None: the operations table.

    Raises KeyError for a name that is no column.
    """
    if names is None:
        return OPERATIONS
    return tuple(_BY_NAME[name] for name in names)


def arrow_schema(names: Iterable[str] | None = None) -> pa.Schema:
    """The columns as an Arrow schema; None: the operations table."""
    import pyarrow as pa

    types = {
        "int64": pa.int64(),
        "int32": pa.int32(),
        "bool": pa.bool_(),
        "dictionary": pa.dictionary(pa.int32(), pa.string()),
    }
    return pa.schema([pa.field(c.name, types[c.type], c.nullable) for c in columns_of(names)])
