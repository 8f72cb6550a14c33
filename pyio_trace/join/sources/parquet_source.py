"""A Parquet log as a source of the operations table, row group by row group.

The file may have been written by anyone.  Everything is checked here against
what the columns promise (pyio_trace/events.py): types, nulls, indices within
range, sizes that are not negative.  Anything else raises a LogError.
"""

from __future__ import annotations

import gc
import itertools
import os
import threading
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from pyio_trace import enums, events
from pyio_trace.errors import LogError
from pyio_trace.join.base import identities, samples_text, system
from pyio_trace.join.base.dictionaries import UnifiedDictionary
from pyio_trace.join.base.identities import Identities
from pyio_trace.join.base.samples import NOTHING, Samples
from pyio_trace.join.base.system import System
from pyio_trace.join.sources import earlier_imports, parquet_description
from pyio_trace.join.sources.earlier_imports import EarlierImports
from pyio_trace.join.sources.earlier_roles import EarlierRoles
from pyio_trace.log import stripes
from pyio_trace.log.parquet_log import ParquetLog, open_parquet
from pyio_trace.log.parquet_pages import too_large

if TYPE_CHECKING:
    import pyarrow as pa

#: Rows of a batch: more take more memory, fewer more turns of the threads that read and sum up.
_BATCH_ROWS = 1 << 18
#: Each piece of a row group brings the column's whole dictionary along.
_ROWS_PER_ENTRY = 4
#: Most bytes of one text: stacks may have thousands of frames.
_LONGEST = 16 << 20
#: Bytes of dictionaries that a log keeps while it is closed.
_SMALL = 1 << 16
#: How many logs have been closed, and after how many of them garbage is collected: pyarrow's metadata and schema of a
#: file refer to each other, and a command lets Python look for garbage seldom.
_closed, _COLLECT_EVERY = itertools.count(1), 64
_WORDS = {"layer": enums.LAYERS, "op_class": enums.CLASSES, "link": enums.LINKS, "op_role": enums.ROLES}
#: The least value of a column.
_LEAST = {
    "id": 0,
    "parent": 0,
    "request_id": 0,
    "task_id": 0,
    "process": 0,
    "duration": 0,
    "bytes_requested": 0,
    "bytes_moved": 0,
    "errno": -1,
    "cpu_time": 0,
    "calls": 1,
    "global_rank": 0,
}


