"""Very small HDF5 chunks: each costs a look-up and a system call of its own."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from pyio_trace.insights import library_use
from pyio_trace.insights.finding import Confidence, Evidence, Finding, Remedy
from pyio_trace.insights.hdf5_use import uses
from pyio_trace.insights.library_use import NEEDS
from pyio_trace.insights.observed import Observed
from pyio_trace.insights.rule import Limit, Rule, Trial
from pyio_trace.units import seconds, size


def find(observed: Observed, limits: Mapping[str, float]) -> Iterator[Finding]:
    """Datasets of which one call needs many tiny chunks."""
    for writing in (False, True):
        for dataset in uses(observed, writing):
            group, (needed, _) = dataset.group, dataset.touched
            per_call = needed / len(group)
            if not 0 < dataset.chunk_bytes <= limits["bytes"] or per_call < limits["chunks"]:
                continue
            left = min(max(dataset.chunk_bytes / max(limits["enough"], 1), 1 / max(per_call, 1)), 1.0)
            how = f"chunks of {size(int(limits['enough']))} would be {1 - left:.0%} fewer: that share of the time"
            gain = observed.gain(group.scaled(int(group.total("duration") * (1 - left))), how)
            evidence = Evidence(
                f"{len(group):,} {'writes' if writing else 'reads'} needed {needed:,} chunks of "
                f"{size(dataset.chunk_bytes)} and took {seconds(group.total('duration'))}, HDF5 itself "
                f"{seconds(group.library_ns)}.",
                {"calls": len(group), "chunks": needed, "chunk_bytes": dataset.chunk_bytes},
            )
            remedy = Remedy(
                "Use larger chunks, of the shape that is read at a time.",
                f"f.create_dataset(name, data=array, chunks={dataset.chunks})",
                f"f.create_dataset(name, data=array, chunks={dataset.advised_chunks()})",
                "h5py",
            )
            title = f"{dataset.name} is in chunks of {size(dataset.chunk_bytes)}: {per_call:,.0f} for each call"
            confidence = Confidence(0.8, "selections and chunk shapes are in the log")
            yield library_use.finding(observed, group, title, gain, [evidence], remedy, confidence)


RULE = Rule(
    "HDF5",
    find,
    {
        "bytes": Limit(16 << 10, "bytes of a chunk that count as tiny"),
        "enough": Limit(256 << 10, "bytes of a chunk that are enough"),
        "chunks": Limit(16, "chunks for each call"),
    },
    NEEDS,
    topic="size",
    trial=Trial("pyio_trace.insights.trials.datasets_read:other_chunks"),
    each_call=True,
)
