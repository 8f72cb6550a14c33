"""Tables of sums for the commands: by file, and by call stack.

Each batch is summed by key as it comes and only the sums are kept, so memory
grows with the number of files or stacks.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pyio_trace.analysis.calls import renamings
from pyio_trace.analysis.calls.renamed_files import present_names
from pyio_trace.analysis.calls.renamings import Renamings
from pyio_trace.analysis.reducer import scan
from pyio_trace.analysis.scan.batch_rows import COLUMNS, COPY, PROCESS, USER_LAYER, RowReader, Rows
from pyio_trace.analysis.scan.columns import Columns
from pyio_trace.analysis.sums.dense_sums import OPENS, OTHERS, READS, WRITES, roles
from pyio_trace.analysis.sums.grouped_sums import GroupedSums
from pyio_trace.analysis.tables.run_sums import totals
from pyio_trace.join.base.arrow_arrays import coded, codes, of_codes
from pyio_trace.join.base.roles import MOVING

if TYPE_CHECKING:
    from pyio_trace.analysis.scan.workers import Workers
    from pyio_trace.join.sources.facade import Log

Ints = NDArray[np.int64]
Progress = Callable[[int], None]
_SUMS = {"calls": "sum", "time": "sum", "moved": "sum", "errors": "sum", "first": "min", "last": "max"}


class _FileSums:
    """What some batches contribute to the table of files."""

    def __init__(self) -> None:
        self.sums = GroupedSums(("file", "path", "process", "role"), _SUMS)
        self.renamings = Renamings()


@dataclass(frozen=True)
class ByFile:
    """The reducer of by_file()."""

    columns: ClassVar[tuple[str, ...]] = tuple(dict.fromkeys((*COLUMNS, *renamings.COLUMNS)))

    reader: RowReader
    imports: bool

    def partial(self, batch: pa.RecordBatch) -> _FileSums:
        rows, imported = self.reader.read(batch)
        part = _FileSums()
        part.renamings.add(Columns(batch))
        sums = part.sums
        keep = rows.file != 0
        if imported is not None and not self.imports:
            keep &= ~imported
        _add(sums, rows, keep, _file_keys(rows))
        copies = rows.written_by_copies()
        if copies is not None:  # what they read is in the rows themselves
            _add(sums, copies, copies.file != 0, _file_keys(copies))
        return part

    def combine(self, part: _FileSums, later: _FileSums) -> _FileSums:
        part.sums.update(later.sums)
        part.renamings.update(later.renamings)
        return part

    def finish(self, collected: _FileSums | None, log: Log) -> pa.Table:
        collected = collected or _FileSums()
        part = collected.sums
        sums = part.columns()
        files, at = np.unique(sums["file"], return_inverse=True)
        used = _latest_names(part)
        names, before = present_names(files, used, log)
        renamed = collected.renamings.present(files, used, log)
        if renamed:
            texts = [renamed.get(place, name) for place, name in enumerate(names.to_pylist())]
            names = coded(texts)
        columns: dict[str, pa.Array] = {"path": names}
        role = sums["role"]
        total = _Totals(at, len(files), role)
        calls, moved = sums["calls"], sums["moved"]
        columns["time"] = total(sums["time"])
        columns |= {"opens": total(calls, OPENS), "reads": total(calls, READS), "writes": total(calls, WRITES)}
        columns |= {"metadata": total(calls, OTHERS), "read": total(moved, READS), "written": total(moved, WRITES)}
        columns |= {"calls": total(calls), "errors": total(sums["errors"])}
        columns |= _extent(part.columns(*_but(part, "file")), self.reader.start)
        for name, key in (("processes", "process"), ("names", "path")):
            pairs = part.columns(*_but(part, "file", key))
            known = np.searchsorted(files, pairs["file"][pairs[key] >= 0])
            columns[name] = pa.array(np.bincount(known, minlength=len(files)))
        columns["renamed_from"] = before
        return pa.table(columns).sort_by([("time", "descending")])


@dataclass(frozen=True)
class ByStack:
    """The reducer of by_stack()."""

    columns: ClassVar[tuple[str, ...]] = (*COLUMNS, "call_stack")

    reader: RowReader
    imports: bool

    def partial(self, batch: pa.RecordBatch) -> GroupedSums:
        rows, imported = self.reader.read(batch)
        sums = GroupedSums(("call_stack", "site", "role"), _SUMS)
        keep = rows.outer if imported is None or self.imports else rows.outer & ~imported
        stack = codes(batch.column("call_stack"))
        _add(sums, rows, keep, {"call_stack": stack, "site": rows.site, "role": roles(rows.kind)})
        at = np.flatnonzero(keep & (rows.kind == COPY))  # what they read is in the rows themselves
        written = {"call_stack": stack[at], "site": rows.site[at], "role": np.full(len(at), WRITES)}
        sums.add(written | {"moved": rows.moved[at]})
        return sums

    def combine(self, part: GroupedSums, later: GroupedSums) -> GroupedSums:
        part.update(later)
        return part

    def finish(self, part: GroupedSums | None, log: Log) -> pa.Table:
        part = GroupedSums(("call_stack", "site", "role"), _SUMS) if part is None else part
        sums = part.columns()
        keys, first_at, at = np.unique(sums["call_stack"], return_index=True, return_inverse=True)
        site = sums["site"][first_at]
        total = _Totals(at, len(keys), sums["role"])
        columns = {
            "site": of_codes(site, log.dictionary("site")),
            "time": total(sums["time"]),
            "calls": total(sums["calls"]),
            "read": total(sums["moved"], READS),
            "written": total(sums["moved"], WRITES),
            "errors": total(sums["errors"]),
            **_extent(part.columns(*_but(part, "call_stack")), self.reader.start),
            "call_stack": log.dictionary("call_stack").take(pa.array(keys, mask=keys < 0)),
        }
        return pa.table(columns).sort_by([("time", "descending")])


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
    table: pa.Table = scan(log, [ByFile(RowReader.of(log), imports)], progress, workers=workers)[0]
    return table


def by_stack(
    log: Log, imports: bool = False, progress: Progress | None = None, workers: Workers | None = None
) -> pa.Table:
    """One row for each stack, the one with the most time first.  Only outermost calls, so that nothing counts twice.

    site; call_stack: folded, outermost frame first; calls; time: ns; read, written:
    bytes; errors; first, last: ns since the epoch.  imports, workers: see by_file().
    """
    table: pa.Table = scan(log, [ByStack(RowReader.of(log), imports)], progress, workers=workers)[0]
    return table


def _latest_names(sums: GroupedSums) -> Ints:
    """The code of the latest name that each file was used by, in the order of the files."""
    named = sums.columns(*_but(sums, "file", "path"))
    order = np.lexsort((named["last"], named["path"] >= 0, named["file"]))[::-1]
    _, latest = np.unique(named["file"][order], return_index=True)
    return named["path"][order][latest]


class _Totals:
    """Sums of values by file or stack, of some roles or of all."""

    def __init__(self, at: Ints, size: int, role: Ints) -> None:
        """at: which one each value belongs to, below size."""
        self._at, self._size, self._role = at, size, role

    def __call__(self, values: Ints, role: int | None = None) -> pa.Array:
        chosen = slice(None) if role is None else self._role == role
        return pa.array(totals(values[chosen], self._at[chosen], self._size))


def _but(sums: GroupedSums, *keys: str) -> list[str]:
    """The other keys of these sums."""
    return [key for key in sums.keys if key not in keys]


def _extent(ends: dict[str, Ints], start: int) -> dict[str, pa.Array]:
    return {"first": pa.array(ends["first"] + start), "last": pa.array(ends["last"] + start)}


def _file_keys(rows: Rows) -> dict[str, np.ndarray]:
    role = np.where(np.isin(rows.layer, MOVING), roles(rows.kind), -1)
    return {"file": rows.file, "path": rows.path, "process": rows.process, "role": role}


def _add(sums: GroupedSums, rows: Rows, keep: np.ndarray, keys: dict[str, np.ndarray]) -> None:
    """Adds the rows to keep by these keys."""
    at = np.flatnonzero(keep & (rows.layer != USER_LAYER) & (rows.kind != PROCESS))
    measures = {
        "calls": rows.count, "time": np.where(rows.outer, rows.duration, 0), "moved": rows.moved,
        "errors": np.where(rows.errno != 0, rows.count, 0), "first": rows.time, "last": rows.time + rows.duration,
    }  # fmt: skip
    sums.add({name: values[at] for name, values in (keys | measures).items()})
