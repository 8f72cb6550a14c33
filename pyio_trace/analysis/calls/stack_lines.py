"""Which lines of the program a folded stack has, and which library function each of them has called.

The function that a line has called is the outermost one of a library beneath it:
json.loads, and not what json.loads calls.  An import is one such call.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from pyio_trace.join.references.own_code import OwnCode, in_pyio_trace, library_of, module_of

_MACHINERY = "<frozen importlib"
#: Frames of event loops that wait for what happens next.
_LOOP = re.compile(r"/asyncio/base_events\.py:\d+:(BaseEventLoop\.)?run_forever$|/uvloop/__init__\.py:\d+:run$")
#: Code of pools; and all files whose functions are around their tasks.
_SERVES = re.compile(r"/(concurrent/futures/\w+|multiprocess(ing)?/pool)\.py:")
_POOL = re.compile(r"/(threading|concurrent/futures/\w+|multiprocess(ing)?/\w+)\.py$|^<")
#: What a folded stack begins with whose outer frames are not known.
_CUT = "..."


class Line(NamedTuple):
    """A line of the program on a stack.  called: the library function, "": the program's own code runs there."""

    line: str
    called: str


class StackLines:
    """Stacks of one log."""

    def __init__(self, own: OwnCode) -> None:
        self._own = own
        self._kinds: dict[str, bool] = {}
        self._names: dict[str, str] = {}

    def of(self, stack: str) -> list[Line]:
        """The program's lines on a stack, each once, the innermost last; none for a stack of libraries alone."""
        frames = [frame for frame in stack.split(";") if frame != _CUT]
        found: dict[str, str] = {}
        called = ""
        for at in range(len(frames) - 1, -1, -1):
            frame = frames[at]
            if self._is_own(frame):
                if not (at and _is_part(frame, frames[at - 1])):
                    found.setdefault(frame, called)
            elif not in_pyio_trace(frame.rsplit(":", 2)[0]):
                called = self._import(frames[at + 1 :]) if frame.startswith(_MACHINERY) else self._name(frame)
        return [Line(line, called) for line, called in reversed(found.items())]

    def loops(self, stack: str) -> bool:
        """Whether an event loop runs there, and no line of the program beneath it."""
        for frame in reversed(stack.split(";")):
            if _LOOP.search(frame):
                return True
            if self._is_own(frame):
                return False
        return False

    def submitted(self, line: str, stack: str, own: list[Line], looping: bool) -> list[Line]:
        """The lines of a stack, own, and the one that submitted the task for which it runs, or waits: looping."""
        others = [one for one in own if one.line != line]
        if looping:
            return [*others, Line(line, "")]
        return own if len(others) < len(own) else [Line(line, "" if own else self._task(stack)), *own]

    def _task(self, stack: str) -> str:
        """The library function that a pool was given."""
        for frame in stack.split(";"):
            file = frame.rsplit(":", 2)[0]
            if frame != _CUT and not _POOL.search(file) and not in_pyio_trace(file):
                return self._name(frame)
        return ""

    def _is_own(self, frame: str) -> bool:
        if frame not in self._kinds:
            self._kinds[frame] = self._own.is_own(frame)
        return self._kinds[frame]

    def _import(self, beneath: list[str]) -> str:
        """An import, by the package that it loads."""
        for frame in beneath:
            if frame.startswith("<frozen "):
                continue
            library = "" if self._is_own(frame) else library_of(frame)
            return f"import {self._name(frame).partition('.')[0] if library == 'Python' else library}".rstrip()
        return "import"

    def _name(self, frame: str) -> str:
        if frame not in self._names:
            file, _, function = frame.rsplit(":", 2) if frame.count(":") > 1 else (frame, "", "")
            self._names[frame] = f"{module_of(file)}.{function}".strip(".")
        return self._names[frame]


def serves_pools(stack: str) -> bool:
    """Whether a pool's code is on a stack."""
    return _SERVES.search(stack) is not None


def place_of(line: str) -> str:
    """file:line of file:line:function."""
    return line.rpartition(":")[0]


def _is_part(frame: str, caller: str) -> bool:
    """Whether a frame is of a comprehension, a generator expression or a lambda in the line that runs it."""
    function = frame.rpartition(":")[2]
    return function.endswith(">") and function != "<module>" and place_of(frame) == place_of(caller)
