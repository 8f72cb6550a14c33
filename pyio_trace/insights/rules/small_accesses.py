"""A line reads or writes little at a time.

Each call has a cost of its own, far more on a network file system than from
memory, so many small ones take longer than few large ones. What
large accesses of the same run cost for a byte says how long the bytes alone would
have taken; the rest can be saved by a larger buffer, or by handling many items
at once.

Files that are read or written whole in a few calls are small themselves, and a
buffer would not help: small-files and reopen-per-item are about those.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from pyio_trace.enums import Layer, OpClass
from pyio_trace.insights import libraries, words
from pyio_trace.insights.access_lines import ACCESSES, empty_calls, lines, ns_per_byte, query, time_by_process
from pyio_trace.insights.finding import Confidence, Evidence, Finding
from pyio_trace.insights.line_walls import with_libraries
from pyio_trace.insights.observed import OPENS
from pyio_trace.insights.rule import Limit, Rule, Trial
from pyio_trace.insights.words import mechanisms as m
from pyio_trace.units import number, seconds, size

if TYPE_CHECKING:
    from pyio_trace.analysis.reducers.accesses import Access
    from pyio_trace.analysis.view_sums.call_table import CallTable
    from pyio_trace.insights.observed import Observed


#: System calls for each request, from which on a library reads in small pieces.
_PIECES = 20
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
        mechanism = _mechanism(run, one, accesses)
        if mechanism == m.SMALL_PIECES:  # of which the library looks up, and unpacks, each
            gain = with_libraries(run, gain, run.sites(accesses), share, times)
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
            remedy=words.remedy(mechanism, libraries.readers(run, accesses)),
            confidence=Confidence(0.7, "a byte's cost is that of this run's large accesses, or of memory"),
            query=query(one),
            **run.about(accesses, gain),
        )


def _each_time(run: Observed, one: Access) -> float:
    """How many calls of a line move bytes of a file each time that the file is opened."""
    files = run.calls.where_line(one.line or "").transfers(one.direction).codes("path")
    opens = run.calls.where(kind=OpClass.OPEN, op=OPENS, errno=0, path=files).total("calls")
    return (one.calls - empty_calls(one)) / max(opens, one.files, 1)


def _mechanism(run: Observed, one: Access, accesses: CallTable) -> str:
    mechanism = m.SMALL_READS if one.direction == "read" else m.SMALL_WRITES
    requests = run.calls.where_line(one.line or "").where(layer=(Layer.APP, Layer.HDF5), inside=0)
    in_pieces = libraries.library_of(run, accesses) in ("h5py", "netCDF4")
    if in_pieces and one.direction == "read" and one.calls >= _PIECES * max(requests.total("calls"), 1):
        return m.SMALL_PIECES
    return mechanism


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
    yields_to=(
        "flush-per-record",
        "sync-per-write",
        "synchronous-writes",
        "parquet-small-groups",
        "format-bound",
        "parse-bound",
    ),
    trial=Trial("pyio_trace.insights.trials.writes:in_larger_calls"),
)
