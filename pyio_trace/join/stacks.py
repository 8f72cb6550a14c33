"""Stacks and sites as text, each worked out once.

The site of an operation is the innermost line of the program's own code: what
a person can change.  Lines of the standard library, of installed packages and
of pyio_trace itself are passed over as long as there is any other.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pyio_trace.log.heap import Heap, HeapSlots

_LIBRARY = re.compile(
    r"/lib(?:64)?/(?:python|pypy)\d+(?:\.\d+)?t?/|/(?:site|dist)-packages/|^<frozen |^<__array_function__"
)
_IMPORT = re.compile(r"^<frozen (?:importlib|zipimport)|/python\d+\.\d+t?/importlib/|/python\d+\.\d+t?/zipimport\.py$")
_OURS = str(Path(__file__).resolve().parents[1]) + "/"
#: Forged logs only: no real name is longer.
_LONGEST_NAME = 4096
_LONGEST_STACK = 1 << 18


class _Code(NamedTuple):
    """A code object as its frames show it."""

    file: str
    function: str
    library: bool
    importing: bool


def in_library(file: str) -> bool:
    """Whether a source file belongs to the standard library, an installed package or pyio_trace."""
    return _LIBRARY.search(file) is not None or file.startswith(_OURS)


def of_import(file: str) -> bool:
    """Whether a source file is part of Python's import machinery."""
    return _IMPORT.search(file) is not None


class Stacks:
    """Tables by heap slot: site and stack (index into sites and folded, or -1), imported.

    sites, folded: the distinct texts.
    """

    def __init__(self, heap: Heap, slots: HeapSlots, used: NDArray[np.int64]) -> None:
        self._heap = heap
        self._texts: dict[int, str] = {}
        self._codes: dict[int, _Code] = {}
        self._sites: dict[str, int] = {}
        self._folded: dict[str, int] = {}
        self.site = np.full(slots.count, -1, np.int32)
        self.stack = np.full(slots.count, -1, np.int32)
        self.imported = np.zeros(slots.count, np.bool_)
        found = [self._one(identity) for identity in used.tolist()]
        if found:
            at = slots.of(used.astype(np.uint32))
            columns = np.array(found, np.int32)
            self.site[at], self.stack[at], self.imported[at] = columns[:, 0], columns[:, 1], columns[:, 2] != 0
        self.sites = list(self._sites)
        self.folded = list(self._folded)

    def _one(self, identity: int) -> tuple[int, int, int]:
        """(site, folded, imported) of one stack."""
        found = self._heap.frames(identity)
        if found is None or not found[0]:
            return -1, -1, 0
        frames, truncated = found
        texts: list[str] = []
        site: str | None = None
        length = 0
        for number, line in frames:  # innermost first
            code = self._code(number)
            texts.append(f"{code.file}:{line}:{code.function}")
            if site is None and not code.library:
                site = texts[-1]
            length += len(texts[-1]) + 1
            if length > _LONGEST_STACK:
                truncated = True
                break
        if truncated:
            texts.append("...")
        if not self._heap.room_for("stacks", length):
            return -1, -1, 0
        return (
            self._sites.setdefault(site or texts[0], len(self._sites)),
            self._folded.setdefault(";".join(reversed(texts)), len(self._folded)),
            int(self._code(frames[0][0]).importing),
        )

    def _code(self, identity: int) -> _Code:
        if identity not in self._codes:
            found = self._heap.code(identity)
            file, function = ("?", "?") if found is None else (self._text(found[0]), self._text(found[1]))
            self._codes[identity] = _Code(file, function, in_library(file), of_import(file))
        return self._codes[identity]

    def _text(self, identity: int) -> str:
        if identity not in self._texts:
            text = self._heap.text(identity)
            # A ; in a name would look like the border of two frames.
            self._texts[identity] = "?" if text is None else text[:_LONGEST_NAME].replace(";", "\\x3b")
        return self._texts[identity]
