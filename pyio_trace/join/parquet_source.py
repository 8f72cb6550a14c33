"""A Parquet log as a source of the operations table: row group by row group."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import fields
from typing import TYPE_CHECKING, Any

from pyio_trace import events
from pyio_trace.errors import LogError
from pyio_trace.join.losses import counters_table
from pyio_trace.join.processes import Process, table_of
from pyio_trace.join.unify import Unified
from pyio_trace.log.parquet import open_parquet

if TYPE_CHECKING:
    import pyarrow as pa

_PROCESS = {field.name for field in fields(Process)}


class ParquetSource:
    """See pyio_trace.join.source.Source; raises what open_parquet raises, and LogError log-damaged."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._log = open_parquet(path)
        self._check()
        self._unified: dict[str, Unified] = {}

    def rows(self) -> int:
        return int(self._log.file.metadata.num_rows)

    def values(self, column: str) -> pa.Array:
        return self._unify(column).values

    def batches(self, columns: Sequence[str], rows: int) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        schema = events.arrow_schema(columns)
        unified = {name: self._unify(name) for name in columns if pa.types.is_dictionary(schema.field(name).type)}
        for group in range(self._log.file.num_row_groups):
            for batch in self._group(group, columns).to_batches(max_chunksize=rows):
                yield self._batch(batch, schema, unified)

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
        except pa.ArrowException:
            raise self._damaged() from None
        return pa.RecordBatch.from_arrays(arrays, schema=schema)

    def processes(self) -> list[dict[str, Any]]:
        return list(self._log.description["processes"])

    def counters(self) -> list[dict[str, Any]]:
        return list(self._log.description["counters"])

    def losses(self) -> dict[str, Any]:
        return dict(self._log.description["losses"])

    def info(self) -> dict[str, Any]:
        size = self._log.path.stat().st_size
        rows = self.rows()
        more = {"format": "parquet", "bytes": size, "bytes_per_operation": size / rows if rows else None}
        info: dict[str, Any] = self._log.description["info"] | more
        return info

    def _check(self) -> None:
        """That the description has what is promised of it, so that nobody need look again."""
        import pyarrow as pa

        description = self._log.description
        info = description["info"]
        try:
            table_of(description["processes"]).validate(full=True)
            counters_table(description["counters"]).validate(full=True)
            sound = (
                all(row.keys() >= _PROCESS for row in description["processes"])
                and all("process" in row for row in description["counters"])
                and info.keys() >= {"run", "host", "start", "end"}
                and isinstance(info["start"], int)
                and isinstance(info["end"], int | None)
                and all(isinstance(value, int | str | list | None) for value in description["losses"].values())
            )
        except (pa.ArrowException, TypeError, AttributeError, ValueError):
            sound = False
        if not sound:
            raise self._damaged()

    def _unify(self, column: str) -> Unified:
        import pyarrow as pa

        if column not in self._unified:
            parts = []
            for group in range(self._log.file.num_row_groups):
                chunks = self._group(group, [column]).column(0).chunks
                if any(not pa.types.is_dictionary(chunk.type) for chunk in chunks):
                    raise self._damaged()
                parts += [chunk.dictionary for chunk in chunks]
            self._unified[column] = Unified(parts or [pa.array([], pa.string())])
        return self._unified[column]

    def _group(self, group: int, columns: Sequence[str]) -> pa.Table:
        import pyarrow as pa

        try:
            return self._log.file.read_row_group(group, columns=list(columns))
        except (pa.ArrowException, OSError, ValueError):
            raise self._damaged() from None

    def _damaged(self) -> LogError:
        return LogError("log-damaged", f"{self._log.path}: its rows are damaged; copy or pack the log again")
