"""Blocks of a log on all processors: numpy lets go of the interpreter while it works."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

_In = TypeVar("_In")
_Out = TypeVar("_Out")
#: More threads than this wait for memory, not for processors.
_MOST = 4


def in_order(function: Callable[[_In], _Out], items: Iterable[_In], ahead: int | None = None) -> Iterator[_Out]:
    """map(function, items) by several threads: results in order, only a few items ahead (or so many)."""
    workers = min(len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 1, _MOST)
    if workers < 2:
        yield from map(function, items)
        return
    with ThreadPoolExecutor(workers, "pyio_trace-read") as pool:
        waiting: deque[Future[_Out]] = deque()
        for item in items:
            waiting.append(pool.submit(function, item))
            if len(waiting) > (2 * workers if ahead is None else ahead):
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
