"""The Parquet log, raw: opening one, and the JSON it carries in its key-value metadata.

pyio_trace/join/pack.py writes it, pyio_trace/join/parquet_source.py gives its
rows.  A Parquet file that pyio_trace has not written is no log.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, cast

from pyio_trace import events
from pyio_trace.errors import LogError

if TYPE_CHECKING:
    import pyarrow.parquet as pq

#: Of the Parquet log, not of the live one.
VERSION = 2
KEY = b"pyio_trace"
MAGIC = b"PAR1"
_COLUMNS = [column.name for column in events.OPERATIONS + events.INTERNAL]
#: Rows of one row group: sixteen times what pack makes.  A few bytes can stand for any number of like rows.
_MOST_ROWS = 1 << 24
_DICTIONARIES = [column.name for column in events.OPERATIONS + events.INTERNAL if column.type == "dictionary"]


@dataclass(frozen=True)
class ParquetLog:
    """An open Parquet log: the file and its description (info, processes, losses, counters, mappings)."""

    path: Path
    file: pq.ParquetFile
    description: dict[str, Any]


def is_parquet(path: Path) -> bool:
    """Whether a file starts as a Parquet file does."""
    with path.open("rb") as file:
        return file.read(len(MAGIC)) == MAGIC


def for_arrow(path: Path, mode: str) -> Path | BinaryIO:
    """What Arrow can open: the path, or where that is no UTF-8, the open file."""
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
        metadata = pq.read_metadata(place).metadata or {}
        if KEY not in metadata:
            raise LogError("not-a-log", f"{path}: a Parquet file, but not a log that pyio_trace has written")
        description = _description(path, metadata[KEY])
        file = pq.ParquetFile(place, read_dictionary=_DICTIONARIES, page_checksum_verification=True)
        names = list(file.schema_arrow.names)
    except KeyError:
        names = []
    except pa.ArrowMemoryError:
        raise LogError("log-damaged", f"{path}: its footer asks for more memory than there is; copy it again") from None
    except ValueError:  # pyarrow's own, or from bytes of the footer that are no text
        raise LogError("log-truncated", f"{path}: cut off or damaged; copy or pack the log again") from None
    except (pa.ArrowException, OSError) as error:
        raise LogError("log-unreadable", f"{path}: cannot be read: {_first_line(error)}") from None
    if any(names.count(name) != 1 for name in _COLUMNS):
        raise LogError("log-damaged", f"{path}: columns of a log are missing, or there twice; pack the log again")
    if any(not 0 <= rows <= _MOST_ROWS for rows in _group_rows(file)):
        raise LogError("log-damaged", f"{path}: its row groups are too large; pack the log again")
    return ParquetLog(path, file, description)


def _description(path: Path, raw: bytes) -> dict[str, Any]:
    damaged = LogError("log-damaged", f"{path}: its description is damaged; pack the log again")
    try:
        description = json.loads(raw, parse_constant=_no_number)
        if b"\\ud" in raw.lower():  # perhaps halves of characters: no text can hold those
            json.dumps(description, ensure_ascii=False).encode()
    except (ValueError, RecursionError):
        raise damaged from None
    if not isinstance(description, dict) or not isinstance(description.get("version"), int):
        raise damaged
    version = description["version"]
    if version != VERSION:
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
