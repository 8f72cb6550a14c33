"""Packs any log into the compact Parquet log that one keeps and sends.

Batches are streamed, so memory does not grow with the rows of a Parquet log.  A
live log's own tables grow with it: some 13 bytes an operation, most of them for
the positions of plain reads and writes.  The new file gets its name only when it
is complete (new_file.py).
"""

from __future__ import annotations

import json
import os
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from pyio_trace import events
from pyio_trace.errors import LogError
from pyio_trace.join.base import identities, samples_text, system
from pyio_trace.join.pack.new_file import Folder, NewFile
from pyio_trace.join.pack.parquet_writer import metadata_of, open_writer
from pyio_trace.join.sources.facade import Log
from pyio_trace.join.sources.source import Source
from pyio_trace.log import stripes
from pyio_trace.log.parquet_log import ATTACHMENT, KEY, description_of
from pyio_trace.log.parquet_log import ROW_GROUP as _ROW_GROUP
from pyio_trace.log.parquet_pages import is_allowed, least_bytes

if TYPE_CHECKING:
    import pyarrow as pa

#: Numbers that grow steadily or are noisy: differences take fewer bits than values, and a dictionary would not help.
#: Batches that wait for a row group: each takes tens of KB, however few rows it has.
_PENDING = 64
_DELTA = ("id", "parent", "request_id", "task_id", "time", "duration", "file_offset", "to_file_offset")
_TRUTHS = tuple(column.name for column in events.OPERATIONS + events.INTERNAL if column.type == "bool")
_COLUMNS = tuple(column.name for column in events.OPERATIONS + events.INTERNAL)


def pack(
    log: str | os.PathLike[str],
    output: str | os.PathLike[str],
    progress: Callable[[int, int], None] | None = None,
    read: Callable[[Log, Iterator[pa.RecordBatch]], Mapping[str, str]] | None = None,
) -> dict[str, Any]:
    """Writes the log (live, Parquet or a folder) to a Parquet log at output, replacing an earlier log.

    Returns what pack_source() does.
    Raises LogError: what open_log raises, log-unwritable, log-exists.
    """
    from pyio_trace.join.sources.opening import open_source  # every kind of log; the end of a run knows its own

    return pack_source(open_source(log), log, output, progress, read)


def pack_source(
    source: Source,
    log: str | os.PathLike[str],
    output: str | os.PathLike[str],
    progress: Callable[[int, int], None] | None = None,
    read: Callable[[Log, Iterator[pa.RecordBatch]], Mapping[str, str]] | None = None,
) -> dict[str, Any]:
    """pack() of a log that is open.

    progress is called with (rows done, rows in all), read with the log and its
    batches; see write().  Returns rows, bytes, bytes_per_operation, source_bytes
    and seconds.
    Raises LogError: log-unwritable, log-exists.
    """
    started = time.perf_counter()
    output = Path(output)
    try:
        with NewFile(Folder(os.fspath(output.parent))) as new:
            done = write(source, new.file, progress, None if read is None else partial(read, Log(Path(log), source)))
            new.place(output.name, beside=False)
            size = os.fstat(new.file.fileno()).st_size
    except OSError as error:
        raise unwritable(output, error) from None
    return {
        "rows": done,
        "bytes": size,
        "bytes_per_operation": size / done if done else None,
        "source_bytes": source.info()["bytes"],
        "seconds": time.perf_counter() - started,
    }


def unwritable(output: str | os.PathLike[str], error: OSError) -> LogError:
    """The LogError for a file that cannot be written, with the system's own message instead of Arrow's."""
    said = os.strerror(error.errno) if error.errno else str(error)
    return LogError("log-unwritable", f"{os.fspath(output)}: cannot be written: {said}")


def write(
    source: Source,
    file: BinaryIO,
    progress: Callable[[int, int], None] | None = None,
    read: Callable[[Iterator[pa.RecordBatch]], Mapping[str, str]] | None = None,
) -> int:
    """Writes a Parquet log to an open file; returns its rows.

    read: gets each batch with all columns on the way, and returns texts to attach
    to the log, by name.
    """
    done = 0
    with closing(_writer(source, file)) as writer:

        def written() -> Iterator[pa.RecordBatch]:
            nonlocal done
            total, waiting = source.rows(), 0
            pending: list[pa.RecordBatch] = []
            for batch in source.batches(_COLUMNS, _ROW_GROUP):
                if waiting + len(batch) > _ROW_GROUP:
                    _flush(writer, pending)
                    pending, waiting = [], 0
                    if progress is not None:
                        progress(done, total)
                pending.append(batch)
                if len(pending) > _PENDING:  # many logs of few rows
                    pending = _together(pending)
                waiting += len(batch)
                done += len(batch)
                yield batch
            if pending:
                _flush(writer, pending)
            if progress is not None:
                progress(done, total)

        batches = written()
        attached = dict((read(batches) if read is not None else None) or {})
        deque(batches, maxlen=0)  # what was not read
        samples = source.samples()
        if len(samples):
            attached[samples_text.NAME] = samples_text.encoded(samples)
        seen = source.system()
        if len(seen):
            attached[system.ATTACHMENT] = system.encoded(seen)
        layouts = source.stripes()
        if layouts:
            attached[stripes.ATTACHMENT] = json.dumps(layouts)
        files = source.identities()
        if len(files.file):
            attached[identities.NAME] = identities.encoded(files)
        lacking = least_bytes(done) - file.tell()
        if lacking > 0:  # so regular that readers would reject this many rows in so small a file
            writer.add_key_value_metadata({"padding": " " * lacking})
        if attached:
            writer.add_key_value_metadata({ATTACHMENT.decode() + name: text for name, text in attached.items()})
    file.flush()
    if not is_allowed(metadata_of(file), os.fstat(file.fileno()).st_size):  # its source must then not be removed
        raise LogError("log-too-large", "the packed log would unpack to more than a reader allows for its size")
    return done


def _together(batches: list[pa.RecordBatch]) -> list[pa.RecordBatch]:
    import pyarrow as pa

    together: list[pa.RecordBatch] = pa.Table.from_batches(batches).combine_chunks().to_batches()
    return together


def _flush(writer: Any, batches: list[pa.RecordBatch]) -> None:
    import pyarrow as pa

    table = pa.Table.from_batches(batches)
    for at, field in enumerate(table.schema):
        if pa.types.is_dictionary(field.type):  # the writer keeps a dictionary as it is only if there is one chunk
            table = table.set_column(at, field, table.column(at).combine_chunks())
    writer.write_table(table, row_group_size=_ROW_GROUP)


def _writer(source: Source, place: BinaryIO) -> Any:
    description = description_of(
        source.info(),
        processes=source.processes(),
        losses=source.losses(),
        counters=source.counters(),
        mappings=source.mappings(),
        renames=source.renames(),
    )
    return open_writer(
        place,
        events.arrow_schema(_COLUMNS).with_metadata({KEY: description}),
        compression="zstd",
        compression_level=3,
        use_dictionary=[name for name in _COLUMNS if name not in _DELTA + _TRUTHS],
        column_encoding=dict.fromkeys(_DELTA, "DELTA_BINARY_PACKED"),
        dictionary_pagesize_limit=1 << 30,
        write_statistics=["time", "pid", "process"],
        write_page_checksum=True,  # a flipped bit must not change an operation
        write_batch_size=1 << 16,
        version="2.6",
    )
