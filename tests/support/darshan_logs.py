"""Writes small Darshan logs for tests, of the current format and of earlier ones, in either byte order.

It has its own idea of the earlier layouts, from the comments of Darshan's headers.
"""

from __future__ import annotations

import bz2
import struct
import zlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from pyio_trace import darshan_format as form

START = 1_700_000_000
_PACK: dict[int, Callable[[bytes], bytes]] = {0: zlib.compress, 1: bz2.compress, 2: bytes}
#: Modules by number before format 3.41, and before 3.20.
EARLIER = [name for name in form.MODULE_NAMES if name != "PNETCDF_VAR"]
EARLIEST = [name for name in EARLIER if name != "H5D"]


def identity(name: str) -> int:
    """The id of a name; Darshan's is a hash too."""
    return zlib.crc32(name.encode()) + 1


class DarshanLog:
    """A log that is being put together; order: "<" or ">"."""

    def __init__(
        self, processes: int = 4, command: str = "./app -n 3", order: str = "<", version: str = "3.41"
    ) -> None:
        self.processes, self.command, self.order, self.version = processes, command, order, version
        self.names: dict[int, str] = {}
        self.regions: dict[str, list[bytes]] = {}
        self.versions: dict[str, int] = {}
        self.partial: set[str] = set()
        self.mounts = [("lustre", "/scratch"), ("ext4", "/")]

    def name(self, name: str) -> int:
        self.names[identity(name)] = name
        return identity(name)

    def raw(self, module: str, record: bytes, version: int) -> None:
        """A record as bytes."""
        self.regions.setdefault(module, []).append(record)
        self.versions[module] = version

    def record(self, module: str, file: str, rank: int, values: Mapping[str, float], lacks: Sequence[str] = (),
               version: int | None = None, of: str = "") -> None:  # fmt: skip
        """A record of counters; lacks: the names that this version of the module does not have."""
        layout = form.MODULES[module]
        ints = [int(values.get(name, 0)) for name in layout.counters if name not in lacks]
        floats = [float(values.get(name, 0)) for name in layout.fcounters if name not in lacks]
        assert set(values) <= {*layout.counters, *layout.fcounters}
        head = struct.pack(f"{self.order}Qq", self.name(file), rank)
        if module == "H5D" and "file_id" not in lacks:
            head += struct.pack(f"{self.order}Q", self.name(of) if of else 0)
        body = struct.pack(f"{self.order}{len(ints)}q{len(floats)}d", *ints, *floats)
        self.raw(module, head + body, layout.version if version is None else version)

    def trace(self, module: str, file: str, rank: int, writes: Sequence[tuple[int, int, float, float]],
              reads: Sequence[tuple[int, int, float, float]] = (), version: int = 0) -> None:  # fmt: skip
        """A record of DXT; a segment: offset, length, start, end.  The last version has the thread behind each."""
        version = version or form.DXT_VERSIONS[module]
        more = struct.pack(f"{self.order}q", 77) if version > form.DXT_VERSIONS[module] else b""
        head = struct.pack(f"{self.order}Qqq64sqq", self.name(file), rank, -1, b"node7", len(writes), len(reads))
        body = b"".join(struct.pack(f"{self.order}qqdd", *one) + more for one in (*writes, *reads))
        self.raw(module, head + body, version)

    def heat(self, name: str, rank: int, written: Sequence[int], read: Sequence[int]) -> None:
        head = struct.pack(f"{self.order}Qqdq16x", self.name(name), rank, 0.1, len(written))
        self.raw("HEATMAP", head + struct.pack(f"{self.order}{2 * len(written)}q", *written, *read), 1)

    def stripes(self, file: str, size: int, count: int, version: int = 2) -> None:
        osts = struct.pack(f"{self.order}{count}q", *range(count))
        head = struct.pack(f"{self.order}Qq", self.name(file), 0)
        if version == 1:
            self.raw("LUSTRE", head + struct.pack(f"{self.order}5q", 90, 2, 0, size, count) + osts, 1)
        else:
            component = struct.pack(f"{self.order}7q16s", size, count, 0, 0, 0, -1, 0, b"pool")
            self.raw("LUSTRE", head + struct.pack(f"{self.order}qq", 1, count) + component + osts, 2)

    def bytes(self, compression: int = 0, job: Mapping[str, int] | None = None) -> bytes:
        """The log.  Each record is a stream of its own, as those of a merged log are."""
        wide = self.version == "3.41"
        numbers = form.MODULE_NAMES if wide else EARLIEST if self.version == "3.10" else EARLIER
        room, flag = (form.MAX_MODULES, "7xQ") if wide else (16, "3xI")
        pack = _PACK[compression]
        size = struct.calcsize(f"{self.order}8sqB{flag}QQ{2 * room}Q{room}I")
        given: dict[str, int] = {"nprocs": self.processes, "end": START + 9, **(job or {})}
        whole = pack(self._job(wide, given))
        end = size + len(whole)
        names = pack(b"".join(
            struct.pack(f"{self.order}Q", one) + text.encode() + b"\0" for one, text in self.names.items()
        ))  # fmt: skip
        places, versions = [0] * (2 * room), [0] * room
        whole += names
        at = end + len(names)
        for module, records in self.regions.items():
            packed = b"".join(pack(record) for record in records)
            number = numbers.index(module)
            places[2 * number : 2 * number + 2], versions[number] = [at, len(packed)], self.versions[module]
            whole += packed
            at += len(packed)
        partial = sum(1 << numbers.index(name) for name in self.partial)
        header = struct.pack(
            f"{self.order}8sqB{flag}QQ{2 * room}Q{room}I", self.version.encode(), form.MAGIC, compression, partial,
            end, len(names), *places, *versions,
        )  # fmt: skip
        return header + whole

    def _job(self, wide: bool, given: Mapping[str, int]) -> bytes:
        times = (START, 250_000_000, given["end"], 500_000_000) if wide else (START, given["end"])
        mounts = "".join(f"\n{kind}\t{path}" for kind, path in self.mounts)
        head = struct.pack(
            f"{self.order}q{len(times)}qqq1024s", 1000, *times, given["nprocs"], 4711, b"lib_ver=3.5.0\n"
        )
        return head + f"{self.command}{mounts}".encode() + b"\0"

    def write(self, path: Path, **more: Any) -> Path:
        path.write_bytes(self.bytes(**more))
        return path


