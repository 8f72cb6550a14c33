"""A live log as a source of the operations table.  Rows come in the order of ids."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Sequence
from functools import cached_property
from itertools import islice
from typing import TYPE_CHECKING, Any, BinaryIO

from pyio_trace import events
from pyio_trace.join.base import parallel
from pyio_trace.join.base.identities import Identities
from pyio_trace.join.base.samples import Samples
from pyio_trace.join.base.system import System
from pyio_trace.join.processes.kernel_io import kernel_io_of
from pyio_trace.join.processes.known_losses import BYPASSES, read_losses, unsampled
from pyio_trace.join.processes.mapped_files import read_mappings
from pyio_trace.join.processes.mounts import type_of
from pyio_trace.join.processes.op_counters import read_counters
from pyio_trace.join.processes.own_pages import own_pages
from pyio_trace.join.processes.process_names import add_names
from pyio_trace.join.processes.process_table import Process, is_this_boot, read_processes
from pyio_trace.join.processes.raw_syscalls import loaded, that_make_calls
from pyio_trace.join.processes.run_info import read_info
from pyio_trace.join.processes.start_lines import add_lines
from pyio_trace.join.processes.started_packages import own_code_of
from pyio_trace.join.processes.unseen_renames import find_renames
from pyio_trace.join.processes.usage import usage_of
from pyio_trace.join.processes.writers import writers
from pyio_trace.join.tables.log_tables import LogTables
from pyio_trace.join.tables.operation_columns import OperationColumns
from pyio_trace.join.tables.sample_rows import samples_of
from pyio_trace.join.tables.system_rows import system_of
from pyio_trace.log import stripes
from pyio_trace.log.blocks import BLOCK_ROWS
from pyio_trace.log.extents import Extent
from pyio_trace.log.heap import Heap
from pyio_trace.log.live import LiveLog
from pyio_trace.log_constants import LOST, RUNNING

if TYPE_CHECKING:
    import pyarrow as pa

_COPY_BYTES = 1 << 20


class LiveSource:
    """See pyio_trace.join.sources.source.Source; raises what LiveLog raises."""

    def __init__(self, path: str | os.PathLike[str], opened: int | None = None) -> None:
        """opened: a descriptor of the file, where it is open already; it is closed with the log."""
        self._log = LiveLog(path, opened)
        self._heap = Heap(self._log)
        self._table = read_processes(self._log, self._heap)
        own = own_code_of([vars(process) for process in self._table])
        self._tables = LogTables(self._log, self._heap, [process.global_rank for process in self._table], own)
        self._is_this_boot = is_this_boot(self._log.header)

    @property
    def run_id(self) -> int:
        return int(self._log.header["run_id"])

    def alive(self, others_than: Collection[int] = (), *, helpers: bool = True) -> list[int]:
        """The numbers of processes that were running when the log was opened; needs no pass.

        helpers: also those that do no I/O of the program; else those that may write, 0 for one that is being forked.
        """
        if helpers:
            running = [process.pid for process in self._table if process.ended == RUNNING]
        else:
            running = writers(self._log, self._table) or [0] * (int(self._log.header["forks_pending"]) > 0)
        return [pid for pid in running if pid not in others_than]

    @property
    def used(self) -> int:
        """Bytes of the file that belong to the log."""
        return self._log.used

    @property
    def first_ended(self) -> str:
        """How the run's first process ended."""
        return next((process.ended for process in self._table if process.parent is None), "")

    def gone(self) -> set[int]:
        """Processes that were found to be gone, after the log was opened: they may have written until then."""
        return {process.pid for process in self._table if process.ended == LOST}

    # ---- operations

    def rows(self) -> int:
        return self._tables.scan.rows

    def values(self, column: str) -> pa.Array:
        return self._tables.dictionary(column)

    def batches(
        self, columns: Sequence[str], rows: int, within: tuple[int, int] | None = None
    ) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        schema = events.arrow_schema(columns)
        self._tables.prepare(columns)

        def batch(portion: list[Extent]) -> pa.RecordBatch:
            block = self._tables.load(portion)
            return pa.RecordBatch.from_arrays(OperationColumns(self._tables, block).arrays(columns), schema=schema)

        portions = self._log.portions(min(rows, BLOCK_ROWS)) if within is None else self._portions(*within)
        for part in parallel.map_in_order(batch, portions):
            for first in range(0, len(part), rows):
                yield part.slice(first, rows)

    def divisions(self) -> list[int]:
        return [sum(1 for _ in self._log.portions(BLOCK_ROWS))]

    def _portions(self, first: int, end: int) -> Iterator[list[Extent]]:
        return islice(self._log.portions(BLOCK_ROWS), first, end)

    # ---- processes

    def processes(self) -> list[dict[str, Any]]:
        return list(self._process_rows)

    @cached_property
    def _process_rows(self) -> list[dict[str, Any]]:
        processes = self._processes
        add_lines(processes, self._log, self._heap, self._tables.words, self._tables.own)
        rows = [dict(vars(process)) for process in processes]
        add_names(rows)
        return rows

    @cached_property
    def _processes(self) -> list[Process]:
        """The process table with the kernel's accounts and the sums over mappings; needs the first pass."""
        mapped: dict[int, tuple[int, int]] = {}
        for row in self._mappings:
            touched, written = mapped.get(row["process"], (0, 0))
            mapped[row["process"]] = (min(touched + row["touched"], 1 << 62), min(written + row["written"], 1 << 62))
        own = own_pages(self._log)
        accounts = kernel_io_of(self._log, self._tables.words, self._tables.scan.bytes_by_process, own)
        result = []
        for process, account, usage in zip(self._table, accounts, usage_of(self._log, self._heap, own), strict=True):
            known = {} if account is None else account._asdict()
            for figures in usage:
                known |= figures._asdict()
            if process.index in mapped:
                known |= dict(zip(("mapped_touched", "mapped_written"), mapped[process.index], strict=True))
            result.append(Process(**{**vars(process), **known}))
        return result

    def mappings(self) -> list[dict[str, Any]]:
        return self._mappings

    @cached_property
    def _mappings(self) -> list[dict[str, Any]]:
        return read_mappings(self._log, self._heap, self._table)

    def counters(self) -> list[dict[str, Any]]:
        return self._counters

    @cached_property
    def _counters(self) -> list[dict[str, Any]]:
        return read_counters(self._log, self._tables.words, self._table)

    def samples(self) -> Samples:
        return self._samples

    @cached_property
    def _samples(self) -> Samples:
        return samples_of(self._tables)

    def system(self) -> System:
        return self._system

    @cached_property
    def _system(self) -> System:
        return system_of(self._tables, self.info()["host"])

    def stripes(self) -> dict[str, str]:
        """Of the files on Lustre that have a name in the log, asked now: only on the machine of the log."""
        types = self.info()["file_systems"] or {}
        if "lustre" not in types.values():
            return {}
        return stripes.of_files(path for path in self.values("path").to_pylist() if type_of(path, types) == "lustre")

    def identities(self) -> Identities:
        return self._tables.files.identities

    def release(self) -> None:
        """Nothing: all of it would have to be worked out again."""

    def attachment(self, name: str) -> str | None:
        return None

    def losses(self) -> dict[str, Any]:
        return self._losses

    @cached_property
    def _losses(self) -> dict[str, Any]:
        losses = read_losses(self._log, self._processes, self._mappings, self._renames)
        if self._log.header["sampling_hz"] and (len(self._samples) or "sampler_refused" not in losses):
            losses |= unsampled(self._table, self._samples.until())
        if losses.keys() & BYPASSES and self._is_this_boot:
            suspects = that_make_calls(loaded(self._log, self._heap))
            if suspects:
                losses["raw_call_libraries"] = suspects
        return losses

    def renames(self) -> list[dict[str, Any]]:
        return self._renames

    @cached_property
    def _renames(self) -> list[dict[str, Any]]:
        since = int(self._log.header["first"]["real"])
        return find_renames(self._tables.files, since) if self._is_this_boot else []

    def info(self) -> dict[str, Any]:
        return read_info(self._log, self._table, self.rows())

    def copy_to(self, file: BinaryIO) -> None:
        """Writes the log's own bytes, without the unused room reserved behind them."""
        at = 0
        while part := self._log.file.read(at, min(self._log.used - at, _COPY_BYTES)):
            at += file.write(part)
