"""Tries to write a checkpoint that training waits for into one file, in a thread, while training goes on.

The recorded opens, writes, syncs and closes are repeated in scratch.  The log says how long training went
on between two checkpoints, and how long the library took to make their bytes; a thread of its own can do
the second during the first.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from time import perf_counter_ns

import numpy as np

from pyio_trace.insights.trials.attempt import LARGEST, Attempt
from pyio_trace.insights.trials.recorded import Rows
from pyio_trace.insights.trials.replay import NotTried, Replay
from pyio_trace.insights.trials.scratch import Scratch
from pyio_trace.units import seconds

_SAVES = ("torch.save", "torch.distributed.checkpoint.save")
#: A longer time without a call on the files is training, ns.
_PAUSE = 1_000_000
_ALL = "all"


@dataclass
class _Checkpoint:
    """steps: (kind of the call, name in scratch, bytes); own: ns of the library's own work; after: ns of training until
    the next one, 0 if there is none."""

    steps: list[tuple[str, str, int]] = field(default_factory=list)
    own: int = 0
    after: int = 0


def beside_training(attempt: Attempt) -> Replay:
    """Files that are made, written, synced and closed while training waits; and one file with the same writes, synced
    once, by a thread, for which training waits only if it lasts longer than what is computed meanwhile."""
    rows = attempt.rows.where(layer="posix", op_class=("open", "write", "sync", "close")).heaviest()
    saves = attempt.rows.where(layer="app", op=_SAVES)
    own_thread = [saves.columns[name] == rows.columns[name][:1] for name in ("process", "tid")]
    saves = saves.at(np.flatnonzero(np.all(own_thread, axis=0)))
    sizes = [size for size, kind in zip(rows.sizes, rows.texts("op_class"), strict=True) if kind == "write"]
    if not any(sizes):
        raise NotTried("the log has no writes of it that could be issued again")
    scratch = attempt.scratch(rows.texts("path")[0])
    found = _checkpoints(rows, saves, scratch)
    scratch.check_room(_room(found))
    data = memoryview(bytes(min(max(sizes), LARGEST)))
    own = sum(one.own for one in found)
    files = _Files(scratch, data)

    def plain(count: int) -> int:
        return sum(one.own + files.one_by_one(one.steps) for one in _first(found, count))

    def remedy(count: int) -> int:
        time = 0
        for one in _first(found, count):
            time += files.copied(one.steps) + max(one.own + files.in_one(one.steps) - one.after, 0)
        return time

    new = _written_once(found)

    def fresh() -> None:
        """Removes what is new each time.  What the program writes over stays: that takes longer than a new file."""
        files.close()
        for name in new:
            with suppress(FileNotFoundError):
                scratch.unlink(name)

    note = f"training and the library's own work, {seconds(own)}, take as long as in the run"
    return Replay(plain, remedy, len(rows), rows.recorded(attempt.rows), before=fresh, note=note)


def _checkpoints(rows: Rows, saves: Rows, scratch: Scratch) -> list[_Checkpoint]:
    """A checkpoint ends where a file is opened that it has already, or where training goes on."""
    paths = rows.texts("path")
    names = {path: scratch.name() for path in dict.fromkeys(paths)}
    begins, ends = rows.columns["time"], rows.columns["time"] + rows.columns["duration"]
    saving = _Saves(rows, saves)
    found: list[_Checkpoint] = []
    opened: set[str] = set()
    columns = (rows.texts("op_class"), paths, rows.sizes, begins.tolist(), ends.tolist())
    last = 0
    for at, (kind, path, size, begin, end) in enumerate(zip(*columns, strict=True)):
        pause = max(begin - last - saving.between(last, begin), 0) if found else 0
        if not found or pause >= _PAUSE or (kind == "open" and path in opened):
            if found:
                found[-1].after = pause
            found.append(_Checkpoint())
            opened.clear()
        if kind == "open":
            opened.add(path)
        found[-1].own += saving.own[at]
        found[-1].steps.append((kind, names[path], min(size, LARGEST) if kind == "write" else 0))
        last = max(last, end)
    return found


def _written_once(found: list[_Checkpoint]) -> list[str]:
    """The names of files that are in one checkpoint only."""
    count = Counter(name for one in found for name in {name for _, name, _ in one.steps})
    return [name for name, times in count.items() if times == 1]


def _room(found: list[_Checkpoint]) -> int:
    """Bytes that all files have at most: those of their own, which stay for the next checkpoint, and the one of all."""
    largest: Counter[str] = Counter()
    for one in found:
        own: Counter[str] = Counter()
        for _, name, size in one.steps:
            own[name] += size
            own[_ALL] += size
        largest |= own  # the larger of both, by name
    return largest.total()


class _Saves:
    """The library's calls.  own: ns of those that begin after the system call before this one, without the system
    calls in them, by system call."""

    def __init__(self, rows: Rows, saves: Rows) -> None:
        times = dict(zip(saves.columns["id"].tolist(), saves.columns["duration"].tolist(), strict=True))
        requests = zip(rows.columns["request_id"].tolist(), rows.columns["duration"].tolist(), strict=True)
        for request, duration in requests:
            if request in times:
                times[request] -= duration
        self.own = [0] * len(rows)
        self._begins = saves.columns["time"]
        self._ends = self._begins + saves.columns["duration"]
        after = np.searchsorted(rows.columns["time"], self._begins)
        for at, time in zip(after.tolist(), times.values(), strict=True):
            self.own[min(at, len(rows) - 1)] += max(time, 0)

    def between(self, begin: int, end: int) -> int:
        """ns of the calls in this time, in which there is no system call."""
        first, last = np.searchsorted(self._ends, begin), np.searchsorted(self._begins, end)
        within = np.minimum(self._ends[first:last], end) - np.maximum(self._begins[first:last], begin)
        return int(within.clip(0).sum())


def _first(found: list[_Checkpoint], count: int) -> Iterator[_Checkpoint]:
    """Checkpoints with so many calls.  Of one that is cut off its part of the library's work is there, and no training
    after it that would hide what a whole one takes."""
    for one in found:
        if count <= 0:
            return
        if count < len(one.steps):
            yield _Checkpoint(one.steps[:count], *(time * count // len(one.steps) for time in (one.own, one.after)))
        else:
            yield one
        count -= len(one.steps)


class _Files:
    """Writes the calls of a checkpoint to files in scratch, which stay there for the next one."""

    def __init__(self, scratch: Scratch, data: memoryview) -> None:
        self._scratch, self._data = scratch, data
        self._open: dict[str, int] = {}

    def one_by_one(self, steps: list[tuple[str, str, int]]) -> int:
        """ns of all calls, as recorded."""
        begin = perf_counter_ns()
        for kind, name, size in steps:
            if kind == "close":
                if name in self._open:
                    os.close(self._open.pop(name))
                continue
            if name not in self._open:
                self._open[name] = self._opened(name)
            if kind == "write":
                os.write(self._open[name], self._data[:size])
            elif kind == "sync":
                os.fsync(self._open[name])
        self.close()
        return perf_counter_ns() - begin

    def in_one(self, steps: list[tuple[str, str, int]]) -> int:
        """ns of the same writes to one file, with one sync if there was any."""
        begin = perf_counter_ns()
        descriptor = self._opened(_ALL)
        with open(descriptor, "wb") as file:
            for kind, _, size in steps:
                if kind == "write":
                    file.write(self._data[:size])
            file.flush()
            if any(kind == "sync" for kind, _, _ in steps):
                os.fsync(descriptor)
        return perf_counter_ns() - begin

    def copied(self, steps: list[tuple[str, str, int]]) -> int:
        """ns of a copy of what is written, which training makes before it goes on."""
        begin = perf_counter_ns()
        for kind, _, size in steps:
            if kind == "write":
                bytearray(self._data[:size])
        return perf_counter_ns() - begin

    def close(self) -> None:
        """Closes what is open."""
        while self._open:
            os.close(self._open.popitem()[1])

    def _opened(self, name: str) -> int:
        try:
            return self._scratch.create(name)
        except FileExistsError:
            return self._scratch.open(name, os.O_TRUNC)
