"""The advice about the workers of a DataLoader: all rules take it from the model, so that no two contradict."""

from __future__ import annotations

from pyio_trace.insights.finding import Evidence, Remedy
from pyio_trace.insights.loader_model import Model
from pyio_trace.insights.loader_use import Loader
from pyio_trace.insights.rule import Limit
from pyio_trace.insights.source_files import content
from pyio_trace.units import counted, seconds

#: Above it, loader-too-many-workers speaks, and the rules that would advise more workers are silent.
FEWER = Limit(0.1, "of the epochs that fewer workers would save; above it only fewer workers are advised")
#: Batches that a worker should fetch ahead if some fetches take far longer than others.
AHEAD = 8
#: How an iterable dataset gives each worker other samples.
PART_OF_WORKER = (
    "def __iter__(self):\n    info = torch.utils.data.get_worker_info()\n"
    "    first, step = (info.id, info.num_workers) if info else (0, 1)\n"
    "    for n, sample in enumerate(samples(self.path)):\n        if n % step == first:\n            yield sample"
)


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


def workers_remedy(made: Model, count: int, stream: bool = False) -> Remedy:
    """Words for another number of workers.  stream: of an iterable dataset that does not ask which worker it is in."""
    kept = ", persistent_workers=True" if count and made.several else ""
    before = f"DataLoader(data, num_workers={made.workers})" if made.workers else "DataLoader(data)"
    after = f"DataLoader(data, num_workers={count}{kept})"
    if not count:
        return Remedy("Fetch in the trainer: num_workers=0.", before, after, "torch")
    if count < made.workers:
        return Remedy("Use fewer workers: they compete for the cores, and each has to start.", before, after, "torch")
    text = "Use more workers" if made.workers else "Fetch in workers while the trainer computes"
    if made.waits:
        text += ", also more than there are cores: fetches wait, and use no processor"
        if not stream:
            text += ". Or ask for all items of a batch at once, with threads in the dataset's __getitems__"
    if stream and count > 1:
        text += ". An IterableDataset has to take its worker's part, before what takes long: else each has all samples"
        after += f"\n\n{PART_OF_WORKER}"
    return Remedy(text + ".", before, after, "torch")


def is_undivided(loader: Loader) -> bool:
    """Whether the dataset is an iterable one, whose fetch at the end finds nothing, and does not ask which worker it
    is in."""
    details = loader.fetches.details
    asks = any(one.get("asked") is True for one in details)
    stream = any(one.get("raised") == "StopIteration" for one in details)
    files = {site.file for site in (*(one.site for one in loader.work), *loader.waits.sites()) if site is not None}
    return stream and not asks and not any(b"get_worker_info" in content(file) for file in sorted(files))


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
