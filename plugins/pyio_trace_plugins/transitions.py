"""One span a task: from when a worker hears of it until it is done, with the time in each state.

A task's own span (layer app, "task") is its execution; before that it waits
for others' data, is fetched, stands in line for a thread.  These spans
overlap, on the one thread of the worker's event loop: so each is detached,
open beside whatever else that thread does.
"""

from __future__ import annotations

import json
import time
from typing import Any

from pyio_trace import native

_USER = 1  # enum pt_layer
#: Of a worker's states (distributed.worker_state_machine), those in which it has nothing more to do for the task.
_DONE = frozenset({"released", "forgotten", "memory", "error", "rescheduled", "missing"})


class _Open:
    __slots__ = ("at", "detail", "span", "times")

    def __init__(self, span: Any, detail: dict[str, Any], at: int) -> None:
        self.span = span
        self.detail = detail
        self.at = at  # ns: the last change
        self.times: dict[str, int] = {}  # ns by state


class Transitions:
    """Of one worker.  Call changed() and close() on the thread of its event loop."""

    def __init__(self, worker: str) -> None:
        self._worker = worker
        self._open: dict[Any, _Open] = {}

    def changed(self, key: Any, start: str, finish: str) -> None:
        """A task has gone from one state into another."""
        now = time.monotonic_ns()
        task = self._open.get(key)
        if task is None:
            if finish not in _DONE:
                self._begin(key)
            return
        task.times[start] = task.times.get(start, 0) + now - task.at
        task.at = now
        if finish in _DONE:
            self._end(self._open.pop(key), finish)

    def close(self) -> None:
        """The worker or its tracing ends: what is open stays as it is, without an end."""
        self._open.clear()

    def _begin(self, key: Any) -> None:
        from dask.utils import key_split

        if native.core is None:
            return
        span = native.core.Span()
        detail = {"key": str(key), "prefix": key_split(key), "worker": self._worker}
        if span.begin("task states", _USER, None, json.dumps(detail)):
            span.detach()
            self._open[key] = _Open(span, detail, time.monotonic_ns())

    def _end(self, task: _Open, finish: str) -> None:
        detail = {**task.detail, "states_ns": task.times, "ended": finish}
        task.span.end(None, 0, json.dumps(detail))
