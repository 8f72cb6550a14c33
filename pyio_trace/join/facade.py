"""Log: what pyio_trace.open() gives, the one way in for everything that reads.

Analyses, reports and exports take a Log and see Arrow tables; whether they
come from a live log, a Parquet log or a folder they cannot tell.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyio_trace import events
from pyio_trace.join.losses import counters_table
from pyio_trace.join.mappings import mappings_table
from pyio_trace.join.processes import table_of
from pyio_trace.join.source import Source

if TYPE_CHECKING:
    import pyarrow as pa


class Log:
    """A log, as of the moment it was opened; made by pyio_trace.join.opening.open_log."""

    def __init__(self, path: Path, source: Source) -> None:
        self.path = path
        self._source = source

    def __repr__(self) -> str:
        return f"Log({str(self.path)!r})"

    def operations(self, columns: Sequence[str] | None = None) -> pa.Table:
        """One row an operation, in the order of ids: within a thread, as they began.

        columns: some of pyio_trace.events.OPERATIONS (or INTERNAL), in that
        order; None: all of OPERATIONS.  Raises KeyError for what is no column.
        """
        import pyarrow as pa

        names = self._names(columns)
        return pa.Table.from_batches(self._source.batches(names, 1 << 20), schema=events.arrow_schema(names))

    def batches(self, columns: Sequence[str] | None = None, rows: int = 1 << 20) -> Iterator[pa.RecordBatch]:
        """The same rows in pieces of at most rows, in bounded memory.

        A dictionary column has the same dictionary in every piece, so indices
        can be counted across them.  Also gives the columns of events.INTERNAL.
        Raises KeyError for what is no column, ValueError for rows < 1.
        """
        if rows < 1:
            raise ValueError(f"rows must be at least 1, not {rows}")
        return self._source.batches(self._names(columns), rows)

    def dictionary(self, column: str) -> pa.Array:
        """The strings that a dictionary column's indices stand for, in every batch."""
        return self._source.values(column)

    def rows(self) -> int:
        """How many operations there are."""
        return self._source.rows()

    def processes(self) -> pa.Table:
        """One row a process: index, host, pid, ppid, parent (index), start, begin, end (ns since the epoch; end
        null: not seen), ended, status, argv, executable, version, followed, cwd, lost, blind, stack_state, note,
        started_by (id of the operation), site, stack (the line of Python that led to it, also through programs that
        are not Python),
        and what passed it by (pyio_trace.join.processes.Process): kernel_read, kernel_written, storage_read,
        storage_written, major_faults, unseen_read, unseen_written, mapped_touched, mapped_written.

        ended: "exit N", "signal N (NAME)", "exec", "running", "stopped tracing",
        "lost (killed or crashed; not seen)", or "not followed": a child that
        did not trace itself and whose end was not seen either.
        """
        return table_of(self._source.processes())

    def mappings(self) -> pa.Table:
        """What went through file mappings, estimated: one row for those of a process that are alike.  Columns: see
        pyio_trace.join.mappings.Mapping."""
        return mappings_table(self._source.mappings())

    def counters(self) -> pa.Table:
        """Exact counters of what has no row: process, pid, why (counted, excluded), layer, op_class, op,
        kind (of descriptor), count, bytes, duration (ns), errors."""
        return counters_table(self._source.counters())

    def losses(self) -> dict[str, Any]:
        """What is known to be missing; empty if nothing. Keys: see pyio_trace.join.losses.read_losses."""
        return self._source.losses()

    def info(self) -> dict[str, Any]:
        """The run: run, host, boot, owner_pid, start, end (ns since the epoch), mode, format, version,
        records, bytes, bytes_per_operation, ring_since (ns since the epoch: a ring wrote over operations that began up
        to then, and has all later ones; None: it wrote over none)."""
        return self._source.info()

    def _names(self, columns: Sequence[str] | None) -> tuple[str, ...]:
        return tuple(column.name for column in events.columns_of(columns))
