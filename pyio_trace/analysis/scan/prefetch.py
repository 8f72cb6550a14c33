"""Uses a second core: reads a batch while another is in work, and runs part of the sums in a thread."""

from __future__ import annotations

import os
import queue
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from types import TracebackType
from typing import ParamSpec, TypeVar

T = TypeVar("T")
P = ParamSpec("P")


def read_ahead(items: Iterator[T], depth: int = 1) -> Generator[T, None, None]:
    """The same items in the same order, produced in a thread, at most `depth` of them waiting.

    An exception of the producer is raised here, after the items before it.
    """
    ready: queue.Queue[tuple[T | None, BaseException | None]] = queue.Queue(depth)
    stopped = threading.Event()

    def put(item: T | None, error: BaseException | None) -> None:
        while not stopped.is_set():
            try:
                ready.put((item, error), timeout=0.1)  # wakes up to see whether the consumer has stopped
                return
            except queue.Full:
                continue

    def make() -> None:
        try:
            for item in items:
                put(item, None)
                if stopped.is_set():
                    return
            put(None, StopIteration())
        except BaseException as error:
            put(None, error)

    thread = threading.Thread(target=make, name="pyio_trace-read-ahead", daemon=True)
    try:
        thread.start()
    except RuntimeError:  # the process may have no more threads
        yield from items
        return
    try:
        while True:
            item, error = ready.get()
            if isinstance(error, StopIteration):
                return
            if error is not None:
                raise error
            yield item  # type: ignore[misc]  # an item, as there is no error
    finally:
        stopped.set()
        thread.join()


class BackgroundCalls:
    """Runs calls in one thread, in order, at most `depth` of them outstanding; leaving the context waits for all.

    An exception in one of them is raised by a later call, or at the end.
    """

    def __init__(self, depth: int = 4) -> None:
        self._pool = ThreadPoolExecutor(1, "pyio_trace-sums")
        self._depth = depth
        self._alone = False
        self._waiting: deque[Future[object]] = deque()

    @classmethod
    @contextmanager
    def lanes(cls, most: int) -> Iterator[list[BackgroundCalls]]:
        """As many of them as there are cores to use, but `most`; leaving the context waits for all."""
        with ExitStack() as opened:
            yield [opened.enter_context(cls(1)) for _ in range(max(min(most, os.cpu_count() or 1), 1))]

    def __enter__(self) -> BackgroundCalls:
        return self

    def __call__(self, function: Callable[P, object], *args: P.args, **kwargs: P.kwargs) -> None:
        if not self._alone:
            try:
                self._waiting.append(self._pool.submit(function, *args, **kwargs))
            except RuntimeError:  # the process may have no more threads
                self._alone = True
        if self._alone:
            function(*args, **kwargs)
        if len(self._waiting) > self._depth:
            self._waiting.popleft().result()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        try:
            while self._waiting and kind is None:
                self._waiting.popleft().result()
        finally:
            self._pool.shutdown(cancel_futures=True)
