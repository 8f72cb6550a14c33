"""Which line of Python the threads of a traced process are at, from its live log.

Two things in the log say it: the operations that have begun and not returned,
with their stacks, and the newest samples of the sampler beside the run.
"""

from __future__ import annotations

import os
import time
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pyio_trace.enums import Layer
from pyio_trace.errors import LogError
from pyio_trace.log import layout
from pyio_trace.log.added import Begun
from pyio_trace.log.growing import GrowingLog
from pyio_trace.output import LIVE_SUFFIX
from pyio_trace.running.foreign_files import open_inside
from pyio_trace.running.kernel_process import KernelProcess
from pyio_trace.running.log_names import NOWHERE, Line, LogNames
from pyio_trace.running.mount_table import Mounts
from pyio_trace.values import MODES

#: Chunks of samples that are read, from the end: some hours of a few threads that wait.
_CHUNKS = 256
#: A sample is of now if the thread has not run since.  Where that is not known, it has to be so many ns old at most.
_FRESH = 1_000_000_000
#: Seconds between two looks at sums, of which those that grow are of now.
_BETWEEN = 0.3
#: Seconds that a file system may take to answer.
_ANSWERS_WITHIN = 0.5


class InFlight(NamedTuple):
    """An operation that has not returned.  since_is_known: else it began after that moment."""

    op: str
    layer: int
    path: str
    begin: int
    since_is_known: bool
    line: Line


class Sampled(NamedTuple):
    """What the sampler found a thread doing last.  since: from when on it was found doing so without a break; end: of
    that time, ns since the epoch; state: one of layout.SAMPLE_STATES."""

    line: Line
    state: str
    since: int
    end: int


