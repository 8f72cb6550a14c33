"""Opens files that a log names, for reading: regular ones on real file systems, and nothing else.

A forged log may name a FIFO, which blocks, a device, whose opening has effects,
or a file of /proc or /sys, where a read can have them.  Nothing here creates,
writes or locks a file.
"""

from __future__ import annotations

import os
import stat

from pyio_trace.insights.kernel_files import made_up_devices
from pyio_trace.insights.trials.replay import NotTried

_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY
_MOST_OPEN = 256


class Originals:
    """The files of one finding that are open.  until: when the run ended, epoch ns."""

    def __init__(self, until: int) -> None:
        self._until = until
        self._open: dict[str, int] = {}
        self._sizes: dict[str, int] = {}
        self.changed = False

    def open(self, path: str, least: int = 0) -> int:
        """A descriptor of the file, which stays open.

        Raises NotTried for anything but a regular file that has at least so many bytes.
        """
        if path not in self._open:
            if len(self._open) >= _MOST_OPEN:
                raise NotTried(f"it needs more than {_MOST_OPEN} files at a time")
            self._open[path] = self.open_anew(path)
        if self._sizes[path] < least:
            raise NotTried("a file is smaller now than what was read of it")
        return self._open[path]

    def ends(self) -> dict[int, int]:
        """Descriptor -> bytes of the file, for all that are open."""
        return {descriptor: self._sizes[path] for path, descriptor in self._open.items()}

    def open_anew(self, path: str) -> int:
        """Another descriptor, which the caller closes.  Raises NotTried."""
        if path not in self._sizes:
            check(path)
        try:
            descriptor = os.open(path, _FLAGS)
        except OSError as error:
            raise NotTried(f"a file cannot be opened: {error.strerror}") from None
        if path not in self._sizes:
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode) or status.st_dev in made_up_devices():
                os.close(descriptor)
                raise NotTried("it is not about regular files")
            self._sizes[path] = status.st_size
            self.changed |= status.st_mtime_ns > self._until
        return descriptor

    def again(self, path: str) -> int:
        """open_anew() for a file that was opened before: one system call, as in the program."""
        return os.open(path, _FLAGS)

    def close(self) -> None:
        """Closes what open() opened."""
        while self._open:
            os.close(self._open.popitem()[1])


def check(path: str, folder: bool = False) -> None:
    """Raises NotTried unless a path is that of a regular file, or of a folder, on a real file system."""
    if not os.path.isabs(path) or "\0" in path:
        raise NotTried("its files have no full paths in the log")
    try:
        status = os.lstat(path)
    except OSError as error:
        raise NotTried(f"a file cannot be opened: {error.strerror}") from None
    is_wanted = stat.S_ISDIR(status.st_mode) if folder else stat.S_ISREG(status.st_mode)
    if not is_wanted or status.st_dev in made_up_devices():
        raise NotTried("it is not about regular files")
