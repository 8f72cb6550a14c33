"""Gives freed memory back to the system."""

from __future__ import annotations


def give_back() -> None:
    """Gives the memory that arrays have freed back to the system, if the C library can (glibc).

    glibc keeps freed memory between blocks that are in use, however much it is:
    300 MiB after the first pass over 100 M operations.
    """
    from ctypes import CDLL  # takes longer to import than a small log to read

    try:
        trim = CDLL(None).malloc_trim
    except (OSError, AttributeError):
        return
    trim(0)
