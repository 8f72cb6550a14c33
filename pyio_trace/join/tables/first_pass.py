"""The first pass over a log's records: collects what they refer to.

The dictionaries (paths, stacks, names, details) must be known before the first
batch of rows goes out, and offsets of plain reads and writes need all operations
on a description in order.  So the records are read twice: here, to collect what
they refer to, and in operation_columns.py, to make the columns of the table.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pyio_trace.join.base import parallel
from pyio_trace.join.base.records import Completions, WideValues, ids_in, is_done
from pyio_trace.join.base.vocabulary import Vocabulary
from pyio_trace.join.offsets.positions import (
    AllPositionEvents,
    PositionEvents,
    openings,
    resumptions,
    transfers_and_seeks,
)
from pyio_trace.join.parents.enclosures import EnclosingRecords
from pyio_trace.join.parents.ended_parents import EndedParents, any_started
from pyio_trace.join.parents.span_table import BlockSpans, SpanRecords, spans_in
from pyio_trace.join.processes.kernel_io import ProcessBytes, WideRow, bytes_in, totals
from pyio_trace.join.references.commands import OPENS, open_numbers
from pyio_trace.join.references.inode_reuse import NameChangeReader, NameChanges, combined
from pyio_trace.log import layout
from pyio_trace.log.blocks import BLOCK_ROWS, Block
from pyio_trace.log.heap import HeapSlots, ObjectNumbers
from pyio_trace.log.layout import Trait
from pyio_trace.log.live import LiveLog
from pyio_trace.log.sorting import distinct

_COMPLETING = (layout.SHAPE_EXT, layout.SHAPE_OUTPUT, layout.SHAPE_CPU, layout.SHAPE_RAISED)
_NONE = np.empty(0, np.int64)
_KINDS = ("objects", "stacks", "span_names", "span_details", "placed_spans", "second_paths", "appended")


class _BlockFindings(NamedTuple):
    """What one block refers to, besides the heap ids: records by operation number, completing records, durations
    of coalesced rows, children that were waited for, position events, bytes by process, rows whose bytes are in EXT
    records, nested spans, spans, name changes, whether threads were started in spans."""

    op_counts: NDArray[np.int64]
    completing: list[NDArray[np.void]]
    coalesced: NDArray[np.int64]
    children: NDArray[np.int64]
    events: list[PositionEvents]
    bytes: list[ProcessBytes]
    wide_rows: list[WideRow]
    nested: NDArray[np.void] | None = None
    spans: BlockSpans | None = None
    names: NameChanges | None = None
    started: bool = False


class FirstPass:
    """What the records of one log refer to.

    rows: operations in the table.  op_counts: records of each operation number.
    objects, stacks, span_names, span_details, placed_spans, second_paths: heap
    ids in use (int64, ascending); placed_spans: details whose base is the name.
    appended: likewise, of the descriptors with appends that a call's flags asked
    for.  numbers: of all these objects.  wide: sizes and results that did not
    fit a record.
    opens: which flags opens have (open_numbers()).
    children: ids of the processes that were waited for.
    targets: offsets that copies were given for their output.  cpu: processor
    time of spans, in ns.  coalesced:
    distinct durations of coalesced rows, from first begin to last end, in ticks.
    events: the operations that move a position or depend on one.
    bytes_by_process: bytes (read, written) that rows have of each process (by
    id), as the kernel counts them.  spans: see span_table.  enclosing: see
    enclosures.  ended: None: no thread was started in a span.
    names: all name changes and openings.
    """

    def __init__(self, log: LiveLog, words: Vocabulary, slots: HeapSlots) -> None:
        self._words = words
        self._slots = slots
        self._in_use = {name: np.zeros(slots.count, np.bool_) for name in _KINDS}
        self._lost_until = int(log.header["ring_lost"])
        self._names = NameChangeReader(words)
        self._by_flags: NDArray[np.bool_] = np.array(words.names) == "pwritev2"
        self.op_counts = np.zeros(layout.MAX_OPS, np.int64)
        self.opens = np.zeros(OPENS, np.bool_)
        self.events = AllPositionEvents(log.record_slots())
        self.spans = SpanRecords()
        self.enclosing = EnclosingRecords(words, log.record_slots(), log.last_id())
        completing: list[NDArray[np.void]] = []
        coalesced = [_NONE]
        children = [_NONE]
        moved: list[ProcessBytes] = []
        wide_rows: list[WideRow] = []
        names: list[NameChanges] = []
        started = False
        for found in parallel.map_in_order(
            lambda portion: self._look_at(log.load(portion, lasting=False)), log.portions(BLOCK_ROWS)
        ):
            self.op_counts += found.op_counts
            completing += found.completing
            coalesced.append(found.coalesced)
            children.append(found.children)
            moved += found.bytes
            wide_rows += found.wide_rows
            if found.nested is not None:
                self.enclosing.nested.append(found.nested)
            if found.spans is not None:
                self.spans.add(found.spans)
            started |= found.started
            if found.names is not None:
                names.append(found.names)
            for events in found.events:
                self.events.append(events)
        self.op_counts[words.with_traits(Trait.HIDDEN)] = 0
        self.rows = int(self.op_counts.sum())
        every = np.flatnonzero(np.logical_or.reduce(list(self._in_use.values())))
        self.numbers = ObjectNumbers(slots, every)
        self.objects, self.stacks, self.span_names, self.span_details, self.placed_spans, *rest = map(self._ids, _KINDS)
        self.second_paths, self.appended = rest
        self._in_use.clear()
        self.ended: EndedParents | None = None
        if started:
            self.ended = EndedParents(self.spans.spans)
            for nested in self.enclosing.nested:
                self.ended.correct(nested)
        self.names = combined(names)
        self._complete(completing)
        self.coalesced: NDArray[np.int64] = distinct(np.concatenate(coalesced))
        self.children: NDArray[np.int64] = distinct(np.concatenate(children))
        self.events.finish(self.wide, self.numbers)
        self.events.forget(self._lost_until)
        self.bytes_by_process = totals(moved + self._bytes_of(wide_rows))

    def _complete(self, parts: list[NDArray[np.void]]) -> None:
        records = np.concatenate([np.empty(0, layout.RECORD), *parts])
        shape = self._words.shape.take(records["op"])
        self.wide = WideValues(records[shape == layout.SHAPE_EXT])
        self.targets = Completions(records[shape == layout.SHAPE_OUTPUT])
        self.cpu = Completions(records[shape == layout.SHAPE_CPU])
        raised = records[shape == layout.SHAPE_RAISED]
        self.raised = Completions(raised)
        self.exceptions = distinct(raised["offset"])

    def _bytes_of(self, rows: list[WideRow]) -> list[ProcessBytes]:
        ids = np.array([row.id for row in rows], np.int64)
        _, results, known = self.wide.of(ids)
        failed = np.array([row.failed for row in rows], np.bool_)
        results = np.where(failed, self.wide.moved_by_failed(ids), results)
        return [
            ProcessBytes(
                row.process,
                result if row.direction & Trait.READS else 0,
                result if row.direction & Trait.WRITES else 0,
            )
            for row, result, there in zip(rows, results.tolist(), known.tolist(), strict=True)
            if there and result > 0
        ]

    def _ids(self, name: str) -> NDArray[np.int64]:
        found = np.flatnonzero(self._in_use[name])
        return self._slots.ids(found[found >= HeapSlots.NONE])

    def _look_at(self, block: Block) -> _BlockFindings:
        """One block, in any thread: marks the heap ids in use, which needs no order, and returns the rest."""
        records = block.records
        op_counts = np.bincount(block.op, minlength=layout.MAX_OPS)
        traits = self._words.traits.take(block.op)
        present = int(np.bitwise_or.reduce(traits))
        completing = []
        events: list[PositionEvents] = []
        if present & Trait.HIDDEN:
            events = resumptions(block, traits, self._slots)
            hidden = (traits & Trait.HIDDEN) != 0
            completing.append(records[hidden & np.isin(self._words.shape.take(block.op), _COMPLETING)])
            block = block.where(~hidden)
            records, traits = block.records, traits[~hidden]
        nested = self.enclosing.look_at(block)
        slots = self._slots.of(records["desc"])
        self._in_use["objects"][slots] = True
        self._in_use["stacks"][self._slots.of(records["stack"])] = True
        if present & (has_ids := Trait.AUX_IS_ID | Trait.OFFSET_IS_ID):
            self._mark_references(records, np.flatnonzero((traits & has_ids) != 0), block.op)
        if block.sums is not None:
            if bool((records["desc"][self._words.shape.take(records["op"]) == layout.SHAPE_SPAN] != 0).any()):
                self.spans.summed = True
            moved, wide_rows = bytes_in(block, self._words)
            names = self._names.read_sums(block)
            return _BlockFindings(op_counts, completing, _NONE, _NONE, [], moved, wide_rows, nested, names=names)
        durations = distinct(records["offset"][(block.flags & layout.COALESCED) != 0])
        settles = self._words.settles_stream if op_counts[self._words.settles_stream].any() else None
        if present & Trait.MOVES_POSITION or settles is not None:
            events = events + transfers_and_seeks(block, traits, slots, self._slots, settles)
        if self._lost_until:
            events = events + self._openings(block)
        if op_counts[self._by_flags].any():
            appends = np.isin(records["offset"], (layout.AT_END, layout.TO_END)) & self._by_flags.take(block.op)
            self._in_use["appended"][slots[appends]] = True
        moved, wide_rows = bytes_in(block, self._words)
        spans = spans_in(block, self._words) if op_counts[self._words.encloses].any() else None
        names = self._names.read(block)
        children = self._children(block) if op_counts[self._words.shape == layout.SHAPE_WAIT].any() else _NONE
        return _BlockFindings(
            op_counts,
            completing,
            durations,
            children,
            events,
            moved,
            wide_rows,
            nested,
            spans,
            names,
            any_started(block),
        )

    def _children(self, block: Block) -> NDArray[np.int64]:
        rows = np.flatnonzero(is_done(block.records) & (self._words.shape.take(block.op) == layout.SHAPE_WAIT))
        found = block.records["result"][rows]
        return distinct(found[found != layout.NO_BYTES].astype(np.int64))

    def _openings(self, block: Block) -> list[PositionEvents]:
        records = block.records
        rows = np.flatnonzero(is_done(records) & (self._words.shape.take(records["op"]) == layout.SHAPE_OPEN))
        return openings(block, rows, self._slots.of(ids_in(records["offset"])))

    def _mark_references(self, records: NDArray[np.void], rows: NDArray[np.int64], op: NDArray[np.uint8]) -> None:
        """Marks the ids in aux and offset of rows whose shape has ids there."""
        shape = self._words.shape.take(op.take(rows))
        second = records["aux"][rows[(shape == layout.SHAPE_PATH2) | (shape == layout.SHAPE_FD2)]]
        self._mark("second_paths", second)
        self._mark("objects", second)
        placed = self._words.placed_spans.take(op.take(rows))
        self._mark("placed_spans", records["aux"][rows[placed]])
        spans = rows[(shape == layout.SHAPE_SPAN) & ~placed]
        self._mark("span_names", records["aux"][spans])
        self._mark("span_details", ids_in(records["offset"][spans]))
        opens = rows[shape == layout.SHAPE_OPEN]
        self.opens[open_numbers(records["aux"][opens])] = True
        opened = np.concatenate([opens, rows[shape == layout.SHAPE_DUP]])
        self._mark("objects", ids_in(records["offset"][opened]))

    def _mark(self, name: str, ids: NDArray[np.uint32]) -> None:
        if len(ids):
            self._in_use[name][self._slots.of(ids)] = True
