"""Whether files are in the page cache, and how to drop them from it."""

from __future__ import annotations

import ctypes
import mmap
import os
from collections.abc import Iterable, Mapping
from functools import cache

import numpy as np

#: Of a larger file the first bytes are looked at.
_LOOKED_AT = 256 << 20
_FEW, _MOST = 0.05, 0.95


def drop(descriptors: Iterable[int]) -> None:
    """Asks the kernel to forget what it has of these files.  Their contents stay as they are."""
    for descriptor in descriptors:
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)


def state(ends: Mapping[int, int]) -> str:
    """ "cached", "cold", "partly cached" or "cache not known"; ends: descriptor -> how many first bytes count."""
    shares = [share for one, end in ends.items() if (share := _share(one, end)) is not None]
    if not shares:
        return "cache not known"
    share = sum(shares) / len(shares)
    return "cached" if share >= _MOST else "cold" if share <= _FEW else "partly cached"


def _share(descriptor: int, end: int) -> float | None:
    """The share of the pages of a file's first bytes that are in memory; None: not known."""
    status = os.fstat(descriptor)
    length = min(status.st_size, end, _LOOKED_AT)
    if not length or os.geteuid() not in (0, status.st_uid):  # the kernel tells only the owner
        return None
    libc = _libc()
    address = libc.mmap(None, length, mmap.PROT_READ, mmap.MAP_SHARED, descriptor, 0)
    if address in (None, ctypes.c_void_p(-1).value):
        return None
    try:
        pages = np.zeros(-(-length // mmap.PAGESIZE), np.uint8)
        if libc.mincore(address, length, pages.ctypes.data_as(ctypes.c_void_p)):
            return None
        return float((pages & 1).mean())
    finally:
        libc.munmap(address, length)


@cache
def _libc() -> ctypes.CDLL:
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = [
        ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long,
    ]  # fmt: skip
    libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
    libc.mincore.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p]
    return libc
