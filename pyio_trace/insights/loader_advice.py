"""The advice about the workers of a DataLoader: all rules take it from the model, so that no two contradict."""

from __future__ import annotations

from pyio_trace.insights.finding import Evidence, Remedy
from pyio_trace.insights.loader_model import Model
from pyio_trace.insights.loader_use import Loader
from pyio_trace.insights.rule import Limit
from pyio_trace.units import counted, seconds

#: Above it, loader-too-many-workers speaks, and the rules that would advise more workers are silent.
FEWER = Limit(0.1, "of the epochs that fewer workers would save; above it only fewer workers are advised")
#: Batches that a worker should fetch ahead if some fetches take far longer than others.
AHEAD = 8


def better_with_fewer(loader: Loader, share: float) -> bool:
    """Whether fewer workers would save at least this share of the epochs.  More workers, or persistent ones, are no
    advice then."""
    made = loader.model
    if made is None or made.best >= made.workers:
        return False
    return made.saved >= share * max(made.predicted(made.workers), 1)


def evidence(made: Model, count: int) -> Evidence:
    """How long a batch takes, and how long the epochs would take with this many workers."""
    batches = max(len(made.batches), 1)
    fetch, compute = made.fetch_ns // batches, made.compute_ns // batches
    own, best = made.predicted(made.workers), made.predicted(count, made.several)
    text = f"A fetch takes {seconds(fetch)}"
    text += f", {seconds(made.cpu_ns // batches)} of it on a processor: it waits" if made.waits else ""
    text += f"; the trainer computes {seconds(compute)} for each batch. "
    if count == made.workers:
        text += f"No other number of workers makes the epochs shorter on {counted(made.cores or 1, 'core')}."
    else:
        text += f"With {counted(count, 'worker')} the epochs would take {seconds(best)}, with {made.workers} as it is "
        text += f"{seconds(own)}."
    values: dict[str, int | float | str] = {
        "fetch_ns": fetch, "fetch_cpu_ns": made.cpu_ns // batches, "compute_ns": compute,
        "workers": made.workers, "advised": count,
    }  # fmt: skip
    values |= {f"predicted_{one}_ns": made.predicted(one, made.several) for one in made.counts}
    return Evidence(text, values)


def workers_remedy(made: Model, count: int) -> Remedy:
    """Words for another number of workers."""
    kept = ", persistent_workers=True" if count and made.several else ""
    before = f"DataLoader(data, num_workers={made.workers})" if made.workers else "DataLoader(data)"
    after = f"DataLoader(data, num_workers={count}{kept})"
    if not count:
        return Remedy("Fetch in the trainer: num_workers=0.", before, after, "torch")
    if count < made.workers:
        return Remedy("Use fewer workers: they compete for the cores, and each has to start.", before, after, "torch")
    text = "Use more workers" if made.workers else "Fetch in workers while the trainer computes"
    if made.waits:
        text += ", also more than there are cores: fetches wait, and use no processor. Or ask for all items of a batch "
        text += "at once, with threads in the dataset's __getitems__"
    return Remedy(text + ".", before, after, "torch")


def ahead_remedy(made: Model) -> Remedy | None:
    """Words for workers that fetch further ahead; None if that saves little."""
    own = made.predicted(made.workers)
    if made.prefetched >= AHEAD or own - made.predicted(made.workers, prefetched=AHEAD) < FEWER.default * own:
        return None
    before = f"DataLoader(data, num_workers={made.workers})"
    return Remedy(
        "Let workers fetch further ahead, so that a fetch which takes long finds others done.",
        before, f"{before[:-1]},\n           prefetch_factor={AHEAD})", "torch",
    )  # fmt: skip
