"""Packing: any log to the compact Parquet log that one keeps and sends.

Streams batch by batch, so a log of any size packs in bounded memory, and
renames into place, so that a half-written file never has a log's name.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from pyio_trace import events
from pyio_trace.errors import LogError
from pyio_trace.join.opening import open_source
from pyio_trace.join.source import Source
from pyio_trace.log.live import LiveLog
from pyio_trace.log.parquet import KEY, description_of, for_arrow
from pyio_trace.output import PACKED_SUFFIX

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq

_ROW_GROUP = 1 << 20
_COPIED = 1 << 20
#: Steadily growing or noisy numbers: differences take fewer bits than values, and a dictionary would only cost.
_DELTA = ("id", "time", "duration", "offset")
_COLUMNS = tuple(column.name for column in events.OPERATIONS + events.INTERNAL)


def pack(
    log: str | os.PathLike[str],
    output: str | os.PathLike[str],
    progress: Callable[[int, int], None] | None = None,
) -> dict[str, Any]:
    """Writes the log (live, Parquet or a folder) to a Parquet log at output, replacing what is there.

    progress is called with (rows done, rows in all).  Returns rows, bytes,
    bytes_per_operation, source_bytes and seconds.
    Raises LogError: what open_log raises, log-unwritable.
    """
    started = time.perf_counter()
    output = Path(output)
    source = open_source(Path(log))
    temporary = output.with_name(f".{output.name}.{os.getpid()}.tmp")
    try:
        done = _write(source, temporary, progress)
        _settle(temporary, output)
    except OSError as error:
        raise LogError("log-unwritable", f"{output}: cannot be written: {_said(error)}") from None
    finally:
        temporary.unlink(missing_ok=True)
    size = output.stat().st_size
    return {
        "rows": done,
        "bytes": size,
        "bytes_per_operation": size / done if done else None,
        "source_bytes": source.info()["bytes"],
        "seconds": time.perf_counter() - started,
    }


def settle(live: str, final: str, progress: Callable[[int, int], None] | None = None) -> int:
    """What becomes of a live log when its run has ended: packed, or as it is where its name is not *.parquet; the live
    one is removed.  Returns the bytes of it.  Raises LogError: as pack(); then the live log stays."""
    if final.endswith(PACKED_SUFFIX):
        pack(live, final, progress)
    else:
        temporary = Path(f"{final}.{os.getpid()}.tmp")
        try:
            with open(live, "rb") as source, temporary.open("wb") as copy:
                left = LiveLog(live).used
                while part := source.read(min(left, _COPIED)):
                    left -= copy.write(part)
            temporary.replace(final)
        except OSError as error:
            raise LogError("log-unwritable", f"{final}: cannot be written: {_said(error)}") from None
        finally:
            temporary.unlink(missing_ok=True)
    os.unlink(live)
    return os.stat(final).st_size


def _said(error: OSError) -> str:
    """Arrow's errors have words of their own around the system's."""
    return os.strerror(error.errno) if error.errno else str(error)


def _write(source: Source, path: Path, progress: Callable[[int, int], None] | None) -> int:

    total, done = source.rows(), 0
    pending: list[pa.RecordBatch] = []
    waiting = 0
    place = for_arrow(path, "wb")
    with contextlib.ExitStack() as open_ones:
        if not isinstance(place, Path):
            open_ones.enter_context(place)
        writer = open_ones.enter_context(_writer(source, place))
        for batch in source.batches(_COLUMNS, _ROW_GROUP):
            if waiting + len(batch) > _ROW_GROUP:
                _flush(writer, pending)
                pending, waiting = [], 0
                if progress is not None:
                    progress(done, total)
            pending.append(batch)
            waiting += len(batch)
            done += len(batch)
        if pending:
            _flush(writer, pending)
        if progress is not None:
            progress(done, total)
    return done


def _flush(writer: pq.ParquetWriter, batches: list[pa.RecordBatch]) -> None:
    import pyarrow as pa

    # One chunk a row group: the writer takes a dictionary over as it is only if it is the same throughout.
    writer.write_table(pa.Table.from_batches(batches).combine_chunks(), row_group_size=_ROW_GROUP)


def _writer(source: Source, place: Path | BinaryIO) -> pq.ParquetWriter:
    import pyarrow.parquet as pq

    description = description_of(
        source.info(),
        processes=source.processes(),
        losses=source.losses(),
        counters=source.counters(),
        mappings=source.mappings(),
    )
    return pq.ParquetWriter(
        place,
        events.arrow_schema(_COLUMNS).with_metadata({KEY: description}),
        compression="zstd",
        compression_level=3,
        use_dictionary=[name for name in _COLUMNS if name not in _DELTA and name != "imported"],
        column_encoding=dict.fromkeys(_DELTA, "DELTA_BINARY_PACKED"),
        dictionary_pagesize_limit=1 << 30,
        write_statistics=["time", "pid", "process"],
        write_page_checksum=True,  # a flipped bit must not become an operation that never was
        version="2.6",
    )


def _settle(temporary: Path, output: Path) -> None:
    """Makes the file last before it takes its name: the live log may be removed next."""
    descriptor = os.open(temporary, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    os.replace(temporary, output)
