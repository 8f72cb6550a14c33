"""A line reads or writes little at a time.

Each call has a cost of its own, about a microsecond from memory and far more on
a network file system, so many small ones take longer than few large ones. What
large accesses of the same run cost for a byte says how long the bytes alone would
have taken; the rest can be saved by a larger buffer, or by handling many items
at once.

Files that are read or written whole in a few calls are small themselves, and a
buffer would not help: small-files and reopen-per-item are about those.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from pyio_trace.enums import OpClass
from pyio_trace.insights import libraries
from pyio_trace.insights.access_lines import ACCESSES, empty_calls, lines, ns_per_byte, query, time_by_process
from pyio_trace.insights.finding import Confidence, Evidence, Finding, Remedy
from pyio_trace.insights.observed import OPENS
from pyio_trace.insights.rule import Limit, Rule, Trial
from pyio_trace.units import number, seconds, size

if TYPE_CHECKING:
    from pyio_trace.analysis.reducers.accesses import Access
    from pyio_trace.insights.observed import Observed


_READ = "with open(path, 'rb'{}) as f:\n    while data := f.read(512): ..."
_WRITE = "with open(path, 'w{}'{}) as f:\n    for item in items: f.write(item)"
_LARGE = ", buffering=1 << 20"

_READ_H5 = Remedy(
    "Read a block of many items in one call, and take the items from it.",
    "for n in range(count):\n    use(dataset[n])",
    "for start in range(0, count, 1000):\n    for item in dataset[start : start + 1000]:\n        use(item)",
    "h5py",
)
#: By library; of others, how the line opens its files decides.
_REMEDIES = {
    "read": {
        "h5py": _READ_H5,
        "netCDF4": replace(
            _READ_H5,
            before="for n in range(count):\n    use(variable[n])",
            after="for item in variable[:]:\n    use(item)",
            library="netCDF4",
        ),
        "parquet": Remedy(
            "Write larger row groups: 100,000 rows and more, so that more is read at once.",
            "pq.write_table(table, path, row_group_size=1000)",
            "pq.write_table(table, path, row_group_size=1 << 20)",
            "pyarrow",
        ),
        "MPI": Remedy(
            "Read many items in one call, of all processes together.",
            "for n in range(count):\n    f.Read_at((n * size + rank) * item.nbytes, item)",
            "f.Read_at_all(rank * count * item.nbytes, items)",
            "mpi4py",
        ),
    },
    "write": {
        "h5py": Remedy(
            "Write a block of many items in one call. HDF5 gathers its metadata if the file has blocks for it.",
            "f = h5py.File(path, 'w')\nfor n, item in enumerate(items):\n    dataset[n] = item",
            "f = h5py.File(path, 'w', libver='latest', meta_block_size=1 << 20)\ndataset[: len(items)] = items",
            "h5py",
        ),
        "netCDF4": Remedy(
            "Write many steps in one call.",
            "for n, step in enumerate(steps):\n    variable[n] = step",
            "variable[: len(steps)] = numpy.stack(steps)",
            "netCDF4",
        ),
        "parquet": Remedy(
            "Write more rows together: 100,000 and more in a row group.",
            "for part in parts:\n    writer.write_table(part)",
            "writer.write_table(pa.concat_tables(parts))",
            "pyarrow",
        ),
        "MPI": Remedy(
            "Write many items in one call, of all processes together.",
            "for n, item in enumerate(items):\n    f.Write_at((n * size + rank) * item.nbytes, item)",
            "# each rank has a part of the file\nf.Write_at_all(rank * items.nbytes, items)",
            "mpi4py",
        ),
    },
}
#: Libraries that gather what they write: a few KiB of theirs are small, tens of them are not.
_GATHERING = ("polars", "h5py", "netCDF4", "parquet", "zarr", "numpy")


def find(run: Observed, limits: Mapping[str, float]) -> Iterator[Finding]:
    for one in lines(run):
        each = one.moved_bytes // max(one.calls, 1)
        if one.calls < limits["calls"] or each > limits["bytes"]:
            continue
        accesses = run.calls.where_line(one.line or "").transfers(one.direction)
        library = libraries.library_of(run, accesses)
        if library in _GATHERING and each > limits["library_bytes"]:
            continue
        byte = ns_per_byte(run, one.direction)
        times = time_by_process(run, one)
        share = max(1 - byte * one.moved_bytes / max(one.time_ns, 1), 0.0)
        gain = run.gain(
            {process: int(time * share) for process, time in times.items()},
            f"the calls' time beyond {byte:.2g} ns a byte, which large ones take",
        )
        if gain.ns < limits["share"] * run.wall_ns or _each_time(run, one) <= limits["each_time"]:
            continue
        common = ", ".join(f"{number(count)} of {size(bytes_)}" for bytes_, count in one.common_sizes[:3])
        yield Finding(
            title=f"{number(one.calls)} {one.direction}s of {size(each)} on average",
            evidence=[
                Evidence(
                    f"They moved {size(one.moved_bytes)} in {seconds(one.time_ns)}. The most common sizes: {common}.",
                    {"calls": one.calls, "bytes": one.moved_bytes, "time_ns": one.time_ns},
                )
            ],
            remedy=_REMEDIES[one.direction].get(library) or _remedy(one, library),
            confidence=Confidence(0.7, "a byte's cost is that of this run's large accesses, or of memory"),
            query=query(one),
            **run.about(accesses, gain),
        )


def _each_time(run: Observed, one: Access) -> float:
    """How many calls of a line move bytes of a file each time that the file is opened."""
    files = run.calls.where_line(one.line or "").transfers(one.direction).codes("path")
    opens = run.calls.where(kind=OpClass.OPEN, op=OPENS, errno=0, path=files).total("calls")
    return (one.calls - empty_calls(one)) / max(opens, one.files, 1)


def _remedy(one: Access, library: str) -> Remedy:
    """In the way in which the line reads or writes."""
    if one.direction == "write":
        binary, small = "" if library == "text" else "b", ", buffering=0" if library in ("raw", "") else ""
        return Remedy(
            "Write large blocks: 1 MiB and more.", _WRITE.format(binary, small), _WRITE.format(binary, _LARGE)
        )
    if library == "text":
        return Remedy(
            "Read bytes in large blocks: of text, Python reads 8 KiB at a time, whatever the buffer.",
            "with open(path) as f:\n    for line in f: ...",
            f"with open(path, 'rb'{_LARGE}) as f:\n"
            "    for line in f:    # bytes: line.decode(), json.loads(line)\n        ...",
        )
    small = ", buffering=0" if library in ("raw", "") else ""
    return Remedy("Read large blocks: 1 MiB and more.", _READ.format(small), _READ.format(_LARGE))


RULE = Rule(
    "accesses",
    find,
    limits={
        "calls": Limit(1000, "reads or writes of one line, at least", few=100),
        "bytes": Limit(65536, "of one of them on average, at most"),
        "library_bytes": Limit(16384, "likewise, where a library gathers what it writes: HDF5, Parquet, zarr, numpy"),
        "share": Limit(0.01, "of the wall time that larger ones would save, at least"),
        "each_time": Limit(3, "reads or writes each time that a file is opened, more than"),
    },
    needs=(ACCESSES,),
    topic="size",
    yields_to=("flush-per-record", "sync-per-write"),
    trial=Trial("pyio_trace.insights.trials.writes:in_larger_calls"),
)
