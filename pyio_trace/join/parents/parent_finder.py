"""Finds parents after the run, for operations that had none on their own thread.

Libraries with thread pools of their own (Arrow, tensorstore) do their I/O on
threads on which no span was ever open.  Two things still lead from such an
operation to a span, and the row's link says which:

- descriptor: the operation uses an open file description that was opened in a
  span, and that span, or one that encloses it, is still open;
- inferred: exactly one span that declared the operation's file is open in its
  process.  If several are open and each encloses the next on one thread, it is
  the innermost; else none is picked, and the row's detail lists them.  If no
  span declared the file, and the thread runs no Python and so belongs to a
  library, the same applies to the folders that the file is in.

Only recorded parents lead from one span to the next.  A parent that was found
here never does.
"""

from __future__ import annotations

from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pyio_trace.enums import Link
from pyio_trace.join.base.records import LAST_TICK, begin_ticks, ids_in
from pyio_trace.join.base.vocabulary import Vocabulary
from pyio_trace.join.parents.dataset_folders import nearest
from pyio_trace.join.parents.span_table import DEPTH, SpanRecords, Spans
from pyio_trace.join.parents.spans_by_file import OpenSpans, SpansByFile
from pyio_trace.join.references.log_parts import LogParts
from pyio_trace.log import layout
from pyio_trace.log.blocks import Block
from pyio_trace.log.heap import ObjectNumbers
from pyio_trace.values import STACK_STATES

Ints = NDArray[np.int64]


class FoundParents(NamedTuple):
    """Of one block: rows, and the parents (ids) and links found for them."""

    rows: Ints
    parents: Ints
    links: NDArray[np.uint8]


class AmbiguousParents(NamedTuple):
    """Of one block: rows that may belong to several spans.  The ids of the n-th row's spans are
    `ids[starts[n]:starts[n + 1]]`; open: how many there were, which may be more than are listed."""

    rows: Ints
    starts: Ints
    ids: Ints
    open: Ints


class _ByDescriptor(NamedTuple):
    """Spans (indexes, -1 none) found for orphans: through the descriptor, and the second one of copies; torn: which
    rows have two different ones; rest: rows (places) to look for through their files."""

    first: Ints
    second: Ints
    torn: NDArray[np.bool_]
    rest: Ints


