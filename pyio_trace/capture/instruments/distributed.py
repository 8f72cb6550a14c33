"""Dask's distributed: each task that a worker runs, in any of its executors; what a worker's process is called.

Two functions run tasks; their names differ by version.  The key is in the
thread's state or in the task itself.  Coroutines are tasks too: they run in the
worker's event loop, step by step.  So the one function that awaits them is
replaced by one that opens a span around that; instrument_registry.py keeps the span out of
other tasks' steps.
"""

from __future__ import annotations

import sys

from pyio_trace import native
from pyio_trace.capture.instrumentation.instrument import MARKS, Instrument, Target
from pyio_trace.capture.instruments.dask import named
from pyio_trace.enums import Layer

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import ModuleType
    from typing import Any

_WORKER = "distributed.worker"
_RUNNERS = ("_run_task_simple", "apply_function_simple")  # new, old
_ASYNC = "_run_task_async"

_undo: tuple[ModuleType, Any, Any] | None = None


def _key(task: Any) -> Any:
    """The key of the task that this thread runs, from the thread's state; in a process pool, from the task."""
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


def name_worker(worker: Any) -> None:
    """Worker._register_with_scheduler: the worker has its address.

    A worker without a nanny may be one of several in a process, which is the
    program's own (LocalCluster(processes=False)) and keeps its name.
    """
    if native.core is not None and (worker.nanny is not None or _is_worker_program()):
        native.core.name_process("Dask worker", f"Dask worker {worker.address.rpartition('://')[2]}")


def _is_worker_program() -> bool:
    """dask worker, dask-worker, python -m distributed.cli.dask_worker"""
    words = [word.rpartition("/")[2] for word in sys.orig_argv[1:4]]
    return "dask-worker" in words or "distributed.cli.dask_worker" in words or words[:2] == ["dask", "worker"]


def _wrap_worker(module: ModuleType) -> None:
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
        begun = span.begin("task", Layer.APP, None, None if key is None else dumps(named(key)))
        try:
            return await original(task, *args, **kwargs)
        finally:
            if begun:
                span.end()

    setattr(module, _ASYNC, run_task)
    _undo = module, original, run_task


def _arm(module: ModuleType) -> None:
    from pyio_trace.capture.instrumentation import import_hooks

    import_hooks.watch(_WORKER, _wrap_worker)


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
        # a version has one of the two; it runs in the thread, or in the pool's process, that runs the task
        *(
            Target(name, module=_WORKER, name="task", kind="container", details=_task, after=_ended, optional=True)
            for name in _RUNNERS
        ),
        Target("_run_actor", module=_WORKER, name="task", kind="container", details=_actor, optional=True),
        Target("apply_function_actor", module=_WORKER, name="task", kind="container", details=_actor, optional=True),
        Target("Worker._register_with_scheduler", module=_WORKER, hands_over=MARKS, details=name_worker, optional=True),
        # where a program waits for its results; compute() gathers them too
        Target("Client.gather", module="distributed.client", kind="wait", optional=True),
        Target("Future.result", module="distributed.client", kind="wait", optional=True),
    ),
    arm=_arm,
    disarm=_disarm,
)