class ParquetSource:
    """See pyio_trace.join.sources.source.Source; raises what open_parquet raises, and LogError log-damaged."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._opened: ParquetLog | None = open_parquet(path)
        self._path = self._opened.path
        self._description = self._opened.description
        if not parquet_description.is_sound(self._description):
            raise self._damaged("description")
        metadata = self._log.file.metadata
        self._group_rows = [metadata.row_group(group).num_rows for group in range(metadata.num_row_groups)]
        stored = frozenset(self._log.file.schema_arrow.names)
        self._present = frozenset(name for name in events.ALL_COLUMNS if self._log.stored(name) in stored)
        #: what encloses operations, where the log is older than the columns that say it
        self._roles = None if self._present.issuperset(events.ENCLOSING) else EarlierRoles(self)
        self._imports = None if earlier_imports.COLUMN in self._present else EarlierImports(self)
        self._unified: dict[str, UnifiedDictionary] = {}
        self._reading = threading.Lock()  # several readers may use one log at once

    @property
    def _log(self) -> ParquetLog:
        if self._opened is None:
            log = open_parquet(self._path)
            metadata = log.file.metadata
            rows = [metadata.row_group(group).num_rows for group in range(metadata.num_row_groups)]
            if rows != self._group_rows or log.description != self._description:
                raise LogError("log-changed", f"{self._path}: it has changed while it was read; start again")
            self._opened = log
        return self._opened

    def release(self) -> None:
        if self._roles is None and self._imports is None:
            self._opened = None
            if next(_closed) % _COLLECT_EVERY == 0:
                gc.collect()
            if sum(one.values.nbytes for one in self._unified.values()) > _SMALL:
                self._unified = {}

    def rows(self) -> int:
        return sum(self._group_rows)

    def values(self, column: str) -> pa.Array:
        if self._roles is not None and column == "op_role":
            return self._roles.words
        self._unify(column)
        return self._unified[column].values

    def batches(
        self, columns: Sequence[str], rows: int, within: tuple[int, int] | None = None
    ) -> Iterator[pa.RecordBatch]:
        if self._imports is not None and earlier_imports.COLUMN in columns:
            return self._imports.batches(columns, rows, within)
        if self._roles is not None and not set(events.ENCLOSING).isdisjoint(columns):
            return self._roles.batches(columns, rows, within)
        return self._stored_batches(columns, rows, range(*within or (len(self._group_rows),)))

    def divisions(self) -> list[int]:
        return [len(self._group_rows)]

    def _stored_batches(self, columns: Sequence[str], rows: int, groups: range) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        schema = events.arrow_schema(columns)
        dictionaries = [name for name in columns if pa.types.is_dictionary(schema.field(name).type)]
        self._unify(*dictionaries)
        unified = {name: self._unified[name] for name in dictionaries}
        # In small pieces, unless each of them would bring large dictionaries.
        step = min(rows, _BATCH_ROWS)
        at_once = max(step, _ROWS_PER_ENTRY * max((len(one.values) for one in unified.values()), default=0))
        for group in groups:
            for part in self._pieces(group, columns, at_once):
                batch = self._batch(part, schema, unified)
                for first in range(0, len(batch), step):
                    yield batch.slice(first, step)

    def _batch(self, batch: pa.RecordBatch, schema: pa.Schema, unified: dict[str, UnifiedDictionary]) -> pa.RecordBatch:
        """The batch with the columns and types of the schema, in its order."""
        import pyarrow as pa

        try:
            arrays = [
                unified[field.name].adopt(batch.column(field.name))
                if field.name in unified
                else batch.column(field.name).cast(field.type)
                for field in schema
            ]
        except (pa.ArrowException, ValueError):
            raise self._damaged() from None
        if not all(self._as_promised(field, array) for field, array in zip(schema, arrays, strict=True)):
            raise self._damaged()
        return pa.RecordBatch.from_arrays(arrays, schema=schema)

    def _as_promised(self, field: pa.Field, array: pa.Array) -> bool:
        import pyarrow.compute as pc

        if array.null_count and not field.nullable:
            return False
        if field.name not in _LEAST or array.null_count == len(array):
            return True
        ends = pc.min_max(array).as_py()
        most = len(self._description["processes"]) - 1 if field.name == "process" else ends["max"]
        return bool(ends["min"] >= _LEAST[field.name] and ends["max"] <= most)

    def processes(self) -> list[dict[str, Any]]:
        return parquet_description.processes_of(self._description)

    def mappings(self) -> list[dict[str, Any]]:
        return list(self._description["mappings"])

    def renames(self) -> list[dict[str, Any]]:
        return parquet_description.renames_of(self._description)

    def counters(self) -> list[dict[str, Any]]:
        return list(self._description["counters"])

    def samples(self) -> Samples:
        return self._samples

    @cached_property
    def _samples(self) -> Samples:
        text = self._log.attachment(samples_text.NAME)
        try:
            return NOTHING if text is None else samples_text.decoded(text, len(self._description["processes"]))
        except ValueError:
            raise self._damaged("samples") from None

    def system(self) -> System:
        return self._system

    @cached_property
    def _system(self) -> System:
        text = self._log.attachment(system.ATTACHMENT)
        try:
            return system.NOTHING if text is None else system.decoded(text)
        except ValueError:
            raise self._damaged("rows of the system") from None

    def stripes(self) -> dict[str, str]:
        text = self._log.attachment(stripes.ATTACHMENT)
        try:
            return {} if text is None else stripes.checked(text)
        except ValueError:
            raise self._damaged("layouts of files") from None

    def identities(self) -> Identities:
        text = self._log.attachment(identities.NAME)
        try:
            return identities.NOTHING if text is None else identities.decoded(text)
        except ValueError:
            raise self._damaged("files") from None

    def attachment(self, name: str) -> str | None:
        return self._log.attachment(name)

    def losses(self) -> dict[str, Any]:
        return dict(self._description["losses"])

    def info(self) -> dict[str, Any]:
        size = self._path.stat().st_size
        rows = self.rows()
        more = {"format": "parquet", "bytes": size, "bytes_per_operation": size / rows if rows else None}
        return parquet_description.info_of(self._description["info"]) | more

    def _unify(self, *columns: str) -> None:
        """Merges the dictionaries of these columns, in one pass over the row groups."""
        import pyarrow as pa
        import pyarrow.compute as pc

        missing = [name for name in columns if name not in self._unified]
        if not missing:
            return
        parts: dict[str, list[pa.Array]] = {name: [] for name in missing}
        for group, names in self._groups_to_unify(missing).items():
            for batch in self._pieces(group, names, max(self._group_rows[group], 1)):
                for name in names:
                    column = batch.column(name)
                    if not (pa.types.is_dictionary(column.type) and pa.types.is_string(column.type.value_type)):
                        raise self._damaged()
                    if not (parts[name] and column.dictionary.equals(parts[name][-1])):  # most are equal
                        parts[name].append(column.dictionary)
        for name in missing:
            try:
                unified = UnifiedDictionary(parts[name] or [pa.array([], pa.string())])
                unified.values.validate(full=True)
            except pa.ArrowException:
                raise self._damaged() from None
            if (pc.max(pc.binary_length(unified.values)).as_py() or 0) > _LONGEST:
                raise too_large(self._path)
            if name in _WORDS and not set(unified.values.unique().to_pylist()) <= set(_WORDS[name]):
                raise self._damaged()
            self._unified[name] = unified

    def _groups_to_unify(self, columns: list[str]) -> dict[int, list[str]]:
        """The row groups that have to be read for the dictionaries of these columns, and which columns of each.  The
        packer writes the same dictionaries into all row groups."""
        needed: dict[int, list[str]] = {group: [] for group in range(len(self._group_rows))}
        for name in columns:
            try:
                with self._reading:
                    one = self._log.allowance.one_dictionary(self._log.stored(name)) if name in self._present else None
            except (OSError, ValueError):
                raise self._damaged() from None
            for group in needed if one is None else (one,):
                needed[group].append(name)
        return {group: names for group, names in needed.items() if names}

    def _pieces(self, group: int, columns: Sequence[str], rows: int) -> Iterator[pa.RecordBatch]:
        """The rows of a row group, at most `rows` at a time."""
        import pyarrow as pa

        stored = {self._log.stored(name): name for name in columns if name in self._present}
        missing = events.arrow_schema([name for name in columns if name not in self._present])  # the log is older
        done = 0
        try:
            with self._reading:
                self._log.allowance.charge(group, stored)
                batches = self._log.file.iter_batches(rows, row_groups=[group], columns=list(stored))
            while True:
                with self._reading:
                    batch = next(batches, None)
                if batch is None:
                    break
                done += len(batch)
                table = pa.Table.from_batches([batch]).rename_columns([stored[name] for name in batch.schema.names])
                for field in missing:
                    nothing = pa.nulls(len(batch), field.type)
                    table = table.append_column(field, nothing if field.nullable else nothing.fill_null(False))
                yield from table.to_batches()
        except (pa.ArrowException, OSError, ValueError):  # also ArrowMemoryError: a header can claim any size
            raise self._damaged() from None
        if columns and done != self._group_rows[group]:
            raise self._damaged()

    def _damaged(self, what: str = "rows") -> LogError:
        return LogError(
            "log-damaged",
            f"{self._path}: its {what} {'is' if what == 'description' else 'are'} damaged; copy or pack it again",
        )
