"""A batch of operations with everything that the reducers of the summary ask about each row."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from pyio_trace.analysis.calls.start_up import body_sites, lines_that
from pyio_trace.analysis.scan import batch_rows
from pyio_trace.analysis.scan.batch_rows import RowReader, Rows
from pyio_trace.analysis.scan.columns import Columns
from pyio_trace.enums import LINKS, Role
from pyio_trace.join.base.arrow_arrays import numbers, present, truths
from pyio_trace.light_dataclass import dataclass
from pyio_trace.values import LOADER_WORKER, program_of

if TYPE_CHECKING:
    import pyarrow as pa

    from pyio_trace.join.sources.facade import Log

Ints = NDArray[np.int64]
Mask = NDArray[np.bool_]

#: The columns of Log.batches() that SummaryReader needs.
COLUMNS = (*batch_rows.COLUMNS, "pid", "tid", "in_import", "parent", "link")


@dataclass(frozen=True)
class Actors:
    """Who is at work in each row of a batch.

    importing: the import system, or a module that is being imported; in_body: the
    body of an imported module of the program; own: a line of the program itself;
    idle: a worker that waits for its next task; main: the main thread; loading:
    a worker of a DataLoader, whose tasks have no names.
    """

    importing: Mask
    in_body: Mask
    own: Mask
    idle: Mask
    main: Mask
    loading: Mask


@dataclass(frozen=True)
class SummaryRows:
    """Rows, and what is known about each of them.

    imported: which the import system made, None: none; thread: its number in the
    system; link: index into enums.LINKS, -1: the row has no parent; op_names: the
    log's operations; sites: how many lines the log has.
    """

    rows: Rows
    imported: Mask | None
    who: Actors
    thread: Ints
    link: Ints
    op_names: list[str]
    sites: int


class SummaryReader:
    """Reads the batches of one log.  Several reducers may share one: each batch is read once.  Small when pickled."""

    def __init__(self, log: Log, table: list[dict[str, Any]]) -> None:
        """table: the log's processes."""
        self.reader = RowReader.of(log)
        self._child, self._loads = np.zeros((2, self.reader.processes), np.bool_)
        for index, process in enumerate(table):
            self._child[index] = process["parent"] is not None
            self._loads[index] = process["process_kind"] == LOADER_WORKER
        self._scripts = frozenset(filter(None, map(_script_of, table)))
        self._code = log.own_code()
        self._forget()

    def _forget(self) -> None:
        self._own: Mask | None = None  # by code of a line, the last for none
        self._users: Mask | None = None  # likewise
        self._in_body: Mask | None = None  # likewise
        self._latest: tuple[object, pa.RecordBatch | None, SummaryRows | None] = (None, None, None)

    def __getstate__(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in ("reader", "_child", "_loads", "_scripts", "_code")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._forget()

    def read(self, batch: pa.RecordBatch) -> SummaryRows:
        """The rows of a batch with COLUMNS; not empty."""
        ids = batch.column("id")
        key = ids.buffers()[1].address, ids.offset, len(ids)
        if self._latest[0] != key or self._latest[2] is None:
            self._latest = key, batch, self._read(batch)  # with the batch, whose memory is not used again meanwhile
        found = self._latest[2]
        assert found is not None
        return found

    def _read(self, batch: pa.RecordBatch) -> SummaryRows:
        rows, imported = self.reader.read(batch)
        sites = batch.column("site").dictionary
        if self._own is None or self._users is None or self._in_body is None:
            self._op_names = batch.column("op").dictionary.to_pylist()
            names = sites.to_pylist()
            self._own, self._users = (lines_that(test, names) for test in (self._code.is_own, self._code.is_users))
            self._in_body = body_sites(names, self._code, self._scripts)
        importing, own = truths(batch.column("in_import")), self._own.take(rows.site)
        if imported is not None:
            importing |= imported
        # Within a child process, a library (or the server that was started) that waits outside any task waits for work.
        idle = (
            ~self._users.take(rows.site) & (rows.role == Role.WAIT) & (rows.task == 0) & self._child.take(rows.process)
        )
        thread = numbers(batch.column("tid")).astype(np.int64)
        main = (thread == numbers(batch.column("pid"))) | (thread == 0)
        link = np.where(present(batch.column("parent")), Columns(batch).places("link", LINKS), -1).astype(np.int64)
        who = Actors(importing, self._in_body.take(rows.site), own, idle, main, self._loads.take(rows.process))
        return SummaryRows(rows, imported, who, thread, link, self._op_names, len(sites))


def _script_of(process: dict[str, Any]) -> str:
    """The name of the file that a process was started with; "" if it was started with none."""
    how, what = program_of(list(process["argv"])[1:])
    return "" if how else what.rpartition("/")[2]
