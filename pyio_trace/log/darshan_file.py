"""A Darshan log, raw: its job, names and records, in the layout of the current version, whatever version wrote them.

pyio_trace/darshan_format.py has that layout; what earlier versions lacked is -1
here.  A log may be damaged or forged: regions must lie in the file, streams and
records must end where their region does, and what a region unpacks to is bounded.
"""

from __future__ import annotations

import bz2
import zlib
from collections.abc import Iterator
from dataclasses import field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pyio_trace import darshan_format as form
from pyio_trace.errors import LogError
from pyio_trace.light_dataclass import dataclass
from pyio_trace.log.byte_reader import ByteReader
from pyio_trace.log.foreign_log import Allowance, cut_short, damaged
from pyio_trace.log.log_file import LogFile

#: The first format with 64 modules; the formats before it, and what they put in other places of the header.
_WIDE = 341
_EARLIER_MODULES = 16
_EARLIER_HEADER = np.dtype(
    [
        ("version", "S8"), ("magic", "<i8"), ("comp_type", "u1"), ("", "V3"), ("partial_flag", "<u4"),
        ("names", form.REGION), ("modules", form.REGION, (_EARLIER_MODULES,)), ("versions", "<u4", (_EARLIER_MODULES,)),
    ]
)  # fmt: skip
_EARLIER_JOB = np.dtype(
    [("uid", "<i8"), ("start_sec", "<i8"), ("end_sec", "<i8"), ("nprocs", "<i8"), ("jobid", "<i8"),
     ("metadata", "S1024")]
)  # fmt: skip
_FORMATS = (310, 320, 321, 341)
#: Format -> names of modules of today that it had no number for.
_LATER_MODULES = {310: ("H5D", "PNETCDF_VAR"), 320: ("PNETCDF_VAR",), 321: ("PNETCDF_VAR",), 341: ()}
_PIECE = 1 << 18
#: Most bytes of the names of files.
_LONGEST_NAME = 1 << 16
_MOST_RANKS = 1 << 24

_NEW_STAMPS = ("CLOSE_START_TIMESTAMP", "OPEN_END_TIMESTAMP")
_NEW_CALLS = ("FILENOS", "DUPS", "RENAME_SOURCES", "RENAME_TARGETS", "RENAMED_FROM")
#: (module, version) -> the names that its records lack.
_LACKS: dict[tuple[str, int], tuple[str, ...]] = {
    ("POSIX", 1): (*_NEW_CALLS, *_NEW_STAMPS),
    ("POSIX", 2): (*_NEW_CALLS, *_NEW_STAMPS),
    ("POSIX", 3): _NEW_CALLS,
    ("MPI-IO", 1): _NEW_STAMPS,
    ("MPI-IO", 2): _NEW_STAMPS,
    ("STDIO", 1): ("FDOPENS",),
    ("H5F", 1): ("FLUSHES", "USE_MPIIO", "META_TIME", *_NEW_STAMPS),
    ("H5F", 2): ("FLUSHES", "USE_MPIIO", "META_TIME"),
    ("H5D", 1): ("file_id",),
}
#: Counters of streams that only the first version of POSIX had, behind these.
_STREAM_CALLS, _BEHIND = ("FOPENS", "FREADS", "FWRITES", "FSEEKS"), "MMAPS"
#: Versions of the modules of traces and heat maps; the last one of traces has the thread behind each segment.
_TRACE_VERSIONS = {"DXT_POSIX": 2, "DXT_MPIIO": 3}
_NO_OFFSETS = ("DXT_MPIIO", 1)
_SEGMENT_WITH_THREAD = np.dtype([*((name, form.DXT_SEGMENT[name]) for name in form.DXT_SEGMENT.names), ("", "V8")])  # type: ignore[union-attr]

_LUSTRE_1 = np.dtype([("id", "<u8"), ("rank", "<i8"), ("counters", "<i8", (5,))])
_LUSTRE_2 = np.dtype([("id", "<u8"), ("rank", "<i8"), ("components", "<i8"), ("stripes", "<i8")])
_COMPONENT = np.dtype([("counters", "<i8", (7,)), ("pool", "S16")])


