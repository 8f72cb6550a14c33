"""How long processes lived, and which entries of the process table belong to one program."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pyio_trace.analysis.scan.batch_rows import int64
from pyio_trace.log_constants import RUNNING

#: A row of Log.processes(); a table is the list of all of them.
Row = dict[str, Any]


def lifetimes(
    table: list[Row], last_operations: NDArray[np.int64], start: int, sampled: Mapping[int, int]
) -> NDArray[np.int64]:
    """ns that each process lived: until its end as it is known (wall_is), or the last thing that was seen of it: an
    operation, a sample, the begin of its own code, or of a child.

    last_operations: when the last operation of each process ended, ns since
    start (of the run, epoch ns).  sampled: the row of a process -> when its last
    sample ended, epoch ns.  The result is as long as last_operations; elements
    beyond the table are 0.
    """
    seen = [int(last) + start for last in last_operations]
    for index, process in enumerate(table):
        seen[index] = max(seen[index], process["script_begin"] or 0, sampled.get(index, 0))
        parent = process["parent"]
        if parent is not None and table[parent]["host"] == process["host"]:
            seen[parent] = max(seen[parent], process["begin"])
    walls = np.zeros(len(last_operations), np.int64)
    for index, process in enumerate(table):
        end = process["end"]
        walls[index] = int64(max((seen[index] if end is None else end) - process["begin"], 0))
    return walls


def wall_is(process: Row) -> str:
    """How a process's true lifetime relates to the one that is known: "at least", "at most" or "" (they are equal)."""
    if process["end"] is None:
        return "" if process["ended"] == RUNNING else "at least"
    return "at most" if process["end_by"] == "parent" else ""


def sum_is(table: list[Row]) -> str:
    """The same for the sum of all lifetimes.  An end that the parent waited for is close enough."""
    return "at least" if any(wall_is(process) == "at least" for process in table) else ""


def is_continuation(table: list[Row], child: Row) -> bool:
    """Whether this entry's parent is the same program between its fork or spawn and its own start."""
    parent = None if child["parent"] is None else table[child["parent"]]
    return (
        parent is not None
        and (parent["pid"], parent["host"], parent["argv"]) == (child["pid"], child["host"], child["argv"])
        and parent["start"] != "top"
        and child["start"] != "fork"  # perhaps into a pid namespace in which it has the same number
    )


def entries_of(table: list[Row], index: int) -> list[int]:
    """The entries of one program: its own, and those it continues."""
    entries = [index]
    while is_continuation(table, table[index]) and (index := table[index]["parent"]) not in entries:
        entries.append(index)
    return entries
