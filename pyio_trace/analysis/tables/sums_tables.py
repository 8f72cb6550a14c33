"""Sums by file and by stack as tables: the views of these, with further columns, and all rows.

One pass over the log keeps sums only, so memory grows with the number of files
or stacks.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, ClassVar

import numpy as np
import pyarrow as pa

from pyio_trace.analysis.reducer import scan
from pyio_trace.analysis.reducers import by_file as files
from pyio_trace.analysis.reducers import by_stack as stacks
from pyio_trace.analysis.scan.columns import Columns
from pyio_trace.analysis.scan.decoding import since
from pyio_trace.analysis.sums.dense_sums import OTHERS, roles
from pyio_trace.analysis.view_sums.key_sums import Bools, Ints, Part
from pyio_trace.enums import Layer, OpClass
from pyio_trace.join.base.arrow_arrays import of_codes, of_numbers

if TYPE_CHECKING:
    from pyio_trace.analysis.scan.workers import Workers
    from pyio_trace.join.sources.facade import Log

Progress = Callable[[int], None]


class FilesTable(files.ByFile):
    """The reducer of by_file(): calls at all layers count."""

    key: ClassVar[tuple[str, ...]] = ("file", "process")
    summed: ClassVar[tuple[str, ...]] = ("time_ns", "opens", "reads", "writes", "read_bytes", "written_bytes")
    further: ClassVar[tuple[str, ...]] = ("every", "failed", "others")

    def counted(self, columns: Columns) -> Bools:
        found: Bools = (columns.layer != Layer.USER) & (columns.kind != OpClass.PROCESS)
        return found

    def more(self, columns: Columns) -> dict[str, Ints]:
        others = columns.called & (roles(columns.kind) == OTHERS)
        return _every(columns) | {"others": columns.calls * others}

    def finish(self, part: Part | None, log: Log) -> pa.Table:
        part = part or self._empty()
        sums, processes = part.sums.columns("process"), part.sums.columns()["file"]
        found = sums["file"]
        path, before = part.names.present(found, log)
        figures = {
            "time": "time_ns", "opens": "opens", "reads": "reads", "writes": "writes", "metadata": "others",
            "read": "read_bytes", "written": "written_bytes", "calls": "every", "errors": "failed",
        }  # fmt: skip
        return _by_time({
            "path": path,
            **{name: of_numbers(sums[one]) for name, one in figures.items()},
            **_extent(sums, log),
            "processes": of_numbers(np.bincount(np.searchsorted(found, processes), minlength=len(found))),
            "names": of_numbers(part.names.counts(found)),
            "renamed_from": before,
        })  # fmt: skip


class StacksTable(stacks.ByStack):
    """The reducer of by_stack(): only outermost calls count, with the bytes that they were asked for."""

    key: ClassVar[tuple[str, ...]] = ("call_stack", "site")
    summed: ClassVar[tuple[str, ...]] = ("time_ns",)
    further: ClassVar[tuple[str, ...]] = ("every", "failed", "read", "written")

    def counted(self, columns: Columns) -> Bools:
        return columns.outer

    def more(self, columns: Columns) -> dict[str, Ints]:
        copies = columns.kind == OpClass.COPY
        reads, writes = ((columns.kind == one) | copies for one in (OpClass.READ, OpClass.WRITE))
        return _every(columns) | {"read": columns.moved * reads, "written": columns.moved * writes}

    def finish(self, part: Part | None, log: Log) -> pa.Table:
        part = part or self._empty()
        sums, lines = part.sums.columns("site"), part.sums.columns()
        _, first = np.unique(lines["call_stack"], return_index=True)
        figures = {
            "time": "time_ns", "calls": "every", "read": "read", "written": "written", "errors": "failed",
        }  # fmt: skip
        return _by_time({
            "site": of_codes(lines["site"][first], log.dictionary("site")),
            **{name: of_numbers(sums[one]) for name, one in figures.items()},
            **_extent(sums, log),
            "call_stack": log.dictionary("call_stack").take(
                of_numbers(sums["call_stack"], sums["call_stack"] < 0)
            ),
        })  # fmt: skip


def by_file(
    log: Log, imports: bool = False, progress: Progress | None = None, workers: Workers | None = None
) -> pa.Table:
    """One row for each file, the one with the most time first.

    path: the latest one it was used by, or renamed to; time: ns in outermost
    calls; opens, reads, writes, metadata: calls of POSIX and of C streams; read,
    written: bytes they moved; calls: at all layers; errors; first, last: ns since
    the epoch; processes: how many used it; names: how many paths it was used by;
    renamed_from: the name it was written under, where path is inferred (Log.renames()).
    imports: also what Python's imports did; workers: see scan().
    """
    table: pa.Table = scan(log, [FilesTable(imports=imports, most=None)], progress, workers=workers)[0]
    return table


def by_stack(
    log: Log, imports: bool = False, progress: Progress | None = None, workers: Workers | None = None
) -> pa.Table:
    """One row for each stack, the one with the most time first.  Only outermost calls, so that nothing counts twice.

    site; call_stack: folded, outermost frame first; calls; time: ns; read, written:
    bytes; errors; first, last: ns since the epoch.  imports, workers: see by_file().
    """
    table: pa.Table = scan(log, [StacksTable(imports=imports, most=None)], progress, workers=workers)[0]
    return table


def _every(columns: Columns) -> dict[str, Ints]:
    """Calls at all layers, and those that failed."""
    return {"every": columns.calls, "failed": columns.calls * (columns.numbers("errno") != 0)}


def _extent(sums: dict[str, Ints], log: Log) -> dict[str, pa.Array]:
    start = int(log.info()["start"])
    return {name: of_numbers(since(sums[f"{name}_ns"], start) + start) for name in ("first", "last")}


def _by_time(columns: dict[str, pa.Array]) -> pa.Table:
    return pa.table(columns).sort_by([("time", "descending")])
