"""All that a Darshan log of a log of ours contains, region by region."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import field
from functools import partial
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
from pyio_trace.export.darshan.job import end_of, job_region, start_of
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
from pyio_trace.light_dataclass import dataclass
from pyio_trace.log.sorting import distinct
from pyio_trace.units import counted, size

if TYPE_CHECKING:
    from typing import Self

    from pyio_trace.join.sources.facade import Log

Ints = NDArray[np.int64]

#: Losses that make a log's counters too small.
_LOSSES = ("operations_counted_only", "torn")
_RECORDINGS = (PosixRecording, MpiioRecording, Hdf5FileRecording, Hdf5DatasetRecording)


@dataclass
class _Recorded:
    """A reducer and its part; keys: of names, ascending; numbers: of these names in the table of names."""

    recording: PosixRecording
    part: RecordPart
    keys: Ints = field(default_factory=lambda: np.zeros(0, np.int64))
    numbers: Ints = field(default_factory=lambda: np.zeros(0, np.int64))


class Contents:
    """The records of a log, as they are when it has been read once.  To be closed."""

    def __init__(
        self, log: Log, folder: str, imports: bool = False, progress: Callable[[int], None] | None = None
    ) -> None:
        """folder: for a temporary file; imports: also what Python's imports did; progress: called with rows read."""
        self._log = log
        self._start = start_of(log)
        recordings = [one(imports, folder=folder, start=self._start) for one in _RECORDINGS]
        parts: list[RecordPart] = scan(log, recordings, progress)
        self._posix, self._mpiio, self._files, self._datasets = (
            _Recorded(*one) for one in zip(recordings, parts, strict=True)
        )
        every = (self._posix, self._mpiio, self._files, self._datasets)
        self.ranks = ranks_of(log, distinct(np.concatenate([one.part.calls.columns()["process"] for one in every])))
        self._names = NameTable()
        for one in every:
            one.keys = distinct(one.part.calls.columns()["file"])
            one.numbers = self._names.number(one.recording.names(one.keys, log))
        self._files_of_datasets = self._names.number(self._file_names())
        self.modules = [(module, keyed) for module, keyed in self._modules() if len(keyed)]
        self.incomplete = any(name in log.losses() for name in _LOSSES) or log.info()["ring_since"] is not None
        self.end = end_of(log, max(one.part.last for one in every))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for one in (self._posix, self._mpiio, self._files, self._datasets):
            one.part.segments.close()

    def write(self, file: BinaryIO) -> list[str]:
        """Writes the log.  Returns what to say about it."""
        out = LogFile(file)
        out.job(job_region(self._log, self.end, self.ranks.count))
        maps = self._heat_maps()
        named = [keyed.name for _, keyed in self.modules]
        named += [np.array([name for name, _ in maps], np.int64), self._files_of_datasets]
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
        cut = {"DXT_POSIX": self._posix.part.summed, "DXT_MPIIO": self._mpiio.part.summed}
        for name in sorted(regions, key=MODULE_NAMES.index):
            out.module(name, versions[name], regions[name], self.incomplete or bool(cut.get(name)))
        return self._said(out.close(), len(used) - len(maps), sum(cut.values()))

    # ---- records of counters

    def _changed(self, of: _Recorded, columns: Columns) -> Columns:
        """Columns of sums with ranks and numbers of names."""
        of_process, process = self.ranks.of_process, columns["process"]
        place = np.where((process >= 0) & (process < len(of_process) - 1), process, -1)
        return columns | {
            "process": of_process[place], "file": of.numbers[np.searchsorted(of.keys, columns["file"])],
        }  # fmt: skip

    def _sums(self, of: _Recorded) -> ModuleSums:
        return ModuleSums(of.part, partial(self._changed, of), of.recording.counters)

    def _modules(self) -> Iterator[tuple[Module, Keyed]]:
        where = self._start, self.ranks.count
        sums = self._sums(self._posix)
        renamed = self._add_renames(sums)
        posix = sums.records("POSIX", *where)
        posix.values["RENAMED_FROM"] = np.array([renamed.get(one, -1) for one in posix.name.tolist()], np.int64)
        yield POSIX, posix
        yield STDIO, sums.records("STDIO", *where)
        for module, of in ((MPIIO, self._mpiio), (H5F, self._files), (H5D, self._datasets)):
            yield module, self._sums(of).records("POSIX", *where)

    def _add_renames(self, sums: ModuleSums) -> dict[int, int]:
        """Adds the targets of renames to the sums.  Returns the name that each had first, both as numbers."""
        columns = self._posix.part.renames.columns()
        codes = distinct(columns["detail"])
        parsed = details.parsed(self._log, codes)
        texts = [details.text(parsed[code], "to") if code >= 0 else None for code in codes.tolist()]
        known = [at for at, text in enumerate(texts) if text is not None]
        numbers = np.full(len(codes), -1, np.int64)
        numbers[known] = self._names.number(text for text in texts if text is not None)
        target = numbers[np.searchsorted(codes, columns["detail"])]
        changed = self._changed(self._posix, columns)
        rows = np.flatnonzero(target >= 0)
        sums.add_rename_targets(changed["process"][rows], target[rows], columns["calls"][rows])
        rows = rows[np.argsort(-columns["first"][rows], kind="stable")]  # the first one last, so that it stays
        return dict(zip(target[rows].tolist(), changed["file"][rows].tolist(), strict=True))

    def _records(self, module: Module, keyed: Keyed, ids: NDArray[np.uint64]) -> Iterator[bytes]:
        found = keyed.array(module, ids)
        if module is POSIX:
            source, at = keyed.values["RENAMED_FROM"], module.counters.index("RENAMED_FROM")
            found["counters"][:, at] = np.where(source >= 0, ids[np.maximum(source, 0)].view(np.int64), 0)
        if module is H5D:
            order = np.argsort(self._datasets.numbers, kind="stable")
            at_name = order[np.searchsorted(self._datasets.numbers[order], keyed.name)]
            found["file_id"] = ids[self._files_of_datasets[at_name]]
        yield found.tobytes()

    def _file_names(self) -> list[str]:
        """The names of the files that data sets are in."""
        recording = self._datasets.recording
        assert isinstance(recording, Hdf5DatasetRecording)
        return recording.files(self._datasets.keys, self._log)

    # ---- segments

    def _segments(self, ids: NDArray[np.uint64]) -> dict[str, Iterator[bytes]]:
        found = {}
        for name, of in (("DXT_POSIX", self._posix), ("DXT_MPIIO", self._mpiio)):
            segments = of.part.segments
            if not segments.count:
                continue
            process, file = segments.keys()
            changed = self._changed(of, {"process": process, "file": file})
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
        for module, first, part in (
            ("POSIX", 0, self._posix.part), ("STDIO", 2, self._posix.part), ("MPIIO", 0, self._mpiio.part),
        ):  # fmt: skip
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
        segments = self._posix.part.segments.count + self._mpiio.part.segments.count
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
