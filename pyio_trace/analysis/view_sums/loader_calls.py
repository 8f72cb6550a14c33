"""The calls of PyTorch's DataLoaders in a log."""

from __future__ import annotations

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
