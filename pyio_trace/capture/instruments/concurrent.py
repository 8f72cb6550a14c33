"""concurrent.futures: each callable that a thread or a process of a pool runs.

A thread pool's work items have a method that runs them, which is watched.  Its
row is made in the submitter's context, so its stack ends at the line of the
submission.  The processes of a process pool run callables in a loop, with no
function around each.  They read the callable from the item that they received,
right before they call it, and send its result back right after: the span begins
with that reading, for which the private class of the items gets a property.  The
submitter's line travels as an attribute of the item.

Libraries that run their own tasks in such pools (Dask, Ray) have their own rows for them.
"""

from __future__ import annotations

import sys

from pyio_trace import native
from pyio_trace.capture.instrumentation.instrument import MARKS, Instrument, Target
from pyio_trace.capture.instrumentation.weak_id_map import address
from pyio_trace.capture.instruments._tasks import described, members
from pyio_trace.enums import Layer

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import ModuleType
    from typing import Any

_THREADS, _PROCESSES = "concurrent.futures.thread", "concurrent.futures.process"
_SUBMITTERS = ("concurrent", "asyncio")  # packages that submit for their caller
_LINE = "_pyio_trace_line"  # of a _CallItem
_MOST_LINES = 1 << 14

_lines: dict[int, str] = {}  # by address of a work item's kwargs, until its _CallItem is made: the submitter's line
_running: list[tuple[native.core.Span, str]] = []  # the task of this worker, and members of its detail
_armed: list[tuple[type, object]] = []  # the class, and the property that it was given


def _line() -> str | None:
    """The line that submits, as FILE:LINE:FUNCTION."""
    frame = sys._getframe(2)
    while frame is not None:
        name = frame.f_globals.get("__name__")
        if type(name) is not str or name.partition(".")[0] not in _SUBMITTERS:
            return f"{frame.f_code.co_filename}:{frame.f_lineno}:{frame.f_code.co_qualname}"
        frame = frame.f_back  # type: ignore[assignment]
    return None


# ---- threads -------------------------------------------------------------------------------


def _thread_task(item: Any, *args: Any) -> Any:
    """_WorkItem.run: (no path, details); NotImplemented if it gets no row."""
    if item.future._state == "CANCELLED":
        return NotImplemented
    task = item.__dict__.get("task")  # from Python 3.14 on
    if task is None:
        task = item.__dict__["fn"], item.__dict__["args"]
    if type(task) is not tuple or not callable(task[0]):
        return NotImplemented
    details = described(task[0], task[1])
    return NotImplemented if details is None else (None, details)


def _thread_ended(result: Any, item: Any, *args: Any) -> dict[str, object] | None:
    raised = item.future._exception
    return None if raised is None else {"failed": True, "raised": type(raised).__name__}


# ---- processes: the submitter ------------------------------------------------------------


def _submitted(item: Any, future: Any, function: Any, args: Any, kwargs: Any) -> None:
    """_WorkItem.__init__: in the thread that submits."""
    line = _line()
    if line is not None and len(_lines) < _MOST_LINES:
        _lines[address(kwargs)] = line


def _sent(result: Any, item: Any, work_id: Any, function: Any, args: Any, kwargs: Any) -> None:
    """_CallItem.__init__: in the executor's thread, before the item is pickled."""
    line = _lines.pop(address(kwargs), None)
    if line is not None:
        item.__dict__[_LINE] = line


# ---- processes: the worker -----------------------------------------------------------------


def _callable_of(item: Any) -> Any:
    """_CallItem.fn, which the worker reads when it is about to call it."""
    function = item.__dict__["fn"]
    try:
        _begin(item, function)
    except Exception:  # the task runs without its row
        del _running[:]
    return function


def _begin(item: Any, function: Any) -> None:
    core = native.core
    details = described(function, item.__dict__["args"]) if core is not None else None
    if core is None or details is None:
        return
    details["key"] = f"{details['prefix']}-{item.__dict__['work_id']}"
    line = item.__dict__.get(_LINE)
    if line is not None:
        details["submitted"] = line
    known = members(details)
    span = core.Span()
    if span.begin("pool.task", Layer.APP, None, "{" + known + "}"):
        _running[:] = [(span, known)]


def _set_callable(item: Any, function: Any) -> None:
    item.__dict__["fn"] = function


def _returned(*args: Any, **kwargs: Any) -> None:
    """_sendback_result: the callable has returned; or it has raised, and its task is over."""
    if _running:
        _running.pop()[0].end()


def _raised(holder: Any, problem: Any, trace: Any) -> None:
    """_ExceptionWithTraceback.__init__: the callable has raised.  This reads source files for the traceback."""
    if _running:
        span, known = _running.pop()
        failed = members({"failed": True, "raised": type(problem).__name__})
        span.end(None, 0, "{" + ", ".join(filter(None, (known, failed))) + "}")


def _arm_processes(module: ModuleType) -> None:
    owner = module._CallItem
    if native.core is None or "fn" in vars(owner):
        return
    ours = property(native.core.untraced(_callable_of), native.core.untraced(_set_callable))
    owner.fn = ours
    _armed.append((owner, ours))


def _arm(module: ModuleType) -> None:
    from pyio_trace.capture.instrumentation import import_hooks

    import_hooks.watch(_PROCESSES, _arm_processes)


def _disarm() -> None:
    for owner, ours in _armed:
        if vars(owner).get("fn") is ours:
            del owner.fn  # type: ignore[attr-defined]
    del _armed[:], _running[:]
    _lines.clear()


instrument = Instrument(
    "concurrent",
    version=lambda module: None,
    targets=(
        Target(
            "_WorkItem.run", module=_THREADS, name="thread.task", kind="container", path=_thread_task,
            after=_thread_ended,
        ),
        Target("_WorkItem.__init__", module=_PROCESSES, details=_submitted, hands_over=MARKS),
        Target("_CallItem.__init__", module=_PROCESSES, after=_sent, hands_over=MARKS),
        Target("_sendback_result", module=_PROCESSES, details=_returned, hands_over=MARKS),
        Target("_ExceptionWithTraceback.__init__", module=_PROCESSES, details=_raised, hands_over=MARKS),
    ),
    arm=_arm,
    disarm=_disarm,
)  # fmt: skip
