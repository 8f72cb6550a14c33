"""Bytes that come in pieces, read from the front."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from pyio_trace.log.foreign_log import cut_short, damaged


class ByteReader:
    """A part of a log, whose pieces are read when they are needed."""

    def __init__(self, pieces: Iterator[bytes], path: Path, what: str) -> None:
        """what: the part, as errors name it."""
        self._pieces, self._path, self._what = pieces, path, what
        self._have = bytearray()

    def _fill(self, size: int) -> bool:
        """Whether there are so many bytes."""
        while len(self._have) < size:
            piece = next(self._pieces, None)
            if piece is None:
                return False
            self._have += piece
        return True

    def _taken(self, size: int) -> bytes:
        found = bytes(memoryview(self._have)[:size])
        del self._have[:size]
        return found

    def read(self, size: int) -> bytes | None:
        """So many bytes; None: there are none left.  Raises LogError log-truncated where there are fewer."""
        if self._fill(size):
            return self._taken(size)
        if self._have:
            raise cut_short(self._path, f"the last of its {self._what} is cut off")
        return None

    def exactly(self, count: int, size: int) -> bytes:
        """count times so many bytes.  Raises LogError where there are fewer, or count is negative."""
        if count < 0:
            raise damaged(self._path, f"its {self._what} are damaged")
        found = self.read(count * size) if count else b""
        if found is None:
            raise cut_short(self._path, f"the last of its {self._what} is cut off")
        return found

    def some(self, size: int) -> bytes:
        """All bytes that are at hand, as a multiple of so many; empty: there are none left."""
        if not self._fill(size):
            self.read(size)
            return b""
        return self._taken(len(self._have) // size * size)

    def until_zero(self, most: int) -> bytes:
        """What is before the next zero byte, which is read too."""
        begin = 0
        while (at := self._have.find(0, begin)) < 0:
            begin = len(self._have)
            if begin > most or not self._fill(begin + 1):
                raise damaged(self._path, f"its {self._what} are damaged")
        return self._taken(at + 1)[:-1]
