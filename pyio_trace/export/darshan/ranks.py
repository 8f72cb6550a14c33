"""Which rank each process is in an exported log.

Processes of a parallel job are their job's ranks, and so are those that a rank started (the process table has it so).
Processes that have none, and those of a program without ranks, get numbers of their own: each that did I/O is a rank,
in the order in which they began.  A process that became another program (exec) stays the same rank.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from pyio_trace.light_dataclass import dataclass

if TYPE_CHECKING:
    from pyio_trace.join.sources.facade import Log

Ints = NDArray[np.int64]

#: No job has more; a damaged log may say so.
_MOST = 1 << 31


@dataclass(frozen=True)
class Ranks:
    """of_process: by index, the last element for operations of which the process is not known; -1: it did no I/O.
    count: of ranks.  host: of each rank that did I/O."""

    of_process: Ints
    count: int
    host: dict[int, str]


def ranks_of(log: Log, used: Ints) -> Ranks:
    """The ranks of a log; used: processes that did I/O (indexes; negative: not known)."""
    processes = log.processes().to_pylist()
    number = np.full(len(processes) + 1, -1, np.int64)
    first = list(range(len(processes)))  # of an exec: the first entry of the process
    own: list[int | None] = []
    size = 0
    for index, process in enumerate(processes):
        before = process["parent"]
        rank = _whole(process["global_rank"])
        size = max(size, _whole(process["world_size"]) or 0, 0 if rank is None else rank + 1)
        own.append(rank)
        if before is not None and 0 <= before < index and _is_same(processes[before], process):
            first[index] = first[before]
    known: dict[int, int] = {}
    count = size
    wanted = np.unique(np.where((used >= 0) & (used < len(processes)), used, len(processes))).tolist()
    for index in wanted:
        of_job = own[index] if index < len(processes) else None
        key = first[index] if index < len(processes) else -1
        if of_job is not None:
            number[index] = of_job
        else:
            if key not in known:
                known[key], count = count, count + 1
            number[index] = known[key]
    host = {int(number[one]): processes[one]["host"] if one < len(processes) else "" for one in reversed(wanted)}
    return Ranks(number, max(count, 1), host)


def _is_same(before: dict[str, Any], process: dict[str, Any]) -> bool:
    return bool(before["pid"] == process["pid"] and before["host"] == process["host"] and process["pid"] is not None)


def _whole(value: int | None) -> int | None:
    return value if value is not None and 0 <= value < _MOST else None
