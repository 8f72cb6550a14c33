"""Workers that cost more than they save: starting them and handing batches over takes longer than fetching.

The model of the loader (loader_model.py) says how long the epochs would take with fewer.
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
from pyio_trace.units import counted, seconds


def find(observed: Observed, limits: Mapping[str, float]) -> Iterator[Finding]:
    """Loaders that are faster with fewer workers."""
    for loader in loaders(observed):
        made = loader.model
        if made is None or not made.workers or made.fastest >= made.workers:
            continue
        own = made.predicted(made.workers)
        saved = own - made.predicted(made.fastest, made.several)
        if saved >= max(limits["ms"] * 1e6, limits["share"] * own):
            yield _finding(observed, loader, made, saved)


def _finding(observed: Observed, loader: Loader, made: Model, saved: int) -> Finding:
    fetch, batches = loader.sum("fetch_ns"), loader.sum("batches")
    how = "the epochs as they were, less the epochs laid out with fewer workers"
    gain = observed.gain({loader.trainer: max(saved, 0)}, how)
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
    words = "cost more than they save" if made.workers > 1 else "costs more than it saves"
    title = f"{counted(made.workers, 'worker')} {words}"
    confidence = Confidence(0.75, "waits and fetches are calls of their own; a fetch may take longer in the trainer")
    return library_use.finding(
        observed, loader.waits, title, gain, [evidence, loader_advice.evidence(made, made.fastest)],
        loader_advice.workers_remedy(made, made.fastest), confidence,
        sites=[*loader.starts.sites(), *loader.waits.sites()][:4],
    )  # fmt: skip


RULE = Rule(
    "PyTorch",
    find,
    {
        "share": Limit(0.1, "of the epochs that fewer workers would save"),
        "ms": Limit(100, "that they would save, at least"),
    },
    NEEDS,
    trial=Trial("pyio_trace.insights.trials.readers:fewer", rows="loader"),
    each_call=True,
)
