"""A DataLoader starts its workers again for every epoch.

Without persistent_workers=True each epoch ends its workers and starts new ones, and
so does a loader that is made anew for each epoch. Spawned workers also import the
program again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from pyio_trace.insights import library_use, loader_advice
from pyio_trace.insights.finding import Confidence, Evidence, Finding, Remedy, Term
from pyio_trace.insights.library_use import NEEDS
from pyio_trace.insights.loader_use import Loader, loaders
from pyio_trace.insights.observed import Observed
from pyio_trace.insights.rule import Limit, Rule
from pyio_trace.units import seconds


def find(observed: Observed, limits: Mapping[str, float]) -> Iterator[Finding]:
    """Loaders with several epochs whose workers did not stay."""
    for loader in loaders(observed):
        workers = {tuple(_pids(detail.get("workers"))) for detail in loader.starts.details}
        if not loader.workers or len(loader.epochs) < limits["epochs"] or len(workers) < 2:
            continue
        if not loader_advice.better_with_fewer(loader, limits["fewer"]):
            yield _finding(observed, loader)


def _pids(value: object) -> list[int]:
    return [one for one in value if isinstance(one, int)] if isinstance(value, list) else []


def _finding(observed: Observed, loader: Loader) -> Finding:
    starts = sum(epoch.start_ns for epoch in loader.epochs[1:])
    first = sum(epoch.first_ns for epoch in loader.epochs[1:])
    stops = sum(epoch.stop_ns for epoch in loader.epochs[:-1])
    terms = [
        Term("DataLoader.__iter__ of all epochs but the first", starts),
        Term("waits for their workers to start", first),
        Term("ends of all epochs but the last", stops),
    ]
    how = "starts after the first epoch's, and ends of all epochs but the last"
    gain = observed.gain({loader.trainer: starts + first + stops}, how, "estimate", terms)
    evidence = Evidence(
        f"{len(loader.epochs):,} epochs started {loader.workers} workers each, which took "
        f"{seconds(loader.sum('start_ns'))}, and waited {seconds(loader.sum('first_ns'))} for them to begin; stopping "
        f"them took {seconds(loader.sum('stop_ns'))}.",
        {"epochs": len(loader.epochs), "workers": loader.workers, "start_ns": loader.sum("start_ns")},
    )
    best = loader.workers if loader.model is None else max(loader.model.best, loader.workers)
    before = f"DataLoader(data, num_workers={best})"
    after = f"{before[:-1]}, persistent_workers=True)"
    remedy = Remedy("Keep the workers.", before, after, "torch")
    if len(loader.names) > 1:
        before, after = (
            f"for epoch in epochs:\n    loader = {before}",
            f"loader = {after}\nfor epoch in epochs:\n    ...",
        )
        remedy = Remedy("Make the loader once, and keep its workers.", before, after, "torch")
    confidence = Confidence(0.95, "starts and ends of epochs are calls of their own")
    title = "Workers are started anew for every epoch"
    return library_use.finding(
        observed, loader.starts, title, gain, [evidence], remedy, confidence,
        query=loader.starts.query("detail"), sites=[*loader.starts.sites(), *loader.waits.sites()][:4],
    )  # fmt: skip


RULE = Rule(
    "PyTorch",
    find,
    {"epochs": Limit(2, "epochs of a loader"), "fewer": loader_advice.FEWER},
    NEEDS,
    each_call=True,
)
