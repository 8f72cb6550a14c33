"""One span per task: from when a worker learns of it until it is done, with the time spent in each state.

The span of a task's execution (layer app, "task") begins later: before it, the
task waits for data of other tasks and for a free thread.  The spans of this
module overlap on one thread, that of the worker's event loop.  So each is
detached: it stays open while the thread does other things.
"""

from __future__ import annotations

import json
import time
from typing import Any

from pyio_trace import native
from pyio_trace.enums import Layer

#: Task states (distributed.worker_state_machine) in which the worker has nothing more to do for the task.
_DONE = frozenset({"released", "forgotten", "memory", "error", "rescheduled", "missing"})


class _Open:
    __slots__ = ("at", "detail", "span", "times")

    def __init__(self, span: Any, detail: dict[str, Any], at: int) -> None:
        self.span = span
        self.detail = detail
        self.at = at  # ns: time of the last change
        self.times: dict[str, int] = {}  # ns by state


class Transitions:
    """The task states of one worker.  Call changed() and close() on the thread of its event loop."""

    def __init__(self, worker: str) -> None:
        self._worker = worker
        self._open: dict[Any, _Open] = {}

    def changed(self, key: Any, start: str, finish: str) -> None:
        """Records that a task went from one state to another."""
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
        """Forgets the open spans when the worker or its tracing ends; they stay without an end."""
        self._open.clear()

    def _begin(self, key: Any) -> None:
        from dask.utils import key_split

        if native.core is None:
            return
        span = native.core.Span()
        detail = {"key": str(key), "prefix": key_split(key), "worker": self._worker}
        if span.begin("task states", Layer.USER, None, json.dumps(detail)):
            span.detach()
            self._open[key] = _Open(span, detail, time.monotonic_ns())

    def _end(self, task: _Open, finish: str) -> None:
        detail = {**task.detail, "states_ns": task.times, "ended": finish}
        task.span.end(None, 0, json.dumps(detail))
