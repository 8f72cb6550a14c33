"""Opens files that a log names, for reading: regular ones on real file systems, and nothing else.

A forged log may name a FIFO, which blocks, a device, whose opening has effects,
or a file of /proc or /sys, where a read can have them.  And a path may come to
lead to one while it is tried.  So what is at a path is held once, without being
opened (held_paths.py), checked, and then opened through that as often as
needed.  No other module of the trials opens a path of the log.  Nothing here
creates, writes or locks a file.
"""

from __future__ import annotations

import os
import resource
import stat

from pyio_trace.held_paths import hold, reopened
from pyio_trace.insights.kernel_files import made_up_devices
from pyio_trace.insights.trials.replay import NotTried

_MOST_OPEN = 256
_MOST_HELD = 1 << 16
#: Descriptors that are left free for other uses.
_SPARE = 300


class Originals:
    """The files of one finding that are open.  until: when the run ended, epoch ns."""

    def __init__(self, until: int) -> None:
        self._until = until
        self._held: dict[str, int] = {}
        self._open: dict[str, int] = {}
        self._sizes: dict[str, int] = {}
        self._limits = resource.getrlimit(resource.RLIMIT_NOFILE)
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
        if path not in self._held:
            status = self.hold(path)
            self._sizes[path] = status.st_size
            self.changed |= status.st_mtime_ns > self._until
        try:
            return self.again(path)
        except OSError as error:
            raise NotTried(f"a file cannot be opened: {error.strerror}") from None

    def again(self, path: str) -> int:
        """open_anew() for a file that was opened before: one system call, as in the program."""
        return reopened(self._held[path])

    def hold(self, path: str, folder: bool = False) -> os.stat_result:
        """Holds a regular file, or a folder, on a real file system; its status.  Raises NotTried for anything else."""
        if path not in self._held:
            self._make_room()
            self._held[path] = _held(path)
        status = os.fstat(self._held[path])
        is_wanted = stat.S_ISDIR(status.st_mode) if folder else stat.S_ISREG(status.st_mode)
        if not is_wanted or status.st_dev in made_up_devices():
            os.close(self._held.pop(path))
            raise NotTried("it is not about regular files")
        return status

    def listed(self, path: str) -> list[str]:
        """The names in a folder that is held.  Raises OSError."""
        descriptor = reopened(self._held[path], os.O_RDONLY | os.O_DIRECTORY)
        try:
            return os.listdir(descriptor)
        finally:
            os.close(descriptor)

    def close(self) -> None:
        """Closes all that is open and held."""
        for some in (self._open, self._held):
            while some:
                os.close(some.popitem()[1])
        resource.setrlimit(resource.RLIMIT_NOFILE, self._limits)

    def _make_room(self) -> None:
        """Lets so many descriptors be open.  Raises NotTried if there are too many files."""
        needed, (_, hard) = len(self._held) + len(self._open) + _SPARE, self._limits
        most = _MOST_HELD if hard == resource.RLIM_INFINITY else min(_MOST_HELD, hard)
        if len(self._held) and needed > most:
            raise NotTried(f"it needs more than {len(self._held)} files at a time")
        soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        if soft != resource.RLIM_INFINITY and needed > soft:
            resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))


def _held(path: str) -> int:
    """A descriptor that holds what is there; the last part of the path is no link.  Raises NotTried."""
    if not os.path.isabs(path) or "\0" in path:
        raise NotTried("its files have no full paths in the log")
    folder, name = os.path.split(path.rstrip("/"))
    try:
        return hold(os.path.join(os.path.realpath(folder), name))
    except OSError as error:
        if stat.S_ISLNK(_mode(path)):
            raise NotTried("it is not about regular files") from None
        raise NotTried(f"a file cannot be opened: {error.strerror}") from None


def _mode(path: str) -> int:
    try:
        return os.lstat(path).st_mode
    except OSError:
        return 0
