"""Parquet logs that other processes, or a Dask cluster, read for this one, which puts them together.

Tasks are given out a little before their results are needed, in the order of the
logs, so that no more than a few results are in memory: of one row group each, or
what one log knows of its run.
"""

from __future__ import annotations

import os
import pickle
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, Future
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from pyio_trace import events
from pyio_trace.errors import LogError, PyioTraceError
from pyio_trace.join.base.identities import Identities
from pyio_trace.join.base.samples import Samples
from pyio_trace.join.base.system import System
from pyio_trace.join.sources.parquet_source import ParquetSource

if TYPE_CHECKING:
    import pyarrow as pa

#: Tasks that are given out before they are needed, for each worker.
_AHEAD = 2
#: What may be large, and so many bytes of each are kept; a log with more is asked again.
_LARGE = ("samples", "system", "stripes", "identities")
_SMALL = 1 << 16
_DICTIONARIES = tuple(one.name for one in events.OPERATIONS + events.INTERNAL if one.type == "dictionary")


class _Known(NamedTuple):
    """What a log knows of its run; see Source.  stamp: of the file; small: by name, what is not large of _LARGE, and
    its dictionaries by column."""

    stamp: tuple[int, int]
    rows: int
    divisions: list[int]
    info: dict[str, Any]
    tables: dict[str, list[dict[str, Any]]]
    losses: dict[str, Any]
    small: dict[str, Any]


class Spread:
    """Gives tasks to workers."""

    def __init__(self, executor: Executor, count: int, where: str) -> None:
        """count: of workers; where: what to call them in an error."""
        self._executor, self._where = executor, where
        self._ahead = _AHEAD * count
        self._waiting: dict[tuple[int, Any], Future[Any]] = {}
        self.tasks: list[tuple[Any, ...]] = []

    def opened(self, paths: Sequence[Path]) -> Iterator[SpreadSource | PyioTraceError]:
        """A source for each log, or why it cannot be read."""
        tasks = [(str(path),) for path in paths]
        for at in range(len(tasks)):
            known = self.result(_known, tasks, at, ())
            yield SpreadSource(tasks[at][0], known, self) if isinstance(known, _Known) else known

    def result(self, function: Callable[..., Any], tasks: Sequence[tuple[Any, ...]], at: int, more: Any) -> Any:
        """function(*tasks[at], *more); the tasks behind it are begun.  Raises what it raises, LogError worker-lost."""
        wanted = range(at, min(at + 1 + self._ahead, len(tasks)))
        keys = {place: (place, (function, more)) for place in wanted}
        for key in [key for key in self._waiting if key not in keys.values()]:
            self._waiting.pop(key).cancel()
        try:
            for place, key in keys.items():
                if key not in self._waiting:
                    self._waiting[key] = self._executor.submit(function, *tasks[place], *more)
            return self._waiting.pop(keys[at]).result()
        except PyioTraceError:
            raise
        except Exception as error:  # a Dask cluster raises errors of many kinds for a worker that is gone
            reason = (str(error) or type(error).__name__).partition("\n")[0][:200]
            raise LogError("worker-lost", f"{self._where} could not finish: {reason}; merge without them") from error

    def order(self, sources: Sequence[Any]) -> None:
        """The order in which the rows of these sources will be asked for."""
        self.tasks = []
        for source in sources:
            if isinstance(source, SpreadSource):
                source.first = len(self.tasks)
                self.tasks += [(source.path, source.stamp, division) for division in range(source.divisions()[0])]


