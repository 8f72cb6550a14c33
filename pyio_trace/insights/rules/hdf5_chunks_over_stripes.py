"""Chunks of an HDF5 dataset lie across the stripes of its file on Lustre.

A chunk that begins in one stripe and ends in another needs two servers where one would do, and
processes with chunks next to each other wait for each other's locks of the stripe between them. Make
a chunk as large as a stripe, a part of it or several, and let HDF5 begin each at a multiple of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from pyio_trace.insights import library_use
from pyio_trace.insights.finding import Confidence, Evidence, Finding, Remedy
from pyio_trace.insights.hdf5_use import uses
from pyio_trace.insights.library_use import NEEDS
from pyio_trace.insights.rule import Limit, Rule
from pyio_trace.log.stripes import of_text
from pyio_trace.units import number, seconds, size

if TYPE_CHECKING:
    from pyio_trace.insights.library_use import Group
    from pyio_trace.insights.observed import Observed


def find(run: Observed, limits: Mapping[str, float]) -> Iterator[Finding]:
    stripes = {path: _stripe(text) for path, text in run.stripes.items()}
    for writing in (True, False) if any(stripes.values()) else ():
        for dataset in uses(run, writing):
            chunk = 0 if dataset.filters else dataset.chunk_bytes  # packed ones have sizes of their own
            if chunk < limits["bytes"]:
                continue
            for _, group in dataset.group.by("path"):
                stripe = next((stripes.get(path, 0) for path in group.paths()), 0)
                crosses = stripe and chunk % stripe and stripe % chunk
                if crosses and len(group.processes()) >= limits["processes"]:
                    yield _finding(run, dataset.name, group, chunk, stripe)


def _stripe(text: str) -> int:
    """Bytes of a stripe of a file that is on several servers; 0: it is on one, or none is known."""
    return max((part.size for part in of_text(text) if part.servers > 1 or part.servers < 0), default=0)


def _finding(run: Observed, name: str, group: Group, chunk: int, stripe: int) -> Finding:
    least = -(-chunk // stripe)
    crossed = chunk / stripe + 1  # stripes that a chunk touches on average, wherever it begins
    time = group.total("duration")
    gain = run.gain(
        group.scaled(int(time * (1 - least / crossed))),
        f"the share of the calls' time for {crossed:.2g} stripes of a chunk instead of {number(least)}",
    )
    evidence = Evidence(
        f"{number(len(group.processes()))} processes moved {size(group.total('asked'))} of it in {seconds(time)}. A "
        f"chunk of {size(chunk)} touches {crossed:.2g} stripes on average.",
        {"chunk": chunk, "stripe": stripe, "processes": len(group.processes()), "time_ns": time},
    )
    remedy = Remedy(
        "Make chunks of a stripe, and let HDF5 begin each at a multiple of it; this holds for new files.",
        "f = h5py.File(path, 'w')",
        f"f = h5py.File(path, 'w', alignment_threshold={stripe},\n              alignment_interval={stripe})",
        "h5py",
    )
    confidence = Confidence(0.5, "where each chunk begins in the file is not known")
    title = f"Chunks of {size(chunk)} of {name} lie across stripes of {size(stripe)}"[:100]
    return library_use.finding(run, group, title, gain, [evidence], remedy, confidence, severity="warning")


RULE = Rule(
    "HDF5",
    find,
    {
        "bytes": Limit(65536, "of a chunk, at least"),
        "processes": Limit(2, "that use the dataset of a file, at least"),
    },
    NEEDS,
    each_call=True,
)
