"""The reducer of everything in the summary that depends on when operations overlapped: unions and states of time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from pyio_trace.analysis.scan.batch_rows import PROCESS, USER_LAYER, Rows
from pyio_trace.analysis.scan.lazy_parts import LazyPart
from pyio_trace.analysis.scan.saturation import addable
from pyio_trace.analysis.summary.link_shares import LinkShares
from pyio_trace.analysis.summary.process_states import Origins, ProcessStates
from pyio_trace.analysis.summary.summary_rows import COLUMNS, SummaryReader, SummaryRows
from pyio_trace.analysis.sums.dense_sums import add_at
from pyio_trace.analysis.sums.intervals import BusyTime, Horizon
from pyio_trace.enums import LAYERS, Role
from pyio_trace.join.base.roles import LEAVES
from pyio_trace.light_dataclass import dataclass

if TYPE_CHECKING:
    import pyarrow as pa

    from pyio_trace.join.sources.facade import Log

Ints = NDArray[np.int64]
Mask = NDArray[np.bool_]
NLAYERS = len(LAYERS)


class Times:
    """Running totals: how long calls were open, in which state processes were, how parents are known."""

    def __init__(self, origins: Origins, limit: int) -> None:
        """limit: ns since the start of the run that no time exceeds."""
        processes = len(origins.begins)
        self.busy = BusyTime(NLAYERS + 1, processes, limit)  # channels: each layer, then all outermost calls
        self.coalesced = np.zeros((processes, NLAYERS), np.int64)  # time in rows that stand for many calls
        self.states = ProcessStates(origins, limit)
        self.links = LinkShares()
        self._horizon = Horizon()

    def absorb(self, read: SummaryRows) -> None:
        """Adds the next rows of the log."""
        horizon = self._horizon.add(read.rows.time)
        self.states.add(read, horizon)
        self.links.add(read, horizon)
        rows = read.rows if read.imported is None else read.rows.where(~read.imported)
        if len(rows):
            self._add_busy(rows)
            self.busy.add_up_before(horizon)

    def update(self, other: Times) -> None:
        """Adds those of another log, which has other processes."""
        self.busy.update(other.busy)
        self.coalesced = addable(self.coalesced + other.coalesced)
        self.states.update(other.states)
        self.links.update(other.links)

    def __getstate__(self) -> dict[str, Any]:
        for part in (self.busy, self.states, self.links):
            part.compact(self._horizon.time)
        return self.__dict__

    def _add_busy(self, rows: Rows) -> None:
        single = rows.kind != PROCESS
        many = np.flatnonzero((rows.count > 1) & (rows.layer != USER_LAYER) & rows.outer & single)
        if len(many):
            add_at(self.coalesced.reshape(-1), rows.process[many] * NLAYERS + rows.layer[many], rows.duration[many])
            self.coalesced = addable(self.coalesced)
        single &= rows.count <= 1
        starts, ends = self.busy.on_axis(rows.process, rows.time, rows.time + rows.duration)
        does_io = (rows.role == Role.REQUEST) | LEAVES.take(rows.role)
        for layer in range(NLAYERS):
            mask = single & (rows.layer == layer)
            if layer != USER_LAYER:
                mask &= does_io
            outer = mask & rows.outer
            if layer == USER_LAYER:
                self._busy_on((layer,), mask, starts, ends)
            elif np.count_nonzero(mask) == np.count_nonzero(outer):
                self._busy_on((layer, NLAYERS), mask, starts, ends)
            else:
                self._busy_on((layer,), mask, starts, ends)
                self._busy_on((NLAYERS,), outer, starts, ends)

    def _busy_on(self, channels: tuple[int, ...], mask: Mask, starts: Ints, ends: Ints) -> None:
        at = np.flatnonzero(mask)
        self.busy.add(channels, starts.take(at), ends.take(at))


@dataclass(frozen=True)
class SummaryTimes:
    """The reducer.  Its result are the Times of the whole log, to which nothing may be added."""

    columns: ClassVar[tuple[str, ...]] = COLUMNS
    ordered: ClassVar[bool] = True

    reader: SummaryReader
    origins: Origins

    @classmethod
    def of(cls, reader: SummaryReader, table: list[dict[str, Any]]) -> SummaryTimes:
        """table: of processes."""
        return cls(reader, Origins.of(table, reader.reader.start, reader.reader.processes))

    def _empty(self) -> Times:
        return Times(self.origins, self.reader.reader.limit)

    def partial(self, batch: pa.RecordBatch) -> LazyPart[Times]:
        return LazyPart(self._empty, self.reader.read(batch))

    def combine(self, part: LazyPart[Times], later: LazyPart[Times]) -> LazyPart[Times]:
        return part.combine(later)

    def finish(self, part: LazyPart[Times] | None, log: Log) -> Times:
        return self._empty() if part is None else part.totals
