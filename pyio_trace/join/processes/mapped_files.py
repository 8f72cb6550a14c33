"""I/O through file mappings, as far as it was measured (csrc/core/state/mappings.c).

There is one row for the mappings of a process that have the same file,
protection and kind.  A program may map one file for each sample it reads, so the
number of rows is bounded: the largest are kept, and the rest become one row for
each process.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import numpy as np

from pyio_trace.join.base.arrow_arrays import table_of_rows
from pyio_trace.join.processes.mapped_writers import Share, divide
from pyio_trace.join.processes.process_table import Process
from pyio_trace.join.references.paths import Paths
from pyio_trace.light_dataclass import dataclass
from pyio_trace.log import layout
from pyio_trace.log.heap import Heap
from pyio_trace.log.live import LiveLog

if TYPE_CHECKING:
    import pyarrow as pa

_MOST_ROWS = 1000


@dataclass
class Mapping:
    """One row; bytes.

    path: null in the row that stands for the smaller ones.  mappings: how many;
    unmeasured: those that could not be measured (their process was killed, or
    measuring would have taken too long), which are not in the following sums.
    touched: pages that were in the page tables (an estimate, and an upper
    bound); at_least: the fewest pages that explain these; written: pages that
    became dirty (estimated; of shared mappings; again after each msync).
    """

    process: int | None
    pid: int | None
    path: str | None
    protection: str
    shared: bool
    mappings: int = 0
    length: int = 0
    unmeasured: int = 0
    touched: int = 0
    at_least: int = 0
    written: int = 0
    sampled: bool = False
    populated: bool = False
    inherited: bool = False


def mappings_schema() -> pa.Schema:
    """The mappings table's columns."""
    import pyarrow as pa

    text, integer, big, yes = pa.string(), pa.int32(), pa.int64(), pa.bool_()
    return pa.schema(
        {
            "process": integer, "pid": integer, "path": text, "protection": text, "shared": yes, "mappings": big,
            "length": big, "unmeasured": big, "touched": big, "at_least": big, "written": big, "sampled": yes,
            "populated": yes, "inherited": yes,
        }
    )  # fmt: skip


def mappings_table(rows: list[dict[str, Any]]) -> pa.Table:
    """Mapping rows as a table."""
    return table_of_rows(rows, mappings_schema())


def read_mappings(log: LiveLog, heap: Heap, processes: list[Process]) -> list[dict[str, Any]]:
    """The rows, by process, the most touched first."""
    paths = Paths(heap)
    names: dict[int, str | None] = {}
    rows: list[Mapping] = []
    shares: dict[str, list[Share]] = {}
    visited: set[int] = set()
    for process, entry in zip(processes, log.processes(), strict=True):
        found: dict[tuple[str | None, str, bool], Mapping] = {}
        for raw in _listed(heap, int(entry["mappings"]), visited):
            if raw[3] not in names:
                names[raw[3]] = _path(heap, paths, raw[3])
            if not _is_unused(raw, int(entry["end_kind"])):
                row = _add(found, process, names[raw[3]], raw)
                if row.shared and row.path is not None and (raw[12] or (raw[10] and raw[5] & 2)):
                    shares.setdefault(row.path, []).append(_share(row, raw))
        unlisted = int(entry["mappings_unlisted"])
        if unlisted:
            key = (None, "", False)
            rest = found.setdefault(key, Mapping(process.index, process.pid, *key))
            rest.mappings += unlisted
            rest.unmeasured += unlisted
        rows += found.values()
    for of_file in shares.values():
        divide(of_file)
    return [asdict(row) for row in _largest(rows)]


def _listed(heap: Heap, identity: int, visited: set[int]) -> Iterator[tuple[int, ...]]:
    """The mappings of a process's list; visited: those of all lists so far, since a damaged log may have cycles."""
    while identity not in visited:
        raw = heap.mapping(identity)
        if raw is None:
            return
        visited.add(identity)
        yield raw
        identity = raw[2]


def _is_unused(raw: tuple[int, ...], end_kind: int) -> bool:
    """Whether a mapping was inherited and not used, as far as is known of a process that has ended so."""
    if not raw[6] & layout.MAPPING_INHERITED:
        return False
    if raw[7] == layout.NOT_MEASURED:
        return end_kind in (layout.END_EXIT, layout.END_EXEC, layout.END_STOPPED)
    return raw[7] != layout.MEASURING_SKIPPED and not raw[10] and not raw[12]


def _path(heap: Heap, paths: Paths, desc: int) -> str | None:
    rows, valid = heap.descriptors(np.array([desc], np.int64))
    at = paths.index(int(rows["path"][0])) if valid[0] else -1
    return paths.texts[at] if at >= 0 else None


def _add(
    found: dict[tuple[str | None, str, bool], Mapping], process: Process, path: str | None, raw: tuple[int, ...]
) -> Mapping:
    protection, flags, measured = raw[5:8]
    words = "".join(letter if protection & bit else "-" for letter, bit in (("r", 1), ("w", 2), ("x", 4)))
    key = (path, words, bool(flags & layout.MAPPING_SHARED))
    row = found.get(key)
    if row is None:
        row = found[key] = Mapping(process.index, process.pid, *key)
    row.mappings += 1
    row.length = _plus(row.length, _sane(raw[8]))
    row.populated |= bool(flags & layout.MAPPING_POPULATED)
    row.inherited |= bool(flags & layout.MAPPING_INHERITED)
    if measured not in (layout.MEASURED_AT_MUNMAP, layout.MEASURED_AT_END):
        row.unmeasured += 1
        return row
    row.touched = _plus(row.touched, _sane(raw[10]))
    row.at_least = _plus(row.at_least, _sane(raw[11]))
    row.written = _plus(row.written, _sane(raw[12]))
    row.sampled |= bool(flags & layout.MAPPING_SAMPLED)
    return row


def _share(row: Mapping, raw: tuple[int, ...]) -> Share:
    flags, measured = raw[6:8]
    known = measured in (layout.MEASURED_AT_MUNMAP, layout.MEASURED_AT_END)
    length, offset, touched, _, written, synced, others, dirty = (_sane(value) if known else 0 for value in raw[8:16])
    bits = (layout.MAPPING_INHERITED, layout.MAPPING_SYNCED, layout.MAPPING_SYNCED_OTHERS)
    parts = flags >> layout.MAPPING_SHARES_SHIFT & ((1 << layout.MAPPING_SHARES) - 1)
    return Share(
        row, written, min(synced, written), others, touched, dirty, raw[16], raw[17],
        (offset, length), parts, *(bool(flags & bit) for bit in bits),
    )  # fmt: skip


def _sane(value: int) -> int:
    return min(value, 1 << 47)  # the size of the address space


def _plus(one: int, other: int) -> int:
    return min(one + other, 1 << 60)  # damaged values, and sums of them, stay within int64


def _largest(rows: list[Mapping]) -> list[Mapping]:
    rows.sort(key=lambda row: -row.touched)
    kept, rest = rows[:_MOST_ROWS], rows[_MOST_ROWS:]
    others: dict[int | None, Mapping] = {}
    for row in rest:
        one = others.setdefault(row.process, Mapping(row.process, row.pid, None, "", False))
        for name in ("mappings", "length", "unmeasured", "touched", "at_least", "written"):
            setattr(one, name, _plus(getattr(one, name), getattr(row, name)))
        one.sampled |= row.sampled
    return sorted([*kept, *others.values()], key=lambda row: (row.process or 0, -row.touched))
