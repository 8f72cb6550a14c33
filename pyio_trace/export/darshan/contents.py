"""All that a Darshan log of a log of ours contains, region by region."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, BinaryIO

import numpy as np
from numpy.typing import NDArray

from pyio_trace.analysis.calls import details
from pyio_trace.analysis.reducer import scan
from pyio_trace.darshan_format import (
    DXT_RECORD,
    DXT_VERSIONS,
    H5D,
    H5F,
    HEATMAP_RECORD,
    HEATMAP_VERSION,
    MODULE_NAMES,
    MPIIO,
    POSIX,
    STDIO,
    Module,
)
from pyio_trace.export.darshan.job import end_of, job_region
from pyio_trace.export.darshan.names import NameTable
from pyio_trace.export.darshan.ranks import ranks_of
from pyio_trace.export.darshan.recording import (
    Hdf5DatasetRecording,
    Hdf5FileRecording,
    MpiioRecording,
    PosixRecording,
    RecordPart,
)
from pyio_trace.export.darshan.records import Columns, Keyed, ModuleSums
from pyio_trace.export.darshan.regions import LogFile
from pyio_trace.log.sorting import distinct
from pyio_trace.units import counted, size

if TYPE_CHECKING:
    from pyio_trace.join.sources.facade import Log

Ints = NDArray[np.int64]

#: Losses that make a log's counters too small.
_LOSSES = ("operations_counted_only", "torn")
#: The module of each heat map: POSIX and STDIO share a recording.
_HEAT_MAPS = (("POSIX", 0), ("STDIO", 2), ("MPIIO", 0))


class Contents:
    """The records of a log, as they are when it has been read once."""

    def __init__(
        self, log: Log, folder: str, imports: bool = False, progress: Callable[[int], None] | None = None
    ) -> None:
        """folder: for a temporary file; imports: also what Python's imports did; progress: called with rows read."""
        self._log = log
        self._start = int(log.info()["start"])
        self._recordings = [
            one(imports, folder=folder, start=self._start)
            for one in (PosixRecording, MpiioRecording, Hdf5FileRecording, Hdf5DatasetRecording)
        ]
        self._parts: list[RecordPart] = scan(log, self._recordings, progress)
        used = distinct(np.concatenate([part.calls.columns()["process"] for part in self._parts]))
        self.ranks = ranks_of(log, used)
        self._names = NameTable()
        self._changes = [self._change(one, part) for one, part in zip(self._recordings, self._parts, strict=True)]
        self.modules: list[tuple[Module, Keyed]] = self._modules()
        self.incomplete = any(name in log.losses() for name in _LOSSES) or log.info()["ring_since"] is not None
        self.end = end_of(log, max(part.last for part in self._parts))

    def write(self, file: BinaryIO) -> list[str]:
        """Writes the log.  Returns what to say about it."""
        out = LogFile(file)
        out.job(job_region(self._log, self.end, self.ranks.count))
        maps = self._heat_maps()
        named = [keyed.name for _, keyed in self.modules]
        named += [np.array([name for name, _ in maps], np.int64), self._files_of_datasets()]
        used = distinct(np.concatenate(named))
        ids = self._names.ids()
        out.names(self._names.records(used))
        regions = {MODULE_NAMES[module.number]: self._records(module, keyed, ids) for module, keyed in self.modules}
        versions = {MODULE_NAMES[module.number]: module.version for module, _ in self.modules}
        segments = self._segments(ids)
        regions |= segments
        versions |= DXT_VERSIONS | {"HEATMAP": HEATMAP_VERSION}
        if maps:
            regions["HEATMAP"] = (_heat_map(record, ids[name]) for name, records in maps for record in records)
        cut = {"DXT_POSIX": self._parts[0].summed, "DXT_MPIIO": self._parts[1].summed}
        for name in sorted(regions, key=MODULE_NAMES.index):
            out.module(name, versions[name], regions[name], self.incomplete or bool(cut.get(name)))
        return self._said(out.close(), len(used) - len(maps), sum(cut.values()))

    # ---- records of counters

    def _change(self, recording: PosixRecording, part: RecordPart) -> Callable[[Columns], Columns]:
        """Gives columns of sums ranks and numbers of names."""
        known = distinct(part.calls.columns()["file"])
        number = self._names.number(recording.names(known, self._log))
        of_process = self.ranks.of_process

        def change(columns: Columns) -> Columns:
            process, file = columns["process"], columns["file"]
            place = np.where((process >= 0) & (process < len(of_process) - 1), process, len(of_process) - 1)
            return columns | {"process": of_process[place], "file": number[np.searchsorted(known, file)]}

        return change

    def _modules(self) -> list[tuple[Module, Keyed]]:
        streams, found = False, []
        for module, place, kind in (
            (POSIX, 0, "POSIX"),
            (STDIO, 0, "STDIO"),
            (MPIIO, 1, "POSIX"),
            (H5F, 2, "POSIX"),
            (H5D, 3, "POSIX"),
        ):
            sums = ModuleSums(
                self._parts[place], self._changes[place], getattr(self._recordings[place], "counters", ())
            )
            renamed = self._renamed(sums) if module is POSIX else {}
            keyed = sums.records(kind, self._start, self.ranks.count)
            if module is POSIX:
                keyed.values["RENAMED_FROM"] = np.array([renamed.get(one, -1) for one in keyed.name.tolist()], np.int64)
            if len(keyed):
                found.append((module, keyed))
        return found

    def _renamed(self, sums: ModuleSums) -> dict[int, int]:
        """Adds the targets of renames to the sums.  Returns the name that each had first, both as numbers."""
        part, recording = self._parts[0], self._recordings[0]
        columns = part.renames.columns()
        codes = distinct(columns["detail"])
        parsed = details.parsed(self._log, codes)
        texts = [details.text(parsed[code], "to") if code >= 0 else None for code in codes.tolist()]
        numbers = np.full(len(codes), -1, np.int64)
        known = [at for at, text in enumerate(texts) if text is not None]
        numbers[known] = self._names.number(texts[at] or "" for at in known)
        target = numbers[np.searchsorted(codes, columns["detail"])]
        rows = np.flatnonzero(target >= 0)
        changed = self._changes[0](columns)
        sums.add_rename_targets(changed["process"][rows], target[rows], columns["calls"][rows])
        rows = rows[np.argsort(-columns["first"][rows], kind="stable")]  # the first one last, so that it stays
        return dict(zip(target[rows].tolist(), changed["file"][rows].tolist(), strict=True))

    def _records(self, module: Module, keyed: Keyed, ids: NDArray[np.uint64]) -> Iterator[bytes]:
        found = keyed.array(module, ids)
        if module is POSIX:
            source = keyed.values["RENAMED_FROM"]
            at = module.counters.index("RENAMED_FROM")
            found["counters"][:, at] = np.where(source >= 0, ids[np.maximum(source, 0)].view(np.int64), 0)
        if module is H5D:
            found["file_id"] = ids[self._files_of_datasets(keyed.name)]
        yield found.tobytes()

    # ---- names of data sets

    def _files_of_datasets(self, names: Ints | None = None) -> Ints:
        """The numbers of the names of the files that data sets are in; names: of the data sets, None: of all."""
        recording = self._recordings[3]
        assert isinstance(recording, Hdf5DatasetRecording)
        known = distinct(self._parts[3].calls.columns()["file"])
        files = self._names.number(recording.files(known, self._log))
        if names is None:
            return files
        own = self._names.number(recording.names(known, self._log))
        order = np.argsort(own, kind="stable")
        return files[order][np.searchsorted(own[order], names)]

    # ---- segments

    def _segments(self, ids: NDArray[np.uint64]) -> dict[str, Iterator[bytes]]:
        found = {}
        for name, place in (("DXT_POSIX", 0), ("DXT_MPIIO", 1)):
            segments = self._parts[place].segments
            if not segments.count:
                continue
            process, file = segments.keys()
            changed = self._changes[place]({"process": process, "file": file})
            keys = np.stack([changed["process"], changed["file"]], axis=1)
            distinct_keys, record = np.unique(keys, axis=0, return_inverse=True)
            headers = np.zeros(len(distinct_keys), DXT_RECORD)
            headers["rank"], headers["id"] = distinct_keys[:, 0], ids[distinct_keys[:, 1]]
            hosts = [self.ranks.host.get(rank, "") for rank in distinct_keys[:, 0].tolist()]
            headers["hostname"] = [host.encode("utf-8", "backslashreplace")[:63] for host in hosts]
            found[name] = segments.records(record.ravel(), headers)
        return found

    # ---- heat maps

    def _heat_maps(self) -> list[tuple[int, list[tuple[int, int, Ints]]]]:
        """(number of the name, (rank, ns of a bin, written and read bytes by bin) of each rank) of each heat map."""
        found = []
        for (module, first), part in zip(_HEAT_MAPS, (self._parts[0], self._parts[0], self._parts[1]), strict=True):
            bins = part.heat.finished(self.end - self._start)
            columns = bins.columns
            rows = np.flatnonzero((columns["what"] >= first) & (columns["what"] < first + 2))
            if not len(rows):
                continue
            of_process = self.ranks.of_process
            process = columns["process"][rows]
            rank = of_process[np.where((process >= 0) & (process < len(of_process)), process, -1)]
            ranks, at = np.unique(rank, return_inverse=True)
            moved = np.zeros((len(ranks), 2, bins.count), np.int64)
            written = columns["what"][rows] - first
            np.add.at(moved, (at.ravel(), 1 - written, columns["bin"][rows]), columns["bytes"][rows])
            records = [(one, bins.width_ns, moved[number]) for number, one in enumerate(ranks.tolist())]
            found.append((int(self._names.number([f"heatmap:{module}"])[0]), records))
        return found

    # ---- what to say

    def _said(self, written: int, files: int, cut: int) -> list[str]:
        segments = sum(part.segments.count for part in self._parts[:2])
        records = sum(len(keyed) for _, keyed in self.modules)
        lines = [
            f"{counted(records, 'record')} of {counted(files, 'file')}, {counted(segments, 'segment')}, {size(written)}"
        ]
        if cut:
            lines.append(f"{counted(cut, 'transfer')} in sums of several calls: counted, but without segments")
        if self.incomplete:
            lines.append("the log is not complete: its modules are marked as partial")
        return lines


def _heat_map(record: tuple[int, int, Ints], identity: np.uint64) -> bytes:
    rank, width_ns, moved = record
    found = np.zeros((), HEATMAP_RECORD)
    found["id"], found["rank"] = identity, rank
    found["bin_width_seconds"], found["nbins"] = width_ns / 1e9, moved.shape[1]
    return found.tobytes() + moved.tobytes()
