"""Fresh processes for a ProcessPoolExecutor: they import nothing from the current folder, and Ctrl-C is not for them.

multiprocessing starts a process by `python -c`, which looks for modules in the
current folder first, and that folder may belong to somebody else.  Ctrl-C goes to
all processes of a terminal; only the one that started the others should report it.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing.context import SpawnContext, SpawnProcess
from typing import Any

_SAFE_PATH = "PYTHONSAFEPATH"


class _Process(SpawnProcess):
    def start(self) -> None:
        """Starts it, as starting() says."""
        with starting():
            super().start()


class Context(SpawnContext):
    """What a ProcessPoolExecutor makes processes with."""

    def __init__(self) -> None:
        super().__init__()
        self._made: list[_Process] = []

    def Process(self, *arguments: object, **named: object) -> _Process:  # type: ignore[override]
        """A process that is not started yet."""
        process = _Process(*arguments, **named)  # type: ignore[arg-type]
        self._made.append(process)
        return process

    def kill(self) -> None:
        """Ends all that were started."""
        for process in self._made:
            if process.pid is not None:
                process.kill()


class Executor(ProcessPoolExecutor):
    """A ProcessPoolExecutor whose submit() no Ctrl-C interrupts: it starts the executor's processes and its thread, and
    a thread that has not begun cannot be joined."""

    def submit(self, function: Callable[..., Any], /, *arguments: Any, **named: Any) -> Future[Any]:
        """As the base class says."""
        with starting():
            return super().submit(function, *arguments, **named)


@contextmanager
def starting() -> Iterator[None]:
    """Processes that are started in the block have SIGINT blocked, and the current folder is not on their path: those
    of the executor, and the one that multiprocessing itself starts with the first lock.  A SIGINT that arrives in the
    block is delivered at its end: a child whose parent ends before sending it its task prints a traceback."""
    with _deferred(), _blocked_and_safe():
        yield


@contextmanager
def _blocked_and_safe() -> Iterator[None]:
    signals = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    before = os.environ.get(_SAFE_PATH)
    os.environ[_SAFE_PATH] = "1"
    try:
        yield
    finally:
        if before is None:
            del os.environ[_SAFE_PATH]
        else:
            os.environ[_SAFE_PATH] = before
        signal.pthread_sigmask(signal.SIG_SETMASK, signals)


@contextmanager
def _deferred() -> Iterator[None]:
    """Holds back SIGINT.  Blocking it does not: another thread may get it, and Python handles it in the main one."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    came: list[int] = []
    before = signal.signal(signal.SIGINT, lambda number, _: came.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.SIG_DFL if before is None else before)
        if came:
            signal.raise_signal(signal.SIGINT)
