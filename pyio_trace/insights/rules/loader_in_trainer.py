"""A DataLoader without workers: nothing is computed while a batch is fetched, and nothing fetched while it computes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from pyio_trace.insights import library_use
from pyio_trace.insights.finding import LOADER, Confidence, Evidence, Finding, Remedy
from pyio_trace.insights.library_use import NEEDS
from pyio_trace.insights.loader_use import Loader, loaders
from pyio_trace.insights.observed import Observed
from pyio_trace.insights.rule import Limit, Rule, Trial
from pyio_trace.units import seconds


def find(observed: Observed, limits: Mapping[str, float]) -> Iterator[Finding]:
    """Loaders whose trainer fetches by itself."""
    if (observed.overview.cores or 2) < 2:
        return
    for loader in loaders(observed):
        batches = loader.sum("batches")
        hidden = min(loader.sum("fetch_ns"), loader.compute_ns)
        if loader.in_trainer and hidden >= limits["us"] * 1000 * batches:
            yield _finding(observed, loader, hidden)


def _finding(observed: Observed, loader: Loader, hidden: int) -> Finding:
    fetch, batches = loader.sum("fetch_ns"), loader.sum("batches")
    gain = observed.gain({loader.trainer: hidden}, "the fetches, or the compute, whichever is shorter")
    evidence = [
        Evidence(
            f"{batches:,} fetches took {seconds(fetch)}, the compute between them {seconds(loader.compute_ns)}, one "
            "after the other.",
            {LOADER: loader.label, "batches": batches, "fetch_ns": fetch, "compute_ns": loader.compute_ns},
        )
    ]
    work = loader.work[0] if loader.work else None
    if work is not None:
        where = f" at {work.site}" if work.site else ""
        text = f"{work.count:,} {work.op}{where} took {seconds(work.time)}."
        evidence.append(Evidence(text, {"calls": work.count, "time_ns": work.time, "io_ns": work.leaf}))
    remedy = Remedy(
        "Fetch in a worker while the trainer computes.",
        "DataLoader(data)",
        "DataLoader(data, num_workers=1, persistent_workers=True)",
        "torch",
    )
    title = "The trainer fetches its batches itself"
    confidence = Confidence(
        0.6, "fetches are calls of their own", ["what handing batches over would cost is not known"]
    )
    return library_use.finding(observed, loader.waits, title, gain, evidence, remedy, confidence)


RULE = Rule(
    "PyTorch",
    find,
    {"us": Limit(500, "us of a batch that a worker would save, at least")},
    NEEDS,
    trial=Trial("pyio_trace.insights.trials.readers:more", rows="loader"),
    each_call=True,
)
