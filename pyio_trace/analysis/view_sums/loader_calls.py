"""The calls of PyTorch's DataLoaders in a log."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from pyio_trace.light_dataclass import dataclass

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


def hosts(table: Iterable[Mapping[str, Any]]) -> Callable[[int], str]:
    """Index of a process in the table, given as rows of Log.processes() -> its host; "" for no process.

    A loader is named after the number of its process, which a process on another host can have as well.
    """
    of = [str(process["host"]) for process in table]
    return lambda process: of[process] if 0 <= process < len(of) else ""
