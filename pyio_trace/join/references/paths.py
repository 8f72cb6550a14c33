"""Absolute paths of the strings that a log's records and descriptors name."""

from __future__ import annotations

import os

from pyio_trace.log.heap import Heap

#: The kernel accepts no path much longer; a forged chain of bases could make one.
_LONGEST = 1 << 15
_DEEPEST = 16


class Paths:
    """Absolute paths by string id, each worked out once; all distinct ones are in `texts`."""

    def __init__(self, heap: Heap) -> None:
        self._heap = heap
        self._bytes: dict[int, bytes | None] = {}
        self._index: dict[str, int] = {}
        self.texts: list[str] = []

    def index(self, identity: int) -> int:
        """The index in texts of a string's path; -1: missing."""
        raw = self._absolute(identity, 0)
        if raw is None:
            return -1
        text = raw.decode("utf-8", "backslashreplace")
        at = self._index.get(text, -1)
        if at < 0 and self._heap.room_for("paths", len(text)):
            at = self._index[text] = len(self.texts)
            self.texts.append(text)
        return at

    def _absolute(self, identity: int, depth: int) -> bytes | None:
        if identity in self._bytes:
            return self._bytes[identity]
        found = self._heap.string(identity)
        if found is None:
            result = None
        else:
            path, base = found
            if base and depth < _DEEPEST and not path.startswith(b"/"):
                start = self._absolute(base, depth + 1)
                path = path if start is None else start + b"/" + path
            result = normal(path[:_LONGEST])
        self._bytes[identity] = result
        return result


def normal(path: bytes) -> bytes:
    """A path without `//`, `.` and (lexically) `..`; symbolic links and relative paths stay as they are."""
    if not path.startswith(b"/") or (b"//" not in path and b"/." not in path and not path.endswith(b"/")):
        return path
    plain = os.path.normpath(path)
    return plain[1:] if plain.startswith(b"//") else plain
