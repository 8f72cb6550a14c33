"""Every worker of a DataLoader reads all data: an IterableDataset that does not ask which worker it is in.

Each worker has a copy of the dataset and goes through all of it, so with four
workers each sample comes four times: an epoch is four epochs, and sums and scores
count each sample four times.  With get_worker_info() a worker takes its own part.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace

from pyio_trace.analysis.view_sums.call_table import CallTable
from pyio_trace.enums import Layer, OpClass
from pyio_trace.insights import library_use, loader_advice
from pyio_trace.insights.finding import LOADER, Confidence, Evidence, Finding, Recoverable, Remedy
from pyio_trace.insights.library_use import NEEDS
from pyio_trace.insights.loader_use import Loader, loaders
from pyio_trace.insights.observed import Observed
from pyio_trace.insights.rule import Rule
from pyio_trace.units import size


def find(observed: Observed, limits: Mapping[str, float]) -> Iterator[Finding]:
    """Loaders of iterable datasets whose workers all read the same, to the end, without asking which they are."""
    for loader in loaders(observed):
        if loader.workers < 2 or loader.model is None or not _never_asked(loader):
            continue
        calls = observed.calls.where(process=loader.fetches.processes(), layer=Layer.POSIX, kind=OpClass.READ, own=True)
        by_worker = {
            part["process"]: {one["path"]: one.moved for one in part.rows.by("path") if one["path"] >= 0}
            for part in calls.by("process")
        }
        reads = list(by_worker.values())
        if len(reads) >= 2 and reads[0] and all(own == reads[0] for own in reads):
            yield _finding(observed, loader, calls, sum(reads[0].values()))


def _never_asked(loader: Loader) -> bool:
    """Whether all workers came to the end of an iterable dataset, after as many batches, and none of them asked for
    get_worker_info()."""
    batches, ended, known = Counter[int](), set(), False
    for worker, detail in zip(loader.fetches.column("process").tolist(), loader.fetches.details, strict=True):
        if detail.get("asked") is True:
            return False
        known |= detail.get("asked") is False
        if detail.get("raised") == "StopIteration":
            ended.add(worker)
        else:
            batches[worker] += 1
    return known and ended >= set(batches) and len(batches) == len(ended) and len(set(batches.values())) == 1


def _finding(observed: Observed, loader: Loader, calls: CallTable, read: int) -> Finding:
    """calls: the workers' reads; read: bytes that each of them read."""
    assert loader.model is not None
    made, count = loader.model, len(loader.fetches.processes())
    epochs = [replace(one, batches=one.batches[: -(-len(one.batches) // loader.workers)]) for one in made.epochs]
    part = replace(made, epochs=epochs, trainer_cpu=(made.trainer_cpu or 0) // loader.workers)
    saved = max(made.predicted(made.workers) - part.predicted(made.workers), 0)
    gain = observed.gain({loader.trainer: saved}, "the epochs with a part of the batches for each worker")
    evidence = Evidence(
        f"Each of {count} workers read {size(read)} of the same files, from the first sample to the last, and none "
        "asked which worker it is. Results count each sample so many times.",
        {LOADER: loader.label, "workers": count, "read": read, "batches": loader.sum("batches")},
    )
    remedy = Remedy(
        "Let each worker take its own part of the samples, or of the shards.",
        "def __iter__(self):\n    yield from samples(self.path)",
        loader_advice.PART_OF_WORKER,
        "torch",
    )
    confidence = Confidence(0.9, "all workers read the same bytes, and came to the end after as many batches")
    how = "every sample comes once for each worker; the time is that of the epochs beyond one pass"
    return replace(
        library_use.finding(
            observed, loader.waits, f"Every worker reads all samples: each comes {count} times", gain, [evidence],
            remedy, confidence, sites=[*observed.sites(calls), *loader.waits.sites()][:4], files=observed.files(calls),
            processes=loader.fetches.processes(), query=loader.fetches.query("process", "detail"), severity="critical",
        ),
        recoverable=Recoverable(how, "none", observed.wall_ns),
    )  # fmt: skip


RULE = Rule(
    "PyTorch",
    find,
    {},
    NEEDS,
    untried="the remedy makes results right; what it saves needs the program",
    each_call=True,
)
