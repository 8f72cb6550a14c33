"""Batches of PyTorch's DataLoaders: each with its wait, its fetch, and when it was ready.

Result: Batches, whose rows are Batch.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from pyio_trace.analysis.calls.code_texts import texts
from pyio_trace.analysis.calls.details import number, parsed, text
from pyio_trace.analysis.scan.columns import MEANING, Columns
from pyio_trace.analysis.sums.grouped_sums import GroupedSums
from pyio_trace.analysis.view_sums.key_sums import TOP, process_names
from pyio_trace.analysis.view_sums.loader_calls import FETCH, WAIT, Call, hosts
from pyio_trace.analysis.view_sums.loader_epochs import Fetching
from pyio_trace.light_dataclass import dataclass

if TYPE_CHECKING:
    import pyarrow as pa

    from pyio_trace.analysis.scan.columns import Ints
    from pyio_trace.join.sources.facade import Log

_VALUES = ("duration", "time", "op", "process", "detail", "cpu")
_TOTALS = ("wait_ns", "not_ready_ns", "hand_over_ns", "fetch_ns")
#: Waits and fetches that are remembered; of more, the longest.
_MANY = 1 << 20


@dataclass(frozen=True)
class Batch:
    """One batch of one epoch of a loader.

    wait_ns: the trainer's.  fetch_ns: in the worker, or in the trainer where there
    are none; fetch_cpu_ns: processor time of that, None: not measured.
    not_ready_ns: of the wait, until the fetch ended and while its worker was in a
    later one; hand_over_ns: the rest.  ready_ns: how long before the trainer asked
    the fetch had ended; negative: it ended after that.  These three are None where
    the wait or the fetch is not in the log.  begin_ns: of the wait, or else of the
    fetch, since the start of the run.  worker: process that fetched.  host, loader:
    two hosts can have loaders of one name.
    """

    SHOWN: ClassVar[tuple[str, ...]] = ("epoch", "batch", "wait_ns", "not_ready_ns", "hand_over_ns", "fetch_ns")

    worker: str
    host: str
    loader: str
    epoch: int
    batch: int
    begin_ns: int
    wait_ns: int | None
    fetch_ns: int | None
    fetch_cpu_ns: int | None
    not_ready_ns: int | None
    hand_over_ns: int | None
    ready_ns: int | None


@dataclass(frozen=True)
class Batches:
    """rows: by loader, host, epoch and batch.  wait_ns, not_ready_ns, hand_over_ns, fetch_ns: of all.  more: further
    batches; dropped: waits and fetches that did not fit into memory (0: all are there)."""

    count: int
    wait_ns: int
    not_ready_ns: int
    hand_over_ns: int
    fetch_ns: int
    rows: list[Batch]
    more: int
    dropped: int


class BatchesOfLoaders:
    """The reducer."""

    columns: ClassVar[tuple[str, ...]] = (*MEANING, "id", "time", "duration", "op", "process", "detail", "cpu_time")

    def __init__(self, top: int = TOP) -> None:
        """top: rows of the result."""
        self.top = top

    def partial(self, batch: pa.RecordBatch) -> GroupedSums:
        part = GroupedSums(("id",), dict.fromkeys(_VALUES, "max"), _MANY)
        columns = Columns(batch)
        at = np.flatnonzero(columns.of_words("op", (WAIT, FETCH)))
        if len(at):
            values = {
                "duration": columns.duration, "time": columns.time, "op": columns.codes("op"),
                "process": columns.numbers("process", -1), "detail": columns.codes("detail"),
                "cpu": columns.numbers("cpu_time", -1),
            }  # fmt: skip
            part.add({"id": columns.numbers("id")[at], **{name: one[at] for name, one in values.items()}})
        return part

    def combine(self, part: GroupedSums, later: GroupedSums) -> GroupedSums:
        part.update(later)
        return part

    def finish(self, part: GroupedSums | None, log: Log) -> Batches:
        if part is None:
            return Batches(0, 0, 0, 0, 0, [], 0, 0)
        calls, cpu_times = _calls(part.columns(), log)
        fetches: dict[tuple[str, str, int], list[Call]] = {place[:3]: [] for place in calls}
        for place, one in calls.items():
            if FETCH in one:
                fetches[place[:3]].append(one[FETCH])
        fetching = {epoch: Fetching(own) for epoch, own in fetches.items()}
        start = int(log.info()["start"])
        called = process_names(log)
        rows = [
            _batch(place, calls[place], fetching[place[:3]], cpu_times.get(place), called, start)
            for place in sorted(calls)
        ]
        totals = {name: sum(getattr(row, name) or 0 for row in rows) for name in _TOTALS}
        shown = rows[: self.top]
        return Batches(len(rows), rows=shown, more=len(rows) - len(shown), dropped=part.dropped, **totals)


_Place = tuple[str, str, int, int]  # loader, host, epoch, batch


def _calls(found: dict[str, Ints], log: Log) -> tuple[dict[_Place, dict[str, Call]], dict[_Place, int]]:
    """(place -> operation -> the wait or the fetch of this batch, place -> processor time of the fetch)."""
    details = parsed(log, found["detail"])
    ops = texts(log, "op", found["op"])
    host_of = hosts(log.processes().to_pylist())
    calls: dict[_Place, dict[str, Call]] = defaultdict(dict)
    cpu_times: dict[_Place, int] = {}
    columns = (found[name].tolist() for name in ("process", "time", "duration", "detail", "cpu"))
    for op, process, time, duration, detail, cpu in zip(ops, *columns, strict=True):
        about = details[detail]
        loader, epoch, batch = text(about, "loader"), number(about, "epoch"), number(about, "batch")
        if op is None or loader is None or epoch is None or batch is None or "raised" in about:
            continue
        place = loader, host_of(process), epoch, batch
        calls[place][op] = Call(op, process, time, duration, about)
        if op == FETCH and cpu >= 0:
            cpu_times[place] = cpu
    return calls, cpu_times


def _batch(
    place: _Place, calls: dict[str, Call], fetching: Fetching, cpu_ns: int | None,
    called: Callable[[int], str | None], start: int,
) -> Batch:  # fmt: skip
    """cpu_ns: of the fetch; called: see process_names(); start: of the run, epoch ns."""
    wait, fetch = calls.get(WAIT), calls.get(FETCH)
    not_ready = hand_over = ready = None
    if wait is not None and fetch is not None:
        not_ready = sum(fetching.not_ready(wait, fetch))
        hand_over = wait.duration - not_ready
        ready = wait.time - fetch.time - fetch.duration
    first = wait or fetch
    assert first is not None
    return Batch(
        worker=(called(fetch.process) if fetch else None) or "", host=place[1], loader=place[0], epoch=place[2],
        batch=place[3], begin_ns=first.time - start, wait_ns=wait.duration if wait else None,
        fetch_ns=fetch.duration if fetch else None, fetch_cpu_ns=cpu_ns, not_ready_ns=not_ready,
        hand_over_ns=hand_over, ready_ns=ready,
    )  # fmt: skip


REDUCER = BatchesOfLoaders
