"""The only folder that a trial writes to: a new one on the file system that the finding is about, removed afterwards.

It is made in a folder that is held (held_paths.py) and whose path nobody else can
change, and all files are opened through its descriptor, so nothing that somebody
else puts in its place is ever followed or emptied.
"""

from __future__ import annotations

import errno
import os
import secrets
import stat
import tempfile
from collections.abc import Iterator
from contextlib import suppress

from pyio_trace.held_paths import hold, no_other_may_rename
from pyio_trace.insights.trials.replay import NotTried
from pyio_trace.units import size

PREFIX = ".pyio-trace-verify-"
#: A trial may fill so many bytes, and no more than this share of what is free.
MOST_BYTES = 1 << 30
_SHARE = 0.1
_NEW = os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC
_OLD = os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class Scratch:
    """A folder of mode 0700.  Use it in a with statement."""

    def __init__(self, near: str) -> None:
        """near: a path of the log, on whose file system it is made.  Raises NotTried if it cannot be."""
        self._names = 0
        device = _device_of(near)
        for folder in _folders(os.path.realpath(near)):
            with suppress(OSError):
                self._make_in(_usable(folder, device))
                return
        raise NotTried("no scratch folder can be made on this file system")

    def _make_in(self, parent: int) -> None:
        """parent: a descriptor of the folder, which is closed with the scratch folder.  Raises OSError."""
        self._parent, self._folder = parent, -1
        self._name = PREFIX + secrets.token_hex(6)
        try:
            os.mkdir(self._name, 0o700, dir_fd=parent)
            self._folder = os.open(self._name, _FOLDER, dir_fd=parent)
            self._status = os.fstat(self._folder)
            if self._status.st_uid != os.geteuid() or stat.S_IMODE(self._status.st_mode) != 0o700:
                raise PermissionError(errno.EACCES, "another folder has come to be there")
            if os.listdir(self._folder):
                raise OSError(errno.ENOTEMPTY, "another folder has come to be there")
            space = os.fstatvfs(self._folder)
        except BaseException:
            for descriptor in (self._folder, parent):
                if descriptor >= 0:
                    os.close(descriptor)
            raise
        self.room = min(MOST_BYTES, int(space.f_bavail * space.f_frsize * _SHARE))

    def __enter__(self) -> Scratch:
        return self

    def __exit__(self, *_: object) -> None:
        self.remove()

    def remove(self) -> None:
        """Removes the folder with all that is in it."""
        self.clear()
        with suppress(OSError):
            if os.path.samestat(os.lstat(self._name, dir_fd=self._parent), self._status):
                os.rmdir(self._name, dir_fd=self._parent)
        os.close(self._folder)
        os.close(self._parent)

    def clear(self) -> None:
        """Removes all that is in it."""
        _empty(self._folder)

    def enter_own(self, number: int) -> None:
        """Makes a folder in it the one that everything goes to, in a process of which there are several."""
        name = f"worker{number}"
        with suppress(FileExistsError):  # from the round before
            os.mkdir(name, 0o700, dir_fd=self._folder)
        self._folder = os.open(name, _FOLDER, dir_fd=self._folder)

    def check_room(self, wanted: int) -> None:
        """Raises NotTried if so many bytes would be too many."""
        if wanted > self.room:
            raise NotTried(f"it needs {size(wanted)} of scratch, {size(self.room)} is the most that is used")

    def name(self) -> str:
        """A name that is not in use."""
        self._names += 1
        return f"trial{self._names}"

    def create(self, name: str) -> int:
        """A descriptor of a new file, which the caller closes."""
        return os.open(name, _NEW, 0o600, dir_fd=self._folder)

    def open(self, name: str, flags: int = 0) -> int:
        """A descriptor of a file that create() made; the caller closes it."""
        return os.open(name, _OLD | flags, dir_fd=self._folder)

    def unlink(self, name: str) -> None:
        """Removes one file."""
        os.unlink(name, dir_fd=self._folder)

    def path(self, name: str) -> str:
        """A path to a file in it, for libraries that take nothing else."""
        return f"/proc/self/fd/{self._folder}/{name}"


def _empty(folder: int) -> None:
    """Removes all that is in a folder, of which there are two levels at most."""
    for name in os.listdir(folder):
        with suppress(OSError):
            if not stat.S_ISDIR(os.lstat(name, dir_fd=folder).st_mode):
                os.unlink(name, dir_fd=folder)
                continue
            inside = os.open(name, _FOLDER, dir_fd=folder)
            try:
                _empty(inside)
            finally:
                os.close(inside)
            os.rmdir(name, dir_fd=folder)


def _device_of(path: str) -> int:
    """The device of a path, or of the nearest folder above it that is there."""
    if not os.path.isabs(path) or "\0" in path:
        raise NotTried("its files have no full paths in the log")
    for one in (path, *_above(path)):
        with suppress(OSError):
            return os.lstat(one).st_dev
    raise NotTried("no scratch folder can be made on this file system")


def _folders(path: str) -> Iterator[str]:
    yield from _above(path)
    yield from map(os.path.realpath, (os.path.expanduser("~"), tempfile.gettempdir()))


def _above(path: str) -> Iterator[str]:
    while path != os.path.dirname(path):
        path = os.path.dirname(path)
        yield path


def _usable(folder: str, device: int) -> int:
    """A descriptor of a folder on the device where we may write, and others may not replace what we make, nor any
    folder above it: SQLite opens files by whole paths.  Raises OSError."""
    held = hold(folder, check=no_other_may_rename)
    try:
        if os.fstat(held).st_dev != device:
            raise OSError(errno.EXDEV, "another file system")
        return os.open(".", _FOLDER, dir_fd=held)
    finally:
        os.close(held)