class TracedLog:
    """The live log of a run, for its processes."""

    def __init__(self, log: GrowingLog, path: str) -> None:
        self.log, self.path = log, path
        log.pass_over()
        self.names = LogNames(log)
        self.names.refresh()
        self._samples = self._newest()
        self._began: dict[tuple[int, int], list[Begun]] = {}
        for one in log.in_flight():
            self._began.setdefault((one.process, one.tid), []).append(one)

    def entries_of(self, process: KernelProcess) -> list[int]:
        """The ids of a process's entries, oldest first; none: it has none, or its tracing has stopped."""
        found = process.stat()
        start = 0 if found is None else found.start
        rows = self.log.processes()
        mine = (rows["pid"] == process.numbers()[-1]) & np.isin(rows["start_time"], [0, start])
        at = np.flatnonzero(mine)
        stopped = len(at) and int(rows["end_kind"][at[-1]]) == layout.END_STOPPED
        return [] if stopped else self.log.process_ids[at].tolist()

    def in_flight(self, entries: list[int], tid: int) -> list[InFlight]:
        """The operations that a thread is in, outermost first."""
        began = sorted((one for entry in entries for one in self._began.get((entry, tid), [])), key=_begin)
        lines = self.names.lines((int(one.record["stack"]), one.process) for one in began)
        return [
            InFlight(
                self.names.op(one.record), int(self.names.words.layer[int(one.record["op"])]),
                self.names.path(one.record), self.log.clock.epoch_of(_begin(one)), one.since_is_known, line,
            )
            for one, line in zip(began, lines, strict=True)
        ]  # fmt: skip

    def sampled(self, entries: list[int], tid: int, blocked: int | None) -> Sampled | None:
        """What the sampler found a thread doing, if that is what it does now.  blocked: ns since it last ran."""
        rows = self._samples[np.isin(self._samples["process"], entries) & (self._samples["tid"] == tid)]
        if not len(rows):
            return None
        rows = rows[np.argsort(rows["begin"], kind="stable")]
        last = rows[-1]
        end = self._time(int(last["begin"]) + int(last["ticks"]))
        if self.log.now() - end > (_FRESH if blocked is None else blocked):
            return None
        same = (rows["stack"] == last["stack"]) & (rows["state"] == last["state"])
        broken = np.flatnonzero(~same | (rows["cpu_ns"] > 0))
        first = min(int(broken[-1]) + 1 if len(broken) else 0, len(rows) - 1)
        line = self.names.line(int(last["stack"]), int(last["process"]), sampled=True) if last["stack"] else NOWHERE
        state = layout.SAMPLE_STATES[min(int(last["state"]), len(layout.SAMPLE_STATES) - 1)]
        return Sampled(line, state, self._time(int(rows["begin"][first])), end)

    def _time(self, ticks: int) -> int:
        return self.log.clock.epoch_of(min(ticks, 1 << 62))

    def _newest(self) -> NDArray[np.void]:
        if int(self.log.header["mode"]) == MODES.index("profile"):
            return self._growing()
        return self._read(_CHUNKS)

    def _growing(self) -> NDArray[np.void]:
        """Of sums of samples, those that grow; each as one that began now."""
        before = self._read(len(self.log.sample_places))
        time.sleep(_BETWEEN)
        after = self._read(len(self.log.sample_places))
        grown = np.flatnonzero(after["ticks"][: len(before)] != before["ticks"][: len(after)])
        found: NDArray[np.void] = after[np.concatenate([grown, np.arange(len(before), len(after))])]
        now, rate = self.log.now() - int(self.log.header["first"]["real"]), self.log.clock.rate
        found["begin"] = min(max(int(self.log.header["first"]["ticks"]) + int(now / rate), 0), 1 << 62)
        found["ticks"] = found["cpu_ns"] = 0
        return found

    def _read(self, most: int) -> NDArray[np.void]:
        """The samples of the newest chunks."""
        found = [np.zeros(0, layout.SAMPLE)]
        for at, size in self.log.sample_places[-most:] if most else []:
            read = self.log.file.read(at + layout.HEAP_START, size - layout.HEAP_START)
            rows = np.frombuffer(read, layout.SAMPLE, len(read) // layout.SAMPLE.itemsize)
            ends = np.flatnonzero(rows["begin"] == 0)
            found.append(rows[: ends[0]] if len(ends) else rows)
        return np.concatenate(found)


def _begin(one: Begun) -> int:
    return min(int(one.record["begin"]), 1 << 62)


def is_system_call(one: InFlight) -> bool:
    """Whether an operation is a call of libc rather than a span around some."""
    return one.layer in (Layer.POSIX, Layer.STDIO)


class Logs:
    """The live logs of processes, each opened once."""

    def __init__(self) -> None:
        self._found: dict[tuple[int, int], TracedLog | str] = {}

    def of(self, process: KernelProcess) -> tuple[TracedLog | None, str]:
        """(the log that a process writes into, "") or (None, why its lines of Python are not known)."""
        why = "not traced"
        for path in live_logs_of(process):
            if path.endswith(" (deleted)"):
                why = "its log was removed"
                continue
            try:
                descriptor = open_inside(process.pid, path)
            except OSError as error:
                why = f"its log {path} cannot be read: {error.strerror}"
                continue
            status = os.fstat(descriptor)
            key = status.st_dev, status.st_ino
            if key in self._found:
                os.close(descriptor)
            elif os.pread(descriptor, len(layout.MAGIC), 0) != layout.MAGIC:
                os.close(descriptor)
                continue
            else:
                self._found[key] = _opened(path, descriptor)
            found = self._found[key]
            if isinstance(found, str):
                why = found
            elif found.entries_of(process):
                return found, ""
            else:
                why = "its tracing has stopped"
        return None, why


def _opened(path: str, descriptor: int) -> TracedLog | str:
    try:
        return TracedLog(GrowingLog(path, descriptor, from_now=True), path)
    except LogError as error:
        return str(error)


def live_logs_of(process: KernelProcess) -> list[str]:
    """The paths of files that a process has mapped as it maps a log: shared, from their beginning.

    On a file system that another machine or process answers for, only a file that is named like a log, if the file
    system answers: opening a file there may hang, as the program may.
    """
    mounts = Mounts(process)
    found: dict[str, None] = {}
    for line in process.read("maps", 1 << 24).splitlines():
        fields = line.split(None, 5)
        if len(fields) == 6 and fields[1][3:4] == b"s" and not int(fields[2], 16) and fields[5].startswith(b"/"):
            path = fields[5].decode("utf-8", "surrogateescape")
            if not path.startswith(("/dev/shm/sem.", "/memfd:", "/SYSV", "/dev/zero", "/dev/nvidia", "/dev/dri")):
                mount = mounts.of_path(path)
                if mount is None or not mount.is_remote or (LIVE_SUFFIX in path and _answers(process.pid, path)):
                    found[path] = None
    return list(found)


def _answers(pid: int, path: str) -> bool:
    """Whether a file can be looked at without hanging.  A child tries it, which hangs in our place."""
    child = os.fork()
    if child == 0:
        try:
            os.stat(f"/proc/{pid}/root{path}")
        finally:
            os._exit(0)
    until = time.monotonic() + _ANSWERS_WITHIN
    while time.monotonic() < until:
        if os.waitpid(child, os.WNOHANG)[0]:
            return True
        time.sleep(0.01)
    return False
