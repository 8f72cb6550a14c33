"""PyTorch's DataLoaders in a run: epochs, what trainers compute between batches, and what fetches do."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from typing import TypeVar

import numpy as np

from pyio_trace.analysis.results.overview_figures import LoaderEpoch
from pyio_trace.analysis.view_sums.loader_calls import FETCH, START, WAIT, hosts
from pyio_trace.insights.finding import Site
from pyio_trace.insights.library_use import Group, calls_of
from pyio_trace.insights.loader_model import Call, Model, model, with_start
from pyio_trace.insights.observed import Observed, site_of
from pyio_trace.light_dataclass import dataclass
from pyio_trace.log.sorting import distinct

Key = TypeVar("Key")
#: (host, name) of a loader: two hosts can have loaders of one name.
_Key = tuple[str, str]


@dataclass(frozen=True)
class Work:
    """What one line did in fetches: its call with the most time.  time, leaf: ns.  cpu: ns on a processor, None: not
    known of most of them."""

    site: Site | None
    op: str
    count: int
    time: int
    leaf: int
    cpu: int | None = None


@dataclass(frozen=True)
class Loader:
    """One DataLoader, or those that a program makes one after the other, each for one epoch.

    names: in the log, one for each DataLoader; waits, fetches, starts: its calls; whole_ns: of its epochs, from
    __iter__ to the last wait; model: what other numbers of workers would come to, None: batches are not known.
    """

    names: list[str]
    epochs: list[LoaderEpoch]
    waits: Group
    fetches: Group
    starts: Group
    whole_ns: int
    work: list[Work] = field(default_factory=list)
    model: Model | None = None

    @property
    def label(self) -> str:
        """Its names, for evidence."""
        return " ".join(self.names)

    @property
    def workers(self) -> int:
        """Of its first epoch; 0: it has none, or it is not known how many."""
        return self.epochs[0].workers or 0

    @property
    def in_trainer(self) -> bool:
        """Whether it has none: the trainer fetches by itself."""
        return self.epochs[0].workers == 0

    def sum(self, name: str) -> int:
        """The sum of a figure over the epochs."""
        return sum(getattr(epoch, name) for epoch in self.epochs)

    @property
    def compute_ns(self) -> int:
        """ns between the trainer's waits."""
        return max(self.whole_ns - self.sum("wait_ns") - self.sum("start_ns") - self.sum("stop_ns"), 0)

    @property
    def exposed_ns(self) -> int:
        """Waits for fetches that had begun, and had not ended."""
        return max(self.sum("not_ready_ns") - self.sum("first_ns"), 0)

    @property
    def trainer(self) -> int:
        """The process that waits."""
        return next(iter(self.waits.processes()), -1)


def loaders(observed: Observed) -> list[Loader]:
    """All loaders whose epochs are in the log, in the order of their first epochs."""
    host_of = hosts(observed.processes)
    epochs: dict[_Key, list[LoaderEpoch]] = defaultdict(list)
    for epoch in observed.overview.loaders:
        if epoch.batches:
            epochs[epoch.host, epoch.loader].append(epoch)
    if not epochs:
        return []
    waits, fetches, starts = (_by_loader(calls_of(observed, op), host_of) for op in (WAIT, FETCH, START))
    trainers = {key: next(iter(group.processes()), -1) for key, group in waits.items() if key in fetches}
    starts = {**waits, **starts}  # of a loader whose beginning was not seen
    found = []
    for keys in _made_again({key: own for key, own in epochs.items() if key in trainers}, trainers):
        every = [_joined([waits[key], starts[key]]) for key in keys]
        whole = sum(part.last - part.first for one in every for part in _by_epoch(one))
        waited, fetched, begun = (_joined([calls[key] for key in keys]) for calls in (waits, fetches, starts))
        own = [epoch for key in keys for epoch in epochs[key]]
        names = [name for _, name in keys]
        made = _model(observed, trainers[keys[0]], _joined([waited, fetched, begun]))
        found.append(Loader(names, own, waited, fetched, begun, whole, _work(fetched), made))
    return found


