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

from pyio_trace.held_paths import hold, reopened


def open_inside(pid: int, path: str) -> int:
    """A descriptor of the regular file at this absolute path in the process's root.  Raises OSError.

    For a process in a chroot inside our mounts, the kernel gives names from our root.
    """
    try:
        return _open_below(f"/proc/{pid}/root", path)
    except FileNotFoundError:
        return _open_below("/", path)


def _open_below(root: str, path: str) -> int:
    here = hold(path, root)
    try:
        if not stat.S_ISREG(os.fstat(here).st_mode):
            raise OSError(errno.EINVAL, "no regular file", path)
        return reopened(here)
    finally:
        os.close(here)
