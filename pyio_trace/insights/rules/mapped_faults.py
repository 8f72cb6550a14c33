"""Pages of a mapped file come from storage one by one.

Data from `numpy.memmap`, `mmap` and `numpy.load(mmap_mode=...)` is read when it is
touched: the processor stops at each page that is not in memory. Read in the
order of the file, copy a block before it is worked on, or tell the kernel with
`madvise` what comes next.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from pyio_trace.insights import sql
from pyio_trace.insights.finding import Confidence, Evidence, Finding, Remedy
from pyio_trace.insights.mapped_use import data_maps, mostly_remote, storage_latency
from pyio_trace.insights.rule import Limit, Rule
from pyio_trace.units import number, seconds, size

if TYPE_CHECKING:
    from pyio_trace.insights.observed import Observed

#: ns for a page from a fast device, where the run has too few reads from storage to tell.
_DEVICE = 100_000
_OF_RUN = "the mean of this run's reads from storage"


def find(run: Observed, limits: Mapping[str, float]) -> Iterator[Finding]:
    for one in run.overview.processes:
        faults = run.processes[one.index]["major_faults"] or 0
        mapped = data_maps(run, one.index)
        if faults < limits["faults"] or not len(mapped) or mostly_remote(run, one.index):
            continue
        read, split = one.storage_read or 0, one.split
        mean = storage_latency(run)
        each, known = (_DEVICE, "what a fast device takes") if mean is None else (mean, _OF_RUN)
        outside = split.other_ns + split.task_ns + split.library_ns
        how = f"{number(faults)} page faults at {seconds(each)}, {known}; no more than it spent outside of system calls"
        gain = run.gain({one.index: min(faults * each, outside)}, how)
        yield Finding(
            title=f"{number(faults)} times {one.name} waited for a page of a mapped file",
            evidence=[
                Evidence(
                    f"{size(read)} came from storage, {size(read // faults)} for each page fault; it spent "
                    f"{seconds(outside)} outside of system calls.",
                    {"faults": faults, "storage_read": read, "outside_ns": outside},
                )
            ],
            remedy=Remedy(
                "Touch pages in order, or read blocks.",
                "data = numpy.load(path, mmap_mode='r')\nfor n in random_order:\n    work(data[n])",
                "data = numpy.load(path, mmap_mode='r')\nfor block in blocks:    # in order\n"
                "    part = data[block].copy()\n    for n in shuffled(part):\n        work(part[n])",
                "numpy",
            ),
            confidence=Confidence(0.5, "the kernel counts faults by process, and not by file"),
            severity="warning",
            query=sql.rows({"process": one.index, "op_role": "map", "path": mapped.paths()}),
            **run.about(mapped, gain),
        )


RULE = Rule(
    "accesses",
    find,
    limits={"faults": Limit(1000, "page faults of a process that waited for storage, at least")},
)
