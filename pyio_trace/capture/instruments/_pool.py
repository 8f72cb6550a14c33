"""Pool of multiprocessing: the tasks that its processes run, and how long their submitter waits for results.

A worker takes tasks from one SimpleQueue and puts each result into another, in a
loop without a function around each task: the span of a task begins when it has
been taken, and ends before its result is put.  The threads of a ThreadPool take
theirs from a queue of the standard library's; only the waits are seen there.
"""

from __future__ import annotations

import sys

from pyio_trace import native
from pyio_trace.capture.instrumentation.instrument import MARKS, Target
from pyio_trace.capture.instruments._tasks import described, members
from pyio_trace.enums import Layer

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_CHUNKS = ("mapstar", "starmapstar")  # what runs a chunk of map() and starmap()

_running: list[tuple[native.core.Span, str]] = []  # the task of this worker, and members of its detail


def _is_worker(frame: Any) -> bool:
    """Whether it is the loop of a worker."""
    return frame.f_code.co_name == "worker" and _is_pool(frame.f_globals.get("__name__"))


def _is_pool(module: Any) -> bool:
    return module in ("multiprocessing.pool", "multiprocess.pool")


def _taken(task: Any, *args: Any) -> None:
    """After SimpleQueue.get: (job, number, function, args, kwargs) in a worker; None: there will be no more."""
    if native.core is None or type(task) is not tuple or len(task) != 5 or not _is_worker(sys._getframe(1)):
        return
    job, number, function, given, _ = task
    details: dict[str, object] = {}
    is_function = type(function).__name__ == "function" and type(function).__module__ == "builtins"
    if is_function and function.__name__ in _CHUNKS and _is_pool(function.__module__):
        function, items = given[0]
        details["items"] = len(items)
    found = described(function, ())
    if found is None:
        return
    details |= found
    known = members(details | {"key": f"{found['prefix']}-{job}-{number}"})
    span = native.core.Span()
    if span.begin("pool.task", Layer.APP, None, "{" + known + "}"):
        _running[:] = [(span, known)]


def _put(queue: Any, result: Any) -> None:
    """Before SimpleQueue.put: (job, number, (whether it succeeded, value)) in a worker."""
    if not _running or not _is_worker(sys._getframe(1)):
        return
    span, known = _running.pop()
    succeeded, value = result[2]
    if succeeded:
        span.end()
        return
    problem = value.exc if type(value).__name__ == "ExceptionWithTraceback" else value
    failed = members({"failed": True, "raised": type(problem).__name__})
    span.end(None, 0, "{" + ", ".join(filter(None, (known, failed))) + "}")


def _unless_ready(result: Any, *args: Any, **kwargs: Any) -> Any:
    """ApplyResult.wait: NotImplemented, so no row, if the result is there."""
    return NotImplemented if result._event._flag else (None, {})


def _unless_next(results: Any, *args: Any, **kwargs: Any) -> Any:
    """IMapIterator.next, likewise."""
    return NotImplemented if results._items else (None, {})


def targets_of(library: str) -> tuple[Target, ...]:
    """The targets in multiprocessing, or in a copy of it."""
    queues, pool = f"{library}.queues", f"{library}.pool"
    return (
        Target("SimpleQueue.get", module=queues, hands_over=MARKS, after=_taken),
        Target("SimpleQueue.put", module=queues, hands_over=MARKS, details=_put),
        Target("ApplyResult.wait", module=pool, name="Pool.wait", kind="wait", path=_unless_ready, optional=True),
        Target("IMapIterator.next", module=pool, name="Pool.next", kind="wait", path=_unless_next, optional=True),
        Target("IMapIterator.__next__", module=pool, name="Pool.next", kind="wait", path=_unless_next, optional=True),
    )
