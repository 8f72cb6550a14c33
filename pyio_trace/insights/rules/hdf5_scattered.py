"""A selection of many single places of an HDF5 dataset: an index array, a list or a mask.

HDF5 keeps such a selection as a list of pieces, and looks at all of them several
times: that often takes longer than reading everything and choosing in numpy. Read a
range, or one block after the other, and choose there.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from pyio_trace.insights import library_use
from pyio_trace.insights.finding import Confidence, Evidence, Finding, Remedy
from pyio_trace.insights.hdf5_use import READS
from pyio_trace.insights.library_use import NEEDS, Group, calls_of
from pyio_trace.insights.observed import Gain, Observed
from pyio_trace.insights.rule import Limit, Rule
from pyio_trace.units import number, seconds, size

#: What the log has of an array or a list that selects.
_ARRAY = re.compile(r"<ndarray (bool|u?int)\d* \((\d{1,18}),")
_LIST = re.compile(r"<list \((\d{1,18}),\)>")
_REMEDY = Remedy(
    "Read a range, or blocks of it, and choose the rows in numpy.",
    "picked = dataset[wanted]",
    "first, last = wanted[0], wanted[-1]\npicked = dataset[first : last + 1][wanted - first]",
    "h5py",
)
_BLOCKS = Remedy(
    "Read one block after the other, and choose the rows in numpy.",
    "picked = dataset[wanted]",
    "parts = []\nfor start in range(0, len(dataset), 100_000):\n"
    "    rows = wanted[(wanted >= start) & (wanted < start + 100_000)]\n"
    "    parts.append(dataset[start : start + 100_000][rows - start])\npicked = numpy.concatenate(parts)",
    "h5py",
)
#: A range of more bytes is read in blocks.
_LARGE = 1 << 30


def find(observed: Observed, limits: Mapping[str, float]) -> Iterator[Finding]:
    """Lines that read many single places in one call."""
    reads = calls_of(observed, *READS)
    chosen = reads.where(_places(detail) >= limits["places"] for detail in reads.details)
    for _, group in chosen.by("site"):
        gain = observed.gain(
            group.scaled(group.library_ns), "these calls without their reads; choosing in numpy takes some of it"
        )
        if gain.ns >= limits["share"] * observed.wall_ns:
            yield _finding(observed, group, gain)


def _places(detail: Mapping[str, Any]) -> int:
    """How many places a selection lists along one axis; 0: it lists none."""
    text = str(detail.get("selection"))
    return max((int(found) for found in _counts(text)), default=0)


def _counts(text: str) -> Iterator[str]:
    yield from (found.group(2) for found in _ARRAY.finditer(text))
    yield from (found.group(1) for found in _LIST.finditer(text))


def _finding(observed: Observed, group: Group, gain: Gain) -> Finding:
    count, places = len(group), sum(_places(detail) for detail in group.details)
    whole = max((_bytes(detail) for detail in group.details), default=0)
    evidence = Evidence(
        f"{number(places)} places in {number(count)} {'call' if count == 1 else 'calls'}, {size(group.total('asked'))} "
        f"of datasets of {size(whole)}. Of {seconds(group.total('duration'))}, {seconds(group.leaf_ns)} are reads.",
        {"places": places, "calls": count, "asked": group.total("asked"), "duration_ns": group.total("duration")},
    )
    confidence = Confidence(0.8, "the calls and their selections are in the log")
    title = f"{number(places)} scattered places are selected one by one"
    remedy = _REMEDY if whole <= _LARGE else _BLOCKS
    return library_use.finding(observed, group, title, gain, [evidence], remedy, confidence)


def _bytes(detail: Mapping[str, Any]) -> int:
    """Of the dataset, as far as its shape says."""
    shape, dtype = detail.get("shape"), re.search(r"(\d+)\Z", str(detail.get("dtype")))
    if not isinstance(shape, list) or not all(isinstance(one, int) and 0 <= one < 1 << 48 for one in shape):
        return 0
    whole = int(dtype.group(1)) // 8 if dtype else 8
    for one in shape:
        whole *= one
    return whole


RULE = Rule(
    "HDF5",
    find,
    {
        "places": Limit(1000, "that one call selects, at least", few=100),
        "share": Limit(0.05, "of the wall time that these calls take beside their reads, at least"),
    },
    NEEDS,
    each_call=True,
)
