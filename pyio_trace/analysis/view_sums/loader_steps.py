"""What a trainer does between the batches of a DataLoader, in the terms of MLPerf Storage and DLIO.

The first step of an epoch has the start of the workers before it, and the end of
the last one is not known where a loop is left early.  So neither counts.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Container, Iterable, Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from pyio_trace.analysis.results.overview_figures import LoaderEpoch, LoaderLoop, Steps
from pyio_trace.light_dataclass import dataclass

if TYPE_CHECKING:
    from pyio_trace.analysis.view_sums.loader_calls import Call

#: Batches without which no step is left: the first, the last and one between them.
LEAST = 3
#: Samples of a batch beyond which a log is damaged.
_MANY = 1 << 32


def steps_of(waits: Iterable[Call], fetches: Mapping[Any, Call]) -> Steps | None:
    """The steps of an epoch; see LoaderEpoch.steps.

    waits: for its batches, without the one that ends it; fetches: by batch.
    """
    ordered = sorted(waits, key=lambda one: one.time)
    if len(ordered) < LEAST or not _are_all(ordered, fetches) or not _in_turn(ordered):
        return None
    counted = ordered[1:-1]
    whole, waited = ordered[-1].time - counted[0].time, sum(one.duration for one in counted)
    if whole <= 0:
        return None
    samples = _samples(counted, fetches)
    throughput = None if samples is None else samples * 1e9 / whole
    share = 100 * (whole - waited) / whole
    return Steps(len(counted), whole - waited, waited, share, samples, throughput)


def _are_all(waits: Sequence[Call], fetches: Mapping[Any, Call]) -> bool:
    """Whether each wait has its batch, and no batch between them lacks its wait.  Once a worker has met the end of an
    iterable dataset, the batches that it would have fetched have no wait."""
    batches = (one.detail.get("batch") for one in waits)
    numbers = {batch for batch in batches if type(batch) is int}
    if len(numbers) < len(waits):
        return False
    ended = any(one.detail.get("raised") == "StopIteration" for one in fetches.values())
    return ended or max(numbers) - min(numbers) == len(numbers) - 1


def _in_turn(waits: Sequence[Call]) -> bool:
    """Whether one process asks for each batch after it has got the one before."""
    return len({one.process for one in waits}) == 1 and all(
        one.duration >= 0 and one.time + one.duration <= later.time for one, later in pairwise(waits)
    )


def _samples(waits: Iterable[Call], fetches: Mapping[Any, Call]) -> int | None:
    """The samples of these batches; None if those of one are not known."""
    total = 0
    for one in waits:
        fetch = fetches.get(one.detail["batch"])
        samples = fetch.detail.get("samples") if fetch is not None else None
        if type(samples) is not int or not 0 < samples < _MANY:
            return None
        total += samples
    return total


def loops_of(epochs: Iterable[LoaderEpoch]) -> list[LoaderLoop]:
    """The loops over batches, those that took longest first.  A program may make a loader for each epoch, so a loop is
    known by its line."""
    found: dict[tuple[int | None, str | None], list[LoaderEpoch]] = defaultdict(list)
    for one in epochs:
        if one.batches:
            found[one.process, one.line].append(one)
    loops = [_loop(*place, own) for place, own in found.items()]
    return sorted(loops, key=lambda one: (-one.step_ns - one.wait_ns, one.process or 0))


def _loop(process: int | None, line: str | None, epochs: Sequence[LoaderEpoch]) -> LoaderLoop:
    from statistics import fmean

    steps = [one.steps for one in epochs if one.steps is not None]
    rates = [one.throughput_samples_per_second for one in steps]
    known = [one for one in rates if one is not None]
    return LoaderLoop(
        line, process, len(epochs), len(steps), sum(one.count for one in steps), sum(one.step_ns for one in steps),
        sum(one.wait_ns for one in steps), fmean(one.au_percentage for one in steps) if steps else None,
        fmean(known) if known and len(known) == len(rates) else None,
    )  # fmt: skip


@dataclass(frozen=True)
class Training:
    """The loop over batches that took longest, over all ranks that have it.

    line: as in LoaderLoop; ranks: how many, 1 if there are none; au_percentage: the mean of theirs, an upper bound;
    throughput_samples_per_second: the sum of theirs, None: not known.
    """

    line: str | None
    ranks: int
    au_percentage: float
    throughput_samples_per_second: float | None


def training_of(loops: Sequence[LoaderLoop]) -> Training:
    """The figures of one loop in all of its ranks, as DLIO adds them up; loops: measured ones."""
    from statistics import fmean

    rates = [one.throughput_mean_samples_per_second for one in loops]
    known = [one for one in rates if one is not None]
    mean = fmean(one.au_mean_percentage or 0 for one in loops)
    return Training(loops[0].line, len(loops), mean, sum(known) if len(known) == len(rates) else None)


def measured_loops(loops: Iterable[LoaderLoop], ranks: Container[int | None]) -> list[list[LoaderLoop]]:
    """The loops that have figures, those of ranks by line, and what took longest first.  ranks: processes with one."""
    groups: dict[object, list[LoaderLoop]] = defaultdict(list)
    for one in loops:
        if one.measured:
            groups[one.line if one.process in ranks else (one.line, one.process)].append(one)
    return sorted(groups.values(), key=whole_ns, reverse=True)


def whole_ns(loops: Iterable[LoaderLoop]) -> int:
    """ns of the steps and waits that count, in all of them."""
    return sum(one.step_ns + one.wait_ns for one in loops)
