"""For how long a thread has not run.

The kernel notes on a processor's own clock when a thread last ran
(/proc/PID/task/TID/sched).  The clocks of two processors differ by what
interrupts and the hypervisor took of each.  So the same processor's clock has
to be read: this thread moves there for a moment, which no other program
notices.
"""

from __future__ import annotations

import os
import re
import time
from types import TracebackType
from typing import Self

from pyio_trace.running.kernel_process import KernelProcess

_RAN = re.compile(rb"^se\.exec_start\s*:\s*(\d+)\.(\d{6})", re.MULTILINE)
#: Seconds after which no other processor is visited: on a busy machine each visit has to wait for its turn.
_VISITS = 0.4


class Clocks:
    """The clocks of the processors; use it in a with statement, which ends where the thread began."""

    def __init__(self) -> None:
        self._home = os.sched_getaffinity(0)
        self._until = time.monotonic() + _VISITS
        self._moved = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._moved:
            os.sched_setaffinity(0, self._home)

    def blocked(self, process: KernelProcess, tid: int, cpu: int) -> int | None:
        """ns since the thread last ran; None: this kernel does not say.  cpu: where it did."""
        ran = _ran(process.read(f"task/{tid}/sched", 4096))
        if ran is None:
            return None
        now = self._now(cpu)
        return None if now is None else max(now - ran, 0)

    def _now(self, cpu: int) -> int | None:
        if time.monotonic() < self._until:
            try:
                os.sched_setaffinity(0, {cpu})
                self._moved = True
            except OSError:  # a processor that we may not use
                pass
        os.sched_yield()  # brings the time at which this thread last ran up to date
        try:
            with open("/proc/thread-self/sched", "rb", buffering=0) as file:
                return _ran(file.read(4096))
        except OSError:
            return None


def _ran(text: bytes) -> int | None:
    found = _RAN.search(text)
    return int(found[1]) * 1_000_000 + int(found[2]) if found else None
