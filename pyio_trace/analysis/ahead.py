"""Reading one batch while another is being worked on: decoding and adding up share two cores."""

from __future__ import annotations

import queue
import threading
from collections.abc import Generator, Iterator
from typing import TypeVar

T = TypeVar("T")


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
