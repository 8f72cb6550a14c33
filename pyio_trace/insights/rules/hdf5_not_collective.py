"""A call of parallel HDF5 asks for a collective transfer, and HDF5 does an independent one.

Nothing tells the program: the call succeeds, only slower, as each rank then asks
the file system by itself. HDF5 keeps the cause, which the log has. The most common
one is that the elements in memory have another type than those of the data set.
Silent where HDF5 names no cause: how it treats the chunks of a collective call is
its own choice.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from pyio_trace.analysis.reducers.hdf5_transfers import TransfersByLine, TransferUse
from pyio_trace.insights import sql
from pyio_trace.insights.finding import Confidence, Evidence, Finding, Remedy
from pyio_trace.insights.rule import Limit, Rule
from pyio_trace.units import counted, number, seconds, size

if TYPE_CHECKING:
    from pyio_trace.insights.observed import Observed

_TRANSFERS = TransfersByLine()
#: Cause -> what HDF5 does, and what helps: words, code before, code after.
_CAUSES: dict[str, tuple[str, Remedy]] = {
    "datatype_conversion": (
        "the type of the elements in memory is not that of the data set",
        Remedy(
            "Pass arrays of the data set's own type.",
            "with d.collective:\n    d[part] = numbers",
            "with d.collective:\n    d[part] = numbers.astype(d.dtype)",
            "h5py",
        ),
    ),
    "parallel_filtered_writes_disabled": (
        "this build of HDF5 cannot write filtered chunks collectively",
        Remedy("Use an HDF5 that is built with an MPI of version 3, or write this data set without a filter."),
    ),
    "not_contiguous_or_chunked_dataset": (
        "the data set is neither contiguous nor chunked",
        Remedy("Make the data set contiguous or chunked; compact, external and virtual ones are never collective."),
    ),
    "data_transforms": (
        "a data transform is set",
        Remedy("Compute the values before the call, and set no data transform in the transfer properties."),
    ),
    "not_simple_or_scalar_dataspaces": (
        "a dataspace is neither simple nor scalar",
        Remedy("Use simple dataspaces for memory and file."),
    ),
    "mpi_types_disabled": (
        "the environment disables it",
        Remedy("Unset HDF5_MPI_OPT_TYPES in the job's environment."),
    ),
    "no_selection_io": (
        "selection I/O is disabled",
        Remedy("Allow selection I/O: H5Pset_selection_io(dxpl, H5D_SELECTION_IO_MODE_ON)."),
    ),
}  # fmt: skip


def find(run: Observed, limits: Mapping[str, float]) -> Iterator[Finding]:
    for use in run.of(_TRANSFERS).rows:
        cause = next((word for word in _CAUSES if word in use.causes), None)
        if use.asked == "collective" and use.done == "independent" and cause:
            finding = _finding(run, use, cause)
            if finding is not None and finding.recoverable_ns >= limits["share"] * run.wall_ns:
                yield finding


def _finding(run: Observed, use: TransferUse, cause: str) -> Finding | None:
    calls = run.calls.where_lines([use.line or ""]).where_paths([use.path]).where(op=[use.op])
    total = int(calls.total("time"))
    if not total:
        return None
    ranks = calls.distinct("process")
    gain = run.gain(
        run.times(calls, min(use.time_ns / total, 1.0)), "all these calls; moving the bytes takes some of it in any way"
    )
    why, remedy = _CAUSES[cause]
    name = use.dataset or use.path.rpartition("/")[2]
    what = "read" if use.op.startswith("H5Dread") else "written"
    return Finding(
        title=f"{name} is {what} independently, although the call asks for a collective transfer",
        evidence=[
            Evidence(
                f"{counted(use.calls, 'call')} of {number(ranks)} ranks for {size(use.moved_bytes)} took "
                f"{seconds(use.time_ns)}; HDF5's cause: {why}.",
                {"calls": use.calls, "ranks": ranks, "bytes": use.moved_bytes, "time_ns": use.time_ns, "cause": cause},
            )
        ],
        remedy=remedy,
        severity="warning",
        confidence=Confidence(0.6, "how fast a collective transfer would be is not known"),
        query=sql.rows(
            {"path": use.path, "site": use.line, "op": use.op},
            select="global_rank, op, detail, " + sql.SUMS, group="global_rank, op, detail",
        ),
        **run.about(calls, gain),
    )  # fmt: skip


RULE = Rule(
    "HDF5",
    find,
    limits={"share": Limit(0.01, "of the wall time that these calls take, at least")},
    needs=(_TRANSFERS,),
    topic="shared",
    each_call=True,
)
