"""The process entries of a log that grows: those of running processes are read at each look."""

from __future__ import annotations

import numpy as np

from pyio_trace.log import layout
from pyio_trace.log.log_file import LogFile

#: Most running processes, and most that have ended, that are known.
_MOST = 1 << 12


class GrowingProcesses:
    """entries: layout.PROCESS_ENTRY as of the last look, oldest first; ended: ids of the processes that have; pids: id
    -> number, of those that run in the log's own pid namespace."""

    def __init__(self, file: LogFile) -> None:
        self._file = file
        self._alive: list[int] = []
        self._past: dict[int, np.void] = {}
        self._first = True
        self.entries = np.zeros(0, layout.PROCESS_ENTRY)
        self.ended: set[int] = set()
        self.pids: dict[int, int] = {}

    def add(self, at: int) -> None:
        """A process chunk was found at this offset."""
        self._alive.append(at)

    def read(self) -> int:
        """Reads the entries of all that have not ended.  Returns how many are not known, as there are too many."""
        left_out = self._limit()
        entries = np.zeros(len(self._alive), layout.PROCESS_ENTRY)
        for row, at in enumerate(self._alive):
            self._file.fill(at, entries[row : row + 1])
        entries["chunk"]["offset"] = self._alive
        over = entries["end_kind"] != layout.END_UNKNOWN
        for row in np.flatnonzero(over).tolist():
            self._past[self._alive[row]] = entries[row]
            self.ended.add(self._alive[row] >> layout.ID_SHIFT)
        for at in list(self._past)[:-_MOST]:
            del self._past[at]
        self._alive = [at for at, ended in zip(self._alive, over.tolist(), strict=True) if not ended]
        here = entries[~over & (entries["namespace_inode"] == 0)]
        ids = (here["chunk"]["offset"] >> layout.ID_SHIFT).tolist()
        self.pids = dict(zip(ids, here["pid"].tolist(), strict=True))
        known = sorted([*self._past.values(), *entries[~over]], key=lambda one: int(one["chunk"]["offset"]))
        self.entries = np.array(known, layout.PROCESS_ENTRY)
        self.entries.setflags(write=False)
        return left_out

    def _limit(self) -> int:
        """Leaves out what is not whole, at the first look the many that have ended long ago, and then the middle."""
        self._alive = [at for at in self._alive if at + layout.PROCESS_ENTRY.itemsize <= self._file.whole]
        if self._first and len(self._alive) > _MOST:
            self._alive = [at for at in self._alive[:-_MOST] if not self._has_ended(at)] + self._alive[-_MOST:]
        self._first = False
        more = max(len(self._alive) - 2 * _MOST, 0)
        if more:
            self._alive = self._alive[:_MOST] + self._alive[-_MOST:]
        return more

    def _has_ended(self, at: int) -> bool:
        place = layout.PROCESS_ENTRY.fields["end_kind"][1]  # type: ignore[index]
        if self._file.read(at + place, 4) in (bytes(4), b""):
            return False
        self.ended.add(at >> layout.ID_SHIFT)
        return True
