"""The first batch of a DataLoader comes late: its workers have to start before they fetch.

Spawned workers import the program and its libraries again, which takes seconds.
Start the iterator before the model is built, so that both happen at once, keep
heavy imports out of the module of the dataset, or fork.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from pyio_trace.insights import library_use, loader_advice
from pyio_trace.insights.finding import Confidence, Evidence, Finding, Remedy, Term
from pyio_trace.insights.import_use import workers_again
from pyio_trace.insights.library_use import NEEDS
from pyio_trace.insights.loader_use import Loader, loaders
from pyio_trace.insights.observed import Observed
from pyio_trace.insights.rule import Limit, Rule
from pyio_trace.units import seconds

_MS = 1_000_000


def find(observed: Observed, limits: Mapping[str, float]) -> Iterator[Finding]:
    """Loaders with workers, by their first epoch."""
    for loader in loaders(observed):
        first = loader.epochs[0]
        least = max(limits["ms"] * _MS, limits["share"] * observed.wall_ns)
        if not loader.workers or first.start_ns + first.first_ns < least:
            continue
        if not loader_advice.better_with_fewer(loader, limits["fewer"]):
            yield _finding(observed, loader)


def _finding(observed: Observed, loader: Loader) -> Finding:
    first = loader.epochs[0]
    terms = [Term("DataLoader.__iter__", first.start_ns), Term("waiting for the workers to begin", first.first_ns)]
    how = "the start of the first epoch, until its workers began to fetch"
    gain = observed.gain({loader.trainer: first.start_ns + first.first_ns}, how, "upper", terms)
    evidence = Evidence(
        f"Starting {loader.workers} workers took {seconds(first.start_ns)}; the trainer then waited "
        f"{seconds(first.first_ns)} until they began to fetch.",
        {"workers": loader.workers, "start_ns": first.start_ns, "first_ns": first.first_ns},
    )
    remedy = Remedy(
        "Start the workers first, and build the model while they start.",
        "model = build()\nfor batch in loader:\n    train(model, batch)",
        "batches = iter(loader)    # workers start\nmodel = build()\nfor batch in batches:\n    train(model, batch)",
        "torch",
    )
    confidence = Confidence(
        0.8, "starts and waits are calls of their own", ["what could be done meanwhile is not known"]
    )
    title = f"The first batch waits {seconds(gain.ns)} for workers to start"
    return library_use.finding(
        observed, loader.starts, title, gain, [evidence, *_imports(observed, loader)], remedy, confidence,
        query=loader.starts.query("detail"),
    )  # fmt: skip


def _imports(observed: Observed, loader: Loader) -> list[Evidence]:
    """What its workers spent in imports, where they had to import what the trainer had imported."""
    again = [one for one in workers_again(observed) if one.starter == loader.trainer]
    times = [one.time for one in again if observed.is_loader_worker(one.index)]
    if not times:
        return []
    text = f"Of this trainer's workers, {len(times):,} began without its modules, and imported for up to "
    return [Evidence(f"{text}{seconds(max(times))}.", {"importing": len(times), "import_ns": max(times)})]


RULE = Rule(
    "PyTorch",
    find,
    {
        "share": Limit(0.05, "of the run until the first workers fetch"),
        "ms": Limit(300, "until the first workers fetch, at least"),
        "fewer": loader_advice.FEWER,
    },
    NEEDS,
    each_call=True,
)
