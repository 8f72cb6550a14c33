"""Finds the library behind some calls, so that the remedy can be code for that library.

A system call and the library call above it have the same line of the program, and
the library is known by the names of its calls.  Where a library has no instrument,
or reads in its own threads, the names of the files decide.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from pyio_trace.enums import Layer, OpClass, Role
from pyio_trace.insights.finding import Site
from pyio_trace.insights.library_frames import FramesOfLines
from pyio_trace.insights.observed import MOST_NAMED, site_of
from pyio_trace.insights.source_files import content

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from pyio_trace.analysis.view_sums.call_table import CallTable
    from pyio_trace.insights.observed import Observed

_POLARS = ("polars.", "LazyFrame.", "DataFrame.write_")
_H5PY = ("Dataset.", "DatasetID.", "Group.", "AttributeManager.", "File.")
#: Library -> how the names of its operations begin.  One operation decides; the first library that matches.
_FORMATS = {
    "parquet": ("pyarrow.parquet.", "ParquetFile.", "ParquetWriter.", "Dataset.to_table", "Scanner.", "Fragment.",
                "pandas.read_parquet", "DataFrame.to_parquet", "dask.dataframe.read_parquet"),
    "csv": ("pandas.read_csv", "pandas.read_table", "TextFileReader.", "dask.dataframe.read_csv", "DataFrame.to_csv"),
}  # fmt: skip
#: Likewise, of libraries that have no frames on a stack.
_BY_OPERATIONS = {
    "polars": _POLARS,
    "pandas": ("pandas.", "TextFileReader.", "DataFrame.to_"),
    "pyarrow": ("pyarrow.", "ParquetFile.", "ParquetWriter.", "Dataset.to_table", "Scanner.", "Fragment."),
}
#: How the calls of libraries begin that read in threads of their own.
IN_THREADS = tuple(begin for names in _BY_OPERATIONS.values() for begin in names)
#: The same; most of the time decides.  "text", "buffered" and "raw" are Python's file objects.
_REQUESTS = {
    "numpy": ("numpy.", "NpzFile.", "ndarray.", "memmap."),
    "torch": ("torch.", "PyTorchFile"),
    "pickle": ("pickle.",),
    "json": ("json.",),
    "text": ("TextIOWrapper.",),
    "buffered": ("Buffered",),
    "raw": ("FileIO.",),
}
#: Library -> what the names of its files contain.
_NAMES = {
    "lmdb": re.compile(r"/(data|lock)\.mdb\Z"),
    "netCDF4": re.compile(r"\.(nc|nc4|cdf)\Z"),
    "h5py": re.compile(r"\.(h5|hdf5|he5|hdf)\Z"),
    "parquet": re.compile(r"\.(parquet|parq)\Z"),
    "zarr": re.compile(r"\.zarr/|/(zarr\.json|\.zarray|\.zgroup)\Z"),
}
#: Libraries that are not written in Python, and have no instrument -> their files.  They count where imported.
_COMPILED = {
    "duckdb": re.compile(r"\.(csv|tsv|json|jsonl|ndjson|parquet|duckdb|db)(\.gz|\.zst|\.wal)?\Z"),
    "pyarrow": re.compile(r"\.(arrow|feather|ipc)\Z"),
    "rasterio": re.compile(r"\.(tiff?|jp2|vrt|img|ovr)\Z"),
}
#: Libraries that choose themselves in which order they read a file.
OWN_ORDER = ("polars", "parquet", "zarr")
#: Libraries whose callers do not say where in a file they read: no remedy seeks in one of these files.
OWN_PLACES = (*OWN_ORDER, "h5py", "netCDF4")
#: Readers that are Python's own file objects.
FILE_OBJECTS = ("text", "buffered", "raw")
#: Files whose names are looked at.
_MOST = 1000


def library_of(run: Observed, calls: CallTable) -> str:
    """ "polars", "h5py", "netCDF4", "lmdb", "parquet", "csv", "zarr" or "MPI"; else as requests_of()."""
    paths = calls.paths()[:_MOST]
    around = run.calls.where_lines(calls.lines()[:MOST_NAMED])
    ops = [around.op(code) for code in around.codes("op")]
    layers = around.where(path=calls.codes("path")).codes("layer")
    if _any(ops, _POLARS):
        return "polars"
    if Layer.HDF5 in layers:
        return "netCDF4" if any(map(is_netcdf, paths)) and not _any(ops, _H5PY) else "h5py"
    for library, pattern in _NAMES.items():
        if paths and all(map(pattern.search, paths)):
            return library
    for library, beginnings in _FORMATS.items():
        if _any(ops, beginnings):
            return library
    if Layer.APP not in layers and _all_ranks(run, calls):
        return "MPI"
    name = requests_of(around)
    # a file object of another file says nothing of these
    return requests_of(around.where(path=calls.codes("path"))) if name in FILE_OBJECTS else name


def readers(run: Observed, calls: CallTable, lines: Collection[str] = ()) -> tuple[str, ...]:
    """The libraries that made some calls, the one that the program's lines called first: the reader of a remedy.

    Stacks come first, as they name every library of Python; then calls with an instrument; then names of files.
    lines: of the program, those that led to the calls; without them, those of the calls.  A part after "/" is the
    format that a library of several reads or writes.
    """
    lines = list(lines or calls.lines())[:MOST_NAMED]
    inner = library_of(run, calls)
    if lines and len(run.calls.where_lines(lines[:1]).where(op=["task"])):
        return (f"dask/{inner}", "dask")
    frames = run.of(FramesOfLines()).between(lines)
    around = run.calls.where_lines(lines)
    ops = [around.op(code) for code in around.codes("op")]
    if not frames:  # a library that is not written in Python, or none
        frames = next(((name,) for name, begin in _BY_OPERATIONS.items() if _any(ops, begin)), ())
    if frames[:1] == ("numpy",) and ("zipfile" in frames or _any(ops, ("NpzFile.",))):
        return ("npz", *frames)
    if frames[:1] == ("pandas",):
        format_ = next((name for name, begin in _FORMATS.items() if _any(ops, begin)), inner)
        return (f"pandas/{format_}", *frames)
    called = [around.op(code) for code in around.where(inside=0).codes("op")]  # pq.read_table() makes a dataset itself
    if frames[:1] == ("pyarrow",) and _any(called, ("Dataset.to_table", "Scanner.")):
        return ("pyarrow/dataset", *frames)
    if not frames and (not inner or inner in _FORMATS):
        return _compiled(run, calls.paths()[:_MOST]) or (("os",) if _calls_os(lines) else ())
    return frames if inner in ("", *_FORMATS, *frames) else (*frames, inner)


#: Functions of os that read, write, and open, as a line may call them.
_OF_OS = re.compile(rb"\bos\.(p?read|p?write|open|readv|writev|preadv|pwritev|sendfile)\s*\(")


def _calls_os(lines: Collection[str]) -> bool:
    """Whether each of these lines calls such a function itself, as its source says."""
    sources = [(site, content(site.file).splitlines()) for site in map(site_of, lines) if site is not None]
    return bool(sources) and all(
        0 < site.line <= len(source) and _OF_OS.search(source[site.line - 1]) for site, source in sources
    )


def _compiled(run: Observed, paths: Sequence[str]) -> tuple[str, ...]:
    """The library of _COMPILED that these files are of."""
    names = (name for name, pattern in _COMPILED.items() if paths and all(map(pattern.search, paths)))
    return next(((name,) for name in names if _is_imported(run, name)), ())


def _is_imported(run: Observed, module: str) -> bool:
    """Whether the run imported a module, as far as files or samples say."""
    files = re.compile(rf"/_?{module}[-./]")
    lines = (one.function for row in run.wall.values() for one in row.called)
    return f"import {module}" in lines or any(map(files.search, run.imported.paths()))


def requests_of(calls: CallTable) -> str:
    """The library of _REQUESTS whose requests take the most time among some calls; "": of another one, or none.

    Opening and closing decide nothing, since most libraries leave them to Python.
    """
    requests = calls.where(layer=Layer.APP, role=Role.REQUEST)
    times: dict[str, int] = {}
    for group in requests.by("op"):
        name = calls.op(group["op"])
        if name != "open" and not name.endswith(".close"):
            library = next((library for library, begin in _REQUESTS.items() if name.startswith(begin)), "")
            times[library] = times.get(library, 0) + group.outer
    return max(times, key=lambda library: times[library], default="")


def writes(calls: CallTable) -> bool:
    """Whether some calls write more files than they read; of as many, whether they do so more often."""
    read, written = (calls.where(kind=kind) for kind in (OpClass.READ, OpClass.WRITE))
    return (written.distinct("path"), written.total("calls")) > (read.distinct("path"), read.total("calls"))


def is_netcdf(path: str) -> bool:
    """Whether a file has a name that netCDF files have."""
    return _NAMES["netCDF4"].search(path) is not None


def is_line_of_dask(run: Observed, sites: Sequence[Site]) -> bool:
    """Whether the first of some lines ran tasks of Dask."""
    lines = [f"{site.file}:{site.line}:{site.function}" for site in sites[:1]]
    return len(run.calls.where_lines(lines).where(op=["task"])) > 0


def _any(ops: list[str], beginnings: tuple[str, ...]) -> bool:
    return any(op.startswith(beginnings) for op in ops)


def _all_ranks(run: Observed, calls: CallTable) -> bool:
    """Whether only ranks of a parallel job made the calls."""
    found = calls.codes("process")
    return bool(found) and run.rank_of.keys() >= set(found)
