"""Parts of a contiguous HDF5 dataset that are not next to each other in the file: a system call for every row.

A contiguous dataset is stored row after row.  A tile or a column of it consists
of many pieces, and HDF5 reads or writes each of them by itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from pyio_trace.insights import library_use
from pyio_trace.insights.finding import Confidence, Evidence, Finding, Remedy
from pyio_trace.insights.hdf5_use import DatasetUse, uses
from pyio_trace.insights.library_use import NEEDS
from pyio_trace.insights.observed import Observed
from pyio_trace.insights.rule import Limit, Rule, Trial
from pyio_trace.units import seconds, size


def find(observed: Observed, limits: Mapping[str, float]) -> Iterator[Finding]:
    """Datasets that programs read or write, by name: those of the same name in several files are one."""
    for writing in (False, True):
        for dataset in uses(observed, writing):
            group = dataset.group
            beneath = group.total("reads") + group.total("writes")
            if (
                dataset.contiguous
                and beneath > len(group)
                and beneath >= limits["pieces"] * len(group)
                and len(dataset.shape) > 1
            ):
                yield _finding(observed, dataset, beneath)


def _finding(observed: Observed, dataset: DatasetUse, beneath: int) -> Finding:
    group = dataset.group
    verb, noun = ("written", "writes") if dataset.writing else ("read", "reads")
    moved, asked = group.total("read") + group.total("written"), group.total("asked")
    how = f"{beneath - len(group):,} of {beneath:,} system calls, and what HDF5 does for each"
    gain = observed.gain(group.scaled(int(group.total("duration") * (1 - len(group) / beneath))), how)
    evidence = Evidence(
        f"{len(group):,} {noun} of {dataset.typical}, {size(asked)} in all, became {beneath:,} system calls of "
        f"{size(moved // beneath)} each, {size(moved)} in all, and took {seconds(group.total('duration'))}.",
        {"calls": len(group), "beneath": beneath, "asked": asked, "moved": moved},
    )
    after = f"f.create_dataset(name, shape, dtype, chunks={dataset.advised_chunks()})"
    remedy = Remedy(
        f"Store the dataset in chunks of what is {verb} at a time; or {'write' if dataset.writing else 'read'} "
        "whole rows.",
        "f.create_dataset(name, shape, dtype)",
        after,
        "h5py",
    )
    confidence = Confidence(0.8, "selections, layout and the system calls beneath are in the log")
    title = f"{dataset.name} is {verb} in pieces: {beneath // len(group):,} system calls for each {noun[:-1]}"
    return library_use.finding(observed, group, title, gain, [evidence], remedy, confidence)


RULE = Rule(
    "HDF5",
    find,
    {"pieces": Limit(8, "system calls for each read or write of the program")},
    NEEDS,
    trial=Trial("pyio_trace.insights.trials.datasets_written:in_chunks"),
)
