"""A Parquet log as a source of the operations table: row group by row group.

Whoever wrote the file, what leaves here is what the table's columns promise
(pyio_trace/events.py): types, no nulls where none may be, indices that lead
somewhere, sizes that are not negative.  What is not so is a LogError.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from pyio_trace import events
from pyio_trace.errors import LogError
from pyio_trace.join import description, parallel
from pyio_trace.join.survey import BLOCK_ROWS
from pyio_trace.join.unify import Unified
from pyio_trace.log.parquet import open_parquet

if TYPE_CHECKING:
    import pyarrow as pa

_WORDS = {"layer": events.LAYERS, "op_class": events.CLASSES, "link": events.LINKS}
#: The least value there may be.
_LEAST = {"id": 0, "parent": 0, "process": 0, "duration": 0, "size": 0, "moved": 0, "errno": 0, "count": 1}


class ParquetSource:
    """See pyio_trace.join.source.Source; raises what open_parquet raises, and LogError log-damaged."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._log = open_parquet(path)
        if not description.is_sound(self._log.description):
            raise self._damaged("description")
        metadata = self._log.file.metadata
        self._group_rows = [metadata.row_group(group).num_rows for group in range(metadata.num_row_groups)]
        self._unified: dict[str, Unified] = {}
        self._reading = threading.Lock()  # several readers of one log may be under way

    def rows(self) -> int:
        return sum(self._group_rows)

    def values(self, column: str) -> pa.Array:
        self._unify(column)
        return self._unified[column].values

    def batches(self, columns: Sequence[str], rows: int) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        schema = events.arrow_schema(columns)
        dictionaries = [name for name in columns if pa.types.is_dictionary(schema.field(name).type)]
        self._unify(*dictionaries)
        unified = {name: self._unified[name] for name in dictionaries}
        # A row group is read while the one before it is worked on, in pieces that stay in the processor's cache.
        step = min(rows, BLOCK_ROWS)
        for table in parallel.in_order(lambda group: self._group(group, columns), range(len(self._group_rows)), 1):
            for part in table.to_batches():
                batch = self._batch(part, schema, unified)
                for first in range(0, len(batch), step):
                    yield batch.slice(first, step)

    def _batch(self, batch: pa.RecordBatch, schema: pa.Schema, unified: dict[str, Unified]) -> pa.RecordBatch:
        """The batch with its columns in the order and of the types of the schema."""
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
        most = len(self._log.description["processes"]) - 1 if field.name == "process" else ends["max"]
        return bool(ends["min"] >= _LEAST[field.name] and ends["max"] <= most)

    def processes(self) -> list[dict[str, Any]]:
        return description.processes_of(self._log.description)

    def mappings(self) -> list[dict[str, Any]]:
        return list(self._log.description["mappings"])

    def counters(self) -> list[dict[str, Any]]:
        return list(self._log.description["counters"])

    def losses(self) -> dict[str, Any]:
        return dict(self._log.description["losses"])

    def info(self) -> dict[str, Any]:
        size = self._log.path.stat().st_size
        rows = self.rows()
        more = {"format": "parquet", "bytes": size, "bytes_per_operation": size / rows if rows else None}
        return description.info_of(self._log.description["info"]) | more

    def _unify(self, *columns: str) -> None:
        """Makes the dictionaries of these columns, in one pass over the row groups."""
        import pyarrow as pa

        missing = [name for name in columns if name not in self._unified]
        if not missing:
            return
        parts: dict[str, list[pa.Array]] = {name: [] for name in missing}
        for group in range(len(self._group_rows)):
            table = self._group(group, missing)
            for name in missing:
                for chunk in table.column(name).chunks:
                    if not (pa.types.is_dictionary(chunk.type) and pa.types.is_string(chunk.type.value_type)):
                        raise self._damaged()
                    parts[name].append(chunk.dictionary)
        for name in missing:
            try:
                unified = Unified(parts[name] or [pa.array([], pa.string())])
                unified.values.validate(full=True)
            except pa.ArrowException:
                raise self._damaged() from None
            if name in _WORDS and not set(unified.values.to_pylist()) <= set(_WORDS[name]):
                raise self._damaged()
            self._unified[name] = unified

    def _group(self, group: int, columns: Sequence[str]) -> pa.Table:
        import pyarrow as pa

        try:
            with self._reading:
                table = self._log.file.read_row_group(group, columns=list(columns))
        except (pa.ArrowException, OSError, ValueError):  # ArrowMemoryError is one of them: no size is beyond a header
            raise self._damaged() from None
        if columns and table.num_rows != self._group_rows[group]:
            raise self._damaged()
        return table

    def _damaged(self, what: str = "rows") -> LogError:
        return LogError(
            "log-damaged",
            f"{self._log.path}: its {what} {'is' if what == 'description' else 'are'} damaged; copy or pack it again",
        )
