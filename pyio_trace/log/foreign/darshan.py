"""Darshan's logs: counters by file and rank, and with DXT single reads and writes.

A record of counters becomes a row for each operation it counts, a sum of like
calls as in mode profile.  Darshan has one time for all openings, seeks and stats
of a file, and one for all writes and syncs: it is that of the first of these.
Where DXT has the single calls, the row has only what DXT lacks.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pyio_trace import darshan_format as form
from pyio_trace.enums import Layer, OpClass
from pyio_trace.errors import LogError
from pyio_trace.light_dataclass import dataclass
from pyio_trace.log.darshan_file import DarshanFile, Heat, Trace, is_version
from pyio_trace.log.foreign_log import ForeignLog, Format, Rows, amounts, damaged, nanoseconds
from pyio_trace.units import size

Ints = NDArray[np.int64]

#: Darshan's ranges of sizes, as details name them: labels, and where each but the last ends, bytes.
_RANGES = ("0-100", "100-1K", "1K-10K", "10K-100K", "100K-1M", "1M-4M", "4M-10M", "10M-100M", "100M-1G", "1G+")
_LIMITS = np.array([100, 1 << 10, 10 << 10, 100 << 10, 1 << 20, 4 << 20, 10 << 20, 100 << 20, 1 << 30], np.int64)
_COMMON = 4
#: Most calls that a row can stand for.
_MOST_CALLS = (1 << 31) - 1
#: Most processes that are all listed; of more, those with records of their own.
_MOST_LISTED = 1 << 16
_HEAT_MODULES = {"heatmap:POSIX": "POSIX", "heatmap:STDIO": "STDIO", "heatmap:MPIIO": "MPI-IO"}


@dataclass(frozen=True)
class _Sum:
    """An operation that a module counts.

    calls: its counters; less: those that count calls of another operation too;
    timer, stamp: the counters of its time, and of when it was first and last
    called.  Of several with one timer, the first that was called has the time.
    """

    op: str
    op_class: int
    calls: tuple[str, ...]
    timer: str = ""
    stamp: str = ""
    less: str = ""


#: Reads and writes of MPI-IO by kind -> the call that stands for the kind.
_KINDS = {"INDEP": "MPI_File_{}", "COLL": "MPI_File_{}_all", "SPLIT": "MPI_File_{}_all_begin", "NB": "MPI_File_i{}"}
_SUMS: dict[str, tuple[int, tuple[_Sum, ...]]] = {
    "POSIX": (Layer.POSIX, (
        _Sum("read", OpClass.READ, ("READS", "FREADS"), "READ_TIME", "READ"),
        _Sum("write", OpClass.WRITE, ("WRITES", "FWRITES"), "WRITE_TIME", "WRITE"),
        _Sum("fsync", OpClass.SYNC, ("FSYNCS",), "WRITE_TIME"),
        _Sum("fdatasync", OpClass.SYNC, ("FDSYNCS",), "WRITE_TIME"),
        _Sum("open", OpClass.OPEN, ("OPENS",), "META_TIME", "OPEN", "DUPS"),
        _Sum("stat", OpClass.META, ("STATS",), "META_TIME"),
        _Sum("lseek", OpClass.SEEK, ("SEEKS",), "META_TIME"),
        _Sum("dup", OpClass.META, ("DUPS",), "META_TIME"),
        _Sum("rename", OpClass.META, ("RENAME_SOURCES",), "META_TIME"),
        _Sum("mmap", OpClass.MAP, ("MMAPS",)),
    )),
    "STDIO": (Layer.STDIO, (
        _Sum("fread", OpClass.READ, ("READS",), "READ_TIME", "READ"),
        _Sum("fwrite", OpClass.WRITE, ("WRITES",), "WRITE_TIME", "WRITE"),
        _Sum("fflush", OpClass.SYNC, ("FLUSHES",), "WRITE_TIME"),
        _Sum("fopen", OpClass.OPEN, ("OPENS",), "META_TIME", "OPEN", "FDOPENS"),
        _Sum("fdopen", OpClass.META, ("FDOPENS",), "META_TIME", "OPEN"),
        _Sum("fseek", OpClass.SEEK, ("SEEKS",), "META_TIME"),
    )),
    "MPI-IO": (Layer.MPIIO, (
        _Sum("MPI_File_read", OpClass.READ, tuple(f"{kind}_READS" for kind in _KINDS), "READ_TIME", "READ"),
        _Sum("MPI_File_write", OpClass.WRITE, tuple(f"{kind}_WRITES" for kind in _KINDS), "WRITE_TIME", "WRITE"),
        _Sum("MPI_File_sync", OpClass.SYNC, ("SYNCS",), "WRITE_TIME"),
        _Sum("MPI_File_open", OpClass.OPEN, ("INDEP_OPENS", "COLL_OPENS"), "META_TIME", "OPEN"),
        _Sum("MPI_File_set_view", OpClass.META, ("VIEWS",), "META_TIME"),
    )),
    "H5F": (Layer.HDF5, (
        _Sum("H5Fopen", OpClass.OPEN, ("OPENS",), "META_TIME", "OPEN"),
        _Sum("H5Fflush", OpClass.SYNC, ("FLUSHES",), "META_TIME"),
    )),
    "H5D": (Layer.HDF5, (
        _Sum("H5Dread", OpClass.READ, ("READS",), "READ_TIME", "READ"),
        _Sum("H5Dwrite", OpClass.WRITE, ("WRITES",), "WRITE_TIME", "WRITE"),
        _Sum("H5Dflush", OpClass.SYNC, ("FLUSHES",), "WRITE_TIME"),
        _Sum("H5Dopen", OpClass.META, ("OPENS",), "META_TIME", "OPEN"),
    )),
}  # fmt: skip
_TRACED = {"DXT_POSIX": "POSIX", "DXT_MPIIO": "MPI-IO"}
_READ = frozenset((*_SUMS, *_TRACED, "HEATMAP", "LUSTRE"))
_BYTES = {OpClass.READ: "BYTES_READ", OpClass.WRITE: "BYTES_WRITTEN"}


class _Single:
    """The calls of one file and direction that DXT has: how many, their bytes and ns, and how many of each size."""

    def __init__(self) -> None:
        self.calls = self.bytes = self.time = 0
        self.sizes = np.zeros(len(_RANGES), np.int64)

    def add(self, moved: Ints, duration: Ints) -> None:
        self.calls += len(moved)
        self.bytes += int(moved.sum(dtype=object))
        self.time += int(duration.sum(dtype=object))
        self.sizes += np.bincount(np.searchsorted(_LIMITS, moved, "left"), minlength=len(_RANGES))


class _Reading:
    """One log while it is read."""

    def __init__(self, file: DarshanFile) -> None:
        self.file, self.job = file, file.job()
        self.names = file.names()
        self.rows = Rows(file.path)
        self.hosts: dict[int, str] = {}
        self.ranks: set[int] = set()
        self.shared = False
        self.moved = {name: [0, 0] for name in ("POSIX", "STDIO", "MPI-IO")}  # bytes read, written by the counters
        #: (module, id, rank, class) -> what DXT has of it; of rank SHARED_RANK, what no record of another rank covers.
        self._single: dict[tuple[str, int, int, int], _Single] = {}
        self._groups: dict[tuple[str, int], int] = {}
        self._stripes: dict[int, dict[str, int]] = {}

    # ---- whose, and of what

    def process(self, rank: int) -> int:
        """The process of a record.  Raises LogError for a rank that the job has not."""
        if rank == form.SHARED_RANK:
            self.shared = True
            return -1
        if not 0 <= rank < self.job.processes:
            raise damaged(self.file.path, f"it has a record of rank {rank}, of {self.job.processes} processes")
        self.ranks.add(rank)
        return rank

    def name(self, identity: int) -> str:
        return self.names.get(identity) or f"(no name: {identity:016x})"

    def _file_and_dataset(self, module: str, record: np.void) -> tuple[str, str | None]:
        name = self.name(int(record["id"]))
        if module != "H5D":
            return name, None
        file = self.names.get(int(record["file_id"]), "") if int(record["file_id"]) > 0 else ""
        if not (file and name.startswith(f"{file}:")):
            file = name.partition(":")[0]
        return file, name[len(file) + 1 :]

    # ---- single calls

    def traces(self, name: str) -> None:
        module = _TRACED[name]
        layer = _SUMS[module][0]
        for trace in self.file.traces(name):
            process = self.process(trace.rank)
            if trace.host:
                self.hosts.setdefault(trace.rank, trace.host)
            for sums, segments in zip(_SUMS[module][1][:2], (trace.reads, trace.writes), strict=True):
                if len(segments):
                    self._segments(module, layer, sums, trace, process, segments)

    def _segments(
        self, module: str, layer: int, sums: _Sum, trace: Trace, process: int, segments: NDArray[np.void]
    ) -> None:
        begin, end = (nanoseconds(segments[name]) for name in ("start_time", "end_time"))
        moved, duration = amounts(segments["length"]), np.maximum(end - begin, 0)
        self.rows.add(
            len(segments), time=self.job.start + begin, duration=duration, layer=layer, op_class=sums.op_class,
            op=self.rows.text("op", sums.op), process=process, path=self.rows.text("path", self.name(trace.id)),
            offset=np.maximum(segments["offset"], -1), requested=moved, moved=moved,
        )  # fmt: skip
        self._single.setdefault((module, trace.id, trace.rank, sums.op_class), _Single()).add(moved, duration)

    def share_single_calls(self, module: str, records: Sequence[NDArray[np.void]]) -> None:
        """Adds up, for the records of all ranks together, what DXT has of ranks that have no record of their own."""
        own = {(int(one), int(rank)) for part in records for one, rank in zip(part["id"], part["rank"], strict=True)}
        for key, single in list(self._single.items()):
            if key[0] == module and (key[1], key[2]) not in own and (key[1], form.SHARED_RANK) in own:
                shared = self._single.setdefault((module, key[1], form.SHARED_RANK, key[3]), _Single())
                for name in ("calls", "bytes", "time", "sizes"):
                    setattr(shared, name, getattr(shared, name) + getattr(single, name))

    # ---- sums

    def counters(self, module: str) -> None:
        records = list(self.file.records(module))
        if module in _TRACED.values():
            self.share_single_calls(module, records)
        for part in records:
            self._records(module, part)

    def _records(self, module: str, records: NDArray[np.void]) -> None:
        layout, (layer, sums) = form.MODULES[module], _SUMS[module]
        ints = {name: amounts(records["counters"][:, at]) for at, name in enumerate(layout.counters)}
        times = {name: nanoseconds(records["fcounters"][:, at]) for at, name in enumerate(layout.fcounters)}
        files = [self._file_and_dataset(module, record) for record in records]
        fields: dict[str, Any] = {
            "process": np.array([self.process(rank) for rank in records["rank"].tolist()], np.int64),
            "path": np.array([self.rows.text("path", file) for file, _ in files], np.int64),
            "group": np.array([
                self._groups.setdefault((file, rank), len(self._groups) + 1)
                for (file, _), rank in zip(files, records["rank"].tolist(), strict=True)
            ], np.int64),
            "layer": layer,
        }  # fmt: skip
        for place, kind in enumerate(_BYTES.values() if module in self.moved else ()):
            self.moved[module][place] += int(ints[kind].sum(dtype=object))
        nothing = np.zeros(len(records), np.int64)
        given: dict[str, NDArray[np.bool_]] = {}  # timer -> the records whose time a row has
        for one in sums:
            calls = sum((ints[name] for name in one.calls if name in ints), nothing)
            calls = np.maximum(calls - ints.get(one.less, nothing), 0)
            taken = given.setdefault(one.timer, np.zeros(len(records), np.bool_))
            time = np.where(taken, 0, times.get(one.timer, nothing))
            taken |= calls > 0
            row = {
                "calls": calls, "duration": time, "first": times.get(f"{one.stamp}_START_TIMESTAMP", nothing),
                "last": times.get(f"{one.stamp}_END_TIMESTAMP", nothing), "moved": ints.get(_BYTES.get(one.op_class, ""), nothing),
            }  # fmt: skip
            details = [{} if dataset is None else {"dataset": dataset} for _, dataset in files]
            self._sum(module, one, records, row, ints, times, details, fields)

    def _sum(
        self, module: str, one: _Sum, records: NDArray[np.void], row: dict[str, Ints], ints: dict[str, Ints],
        times: dict[str, Ints], details: list[dict[str, Any]], fields: dict[str, Any],
    ) -> None:  # fmt: skip
        """Adds the rows of one operation of some records."""
        transfer = one.op_class in _BYTES
        ops = np.full(len(records), self.rows.text("op", one.op))
        for at in np.flatnonzero(row["calls"] > 0).tolist():
            single = self._single.get((module, int(records["id"][at]), int(records["rank"][at]), one.op_class))
            detail = details[at]
            if transfer:
                detail |= _transfers(module, one, ints, times, at)
                if module == "MPI-IO":
                    kinds = {name.partition("_")[0]: int(ints[name][at]) for name in one.calls if ints[name][at]}
                    if len(kinds) == 1:
                        ops[at] = self.rows.text("op", _KINDS[next(iter(kinds))].format(one.op.rpartition("_")[2]))
                    else:
                        detail["kinds"] = kinds
            if one.op_class == OpClass.OPEN:
                detail |= self._stripes.get(int(records["id"][at]), {})
            if single is not None:
                detail = _rest(detail, row, at, single)
            if row["calls"][at]:
                detail |= {"calls": int(row["calls"][at])}
                detail |= {"span_ns": max(int(row["last"][at] - row["first"][at]), 0)} if one.stamp else {}
            details[at] = detail
        self._add(one, row, ops, details, fields)

    def _add(
        self, one: _Sum, row: dict[str, Ints], ops: NDArray[np.int_], details: list[dict[str, Any]],
        fields: dict[str, Any],
    ) -> None:  # fmt: skip
        moved, duration = row["moved"] if one.op_class in _BYTES else None, row["duration"]
        left = row["calls"]
        while len(at := np.flatnonzero(left > 0)):
            texts = [self.rows.text("detail", json.dumps(details[place], ensure_ascii=False)) for place in at.tolist()]
            found = self.rows.add(
                len(at), time=self.job.start + row["first"][at], duration=duration[at], op_class=one.op_class,
                op=ops[at], calls=np.minimum(left[at], _MOST_CALLS), detail=np.array(texts, np.int64),
                **{name: values if isinstance(values, int) else values[at] for name, values in fields.items()},
            )  # fmt: skip
            if moved is not None:
                found["moved"] = found["requested"] = moved[at]
                moved = np.zeros_like(moved)
            # what a row has no room for goes on in further ones
            left, duration = np.maximum(left - _MOST_CALLS, 0), np.zeros_like(duration)
            details = [{} for _ in details]

    # ---- the rest

    def not_seen(self) -> Iterator[str]:
        file, versions = self.file, self.file.versions
        traced = sorted(_TRACED[name] for name in versions if name in _TRACED)
        summed = sorted(name for name in versions if name in _SUMS and name not in traced)
        yield "no lines of Python, threads, failed calls or closes"
        if summed:
            yield f"sums by file and rank, not single calls: {', '.join(summed)}"
        if traced:
            yield f"single calls of {', '.join(traced)}: reads and writes only"
        if self.shared:
            yield "which rank did what of files with one record for all ranks"
        for name in file.partial:
            yield f"{name} had no room for all files or calls"
        others = sorted(name for name in versions if name not in _READ)
        if others:
            yield f"modules that are not read: {', '.join(others)}"
        if "HEATMAP" in versions:
            yield from self._beyond(list(file.heat_maps()))

    def _beyond(self, maps: list[Heat]) -> Iterator[str]:
        """What heat maps have beyond the records: the files for which a module had no room."""
        for name, module in _HEAT_MODULES.items():
            own = [one for one in maps if self.names.get(one.id) == name]
            found = (sum(one.read for one in own), sum(one.written for one in own))
            more = [max(one - known, 0) for one, known in zip(found, self.moved[module], strict=True)]
            if any(more):
                yield f"{module}, files without a record: {size(more[0])} read, {size(more[1])} written"

    def stripes(self) -> None:
        self._stripes = dict(self.file.stripes())

    def processes(self) -> list[dict[str, Any]]:
        job = self.job
        if job.processes > _MOST_LISTED and max(self.ranks, default=0) >= _MOST_LISTED:
            message = f"its records are of ranks up to {max(self.ranks)}; up to {_MOST_LISTED - 1} are read"
            raise LogError("log-too-large", f"{self.file.path}: {message}")
        argv = job.command.split()
        several = job.processes > 1
        return [
            {
                "pid": rank, "host": self.hosts.get(rank, ""), "argv": argv, "executable": argv[0] if argv else "",
                "global_rank": rank if several else None, "world_size": job.processes if several else None,
            }
            for rank in range(min(job.processes, _MOST_LISTED))
        ]  # fmt: skip


def _transfers(module: str, one: _Sum, ints: dict[str, Ints], times: dict[str, Ints], at: int) -> dict[str, Any]:
    """The detail of reads or writes: sizes, places, the longest."""
    word, past = ("READ", "READ") if one.op_class == OpClass.READ else ("WRITE", "WRITTEN")
    found: dict[str, Any] = {"longest_ns": int(times.get(f"MAX_{word}_TIME", times["READ_TIME"] * 0)[at])}
    if f"MAX_BYTE_{past}" in ints:
        found["highest"] = int(ints[f"MAX_BYTE_{past}"][at]) + 1
    if module == "STDIO":
        return found
    prefix = f"SIZE_{word}" if module == "POSIX" else f"SIZE_{word}_AGG"
    names = [f"{prefix}_{label.replace('-', '_').replace('+', '_PLUS')}" for label in _RANGES]
    sizes = {label: int(ints[name][at]) for label, name in zip(_RANGES, names, strict=True)}
    found["sizes"] = {label: count for label, count in sizes.items() if count}
    found |= _common(ints, at, sizes, "WRITE" if word == "READ" else "READ", prefix.replace(word, "{}"))
    if module == "POSIX":
        calls = int(sum(int(ints[name][at]) for name in one.calls if name in ints))
        found |= {
            "placed": calls, "consecutive": int(ints[f"CONSEC_{word}S"][at]), "sequential": int(ints[f"SEQ_{word}S"][at]),
        }  # fmt: skip
    return found


def _common(ints: dict[str, Ints], at: int, sizes: dict[str, int], other: str, prefix: str) -> dict[str, Any]:
    """The common sizes of this direction.  Darshan has them for both together: each is of the direction that had more
    calls of its range; strides and switches are with the reads, or with the writes where there are none."""
    found: dict[str, Any] = {}
    common = {}
    for number in range(1, _COMMON + 1):
        moved, count = (int(ints[f"ACCESS{number}_{part}"][at]) for part in ("ACCESS", "COUNT"))
        label = _RANGES[int(np.searchsorted(_LIMITS, moved, "left"))]
        name = f"{prefix.format(other)}_{label.replace('-', '_').replace('+', '_PLUS')}"
        theirs = int(ints[name][at])
        if count and (sizes[label] > theirs or (sizes[label] == theirs and other == "WRITE")):
            common[str(moved)] = count
    found["common_sizes"] = common
    reads = sum(int(ints[name][at]) for name in ints if name.endswith("READS") and not name.startswith(("CONSEC", "SEQ")))
    if other == "WRITE" or not reads:
        found["switches"] = int(ints["RW_SWITCHES"][at])
        strides = [(f"STRIDE{number}_STRIDE", f"STRIDE{number}_COUNT") for number in range(1, _COMMON + 1)]
        pairs = {str(int(ints[a][at])): int(ints[b][at]) for a, b in strides if a in ints}
        found["strides"] = {stride: count for stride, count in pairs.items() if count}
    return found


def _rest(detail: dict[str, Any], row: dict[str, Ints], at: int, single: _Single) -> dict[str, Any]:
    """Takes off a sum what DXT has as single calls, and gives the detail of what is left."""
    for name, amount in (("calls", single.calls), ("moved", single.bytes), ("duration", single.time)):
        row[name][at] = max(int(row[name][at]) - amount, 0)
    numbers = dict(zip(_RANGES, single.sizes.tolist(), strict=True))
    sizes = {label: max(count - numbers[label], 0) for label, count in detail.get("sizes", {}).items()}
    return {"highest": detail.get("highest", 0), "sizes": {label: count for label, count in sizes.items() if count}}


def _read(paths: Sequence[Path]) -> ForeignLog:
    reading = _Reading(DarshanFile(paths[0]))
    file, job = reading.file, reading.job
    if "LUSTRE" in file.versions:
        reading.stripes()
    for name in _TRACED:
        if name in file.versions:
            reading.traces(name)
    for name in _SUMS:
        if name in file.versions:
            reading.counters(name)
    not_seen = list(reading.not_seen())
    processes = reading.processes()
    return ForeignLog(
        tool="Darshan", start=job.start, end=job.end, rows=reading.rows, processes=processes, not_seen=not_seen,
        summed=not any(name in file.versions for name in _TRACED), version=file.format,
        host=next(iter(reading.hosts.values()), ""), file_systems=job.mounts or None,
    )  # fmt: skip


def _begins_so(name: str, head: bytes) -> bool:
    magic = form.MAGIC.to_bytes(8, "little")
    return is_version(head[:8]) and head[8:16] in (magic, magic[::-1])


FORMAT = Format(_begins_so, _read)
