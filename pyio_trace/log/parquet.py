"""The Parquet log, raw: opening one, and the JSON it carries in its key-value metadata.

pyio_trace/join/pack.py writes it, pyio_trace/join/parquet_source.py gives its
rows.  A Parquet file that pyio_trace has not written is no log.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyio_trace import events
from pyio_trace.errors import LogError

if TYPE_CHECKING:
    import pyarrow.parquet as pq

#: Of the Parquet log, not of the live one.
VERSION = 1
KEY = b"pyio_trace"
MAGIC = b"PAR1"
_COLUMNS = [column.name for column in events.OPERATIONS + events.INTERNAL]
_DICTIONARIES = [column.name for column in events.OPERATIONS + events.INTERNAL if column.type == "dictionary"]


@dataclass(frozen=True)
class ParquetLog:
    """An open Parquet log: the file and its description (info, processes, losses, counters)."""

    path: Path
    file: pq.ParquetFile
    description: dict[str, Any]


def is_parquet(path: Path) -> bool:
    """Whether a file starts as a Parquet file does."""
    with path.open("rb") as file:
        return file.read(len(MAGIC)) == MAGIC


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
    try:
        metadata = pq.read_metadata(path).metadata or {}
        if KEY not in metadata:
            raise LogError("not-a-log", f"{path}: a Parquet file, but not a log that pyio_trace has written")
        description = _description(path, metadata[KEY])
        file = pq.ParquetFile(path, read_dictionary=_DICTIONARIES, page_checksum_verification=True)
        columns = set(file.schema_arrow.names)
    except KeyError:
        columns = set()
    except ValueError:  # pyarrow's own, or from bytes of the footer that are no text
        raise LogError("log-truncated", f"{path}: cut off or damaged; copy or pack the log again") from None
    except (pa.ArrowException, OSError) as error:
        raise LogError("log-unreadable", f"{path}: cannot be read: {_first_line(error)}") from None
    if not columns.issuperset(_COLUMNS):
        raise LogError("log-damaged", f"{path}: columns of a log are missing; pack the log again")
    return ParquetLog(path, file, description)


def _description(path: Path, raw: bytes) -> dict[str, Any]:
    damaged = LogError("log-damaged", f"{path}: its description is damaged; pack the log again")
    try:
        description = json.loads(raw)
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
    kinds = {"info": dict, "processes": list, "losses": dict, "counters": list}
    if any(not isinstance(description.get(name), kind) for name, kind in kinds.items()):
        raise damaged
    return description


def _first_line(error: BaseException) -> str:
    return str(error).partition("\n")[0]
