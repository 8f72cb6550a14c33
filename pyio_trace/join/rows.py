"""Blocks of raw records to columns of the operations table.

One method a column, each a handful of array reads over tables that were made
once for the log; nothing here looks at a single operation.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from pyio_trace import events
from pyio_trace.join import candidates, vocabulary
from pyio_trace.join.arrays import of_numbers
from pyio_trace.join.links import Found
from pyio_trace.join.positions import UNKNOWN
from pyio_trace.join.survey import identities
from pyio_trace.log import layout
from pyio_trace.log.live import Block

if TYPE_CHECKING:
    import pyarrow as pa

    from pyio_trace.join.live_source import LiveSource


class Rows:
    """The rows of one block, of which internal records have been taken out."""

    def __init__(self, log: LiveSource, block: Block) -> None:
        traits = log.words.traits.take(block.op)
        self.traits_present = int(np.bitwise_or.reduce(traits)) if len(traits) else 0
        if self.traits_present & vocabulary.HIDDEN:
            keep = (traits & vocabulary.HIDDEN) == 0
            block, traits = block.where(keep), traits[keep]
        self._log = log
        self._block = block
        self._records = block.records
        self._op = block.op
        self._traits = traits
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
        return self._log.words.shape.take(self._op)

    @cached_property
    def _slots(self) -> NDArray[np.int64]:
        return self._log.slots.of(self._records["desc"])

    @cached_property
    def _stack_slots(self) -> NDArray[np.int64]:
        return self._log.slots.of(self._records["stack"])

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
        return self._log.process_of_page.take(self._block.process >> 8, mode="clip")

    @cached_property
    def _wide(self) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64], NDArray[np.bool_]]:
        """(rows that have wide values, their sizes, results, which are known)."""
        rows = np.flatnonzero((self._flags & layout.WIDE) != 0)
        return rows, *self._log.survey.ext.of(self._block.ids[rows])

    def _rows_of(self, shape: int) -> NDArray[np.int64]:
        if not self._log.survey.op_counts[self._log.words.shape == shape].any():
            return np.empty(0, np.int64)
        return np.flatnonzero(self._shape == shape)

    @cached_property
    def _found(self) -> Found | None:
        """Parents that the capture did not know."""
        return None if self._log.links is None else self._log.links.of(self._block)

    # ---- columns

    def id(self) -> pa.Array:
        return of_numbers(self._block.ids)

    def parent(self) -> pa.Array:
        parent = self._records["parent"].astype(np.int64)
        if self._found is not None:
            parent[self._found.rows] = self._found.parents
        if self._log.ring is not None:
            return of_numbers(parent, (parent == 0) | self._log.ring.overwritten(parent, self._block))
        return of_numbers(parent, parent == 0)

    def link(self) -> pa.Array:
        number = self._flags >> layout.LINK_SHIFT
        if self._found is not None:
            number[self._found.rows] = self._found.links
        return _indexed(np.where(number < len(events.LINKS), number, 0), self._log.values("link"))

    def time(self) -> pa.Array:
        return of_numbers(self._log.clock.epoch(self._records["begin"]))

    def duration(self) -> pa.Array:
        if self._sums is not None:
            return of_numbers(self._log.clock.span(_int64(self._sums["ticks"])), ~self._done)
        ticks = self._records["duration_lo"].astype(np.int64)
        high = self._records["duration_hi"]
        if high.any():
            ticks += high.astype(np.int64) << 32
        return of_numbers(self._log.clock.span(ticks), ~self._done)

    def layer(self) -> pa.Array:
        return _indexed(self._log.words.layer.take(self._op), self._log.values("layer"))

    def op_class(self) -> pa.Array:
        return _indexed(self._log.words.klass.take(self._op), self._log.values("op_class"))

    def op(self) -> pa.Array:
        index = self._log.names.by_number.take(self._op)
        spans = self._rows_of(layout.SHAPE_SPAN)
        if len(spans):
            named = self._log.names.by_slot.take(self._log.slots.of(self._records["aux"][spans]))
            index[spans] = np.where(named >= 0, named, index[spans])
        return _indexed(index, self._log.values("op"))

    def host(self) -> pa.Array:
        return _indexed(np.zeros(len(self), np.int32), self._log.values("host"))

    def pid(self) -> pa.Array:
        index = self._process_index
        return of_numbers(self._log.pids.take(index, mode="wrap"), index < 0)

    def tid(self) -> pa.Array:
        return of_numbers(self._block.tid, self._block.tid == 0)

    def process(self) -> pa.Array:
        return of_numbers(self._process_index, self._process_index < 0)

    def path(self) -> pa.Array:
        return _indexed(self._log.files.path.take(self._slots), self._log.values("path"))

    def file(self) -> pa.Array:
        file = self._log.files.file.take(self._slots)
        opened = self._rows_of(layout.SHAPE_OPEN)
        if len(opened):
            new = self._log.files.file.take(self._log.slots.of(identities(self._records["offset"][opened])))
            file[opened] = np.where(new != 0, new, file[opened])
        return of_numbers(file, file == 0)

    def fd(self) -> pa.Array:
        words = self._log.words
        fd = self._records["aux"].view(np.int32).astype(np.int32)
        mine = words.has_fd.take(self._op)
        if self._any_flags & layout.COALESCED:
            fd = np.where(self._coalesced, self._log.files.fd.take(self._slots), fd)
        copies = self._rows_of(layout.SHAPE_FD2)
        if len(copies):
            fd[copies] = self._log.files.fd.take(self._slots[copies])
        opened = words.opens.take(self._op)
        if opened.any():
            shown = self._done & ~self._failed
            fd = np.where(opened & (self._shape == layout.SHAPE_OPEN), self._records["result"].view(np.int32), fd)
            mine &= ~opened | shown
        return of_numbers(fd, ~mine | (fd < 0))

    def offset(self) -> pa.Array:
        offset = self._records["offset"].copy()
        null = ~self._log.words.placed.take(self._op)
        if self._any_flags & layout.COALESCED:
            null |= self._coalesced
        seeks = (self._traits & vocabulary.SEEKS) != 0
        if seeks.any():
            null |= seeks & ~self._done
        implied = (offset == -1) & ~seeks
        if implied.any():
            null |= implied
            plain = (self._traits & (vocabulary.PLAIN | vocabulary.COPIES)) != 0
            rows = np.flatnonzero(implied & plain)
            found = self._log.offsets.of(self._block.ids[rows])
            offset[rows] = found
            null[rows] = found == UNKNOWN
        return of_numbers(offset, null)

    def size(self) -> pa.Array:
        size = self._records["size"].astype(np.int64)
        null = ~self._log.words.sized.take(self._op) | (size == layout.NO_BYTES)
        if self._any_flags & layout.WIDE:
            rows, sizes, _, known = self._wide
            size[rows], null[rows] = sizes, ~known | (sizes < 0)  # forged: none has so many
        if self._sums is not None:
            size = _int64(self._sums["asked"])
        return of_numbers(size, null)

    def moved(self) -> pa.Array:
        moved = self._records["result"].astype(np.int64)
        null = ~self._log.words.moves.take(self._op) | (moved == layout.NO_BYTES) | ~self._done
        if self._any_flags & layout.WIDE:
            rows, _, results, known = self._wide
            moved[rows], null[rows] = results, ~known | ~self._done[rows] | (results < 0)
        if self._any_flags & layout.FAILED:
            rows = np.flatnonzero(self._failed)
            moved[rows] = 0
            null[rows] = (self._traits[rows] & vocabulary.COUNTS) == 0
        if self._sums is not None:
            moved = _int64(self._sums["moved"])
        return of_numbers(moved, null)

    def errno(self) -> pa.Array:
        if not self._any_flags & layout.FAILED:
            return of_numbers(np.zeros(len(self), np.int32))
        number = np.minimum(self._records["result"], np.iinfo(np.int32).max)
        return of_numbers(np.where(self._failed, number, 0).astype(np.int32))

    def site(self) -> pa.Array:
        return _indexed(self._log.stacks.site.take(self._stack_slots), self._log.values("site"))

    def stack(self) -> pa.Array:
        return _indexed(self._log.stacks.stack.take(self._stack_slots), self._log.values("stack"))

    def imported(self) -> pa.Array:
        imported = self._log.stacks.imported.take(self._stack_slots)
        since = self._log.python_since
        if since.any():  # the start of an interpreter, before it had stacks to show
            index = self._process_index
            imported |= (self._records["begin"] < since.take(index, mode="wrap")) & (index >= 0)
        return of_numbers(imported)

    def count(self) -> pa.Array:
        if self._sums is not None:  # detail has those beyond 2**31
            calls = np.where(self._done, self._sums["count"], self._sums["begun"])
            return of_numbers(np.minimum(calls, np.iinfo(np.int32).max).astype(np.int32))
        if not self._any_flags & layout.COALESCED:
            return of_numbers(np.ones(len(self), np.int32))
        counted = np.clip(self._records["aux"], 1, np.iinfo(np.int32).max)
        return of_numbers(np.where(self._coalesced, counted, 1).astype(np.int32))

    def detail(self) -> pa.Array:
        index = self._detail_index()
        if self._log.unsure is not None:
            index = self._log.unsure.put(self._block.ids, index)
        return _indexed(index, self._log.values("detail"))

    def _detail_index(self) -> NDArray[np.int32]:
        details = self._log.details
        if self._sums is not None:
            return details.sums(self._block.ids)
        index = np.full(len(self), -1, np.int32)
        for shape in (layout.SHAPE_PATH2, layout.SHAPE_FD2):
            rows = self._rows_of(shape)
            index[rows] = details.to.take(self._log.slots.of(self._records["aux"][rows]))
        rows = self._rows_of(layout.SHAPE_SPAN)
        index[rows] = details.span.take(self._log.slots.of(identities(self._records["offset"][rows])))
        if self._any_flags & layout.COALESCED:
            rows = np.flatnonzero(self._coalesced)
            index[rows] = details.coalesced(self._records["offset"][rows])
        return index

    def unsure(self) -> tuple[NDArray[np.int64], pa.DictionaryArray] | None:
        """Ids of rows that may be of several spans, and their details; None: none of them."""
        found = None if self._log.links is None else self._log.links.unsure_of(self._block)
        if found is None:
            return None
        return self._block.ids[found.rows], candidates.texts(
            found, _indexed(self._detail_index()[found.rows], self._log.plain_details)
        )


#: column name -> the method of Rows that makes it
_COLUMNS: dict[str, Callable[[Rows], Any]] = {
    column.name: getattr(Rows, column.name) for column in events.OPERATIONS + events.INTERNAL
}


def _int64(values: NDArray[np.uint64]) -> NDArray[np.int64]:
    return np.minimum(values, np.uint64(np.iinfo(np.int64).max)).astype(np.int64)


def _indexed(index: NDArray[Any], values: pa.Array) -> pa.Array:
    import pyarrow as pa

    index = index.astype(np.int32, copy=False)
    null = index < 0
    return pa.DictionaryArray.from_arrays(of_numbers(index, null), values, safe=False)
