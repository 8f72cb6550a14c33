"""The Parquet log, raw: opens one and reads the JSON description in its key-value metadata.

pyio_trace/join/pack/packer.py writes it, pyio_trace/join/sources/parquet_source.py
reads its rows.  A Parquet file that pyio_trace has not written is not a log.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, cast

from pyio_trace import events
from pyio_trace.errors import LogError
from pyio_trace.existing_files import begins_with
from pyio_trace.light_dataclass import dataclass
from pyio_trace.log import earlier_versions
from pyio_trace.log.parquet_pages import Allowance, most_counted, too_large

if TYPE_CHECKING:
    import pyarrow.parquet as pq

#: Version of the Parquet log, not of the live one.
VERSION = 3
KEY = b"pyio_trace"
#: What comes before the name of an attachment.
ATTACHMENT = KEY + b"."
MAGIC = b"PAR1"
_COLUMNS = {column.name: column.later for column in events.OPERATIONS + events.INTERNAL}
#: Rows of one row group.  Readers accept no more: a few bytes can stand for any number of equal rows.
ROW_GROUP = 1 << 20
_MOST_ROWS = ROW_GROUP
_DICTIONARIES = [column.name for column in events.OPERATIONS + events.INTERNAL if column.type == "dictionary"]


@dataclass(frozen=True)
class ParquetLog:
    """An open Parquet log: the file, the budget for reading it, its description (info, processes, losses, counters,
    mappings), and the columns that the file has under another name (earlier_versions.py)."""

    path: Path
    file: pq.ParquetFile
    allowance: Allowance
    description: dict[str, Any]
    stored_names: dict[str, str]

    def stored(self, column: str) -> str:
        """The name of a column in the file."""
        return self.stored_names.get(column, column)

    def attachment(self, name: str) -> str | None:
        """A text that is kept with the description; None: there is none, or it is not UTF-8."""
        raw = (self.file.metadata.metadata or {}).get(ATTACHMENT + name.encode())
        try:
            return None if raw is None else raw.decode()
        except UnicodeDecodeError:
            return None


def is_parquet(path: Path) -> bool:
    """Whether a file starts as a Parquet file does."""
    return begins_with(path, MAGIC)


def for_arrow(path: Path, mode: str) -> Path | BinaryIO:
    """Something Arrow can open: the path, or the open file if the path is not UTF-8."""
    try:
        os.fspath(path).encode()
    except UnicodeEncodeError:
        return cast("BinaryIO", path.open(mode))
    return path


def description_of(info: dict[str, Any], **rest: Any) -> bytes:
    """The JSON to put under KEY."""
    return json.dumps({"version": VERSION, "info": info, **rest}, ensure_ascii=False).encode()


def open_parquet(path: str | os.PathLike[str]) -> ParquetLog:
    """Opens a Parquet log.

    Raises LogError: log-truncated, not-a-log, log-version, log-damaged, log-unreadable.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    path = Path(path)
    names: list[str]
    try:
        place = for_arrow(path, "rb")
        footer = pq.read_metadata(place)
        metadata = footer.metadata or {}
        if KEY not in metadata:
            raise LogError("not-a-log", f"{path}: a Parquet file, but not a log that pyio_trace has written")
        description = _description(path, metadata[KEY])
        stored = earlier_versions.stored_names(description["version"])
        dictionaries = {stored.get(name, name) for name in _DICTIONARIES}.intersection(footer.schema.names)
        file = pq.ParquetFile(place, read_dictionary=list(dictionaries), page_checksum_verification=True)
        names = list(file.schema_arrow.names)
        allowance = Allowance(path, file.metadata)
        writer = file.metadata.created_by or ""
    except KeyError:
        names = []
    except pa.ArrowMemoryError:
        raise LogError("log-damaged", f"{path}: its footer asks for more memory than there is; copy it again") from None
    except ValueError:  # from pyarrow, or because text in the footer is not UTF-8
        raise LogError("log-truncated", f"{path}: cut off or damaged; copy or pack the log again") from None
    except (pa.ArrowException, OSError) as error:
        raise LogError("log-unreadable", f"{path}: cannot be read: {_first_line(error)}") from None
    counts = {name: names.count(stored.get(name, name)) for name in _COLUMNS}
    if any(counts[name] != 1 and not (later and not counts[name]) for name, later in _COLUMNS.items()):
        raise LogError("log-damaged", f"{path}: columns of a log are missing, or there twice; pack the log again")
    if not _nulls_as_written(file, stored):
        raise LogError("log-damaged", f"{path}: columns of a log are of another kind; copy or pack the log again")
    if any(not 0 <= rows <= _MOST_ROWS for rows in _group_rows(file)):
        raise LogError("log-damaged", f"{path}: its row groups are too large; pack the log again")
    if file.metadata.num_rows > most_counted(path.stat().st_size):
        raise too_large(path)
    if writer.startswith("parquet-mr"):  # for old versions of it Arrow reads beyond the end of a column
        raise LogError("log-damaged", f"{path}: written by another program than pyio_trace; pack the log again")
    return ParquetLog(path, file, allowance, earlier_versions.upgraded(description), stored)


def _nulls_as_written(file: pq.ParquetFile, stored: dict[str, str]) -> bool:
    """Whether the columns that may have nulls are those of a log, or all of them, as pandas, Polars and DuckDB write.
    If a damaged schema says otherwise, what the footer says of its row groups contradicts it, and pyarrow ends the
    process when it is asked for that.

    stored: the names of columns that have another one in the file.
    """
    leaves = [file.schema.column(number) for number in range(len(file.schema))]
    nullable = {leaf.path: leaf.max_definition_level > 0 for leaf in leaves}
    written = {stored.get(one.name, one.name): one.nullable for one in events.OPERATIONS + events.INTERNAL}
    return all(nullable.values()) or all(nullable.get(name, may) == may for name, may in written.items())


def _description(path: Path, raw: bytes) -> dict[str, Any]:
    damaged = LogError("log-damaged", f"{path}: its description is damaged; pack the log again")
    try:
        description = json.loads(raw, parse_constant=_no_number)
        if b"\\ud" in raw.lower():  # may be lone surrogates, which no UTF-8 text can hold
            json.dumps(description, ensure_ascii=False).encode()
    except (ValueError, RecursionError):
        raise damaged from None
    if not isinstance(description, dict) or not isinstance(description.get("version"), int):
        raise damaged
    version = description["version"]
    if version != VERSION and version not in earlier_versions.COLUMNS:
        raise LogError(
            "log-version",
            f"{path}: a Parquet log of version {version}, and this pyio_trace reads version {VERSION}; "
            "use the pyio_trace that wrote it",
        )
    kinds = {"info": dict, "processes": list, "losses": dict, "counters": list, "mappings": list}
    if any(not isinstance(description.get(name), kind) for name, kind in kinds.items()):
        raise damaged
    return description


def _no_number(text: str) -> None:
    raise ValueError(f"{text} is no JSON")


def _group_rows(file: pq.ParquetFile) -> list[int]:
    return [file.metadata.row_group(group).num_rows for group in range(file.num_row_groups)]


def _first_line(error: BaseException) -> str:
    return str(error).partition("\n")[0]
