"""Runs a replay in several processes at the same time, as the program did: they share cores, memory and the disk."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from contextlib import suppress

from pyio_trace.insights.trials.interruptions import uninterrupted
from pyio_trace.insights.trials.replay import NotTried

_INTERRUPTS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def longest(run: Callable[[int], int], workers: int, prepare: Callable[[int], object]) -> int:
    """What run() returns in the process where that is the most, ns.

    Both get the number of the process.  prepare: called untimed, before all of them begin at once.  Raises NotTried if
    one of them fails; none is left when this returns.
    """
    ready, go, results = os.pipe(), os.pipe(), os.pipe()
    pipes = (*ready, *go, *results)
    children: list[int] = []
    try:
        for number in range(workers):
            with uninterrupted():
                child = os.fork()
                if not child:
                    _work(number, run, prepare, (ready[1], go[0], results[1]), pipes)
                children.append(child)
        for end in (ready[1], go[0], results[1]):
            os.close(end)
        _lines(ready[0], workers)
        os.close(go[1])  # all of them read its end
        return max(map(int, _lines(results[0], workers)))
    finally:
        with uninterrupted():
            _end(children, pipes)


def _work(
    number: int,
    run: Callable[[int], int],
    prepare: Callable[[int], object],
    ends: tuple[int, int, int],
    pipes: tuple[int, ...],
) -> None:
    """A child's whole life."""
    try:
        for interrupt in _INTERRUPTS:
            signal.signal(interrupt, signal.SIG_DFL)
        for end in pipes:
            if end not in ends:
                os.close(end)
        ready, go, results = ends
        prepare(number)
        os.write(ready, b"\n")
        os.read(go, 1)
        os.write(results, b"%d\n" % run(number))
    finally:
        os._exit(0)


def _lines(end: int, count: int) -> list[bytes]:
    """So many lines from a pipe, one of each child.  Raises NotTried if it ends before."""
    content = b""
    while content.count(b"\n") < count:
        part = os.read(end, 4096)
        if not part:
            raise NotTried("one of the processes that tried it side by side failed")
        content += part
    return content.split()


def _end(children: list[int], pipes: tuple[int, ...]) -> None:
    for child in children:
        os.kill(child, signal.SIGKILL)
    for child in children:
        os.waitpid(child, 0)
    for end in pipes:
        with suppress(OSError):
            os.close(end)
