"""Data whose unpacking takes far longer than reading it: each chunk once, but with a slow filter."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from pyio_trace.insights import library_share, library_use, words
from pyio_trace.insights.finding import Confidence, Evidence, Finding, Remedy
from pyio_trace.insights.hdf5_use import uses
from pyio_trace.insights.library_use import NEEDS, Group
from pyio_trace.insights.observed import Observed
from pyio_trace.insights.rule import Rule
from pyio_trace.insights.words import mechanisms as m
from pyio_trace.units import seconds, size

_ARCHIVES = ("NpzFile.__getitem__",)


def find(observed: Observed, limits: Mapping[str, float]) -> Iterator[Finding]:
    """Arrays of compressed archives, and datasets with a gzip or szip filter."""
    for group in library_share.lines(observed, _ARCHIVES, limits):
        if group.total("read") < group.total("asked"):
            yield _finding(observed, group, words.remedy(m.UNPACKING, ["npz"]))
    for dataset in uses(observed, writing=False):
        needed, different = dataset.touched
        slow = [one for one in dataset.filters if one.startswith(("gzip", "szip"))]
        if slow and needed < 2 * different:  # what is unpacked again is another rule's
            for group in library_share.heavy(dataset.group, limits):
                yield _finding(observed, group, words.remedy(m.UNPACKING, ["h5py"]))


def _finding(observed: Observed, group: Group, remedy: Remedy) -> Finding:
    unpacking = group.library_ns
    gain = observed.gain(group.scaled(unpacking), "unpacking; a faster filter takes some of it", "upper")
    read, asked = group.total("read"), group.total("asked")
    evidence = Evidence(
        f"{len(group):,} reads of {size(asked)} ({size(read)} in the file) took {seconds(group.total('duration'))}: "
        f"{seconds(unpacking)} unpacking, {seconds(group.leaf_ns)} reading.",
        {"calls": len(group), "read": read, "asked": asked, "library_ns": unpacking, "io_ns": group.leaf_ns},
    )
    share = unpacking / max(group.total("duration"), 1)
    name = group.files()[0].rpartition("/")[2] if group.paths() else "an archive"
    title = f"Unpacking takes {share:.0%} of reading {name}"
    confidence = Confidence(0.7, "unpacking is the call's time without the system calls beneath")
    return library_use.finding(observed, group, title, gain, [evidence], remedy, confidence)


RULE = Rule("Compression", find, library_share.LIMITS, NEEDS)
