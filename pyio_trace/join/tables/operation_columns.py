"""Makes the columns of the operations table from blocks of raw records.

There is one method for each column.  Each is a few array look-ups in tables that
are made once for the log (log_tables.py); nothing here loops over operations.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from pyio_trace import enums, events
from pyio_trace.enums import Layer, Link, OpClass, Role
from pyio_trace.join.base.arrow_arrays import of_codes, of_numbers
from pyio_trace.join.base.records import RAISED, UNKNOWN, duration_ticks, ids_in
from pyio_trace.join.base.roles import HANDED_OVER, WAITED_FOR, lock_commands
from pyio_trace.join.offsets.given_places import given_places
from pyio_trace.join.parents.enclosures import Enclosing
from pyio_trace.join.parents.parent_finder import FoundParents
from pyio_trace.join.tables.log_tables import LogTables
from pyio_trace.log import layout
from pyio_trace.log.blocks import Block
from pyio_trace.log.layout import Trait
from pyio_trace.log.sorting import find

if TYPE_CHECKING:
    import pyarrow as pa


class OperationColumns:
    """The columns of one block, which must have no internal records."""

    def __init__(self, tables: LogTables, block: Block) -> None:
        self._tables = tables
        self._block = block
        self._records = block.records
        self._op = block.op
        self._traits = tables.words.traits.take(block.op)
        self._flags = block.flags
        self._sums = block.sums

    def __len__(self) -> int:
        return len(self._op)

    def arrays(self, names: Sequence[str]) -> list[pa.Array]:
        """The columns as Arrow arrays."""
        return [_COLUMNS[name](self) for name in names]

    # ---- what several columns need

    @cached_property
    def _shape(self) -> NDArray[np.uint8]:
        return self._tables.words.shape.take(self._op)

    @cached_property
    def _objects(self) -> NDArray[np.int64]:
        return self._tables.numbers.of(self._records["desc"])

    @cached_property
    def _stacks(self) -> NDArray[np.int64]:
        return self._tables.numbers.of(self._records["stack"])

    @cached_property
    def _done(self) -> NDArray[np.bool_]:
        mask: NDArray[np.bool_] = np.equal(self._flags & layout.STATE_MASK, layout.DONE)
        return mask

    @cached_property
    def _failed(self) -> NDArray[np.bool_]:
        mask: NDArray[np.bool_] = np.not_equal(self._flags & layout.FAILED, 0)
        return mask

    @cached_property
    def _any_flags(self) -> int:
        return int(np.bitwise_or.reduce(self._flags)) if len(self) else 0

    @cached_property
    def _coalesced(self) -> NDArray[np.bool_]:
        mask: NDArray[np.bool_] = np.not_equal(self._flags & layout.COALESCED, 0)
        return mask

    @cached_property
    def _process_index(self) -> NDArray[np.int32]:
        return self._tables.process_of(self._block)

    @cached_property
    def _wide(self) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64], NDArray[np.bool_]]:
        """(rows with values that did not fit, their sizes, results, which are known)."""
        rows = np.flatnonzero((self._flags & layout.WIDE) != 0)
        return rows, *self._tables.scan.wide.of(self._block.ids[rows])

    def _rows_of(self, shape: int) -> NDArray[np.int64]:
        if not self._tables.scan.op_counts[self._tables.words.shape == shape].any():
            return np.empty(0, np.int64)
        return np.flatnonzero(self._shape == shape)

    @cached_property
    def _found(self) -> FoundParents | None:
        """Parents that were not recorded."""
        return None if self._tables.parent_finder is None else self._tables.parent_finder.parents_of(self._block)

    def _of_stack(self, name: str) -> NDArray[Any]:
        """site, submitted, in_import or stack of Stacks, by row."""
        stacks, numbers = self._tables.stacks, self._stacks
        values: NDArray[Any] = getattr(stacks, name).take(numbers)
        fork = self._tables.fork_of(self._process_index)
        if fork is not None:
            stacks.cut_in(name, values, numbers, fork)
        return values

    @cached_property
    def _parent(self) -> NDArray[np.int64]:
        """The parent of each row, 0: none."""
        parent = self._records["parent"].astype(np.int64)
        if self._found is not None:
            parent[self._found.rows] = self._found.parents
        if self._tables.ring is not None:
            parent[self._tables.ring.overwritten(parent, self._block)] = 0
        return parent

    @cached_property
    def _role(self) -> NDArray[np.uint8]:
        words, role = self._tables.words, self._tables.words.role.take(self._op)
        by_file = self._tables.file_roles
        if by_file is not None:
            special = by_file.take(self._objects)
            opened = self._rows_of(layout.SHAPE_OPEN)
            special[opened] = np.maximum(
                special[opened], by_file.take(self._tables.numbers.of(ids_in(self._records["offset"][opened])))
            )
            klass = words.klass.take(self._op)
            applies = np.where(special == Role.WAIT, WAITED_FOR[klass], HANDED_OVER[klass])
            role = np.where(applies & (special != 0) & (role >= Role.IO), special, role)
        role[lock_commands(self._op, self._records["size"], words.fcntl)] = Role.LOCK
        working = self._tables.enclosures.working
        if len(working):
            waits = np.flatnonzero(role == Role.WAIT)
            role[waits[find(working, self._block.ids[waits])[1]]] = Role.CONTAINER
        return role

    @cached_property
    def _enclosing(self) -> Enclosing:
        """What encloses each row; a request that is in none encloses itself."""
        enclosures, process = self._tables.enclosures, self._block.process
        parent = self._parent
        found = enclosures.above(parent, process)
        if self._found is not None and len(self._found.rows):
            # What is beneath a row whose parent was found afterwards is in the same as that row.
            ids = self._block.ids[self._found.rows]
            at, beneath = find(ids, parent)
            beneath &= found.request[self._found.rows][at] != 0
            rows = np.flatnonzero(beneath)
            outer = self._found.rows[at[rows]]
            found.request[rows], found.task[rows] = found.request[outer], found.task[outer]
            found.in_transfer[rows] |= found.in_transfer[outer]
        own = (found.request == 0) & (self._role == Role.REQUEST)
        return found._replace(request=np.where(own, self._block.ids, found.request))

    # ---- columns

    def id(self) -> pa.Array:
        return of_numbers(self._block.ids)

    def parent(self) -> pa.Array:
        return of_numbers(self._parent, self._parent == 0)

    def link(self) -> pa.Array:
        number = self._flags >> layout.LINK_SHIFT
        if self._found is not None:
            number[self._found.rows] = self._found.links
        number[number == layout.LINK_STARTED] = Link.CONTEXT  # of sums
        return of_codes(np.where(number < len(enums.LINKS), number, 0), self._tables.dictionary("link"))

    def time(self) -> pa.Array:
        return of_numbers(self._tables.clock.epoch(self._records["begin"]))

    def duration(self) -> pa.Array:
        if self._sums is not None:
            return of_numbers(self._tables.clock.span(_int64(self._sums["ticks"])), ~self._done)
        return of_numbers(self._tables.clock.span(duration_ticks(self._records)), ~self._done)

    def layer(self) -> pa.Array:
        return of_codes(self._tables.words.layer.take(self._op), self._tables.dictionary("layer"))

    def op_class(self) -> pa.Array:
        klass = self._tables.words.klass.take(self._op)
        klass[lock_commands(self._op, self._records["size"], self._tables.words.fcntl)] = OpClass.LOCK
        return of_codes(klass, self._tables.dictionary("op_class"))

    def op(self) -> pa.Array:
        index = self._tables.op_names.by_number.take(self._op)
        spans = self._rows_of(layout.SHAPE_SPAN)
        if len(spans):
            named = self._tables.op_names.by_object.take(self._tables.numbers.of(self._records["aux"][spans]))
            index[spans] = np.where(named >= 0, named, index[spans])
        return of_codes(index, self._tables.dictionary("op"))

    def host(self) -> pa.Array:
        return of_codes(np.zeros(len(self), np.int32), self._tables.dictionary("host"))

    def pid(self) -> pa.Array:
        index = self._process_index
        return of_numbers(self._tables.pids.take(index, mode="wrap"), index < 0)

    def tid(self) -> pa.Array:
        return of_numbers(self._block.tid, self._block.tid == 0)

    def process(self) -> pa.Array:
        return of_numbers(self._process_index, self._process_index < 0)

    def global_rank(self) -> pa.Array:
        rank = self._tables.ranks.take(self._process_index, mode="wrap")
        return of_numbers(rank, (rank < 0) | (self._process_index < 0))

    def path(self) -> pa.Array:
        return of_codes(self._tables.files.path.take(self._objects), self._tables.dictionary("path"))

    def file(self) -> pa.Array:
        file = self._tables.files.at(self._objects, self._records["begin"])
        opened = self._rows_of(layout.SHAPE_OPEN)
        if len(opened):
            new = self._tables.files.file.take(self._tables.numbers.of(ids_in(self._records["offset"][opened])))
            file[opened] = np.where(new != 0, new, file[opened])
        return of_numbers(file, file == 0)

    def fd(self) -> pa.Array:
        words = self._tables.words
        fd = self._records["aux"].view(np.int32).astype(np.int32)
        has_fd = words.has_fd.take(self._op)
        if self._any_flags & layout.COALESCED:
            fd = np.where(self._coalesced, self._tables.files.fd.take(self._objects), fd)
        copies = self._rows_of(layout.SHAPE_FD2)
        if len(copies):
            fd[copies] = self._tables.files.fd.take(self._objects[copies])
        opened = words.opens.take(self._op)
        if opened.any():
            shown = self._done & ~self._failed
            fd = np.where(opened & (self._shape == layout.SHAPE_OPEN), self._records["result"].view(np.int32), fd)
            has_fd &= ~opened | shown
        return of_numbers(fd, ~has_fd | (fd < 0))

    def file_offset(self) -> pa.Array:
        fine = self._done & ~self._failed
        offset, missing, rows = given_places(self._records, self._traits, fine, self._tables.files, self._objects)
        null = ~self._tables.words.placed.take(self._op) | missing
        if self._any_flags & layout.COALESCED:
            null |= self._coalesced
        null |= ((self._traits & Trait.SETS_POSITION) != 0) & ~self._done
        if len(rows):
            found = self._tables.offsets.of(self._block.ids[rows])
            offset[rows] = found
            null[rows] = found == UNKNOWN
        return of_numbers(offset, null)

    def bytes_requested(self) -> pa.Array:
        size = self._records["size"].astype(np.int64)
        null = ~self._tables.words.sized.take(self._op) | (size == layout.NO_BYTES)
        if self._any_flags & layout.WIDE:
            rows, sizes, _, known = self._wide
            size[rows], null[rows] = sizes, ~known | (sizes < 0)  # negative: forged
        if self._sums is not None:
            size = _int64(self._sums["asked"])
        return of_numbers(size, null)

    def bytes_moved(self) -> pa.Array:
        moved = self._records["result"].astype(np.int64)
        null = ~self._tables.words.moves.take(self._op) | (moved == layout.NO_BYTES) | ~self._done
        if self._any_flags & layout.WIDE:
            rows, _, results, known = self._wide
            moved[rows], null[rows] = results, ~known | ~self._done[rows] | (results < 0)
        if self._any_flags & layout.FAILED:
            rows = np.flatnonzero(self._failed)
            moved[rows] = self._tables.scan.wide.moved_by_failed(self._block.ids[rows])
            null[rows] = (self._traits[rows] & (Trait.READS | Trait.WRITES)) == 0
        if self._sums is not None:
            moved = _int64(self._sums["moved"])
        return of_numbers(moved, null)

    def to_file(self) -> pa.Array:
        file = np.zeros(len(self), np.int64)
        copies = self._rows_of(layout.SHAPE_FD2)
        file[copies] = self._tables.files.file.take(self._tables.numbers.of(self._records["aux"][copies]))
        return of_numbers(file, file == 0)

    def to_file_offset(self) -> pa.Array:
        offset = np.full(len(self), UNKNOWN, np.int64)
        copies = self._rows_of(layout.SHAPE_FD2)
        if len(copies):
            ids, begins = self._block.ids[copies], self._records["begin"][copies]
            found = self._tables.offsets.of_outputs(ids)
            self._tables.scan.targets.fill(found, ids, begins)
            offset[copies] = found
        return of_numbers(offset, offset == UNKNOWN)

    def file_kind(self) -> pa.Array:
        kind = self._tables.files.kind.take(self._objects)
        opened = self._rows_of(layout.SHAPE_OPEN)
        if len(opened):
            new = self._tables.files.kind.take(self._tables.numbers.of(ids_in(self._records["offset"][opened])))
            kind[opened] = np.where(new != 0, new, kind[opened])
        return of_codes(np.where(kind != 0, kind.astype(np.int32), -1), self._tables.dictionary("file_kind"))

    def command(self) -> pa.Array:
        index = np.full(len(self), -1, np.int32)
        shapes = [layout.SHAPE_COMMAND, layout.SHAPE_WAIT]
        if self._sums is None:  # sums of opens and seeks do not have theirs
            shapes.append(layout.SHAPE_SEEK)
            rows = self._rows_of(layout.SHAPE_OPEN)
            # Flags of a file object's open are those of its descriptor, if it got one.
            given = ids_in(self._records["offset"][rows]) != 0
            given |= self._tables.words.layer.take(self._op[rows]) != Layer.APP
            index[rows] = np.where(given, self._tables.commands.of_opens(self._records["aux"][rows]), -1)
        for shape in shapes:
            rows = self._rows_of(shape)
            index[rows] = self._tables.commands.of(self._op[rows], self._records["size"][rows])
        return of_codes(index, self._tables.dictionary("command"))

    def cpu_time(self) -> pa.Array:
        time = np.full(len(self), -1, np.int64)
        rows = self._rows_of(layout.SHAPE_SPAN)
        if len(rows):
            found = time[rows]
            self._tables.scan.cpu.fill(found, self._block.ids[rows], self._records["begin"][rows])
            time[rows] = found
        return of_numbers(time, time < 0)

    def errno(self) -> pa.Array:
        if not self._any_flags & layout.FAILED:
            return of_numbers(np.zeros(len(self), np.int32))
        number = np.minimum(self._records["result"], np.iinfo(np.int32).max)
        number = np.where(number == 0, RAISED, number.astype(np.int64))
        return of_numbers(np.where(self._failed, number, 0).astype(np.int32))

    def site(self) -> pa.Array:
        return of_codes(self._of_stack("site"), self._tables.dictionary("site"))

    def submitted(self) -> pa.Array:
        return of_numbers(self._of_stack("submitted"))

    def call_stack(self) -> pa.Array:
        return of_codes(self._of_stack("stack"), self._tables.dictionary("call_stack"))

    def imported(self) -> pa.Array:
        imported = self._tables.stacks.imported.take(self._stacks)
        since = self._tables.python_since
        if since.any():  # the start of an interpreter, before it has stacks
            index = self._process_index
            imported |= (self._records["begin"] < since.take(index, mode="wrap")) & (index >= 0)
        return of_numbers(imported)

    def in_import(self) -> pa.Array:
        return of_numbers(self._of_stack("in_import"))

    def op_role(self) -> pa.Array:
        return of_codes(self._role, self._tables.dictionary("op_role"))

    def request_id(self) -> pa.Array:
        return of_numbers(self._enclosing.request, self._enclosing.request == 0)

    def task_id(self) -> pa.Array:
        return of_numbers(self._enclosing.task, self._enclosing.task == 0)

    def in_transfer(self) -> pa.Array:
        return of_numbers(self._enclosing.in_transfer)

    def calls(self) -> pa.Array:
        if self._sums is not None:  # the detail has counts beyond 2**31
            calls = np.where(self._done, self._sums["count"], self._sums["begun"])
            return of_numbers(np.minimum(calls, np.iinfo(np.int32).max).astype(np.int32))
        if not self._any_flags & layout.COALESCED:
            return of_numbers(np.ones(len(self), np.int32))
        counted = np.clip(self._records["aux"], 1, np.iinfo(np.int32).max)
        return of_numbers(np.where(self._coalesced, counted, 1).astype(np.int32))

    def detail(self) -> pa.Array:
        index = self._tables.details.index_of(self._block, self._tables.words, self._tables.numbers)
        if self._tables.ambiguous_details is not None:
            index = self._tables.ambiguous_details.put(self._block.ids, index)
        return self._tables.as_details(index)


#: column name -> the method that makes it
_COLUMNS: dict[str, Callable[[OperationColumns], Any]] = {
    column.name: getattr(OperationColumns, column.name) for column in events.OPERATIONS + events.INTERNAL
}


def _int64(values: NDArray[np.uint64]) -> NDArray[np.int64]:
    return np.minimum(values, np.uint64(np.iinfo(np.int64).max)).astype(np.int64)
