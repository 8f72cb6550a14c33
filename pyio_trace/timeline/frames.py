"""Call stacks of a log as trees of frames."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from pyio_trace.errors import printable

#: What stands for a stack that is not known.
NO_STACK = "(no stack)"


class Frame(NamedTuple):
    """A frame of a call stack: file:line:function; a text of another form is a function.  line: 0: not known."""

    function: str
    file: str
    line: int


def frame_of(text: str) -> Frame:
    """The frame that a text of a folded stack names."""
    parts = text.rsplit(":", 2)
    if len(parts) < 3 or not (parts[1].isascii() and parts[1].isdecimal() and len(parts[1]) < 10):
        return Frame(printable(text), "", 0)
    return Frame(printable(parts[2]), printable(parts[0]), int(parts[1]))


class Frames:
    """Numbers for frames, and for stacks of them, as they are met.

    frames: by number.  stacks: (number of the stack around it, -1 none; number of
    its frame), by number.
    """

    def __init__(self) -> None:
        self.frames: list[Frame] = []
        self.stacks: list[tuple[int, int]] = []
        self._by_text: dict[str, int] = {}
        self._by_frame: dict[Frame, int] = {}
        self._by_stack: dict[tuple[int, int], int] = {}

    def frame(self, text: str) -> int:
        """The number of the frame that a text names."""
        found = self._by_text.get(text)
        if found is None:
            found = self._by_text[text] = self.number(frame_of(text))
        return found

    def number(self, frame: Frame) -> int:
        """The number of a frame."""
        found = self._by_frame.setdefault(frame, len(self.frames))
        if found == len(self.frames):
            self.frames.append(frame)
        return found

    def stack(self, frames: Iterable[int]) -> int:
        """The number of a stack, given by its frames, outermost first; -1 of none."""
        at = -1
        for frame in frames:
            key = at, frame
            at = self._by_stack.setdefault(key, len(self.stacks))
            if at == len(self.stacks):
                self.stacks.append(key)
        return at

    def of(self, folded: str | None) -> list[int]:
        """The frames of a folded stack, outermost first."""
        return list(map(self.frame, folded.split(";"))) if folded else [self.frame(NO_STACK)]
