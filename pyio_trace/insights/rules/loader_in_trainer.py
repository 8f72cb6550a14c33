"""A DataLoader without workers: nothing is computed while a batch is fetched, and nothing fetched while it computes.

The model of the loader (loader_model.py) says how long the epochs would take with workers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from pyio_trace.insights import library_use, loader_advice
from pyio_trace.insights.finding import LOADER, Confidence, Evidence, Finding
from pyio_trace.insights.library_use import NEEDS
from pyio_trace.insights.loader_model import Model
from pyio_trace.insights.loader_use import Loader, loaders
from pyio_trace.insights.observed import Observed
from pyio_trace.insights.rule import Limit, Rule, Trial
from pyio_trace.units import seconds


def find(observed: Observed, limits: Mapping[str, float]) -> Iterator[Finding]:
    """Loaders whose trainer fetches by itself, and that are faster with workers."""
    for loader in loaders(observed):
        made = loader.model
        if made is None or not loader.in_trainer:
            continue
        count = made.fastest or 1
        own = made.predicted(0)
        saved = own - made.predicted(count, made.several)
        if saved >= max(limits["us"] * 1000 * len(made.batches), limits["share"] * own):
            yield _finding(observed, loader, made, (count, saved))


def _finding(observed: Observed, loader: Loader, made: Model, advice: tuple[int, int]) -> Finding:
    """advice: how many workers, and what they save (ns)."""
    count, saved = advice
    fetch, batches = loader.sum("fetch_ns"), loader.sum("batches")
    how = "the epochs as they were, less the epochs laid out with workers"
    gain = observed.gain({loader.trainer: max(saved, 0)}, how)
    evidence = [
        Evidence(
            f"{batches:,} fetches took {seconds(fetch)}, the compute between them {seconds(loader.compute_ns)}, one "
            "after the other.",
            {LOADER: loader.label, "batches": batches, "fetch_ns": fetch, "compute_ns": loader.compute_ns},
        ),
        loader_advice.evidence(made, count),
    ]
    work = loader.work[0] if loader.work else None
    if work is not None:
        where = f" at {work.site}" if work.site else ""
        text = f"{work.count:,} {work.op}{where} took {seconds(work.time)}."
        evidence.append(Evidence(text, {"calls": work.count, "time_ns": work.time, "io_ns": work.leaf}))
    title = "The trainer fetches its batches itself"
    lowered = ["what starting workers and handing batches over costs is assumed"]
    confidence = Confidence(0.6, "fetches are calls of their own", lowered)
    remedy = loader_advice.workers_remedy(made, count, loader_advice.is_undivided(loader))
    return library_use.finding(observed, loader.waits, title, gain, evidence, remedy, confidence)


RULE = Rule(
    "PyTorch",
    find,
    {
        "share": Limit(0.1, "of the epochs that workers would save"),
        "us": Limit(500, "us of a batch that workers would save, at least"),
    },
    NEEDS,
    trial=Trial("pyio_trace.insights.trials.readers:more", rows="loader"),
    each_call=True,
)
