"""Tables of sums for the commands: by file, and by stack.

Each batch is summed by key at once and only the sums are kept, so memory
follows the number of files or stacks.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from pyio_trace.analysis.ahead import read_ahead
from pyio_trace.analysis.collector import OPENS, OTHERS, READS, WRITES, roles
from pyio_trace.analysis.rows import AHEAD, COLUMNS, MOVING, PROCESS, USER_LAYER, RowReader, Rows, codes, int64

if TYPE_CHECKING:
    from pyio_trace.join.facade import Log

Progress = Callable[[int], None]
_SUMS = [("calls", "sum"), ("time", "sum"), ("moved", "sum"), ("errors", "sum"), ("first", "min"), ("last", "max")]
_MANY = 1 << 20


def by_file(log: Log, imports: bool = False, progress: Progress | None = None) -> pa.Table:
    """One row a file, the one with the most time first.

    path: the last it went by; time: ns in outermost calls; opens, reads, writes, metadata: calls
    of POSIX and of C streams; read, written: bytes they moved; calls: at all layers; errors;
    first, last: ns since the epoch; processes: how many touched it; names: how
    many paths it went by.  imports: also what Python's imports did.
    """
    sums, paths, start = _summed(log, ("file", "path", "process", "role"), imports, progress, _file_keys)
    # The name that stands for a file is the one it went by last.
    named = sums.group_by(["file", "path"]).aggregate([("last_max", "max")])
    file_of_name, path_of_name = named["file"].to_numpy(), named["path"].to_numpy()
    order = np.lexsort((named["last_max_max"].to_numpy(), path_of_name >= 0, file_of_name))[::-1]
    files, last_name = np.unique(file_of_name[order], return_index=True)
    path = path_of_name[order][last_name]
    at = np.searchsorted(files, sums["file"].to_numpy())
    role = sums["role"].to_numpy()
    columns: dict[str, pa.Array] = {"path": paths.take(pa.array(path, mask=path < 0))}

    def total(values: np.ndarray, *of: int) -> pa.Array:
        chosen = np.isin(role, of) if of else np.ones(len(role), np.bool_)
        return pa.array(np.rint(np.bincount(at[chosen], weights=values[chosen], minlength=len(files))).astype(np.int64))

    calls, moved = sums["calls_sum"].to_numpy(), sums["moved_sum"].to_numpy()
    columns["time"] = total(sums["time_sum"].to_numpy())
    columns |= {"opens": total(calls, OPENS), "reads": total(calls, READS), "writes": total(calls, WRITES)}
    columns |= {"metadata": total(calls, OTHERS), "read": total(moved, READS), "written": total(moved, WRITES)}
    columns |= {"calls": total(calls), "errors": total(sums["errors_sum"].to_numpy())}
    columns |= _extent(sums, "file", start)
    for name, key in (("processes", "process"), ("names", "path")):
        pairs = sums.group_by(["file", key]).aggregate([]).group_by("file").aggregate([(key, "count")]).sort_by("file")
        columns[name] = pairs[f"{key}_count"].combine_chunks()
    return pa.table(columns).sort_by([("time", "descending")])


def by_stack(log: Log, imports: bool = False, progress: Progress | None = None) -> pa.Table:
    """One row a stack, the one with the most time first; of outermost calls only, so that nothing counts twice.

    site; stack: folded, outermost frame first; calls; time: ns; read, written:
    bytes; errors; first, last: ns since the epoch.
    """
    sums, stacks, start = _summed(log, ("stack", "site", "role"), imports, progress, _stack_keys)
    stack = sums["stack"].to_numpy()
    keys, first_at, at = np.unique(stack, return_index=True, return_inverse=True)
    site = sums["site"].to_numpy()[first_at]
    role = sums["role"].to_numpy()

    def total(name: str, *of: int) -> pa.Array:
        values = sums[name].to_numpy()
        chosen = np.isin(role, of) if of else np.ones(len(role), np.bool_)
        return pa.array(np.rint(np.bincount(at[chosen], weights=values[chosen], minlength=len(keys))).astype(np.int64))

    sites = log.dictionary("site")
    columns = {
        "site": sites.take(pa.array(site, mask=site < 0)),
        "time": total("time_sum"),
        "calls": total("calls_sum"),
        "read": total("moved_sum", READS),
        "written": total("moved_sum", WRITES),
        "errors": total("errors_sum"),
        **_extent(sums, "stack", start),
        "stack": stacks.take(pa.array(keys, mask=keys < 0)),
    }
    return pa.table(columns).sort_by([("time", "descending")])


def _extent(sums: pa.Table, key: str, start: int) -> dict[str, pa.Array]:
    ends = sums.group_by(key).aggregate([("first_min", "min"), ("last_max", "max")]).sort_by(key)
    return {
        "first": pa.array(ends["first_min_min"].to_numpy() + start),
        "last": pa.array(ends["last_max_max"].to_numpy() + start),
    }


def _file_keys(rows: Rows, _: pa.RecordBatch) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    role = np.where(np.isin(rows.layer, MOVING), roles(rows.kind), -1)
    return rows.file > 0, {"file": rows.file, "path": rows.path, "process": rows.process, "role": role}


def _stack_keys(rows: Rows, batch: pa.RecordBatch) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    return rows.outer, {"stack": codes(batch.column("stack")), "site": rows.site, "role": roles(rows.kind)}


def _summed(
    log: Log,
    names: tuple[str, ...],
    imports: bool,
    progress: Progress | None,
    keys_of: Callable[[Rows, pa.RecordBatch], tuple[np.ndarray, dict[str, np.ndarray]]],
) -> tuple[pa.Table, pa.Array, int]:
    """(sums by the key columns, the dictionary of the first of path and stack among them, start of the run)."""
    start = int(log.info()["start"])
    ends = np.array([int64((p["end"] or start) - start) for p in log.processes().to_pylist()], np.int64)
    reader = RowReader(start, ends, lambda: log.batches(AHEAD))
    wanted = (*COLUMNS, "stack") if "stack" in names else COLUMNS
    parts: list[pa.Table] = []
    kept = 0
    for batch in read_ahead(log.batches(wanted)):
        rows, imported = reader.read(batch)
        keep, keys = keys_of(rows, batch)
        keep = keep & (rows.layer != USER_LAYER) & (rows.kind != PROCESS)
        if imported is not None and not imports:
            keep = keep & ~imported
        at = np.flatnonzero(keep)
        measures = {
            "calls": rows.count, "time": np.where(rows.outer, rows.duration, 0), "moved": rows.moved,
            "errors": np.where(rows.errno != 0, rows.count, 0), "first": rows.time, "last": rows.time + rows.duration,
        }  # fmt: skip
        table = pa.table({name: values[at].astype(np.int64) for name, values in (keys | measures).items()})
        parts.append(table.group_by(list(names)).aggregate(_SUMS))
        kept += len(parts[-1])
        if kept > _MANY:
            parts = [_again(parts, names)]
            kept = 0
        if progress is not None:
            progress(batch.num_rows)
    dictionary = log.dictionary("stack" if "stack" in names else "path")
    if not parts:
        empty = {name: pa.array([], pa.int64()) for name in (*names, *(f"{c}_{f}" for c, f in _SUMS))}
        return pa.table(empty), dictionary, start
    return _again(parts, names), dictionary, start


def _again(parts: list[pa.Table], names: tuple[str, ...]) -> pa.Table:
    """Sums of sums, under the names that single sums have."""
    whole = pa.concat_tables(parts).group_by(list(names)).aggregate([(f"{c}_{f}", f) for c, f in _SUMS])
    return whole.rename_columns([*names, *(f"{c}_{f}" for c, f in _SUMS)])
