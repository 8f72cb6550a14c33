"""Works on the blocks of a log in several threads: numpy releases the GIL while it works."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from itertools import chain, islice
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from concurrent.futures import Future

_In = TypeVar("_In")
_Out = TypeVar("_Out")
#: With more threads than this, memory bandwidth is the limit.
_MOST = 4


def map_in_order(function: Callable[[_In], _Out], items: Iterable[_In]) -> Iterator[_Out]:
    """map(function, items) in several threads, with results in order."""
    workers = min(len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 1, _MOST)
    every = iter(items)
    first = list(islice(every, 2))
    if workers < 2 or len(first) < 2:  # a small log is one block
        yield from map(function, chain(first, every))
        return
    from concurrent.futures import ThreadPoolExecutor  # imports logging: longer than a small log takes to read

    with ThreadPoolExecutor(workers, "pyio_trace-read") as pool:
        waiting: deque[Future[_Out]] = deque()
        for item in chain(first, every):
            waiting.append(pool.submit(function, item))
            if len(waiting) > 2 * workers:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
