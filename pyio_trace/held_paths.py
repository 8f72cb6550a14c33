"""Opens a path folder by folder and holds what is there, so that nobody can put something else in its place.

A path that was checked and is then opened may lead elsewhere by then: whoever
owns a folder above can rename it.  A link would be followed, opening a FIFO
would block, and opening a device can have effects.  A descriptor of O_PATH has
none of that, and what it holds can be checked and then opened through it.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable

_HOLD = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC


def hold(path: str, root: str = "/", check: Callable[[os.stat_result], None] | None = None) -> int:
    """A descriptor of what is at an absolute path below root, which the caller closes.  Raises OSError, also for a
    link on the way: resolve links before.

    check: called with the status of root and of each part of the path; it raises OSError for what must not be there.
    """
    here = os.open(root, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        if check is not None:
            check(os.fstat(here))
        for name in path.split("/"):
            if name in ("", "."):
                continue
            if name == "..":
                raise OSError(errno.ELOOP, "leads back up", path)
            inner = os.open(name, _HOLD, dir_fd=here)
            os.close(here)
            here = inner
            status = os.fstat(here)
            if stat.S_ISLNK(status.st_mode):
                raise OSError(errno.ELOOP, "a link has come to be there", path)
            if check is not None:
                check(status)
    except BaseException:
        os.close(here)
        raise
    return here


def reopened(descriptor: int, flags: int = os.O_RDONLY) -> int:
    """Another descriptor of what a descriptor holds, with a position of its own."""
    return os.open(f"/proc/self/fd/{descriptor}", flags | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)


def no_other_may_rename(status: os.stat_result) -> None:
    """A check for hold(): raises OSError where another user may rename what is in a folder."""
    if status.st_uid not in (0, os.geteuid(), os.stat("/").st_uid):  # in a container, root may have another number
        raise PermissionError(errno.EACCES, "another user's folder")
    if stat.S_ISDIR(status.st_mode) and status.st_mode & 0o022 and not status.st_mode & stat.S_ISVTX:
        raise PermissionError(errno.EACCES, "a folder where others may write")
