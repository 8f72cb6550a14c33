"""The first look over a log's records: what they refer to.

Dictionaries (paths, stacks, names, details) must be known before the first
batch of rows goes out, and offsets of plain reads and writes need all
operations on a description in order.  So the records are read twice: here, to
collect what they refer to, and in rows.py, to make the table's columns.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pyio_trace.join import accounts, generations, parallel, spans, vocabulary
from pyio_trace.join.positions import Entries, Moves, entries_of, opened_of, resumed_of
from pyio_trace.join.vocabulary import Vocabulary
from pyio_trace.log import layout
from pyio_trace.log.heap import HeapSlots
from pyio_trace.log.live import Block, LiveLog
from pyio_trace.log.sorting import distinct

#: Records looked at at once: enough to make numpy's cost per call small, few enough to stay in the cache.
BLOCK_ROWS = 1 << 16


class _Found(NamedTuple):
    """Of one block: records by operation number, EXT records, coalesced rows' ticks, entries for Moves, bytes moved
    by process, rows whose bytes stand in EXT records; what operations can be in; what became of names."""

    op_counts: NDArray[np.int64]
    wide: list[NDArray[np.void]]
    coalesced: NDArray[np.int64]
    moves: list[Entries]
    moved: list[accounts.Moved]
    later: list[tuple[int, int, int]]
    around: spans.Enclosing | None = None
    named: generations.Named | None = None


class Survey:
    """What the records of one log refer to.

    rows: how many operations the table has.  op_counts: of each number.
    objects, stacks, span_names, span_details, second_paths: heap ids in use
    (int64, ascending).  ext: (record id, size, result) of what did not fit.
    coalesced: distinct spans of coalesced rows in ticks.  moves: the
    operations that depend on a position.  moved: bytes (read, written) that
    rows have of each process (by id), as the kernel counts them.  spans,
    opened: as in spans.Enclosing, by block; summed_spans: whether spans that
    declared files have no record of their own.  named: of all names that were
    changed, and openings; None: no name was.
    """

    def __init__(self, log: LiveLog, words: Vocabulary, slots: HeapSlots) -> None:
        self._words = words
        self._slots = slots
        self._seen = {
            name: np.zeros(slots.count, np.bool_)
            for name in ("objects", "stacks", "span_names", "span_details", "second_paths")
        }
        self.op_counts = np.zeros(layout.MAX_OPS, np.int64)
        self.moves = Moves(log.record_slots())
        self._lost_until = int(log.header["ring_lost"])
        wide: list[NDArray[np.void]] = []
        coalesced = [np.empty(0, np.int64)]
        moved: list[accounts.Moved] = []
        later: list[tuple[int, int, int]] = []
        self.spans: list[NDArray[np.void]] = []
        self.opened: list[NDArray[np.void]] = []
        self.summed_spans = False
        self._naming = generations.Naming(words)
        named: list[generations.Named] = []
        for found in parallel.in_order(lambda run: self._look(log.load(run, lasting=False)), log.portions(BLOCK_ROWS)):
            self.op_counts += found.op_counts
            wide += found.wide
            coalesced.append(found.coalesced)
            moved += found.moved
            later += found.later
            if found.around is not None:
                self.spans.append(found.around.spans)
                self.opened.append(found.around.opened)
            if found.named is not None:
                named.append(found.named)
            for entries in found.moves:
                self.moves.append(entries)
        self.op_counts[words.klass == layout.INTERNAL] = 0
        self.rows = int(self.op_counts.sum())
        self.objects, self.stacks, self.span_names, self.span_details, self.second_paths = (
            self._ids(name) for name in self._seen
        )
        self._seen.clear()
        self.named = generations.together(named)
        self.ext = Wide(wide)
        self.coalesced: NDArray[np.int64] = distinct(np.concatenate(coalesced))
        self.moves.finish(self.ext)
        self.moves.forget(self._lost_until)
        self.moved = accounts.total(moved + self._wide(later))

    def _wide(self, later: list[tuple[int, int, int]]) -> list[accounts.Moved]:
        _, results, known = self.ext.of(np.array([identity for identity, _, _ in later], np.int64))
        return [
            (process, result if direction & 1 else 0, result if direction & 2 else 0)
            for (_, process, direction), result, there in zip(later, results.tolist(), known.tolist(), strict=True)
            if there and result > 0
        ]

    def _ids(self, name: str) -> NDArray[np.int64]:
        found = np.flatnonzero(self._seen[name])
        return self._slots.ids(found[found >= HeapSlots.NONE])

    def _look(self, block: Block) -> _Found:
        """One block, by any thread: what it has in use is marked, in whatever order; the rest is returned."""
        records = block.records
        op_counts = np.bincount(block.op, minlength=layout.MAX_OPS)
        traits = self._words.traits.take(block.op)
        present = int(np.bitwise_or.reduce(traits))
        wide = []
        resumed = resumed_of(block, traits, self._slots) if present & vocabulary.HIDDEN else []
        if present & vocabulary.HIDDEN:
            hidden = (traits & vocabulary.HIDDEN) != 0
            wide.append(records[hidden & (self._words.shape.take(block.op) == layout.SHAPE_EXT)])
            block = block.where(~hidden)
            records, traits = block.records, traits[~hidden]
        slots = self._slots.of(records["desc"])
        self._seen["objects"][slots] = True
        self._seen["stacks"][self._slots.of(records["stack"])] = True
        if present & vocabulary.REFERS:
            self._refer(records, np.flatnonzero((traits & vocabulary.REFERS) != 0), block.op)
        if block.sums is not None:
            if bool((records["desc"][self._words.shape.take(records["op"]) == layout.SHAPE_SPAN] != 0).any()):
                self.summed_spans = True
            return _Found(op_counts, wide, np.empty(0, np.int64), [], *accounts.moved_in(block, self._words))
        stretched = records["offset"][(block.flags & layout.COALESCED) != 0]
        moves = resumed
        if present & (vocabulary.PLAIN | vocabulary.SEEKS | vocabulary.COPIES):
            moves = moves + entries_of(block, traits, slots, self._slots)
        if self._lost_until:
            moves = moves + self._opened(block)
        around = spans.enclosing(block, self._words) if op_counts[self._words.encloses].any() else None
        named, moved = self._naming.of(block), accounts.moved_in(block, self._words)
        return _Found(op_counts, wide, distinct(stretched), moves, *moved, around, named)

    def _opened(self, block: Block) -> list[Entries]:
        records = block.records
        fine = (records["flags"] & (layout.STATE_MASK | layout.FAILED)) == layout.DONE
        rows = np.flatnonzero(fine & (self._words.shape.take(records["op"]) == layout.SHAPE_OPEN))
        return opened_of(block, rows, self._slots.of(identities(records["offset"])))

    def _refer(self, records: NDArray[np.void], rows: NDArray[np.int64], op: NDArray[np.uint8]) -> None:
        shape = self._words.shape.take(op.take(rows))
        second = records["aux"][rows[(shape == layout.SHAPE_PATH2) | (shape == layout.SHAPE_FD2)]]
        self._mark("second_paths", second)
        self._mark("objects", second)
        named = rows[shape == layout.SHAPE_SPAN]
        self._mark("span_names", records["aux"][named])
        self._mark("span_details", identities(records["offset"][named]))
        opened = rows[(shape == layout.SHAPE_OPEN) | (shape == layout.SHAPE_DUP)]
        self._mark("objects", identities(records["offset"][opened]))

    def _mark(self, name: str, ids: NDArray[np.uint32]) -> None:
        if len(ids):
            self._seen[name][self._slots.of(ids)] = True


def identities(offsets: NDArray[np.int64]) -> NDArray[np.uint32]:
    """The ids that stand in records' offset fields; 0 for what cannot be one."""
    return np.where((offsets > 0) & (offsets <= 0xFFFFFFFF), offsets, 0).astype(np.uint32)


class Wide:
    """Sizes and results that did not fit into 32 bits, by record id."""

    def __init__(self, records: list[NDArray[np.void]]) -> None:
        every = np.concatenate([np.empty(0, layout.RECORD), *records])
        every = every[np.argsort(every["parent"], kind="stable")]
        self._ids = every["parent"].astype(np.int64)
        self._sizes = every["offset"].astype(np.int64)
        self._results = every["begin"].astype(np.uint64).view(np.int64)

    def of(self, ids: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.bool_]]:
        """(sizes, results, which are known) of these records."""
        if len(self._ids) == 0:
            zeros = np.zeros(len(ids), np.int64)
            return zeros, zeros, np.zeros(len(ids), np.bool_)
        at = np.minimum(np.searchsorted(self._ids, ids), len(self._ids) - 1)
        return self._sizes[at], self._results[at], self._ids[at] == ids