class ParentFinder:
    """Finds parents for the rows of one log; made by finder_for."""

    def __init__(self, parts: LogParts, records: SpanRecords, op_counts: NDArray[np.int64]) -> None:
        """op_counts: records of the log by operation number."""
        log, self._words, self._numbers, self._files = parts
        self._spans = Spans(records.spans, self._numbers, self._files)
        self._opener = self._openers(records)
        full = int(log.header["full_since"])
        #: from here on spans may have no record, so that one span is never known to be the only one
        self._certain_until = min(full or LAST_TICK, LAST_TICK)
        missing = records.summed or (not full and bool(log.lost))
        declaring = np.empty(0, np.int64) if missing else np.flatnonzero(self._spans.file)
        self._by_file = SpansByFile(self._spans, declaring)
        #: processes whose Python stacks are known: there, an operation without a stack was made by a library's thread
        entries = log.processes()
        known = np.isin(entries["stack_state"], [STACK_STATES.index(state) for state in ("full", "site")])
        self._with_stacks = log.process_ids[known]
        self._first, self._last = int(self._spans.begin.min()), int(self._spans.end.max())
        self.useful = bool((self._opener >= 0).any()) or len(self._by_file) > 0
        two = np.isin(self._words.shape, (layout.SHAPE_PATH2, layout.SHAPE_FD2))
        #: whether any row may be ambiguous
        self.may_be_ambiguous = self._by_file.overlapping or bool(op_counts[two].any())

    @cached_property
    def _folders(self) -> Ints:
        """By path: the innermost folder that it is in and that some span declared (path too), -1 none."""
        return nearest(self._files.paths.texts, self._spans.path[self._spans.file != 0])

    def _openers(self, records: SpanRecords) -> Ints:
        """By object number: the span (index) in which the open file description was opened, -1 none."""
        # One element more, -1, for the root -1.
        by_root = np.full(len(self._files.root_start) + 1, -1, np.int64)
        opened = np.concatenate(records.opened) if records.opened else None
        if opened is not None and len(opened):
            root = self._files.root.take(self._numbers.of(opened["desc"].copy()))
            span = self._spans.index(opened["parent"].astype(np.int64))
            by_root[root] = np.where(root >= 0, span, -1)
            by_root[-1] = -1
        result: Ints = by_root[self._files.root]
        return result

    def parents_of(self, block: Block) -> FoundParents | None:
        """The parents found for the rows of a block without internal records; None: none."""
        orphans = self._orphans(block)
        if orphans is None:
            return None
        first, second, torn, rest = self._through_descriptors(orphans)
        parent = np.where(torn, -1, np.where(first >= 0, first, second))
        link = np.where(parent >= 0, Link.DESCRIPTOR, Link.INFERRED).astype(np.uint8)
        parent[rest] = _only_one(*self._through_files(orphans, rest))
        known = np.flatnonzero(parent >= 0)
        return FoundParents(orphans.rows[known], self._spans.id[parent[known]], link[known])

    def ambiguous(self, block: Block) -> AmbiguousParents | None:
        """The rows of such a block that may belong to several spans; None: there are none."""
        orphans = self._orphans(block)
        if orphans is None:
            return None
        first, second, torn, rest = self._through_descriptors(orphans)
        one, two = self._through_files(orphans, rest)
        several = (_only_one(one, two) < 0) & (one.count + two.count > 0) & one.unchanged & two.unchanged
        lists = [(np.flatnonzero(torn), first[torn]), (np.flatnonzero(torn), second[torn])]
        lists += [(rest[at], which) for at, which in (self._by_file.every(part, several) for part in (one, two))]
        rows = np.concatenate([at for at, _ in lists])
        if not len(rows):
            return None
        count = np.full(len(orphans.rows), 2, np.int64)
        count[rest] = one.count + two.count
        ids = self._spans.id[np.concatenate([which for _, which in lists])]
        order = np.lexsort((ids, rows))
        rows = rows[order]
        starts = np.flatnonzero(np.diff(rows, prepend=-1))
        return AmbiguousParents(
            orphans.rows[rows[starts]], np.append(starts, len(rows)), ids[order], count[rows[starts]]
        )

    def _orphans(self, block: Block) -> _Orphans | None:
        """The rows without a parent that began while the log has spans; None: there are none."""
        if block.sums is not None:
            return None
        records = block.records
        rows = np.flatnonzero((records["parent"] == 0) & self._words.followed.take(block.op))
        begin = begin_ticks(records["begin"][rows])
        within = (begin >= self._first) & (begin < self._last)
        if not within.all():
            rows, begin = rows[within], begin[within]
        return _Orphans(block, rows, begin, self._words, self._numbers) if len(rows) else None

    def _through_descriptors(self, orphans: _Orphans) -> _ByDescriptor:
        time = orphans.process, orphans.begin, orphans.last
        first = self._spans.innermost_open(self._opener.take(orphans.number), *time)
        second = np.full(len(first), -1, np.int64)
        at, number = orphans.second_descriptor
        if len(at):
            opener = self._opener.take(number)
            second[at] = self._spans.innermost_open(opener, *(part[at] for part in time))
            both = at[(first[at] >= 0) & (second[at] >= 0)]
            one, other = first[both], second[both]
            inner = np.where(self._spans.within(other, one), other, one)
            nested = (inner == other) | self._spans.within(one, other)
            first[both[nested]] = second[both[nested]] = inner[nested]
        torn = (first >= 0) & (second >= 0) & (first != second)
        rest = np.flatnonzero((first < 0) & (second < 0) & (orphans.begin < self._certain_until))
        return _ByDescriptor(first, second, torn, rest)

    def _through_files(self, orphans: _Orphans, at: Ints) -> tuple[OpenSpans, OpenSpans]:
        """The open spans that declared the file of these rows, and those that declared their second file."""
        files = self._files.file
        own, second = files.take(orphans.number), np.zeros(len(orphans.rows), np.int64)
        path = self._files.path.take(orphans.number)
        places, number = orphans.opened
        new = files.take(number)
        own[places[new != 0]] = new[new != 0]
        places, number = orphans.second
        second[places] = files.take(number)
        time = orphans.process[at], orphans.begin[at], orphans.last[at]
        one, two = self._by_file.open_at(own[at], *time), OpenSpans.none(len(at))
        pairs = np.flatnonzero(second[at])
        if len(pairs):
            other = self._by_file.open_at(second[at[pairs]], *(part[pairs] for part in time))
            different = other.group != one.group[pairs]
            two = two.replaced(pairs[different], other.where(different))
        undeclared = (one.count + two.count == 0) & orphans.without_stack[at]
        undeclared = np.flatnonzero(undeclared & np.isin(orphans.process[at], self._with_stacks))
        return self._through_folders(one, undeclared, path[at[undeclared]], *(part[undeclared] for part in time)), two

    def _through_folders(self, found: OpenSpans, at: Ints, path: NDArray[np.integer], *time: Ints) -> OpenSpans:
        """`found`, where the rows `at` get the open spans that declared a folder of their path: the innermost folder
        for which one was open."""
        for _ in range(DEPTH):
            if not len(at):
                break
            path = self._folders.take(path)
            on = path >= 0
            at, path, time = at[on], path[on], tuple(part[on] for part in time)
            there = self._by_file.open_at(self._files.path_file.take(path), *time)
            some = there.count > 0
            found = found.replaced(at[some], there.where(some))
            at, path, time = at[~some], path[~some], tuple(part[~some] for part in time)
        return found


