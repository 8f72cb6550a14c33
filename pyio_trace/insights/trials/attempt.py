"""What a trial works with: the finding, its recorded operations, its files, and a scratch folder."""

from __future__ import annotations

import os
from contextlib import ExitStack

import numpy as np
from numpy.typing import NDArray

from pyio_trace.insights.finding import Finding
from pyio_trace.insights.trials.interruptions import uninterrupted
from pyio_trace.insights.trials.originals import Originals
from pyio_trace.insights.trials.recorded import Rows
from pyio_trace.insights.trials.replay import NotTried
from pyio_trace.insights.trials.scratch import Scratch
from pyio_trace.log.sorting import distinct

#: One read or write of a replay is at most this large, bytes.
LARGEST = 64 << 20
#: The most that Python adds to the system call of a call like os.stat(), ns: for its arguments and its result.
PYTHON_PART = 3000
_MOST_NS = 1 << 62


class Attempt:
    """The trial of one finding.  rows: its recorded operations.  A context manager."""

    def __init__(self, finding: Finding, rows: Rows, until: int) -> None:
        """until: when the run ended, epoch ns."""
        self.finding = finding
        self.rows = rows
        self.originals = Originals(until)
        self._scratch: Scratch | None = None
        self._open = ExitStack()

    def __enter__(self) -> Attempt:
        self._open.callback(self.originals.close)
        return self

    def __exit__(self, *_: object) -> None:
        with uninterrupted():
            self._open.close()

    def scratch(self, near: str) -> Scratch:
        """A folder to write to, on the file system of a path; the same one each time.  Raises NotTried."""
        if self._scratch is None:
            with uninterrupted():
                self._scratch = self._open.enter_context(Scratch(near))
        return self._scratch

    def own_folder(self, number: int) -> None:
        """Gives this one of several processes a scratch folder of its own, if scratch() was called."""
        if self._scratch is not None:
            self._scratch.enter_own(number)

    def workers(self) -> int:
        """How many processes try it side by side: as many as did such work at the same time, at most one a core."""
        return min(side_by_side(self.rows, "process"), cores())

    def recorded_ns(self, threads: int) -> int:
        """ns that the recorded operations took in the run, which is the most that a remedy can save; 0: not known.

        threads: how many the trial uses.  With one, this is the time of the thread that spent the most in them, with
        Python's own part of calls that have only a system call in the log.  With several, it is the time in which
        any thread of the process that spent the most was in such an operation.
        """
        outer = self.rows.outermost()
        if threads > 1:
            own = outer.at(np.flatnonzero(outer.columns["process"] == outer.heaviest().process))
            time = _covered(own)
        else:
            own = outer.heaviest()
            time = own.columns["duration"].clip(0).sum(dtype=np.float64) + _python_time(own)
        return min(int(time * own.recorded(self.rows) / max(len(own), 1)), _MOST_NS)

    def lines(self) -> list[str]:
        """The finding's lines, as the log has them."""
        return [f"{site.file}:{site.line}:{site.function}" for site in self.finding.sites]

    def moves(self, kind: str) -> Rows:
        """The system calls and C stream calls of a class, "read" or "write", by the thread that spent the most in them.

        libc's own system calls beneath a C stream have no rows.  Raises NotTried if there are none with bytes.
        """
        found = self.rows.where(layer=("posix", "stdio"), op_class=kind).heaviest()
        if not any(found.sizes):
            raise NotTried(f"the log has no {kind} of it that could be issued again")
        return found


def cores() -> int:
    """How many cores this process may use."""
    return len(os.sched_getaffinity(0))


def side_by_side(rows: Rows, column: str) -> int:
    """How many processes ("process") or threads ("tid") did such work at the same time.

    One counts if it has at least half as many operations as the thread that spent the most in them, and overlaps with
    at least half of that thread's time.
    """
    main = rows.heaviest()
    if not len(main):
        return 1
    begin, end = _span(main)
    count = 0
    for one in distinct(rows.columns[column]).tolist():
        own = rows.at(np.flatnonzero(rows.columns[column] == one))
        first, last = _span(own)
        meanwhile = min(end, last) - max(begin, first)
        count += 2 * len(own) >= len(main) and 2 * meanwhile >= end - begin
    return max(count, 1)


def _python_time(rows: Rows) -> float:
    """The most ns that Python's own part took of calls such as os.stat(), which have only a system call in the log."""
    begins = _since_first(rows)
    after = np.append(begins[1:], np.inf) - begins - rows.columns["duration"]
    alone = rows.columns["request_id"] != rows.columns["id"]
    return float(after[alone].clip(0, PYTHON_PART).sum())


def _covered(rows: Rows) -> float:
    """ns in which at least one of them was under way."""
    begins = _since_first(rows)
    ends = np.maximum.accumulate(begins + rows.columns["duration"])
    before = np.concatenate([begins[:1], ends[:-1]])
    return float((ends - np.maximum(begins, before)).clip(0).sum())


def _since_first(rows: Rows) -> NDArray[np.float64]:
    """ns from the begin of the first to that of each, ascending.  Times since the epoch do not fit a float: 256 ns and
    less would be lost."""
    begins = rows.columns["time"]
    return (begins - begins[:1]).astype(np.uint64).astype(np.float64)


def _span(rows: Rows) -> tuple[int, int]:
    """From the begin of the first to the end of the last, ns."""
    begins = rows.columns["time"]
    return int(begins.min()), int((begins + rows.columns["duration"]).max())
