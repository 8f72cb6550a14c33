"""Opens files by the names that another process has for them, without following links out of its root.

The names in /proc/PID/maps are valid in that process's root and mounts, which
its user may have made.  A link there would be followed in our root, perhaps by
root; opening a FIFO would block, and opening a device can have effects.  The
kernel resolves all links in those names, so no link needs to be followed.
"""

from __future__ import annotations

import errno
import os
import stat


def open_inside(pid: int, path: str) -> int:
    """A descriptor of the regular file at this absolute path in the process's root.  Raises OSError.

    For a process in a chroot inside our mounts, the kernel gives names from our root.
    """
    try:
        return _open_below(f"/proc/{pid}/root", path)
    except FileNotFoundError:
        return _open_below("/", path)


def _open_below(root: str, path: str) -> int:
    here = os.open(root, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for name in path.split("/"):
            if name in ("", "."):
                continue
            if name == "..":
                raise OSError(errno.ELOOP, "leads back up", path)
            inner = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=here)
            os.close(here)
            here = inner
            if stat.S_ISLNK(os.fstat(here).st_mode):
                raise OSError(errno.ELOOP, "a link has come to be there", path)
        if not stat.S_ISREG(os.fstat(here).st_mode):
            raise OSError(errno.EINVAL, "no regular file", path)
        return os.open(f"/proc/self/fd/{here}", os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    finally:
        os.close(here)
