"""Chunks of an uncompressed dataset that are read from the file again, as they do not fit into HDF5's chunk cache."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from pyio_trace.insights import hdf5_cache
from pyio_trace.insights.finding import Finding
from pyio_trace.insights.library_use import NEEDS
from pyio_trace.insights.observed import Observed
from pyio_trace.insights.rule import Limit, Rule, Trial


def find(observed: Observed, limits: Mapping[str, float]) -> Iterator[Finding]:
    """Datasets without compression."""
    for use in hdf5_cache.reused(observed, limits["times"]):
        if not use.dataset.compressed:
            yield hdf5_cache.finding(observed, use, "read")


RULE = Rule(
    "HDF5",
    find,
    {"times": Limit(2, "how often each chunk is read, on average")},
    NEEDS,
    trial=Trial("pyio_trace.insights.trials.datasets_read:cached"),
    each_call=True,
)