@dataclass(frozen=True)
class Trace:
    """What DXT recorded of one file in one process.  writes, reads: of form.DXT_SEGMENT."""

    id: int
    rank: int
    host: str
    writes: NDArray[np.void]
    reads: NDArray[np.void]


@dataclass(frozen=True)
class Heat:
    """Bytes over time of one process and module; id: of the module's name."""

    id: int
    rank: int
    written: int
    read: int


@dataclass
class Job:
    """start, end: ns since the epoch; mounts: mount point -> type of the file system."""

    start: int
    end: int
    processes: int
    number: int
    command: str
    mounts: dict[str, str] = field(default_factory=dict)


class DarshanFile:
    """An open log.  Raises LogError log-damaged, log-truncated, log-version, log-too-large."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file = LogFile(path)
        self._allowance = Allowance(path, self._file.whole)
        start = self._file.read(0, form.HEADER.itemsize)
        self.format = self._known_format(start)
        header = self._header(start)
        self._swapped = int(header["magic"]) != form.MAGIC
        if self._swapped:
            header = self._header(start, ">")
        if int(header["magic"]) != form.MAGIC:
            raise damaged(path, "its header is damaged")
        self._compression = int(header["comp_type"])
        if self._compression > form.UNCOMPRESSED:
            raise damaged(path, "its header names a compression that Darshan has not")
        self._names_at = (int(header["names"]["off"]), int(header["names"]["len"]))
        numbers = self._numbers()
        places = header["modules"]
        #: Name of each module with records -> the version of these.
        self.versions: dict[str, int] = {}
        self._at: dict[str, tuple[int, int]] = {}
        for number in np.flatnonzero(places["len"] > 0).tolist():
            name = numbers[number] if number < len(numbers) else f"module {number}"
            self._at[name] = (int(places["off"][number]), int(places["len"][number]))
            self.versions[name] = int(header["versions"][number])
        flag = int(header["partial_flag"])
        #: Modules that had no room for all their records.
        self.partial = [name for number, name in enumerate(numbers) if flag >> number & 1]
        self._header_size = header.dtype.itemsize
        self._check_regions()

    def _known_format(self, start: bytes) -> int:
        text = start[:8].rstrip(b"\0")
        found = int(text.replace(b".", b"")) if is_version(start[:8]) else 0
        if found not in _FORMATS:
            shown = text.decode("ascii", "backslashreplace")
            message = f"a Darshan log of format {shown}; this pyio_trace reads 3.10 to 3.41"
            raise LogError("log-version", f"{self.path}: {message}")
        return found

    def _header(self, start: bytes, order: str = "<") -> np.void:
        dtype = form.HEADER if self.format >= _WIDE else _EARLIER_HEADER
        if len(start) < dtype.itemsize:
            raise cut_short(self.path, "ends within its header")
        found: np.void = np.frombuffer(start, dtype.newbyteorder(order), 1)[0]  # type: ignore[arg-type]
        return found

    def _numbers(self) -> list[str]:
        """The modules by their number in this format."""
        later = _LATER_MODULES[self.format]
        return [name for name in form.MODULE_NAMES if name not in later][: form.MAX_MODULES]

    def _check_regions(self) -> None:
        for name, (at, size) in [("names", self._names_at), *self._at.items()]:
            if size and at < self._header_size:
                raise damaged(self.path, f"its header puts {name} within itself")
            if at + size > self._file.whole:
                raise cut_short(self.path, f"ends before its {name} do")

    # ---- regions

    def _unpacked(self, at: int, size: int, what: str) -> Iterator[bytes]:
        """The bytes of a region, piece by piece."""
        stream: Any = None
        end = at + size
        while at < end:
            piece = self._file.read(at, min(_PIECE, end - at))
            if not piece:
                raise cut_short(self.path, f"ends before its {what} do")
            at += len(piece)
            if self._compression == form.UNCOMPRESSED:
                self._allowance.take(len(piece))
                yield piece
                continue
            while piece:
                if stream is None or stream.eof:
                    stream = zlib.decompressobj() if self._compression == form.ZLIB else bz2.BZ2Decompressor()
                try:
                    while True:
                        found = stream.decompress(piece, _PIECE)
                        piece = getattr(stream, "unconsumed_tail", b"")
                        self._allowance.take(len(found))
                        if found:
                            yield found
                        if stream.eof or not (piece or found):
                            break
                except (zlib.error, OSError, EOFError, ValueError):
                    raise damaged(self.path, f"its {what} are damaged") from None
                piece = stream.unused_data if stream.eof else b""
        if stream is not None and not stream.eof:
            raise cut_short(self.path, f"its {what} are cut off")

    def _region(self, name: str) -> ByteReader:
        return ByteReader(self._unpacked(*self._at[name], f"records of {name}"), self.path, f"records of {name}")

    def _as(self, data: bytes, dtype: np.dtype[np.void]) -> NDArray[np.void]:
        if self._swapped:
            return np.frombuffer(data, dtype.newbyteorder(">")).astype(dtype)
        return np.frombuffer(data, dtype)

    # ---- what is in them

    def job(self) -> Job:
        """The job.  Its region ends where the next one begins."""
        begins = [at for at, size in (self._names_at, *self._at.values()) if at >= self._header_size]
        end = min(begins, default=self._file.whole)
        raw = b""
        for piece in self._unpacked(self._header_size, end - self._header_size, "job"):
            raw += piece
            if len(raw) > 4 * form.JOB_BYTES:
                raise damaged(self.path, "the description of its job is too long")
        dtype = form.JOB if self.format >= _WIDE else _EARLIER_JOB
        if len(raw) < dtype.itemsize:
            raise cut_short(self.path, "the description of its job is cut off")
        record = self._as(raw[: dtype.itemsize], dtype)[0]
        seconds = [int(record[name]) for name in ("start_sec", "end_sec")]
        parts = [int(record[name]) if name in dtype.names else 0 for name in ("start_nsec", "end_nsec")]  # type: ignore[operator]
        processes = int(record["nprocs"])
        if not all(0 < one < 1 << 33 for one in seconds) or not all(0 <= one < 10**9 for one in parts):
            raise damaged(self.path, "the times of its job make no sense")
        if not 0 < processes <= _MOST_RANKS:
            raise damaged(self.path, f"its job has {processes} processes")
        start, end = (one * 10**9 + part for one, part in zip(seconds, parts, strict=True))
        if self.format < _WIDE:
            end += 10**9  # times are whole seconds: Darshan counts both
        command, *lines = _text(raw[dtype.itemsize :].partition(b"\0")[0]).split("\n")
        pairs = [line.split("\t", 1) for line in lines if "\t" in line]
        mounts = {where: kind for kind, where in pairs}
        return Job(start, max(start, end), processes, int(record["jobid"]), command.strip(), mounts)

    def names(self) -> dict[int, str]:
        """The names of records by id."""
        at, size = self._names_at
        found: dict[int, str] = {}
        data = ByteReader(self._unpacked(at, size, "names"), self.path, "names")
        while (head := data.read(form.NAME_ID.itemsize)) is not None:
            name = data.until_zero(_LONGEST_NAME)
            found[int.from_bytes(head, "big" if self._swapped else "little")] = _text(name)
        return found

    def records(self, name: str) -> Iterator[NDArray[np.void]]:
        """The records of a module of counters, in form.MODULES[name].record, many at a time."""
        module = form.MODULES[name]
        counters, fcounters, stored = self._stored(name)
        data = self._region(name)
        places = [[own.index(one) for one in names if one in own] for own, names in (
            (module.counters, counters), (module.fcounters, fcounters))]  # fmt: skip
        kept = [counters.index(module.counters[at]) for at in places[0]]
        while raw := data.some(stored.itemsize):
            records = self._as(raw, stored)
            found = np.zeros(len(records), module.record)
            for field_name in set(stored.names or ()) - {"counters", "fcounters"}:
                found[field_name] = records[field_name]
            found["counters"], found["fcounters"] = -1, -1
            found["counters"][:, places[0]] = records["counters"][:, kept]
            found["fcounters"][:, places[1]] = records["fcounters"]
            yield found

    def _stored(self, name: str) -> tuple[list[str], list[str], np.dtype[np.void]]:
        """(counters, those with fractions, layout) of the records of a module as they are in this log."""
        module, version = form.MODULES[name], self.versions[name]
        if version != module.version and (name, version) not in _LACKS:
            message = f"its {name} records are of version {version}; this pyio_trace reads up to {module.version}"
            raise LogError("log-version", f"{self.path}: {message}")
        lacks = _LACKS.get((name, version), ())
        counters = [one for one in module.counters if one not in lacks]
        fcounters = [one for one in module.fcounters if one not in lacks]
        if (name, version) == ("POSIX", 1):
            behind = counters.index(_BEHIND) + 1
            counters[behind:behind] = _STREAM_CALLS
        parts: list[Any] = [("id", "<u8"), ("rank", "<i8")]
        if "file_id" in (module.record.names or ()) and "file_id" not in lacks:
            parts.append(("file_id", "<u8"))
        parts += [("counters", "<i8", (len(counters),)), ("fcounters", "<f8", (len(fcounters),))]
        return counters, fcounters, np.dtype(parts)

    def traces(self, name: str) -> Iterator[Trace]:
        """The records of DXT_POSIX or DXT_MPIIO."""
        version = self._checked(name, _TRACE_VERSIONS[name])
        segment = _SEGMENT_WITH_THREAD if version == _TRACE_VERSIONS[name] else form.DXT_SEGMENT
        data = self._region(name)
        while (raw := data.read(form.DXT_RECORD.itemsize)) is not None:
            record = self._as(raw, form.DXT_RECORD)[0]
            counts = [int(record["write_count"]), int(record["read_count"])]
            parts = [self._as(data.exactly(count, segment.itemsize), segment) for count in counts]
            writes, reads = (_plain(part, (name, version) == _NO_OFFSETS) for part in parts)
            yield Trace(int(record["id"]), int(record["rank"]), _text(bytes(record["hostname"])), writes, reads)

    def heat_maps(self) -> Iterator[Heat]:
        self._checked("HEATMAP", form.HEATMAP_VERSION)
        data = self._region("HEATMAP")
        while (raw := data.read(form.HEATMAP_RECORD.itemsize)) is not None:
            record = self._as(raw, form.HEATMAP_RECORD)[0]
            bins = np.frombuffer(data.exactly(2 * int(record["nbins"]), 8), ">i8" if self._swapped else "<i8")
            written, read = (sum(half.tolist()) for half in np.split(bins, 2))
            yield Heat(int(record["id"]), int(record["rank"]), written, read)

    def stripes(self) -> Iterator[tuple[int, dict[str, int]]]:
        """(id of the file, stripe_size and stripe_count of its first component on Lustre)."""
        version = self._checked("LUSTRE", 2)
        data, head = self._region("LUSTRE"), _LUSTRE_1 if version == 1 else _LUSTRE_2
        while (raw := data.read(head.itemsize)) is not None:
            record = self._as(raw, head)[0]
            if version == 1:
                size, count = (int(one) for one in record["counters"][3:5])
                data.exactly(max(count, 0), 8)
            else:
                components = self._as(data.exactly(int(record["components"]), _COMPONENT.itemsize), _COMPONENT)
                data.exactly(int(record["stripes"]), 8)
                size, count = (int(one) for one in components["counters"][0, :2]) if len(components) else (0, 0)
            if size > 0 and count > 0:
                yield int(record["id"]), {"stripe_size": size, "stripe_count": count}

    def _checked(self, name: str, latest: int) -> int:
        version = self.versions[name]
        if not 0 < version <= latest:
            message = f"its {name} records are of version {version}; this pyio_trace reads up to {latest}"
            raise LogError("log-version", f"{self.path}: {message}")
        return version


def is_version(start: bytes) -> bool:
    """Whether a file that begins so says which format of Darshan it is."""
    return (
        len(start) == 8 and start[:1].isdigit() and start[1:2] == b"." and start[2:4].isdigit() and not any(start[4:])
    )


def _plain(segments: NDArray[np.void], no_offsets: bool) -> NDArray[np.void]:
    found = np.empty(len(segments), form.DXT_SEGMENT)
    for name in form.DXT_SEGMENT.names or ():
        found[name] = segments[name]
    if no_offsets:
        found["offset"] = -1
    return found


def _text(raw: bytes) -> str:
    return raw.partition(b"\0")[0].decode("utf-8", "backslashreplace")
