"""Stacks and sites as text, each worked out once.

The site of an operation is the innermost line of the program's own code: what
a person can change.  Lines of the standard library, of installed packages and
of pyio_trace itself are passed over as long as there is any other.
"""

from __future__ import annotations

import re
from functools import cached_property
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
    """Tables by heap slot: site (index into sites, or -1), imported, and stack (index into folded, or -1).

    sites, folded: the distinct texts.  stack and folded are made when they are asked for: they take the most time.
    """

    def __init__(self, heap: Heap, slots: HeapSlots, used: NDArray[np.int64]) -> None:
        self._heap = heap
        self._used = used.tolist()
        self._at = slots.of(used.astype(np.uint32))
        self._slots = slots.count
        self._texts: dict[int, str] = {}
        self._codes: dict[int, _Code] = {}
        sites: dict[str, int] = {}
        found = [self._site(identity, sites) for identity in self._used]
        self.site = self._table([site for site, _ in found])
        self.imported = np.zeros(slots.count, np.bool_)
        self.imported[self._at] = [importing for _, importing in found]
        self.sites = list(sites)

    @property
    def stack(self) -> NDArray[np.int32]:
        return self._stacks[0]

    @property
    def folded(self) -> list[str]:
        return self._stacks[1]

    @cached_property
    def _stacks(self) -> tuple[NDArray[np.int32], list[str]]:
        folded: dict[str, int] = {}
        table = self._table([self._folded(identity, folded) for identity in self._used])
        return table, list(folded)

    def _table(self, indexes: list[int]) -> NDArray[np.int32]:
        table = np.full(self._slots, -1, np.int32)
        table[self._at] = indexes
        return table

    def _site(self, identity: int, sites: dict[str, int]) -> tuple[int, bool]:
        """(site, imported) of one stack."""
        found = self._heap.frames(identity)
        if found is None or not found[0]:
            return -1, False
        frames, _ = found
        own = (frame for frame in frames if not self._code(frame[0]).library)
        site = self._frame(*next(own, frames[0]))  # innermost first
        known = site in sites or self._heap.room_for("sites", len(site))
        return sites.setdefault(site, len(sites)) if known else -1, self._code(frames[0][0]).importing

    def _folded(self, identity: int, folded: dict[str, int]) -> int:
        """The index of one stack."""
        found = self._heap.frames(identity)
        if found is None or not found[0]:
            return -1
        frames, truncated = found
        texts: list[str] = []
        length = 0
        for frame in frames:
            texts.append(self._frame(*frame))
            length += len(texts[-1]) + 1
            if length > _LONGEST_STACK:
                truncated = True
                break
        if truncated:
            texts.append("...")
        if not self._heap.room_for("stacks", length):
            return -1
        return folded.setdefault(";".join(reversed(texts)), len(folded))

    def _frame(self, identity: int, line: int) -> str:
        code = self._code(identity)
        return f"{code.file}:{line}:{code.function}"

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
