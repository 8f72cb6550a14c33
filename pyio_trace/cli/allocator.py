"""Makes the C library keep freed memory for the next array.

A command's arrays come and go in batches.  By default each goes back to the
kernel, which clears the pages of the next one: a fifth of the time of reading a
log.  Only commands do this; a program that imports pyio_trace manages its own
memory.
"""

from __future__ import annotations

from ctypes import CDLL

#: Numbers of mallopt() in glibc, and their values: bytes from which an array has a mapping of its own, bytes that are
#: kept, and one pool for all threads, as arrays go from one to the other.
_TRIM_THRESHOLD, _MMAP_THRESHOLD, _ARENA_MAX = -1, -3, -8
_OPTIONS = {_MMAP_THRESHOLD: 32 << 20, _TRIM_THRESHOLD: 256 << 20, _ARENA_MAX: 1}


def keep_freed_memory() -> None:
    """Keeps it from now on.  Does nothing if the C library has no mallopt()."""
    try:
        mallopt = CDLL(None).mallopt
    except (OSError, AttributeError):
        return
    for option, value in _OPTIONS.items():
        mallopt(option, value)
