"""Workers of a DataLoader with unequal work: some have no data, or one is slower than the others.

Batches are handed over in order, so all wait for the slowest worker.  A worker
without data (fewer shards than workers) only costs its start and its memory, and
the others fetch more.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from statistics import median

from pyio_trace.insights import library_use
from pyio_trace.insights.finding import LOADER, Confidence, Evidence, Finding, Remedy
from pyio_trace.insights.library_use import NEEDS
from pyio_trace.insights.loader_model import Model
from pyio_trace.insights.loader_use import Loader, loaders
from pyio_trace.insights.observed import Observed
from pyio_trace.insights.rule import Limit, Rule
from pyio_trace.units import counted, seconds


def find(observed: Observed, limits: Mapping[str, float]) -> Iterator[Finding]:
    """Loaders whose epochs would be shorter if each worker had as much to do."""
    for loader in loaders(observed):
        made = loader.model
        if made is None or loader.workers < 2:
            continue
        saved = made.length() - made.even()
        if saved < max(limits["share"] * made.length(), limits["ms"] * 1e6):
            continue
        batches, times = _work(loader)
        idle = [worker for worker in sorted(times) if not batches[worker]]
        usual = median([times[worker] for worker in times if batches[worker]] or [0])
        slowest = max(times, key=lambda worker: times[worker], default=-1)
        if idle and sum(batches.values()) >= loader.workers:
            yield _idle(observed, loader, saved, (len(idle), len(times)))
        elif usual and times[slowest] >= limits["times"] * usual:
            yield _slow(observed, loader, made, (saved, slowest, batches[slowest], times[slowest], int(usual)))


def _work(loader: Loader) -> tuple[Counter[int], Counter[int]]:
    """(batches, ns in fetches) of each worker (process)."""
    batches, times = Counter[int](), Counter[int]()
    columns = (loader.fetches.column(name).tolist() for name in ("process", "duration"))
    for worker, time, detail in zip(*columns, loader.fetches.details, strict=True):
        times[worker] += time
        batches[worker] += "raised" not in detail
    return batches, times


def _idle(observed: Observed, loader: Loader, saved: int, workers: tuple[int, int]) -> Finding:
    idle, count = workers
    busy = count - idle
    evidence = Evidence(
        f"{counted(idle, 'worker')} of {count} had nothing to fetch; the other {busy} fetched "
        f"{loader.sum('batches'):,} batches.",
        {LOADER: loader.label, "idle": idle, "workers": count},
    )
    remedy = Remedy(
        "Make at least as many shards as there are workers, or start no more workers than there are shards.",
        f"DataLoader(data, num_workers={count})", f"DataLoader(data, num_workers={busy})    # or {count} shards",
        "torch",
    )  # fmt: skip
    title = f"{counted(idle, 'worker')} of {count} {'has' if idle == 1 else 'have'} no data"
    return _finding(observed, loader, title, saved, evidence, remedy)


def _slow(observed: Observed, loader: Loader, made: Model, figures: tuple[int, int, int, int, int]) -> Finding:
    """figures: ns that equal work saves; the slowest worker (process), its batches, its fetches' ns, the usual ns."""
    saved, worker, batches, time, usual = figures
    name = observed.processes[worker]["process_name"] if worker >= 0 else ""
    evidence = Evidence(
        f"{name or 'One worker'} fetched {counted(batches, 'batch', 'batches')} in {seconds(time)}, a usual one took "
        f"{seconds(usual)}. Batches come in order, so that all wait for it.",
        {LOADER: loader.label, "workers": made.workers, "slowest_ns": time, "usual_ns": usual},
    )
    remedy = Remedy(
        "Give each worker as much to do: equal shards, or smaller ones dealt out by turns. Where the order of batches "
        "does not matter, in_order=False lets the others go on.",
        f"DataLoader(data, num_workers={made.workers})",
        f"DataLoader(data, num_workers={made.workers}, in_order=False)",
        "torch",
    )
    return _finding(
        observed, loader, "One worker is slower than the others, which wait for it", saved, evidence, remedy
    )


def _finding(observed: Observed, loader: Loader, title: str, saved: int, evidence: Evidence, remedy: Remedy) -> Finding:
    gain = observed.gain(
        {loader.trainer: saved}, "the epochs as they were, less the epochs with as much for each worker"
    )
    confidence = Confidence(0.7, "fetches are calls of their own", ["a sample may be slow wherever it is fetched"])
    work = [one.site for one in loader.work[:1] if one.site is not None]
    return library_use.finding(
        observed, loader.waits, title, gain, [evidence], remedy, confidence,
        sites=list(dict.fromkeys([*work, *loader.waits.sites()])), query=loader.fetches.query("process", "detail"),
    )  # fmt: skip


RULE = Rule(
    "PyTorch",
    find,
    {
        "share": Limit(0.1, "of the epochs that equal work would save"),
        "ms": Limit(100, "that it would save, at least"),
        "times": Limit(1.7, "what the slowest worker's fetches take, over a usual worker's"),
    },
    NEEDS,
    each_call=True,
)
