"""Reading one batch while another is being worked on, and adding one up in two ways at once: two cores share it."""

from __future__ import annotations

import queue
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from types import TracebackType
from typing import ParamSpec, TypeVar

T = TypeVar("T")
P = ParamSpec("P")


def read_ahead(items: Iterator[T], depth: int = 4) -> Generator[T, None, None]:
    """The same items in the same order, made in a thread of their own, at most `depth` of them ahead.

    An exception in the making is raised here, after the items before it.
    """
    ready: queue.Queue[tuple[T | None, BaseException | None]] = queue.Queue(depth)
    stopped = threading.Event()

    def put(item: T | None, error: BaseException | None) -> None:
        while not stopped.is_set():
            try:
                ready.put((item, error), timeout=0.1)  # wakes to see that nobody wants it any more
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
    thread.start()
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


class Beside:
    """Calls made in a thread of its own, in their order, at most `depth` of them behind; all are done at the end.

    What one of them raises is raised by a later one, or at the end.
    """

    def __init__(self, depth: int = 4) -> None:
        self._pool = ThreadPoolExecutor(1, "pyio_trace-beside")
        self._depth = depth
        self._waiting: deque[Future[object]] = deque()

    def __enter__(self) -> Beside:
        return self

    def __call__(self, function: Callable[P, object], *args: P.args, **kwargs: P.kwargs) -> None:
        self._waiting.append(self._pool.submit(function, *args, **kwargs))
        if len(self._waiting) > self._depth:
            self._waiting.popleft().result()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        try:
            while self._waiting and kind is None:
                self._waiting.popleft().result()
        finally:
            self._pool.shutdown(cancel_futures=True)
