"""Signals while remedies are tried: they end the command, but never between making a scratch folder and removing it."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import FrameType

from pyio_trace.insights.trials.replay import NotTried

_ENDING = (signal.SIGTERM, signal.SIGHUP)
#: s between two attempts to end what takes too long.
_AGAIN = 0.5
_ALL = (*_ENDING, signal.SIGINT, signal.SIGALRM)


@contextmanager
def ended_by_signals() -> Iterator[None]:
    """In the block SIGTERM and SIGHUP end the command as Ctrl-C does: what has to be undone is undone."""

    def end(number: int, frame: FrameType | None) -> None:
        sys.exit(128 + number)

    with _handled(_ENDING, end):
        yield


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Signals that come in the block are delivered after it."""
    came: list[int] = []
    with _handled(_ALL, lambda number, _: came.append(number)):
        yield
    for number in came[:1]:
        signal.raise_signal(number)


@contextmanager
def limited(seconds: float, late: str) -> Iterator[None]:
    """Raises NotTried(late) in the block after so many seconds, in the main thread: others cannot be interrupted."""

    def end(number: int, frame: FrameType | None) -> None:
        raise NotTried(late)

    with _handled((signal.SIGALRM,), end) as is_main:
        if is_main:
            # again and again: Python ignores an exception in a callback of the garbage collector
            signal.setitimer(signal.ITIMER_REAL, seconds, _AGAIN)
        try:
            yield
        finally:
            if is_main:
                signal.setitimer(signal.ITIMER_REAL, 0)


@contextmanager
def _handled(numbers: Sequence[int], handler: Callable[[int, FrameType | None], object]) -> Iterator[bool]:
    """Handles signals; gives whether this is the main thread, as Python handles none in others."""
    if threading.current_thread() is not threading.main_thread():
        yield False
        return
    before = [(number, signal.signal(number, handler)) for number in numbers]
    try:
        yield True
    finally:
        for number, old in before:
            signal.signal(number, signal.SIG_DFL if old is None else old)
