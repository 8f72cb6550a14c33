"""Log: what pyio_trace.open() returns, and the only way for other code to read a log.

Analyses, reports and exports take a Log and get Arrow tables, whether the log is
live, packed or a folder.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from pyio_trace import events
from pyio_trace.join.base import used_values
from pyio_trace.join.processes.mapped_files import mappings_table
from pyio_trace.join.processes.op_counters import counters_table
from pyio_trace.join.processes.process_table import table_of
from pyio_trace.join.processes.started_packages import own_code_of
from pyio_trace.join.sources.filtered_source import Choice, FilteredSource
from pyio_trace.join.sources.source import Source

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl
    import pyarrow as pa

    from pyio_trace.join.base.samples import Samples
    from pyio_trace.join.base.system import System
    from pyio_trace.join.references.own_code import OwnCode


class Log:
    """A log, as of the moment it was opened; made by pyio_trace.join.sources.opening.open_log."""

    def __init__(self, path: Path, source: Source, choice: Choice | None = None) -> None:
        """choice: that of only()."""
        self.path = path
        self.choice = choice
        self._source = source

    def __repr__(self) -> str:
        return f"Log({str(self.path)!r})"

    def operations(self, columns: Sequence[str] | None = None) -> pa.Table:
        """One row an operation, in the order of ids: within a thread, as they began.

        columns: some of pyio_trace.events.OPERATIONS (or INTERNAL), in that
        order; None: all of OPERATIONS.  Raises KeyError for an unknown column.
        Dictionary columns hold the values that occur, and no others.
        """
        import pyarrow as pa

        names = self._names(columns)
        table = pa.Table.from_batches(self._source.batches(names, 1 << 20), schema=events.arrow_schema(names))
        return used_values.only_used(table)

    def to_pandas(self, columns: Sequence[str] | None = None) -> pd.DataFrame:
        """operations() as a pandas DataFrame: nullable integers (no offset becomes a float), categoricals.

        Raises ConfigError not-installed without pandas.
        """
        from pyio_trace.join.sources import dataframes

        return dataframes.to_pandas(self.operations(columns))

    def to_polars(self, columns: Sequence[str] | None = None) -> pl.DataFrame:
        """operations() as a polars DataFrame.  Raises ConfigError not-installed without polars."""
        from pyio_trace.join.sources import dataframes

        return dataframes.to_polars(self.operations(columns))

    def sql(self, query: str) -> pa.Table:
        """The answer to an SQL query, by DuckDB, over the tables operations, processes, counters, mappings,
        samples and system.  It can read and write no files.

        Raises ConfigError not-installed without DuckDB; duckdb.Error for a
        query that it does not accept.
        """
        from pyio_trace.join.sources import dataframes

        tables = (self.processes, self.counters, self.mappings, self.samples, self.system)
        others = {table.__name__: table for table in tables}
        return dataframes.run_sql(query, self.operations, others)

    def batches(
        self, columns: Sequence[str] | None = None, rows: int = 1 << 20, within: tuple[int, int] | None = None
    ) -> Iterator[pa.RecordBatch]:
        """The same rows in batches of at most `rows`, in bounded memory.

        within: only those of the divisions from the first number up to the second, without it.

        A dictionary column has the same dictionary in every batch, so indices
        can be counted across batches.  Also gives the columns of events.INTERNAL.
        Raises KeyError for an unknown column, ValueError for rows < 1.
        """
        if rows < 1:
            raise ValueError(f"rows must be at least 1, not {rows}")
        return self._source.batches(self._names(columns), rows, within)

    @property
    def has_whole_processes(self) -> bool:
        """Whether only() left out nothing but whole processes."""
        return self.choice is None or set(self.choice.columns) <= {"process"}

    def only(self, choice: Choice) -> Self:
        """The same log with only the chosen operations.  The process table, counters and losses stay whole, and so does
        rows()."""
        return type(self)(self.path, FilteredSource(self._source, choice), choice)

    def divisions(self) -> list[int]:
        """In how many divisions the rows of each log of a folder come, or of the only one.  Each can be read alone."""
        return self._source.divisions()

    def dictionary(self, column: str) -> pa.Array:
        """The dictionary of a dictionary column: the strings that its indices stand for in every batch."""
        return self._source.values(column)

    def rows(self) -> int:
        """The number of operations."""
        return self._source.rows()

    def processes(self) -> pa.Table:
        """One row for each process.

        index, host, pid, ppid, parent (index), start, begin, end (ns since the
        epoch; end null: not seen), ended, status, argv, executable, version,
        followed, cwd, lost, blind, stack_state, note, started_by (id of the
        operation), site and call_stack (the line of Python that led to it, also
        through programs that are not Python), end_by (who reported the end:
        itself, or parent: then it may have been earlier),
        process_kind and process_name (what a person calls it: "DataLoader
        worker", "DataLoader 0, worker 1"), global_rank, local_rank, world_size (of
        a parallel job), node, job, step (as the batch system or the launcher calls them),
        job_run (an id that all processes of one launch have, on all hosts),
        mpi_init_begin, mpi_init_end (when MPI_Init was called, and had returned),
        kernel_read, kernel_written, storage_read, storage_written, major_faults,
        unseen_read, unseen_written, mapped_touched, mapped_written (bytes),
        cpu_user, cpu_system (ns of processor time while traced), imports,
        import_time (ns), early_import_time (of it, before script_begin), script_begin
        (ns since the epoch), import_packages and
        import_package_times (the packages that took longest, ns in each),
        program_packages (installed packages that are its program, because they were started),
        watch_time (ns that watching added to calls of libraries); see
        pyio_trace.join.processes.process_table.Process.

        ended: "exit N", "signal N (NAME)", "exec", "running", "stopped tracing",
        "lost (killed or crashed; not seen)", or "not followed": a child that
        did not trace itself and whose end was not seen either.
        """
        return table_of(self._source.processes())

    def own_code(self) -> OwnCode:
        """What tells the program's own lines from those of libraries."""
        return own_code_of(self._source.processes())

    def mappings(self) -> pa.Table:
        """I/O through file mappings, estimated: one row for the mappings of a process that are alike.  Columns: see
        pyio_trace.join.processes.mapped_files.Mapping."""
        return mappings_table(self._source.mappings())

    def counters(self) -> pa.Table:
        """Exact counters of operations without a row: process, pid, why (counted, excluded), layer, op_class, op,
        kind (of descriptor), calls, bytes, duration (ns), errors."""
        return counters_table(self._source.counters())

    def samples(self) -> pa.Table:
        """What the sampler beside the run found its threads doing: one row for each run of equal samples of a thread,
        at most a second or so, by process, thread and time.  Without a sampler, there are no rows.

        process (index), thread (its number in the system), time (begin, ns since the epoch), duration (ns), cpu and
        delay (ns in it that the thread had a processor, and waited for one: exact), stack (outermost frame first,
        separated by ;, as call_stack of operations; null: no Python frame), state (running, gil, lock, sleep, poll,
        wait, system call, fault), samples (how often it was looked at).
        """
        return self._source.samples().table()

    def sampled(self) -> Samples:
        """The samples as arrays."""
        return self._source.samples()

    def system(self) -> pa.Table:
        """What --system saw of the machine beside the program: one row for each thing and stretch of time, by time.
        Without that option, there are no rows.

        time (begin, ns since the epoch), duration (ns), kind, host, name (of the disk, the interface, the program),
        pid (of another process; null: all that have no row), device (of a disk: st_dev of the files on it), and of
        what happened in that time (null: not known):
        kind machine: cpu_busy, cpu_wait (ns of processors, busy or idle while a disk was waited for), cores,
        cpu_stall, memory_stall, io_stall (ns that any task was stalled for it), io_stall_full (that all were),
        available, cached, dirty (bytes at the end), cost (ns of processor time of the look before), unread
        (processes whose traffic may not be read);
        disk: read_bytes, written_bytes, reads, writes, read_time, write_time (ns, over all requests), busy (ns);
        network: read_bytes, written_bytes, reads, writes (packets), lost (packets);
        other (a process that does not belong to the run), own (all processes of the run, and what they started):
        read_bytes, written_bytes (from and to storage).
        """
        return self._source.system().table()

    def stripes(self) -> dict[str, str]:
        """Path -> how Lustre has spread the file, as of the end of the run, such as "0-1048576:1x65536
        1048576-:4x1048576": parts of the file, servers (-1: all there are, 0: none yet), bytes of a stripe."""
        return self._source.stripes()

    def devices(self) -> set[int]:
        """st_dev of the files of the log, as far as they are known; of a log of several hosts none are."""
        return set(self._source.identities().device.tolist()) - {0}

    def seen_of_system(self) -> System:
        """The rows of system() as arrays."""
        return self._source.system()

    def renames(self) -> list[dict[str, Any]]:
        """Files that have another name than the one they were written under, without a rename in the log: file (as in
        the operations table), path, to, how ("reopened" under that name, or "found" there when the log was packed).
        Inferred.  Operations keep the name they used."""
        return self._source.renames()

    def attachment(self, name: str) -> str | None:
        """A text that was attached to the log when it was packed, as it was found; None: there is none."""
        return self._source.attachment(name)

    def losses(self) -> dict[str, Any]:
        """What is known to be missing; empty if nothing. Keys: see pyio_trace.join.processes.known_losses."""
        return self._source.losses()

    def info(self) -> dict[str, Any]:
        """The run: run, host, boot, owner_pid, start, end (ns since the epoch), mode, format, version,
        records, bytes, bytes_per_operation, file_systems (mount point -> type of the machine, such as "ext4"; None:
        not known), lock_options (mount point -> those of its options that say how far locks reach, such as
        "local_lock=all"), ring_since (ns since the epoch: a ring has overwritten operations that
        began up to then, and has all later ones; None: it has all), tool (that
        wrote the log; missing: pyio_trace).  Of only(): also selection (text) and selected_processes (indexes; None:
        any)."""
        return self._source.info()

    def _names(self, columns: Sequence[str] | None) -> tuple[str, ...]:
        return tuple(column.name for column in events.columns_of(columns))
