"""Bounds the memory of a trial: the files that a log names may be anybody's, and small ones can unpack to any size."""

from __future__ import annotations

import mmap
import resource
from collections.abc import Iterator
from contextlib import contextmanager

#: Bytes of addresses that a trial may take beyond what the process has.
MOST = 4 << 30


@contextmanager
def bounded(most: int = MOST) -> Iterator[None]:
    """In the block, and in processes that are forked there, allocations beyond so many bytes raise MemoryError."""
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    with open("/proc/self/statm", "rb") as file:
        limit = int(file.read().split()[0]) * mmap.PAGESIZE + most
    for other in (soft, hard):
        limit = limit if other == resource.RLIM_INFINITY else min(limit, other)
    resource.setrlimit(resource.RLIMIT_AS, (limit, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))
