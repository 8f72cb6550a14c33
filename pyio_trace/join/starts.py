"""Where processes come from: the line of Python that started each one, itself or by way of others.

A process entry names the operation that started it (fork, vfork, posix_spawn,
execve, system, popen).  In a Python process that operation has a stack.  In a
program that is not Python (a shell) it has none, and the line is the one that
this program itself was started from.
"""

from __future__ import annotations

import numpy as np

from pyio_trace.join.processes import Process
from pyio_trace.join.stacks import Stacks
from pyio_trace.join.vocabulary import Vocabulary
from pyio_trace.log import layout
from pyio_trace.log.heap import Heap, HeapSlots
from pyio_trace.log.live import LiveLog
from pyio_trace.log.sorting import distinct


def add_lines(processes: list[Process], log: LiveLog, heap: Heap, slots: HeapSlots, words: Vocabulary) -> None:
    """Fills in site and stack of each process, where they are known."""
    ids = [_stack_of(log, words, process.started_by) for process in processes]
    used = distinct(np.array([identity for identity in ids if identity], np.int64))
    stacks = Stacks(heap, slots, used)
    at = slots.of(np.array(ids, np.uint32))
    own = list(zip(stacks.site[at].tolist(), stacks.stack[at].tolist(), strict=True)) if processes else []
    sources: dict[int, int] = {}
    for process in processes:
        site, stack = own[_source(process, processes, own, sources)]
        if site >= 0:
            process.site, process.stack = stacks.sites[site], stacks.folded[stack] if stack >= 0 else None


def _stack_of(log: LiveLog, words: Vocabulary, started_by: int | None) -> int:
    record = None if started_by is None else log.record(started_by)
    if record is None or words.klass[int(record["op"])] != layout.PROCESS:
        return 0
    return int(record["stack"])


def _source(process: Process, processes: list[Process], own: list[tuple[int, int]], known: dict[int, int]) -> int:
    """The process whose start has the line: this one, or the nearest before it that is known to have led here.

    known: those found so far, by index; takes in what is found on the way.
    """
    way: list[int] = []
    met: set[int] = set()  # forged logs only: processes that started each other
    while process.index not in known and process.index not in met:
        way.append(process.index)
        met.add(process.index)
        if own[process.index][0] >= 0 or process.parent is None:
            break
        parent = processes[process.parent]
        if parent.version and parent.pid != process.pid:
            break  # a Python, but which of its lines is not known
        process = parent
    source = known.get(process.index, process.index)
    known.update(dict.fromkeys(way, source))
    return source
