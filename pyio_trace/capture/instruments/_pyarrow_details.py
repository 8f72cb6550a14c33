"""Details of tables and Parquet files: shapes, names of columns, row groups.

`stored` is the size, in the file, of what a call moved; the table's bytes in memory
are another figure.  It is added up from the file's metadata, which Arrow has in
memory by the time that the call has returned: nothing is read for it.
"""

from __future__ import annotations

from pyio_trace.capture.instrumentation.exception_origin import is_the_programs
from pyio_trace.capture.instruments._pyarrow_places import Place, argument, note, noted, source_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    Details = dict[str, object]

#: With more column chunks than this, `stored` is left out: adding them up takes 1 us each.
_CHUNKS_MOST = 1000

# ---- tables --------------------------------------------------------------------------------------


def shape_of(data: Any) -> Details:
    """The shape of a table or batch, a data frame, or whatever may be written."""
    rows = getattr(data, "num_rows", None)
    if rows is not None:
        return {"rows": rows, "columns": data.num_columns}
    shape: tuple[int, ...] = getattr(data, "shape", ())
    return {"rows": shape[0], "columns": shape[1]} if len(shape) == 2 else {}


def names_of(columns: Any) -> Details:
    """The columns that were requested; for expressions, their names."""
    if not isinstance(columns, (list, tuple, dict)):
        return {}
    return {"names": [name if isinstance(name, (str, int)) else str(name) for name in columns]}


def _rows(result: Any) -> Details:
    rows = getattr(result, "num_rows", None)
    return {} if rows is None else {"rows": rows}


# ---- Parquet -------------------------------------------------------------------------------------


def metadata_got(result: Any, *args: Any, **kwargs: Any) -> Details:
    """After read_metadata."""
    groups = getattr(result, "num_row_groups", None)
    return {} if groups is None else {"rows": result.num_rows, "row_groups": groups, "columns": result.num_columns}


def opened(result: Any, file: Any, *args: Any, **kwargs: Any) -> Details:
    """After ParquetFile.__init__, which has read the metadata or got it as an argument."""
    plain = kwargs.get("decryption_properties") is None and kwargs.get("metadata") is None
    note(file, source_of(args, kwargs), plain)
    metadata = file.metadata
    return {"rows": metadata.num_rows, "row_groups": metadata.num_row_groups, "columns": metadata.num_columns}


def _stored(place: Place | None, metadata: Any, groups: list[int], columns: list[int]) -> Details:
    """The size in the file of the row groups' column chunks, from the metadata in memory.

    pyarrow aborts the process when it is asked about an encrypted chunk for which
    it has no key.  So this is only done for files read or written without a key.
    """
    if place is None or not place.plain or len(groups) * len(columns) > _CHUNKS_MOST:
        return {}
    rows = [metadata.row_group(group) for group in groups]
    return {"stored": sum(row.column(column).total_compressed_size for row in rows for column in columns)}


def _part(file: Any, groups: Iterable[int] | None, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Details:
    """What was read.  args: from `columns` on; use_threads and use_pandas_metadata follow in every function."""
    columns, metadata = argument(args, kwargs, 0, ("columns",)), file.metadata
    chosen = list(range(metadata.num_columns))
    if columns is not None:
        columns = list(columns)
        with_index = bool(argument(args, kwargs, 2, ("use_pandas_metadata",)))
        chosen = list(dict.fromkeys(file._get_column_indices(columns, use_pandas_metadata=with_index)))
    groups = list(range(metadata.num_row_groups) if groups is None else groups)
    found = {"row_groups": len(groups), "columns": len(chosen), **names_of(columns)}
    return {**found, **_stored(noted(file), metadata, groups, chosen)}


def read(result: Any, file: Any, *args: Any, **kwargs: Any) -> Details:
    """After ParquetFile.read."""
    return {**_part(file, None, args, kwargs), **_rows(result)}


def read_groups(result: Any, file: Any, *args: Any, **kwargs: Any) -> Details:
    """After ParquetFile.read_row_groups."""
    groups = argument(args, kwargs, 0, ("row_groups",))
    if not isinstance(groups, (list, tuple, range)):
        return _rows(result)  # an iterator, which is used up
    return {**_part(file, groups, args[1:], kwargs), "groups": list(groups), **_rows(result)}


def read_group(result: Any, file: Any, *args: Any, **kwargs: Any) -> Details:
    """After ParquetFile.read_row_group."""
    groups = [argument(args, kwargs, 0, ("i",))]
    return {**_part(file, groups, args[1:], kwargs), "groups": groups, **_rows(result)}


def batches(*args: Any, **kwargs: Any) -> Details:
    """Before ParquetFile.iter_batches."""
    options = (("batch_size", argument(args, kwargs, 1, ("batch_size",))),
             ("groups", argument(args, kwargs, 2, ("row_groups",))))  # fmt: skip
    names = names_of(argument(args, kwargs, 3, ("columns",)))
    return {**{name: value for name, value in options if isinstance(value, (int, list, tuple))}, **names}


def writer_making(*args: Any, **kwargs: Any) -> Details:
    """Before ParquetWriter.__init__."""
    compression, schema = kwargs.get("compression", "snappy"), argument(args, kwargs, 2, ("schema",))
    said: Details = {"compression": compression} if isinstance(compression, str) else {}
    return {"columns": len(schema), **said} if hasattr(schema, "__len__") else said


def writer_made(result: Any, writer: Any, *args: Any, **kwargs: Any) -> Details:
    """After ParquetWriter.__init__."""
    plain = kwargs.get("encryption_properties") is None and len(args) < 15  # it is the sixteenth argument
    note(writer, source_of(args, kwargs), plain)
    return {}


def written(result: Any, writer: Any) -> Details:
    """After ParquetWriter.close."""
    try:
        metadata = writer.writer.metadata
    except RuntimeError as problem:  # closing has failed
        if is_the_programs(problem):
            raise
        return {}
    groups, columns = list(range(metadata.num_row_groups)), list(range(metadata.num_columns))
    found = {"rows": metadata.num_rows, "row_groups": len(groups), "columns": len(columns)}
    return {**found, **_stored(noted(writer), metadata, groups, columns)}
