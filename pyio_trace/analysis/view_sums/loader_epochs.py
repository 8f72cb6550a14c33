"""Epochs of PyTorch's DataLoaders: the trainer's waits joined with the workers' fetches, batch by batch.

A wait and the fetch that it waits for have the same loader, epoch and batch in
their details.  A batch is not ready until its fetch has ended, nor while its
worker is in another fetch: a worker sends batches from a thread of its own, and
a fetch in Python keeps that thread from running.  The rest of the wait is the
hand-over.
"""

from __future__ import annotations

import bisect
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import field

from pyio_trace.analysis.results.overview_figures import LoaderEpoch
from pyio_trace.analysis.view_sums.loader_calls import FETCH, START, Call
from pyio_trace.analysis.view_sums.loader_steps import steps_of
from pyio_trace.light_dataclass import dataclass


@dataclass
class _Epoch:
    waits: list[Call] = field(default_factory=list)
    fetches: dict[object, Call] = field(default_factory=dict)  # by batch
    fetchers: set[int] = field(default_factory=set)
    fetch_ns: int = 0
    start_ns: int = 0
    stop_ns: int = 0
    line: str | None = None
    workers: int | None = None


def epochs(
    calls: Iterable[Call], host_of: Callable[[int], str] = lambda _: ""
) -> tuple[list[LoaderEpoch], dict[int, int]]:
    """(the epochs, in the order of their calls; process -> ns that it waited for batches that were ready).

    host_of: see loader_calls.hosts().
    """
    found: dict[tuple[str, str, int], _Epoch] = defaultdict(_Epoch)
    for call in calls:
        loader, epoch = call.detail.get("loader"), call.detail.get("epoch")
        if not isinstance(loader, str) or not isinstance(epoch, int):
            continue
        one = found[host_of(call.process), loader, epoch]
        if call.op == START:
            one.start_ns += call.duration
            workers = call.detail.get("num_workers")
            one.workers = workers if isinstance(workers, int) else None
        elif call.op == FETCH:
            one.fetchers.add(call.process)
            one.fetch_ns += call.duration
            if (batch := _batch(call)) is not None:
                one.fetches[batch] = call
        elif "raised" in call.detail:
            one.stop_ns += call.duration
            one.line = call.line
        else:
            one.waits.append(call)
            one.line = one.line or call.line
    ready: dict[int, int] = defaultdict(int)
    return [_joined(*key, one, ready) for key, one in found.items()], dict(ready)


class Fetching:
    """When the workers of an epoch were in fetches."""

    def __init__(self, fetches: Iterable[Call]) -> None:
        """fetches: all of the epoch."""
        #: By process, disjoint and ascending: (begin, end, ns in all before it).
        self._spans: dict[int, list[tuple[int, int, int]]] = defaultdict(list)
        for fetch in sorted(fetches, key=lambda one: one.time):
            spans, end = self._spans[fetch.process], fetch.time + fetch.duration
            if spans and fetch.time <= spans[-1][1]:
                begin, last, before = spans[-1]
                spans[-1] = begin, max(last, end), before
            else:
                begin, last, before = spans[-1] if spans else (0, 0, 0)
                spans.append((fetch.time, end, before + last - begin))

    def not_ready(self, wait: Call, fetch: Call) -> tuple[int, int]:
        """ns of a wait in which its batch was not ready: (until its fetch ended, in later fetches of the worker)."""
        if fetch.process == wait.process:  # the trainer fetches by itself, within the wait
            return wait.duration, 0
        missing = min(max(fetch.time + fetch.duration - wait.time, 0), wait.duration)
        begin, end = (self._until(fetch.process, time) for time in (wait.time + missing, wait.time + wait.duration))
        return missing, end - begin

    def _until(self, process: int, time: int) -> int:
        """ns in fetches before a moment."""
        spans = self._spans[process]
        at = bisect.bisect_right(spans, time, key=lambda span: span[0]) - 1
        if at < 0:
            return 0
        begin, end, before = spans[at]
        return before + min(time, end) - begin


def _batch(call: Call) -> object:
    batch = call.detail.get("batch")
    return batch if isinstance(batch, int) else None


def _joined(host: str, loader: str, epoch: int, one: _Epoch, ready_ns: dict[int, int]) -> LoaderEpoch:
    not_ready = ready = starting = 0
    unknown = False
    fetching = Fetching(one.fetches.values())
    for wait in one.waits:
        fetch = one.fetches.get(_batch(wait))
        unknown |= fetch is None
        if fetch is None or fetch.process == wait.process:
            not_ready += wait.duration
            continue
        missing, behind = fetching.not_ready(wait, fetch)
        not_ready += missing + behind
        ready += missing + behind == 0
        if fetch.detail.get("ordinal") == 0:
            starting += min(max(fetch.time - wait.time, 0), missing)
        ready_ns[wait.process] += wait.duration - missing - behind
    waited = sum(wait.duration for wait in one.waits)
    trainers = {wait.process for wait in one.waits}
    workers = one.workers
    if workers is None and one.fetchers and one.fetchers <= trainers:
        workers = 0
    known_ready = None if workers is None and unknown else ready
    return LoaderEpoch(
        loader, epoch, workers, len(one.waits), known_ready, waited, not_ready, waited - not_ready, starting,
        one.fetch_ns, one.start_ns, one.stop_ns, one.line,
        trainers.pop() if len(trainers) == 1 else None, steps_of(one.waits, one.fetches), host,
    )  # fmt: skip
