"""What depends on the order of calls: sequential and consecutive transfers, strides, switches, time without overlap.

As Darshan does, each process has a state for each of its files: where its
latest read and its latest write ended, and which of the two came last.  Opening
or closing the file forgets where they ended.  Calls count in the order in which
they ended.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from dataclasses import fields
from typing import ClassVar, Generic, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from pyio_trace.analysis.calls.darshan_calls import FIRST_STREAM_CALL, META_TIME, TIMER, Call
from pyio_trace.light_dataclass import dataclass
from pyio_trace.log import runs

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]


@dataclass
class Calls:
    """Calls of files, one element each: begin, end in ns; offset -1: unknown or none; done: already counted, and kept
    because later calls are compared with it."""

    process: Ints
    file: Ints
    kind: NDArray[np.int8]
    begin: Ints
    end: Ints
    offset: Ints
    size: Ints
    done: Bools

    def __len__(self) -> int:
        return len(self.kind)

    def take(self, at: Ints) -> Self:
        """The calls at these places."""
        return type(self)(*(getattr(self, field.name).take(at) for field in fields(self)))


C = TypeVar("C", bound=Calls)


def joined(parts: list[C]) -> C:
    """All calls of one or more parts."""
    if len(parts) == 1:
        return parts[0]
    names = [field.name for field in fields(parts[0])]
    return type(parts[0])(*(np.concatenate([getattr(part, name) for part in parts]) for name in names))


class PendingCalls(Generic[C]):
    """Calls that wait until all calls before them are known, in bounded memory.

    If there are many, those that ended before the newest ones began are counted,
    and only the last of them are kept, because later calls are compared with them.
    Threads claim chunks of a log in the order of time and fill them one after
    another, so whatever follows began after the earliest of the newest calls,
    where these are as many as a chunk has.
    """

    #: Calls of the largest chunk.
    CHUNK = 1 << 17

    def __init__(self, most: int = 1 << 22) -> None:
        """most: calls that wait."""
        self._parts: list[C] = []
        self._most, self._waiting, self._again = most, 0, 0
        self._newest: deque[tuple[int, int]] = deque()  # of each batch: calls, earliest begin

    def add(self, calls: C) -> None:
        """Adds calls, in any order."""
        if len(calls):
            self._parts.append(calls)
            self._waiting += len(calls)

    def update(self, later: PendingCalls[C], whole: bool = True) -> CallOrder[C] | None:
        """Adds the calls of another one.  Returns the order of calls that can be counted now, None: too few; the caller
        counts them and passes it to keep().

        whole: no call from the beginning of the log on is missing here.  Without it, nothing can be counted yet.
        """
        self._newest += [(len(calls), int(calls.begin.min())) for calls in later._parts]
        self._parts += later._parts
        self._waiting += later._waiting
        while self._newest and sum(count for count, _ in self._newest) - self._newest[0][0] >= self.CHUNK:
            self._newest.popleft()
        known = sum(count for count, _ in self._newest) >= self.CHUNK
        if not whole or not known or self._waiting <= max(self._most, self._again):
            return None
        pending = joined(self._parts)
        over = pending.end < min(begin for _, begin in self._newest)
        rest = pending.take(np.flatnonzero(~over))
        self._parts, self._waiting = [rest], len(rest)
        self._again = 2 * len(rest)  # if few had ended, do not try again at each batch
        return CallOrder(pending.take(np.flatnonzero(over))) if over.any() else None

    def keep(self, order: CallOrder[C]) -> None:
        """Keeps the calls that later ones are compared with."""
        self._parts.insert(0, order.last_ones())

    def rest(self) -> CallOrder[C] | None:
        """The order of all that still wait; None: none do."""
        return CallOrder(joined(self._parts)) if self._parts else None


class OrderedSums(ABC, Generic[C]):
    """Sums of which some depend on the order of calls; summed: the names of those that update() adds."""

    summed: ClassVar[tuple[str, ...]]
    pending: PendingCalls[C]

    def update(self, later: Self, whole: bool = True) -> None:
        """Adds the sums of later batches; whole: none from the beginning of the log on is missing."""
        for name in self.summed:
            getattr(self, name).update(getattr(later, name))
        order = self.pending.update(later.pending, whole)
        if order is not None:
            self._add_order(order)
            self.pending.keep(order)

    def finish(self) -> None:
        """Adds what the order of the remaining calls says; nothing may be added later."""
        order = self.pending.rest()
        if order is not None:
            self._add_order(order)
        self.pending = PendingCalls()

    @abstractmethod
    def _add_order(self, order: CallOrder[C]) -> None:
        """Adds what the order of some calls says."""


class CallOrder(Generic[C]):
    """Calls in the order in which they ended, by process and file."""

    def __init__(self, calls: C) -> None:
        self.calls = calls.take(np.lexsort((calls.begin, calls.end, calls.file, calls.process)))
        self._key = np.cumsum(runs.begins(self.calls.process, self.calls.file)) - 1
        kind = self.calls.kind
        #: Differs between calls between which the file was opened or closed.
        self._life = np.cumsum((kind == Call.OPEN) | (kind == Call.CLOSE))

    def times(self) -> tuple[Ints, Ints]:
        """(places of the calls that add to a timer, ns that each adds): what no earlier call of its timer covers."""
        timer = TIMER.take(self.calls.kind)
        timer[(self.calls.kind >= FIRST_STREAM_CALL) & (timer >= 0)] += META_TIME + 1
        at = np.lexsort((timer, self._key))
        key, timer = self._key[at], timer[at]
        begin, end = self.calls.begin[at], self.calls.end[at]
        follows = (key[1:] == key[:-1]) & (timer[1:] == timer[:-1])
        since = begin.copy()
        since[1:] = np.where(follows, np.maximum(begin[1:], end[:-1]), begin[1:])
        counted = np.flatnonzero((timer >= 0) & ~self.calls.done[at])
        return at[counted], np.maximum(end - since, 0)[counted]

    def transfers(self, kind: int) -> tuple[Ints, Bools, Bools, Ints]:
        """(places of the reads or writes whose offset is known, sequential, consecutive, stride or 0 of each).

        Sequential: begins after the last byte of the one before; consecutive: just after it.  Where there is none
        before, Darshan's last byte is 0, so a first transfer that begins further on is sequential.
        """
        at = np.flatnonzero((self.calls.kind == kind) & (self.calls.offset >= 0))
        key, life, offset = self._key[at], self._life[at], self.calls.offset[at]
        last = np.zeros(len(at), np.int64)
        follows = (key[1:] == key[:-1]) & (life[1:] == life[:-1])
        last[1:] = np.where(follows, (offset + self.calls.size[at] - 1)[:-1], 0)
        sequential, consecutive = offset > last, offset == last + 1
        stride = np.where(sequential & (last != 0), offset - last - 1, 0)
        new = np.flatnonzero(~self.calls.done[at])
        return at[new], sequential[new], consecutive[new], stride[new]

    def gaps(self, kind: int) -> tuple[Ints, Ints, Bools]:
        """(places of the reads or writes whose offset is known, bytes from the end of the one before to each, whether
        there is one before since the file was opened or closed)."""
        at = np.flatnonzero((self.calls.kind == kind) & (self.calls.offset >= 0))
        key, life, offset = self._key[at], self._life[at], self.calls.offset[at]
        follows = ~runs.begins(key, life)
        gap = np.zeros(len(at), np.int64)
        gap[1:] = offset[1:] - (offset + self.calls.size[at])[:-1]
        new = np.flatnonzero(~self.calls.done[at])
        return at[new], gap[new] * follows[new], follows[new]

    def intervals(self, kind: int) -> tuple[Ints, Ints]:
        """(places of the calls of a kind that have one before them, ns between the begins of both)."""
        at = np.flatnonzero(self.calls.kind == kind)
        key, begin = self._key[at], self.calls.begin[at]
        follows = ~runs.begins(key) & ~self.calls.done[at]
        return at[follows], np.diff(begin, prepend=begin[:1])[follows]

    def directly_after(self, kind: int, before: int) -> Ints:
        """Places of the calls of a kind whose predecessor, of any kind, is of the kind `before`."""
        follows = np.zeros(len(self.calls), np.bool_)
        kinds = self.calls.kind
        follows[1:] = (self._key[1:] == self._key[:-1]) & (kinds[1:] == kind) & (kinds[:-1] == before)
        found: Ints = np.flatnonzero(follows & ~self.calls.done)
        return found

    def switches(self) -> Ints:
        """Places of the reads after a write, and of the writes after a read."""
        kind = self.calls.kind
        at = np.flatnonzero((kind == Call.READ) | (kind == Call.WRITE))
        switched = np.zeros(len(at), np.bool_)
        switched[1:] = (kind[at][1:] != kind[at][:-1]) & (self._key[at][1:] == self._key[at][:-1])
        found: Ints = at[switched & ~self.calls.done[at]]
        return found

    def last_ones(self) -> C:
        """The latest call of each kind by process and file, with and without an offset: later calls are compared with
        no others."""
        calls = self.calls
        sort = self._key * 64 + calls.kind * 2 + (calls.offset >= 0)
        order = np.argsort(sort, kind="stable")
        last = np.append(runs.begins(sort[order])[1:], True)
        kept = calls.take(np.sort(order[last]))
        kept.done = np.ones(len(kept), np.bool_)
        return kept
