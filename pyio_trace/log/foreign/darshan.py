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
from pyio_trace.enums import OpClass
from pyio_trace.errors import LogError
from pyio_trace.log.darshan_file import DarshanFile, Heat, Trace, is_version
from pyio_trace.log.darshan_sums import BYTES, KINDS, SUMS, Single, Sum, rest, transfers
from pyio_trace.log.foreign_log import ForeignLog, Format, Rows, amounts, damaged, nanoseconds
from pyio_trace.units import size

Ints = NDArray[np.int64]

#: Most calls that a row can stand for.
_MOST_CALLS = (1 << 31) - 1
#: Most calls of one operation on one file that are believed: centuries of them.
_MOST_COUNTED = 1 << 40
#: Most processes that are all listed; of more, those with records of their own.
_MOST_LISTED = 1 << 14
_HEAT_MODULES = {"heatmap:POSIX": "POSIX", "heatmap:STDIO": "STDIO", "heatmap:MPIIO": "MPI-IO"}


_TRACED = {"DXT_POSIX": "POSIX", "DXT_MPIIO": "MPI-IO"}
_READ = frozenset((*SUMS, *_TRACED, "HEATMAP", "LUSTRE"))


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
        self._single: dict[tuple[str, int, int, int], Single] = {}
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
        layer = SUMS[module][0]
        for trace in self.file.traces(name):
            process = self.process(trace.rank)
            if trace.host:
                self.hosts.setdefault(trace.rank, trace.host)
            for sums, segments in zip(SUMS[module][1][:2], (trace.reads, trace.writes), strict=True):
                if len(segments):
                    self._segments(module, layer, sums, trace, process, segments)

    def _segments(
        self, module: str, layer: int, sums: Sum, trace: Trace, process: int, segments: NDArray[np.void]
    ) -> None:
        begin, end = (nanoseconds(segments[name]) for name in ("start_time", "end_time"))
        moved, duration = amounts(segments["length"]), np.maximum(end - begin, 0)
        self.rows.add(
            len(segments), time=self.job.start + begin, duration=duration, layer=layer, op_class=sums.op_class,
            op=self.rows.text("op", sums.op), process=process, path=self.rows.text("path", self.name(trace.id)),
            offset=np.maximum(segments["offset"], -1), requested=moved, moved=moved,
        )  # fmt: skip
        self._single.setdefault((module, trace.id, trace.rank, sums.op_class), Single()).add(moved, duration)

    def share_single_calls(self, module: str, records: Sequence[NDArray[np.void]]) -> None:
        """Adds up, for the records of all ranks together, what DXT has of ranks that have no record of their own."""
        own = {(int(one), int(rank)) for part in records for one, rank in zip(part["id"], part["rank"], strict=True)}
        for key, single in list(self._single.items()):
            if key[0] == module and (key[1], key[2]) not in own and (key[1], form.SHARED_RANK) in own:
                shared = self._single.setdefault((module, key[1], form.SHARED_RANK, key[3]), Single())
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
        layout, (layer, sums) = form.MODULES[module], SUMS[module]
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
        for place, kind in enumerate(BYTES.values() if module in self.moved else ()):
            self.moved[module][place] += int(ints[kind].sum(dtype=object))
        nothing = np.zeros(len(records), np.int64)
        given: dict[str, NDArray[np.bool_]] = {}  # timer -> the records whose time a row has
        for one in sums:
            calls = sum((ints[name] for name in one.calls if name in ints), nothing)
            calls = np.maximum(calls - ints.get(one.less, nothing), 0)
            if len(calls) and int(calls.max()) > _MOST_COUNTED:
                raise damaged(self.file.path, f"its {module} records count more calls than there can be")
            taken = given.setdefault(one.timer, np.zeros(len(records), np.bool_))
            time = np.where(taken, 0, times.get(one.timer, nothing))
            taken |= calls > 0
            first, last = (times.get(f"{one.stamp}_{end}_TIMESTAMP", nothing) for end in ("START", "END"))
            moved = ints.get(BYTES.get(one.op_class, ""), nothing)
            row = {"calls": calls, "duration": time, "first": first, "last": last, "moved": moved}
            details = [{} if dataset is None else {"dataset": dataset} for _, dataset in files]
            self._sum(module, one, records, row, ints, times, details, fields)

    def _sum(
        self, module: str, one: Sum, records: NDArray[np.void], row: dict[str, Ints], ints: dict[str, Ints],
        times: dict[str, Ints], details: list[dict[str, Any]], fields: dict[str, Any],
    ) -> None:  # fmt: skip
        """Adds the rows of one operation of some records."""
        transfer = one.op_class in BYTES
        ops = np.full(len(records), self.rows.text("op", one.op))
        for at in np.flatnonzero(row["calls"] > 0).tolist():
            single = self._single.get((module, int(records["id"][at]), int(records["rank"][at]), one.op_class))
            detail = details[at]
            if transfer:
                detail |= transfers(module, one, ints, times, at)
                if module == "MPI-IO":
                    kinds = {name.partition("_")[0]: int(ints[name][at]) for name in one.calls if ints[name][at]}
                    if len(kinds) == 1:
                        ops[at] = self.rows.text("op", KINDS[next(iter(kinds))].format(one.op.rpartition("_")[2]))
                    else:
                        detail["kinds"] = kinds
            if one.op_class == OpClass.OPEN:
                detail |= self._stripes.get(int(records["id"][at]), {})
            if single is not None:
                detail = rest(detail, row, at, single)
            if row["calls"][at]:
                detail |= {"calls": int(row["calls"][at])}
                detail |= {"span_ns": max(int(row["last"][at] - row["first"][at]), 0)} if one.stamp else {}
            details[at] = detail
        self._add(one, row, ops, details, fields)

    def _add(
        self, one: Sum, row: dict[str, Ints], ops: NDArray[np.int_], details: list[dict[str, Any]],
        fields: dict[str, Any],
    ) -> None:  # fmt: skip
        moved, duration = row["moved"] if one.op_class in BYTES else None, row["duration"]
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
        summed = sorted(name for name in versions if name in SUMS and name not in traced)
        yield "no lines of Python, threads, failed calls or closes"
        if summed:
            yield f"sums by file and rank, not single calls: {', '.join(summed)}"
        if traced:
            yield f"single calls of {', '.join(traced)}: reads and writes only"
        if self.shared:
            yield "which rank did what of files with one record for all ranks"
        if self.job.processes > _MOST_LISTED:
            yield f"of {self.job.processes:,} ranks, the first {_MOST_LISTED:,} are listed"
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


def _read(paths: Sequence[Path]) -> ForeignLog:
    reading = _Reading(DarshanFile(paths[0]))
    file, job = reading.file, reading.job
    if "LUSTRE" in file.versions:
        reading.stripes()
    for name in _TRACED:
        if name in file.versions:
            reading.traces(name)
    for name in SUMS:
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
