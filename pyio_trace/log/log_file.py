"""A live log's file, read by pread and never mapped.

A log may be read while its program writes, extends and cuts it, and somebody
else may truncate a copy at any moment.  Touching a mapped page beyond the end
of a file raises SIGBUS; a pread there is only short.  A live log is sparse, and
its holes are skipped: time and memory follow what was written, not the size
that the header claims.
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

#: Ids have 32 bits and stand for 16 bytes each: nothing can lie beyond.
_REACH = 1 << (32 + layout.ID_SHIFT)
#: Ranges up to the size of the writer's chunks are read whole: looking for holes costs more, and some file systems
#: (FUSE) report holes where data was just written through a mapping.
_READ_WHOLE = 1 << 20
_SEEK_DATA, _SEEK_HOLE = getattr(os, "SEEK_DATA", None), getattr(os, "SEEK_HOLE", None)


class LogFile:
    """An open file and its size as of now.

    size: bytes that ids can reach; whole: all bytes of the file; device: st_dev.
    Raises LogError no-such-log, not-a-log (no regular file), log-unreadable.
    """

    def __init__(self, path: Path, opened: int | None = None) -> None:
        """opened: a descriptor of the file, where it is open already; it is closed with this object."""
        self.path = path
        self._descriptor = -1 if opened is None else opened
        status, regular = self._open() if opened is None else (os.fstat(opened), True)
        if not regular:
            raise LogError("not-a-log", f"{path}: not a file; name a log or a folder of logs")
        self.whole, self.device = status.st_size, status.st_dev
        self.size = min(self.whole, _REACH)

    def update(self) -> None:
        """Looks at the size again, of a file that has grown or was cut."""
        try:
            self.whole = os.fstat(self._descriptor).st_size
        except OSError as error:
            raise self._unreadable(error) from None
        self.size = min(self.whole, _REACH)

    def _open(self) -> tuple[os.stat_result, bool]:
        """Its status, and whether it is a regular file."""
        path = self.path
        try:
            # Checked before opening: opening a device or a FIFO can have effects.
            status = os.stat(path)
            regular = stat.S_ISREG(status.st_mode)
            if regular:
                self._descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY)
                status = os.fstat(self._descriptor)
                regular = stat.S_ISREG(status.st_mode)
        except (FileNotFoundError, NotADirectoryError, ValueError):  # ValueError: a NUL in the name
            raise LogError("no-such-log", f"{path}: there is no such log; check the name") from None
        except OSError as error:
            raise self._unreadable(error) from None
        return status, regular

    def __del__(self) -> None:
        if self._descriptor >= 0 and os is not None:  # at interpreter exit os is None
            os.close(self._descriptor)

    def read(self, at: int, count: int) -> bytes:
        """Up to count bytes; fewer where the file ends."""
        try:
            return os.pread(self._descriptor, count, at)
        except OSError as error:
            raise self._unreadable(error) from None

    def fill(self, at: int, into: NDArray[np.generic]) -> None:
        """Fills a contiguous array.  Raises LogError log-truncated if the file has been cut in the meantime."""
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
        """The structs at these offsets, all of which must lie wholly in the file."""
        found = np.empty(len(offsets), dtype)
        for number, at in enumerate(offsets.tolist()):
            self.fill(at, found[number : number + 1])
        return found

    def written(self, start: int, end: int) -> Iterator[tuple[int, int]]:
        """The ranges between start and end that are not holes, in order."""
        if end - start <= _READ_WHOLE or _SEEK_DATA is None or _SEEK_HOLE is None:
            if start < end:
                yield start, end
            return
        while start < end:
            try:
                low = max(os.lseek(self._descriptor, start, _SEEK_DATA), start)
                high = min(os.lseek(self._descriptor, low, _SEEK_HOLE), end)
            except OSError:  # ENXIO: a hole, or the end of the file, from here on
                return
            if low >= end:
                return
            high = max(high, min(low + 1, end))
            yield low, high
            start = high

    def _unreadable(self, error: OSError) -> LogError:
        return LogError("log-unreadable", f"{self.path}: cannot be read: {error.strerror}")
