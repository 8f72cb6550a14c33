"""The operations of one log, summed by path, source line and operation: what runs are compared by.

One pass over the log keeps sums only, so memory grows with the number of files
and lines.  What imports did is left out, as it depends on what was compiled before.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from pyio_trace.analysis.calls import lifetimes
from pyio_trace.analysis.reducer import scan
from pyio_trace.analysis.scan.batch_rows import COLUMNS, PROCESS, USER_LAYER, RowReader, Rows, int64
from pyio_trace.analysis.sums.grouped_sums import GroupedSums
from pyio_trace.analysis.view_sums.loader_steps import Training
from pyio_trace.log.sorting import distinct

if TYPE_CHECKING:
    import pyarrow as pa

    from pyio_trace.join.sources.facade import Log

Ints = NDArray[np.int64]

#: Index of the side of a copy that writes, in Groups.kind; the classes of operations are below it.  Its calls and times
#: are those of the other side once more.
COPIED_TO = 100
_KEYS = ("path", "file", "site", "op", "layer", "kind")
_SUMS = ("calls", "outermost", "time", "outer_time", "moved", "errors")


@dataclass(frozen=True)
class Groups:
    """Sums of like operations, one element a group.

    path, site, op: indexes into the texts of RunSums, -1 none; file: a number
    for each file, 0 none; layer, kind: indexes into enums.LAYERS and CLASSES.
    outermost: calls that are in no other one; time: ns of all calls;
    outer_time: ns of the outermost ones; moved: bytes.
    """

    path: Ints
    file: Ints
    site: Ints
    op: Ints
    layer: Ints
    kind: Ints
    calls: Ints
    outermost: Ints
    time: Ints
    outer_time: Ints
    moved: Ints
    errors: Ints


@dataclass(frozen=True)
class RunSums:
    """One run.  start: epoch ns; wall: ns, from its start to its last known activity; folder: where it was started,
    None: not known; processes: how many were followed; incomplete: why counts may be too low, "" if they are not;
    training: its training loop, None: there is none, or nobody asked."""

    log: str
    command: list[str]
    start: int
    wall: int
    processes: int
    folder: str | None
    incomplete: str
    groups: Groups
    paths: list[str]
    sites: list[str]
    ops: list[str]
    training: Training | None = None


@dataclass
class Part:
    """What some batches contribute.  last: when the last of their operations ended, ns since the start of the run."""

    sums: GroupedSums
    last: int


@dataclass(frozen=True)
class SumsOfRun:
    """The reducer."""

    columns: ClassVar[tuple[str, ...]] = COLUMNS

    reader: RowReader

    def partial(self, batch: pa.RecordBatch) -> Part:
        rows, imported = self.reader.read(batch)
        keep = (rows.layer != USER_LAYER) & (rows.kind != PROCESS)
        if imported is not None:
            keep &= ~imported
        own = rows.where(keep)
        sums = _no_sums()
        sums.add(_columns(own))
        copies = own.written_by_copies()
        if copies is not None:
            sums.add(_written(copies))
        # how long several calls took together says nothing of when the last one ended
        return Part(sums, int((rows.time + rows.duration * (rows.count == 1)).max(initial=0)))

    def combine(self, part: Part, later: Part) -> Part:
        part.sums.update(later.sums)
        part.last = max(part.last, later.last)
        return part

    def finish(self, part: Part | None, log: Log) -> RunSums:
        part = part or Part(_no_sums(), 0)
        info, table = log.info(), log.processes().to_pylist()
        start = int(info["start"])
        chosen = info.get("selected_processes")
        programs = [one for one in table if one["followed"] and (chosen is None or one["index"] in chosen)]
        return RunSums(
            log=str(log.path),
            command=(table[0]["argv"] or [table[0]["executable"]]) if table else [],
            start=start,
            wall=_wall(table, start, part.last),
            processes=len(programs) - sum(lifetimes.is_continuation(table, one) for one in programs),
            folder=table[0]["cwd"] if table else None,
            incomplete=_incomplete(info, log.losses()),
            groups=_groups(part.sums.columns()),
            paths=[path or "" for path in log.dictionary("path").to_pylist()],
            sites=[site or "" for site in log.dictionary("site").to_pylist()],
            ops=[op or "" for op in log.dictionary("op").to_pylist()],
        )


def run_sums(log: Log, progress: Callable[[int], None] | None = None) -> RunSums:
    """The sums of an open log.  Raises what reading the log raises."""
    found: RunSums = scan(log, [SumsOfRun(RowReader.of(log))], progress)[0]
    return found


def _no_sums() -> GroupedSums:
    return GroupedSums(_KEYS, dict.fromkeys(_SUMS, "sum"))


def _wall(table: list[dict[str, Any]], start: int, last: int) -> int:
    begins = [one["begin"] for one in table] or [start]
    ends = [one["end"] for one in table if one["end"] is not None]
    return int64(max(max([*ends, start + last]) - min(begins), 0))


def _incomplete(info: dict[str, Any], losses: dict[str, Any]) -> str:
    """Why the log may have fewer operations than the run."""
    if info.get("ring_since") is not None:
        return "its ring has overwritten earlier operations"
    counted = losses.get("operations_counted_only")
    if counted:
        return f"{counted:,} operations were counted only and are in no figure here"
    return ""


def _columns(rows: Rows) -> dict[str, Ints]:
    """Keys and measures."""
    columns: dict[str, NDArray[Any]] = {
        "path": rows.path, "file": rows.file, "site": rows.site, "op": rows.op, "layer": rows.layer, "kind": rows.kind,
        "calls": rows.count, "outermost": np.where(rows.outer, rows.count, 0), "time": rows.duration,
        "outer_time": np.where(rows.outer, rows.duration, 0), "moved": rows.moved,
        "errors": np.where(rows.errno != 0, rows.count, 0),
    }  # fmt: skip
    return {name: values.astype(np.int64) for name, values in columns.items()}


def _written(copies: Rows) -> dict[str, Ints]:
    """What copies wrote: in another file than the one that their rows name."""
    return _columns(copies) | {"kind": np.full(len(copies), COPIED_TO)}


def _groups(columns: dict[str, Ints]) -> Groups:
    """The sums as arrays, with a path for each group whose file has one in another."""
    path, file = columns["path"], columns["file"]
    named = np.flatnonzero((path >= 0) & (file != 0))
    identities = distinct(file)
    names = np.full(len(identities), -1, np.int64)
    names[np.searchsorted(identities, file[named])] = path[named]
    own = np.searchsorted(identities, file)
    path = np.where((path < 0) & (file != 0), names[own], path)
    return Groups(**columns | {"path": path, "file": np.where(file == 0, 0, own + 1)})


def totals(values: Ints, labels: Ints, size: int) -> Ints:
    """The sum of the values of each label, which are below `size`."""
    result = np.zeros(size, np.int64)
    np.add.at(result, labels, values)
    return result
