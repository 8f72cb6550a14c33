"""The processes and threads of a picture, each with numbers of its own.

Viewers tell processes by pid and threads by tid, but logs may have one of these
twice: of two hosts, of containers, after exec.  The later one then gets a number
that no system gives.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from pyio_trace.errors import printable
from pyio_trace.join.processes.process_names import label
from pyio_trace.light_dataclass import dataclass

if TYPE_CHECKING:
    from pyio_trace.join.sources.facade import Log

Ints = NDArray[np.int64]

#: More than any pid or tid of Linux (PID_MAX_LIMIT).
_MADE_UP = 1 << 22
#: Threads of a process that are none: of rows without one, of sums of what is not shown.
NO_THREAD, LEFT_OUT = -1, -2


@dataclass(frozen=True)
class Process:
    """pid: its own, or made up; name: with its own."""

    pid: int
    name: str


@dataclass(frozen=True)
class Track:
    """A thread, or a lane of one.  process: index; tid: its own, or made up; thread: the first lane of the thread;
    main: whether it is the main thread."""

    process: int
    tid: int
    name: str
    thread: int
    main: bool = False


class Tracks:
    """processes: those of the log by index, then one for rows without a process, then others.  tracks: by number."""

    def __init__(self, log: Log) -> None:
        rows = log.processes().to_pylist()
        hosts = {row["host"] for row in rows}
        self._pids: dict[int, int] = {}
        self._tids: dict[int, int] = {}
        self.processes: list[Process] = []
        self.own_pids: list[int] = []  # of the processes of the log
        self.tracks: list[Track] = []
        for row in rows:
            self.add_process(row["pid"], _name(row, len(hosts) > 1))
            self.own_pids.append(row["pid"])
        self.unknown = self.add_process(-1, "process not known")

    def add_process(self, pid: int, name: str) -> int:
        """The index of a new process."""
        self.processes.append(Process(_free(pid, self._pids, len(self.processes)), printable(name)))
        return len(self.processes) - 1

    def described(self) -> list[tuple[int, Process]]:
        """(index, process) of all that are to be named: a process that is not known only if something has none."""
        used = {track.process for track in self.tracks}
        return [(at, one) for at, one in enumerate(self.processes) if at != self.unknown or at in used]

    def add_thread(self, process: int, tid: int, name: str | None = None) -> int:
        """The number of the track of a new thread of a process; tid: or NO_THREAD, LEFT_OUT; name: None: the usual."""
        own = self.own_pids[process] if process < len(self.own_pids) else 0
        main = name is None and tid == own
        usual = {NO_THREAD: "several threads", LEFT_OUT: "left out: sums by line"}
        found = _free(tid, self._tids, len(self.tracks))
        called = name or ("main thread" if main else usual.get(tid, f"thread {tid}"))
        self.tracks.append(Track(process, found, printable(called), len(self.tracks), main))
        return len(self.tracks) - 1

    def add_lane(self, thread: int) -> int:
        """The number of a further track of a thread, for what overlaps with the others."""
        first = self.tracks[thread]
        tid = _free(-1, self._tids, len(self.tracks))
        self.tracks.append(Track(first.process, tid, f"{first.name} (overlapping)", thread))
        return len(self.tracks) - 1

    def of_threads(self, process: Ints, tid: Ints) -> Ints:
        """The track of each row, by process (-1: not known) and tid, made where there is none yet."""
        process = np.where((process >= 0) & (process < self.unknown), process, self.unknown)
        tid = np.where(tid < LEFT_OUT, NO_THREAD, tid)
        keys, row = np.unique((process << 32) + (tid + 2), return_inverse=True)
        found = [self.add_thread(key >> 32, (key & 0xFFFFFFFF) - 2) for key in keys.tolist()]
        return np.array(found, np.int64)[row] if found else np.zeros(0, np.int64)

    def by_pid(self) -> Mapping[int, int]:
        """pid -> index of the process of the log that has it; the latest one."""
        return {pid: index for index, pid in enumerate(self.own_pids)}


def _free(number: int, taken: dict[int, int], place: int) -> int:
    """A number that is not taken: this one if possible."""
    found = number if 0 <= number < _MADE_UP and number not in taken else _MADE_UP + place
    taken[found] = place
    return found


def _name(row: Mapping[str, Any], hosts: bool) -> str:
    return f"{label(row)} on {row['host']}" if hosts else label(row)
