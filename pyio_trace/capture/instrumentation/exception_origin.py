"""Tells whether an exception that came out of our code belongs to the program.

An instrument's callbacks are Python code that runs in the middle of the
program.  A signal handler may run inside them (Ctrl-C, an alarm that ends a slow
call), and another thread may throw an exception into them
(PyThreadState_SetAsyncExc, with which some timeouts end threads).  Such an
exception belongs to the program and must reach it, without our frames in its
traceback.

Called by csrc/ext/watch/callback.c and where instruments are armed or catch exceptions,
and only when something was raised.
"""

from __future__ import annotations

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import FrameType, TracebackType

_OURS = __name__.partition(".")[0]


def the_programs(
    kind: type[BaseException], value: BaseException, trace: TracebackType | None
) -> tuple[TracebackType | None] | None:
    """A tuple with the part of the traceback that the program may see; None: the exception is our own fault.

    trace: as it came out of our code.
    """
    handler = handlers_part(trace)
    if handler is not None:
        return (handler,)
    # KeyboardInterrupt, SystemExit, a framework's own way to stop: never a mistake of ours
    if not issubclass(kind, Exception) or _was_thrown(kind, value, trace):
        ours = _our_packages(trace)
        while trace is not None and _package(trace.tb_frame) in ours:
            trace = trace.tb_next
        return (trace,)
    return None


def is_the_programs(problem: Exception) -> bool:
    """Whether an exception that an instrument has caught must be raised again."""
    return the_programs(type(problem), problem, problem.__traceback__) is not None


def came_from_outside(problem: BaseException) -> bool:
    """Whether an exception raised while an instrument is armed or undone is Ctrl-C, or a signal handler's."""
    return isinstance(problem, KeyboardInterrupt) or handlers_part(problem.__traceback__) is not None


def handlers_part(trace: TracebackType | None) -> TracebackType | None:
    """The traceback from a signal handler's frame on; None if there is no such frame."""
    module = sys.modules.get("signal")
    if module is None:
        return None
    handlers = {_code(module.getsignal(number)) for number in range(1, module.NSIG)} - {None}
    while trace is not None:
        frame = trace.tb_frame
        if frame.f_code in handlers or _has_argument_frame_below(frame):
            return trace
        trace = trace.tb_next
    return None


def _code(handler: object) -> object:
    """The code of a function, a method, a partial or a callable object."""
    while type(handler).__name__ == "partial":
        handler = getattr(handler, "func", None)
    found = getattr(handler, "__code__", None)
    if found is None and callable(handler):
        found = getattr(type(handler).__call__, "__code__", None)
    return found


def _has_argument_frame_below(frame: FrameType) -> bool:
    """Whether one of its arguments is the frame that it interrupted.

    Only a signal handler gets that.  This also finds a handler that has replaced itself meanwhile.
    """
    below, code = frame.f_back, frame.f_code
    names = code.co_varnames[: code.co_argcount][:3]
    return below is not None and any(frame.f_locals.get(name) is below for name in names)


def _was_thrown(kind: type[BaseException], value: BaseException, trace: TracebackType | None) -> bool:
    """Whether another thread has thrown it.

    Such an exception has no arguments, no `raise` statement raised it, and its
    class is from no package whose code ran here.  Builtin exceptions that Python
    itself raises without arguments count as Python's.
    """
    if value.args:
        return False
    packages, last = _our_packages(trace), None
    while trace is not None:
        packages.add(_package(trace.tb_frame))
        trace, last = trace.tb_next, trace
    if last is not None and last.tb_lasti >= 0 and last.tb_frame.f_code.co_code[last.tb_lasti] == _RAISE:
        return False
    if kind.__module__ == "builtins":
        return not issubclass(kind, _RAISED_WITHOUT_ARGUMENTS)
    return kind.__module__.partition(".")[0] not in packages


def _raises(problem: BaseException) -> None:
    raise problem


#: The instruction of `raise` and `assert`, which is the last one of this function.
_RAISE = _raises.__code__.co_code[-2]
_RAISED_WITHOUT_ARGUMENTS = (
    StopIteration, StopAsyncIteration, MemoryError, AssertionError, LookupError, EOFError,
)  # fmt: skip


def _our_packages(trace: TracebackType | None) -> set[str]:
    """pyio_trace, and the package of the first frame: the callback may be a third party's."""
    return {_OURS} if trace is None else {_OURS, _package(trace.tb_frame)}


def _package(frame: FrameType) -> str:
    return str(frame.f_globals.get("__name__", "")).partition(".")[0]
