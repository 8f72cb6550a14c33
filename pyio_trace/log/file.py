"""A live log's file, read by pread: never mapped, never taken for larger or more solid than it is.

A log is read while its program writes, extends and cuts it, and a copy of one
may be cut by somebody else at any instant: touching a mapped page that is no
longer there is a SIGBUS, a pread of it is a short read.  The file is sparse
while it is live; what was never written is passed over without being read, so
that neither time nor memory follows a size that only the header claims.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from pyio_trace.errors import LogError
from pyio_trace.log import layout

#: Ids have 32 bits and stand for 16 bytes each: nothing can be further in.
_REACH = 1 << (32 + layout.ID_SHIFT)
#: As large as the writer's chunks are: not worth asking for holes, and some file systems (FUSE) do not know at once
#: what has been written through a map.
_TAKEN_WHOLE = 1 << 20
_SEEK_DATA, _SEEK_HOLE = getattr(os, "SEEK_DATA", None), getattr(os, "SEEK_HOLE", None)


class LogFile:
    """An open file and its size as of now.

    size: bytes that can be read; whole: bytes it has, which may be beyond all ids.
    Raises LogError no-such-log, not-a-log (nothing that is a file), log-unreadable.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._descriptor = -1
        try:
            # Asked before it is opened: opening a device or a FIFO can do something to it.
            regular = stat.S_ISREG(os.stat(path).st_mode)
            if regular:
                self._descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY)
                status = os.fstat(self._descriptor)
                regular = stat.S_ISREG(status.st_mode)
        except (FileNotFoundError, NotADirectoryError, ValueError):  # ValueError: a NUL in the name
            raise LogError("no-such-log", f"{path}: there is no such log; check the name") from None
        except OSError as error:
            raise self._unreadable(error) from None
        if not regular:
            raise LogError("not-a-log", f"{path}: not a file; name a log or a folder of logs")
        self.whole = status.st_size
        self.size = min(self.whole, _REACH)

    def __del__(self) -> None:
        if self._descriptor >= 0 and os is not None:  # it is None at the interpreter's end, as is all that is open
            os.close(self._descriptor)

    def read(self, at: int, count: int) -> bytes:
        """Up to count bytes; fewer where the file ends."""
        try:
            return os.pread(self._descriptor, count, at)
        except OSError as error:
            raise self._unreadable(error) from None

    def fill(self, at: int, into: NDArray[np.generic]) -> None:
        """Reads a contiguous array full.  Raises LogError log-truncated if the file has been cut in the meantime."""
        view = into.view(np.uint8).reshape(-1).data
        while view:
            try:
                done = os.preadv(self._descriptor, [view], at)
            except OSError as error:
                raise self._unreadable(error) from None
            if done == 0:
                raise LogError("log-truncated", f"{self.path}: was cut off while it was being read; open it again")
            view, at = view[done:], at + done

    def structs(self, offsets: NDArray[np.int64], dtype: np.dtype[np.void]) -> NDArray[np.void]:
        """The structs at these offsets, each of which lies wholly in the file."""
        found = np.empty(len(offsets), dtype)
        for number, at in enumerate(offsets.tolist()):
            self.fill(at, found[number : number + 1])
        return found

    def written(self, start: int, end: int) -> Iterator[tuple[int, int]]:
        """The stretches between start and end that are no holes, in order."""
        if end - start <= _TAKEN_WHOLE or _SEEK_DATA is None or _SEEK_HOLE is None:
            if start < end:
                yield start, end
            return
        while start < end:
            try:
                low = max(os.lseek(self._descriptor, start, _SEEK_DATA), start)
                high = min(os.lseek(self._descriptor, low, _SEEK_HOLE), end)
            except OSError:  # ENXIO: nothing but a hole, or nothing at all, from here on
                return
            if low >= end:
                return
            high = max(high, min(low + 1, end))
            yield low, high
            start = high

    def _unreadable(self, error: OSError) -> LogError:
        return LogError("log-unreadable", f"{self.path}: cannot be read: {error.strerror}")
