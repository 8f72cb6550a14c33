"""Finds the line of Python that started each process, directly or through other programs.

A process entry names the operation that started the process (fork, vfork,
posix_spawn, execve, system, popen).  In a Python process that operation has a
stack.  In a program that is not Python, such as a shell, it has none; the line
is then the one that started that program.  What multiprocessing's fork server has
forked names the stack that asked the server for it
(capture/instruments/multiprocessing.py).
"""

from __future__ import annotations

import numpy as np

from pyio_trace.enums import OpClass
from pyio_trace.join.base.vocabulary import Vocabulary
from pyio_trace.join.processes.process_table import Process
from pyio_trace.join.references.call_stacks import Stacks
from pyio_trace.join.references.own_code import OwnCode
from pyio_trace.join.references.sent_code import SentCode
from pyio_trace.log.heap import Heap, ObjectNumbers
from pyio_trace.log.live import LiveLog
from pyio_trace.log.sorting import distinct


def add_lines(processes: list[Process], log: LiveLog, heap: Heap, words: Vocabulary, own_code: OwnCode) -> None:
    """Fills in site and call_stack of each process, where they are known."""
    asked = log.processes()["asked_from"].tolist()
    ids = [asked[process.index] or stack_of_start(log, words, process.started_by) for process in processes]
    used = distinct(np.array([identity for identity in ids if identity], np.int64))
    numbers = ObjectNumbers(heap.slots, distinct(heap.slots.of(used.astype(np.uint32))))
    stacks = Stacks(heap, numbers, used, SentCode(log, heap), own_code)
    at = numbers.of(np.array(ids, np.uint32))
    own = list(zip(stacks.site[at].tolist(), stacks.stack[at].tolist(), strict=True)) if processes else []
    sources: dict[int, int] = {}
    for process in processes:
        site, stack = own[_source(process, processes, own, sources)]
        if site >= 0:
            process.site, process.call_stack = stacks.sites[site], stacks.folded[stack] if stack >= 0 else None


def stack_of_start(log: LiveLog, words: Vocabulary, started_by: int | None) -> int:
    """The id of the stack at which a process was started; 0: it has none."""
    record = None if started_by is None else log.record(started_by)
    if record is None or words.klass[int(record["op"])] != OpClass.PROCESS:
        return 0
    return int(record["stack"])


def _source(process: Process, processes: list[Process], own: list[tuple[int, int]], known: dict[int, int]) -> int:
    """The index of the process whose start has the line: this one, or its nearest ancestor with one.

    known: answers found so far, by index; extended by those found on the way.
    """
    way: list[int] = []
    visited: set[int] = set()  # in forged logs, processes may have started each other
    while process.index not in known and process.index not in visited:
        way.append(process.index)
        visited.add(process.index)
        if own[process.index][0] >= 0 or process.parent is None:
            break
        parent = processes[process.parent]
        if parent.version and parent.pid != process.pid:
            break  # a Python process, but it is not known which of its lines
        process = parent
    source = known.get(process.index, process.index)
    known.update(dict.fromkeys(way, source))
    return source
