"""Data whose unpacking takes far longer than reading it, or its packing than writing it: each chunk once, but with a
slow filter.

HDF5 packs a chunk when it leaves the chunk cache: in the call that writes, or when
the dataset or the file is closed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from pyio_trace.insights import library_share, library_use, words
from pyio_trace.insights.finding import Confidence, Evidence, Finding, Remedy
from pyio_trace.insights.hdf5_use import WRITES, uses
from pyio_trace.insights.library_use import NEEDS, Group, calls_of
from pyio_trace.insights.observed import Observed
from pyio_trace.insights.rule import Rule
from pyio_trace.insights.words import mechanisms as m
from pyio_trace.units import seconds, size

#: h5py's calls that know a dataset's filters; those in which its chunks are packed, and those of a whole file.
_MAKE = (*WRITES, "Group.create_dataset")
_PACK = (*_MAKE, "H5Dwrite", "H5Idec_ref", "H5Dclose", "H5Dset_extent", "H5Dflush")
_PACK_ALL = ("File.close", "File.flush", "H5Fclose", "H5Fflush")
_SLOW = ("gzip", "szip")
_ARCHIVES = ("NpzFile.__getitem__",)


def find(observed: Observed, limits: Mapping[str, float]) -> Iterator[Finding]:
    """Arrays of compressed archives, and datasets with a gzip or szip filter."""
    for group in library_share.lines(observed, _ARCHIVES, limits):
        if group.total("read") < group.total("asked"):
            yield _finding(observed, group, words.remedy(m.UNPACKING, ["npz"]))
    for dataset in uses(observed, writing=False):
        needed, different = dataset.touched
        slow = [one for one in dataset.filters if one.startswith(_SLOW)]
        if slow and needed < 2 * different:  # what is unpacked again is another rule's
            for group in library_share.heavy(dataset.group, limits):
                yield _finding(observed, group, words.remedy(m.UNPACKING, ["h5py"]))

    for group in _packing(observed):
        for one in library_share.heavy(group, limits):
            yield _of_packing(observed, one)


def _packing(observed: Observed) -> Iterator[Group]:
    """The calls of HDF5 by line that pack datasets with a slow filter."""
    slow = set()
    made = calls_of(observed, *_MAKE)
    for path, detail in zip(made.column("path").tolist(), made.details, strict=True):
        filters = detail.get("filters")
        if isinstance(filters, list) and any(str(one).startswith(_SLOW) for one in filters):
            slow.add((path, str(detail.get("dataset"))))
    if slow:
        calls, files = calls_of(observed, *_PACK, *_PACK_ALL), {path for path, _ in slow}
        keys = zip(calls.column("path").tolist(), calls.details, strict=True)
        packs = [
            (path, str(detail["dataset"])) in slow if "dataset" in detail else path in files for path, detail in keys
        ]
        for _, group in calls.where(packs).by("site"):
            if group.total("written"):  # what only reads also lets go of datasets
                yield group


def _of_packing(observed: Observed, group: Group) -> Finding:
    packing, written = group.library_ns, group.total("written")
    gain = observed.gain(group.scaled(packing), "packing; a faster filter, or none, takes some of it", "upper")
    evidence = Evidence(
        f"HDF5 wrote {size(written)} there in {seconds(group.total('duration'))}: {seconds(packing)} packing, "
        f"{seconds(group.leaf_ns)} writing.",
        {"calls": len(group), "written": written, "library_ns": packing, "io_ns": group.leaf_ns},
    )
    share = packing / max(group.total("duration"), 1)
    name = group.files()[0].rpartition("/")[2] if group.paths() else "a file"
    confidence = Confidence(0.7, "packing is the time of HDF5's calls without the system calls beneath")
    title = f"Packing takes {share:.0%} of writing {name}"
    return library_use.finding(observed, group, title, gain, [evidence], words.remedy(m.PACKING, ["h5py"]), confidence)


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


RULE = Rule(
    "Compression",
    find,
    library_share.LIMITS,
    NEEDS,
    yields_to=("hdf5-chunk-cache", "hdf5-chunks-again"),  # what is packed again, or unpacked
)