def example(**more: Any) -> DarshanLog:
    """A log with something of each module that is read."""
    log = DarshanLog(**more)
    for rank in range(3):
        log.record("POSIX", "/scratch/a", rank, {
            "OPENS": 1, "WRITES": 4, "BYTES_WRITTEN": 4096, "MAX_BYTE_WRITTEN": 4095, "CONSEC_WRITES": 3,
            "SEQ_WRITES": 3, "SIZE_WRITE_1K_10K": 0, "SIZE_WRITE_100_1K": 4, "ACCESS1_ACCESS": 1024, "ACCESS1_COUNT": 4,
            "STRIDE1_STRIDE": 512, "STRIDE1_COUNT": 2, "WRITE_TIME": 0.5, "META_TIME": 0.25, "MAX_WRITE_TIME": 0.2,
            "WRITE_START_TIMESTAMP": 1, "WRITE_END_TIMESTAMP": 2, "OPEN_START_TIMESTAMP": 0.5,
        })  # fmt: skip
    log.record("MPI-IO", "/scratch/s", -1, {
        "COLL_OPENS": 4, "COLL_WRITES": 8, "BYTES_WRITTEN": 8 << 20, "WRITE_TIME": 4.0, "META_TIME": 0.5,
        "SIZE_WRITE_AGG_100K_1M": 8, "WRITE_START_TIMESTAMP": 3, "WRITE_END_TIMESTAMP": 5,
    })  # fmt: skip
    log.record("POSIX", "/scratch/s", -1, {
        "OPENS": 4, "WRITES": 2, "BYTES_WRITTEN": 8 << 20, "WRITE_TIME": 3.0, "SIZE_WRITE_4M_10M": 2,
        "WRITE_START_TIMESTAMP": 3, "WRITE_END_TIMESTAMP": 5,
    })  # fmt: skip
    log.record("STDIO", "<STDERR>", 0, {"WRITES": 3, "BYTES_WRITTEN": 60, "WRITE_TIME": 0.001})
    log.record("H5F", "/scratch/h.h5", 1, {"OPENS": 1, "META_TIME": 0.125})
    log.record("H5D", "/scratch/h.h5:/g/x", 1, {"READS": 2, "BYTES_READ": 800, "READ_TIME": 0.25}, of="/scratch/h.h5")
    log.stripes("/scratch/s", 1 << 20, 3)
    return log


def traced(**more: Any) -> DarshanLog:
    """A log in which DXT has three of four writes and the only read of a file."""
    log = DarshanLog(**more)
    log.record("POSIX", "/scratch/t", 2, {
        "OPENS": 1, "READS": 1, "WRITES": 4, "BYTES_READ": 100, "BYTES_WRITTEN": 1000, "WRITE_TIME": 1.0,
        "READ_TIME": 0.5, "SIZE_WRITE_100_1K": 4, "SIZE_READ_0_100": 1,
    })  # fmt: skip
    writes = [(0, 250, 1.0, 1.125), (250, 250, 1.25, 1.5), (500, 250, 2.0, 2.25)]
    log.trace("DXT_POSIX", "/scratch/t", 2, writes, [(0, 100, 3.0, 3.5)])
    log.trace("DXT_MPIIO", "/scratch/t", 2, [(0, 750, 0.5, 2.5)])
    return log
