"""The layout of Darshan's logs, of format 3.41 and the record versions that Darshan 3.5.0 writes.

A log is a header, which is not compressed, and then zlib streams: the job with the command and the mounted file
systems, the names, and one region for each module that has records.  All numbers are little-endian here; a log of a
big-endian machine begins with MAGIC the other way round.  What writes logs and what reads them share this module,
so it knows nothing of either.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

VERSION = b"3.41"
MAGIC = 6567223
#: Of a header: regions of modules it has room for.
MAX_MODULES = 64

#: Values of the header's comp_type.
ZLIB, BZIP2, UNCOMPRESSED = range(3)

#: Where a region lies in the file, in bytes, compressed; both 0 where there is none.
REGION = np.dtype([("off", "<u8"), ("len", "<u8")])
#: partial_flag has a bit for each module whose records are not complete; names, modules: their regions; versions: of
#: the modules' records.  The job's region begins behind the header and ends where that of the names begins.
HEADER = np.dtype(
    [
        ("version", "S8"), ("magic", "<i8"), ("comp_type", "u1"), ("", "V7"), ("partial_flag", "<u8"),
        ("names", REGION), ("modules", REGION, (MAX_MODULES,)), ("versions", "<u4", (MAX_MODULES,)),
    ]
)  # fmt: skip
#: metadata: lines of ``key=value``, the first of them lib_ver.  Behind it: the command, then a line
#: ``type TAB path`` for each mounted file system, then a zero byte; all together at most JOB_BYTES.
JOB = np.dtype(
    [
        ("uid", "<i8"), ("start_sec", "<i8"), ("start_nsec", "<i8"), ("end_sec", "<i8"), ("end_nsec", "<i8"),
        ("nprocs", "<i8"), ("jobid", "<i8"), ("metadata", "S1024"),
    ]
)  # fmt: skip
JOB_BYTES = 4096
#: A name: this, then its bytes and a zero byte.
NAME_ID = np.dtype("<u8")

#: The modules by their number; a log's header has a region and a version for each.
MODULE_NAMES = (
    "NULL", "POSIX", "MPI-IO", "H5F", "H5D", "PNETCDF_FILE", "PNETCDF_VAR", "BG/Q", "LUSTRE", "STDIO", "DXT_POSIX",
    "DXT_MPIIO", "MDHIM", "APXC", "APMPI", "HEATMAP", "DFS", "DAOS",
)  # fmt: skip

#: A record's rank where it is the sum of all ranks' records.
SHARED_RANK = -1
_BASE = [("id", "<u8"), ("rank", "<i8")]


def _sizes(prefix: str) -> tuple[str, ...]:
    bins = ("0_100", "100_1K", "1K_10K", "10K_100K", "100K_1M", "1M_4M", "4M_10M", "10M_100M", "100M_1G", "1G_PLUS")
    return tuple(f"{prefix}_{name}" for name in bins)


def _common(word: str, part: str) -> tuple[str, ...]:
    return tuple(f"{word}{number}_{part}" for number in range(1, 5))


def _times(*kinds: str) -> tuple[str, ...]:
    return tuple(f"{kind}_{end}_TIMESTAMP" for end in ("START", "END") for kind in kinds)


_RANKS = ("FASTEST_RANK", "FASTEST_RANK_BYTES", "SLOWEST_RANK", "SLOWEST_RANK_BYTES")
_RANK_TIMES = ("FASTEST_RANK_TIME", "SLOWEST_RANK_TIME", "VARIANCE_RANK_TIME", "VARIANCE_RANK_BYTES")
_LONGEST = ("MAX_READ_TIME_SIZE", "MAX_WRITE_TIME_SIZE")
_TIMERS = ("READ_TIME", "WRITE_TIME", "META_TIME", "MAX_READ_TIME", "MAX_WRITE_TIME")
_OF_TRANSFERS = _times("OPEN", "READ", "WRITE", "CLOSE") + _TIMERS + _RANK_TIMES
#: Dimensions of a dataset that a record of H5D has lengths, strides and chunks for.
H5D_DIMENSIONS = 5


def _dimensions(word: str) -> tuple[str, ...]:
    return tuple(f"{word}_D{number}" for number in range(1, H5D_DIMENSIONS + 1))


class Module(NamedTuple):
    """A module whose records are counters.

    number: its place in the header; version: of its records; prefix: of its
    counters' names; counters, fcounters: their names without it, in the order of
    the record; record: one record, whose counters and fcounters are arrays.
    """

    number: int
    version: int
    prefix: str
    counters: tuple[str, ...]
    fcounters: tuple[str, ...]
    record: np.dtype[np.void]


def _module(name: str, version: int, prefix: str, counters: tuple[str, ...], fcounters: tuple[str, ...]) -> Module:
    # A dataset's record names its file, too: file_id, 0 where it is not known.
    of_file = [("file_id", "<u8")] if prefix == "H5D" else []
    parts = [*_BASE, *of_file, ("counters", "<i8", (len(counters),)), ("fcounters", "<f8", (len(fcounters),))]
    return Module(MODULE_NAMES.index(name), version, prefix, counters, fcounters, np.dtype(parts))


POSIX = _module(
    "POSIX", 4, "POSIX",
    (
        "OPENS", "FILENOS", "DUPS", "READS", "WRITES", "SEEKS", "STATS", "MMAPS", "FSYNCS", "FDSYNCS",
        "RENAME_SOURCES", "RENAME_TARGETS", "RENAMED_FROM", "MODE", "BYTES_READ", "BYTES_WRITTEN", "MAX_BYTE_READ",
        "MAX_BYTE_WRITTEN", "CONSEC_READS", "CONSEC_WRITES", "SEQ_READS", "SEQ_WRITES", "RW_SWITCHES",
        "MEM_NOT_ALIGNED", "MEM_ALIGNMENT", "FILE_NOT_ALIGNED", "FILE_ALIGNMENT", *_LONGEST,
        *_sizes("SIZE_READ"), *_sizes("SIZE_WRITE"), *_common("STRIDE", "STRIDE"), *_common("STRIDE", "COUNT"),
        *_common("ACCESS", "ACCESS"), *_common("ACCESS", "COUNT"), *_RANKS,
    ),
    _OF_TRANSFERS,
)  # fmt: skip
MPIIO = _module(
    "MPI-IO", 3, "MPIIO",
    (
        "INDEP_OPENS", "COLL_OPENS", "INDEP_READS", "INDEP_WRITES", "COLL_READS", "COLL_WRITES", "SPLIT_READS",
        "SPLIT_WRITES", "NB_READS", "NB_WRITES", "SYNCS", "HINTS", "VIEWS", "MODE", "BYTES_READ", "BYTES_WRITTEN",
        "RW_SWITCHES", *_LONGEST, *_sizes("SIZE_READ_AGG"), *_sizes("SIZE_WRITE_AGG"),
        *_common("ACCESS", "ACCESS"), *_common("ACCESS", "COUNT"), *_RANKS,
    ),
    _OF_TRANSFERS,
)  # fmt: skip
STDIO = _module(
    "STDIO", 2, "STDIO",
    (
        "OPENS", "FDOPENS", "READS", "WRITES", "SEEKS", "FLUSHES", "BYTES_WRITTEN", "BYTES_READ", "MAX_BYTE_READ",
        "MAX_BYTE_WRITTEN", *_RANKS,
    ),
    ("META_TIME", "WRITE_TIME", "READ_TIME", *_times("OPEN", "CLOSE", "WRITE", "READ"), *_RANK_TIMES),
)  # fmt: skip
H5F = _module("H5F", 3, "H5F", ("OPENS", "FLUSHES", "USE_MPIIO"), (*_times("OPEN", "CLOSE"), "META_TIME"))
H5D = _module(
    "H5D", 2, "H5D",
    (
        "OPENS", "READS", "WRITES", "FLUSHES", "BYTES_READ", "BYTES_WRITTEN", "RW_SWITCHES",
        "REGULAR_HYPERSLAB_SELECTS", "IRREGULAR_HYPERSLAB_SELECTS", "POINT_SELECTS", *_LONGEST,
        *_sizes("SIZE_READ_AGG"), *_sizes("SIZE_WRITE_AGG"),
        *(
            name
            for access in ("ACCESS1", "ACCESS2", "ACCESS3", "ACCESS4")
            for name in (f"{access}_ACCESS", *_dimensions(f"{access}_LENGTH"), *_dimensions(f"{access}_STRIDE"))
        ),
        *_common("ACCESS", "COUNT"), "DATASPACE_NDIMS", "DATASPACE_NPOINTS", "DATATYPE_SIZE",
        *_dimensions("CHUNK_SIZE"), "USE_MPIIO_COLLECTIVE", "USE_DEPRECATED", *_RANKS,
    ),
    _OF_TRANSFERS,
)  # fmt: skip

#: The modules whose records are counters, by name.
MODULES = {MODULE_NAMES[one.number]: one for one in (POSIX, MPIIO, H5F, H5D, STDIO)}

# A record of DXT_POSIX or DXT_MPIIO is a DXT_RECORD and then its segments: all writes, then all reads, each in the
# order in which they began.
DXT_RECORD = np.dtype(
    [*_BASE, ("shared", "<i8"), ("hostname", "S64"), ("write_count", "<i8"), ("read_count", "<i8")]
)  # fmt: skip
#: Times are seconds since the job's start.  offset is -1 where MPI-IO has none.
DXT_SEGMENT = np.dtype([("offset", "<i8"), ("length", "<i8"), ("start_time", "<f8"), ("end_time", "<f8")])
#: The versions whose segments are DXT_SEGMENT; one more has the thread's number behind it, which PyDarshan 3.5.0 does
#: not read.
DXT_VERSIONS = {"DXT_POSIX": 1, "DXT_MPIIO": 2}

# A record of HEATMAP is a HEATMAP_RECORD and then nbins numbers of bytes written, and as many of bytes read, as <i8.
# A record's name says whose heat map it is: "heatmap:" and POSIX, STDIO or MPIIO.
HEATMAP_VERSION = 1
HEATMAP_RECORD = np.dtype([*_BASE, ("bin_width_seconds", "<f8"), ("nbins", "<i8"), ("", "V16")])
