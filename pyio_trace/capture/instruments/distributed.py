"""Dask's distributed: every task that a worker runs, in whichever of its executors.

Two functions run tasks, and which of them a version has under which name
differs; the key is in the thread's state, or in the task itself.  Coroutines
are tasks too: they run in the worker's event loop, a step at a time, so the
one function that awaits them is exchanged for one that opens a span around
that; capture/threads.py keeps it apart from other tasks' steps.
"""

from __future__ import annotations

import sys

from pyio_trace import native
from pyio_trace.capture.instrument import Instrument, Target
from pyio_trace.capture.instruments.dask import named

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import ModuleType
    from typing import Any

_APP = 0  # enum pt_layer
_WORKER = "distributed.worker"
_RUNNERS = ("_run_task_simple", "apply_function_simple")  # new, old
_ASYNC = "_run_task_async"

_undo: tuple[ModuleType, Any, Any] | None = None


def _key(task: Any) -> Any:
    """Of the task that this thread runs: the worker has told the thread; in a pool of processes, the task knows."""
    utils = sys.modules.get("distributed.utils")
    key = getattr(getattr(utils, "thread_state", None), "key", None)
    return getattr(task, "key", None) if key is None else key


def _task(task: Any, *args: Any, **kwargs: Any) -> dict[str, object] | None:
    key = _key(task)
    return None if key is None else named(key)


def _ended(result: Any, *args: Any, **kwargs: Any) -> dict[str, object] | None:
    if not isinstance(result, dict) or result.get("op") != "task-erred":
        return None
    raised = result.get("actual_exception", result.get("actual-exception"))  # new, old
    return {"failed": True, "raised": type(raised).__name__}


def _actor(func: Any, args: Any, kwargs: Any, execution_state: Any, key: Any, *rest: Any) -> dict[str, object]:
    return {"key": str(key), "prefix": str(key)}  # such as "Counter.increment"


def _look_at_worker(module: ModuleType) -> None:
    """distributed.worker has been imported."""
    global _undo
    if not any(hasattr(module, name) for name in _RUNNERS):
        raise LookupError(f"it has none of {', '.join(_RUNNERS)}")
    original = getattr(module, _ASYNC, None)
    if original is None or native.core is None:
        return
    from functools import wraps
    from json import dumps

    core = native.core

    @wraps(original)
    async def run_task(task: Any, *args: Any, **kwargs: Any) -> Any:
        span = core.Span()
        key = getattr(task, "key", None)
        begun = span.begin("task", _APP, None, None if key is None else dumps(named(key)))
        try:
            return await original(task, *args, **kwargs)
        finally:
            if begun:
                span.end()

    setattr(module, _ASYNC, run_task)
    _undo = module, original, run_task


def _arm(module: ModuleType) -> None:
    from pyio_trace.capture import imports

    imports.watch(_WORKER, _look_at_worker)


def _disarm() -> None:
    global _undo
    if _undo is not None:
        module, original, ours = _undo
        _undo = None
        if getattr(module, _ASYNC, None) is ours:
            setattr(module, _ASYNC, original)


instrument = Instrument(
    "distributed",
    minimum="2025.1",
    targets=(
        # one of the two, by version; both run in the thread, or in the pool's process, that the task is for
        *(Target(name, module=_WORKER, name="task", details=_task, after=_ended, optional=True) for name in _RUNNERS),
        Target("_run_actor", module=_WORKER, name="task", details=_actor, optional=True),
        Target("apply_function_actor", module=_WORKER, name="task", details=_actor, optional=True),
    ),
    arm=_arm,
    disarm=_disarm,
)
