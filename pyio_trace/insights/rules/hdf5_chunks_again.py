"""Chunks of a compressed dataset that are unpacked again and again, as they do not fit into HDF5's chunk cache.

HDF5 reads and unpacks whole chunks.  It keeps some of them per dataset: 1 MiB, or
8 MiB from HDF5 2.0 on.  A program that reads columns of a dataset chunked in
rows needs all chunks for each column, and finds none of them in the cache.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from pyio_trace.insights import hdf5_cache
from pyio_trace.insights.finding import Finding
from pyio_trace.insights.library_use import NEEDS
from pyio_trace.insights.observed import Observed
from pyio_trace.insights.rule import Limit, Rule, Trial


def find(observed: Observed, limits: Mapping[str, float]) -> Iterator[Finding]:
    """Compressed datasets."""
    for use in hdf5_cache.reused(observed, limits["times"]):
        if use.dataset.compressed:
            yield hdf5_cache.finding(observed, use, "unpacked")


RULE = Rule(
    "HDF5",
    find,
    {"times": Limit(2, "how often each chunk is unpacked, on average")},
    NEEDS,
    trial=Trial("pyio_trace.insights.trials.datasets_read:cached"),
    each_call=True,
)