def _only_one(one: OpenSpans, two: OpenSpans) -> Ints:
    """The only span for each row, by both of its files; -1: none, or not the only one."""
    single: Ints = np.where(one.count == 0, two.single, np.where(two.count == 0, one.single, -1))
    return single


class _Orphans:
    """Rows without a parent; parallel arrays.

    rows; process; begin; last (ticks: the begin of the last coalesced call);
    number of the object; without_stack: no Python stack.  For the few rows that
    have one, as (places, numbers): opened, the new descriptor; second, the second
    path or descriptor; second_descriptor.
    """

    def __init__(self, block: Block, rows: Ints, begin: Ints, words: Vocabulary, numbers: ObjectNumbers) -> None:
        records = block.records
        self.rows, self.process, self.begin, self.last = rows, block.process[rows], begin, begin
        shape = words.shape.take(records["op"][rows])
        coalesced = np.flatnonzero(records["flags"][rows] & layout.COALESCED)
        if len(coalesced):
            self.last = begin.copy()
            self.last[coalesced] += np.clip(records["offset"][rows[coalesced]], 0, LAST_TICK)
        self.number = numbers.of(records["desc"][rows])
        self.without_stack = records["stack"][rows] == 0
        at = np.flatnonzero(shape == layout.SHAPE_OPEN)
        at = np.setdiff1d(at, coalesced, assume_unique=True)
        self.opened = at, numbers.of(ids_in(records["offset"][rows[at]]))
        at = np.flatnonzero((shape == layout.SHAPE_PATH2) | (shape == layout.SHAPE_FD2))
        second = numbers.of(records["aux"][rows[at]])
        at, second = at[second > 0], second[second > 0]
        self.second = at, second
        both = shape[at] == layout.SHAPE_FD2
        self.second_descriptor = at[both], second[both]


def finder_for(parts: LogParts, records: SpanRecords, op_counts: NDArray[np.int64]) -> ParentFinder | None:
    """The finder for a log; None: the log cannot have parents to be found."""
    if not op_counts[parts.words.shape == layout.SHAPE_SPAN].any() or not any(map(len, records.spans)):
        return None
    if parts.log.header["ring_lost"]:  # spans that were open at some moment may be lost
        return None
    finder = ParentFinder(parts, records, op_counts)
    return finder if finder.useful else None
