"""What the ids in the records of a growing log stand for: lines of Python, paths, processes.

Each is worked out when it is first asked for and remembered; when there are too
many, all are forgotten and worked out again, so that memory is bounded.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pyio_trace.join.base.vocabulary import Vocabulary
from pyio_trace.join.processes.process_names import add_names, label
from pyio_trace.join.processes.process_table import read_processes
from pyio_trace.join.processes.start_lines import stack_of_start
from pyio_trace.join.processes.started_packages import own_code_of
from pyio_trace.join.references.call_stacks import Stacks
from pyio_trace.join.references.own_code import STANDARD, OwnCode, module_of
from pyio_trace.join.references.paths import Paths
from pyio_trace.join.references.sent_code import SentCode
from pyio_trace.light_dataclass import dataclass
from pyio_trace.log import layout
from pyio_trace.log.growing import GrowingLog
from pyio_trace.log.single_objects import SingleObjects
from pyio_trace.log_constants import RUNNING

#: Most names of one sort that are remembered.
_MOST = 1 << 16
#: Bytes of heap objects that may be read before everything is forgotten.
_ROOM = 1 << 28


@dataclass(frozen=True)
class Line:
    """Where a stack is: the program's own line ("file:line:function"; "" none), the function of a library or of the
    standard library that this line calls ("" none), and the whole stack, outermost frame first, separated by ;."""

    site: str
    within: str
    stack: str


NOWHERE = Line("", "", "")


class _Numbers:
    """Stands in for ObjectNumbers: the place of an id in a sorted list, from 1."""

    def __init__(self, ids: NDArray[np.int64]) -> None:
        self._ids, self.count = ids, len(ids) + 1

    def of(self, ids: NDArray[np.uint32]) -> NDArray[np.int64]:
        wanted = ids.astype(np.int64)
        at = np.minimum(np.searchsorted(self._ids, wanted), max(len(self._ids) - 1, 0))
        there = self._ids[at] == wanted if len(self._ids) else np.zeros(len(wanted), np.bool_)
        return np.where(there, at + 1, 0)


class LogNames:
    """Names for one log.  Processes are those of the last look (refresh())."""

    def __init__(self, log: GrowingLog) -> None:
        self.log = log
        self.words = Vocabulary(log.op_rows)
        #: rows of the process table, as dicts; the same by id of the entry
        self.rows: list[dict[str, Any]] = []
        self.by_id: dict[int, dict[str, Any]] = {}
        self._seen: tuple[int, int] | None = None
        self._own = OwnCode()
        self._forget()

    def _forget(self) -> None:
        self.heap = SingleObjects(self.log.file, _ROOM)
        self._paths = Paths(self.heap)
        self._lines: dict[tuple[int, int, bool], Line] = {}
        self._objects: dict[int, tuple[str, str]] = {}
        self._sent = SentCode(self.log, self.heap)

    def refresh(self) -> None:
        """Reads the process table of the log's last look."""
        if len(self._lines) > _MOST or len(self._objects) > _MOST:
            self._forget()
        table = read_processes(self.log, self.heap)
        self.rows = [dict(vars(process)) for process in table]
        add_names(self.rows)
        ids = self.log.process_ids.tolist()
        self.by_id = dict(zip(ids, self.rows, strict=True))
        state = (len(ids), ids[-1] if ids else 0)
        if state != self._seen:
            self._own, self._seen = own_code_of(self.rows), state
            self._sent = SentCode(self.log, self.heap)

    def running(self) -> list[dict[str, Any]]:
        """The rows of the processes that are running."""
        return [row for row in self.rows if row["ended"] == RUNNING]

    def process(self, identity: int) -> str:
        """A process as text shows it, by the id of its entry."""
        row = self.by_id.get(identity)
        return label(row) if row is not None else "a process that has ended"

    # ---- lines

    def line(self, stack: int, process: int, *, sampled: bool = False) -> Line:
        """Where a stack of a process is.  sampled: it is one of the sampler's."""
        return self.lines([(stack, process)], sampled=sampled)[0]

    def lines(self, wanted: Iterable[tuple[int, int]], *, sampled: bool = False) -> list[Line]:
        """Where stacks (ids) of processes (ids of entries) are."""
        asked = [(stack, self._fork_of(process), sampled) for stack, process in wanted]
        new: dict[int, list[int]] = {}
        for stack, fork, _ in set(asked) - self._lines.keys():
            new.setdefault(fork, []).append(stack)
        for fork, ids in new.items():
            self._work_out(np.array(sorted(ids), np.int64), fork, sampled)
        return [self._lines.get(key, NOWHERE) for key in asked]

    def _fork_of(self, process: int) -> int:
        """The id of the stack at which a process was forked; 0: it was not."""
        row = self.by_id.get(process)
        return 0 if row is None or row["start"] != "fork" else stack_of_start(self.log, self.words, row["started_by"])

    def _work_out(self, ids: NDArray[np.int64], fork: int, sampled: bool) -> None:
        numbers: Any = _Numbers(ids)
        forks = [fork] if fork else []
        stacks = Stacks(self.heap, numbers, ids, self._sent, self._own, forks, sampled=sampled)
        rows = numbers.of(ids.astype(np.uint32))
        site, stack = (getattr(stacks, name).take(rows).astype(np.int64) for name in ("site", "stack"))
        if fork:
            every = np.zeros(len(rows), np.int8)
            stacks.cut_in("site", site, rows, every)
            stacks.cut_in("stack", stack, rows, every)
        for identity, at, folded in zip(ids.tolist(), site.tolist(), stack.tolist(), strict=True):
            text = stacks.sites[at] if at >= 0 else ""
            whole = stacks.folded[folded] if folded >= 0 else ""
            self._lines[identity, fork, sampled] = Line(text, self._within(text, whole), whole)

    def _within(self, site: str, stack: str) -> str:
        """The function of a library that a line calls, such as "queue.Queue.get"."""
        frames = stack.split(";")
        if not site or site not in frames:
            return ""
        inner = frames[len(frames) - frames[::-1].index(site) :]
        if not inner:
            return ""
        file, _, function = inner[0].rsplit(":", 2)
        module = module_of(file)
        return f"{module}.{function}" if self._own.kind(file, function, False) <= STANDARD else ""

    # ---- what operations are on

    def op(self, record: np.void) -> str:
        """The name of an operation; of a span, its own name."""
        number, aux = int(record["op"]), int(record["aux"])
        if self.words.shape[number] == layout.SHAPE_SPAN and aux:
            named = self.heap.base(aux) if self.words.placed_spans[number] else aux
            return self.heap.text(named) or self.words.names[number]
        return self.words.names[number]

    def path(self, record: np.void) -> str:
        """The path that an operation is on; "" if it is on none."""
        return self.object(int(record["desc"]))[0]

    def object(self, identity: int) -> tuple[str, str]:
        """(path, kind of the file) of a descriptor or of a string that is a path; "" for what is not known."""
        if not identity:
            return "", ""
        found = self._objects.get(identity)
        if found is None:
            found = self._objects[identity] = self._object(identity)
        return found

    def _object(self, identity: int) -> tuple[str, str]:
        rows, known = self.heap.descriptors(np.array([identity], np.int64))
        string, kind = identity, ""
        if known[0]:
            string = int(rows["path"][0])
            number = int(rows["kind"][0])
            kind = layout.FILE_KINDS[number] if 0 < number < len(layout.FILE_KINDS) else ""
        at = self._paths.index(string) if string else -1
        return (self._paths.texts[at] if at >= 0 else "", kind)
