"""Rows of the operations table in the columns and the order that a command wants."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from pyio_trace.errors import ConfigError
from pyio_trace.events import OPERATION_COLUMNS
from pyio_trace.join.base.used_values import only_used_of_batch
from pyio_trace.log.earlier_versions import RENAMED_COLUMNS
from pyio_trace.values import did_you_mean

if TYPE_CHECKING:
    from pyio_trace.join.sources.facade import Log

#: Columns of which the largest values are wanted first.
_LARGEST_FIRST = ("duration", "bytes_requested", "bytes_moved", "calls")


def select(
    log: Log, columns: Sequence[str], sort: str | None = None, reverse: bool = False, limit: int | None = None
) -> Iterator[pa.RecordBatch]:
    """The operations with the given columns, in the order of the log or sorted.

    sort: a column, its largest first for durations and sizes; reverse: the other way round.
    """
    batches = log.batches(list(dict.fromkeys([*columns, *([sort] if sort else [])])))
    if sort:
        order = "descending" if (sort in _LARGEST_FIRST) != reverse else "ascending"
        batches = _sorted(batches, sort, order, limit)
    elif limit is not None:
        batches = _first(batches, limit)
    some = limit is not None or "selection" in log.info()
    for batch in batches:
        wanted = batch.select(list(columns))
        yield only_used_of_batch(wanted) if some else wanted


def check_columns(names: Sequence[str]) -> None:
    """Raise ConfigError for a name that is not a column of the operations table."""
    for name in names:
        if name not in OPERATION_COLUMNS:
            today = RENAMED_COLUMNS.get(name)
            hint = f"; it is {today} now" if today else did_you_mean(name, OPERATION_COLUMNS)
            raise ConfigError("bad-value", f"there is no column {name!r}{hint}")


def _first(batches: Iterator[pa.RecordBatch], limit: int) -> Iterator[pa.RecordBatch]:
    """The first `limit` rows; reads no more batches than it needs."""
    left = limit
    while left and (batch := next(batches, None)) is not None:
        part = batch.slice(0, left)
        left -= part.num_rows
        yield part


def _sorted(batches: Iterator[pa.RecordBatch], name: str, order: str, limit: int | None) -> Iterator[pa.RecordBatch]:
    """All rows in order; with a limit, only about that many are kept in memory."""
    kept: pa.Table | None = None
    for batch in batches:
        table = pa.Table.from_batches([batch])
        kept = table if kept is None else pa.concat_tables([kept, table])
        if limit is not None and kept.num_rows > 4 * limit + (1 << 20):
            kept = _ordered(kept, name, order, limit)
    if kept is not None:
        yield from _ordered(kept, name, order, limit).combine_chunks().to_batches()


def _ordered(table: pa.Table, name: str, order: str, limit: int | None) -> pa.Table:
    column = table[name].combine_chunks()
    if isinstance(column, pa.DictionaryArray):  # sorted by the rank of its strings, which need not be expanded
        column = pc.rank(column.dictionary, tiebreaker="dense").take(column.indices)
    at = pc.array_sort_indices(column, order=order, null_placement="at_start" if name == "duration" else "at_end")
    return table.take(at if limit is None else at.slice(0, limit))


def since_start(table: pa.Table, log: Log, columns: Sequence[str]) -> pa.Table:
    """The table with these columns counted from the start of the run instead of 1970."""
    start = int(log.info()["start"])
    for name in columns:
        at = table.schema.get_field_index(name)
        table = table.set_column(at, name, pc.subtract(table[name], start))
    return table
