"""Chunks of another shape than what is read: HDF5 unpacks whole chunks to return a small part of each."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

from pyio_trace.insights import library_use
from pyio_trace.insights.finding import Confidence, Evidence, Finding, Remedy
from pyio_trace.insights.hdf5_parts import of_other_bindings
from pyio_trace.insights.hdf5_use import DatasetUse, uses
from pyio_trace.insights.library_use import NEEDS
from pyio_trace.insights.observed import Observed
from pyio_trace.insights.rule import Limit, Rule, Trial
from pyio_trace.units import seconds, size


def find(observed: Observed, limits: Mapping[str, float]) -> Iterator[Finding]:
    """Datasets of which little is used of each chunk, even if no chunk is fetched twice."""
    for dataset in uses(observed, writing=False):
        _, different = dataset.touched
        asked, whole = dataset.group.total("asked"), different * dataset.chunk_bytes
        much = different >= limits["chunks"] and asked and whole >= limits["amplification"] * asked
        if much and 2 * _needed(dataset, dataset.advised_chunks()) <= _needed(dataset, dataset.chunks or ()):
            yield _finding(observed, dataset, whole, asked)
    yield from of_other_bindings(observed, limits)


def _needed(dataset: DatasetUse, chunks: tuple[int, ...]) -> int:
    """How many elements the chunks of a typical read have: of a few elements here and there no shape makes it less."""
    return math.prod(-(-extent // chunk) * chunk for extent, chunk in zip(dataset.typical, chunks, strict=False))


def _finding(observed: Observed, dataset: DatasetUse, whole: int, asked: int) -> Finding:
    group = dataset.group
    how = f"{1 - asked / whole:.0%} of what the chunks hold was not asked for: that share of the reads' time"
    gain = observed.gain(group.scaled(int(group.total("duration") * (1 - asked / whole))), how)
    evidence = Evidence(
        f"{len(group):,} reads of {_text(dataset.typical)}, {size(asked)} in all, needed {size(whole)} of chunks of "
        f"{_text(dataset.chunks or ())}: {whole / asked:.0f} times as much. They took "
        f"{seconds(group.total('duration'))}.",
        {"reads": len(group), "asked": asked, "chunks_bytes": whole},
    )
    remedy = Remedy(
        "Store the dataset in chunks of the shape that is read.",
        f"f.create_dataset(name, data=array, chunks={_text(dataset.chunks or ())})",
        f"f.create_dataset(name, data=array, chunks={_text(dataset.advised_chunks())})",
        "h5py",
    )
    confidence = Confidence(0.7, "selections and chunk shapes are in the log; other readers of the file are not")
    title = f"Reads of {dataset.name} use {asked / whole:.1%} of the chunks that HDF5 has to unpack for them"
    return library_use.finding(observed, group, title, gain, [evidence], remedy, confidence)


def _text(extents: tuple[int, ...]) -> str:
    return str(tuple(extents))


RULE = Rule(
    "HDF5",
    find,
    {
        "amplification": Limit(8, "bytes of the chunks needed, over bytes asked for"),
        "chunks": Limit(4, "different chunks needed"),
    },
    NEEDS,
    trial=Trial("pyio_trace.insights.trials.datasets_read:other_chunks"),
    each_call=True,
)
