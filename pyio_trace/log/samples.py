"""What the sampler beside a run wrote, raw: what it found the threads doing, and what it saw of the system.

A sampler may have died anywhere, and a log may be forged: what is read here are
numbers, without any promise about them.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from pyio_trace.log import layout
from pyio_trace.log.chunks import Chunks
from pyio_trace.log.log_file import LogFile

#: Rows that are read at once: the first of a chunk, which may be nearly empty, and the next ones.
_FIRST, _AT_ONCE = 1 << 8, 1 << 16


def read_samples(file: LogFile, chunks: Chunks) -> Iterator[NDArray[np.void]]:
    """The samples (layout.SAMPLE) of all chunks, some at a time."""
    return _read(file, chunks, layout.CHUNK_SAMPLES, layout.SAMPLE)


def read_system(file: LogFile, chunks: Chunks) -> Iterator[NDArray[np.void]]:
    """The rows of the system (layout.SYSTEM) of all chunks, some at a time."""
    return _read(file, chunks, layout.CHUNK_SYSTEM, layout.SYSTEM)


def _read(file: LogFile, chunks: Chunks, kind: int, dtype: np.dtype[np.void]) -> Iterator[NDArray[np.void]]:
    """The first row without a begin ends those of a chunk."""
    for start, size in zip(*(values.tolist() for values in _places(chunks, kind)), strict=True):
        left = (size - layout.HEAP_START) // dtype.itemsize
        at, step = start + layout.HEAP_START, _FIRST
        while left > 0:
            rows = np.empty(min(left, step), dtype)
            file.fill(at, rows)
            ends = np.flatnonzero(rows["begin"] == 0)
            if len(ends):
                rows, left = rows[: ends[0]], 0
            if len(rows):
                yield rows
            at, left, step = at + rows.nbytes, left - len(rows), _AT_ONCE


def _places(chunks: Chunks, kind: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    headers, sizes = chunks.of_kind(kind)
    return headers["offset"].astype(np.int64), sizes
