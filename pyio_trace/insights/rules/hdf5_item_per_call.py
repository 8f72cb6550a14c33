"""Datasets that are read or written an item at a time.

Before HDF5 moves a byte, a call of h5py looks at the selection, makes the two
dataspaces and checks types.  For a row of a few
numbers that is nearly all of its time.  A block of many items costs as much.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from pyio_trace.insights import library_use
from pyio_trace.insights.finding import Confidence, Evidence, Finding, Remedy
from pyio_trace.insights.hdf5_use import READS, WRITES
from pyio_trace.insights.libraries import is_netcdf
from pyio_trace.insights.library_use import NEEDS, Group, calls_of
from pyio_trace.insights.observed import Observed
from pyio_trace.insights.rule import Limit, Rule
from pyio_trace.units import seconds, size

_READING, _WRITING = (*READS, "H5Dread"), (*WRITES, "H5Dwrite")
#: Items that a block should have.
_BLOCK = 100
_H5PY = {
    "read": Remedy(
        "Read a block of many items, and take the items from it.",
        "for n in range(count):\n    use(dataset[n])",
        "for start in range(0, count, 1000):\n    for item in dataset[start : start + 1000]:\n        use(item)",
        "h5py",
    ),
    "write": Remedy(
        "Collect many items, and write them as a block. What has to grow then grows rarely.",
        "for item in items:\n    dataset.resize(len(dataset) + 1, axis=0)\n    dataset[-1] = item",
        "for start in range(0, len(items), 1000):\n    block = items[start : start + 1000]\n"
        "    dataset.resize(len(dataset) + len(block), axis=0)\n    dataset[-len(block) :] = block",
        "h5py",
    ),
}
_NETCDF4 = {
    "read": Remedy(
        "Read a block of many steps, and take the steps from it.",
        "for n in range(count):\n    use(variable[n])",
        "for n, step in enumerate(variable[:]):\n    use(step)",
        "netCDF4",
    ),
    "write": Remedy(
        "Collect many steps, and write them as a block.",
        "for n, step in enumerate(steps):\n    variable[n] = step",
        "variable[: len(steps)] = numpy.stack(steps)",
        "netCDF4",
    ),
}


def find(observed: Observed, limits: Mapping[str, float]) -> Iterator[Finding]:
    """Lines with many calls for little each."""
    for direction, ops in (("read", _READING), ("write", _WRITING)):
        for _, group in calls_of(observed, *ops).by("site", "op"):
            few = len(group) < limits["calls"] or group.total("asked") > limits["bytes"] * len(group)
            costs = group.total("duration") >= limits["share"] * observed.wall_ns
            if not few and costs and 2 * _datasets(group) <= len(group):  # else there are many datasets
                yield _finding(observed, group, direction)


def _datasets(group: Group) -> int:
    names = (str(detail.get("dataset")) for detail in group.details)
    return len(set(zip(group.column("path").tolist(), names, strict=True)))


def _finding(observed: Observed, group: Group, direction: str) -> Finding:
    count, time, asked = len(group), group.total("duration"), group.total("asked")
    moves = group.total("reads") + group.total("writes")
    gain = observed.gain(
        group.scaled(time - time // _BLOCK),
        f"all but one in {_BLOCK} of these calls; moving the bytes takes some of it",
    )
    evidence = Evidence(
        f"{count:,} {group.ops()[0]}"
        + (f" for {size(asked)}" if asked else "")
        + f" took {seconds(time)}, {seconds(time // count)} each"
        + (f"; {seconds(group.leaf_ns)} of it in {moves:,} reads and writes." if moves else "."),
        {"calls": count, "asked": asked, "duration_ns": time, "io_ns": group.leaf_ns},
    )
    netcdf = any(map(is_netcdf, group.paths())) and group.ops()[0].startswith("H5")
    remedy = (_NETCDF4 if netcdf else _H5PY)[direction]
    confidence = Confidence(0.7, "calls and bytes are in the log; whether many items can wait for each other is not")
    verb = "read" if direction == "read" else "written"
    # the sizes of texts, and of other items of variable length, are not in the log
    amount = f"{size(asked // count)} are" if asked else "One item is"
    title = f"{amount} {verb} at a time, {count:,} times"
    return library_use.finding(observed, group, title, gain, [evidence], remedy, confidence)


RULE = Rule(
    "HDF5",
    find,
    {
        "calls": Limit(1000, "reads or writes of datasets at one line, at least", few=100),
        "bytes": Limit(4096, "of one of them on average, at most"),
        "share": Limit(0.05, "of the wall time that they take, at least"),
    },
    NEEDS,
    topic="size",
    each_call=True,
)
