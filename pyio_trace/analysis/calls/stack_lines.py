"""Which lines of the program a folded stack has, and which library function each of them has called.

The function that a line has called is the outermost one of a library beneath it:
json.loads, and not what json.loads calls.  An import is one such call.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from pyio_trace.join.references.own_code import (
    COMMAND,
    COMMANDS_FILE,
    OwnCode,
    in_pyio_trace,
    library_of,
    module_of,
)

_MACHINERY = "<frozen importlib"
#: Frames of event loops that wait for what happens next.
_LOOP = re.compile(r"/asyncio/base_events\.py:\d+:(BaseEventLoop\.)?run_forever$|/uvloop/__init__\.py:\d+:run$")
#: Code of pools; and all files whose functions are around their tasks.
_SERVES = re.compile(r"/(concurrent/futures/\w+|multiprocess(ing)?/pool)\.py:")
_POOL = re.compile(r"/(threading|concurrent/futures/\w+|multiprocess(ing)?/\w+)\.py$|^<")
#: Files that code made by exec() has too, beside that of `python -c` and of a program read from standard input.
_UNNAMED = (f"{COMMANDS_FILE}:", "<stdin>:")
#: What the command of a helper of multiprocessing runs; the command is not the program's.
_HELPER = re.compile(r"/multiprocess(ing)?/(spawn|forkserver|resource_tracker)\.py:\d+:(\w+_)?main$")
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
        self._kinds: dict[tuple[str, bool], bool] = {}
        self._names: dict[str, str] = {}

    def of(self, stack: str) -> list[Line]:
        """The program's lines on a stack, each once, the innermost last; none for a stack of libraries alone."""
        frames = [frame for frame in stack.split(";") if frame != _CUT]
        own = self._own_frames(stack)
        found: dict[str, str] = {}
        called = ""
        for at in range(len(frames) - 1, -1, -1):
            frame = frames[at]
            if own[at]:
                if not (at and _is_part(frame, frames[at - 1])):
                    found.setdefault(frame, called)
            elif not in_pyio_trace(frame.rsplit(":", 2)[0]):
                called = self._import(frames[at + 1 :]) if frame.startswith(_MACHINERY) else self._name(frame)
        return [Line(line, called) for line, called in reversed(found.items())]

    def loops(self, stack: str) -> bool:
        """Whether an event loop runs there, and no line of the program beneath it."""
        frames = [frame for frame in stack.split(";") if frame != _CUT]
        for frame, own in zip(reversed(frames), reversed(self._own_frames(stack)), strict=True):
            if _LOOP.search(frame):
                return True
            if own:
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

    def _own_frames(self, stack: str) -> list[bool]:
        """By frame but "...": whether it is a line of the program.

        Code that exec() has made has no source line: it belongs to the line of a file that runs it.  The program itself
        has no file either where it is a command or standard input; then that is the outermost frame, or, in a thread,
        no line of a file is around it.
        """
        frames = stack.split(";")
        whole = frames[0] != _CUT
        frames = frames if whole else frames[1:]
        unnamed = bool(frames) and frames[0].startswith(_UNNAMED)
        found: list[bool] = []
        in_file = False
        for at, frame in enumerate(frames):
            own = self._is_own(frame, whole and not at) and not (in_file and frame.startswith(_UNNAMED))
            in_file |= own and not (unnamed or frame.startswith("<"))
            found.append(own)
        if unnamed and len(frames) > 1 and _HELPER.search(frames[1]):
            found[0] = False
        return found

    def _is_own(self, frame: str, outermost: bool = False) -> bool:
        key = frame, outermost
        if key not in self._kinds:
            file, _, function = frame.rsplit(":", 2) if frame.count(":") > 1 else (frame, "", "")
            self._kinds[key] = self._own.kind(file, function, outermost) <= COMMAND
        return self._kinds[key]

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
