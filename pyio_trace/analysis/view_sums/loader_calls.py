"""The calls of PyTorch's DataLoaders in a log."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from pyio_trace.light_dataclass import dataclass

if TYPE_CHECKING:
    from pyio_trace.join.sources.facade import Log

START, WAIT, FETCH = "DataLoader.__iter__", "DataLoader.__next__", "DataLoader.fetch"
OPS = (START, WAIT, FETCH)


@dataclass(frozen=True)
class Call:
    """One call of a loader.  time: of its begin, ns; detail: of its row; line: file:line:function, None: not known."""

    op: str
    process: int
    time: int
    duration: int
    detail: dict[str, Any]
    line: str | None = None


def hosts(log: Log) -> Callable[[int], str]:
    """Index of a process in the table -> its host; "" for no process.

    A loader's name begins with the number of its process, which another host can have as well.
    """
    of = [str(process["host"]) for process in log.processes().to_pylist()]
    return lambda process: of[process] if 0 <= process < len(of) else ""