class SpreadSource:
    """See pyio_trace.join.sources.source.Source."""

    def __init__(self, path: str, known: _Known, spread: Spread) -> None:
        self.path, self.stamp, self.first = path, known.stamp, 0
        self._known, self._spread = known, spread
        self._here: ParquetSource | None = None

    def _opened(self) -> ParquetSource:
        if self._here is None:
            self._here = _unchanged(self.path, self.stamp)
        return self._here

    def release(self) -> None:
        self._here = None

    def rows(self) -> int:
        return self._known.rows

    def values(self, column: str) -> pa.Array:
        values = self._known.small.get("values")
        return self._opened().values(column) if values is None else values[column]

    def batches(
        self, columns: Sequence[str], rows: int, within: tuple[int, int] | None = None
    ) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        schema = events.arrow_schema(columns)
        values = {name: self.values(name) for name in columns if name in _DICTIONARIES}
        for division in range(*within or (0, self.divisions()[0])):
            more = (tuple(columns), rows)
            sent = self._spread.result(_rows, self._spread.tasks, self.first + division, more)
            with pa.ipc.open_stream(sent) as stream:
                for batch in stream:
                    arrays = [
                        pa.DictionaryArray.from_arrays(array, values[name]) if name in values else array
                        for name, array in zip(columns, batch.columns, strict=True)
                    ]
                    yield pa.RecordBatch.from_arrays(arrays, schema=schema)

    def divisions(self) -> list[int]:
        return self._known.divisions

    def processes(self) -> list[dict[str, Any]]:
        return [dict(row) for row in self._known.tables["processes"]]

    def mappings(self) -> list[dict[str, Any]]:
        return self._known.tables["mappings"]

    def renames(self) -> list[dict[str, Any]]:
        return self._known.tables["renames"]

    def counters(self) -> list[dict[str, Any]]:
        return self._known.tables["counters"]

    def _of(self, name: str) -> Any:
        small = self._known.small
        return small[name] if name in small else getattr(self._opened(), name)()

    def samples(self) -> Samples:
        found: Samples = self._of("samples")
        return found

    def system(self) -> System:
        found: System = self._of("system")
        return found

    def stripes(self) -> dict[str, str]:
        found: dict[str, str] = self._of("stripes")
        return found

    def identities(self) -> Identities:
        found: Identities = self._of("identities")
        return found

    def attachment(self, name: str) -> str | None:
        return self._opened().attachment(name)

    def losses(self) -> dict[str, Any]:
        return self._known.losses

    def info(self) -> dict[str, Any]:
        return dict(self._known.info)


# ---- in a worker


def _known(path: str) -> _Known | PyioTraceError:
    """Or why it cannot be read."""
    try:
        before = _stamp(path)
        source = ParquetSource(path)
        large = {name: getattr(source, name)() for name in _LARGE}
        large["values"] = {name: source.values(name) for name in _DICTIONARIES}
        small = {name: value for name, value in large.items() if len(pickle.dumps(value)) <= _SMALL}
        tables = {name: getattr(source, name)() for name in ("processes", "mappings", "renames", "counters")}
        return _Known(before, source.rows(), source.divisions(), source.info(), tables, source.losses(), small)
    except PyioTraceError as error:
        return error
    except OSError as error:
        return LogError("log-unreadable", f"{path}: cannot be read: {error.strerror}")


def _rows(path: str, stamp: tuple[int, int], division: int, columns: Sequence[str], rows: int) -> pa.Buffer:
    """The rows of a division; of columns with a dictionary the codes, since the dictionary is known."""
    import pyarrow as pa

    source = _unchanged(path, stamp)
    sink = pa.BufferOutputStream()
    writer = None
    for batch in source.batches(columns, rows, (division, division + 1)):
        arrays = [getattr(array, "indices", array) for array in batch.columns]
        plain = pa.RecordBatch.from_arrays(arrays, names=list(columns))
        if writer is None:
            writer = pa.ipc.new_stream(sink, plain.schema, options=pa.ipc.IpcWriteOptions(compression="zstd"))
        writer.write_batch(plain)
    if writer is None:
        writer = pa.ipc.new_stream(sink, pa.schema([]))
    writer.close()
    return sink.getvalue()


def _unchanged(path: str, stamp: tuple[int, int]) -> ParquetSource:
    """Raises LogError log-changed, and what opening raises."""
    source = ParquetSource(path)
    if _stamp(path) != stamp:
        raise LogError("log-changed", f"{path}: it has changed while it was read; start again")
    return source


def _stamp(path: str) -> tuple[int, int]:
    found = os.stat(path)
    return found.st_size, found.st_mtime_ns