def _model(observed: Observed, trainer: int, calls: Group) -> Model | None:
    """The epochs of a loader, given all its calls."""
    columns = (calls.column(name).tolist() for name in ("op", "id", "time", "duration", "io_ns", "cpu"))
    ops = calls.calls.ops
    rows = [
        Call(ops[op], detail, *numbers)
        for detail, (op, *numbers) in zip(calls.details, zip(*columns, strict=True), strict=True)
    ]
    used = [observed.processes[trainer][name] for name in ("cpu_user", "cpu_system")] if trainer >= 0 else [None]
    cpu = None if None in used else sum(int(one) for one in used if one is not None)
    made = model(rows, observed.overview.cores, cpu, _stretch(observed))
    return None if made is None else with_start(made)


def _stretch(observed: Observed) -> float | None:
    """How many times as long as with a processor at once computing took, by the samples; None: there are none."""
    lines = observed.overview.wall or []
    computing = sum(line.cpu_ns for line in lines)
    return (computing + sum(line.delay_ns for line in lines)) / computing if computing else None


def _made_again(epochs: Mapping[_Key, list[LoaderEpoch]], trainers: Mapping[_Key, int]) -> list[list[_Key]]:
    """The loaders in groups: programs that make a loader for every epoch use each once, at the same line, for the same
    number of batches."""
    found: dict[object, list[_Key]] = defaultdict(list)
    for key, own in epochs.items():
        first = own[0]
        alike = trainers[key], first.line, first.workers, first.batches
        found[alike if len(own) == 1 and first.line else key].append(key)
    return list(found.values())


def _joined(groups: Sequence[Group]) -> Group:
    """The calls of several groups, each once."""
    return Group(groups[0].calls, distinct(np.concatenate([group.at for group in groups])))


def _by_loader(group: Group, host_of: Callable[[int], str]) -> dict[_Key, Group]:
    names = (str(detail.get("loader")) for detail in group.details)
    return _parts(group, list(zip(map(host_of, group.column("process").tolist()), names, strict=True)))


def _by_epoch(group: Group) -> Sequence[Group]:
    return list(_parts(group, [str(detail.get("epoch")) for detail in group.details]).values())


def _parts(group: Group, keys: Sequence[Key]) -> dict[Key, Group]:
    at: dict[Key, list[int]] = defaultdict(list)
    for number, key in enumerate(keys):
        at[key].append(number)
    return {key: Group(group.calls, group.at[numbers]) for key, numbers in at.items()}


def _work(fetches: Group) -> list[Work]:
    """What the fetches' lines did, the one with the most time first."""
    calls, ids = fetches.calls, fetches.column("id")
    sums: dict[tuple[int, int], list[int]] = defaultdict(lambda: [0, 0, 0, 0, 0])
    inside = np.flatnonzero(np.isin(calls["task"], ids))
    _add(sums, Group(calls, inside))
    lines = {name: values[np.isin(calls.lines["task"], ids)] for name, values in calls.lines.items()}
    libraries = {(site, op) for site, op in sums}
    for site, op, time, leaf, count in zip(*(lines[name].tolist() for name in _LINES), strict=True):
        if (site, op) not in libraries:
            one = sums[site, op]
            one[0], one[1], one[2] = one[0] + time, one[1] + leaf, one[2] + count
    leaves: dict[int, int] = defaultdict(int)
    for site, leaf in zip(lines["site"].tolist(), lines["io_ns"].tolist(), strict=True):
        leaves[site] += leaf
    best: dict[int, Work] = {}
    for (site, op), (time, _, count, cpu, known) in sums.items():
        if op >= 0 and (site not in best or time > best[site].time):
            place = site_of(calls.sites[site]) if site >= 0 else None
            computing = min(cpu * time // known, time) if 2 * known >= time > 0 else None
            best[site] = Work(place, calls.ops[op], count, time, min(leaves[site], time), computing)
    return sorted(best.values(), key=lambda one: -one.time)


_LINES = ("site", "op", "time", "io_ns", "count")


def _add(sums: dict[tuple[int, int], list[int]], group: Group) -> None:
    for key, part in group.by("site", "op"):
        site, op = key
        one = sums[site, op]
        measured = part.where(part.column("cpu") >= 0)
        added = part.total("duration"), part.leaf_ns, len(part), measured.total("cpu"), measured.total("duration")
        one[:] = [before + more for before, more in zip(one, added, strict=True)]
