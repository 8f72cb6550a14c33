"""A trainer that waits for batches whose fetch has not ended: data loading that compute does not hide.

A batch counts as not fetched while its worker is in its next fetch: only then can
the worker's other thread hand the batch over.

Faster fetches save at most what the trainer waited.  The model of the loader
(loader_model.py) says what more workers would save; where fetches wait instead of
computing, that may be more workers than there are cores.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from pyio_trace.insights import library_use, loader_advice
from pyio_trace.insights.finding import LOADER, Confidence, Evidence, Finding, Remedy
from pyio_trace.insights.library_use import NEEDS
from pyio_trace.insights.loader_model import Model
from pyio_trace.insights.loader_use import Loader, Work, loaders
from pyio_trace.insights.observed import Observed
from pyio_trace.insights.rule import Limit, Rule, Trial
from pyio_trace.units import seconds

#: A line with less of the fetches' time than this share is not what makes them slow.
_MUCH = 0.1


def find(observed: Observed, limits: Mapping[str, float]) -> Iterator[Finding]:
    """Loaders with workers whose trainer waits."""
    for loader in loaders(observed):
        least = max(limits["share"] * loader.whole_ns, limits["ms"] * 1e6)
        if not loader.workers or loader.model is None or not loader.exposed_ns >= least > 0:
            continue
        if not loader_advice.better_with_fewer(loader, limits["fewer"]):
            yield _finding(observed, loader, loader.model)


def _finding(observed: Observed, loader: Loader, made: Model) -> Finding:
    exposed, batches = loader.exposed_ns, loader.sum("batches")
    share = exposed / loader.whole_ns
    how = "waits for batches up to the end of their fetches, without those for workers to start"
    saved = exposed
    count = max(made.best, made.workers)
    if count > made.workers:
        saved = min(exposed, made.saved)
        how += f"; laid out with {count} workers"
    gain = observed.gain({loader.trainer: saved}, how)
    evidence = [
        Evidence(
            f"{batches:,} batches were waited for {seconds(loader.sum('wait_ns'))}, {seconds(exposed)} of it until "
            f"they were fetched: {share:.0%} of the epochs.",
            {LOADER: loader.label, "batches": batches, "wait_ns": loader.sum("wait_ns"), "not_ready_ns": exposed},
        ),
        loader_advice.evidence(made, count),
    ]
    work = loader.work[0] if loader.work else None
    evidence.append(_inside(loader, made, work))
    if work is not None and work.time < _MUCH * loader.sum("fetch_ns"):
        work = None
    waits = loader.waits.sites()
    sites = [*([work.site] if work is not None and work.site is not None else []), *waits]
    title = f"The trainer waits for batches {share:.0%} of its time"
    confidence = Confidence(0.9, "each wait is joined with the fetch that it waited for")
    return library_use.finding(
        observed, loader.waits, title, gain, evidence, _remedy(loader, made), confidence,
        sites=list(dict.fromkeys(sites)), query=loader.fetches.query("cpu_time / 1e6 AS cpu_ms", "detail"),
    )  # fmt: skip


def _inside(loader: Loader, made: Model, work: Work | None) -> Evidence:
    """Where the time of the fetches went."""
    fetches = max(loader.sum("fetch_ns"), 1)
    if work is None or work.time < _MUCH * fetches:
        seen = sum(one.time for one in loader.work)
        text = f"{max(1 - seen / fetches, 0):.0%} of the fetches' time is in no call that is seen: the dataset "
        text += "waits for something else than files." if made.waits else "computes."
        return Evidence(text, {"fetch_ns": fetches, "seen_ns": seen})
    where = f" at {work.site}" if work.site else ""
    text = (
        f"{work.count:,} {work.op}{where} took {seconds(work.time)}, {min(work.time / fetches, 1):.0%} of the fetches; "
    )
    text += f"{seconds(work.leaf)} of that in system calls"
    values: dict[str, int | float | str] = {"calls": work.count, "time_ns": work.time, "io_ns": work.leaf}
    if work.cpu is not None and 2 * (work.cpu + work.leaf) < work.time:
        text += f", {seconds(work.cpu)} on a processor; most of it is waiting for one, or for another thread."
        values["cpu_ns"] = work.cpu
    else:
        text += "." if work.leaf * 2 >= work.time else ", the rest in the library."
    return Evidence(text, values)


def _remedy(loader: Loader, made: Model) -> Remedy:
    if made.best > made.workers:
        return loader_advice.workers_remedy(made, made.best, loader_advice.is_undivided(loader))
    return loader_advice.ahead_remedy(made) or Remedy(
        "Make an item cheaper: read it in fewer calls, store it decoded, or several items together.", library="torch"
    )


RULE = Rule(
    "PyTorch",
    find,
    {
        "share": Limit(0.1, "of the epochs that the trainer waits for fetches"),
        "ms": Limit(50, "that it waits for them, at least"),
        "fewer": loader_advice.FEWER,
    },
    NEEDS,
    trial=Trial("pyio_trace.insights.trials.readers:more", rows="loader"),
    yields_to=("hdf5-reopen-per-item",),
    each_call=True,
)
