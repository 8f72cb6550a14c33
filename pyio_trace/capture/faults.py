"""Whether an exception that came out of code of ours is the program's own.

What an instrument asks for is Python code that runs in the middle of the
program's.  So a signal's handler may run in it (Ctrl-C, an alarm that ends what
takes too long), and another thread may throw something into it
(PyThreadState_SetAsyncExc, by which timeouts end threads).  That is the
program's, and must reach it, without our frames in its traceback.
Called by csrc/ext/asking.c, where instruments are armed and where they catch, and only when something has been raised.
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
    """(what the program is to see of the traceback,), or None: it is a fault of ours.

    trace: as it came out of our code.
    """
    handler = handlers_part(trace)
    if handler is not None:
        return (handler,)
    # KeyboardInterrupt, SystemExit, a framework's own way to stop: never a mistake of ours
    if not issubclass(kind, Exception) or _was_thrown(kind, value, trace):
        ours = _ours(trace)
        while trace is not None and _package(trace.tb_frame) in ours:
            trace = trace.tb_next
        return (trace,)
    return None


def is_the_programs(problem: Exception) -> bool:
    """Of what an instrument has caught: whether it must go on."""
    return the_programs(type(problem), problem, problem.__traceback__) is not None


def came_from_outside(problem: BaseException) -> bool:
    """Of what was raised while an instrument is armed or undone: whether it is Ctrl-C, or a signal's handler's."""
    return isinstance(problem, KeyboardInterrupt) or handlers_part(problem.__traceback__) is not None


def handlers_part(trace: TracebackType | None) -> TracebackType | None:
    """From the frame of a signal's handler on; None: there is none in it."""
    module = sys.modules.get("signal")
    if module is None:
        return None
    handlers = {_code(module.getsignal(number)) for number in range(1, module.NSIG)} - {None}
    while trace is not None:
        frame = trace.tb_frame
        if frame.f_code in handlers or _was_given_the_frame_below(frame):
            return trace
        trace = trace.tb_next
    return None


def _code(handler: object) -> object:
    """Of a function, a method, a partial, an object that is called."""
    while type(handler).__name__ == "partial":
        handler = getattr(handler, "func", None)
    found = getattr(handler, "__code__", None)
    if found is None and callable(handler):
        found = getattr(type(handler).__call__, "__code__", None)
    return found


def _was_given_the_frame_below(frame: FrameType) -> bool:
    """Only a signal's handler is: one that has put another into its place meanwhile, too."""
    below, code = frame.f_back, frame.f_code
    names = code.co_varnames[: code.co_argcount][:3]
    return below is not None and any(frame.f_locals.get(name) is below for name in names)


def _was_thrown(kind: type[BaseException], value: BaseException, trace: TracebackType | None) -> bool:
    """By another thread: made without a word, by no statement, and of nobody whose code ran here.

    Of the builtin ones, what Python itself raises without a word is taken for its own.
    """
    if value.args:
        return False
    packages, last = _ours(trace), None
    while trace is not None:
        packages.add(_package(trace.tb_frame))
        trace, last = trace.tb_next, trace
    if last is not None and last.tb_lasti >= 0 and last.tb_frame.f_code.co_code[last.tb_lasti] == _RAISE:
        return False
    if kind.__module__ == "builtins":
        return not issubclass(kind, _WITHOUT_A_WORD)
    return kind.__module__.partition(".")[0] not in packages


def _raises(problem: BaseException) -> None:
    raise problem


#: The instruction of `raise` and `assert`, which this function ends with.
_RAISE = _raises.__code__.co_code[-2]
_WITHOUT_A_WORD = (StopIteration, StopAsyncIteration, MemoryError, AssertionError, LookupError, EOFError)


def _ours(trace: TracebackType | None) -> set[str]:
    """The packages of what is ours: what was asked may be in a third party's."""
    return {_OURS} if trace is None else {_OURS, _package(trace.tb_frame)}


def _package(frame: FrameType) -> str:
    return str(frame.f_globals.get("__name__", "")).partition(".")[0]
