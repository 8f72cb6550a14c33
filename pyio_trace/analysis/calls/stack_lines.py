"""Which lines of the program a folded stack has, and which library function each of them has called.

The function that a line has called is the outermost one of a library beneath it:
json.loads, and not what json.loads calls.  An import is one such call.
"""

from __future__ import annotations

from typing import NamedTuple

from pyio_trace.join.references.own_code import OwnCode, in_pyio_trace, library_of, module_of

_MACHINERY = "<frozen importlib"
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


def place_of(line: str) -> str:
    """file:line of file:line:function."""
    return line.rpartition(":")[0]


def _is_part(frame: str, caller: str) -> bool:
    """Whether a frame is of a comprehension, a generator expression or a lambda in the line that runs it."""
    function = frame.rpartition(":")[2]
    return function.endswith(">") and function != "<module>" and place_of(frame) == place_of(caller)
