"""A reader of Darshan logs of format 3.41, as short as it can be and independent of the writer: numbers stand for
themselves here."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pyio_trace import darshan_format

MODULES = {1: "POSIX", 2: "MPI-IO", 3: "H5F", 4: "H5D", 9: "STDIO", 10: "DXT_POSIX", 11: "DXT_MPIIO", 15: "HEATMAP"}
#: Of each module of counters: bytes before them, how many integers and floating-point numbers follow.
SHAPES = {"POSIX": (16, 69, 17), "MPI-IO": (16, 51, 17), "H5F": (16, 3, 5), "H5D": (24, 94, 17), "STDIO": (16, 14, 15)}
VERSIONS = {"POSIX": 4, "MPI-IO": 3, "H5F": 3, "H5D": 2, "STDIO": 2, "DXT_POSIX": 1, "DXT_MPIIO": 2, "HEATMAP": 1}

Record = dict[str, Any]


class DarshanLog:
    """job, exe, mounts, metadata, names (id -> name), records (module -> list), partial (modules)."""

    def __init__(self, path: Path) -> None:
        raw = path.read_bytes()
        version, magic, compression, partial = struct.unpack_from("<8sqB7xQ", raw)
        assert (version.rstrip(b"\0"), magic, compression) == (b"3.41", 6567223, 0)
        regions = [struct.unpack_from("<QQ", raw, 32 + 16 * number) for number in range(65)]
        versions = struct.unpack_from("<64I", raw, 32 + 16 * 65)
        assert all(at + size <= len(raw) for at, size in regions)
        job = zlib.decompress(raw[1328 : regions[0][0]])
        assert len(job) <= 4096 and job.endswith(b"\0")
        names = ("uid", "start_sec", "start_nsec", "end_sec", "end_nsec", "nprocs", "jobid")
        self.job = dict(zip(names, struct.unpack_from("<7q", job), strict=True))
        self.metadata = dict(line.split("=", 1) for line in job[56:1080].rstrip(b"\0").decode().splitlines())
        self.exe, *mounts = job[1080:-1].decode().split("\n")
        self.mounts = [tuple(line.split("\t")) for line in mounts]
        self.names = dict(_names(_region(raw, regions[0])))
        self.partial = {MODULES[one] for one in range(64) if partial >> one & 1}
        self.records: dict[str, list[Record]] = {}
        for number, region in enumerate(regions[1:]):
            if region == (0, 0):
                assert versions[number] == 0
                continue
            name = MODULES[number]
            assert versions[number] == VERSIONS[name]
            data = _region(raw, region)
            read = _segments if name.startswith("DXT") else _bins if name == "HEATMAP" else _counters
            self.records[name] = list(read(data, name))
        for record in (one for module in self.records.values() for one in module):
            record["name"] = self.names[record["id"]]
            assert -1 <= record["rank"] < self.job["nprocs"]

    def of(self, module: str, name: str, rank: int | None = None) -> Record:
        """The only record of a name that ends so, of a rank (None: of any)."""
        found = [
            one for one in self.records.get(module, [])
            if one["name"].endswith(name) and rank in (None, one["rank"])
        ]  # fmt: skip
        (record,) = found
        return record


def _region(raw: bytes, region: tuple[int, int]) -> bytes:
    return zlib.decompress(raw[region[0] : region[0] + region[1]]) if region[1] else b""


def _names(data: bytes) -> Iterator[tuple[int, str]]:
    at = 0
    while at < len(data):
        end = data.index(b"\0", at + 8)
        yield struct.unpack_from("<Q", data, at)[0], data[at + 8 : end].decode()
        at = end + 1


def _counters(data: bytes, name: str) -> Iterator[Record]:
    head, integers, floats = SHAPES[name]
    module = darshan_format.MODULES[name]
    for at in range(0, len(data), head + 8 * (integers + floats)):
        record: Record = dict(zip(("id", "rank"), struct.unpack_from("<Qq", data, at), strict=True))
        if head == 24:
            (record["file_id"],) = struct.unpack_from("<Q", data, at + 16)
        numbers = struct.unpack_from(f"<{integers}q{floats}d", data, at + head)
        yield record | dict(zip((*module.counters, *(f"F_{one}" for one in module.fcounters)), numbers, strict=True))


def _segments(data: bytes, _: str) -> Iterator[Record]:
    at = 0
    while at < len(data):
        identity, rank, _, host, writes, reads = struct.unpack_from("<Qqq64sqq", data, at)
        every = [struct.unpack_from("<qqdd", data, at + 104 + 32 * n) for n in range(writes + reads)]
        at += 104 + 32 * (writes + reads)
        yield {"id": identity, "rank": rank, "host": host.rstrip(b"\0").decode(),
               "writes": every[:writes], "reads": every[writes:]}  # fmt: skip


def _bins(data: bytes, _: str) -> Iterator[Record]:
    at = 0
    while at < len(data):
        identity, rank, width, count = struct.unpack_from("<Qqdq", data, at)
        bins = struct.unpack_from(f"<{2 * count}q", data, at + 48)
        at += 48 + 16 * count
        yield {"id": identity, "rank": rank, "width": width, "writes": bins[:count], "reads": bins[count:]}
