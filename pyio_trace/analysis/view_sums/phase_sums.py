"""Phases of a run: stretches of time in which one kind of I/O prevails, between stretches without any."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pyio_trace.analysis.scan.columns import MEANING, Columns
from pyio_trace.analysis.sums.time_bins import TimeBins
from pyio_trace.analysis.view_sums.key_sums import TOP
from pyio_trace.enums import OpClass, Role
from pyio_trace.light_dataclass import dataclass
from pyio_trace.log.sorting import distinct

Ints = NDArray[np.int64]

COLUMNS = (*MEANING, "time", "duration", "bytes_moved", "process")
#: What prevails in a phase, by the number of its kind.
KINDS = ("read", "write", "metadata", "sync", "lock")
_KIND = np.full(len(vars(OpClass)), 2, np.int64)
_KIND[[OpClass.READ, OpClass.COPY]], _KIND[OpClass.WRITE] = 0, 1


def phase_bins(bins: int) -> TimeBins:
    """Empty sums by time, process and kind."""
    return TimeBins(("process", "kind"), ("calls", "moved"), bins)


def phase_sums(batch: pa.RecordBatch, bins: int, imports: bool) -> TimeBins:
    """Sums of the calls of a batch on files."""
    part = phase_bins(bins)
    columns = Columns(batch)
    at = np.flatnonzero(columns.leaf if imports else columns.leaf & ~columns.imported)
    role = columns.role[at]
    kind = _KIND.take(columns.kind[at])
    kind[role == Role.SYNC], kind[role == Role.LOCK] = KINDS.index("sync"), KINDS.index("lock")
    keys = {"process": columns.numbers("process", -1)[at], "kind": kind}
    part.add(keys, columns.time[at], columns.end[at], {"calls": columns.calls[at], "moved": columns.moved[at]})
    return part


@dataclass(frozen=True)
class Stretch:
    """Bins first to last, in ns since the epoch; kind: of KINDS, or -1 for none; rows: those of the sums."""

    begin: int
    end: int
    kind: int
    rows: Ints


def stretches(found: dict[str, Ints], width: int) -> list[Stretch]:
    """The phases that sums (TimeBins.columns()) show: neighbouring bins with the same prevailing kind."""
    if not len(found["bin"]):
        return []
    bins = distinct(found["bin"])
    at = np.searchsorted(bins, found["bin"])
    times = np.zeros((len(bins), len(KINDS)), np.int64)
    np.add.at(times, (at, found["kind"]), np.maximum(found["time"], 1))
    kind = times.argmax(axis=1)
    new = np.ones(len(bins), np.bool_)
    new[1:] = (kind[1:] != kind[:-1]) | (bins[1:] != bins[:-1] + width)
    number = np.cumsum(new) - 1
    phase_of_row = number[at]
    result = []
    for phase, first in enumerate(np.flatnonzero(new).tolist()):
        members = np.flatnonzero(number == phase)
        rows = np.flatnonzero(phase_of_row == phase)
        result.append(Stretch(int(bins[first]), int(bins[members[-1]]) + width, int(kind[first]), rows))
    return result


class OverPhases:
    """What reducers over phases share; they have finish()."""

    columns: ClassVar[tuple[str, ...]] = COLUMNS

    def __init__(self, top: int = TOP, bins: int = 512, imports: bool = False) -> None:
        """top: phases of the result; bins: into which the run is divided, at most; imports: also what Python's imports
        did."""
        self.top, self.bins, self.imports = top, bins, imports

    def partial(self, batch: pa.RecordBatch) -> TimeBins:
        return phase_sums(batch, self.bins, self.imports)

    def combine(self, part: TimeBins, later: TimeBins) -> TimeBins:
        part.update(later)
        return part
