"""HDF5 files that are flushed after every item: each flush writes the file's metadata in small pieces."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

import numpy as np

from pyio_trace.insights import libraries, library_use, words
from pyio_trace.insights.finding import Confidence, Evidence, Finding
from pyio_trace.insights.library_use import NEEDS, Group, calls_of
from pyio_trace.insights.observed import Observed
from pyio_trace.insights.rule import Limit, Rule, Trial
from pyio_trace.insights.words import mechanisms as m
from pyio_trace.units import seconds, size

_FLUSHES = ("File.flush", "Dataset.flush", "H5Fflush", "H5Dflush")


_WATCHED = (
    "Another process of the run reads the file, and sees only what was flushed: flush as often as it has to see new "
    "items, which may be less often than after each."
)


def find(observed: Observed, limits: Mapping[str, float]) -> Iterator[Finding]:
    """Files that one process flushes often."""
    for _, group in calls_of(observed, *_FLUSHES).by("process", "path"):
        if len(group) >= limits["flushes"]:
            yield _finding(observed, group)


def _finding(observed: Observed, group: Group) -> Finding:
    rest = (len(group) - 1) / len(group)
    gain = observed.gain(
        group.scaled(int(group.total("duration") * rest)), "all flushes but one; what they wrote may be written later"
    )
    writes, written = group.total("writes"), group.total("written")
    each = f", {size(written // writes)} each" if writes else ""
    evidence = Evidence(
        f"{len(group):,} flushes took {seconds(group.total('duration'))} and made {writes:,} writes{each}.",
        {"flushes": len(group), "writes": writes, "written": written, "sync_ns": group.total("sync_ns")},
    )
    reads = observed.calls.where_paths(group.paths()).transfers("read")
    others = ~np.isin(reads.columns["process"], group.processes())
    watched = bool((others & (reads.columns["first"] <= group.last)).any())
    lines = [line for line in group.lines() if observed.is_own(line)]
    names = libraries.readers(observed, observed.calls.where_paths(group.paths()), lines)
    remedy = words.remedy(m.FLUSHED, names if (m.FLUSHED, names[0] if names else "") in words.table() else ["h5py"])
    remedy = replace(remedy, text=_WATCHED) if watched else remedy
    name = group.files()[0] if group.paths() else "an HDF5 file"
    title = f"{name.rpartition('/')[2]} is flushed {len(group):,} times"
    why = "flushes are calls of their own; that nobody else reads the file meanwhile is assumed"
    confidence = Confidence(0.4 if watched else 0.9, why)
    return library_use.finding(observed, group, title, gain, [evidence], remedy, confidence)


RULE = Rule(
    "HDF5",
    find,
    {"flushes": Limit(20, "flushes of a file by one process", few=3)},
    NEEDS,
    trial=Trial("pyio_trace.insights.trials.datasets_written:flushed_rarely", rows="files"),
)
