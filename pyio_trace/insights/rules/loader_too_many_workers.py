"""Workers that cost more than they save: fetches are cheaper than handing batches over from another process."""

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
    """Loaders whose trainer waits longer for workers than all fetches take."""
    for loader in loaders(observed):
        waits = loader.sum("wait_ns") + loader.sum("start_ns") + loader.sum("stop_ns")
        fetches = loader.sum("fetch_ns")
        if loader.workers and waits >= limits["times"] * fetches and waits - fetches >= limits["ms"] * 1e6:
            yield _finding(observed, loader, waits)


def _finding(observed: Observed, loader: Loader, waits: int) -> Finding:
    fetch, batches = loader.sum("fetch_ns"), loader.sum("batches")
    how = "starting, stopping and waiting for the workers, less the fetches, which the trainer would do itself"
    gain = observed.gain({loader.trainer: waits - fetch}, how)
    evidence = Evidence(
        f"All {batches:,} fetches took {seconds(fetch)}. The trainer waited {seconds(loader.sum('wait_ns'))} for "
        f"batches, {seconds(loader.sum('hand_over_ns'))} of it after they were fetched, and "
        f"{seconds(loader.sum('start_ns') + loader.sum('stop_ns'))} for its workers to start and end.",
        {
            LOADER: loader.label,
            "fetch_ns": fetch,
            "wait_ns": loader.sum("wait_ns"),
            "hand_over_ns": loader.sum("hand_over_ns"),
        },
    )
    remedy = Remedy(
        "Fetch in the trainer, or fewer and larger batches.",
        f"DataLoader(data, batch_size=n, num_workers={loader.workers})",
        "DataLoader(data, batch_size=n, num_workers=0)",
        "torch",
    )
    title = f"{loader.workers} workers cost more than they save"
    confidence = Confidence(0.75, "waits and fetches are calls of their own; a fetch may take longer in the trainer")
    return library_use.finding(
        observed, loader.waits, title, gain, [evidence], remedy, confidence,
        sites=[*loader.starts.sites(), *loader.waits.sites()][:4],
    )  # fmt: skip


RULE = Rule(
    "PyTorch",
    find,
    {
        "times": Limit(2, "waits for workers, over the time of all fetches"),
        "ms": Limit(100, "by which the waits exceed the fetches"),
    },
    NEEDS,
    trial=Trial("pyio_trace.insights.trials.readers:fewer", rows="loader"),
    each_call=True,
)
