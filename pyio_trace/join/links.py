"""Parents that are found afterwards, for operations that had none on their own thread.

Library-owned pools (Arrow's, tensorstore's) do their I/O on threads that no
span was ever open on.  Two things lead from there to a span, and the row's
link says which:

- descriptor: the operation goes through an open file description that was
  opened in a span, and that span, or one around it, is still open;
- inferred: exactly one span that declared the operation's file is open in its
  process.  Of several, the innermost if they are nested in one another on one
  thread; else none is picked, and the row's detail lists them.  Where nobody
  declared the file, and the thread runs no Python, so that it is some
  library's, the same goes for the folders that the file is in.

Only parents that the capture recorded lead from one to the next: what was
itself found here never does.
"""

from __future__ import annotations

from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pyio_trace.join.declared import Declared, Open
from pyio_trace.join.files import Files
from pyio_trace.join.folders import nearest
from pyio_trace.join.spans import DEPTH, Spans
from pyio_trace.join.survey import Survey, identities
from pyio_trace.join.vocabulary import Vocabulary
from pyio_trace.log import layout
from pyio_trace.log.heap import HeapSlots
from pyio_trace.log.live import Block, LiveLog

#: enum pt_link
DESCRIPTOR, INFERRED = 3, 4


class Found(NamedTuple):
    """Of one block: rows with the parents (ids) and links found for them."""

    rows: NDArray[np.int64]
    parents: NDArray[np.int64]
    links: NDArray[np.uint8]


class Unsure(NamedTuple):
    """Of one block: rows that may be of several spans, and those spans' ids, `ids[starts[n]:starts[n + 1]]` of the
    n-th; open: how many there were."""

    rows: NDArray[np.int64]
    starts: NDArray[np.int64]
    ids: NDArray[np.int64]
    open: NDArray[np.int64]


class Links:
    """Finds parents for the rows of one log; made by links_of."""

    def __init__(self, log: LiveLog, words: Vocabulary, slots: HeapSlots, files: Files, survey: Survey) -> None:
        self._words, self._slots, self._files = words, slots, files
        self._spans = Spans(survey.spans, slots, files)
        self._opener = self._openers(survey)
        full = int(log.header["full_since"])
        #: from here on there may be spans without a record, so that one is never the only one
        self._sure_until = min(full or 1 << 61, 1 << 61)
        missing = survey.summed_spans or (not full and bool(log.header["lost"]))
        self._declared = Declared(self._spans, np.empty(0, np.int64) if missing else np.flatnonzero(self._spans.file))
        #: processes whose Python stacks are known: of theirs, what has none is a library's own doing
        entries = log.processes()
        known = np.isin(entries["stack_state"], [layout.STACK_STATES.index(state) for state in ("full", "site")])
        self._known = entries["chunk"]["offset"][known].astype(np.int64) >> layout.ID_SHIFT
        self._first, self._last = int(self._spans.begin.min()), int(self._spans.end.max())
        self.useful = bool((self._opener >= 0).any()) or len(self._declared) > 0
        two = np.isin(words.shape, (layout.SHAPE_PATH2, layout.SHAPE_FD2))
        #: whether some row may be between several spans
        self.may_list = self._declared.overlapping or bool(survey.op_counts[two].any())

    @cached_property
    def _folders(self) -> NDArray[np.int64]:
        """By path: the innermost folder that it is in and that some span declared (path too), -1 none."""
        return nearest(self._files.paths.texts, self._spans.path[self._spans.file != 0])

    def _openers(self, survey: Survey) -> NDArray[np.int64]:
        """By heap slot: the span that the description was opened in (index), -1 none; a last one more: none."""
        opened = np.concatenate([survey.opened[0][:0], *survey.opened]) if survey.opened else None
        by_root = np.full(len(self._files.root_start) + 1, -1, np.int64)
        if opened is not None and len(opened):
            root = self._files.root.take(self._slots.of(opened["desc"].copy()))
            span = self._spans.index(opened["parent"].astype(np.int64))
            by_root[root] = np.where(root >= 0, span, -1)
            by_root[-1] = -1
        result: NDArray[np.int64] = by_root[self._files.root]
        return result

    def of(self, block: Block) -> Found | None:
        """What is found for the rows of a block without internal records; None: nothing."""
        asked = self._asked(block)
        if asked is None:
            return None
        first, second, torn, rest = self._through_descriptors(asked)
        parent = np.where(torn, -1, np.where(first >= 0, first, second))
        link = np.where(parent >= 0, DESCRIPTOR, INFERRED).astype(np.uint8)
        parent[rest] = _only_one(*self._through_files(asked, rest))
        known = np.flatnonzero(parent >= 0)
        return Found(asked.rows[known], self._spans.id[parent[known]], link[known])

    def unsure_of(self, block: Block) -> Unsure | None:
        """What cannot be decided for the rows of such a block; None: nothing."""
        asked = self._asked(block)
        if asked is None:
            return None
        first, second, torn, rest = self._through_descriptors(asked)
        one, two = self._through_files(asked, rest)
        several = (_only_one(one, two) < 0) & (one.count + two.count > 0) & one.steady & two.steady
        lists = [(np.flatnonzero(torn), first[torn]), (np.flatnonzero(torn), second[torn])]
        lists += [(rest[at], which) for at, which in (self._declared.every(part, several) for part in (one, two))]
        rows = np.concatenate([at for at, _ in lists])
        if not len(rows):
            return None
        count = np.full(len(asked.rows), 2, np.int64)
        count[rest] = one.count + two.count
        ids = self._spans.id[np.concatenate([which for _, which in lists])]
        order = np.lexsort((ids, rows))
        rows = rows[order]
        starts = np.flatnonzero(np.diff(rows, prepend=-1))
        return Unsure(asked.rows[rows[starts]], np.append(starts, len(rows)), ids[order], count[rows[starts]])

    def _asked(self, block: Block) -> _Asked | None:
        """The rows without a parent, while there were spans; None: there are none."""
        if block.sums is not None:
            return None
        records = block.records
        rows = np.flatnonzero((records["parent"] == 0) & self._words.followed.take(block.op))
        begin = np.minimum(records["begin"][rows], np.uint64(1 << 61)).view(np.int64)
        within = (begin >= self._first) & (begin < self._last)
        if not within.all():
            rows, begin = rows[within], begin[within]
        return _Asked(block, rows, begin, self._words, self._slots) if len(rows) else None

    def _through_descriptors(
        self, asked: _Asked
    ) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.bool_], NDArray[np.int64]]:
        """The spans found through the descriptor, and through the second one of those that have two (-1: none); which
        rows are torn between both; the rows to go on with."""
        time = asked.process, asked.begin, asked.last
        first = self._spans.still_open(self._opener.take(asked.slot), *time)
        second = np.full(len(first), -1, np.int64)
        at, slot = asked.second_descriptor
        if len(at):
            opener = self._opener.take(slot)
            second[at] = self._spans.still_open(opener, *(part[at] for part in time))
            both = at[(first[at] >= 0) & (second[at] >= 0)]
            one, other = first[both], second[both]
            inner = np.where(self._spans.within(other, one), other, one)
            settled = (inner == other) | self._spans.within(one, other)
            first[both[settled]] = second[both[settled]] = inner[settled]
        torn = (first >= 0) & (second >= 0) & (first != second)
        rest = np.flatnonzero((first < 0) & (second < 0) & (asked.begin < self._sure_until))
        return first, second, torn, rest

    def _through_files(self, asked: _Asked, at: NDArray[np.int64]) -> tuple[Open, Open]:
        """What was open, for these rows, of the spans that declared their file, and their second one."""
        files = self._files.file
        own, second = files.take(asked.slot), np.zeros(len(asked.rows), np.int64)
        path = self._files.path.take(asked.slot)
        places, slot = asked.opened
        new = files.take(slot)
        own[places[new != 0]] = new[new != 0]
        places, slot = asked.second
        second[places] = files.take(slot)
        time = asked.process[at], asked.begin[at], asked.last[at]
        one, two = self._declared.open(own[at], *time), Open.none(len(at))
        pairs = np.flatnonzero(second[at])
        if len(pairs):
            other = self._declared.open(second[at[pairs]], *(part[pairs] for part in time))
            apart = other.key != one.key[pairs]
            two = two.where(pairs[apart], other.only(apart))
        strange = (one.count + two.count == 0) & asked.without_stack[at]
        strange = np.flatnonzero(strange & np.isin(asked.process[at], self._known))
        return self._through_folders(one, strange, path[at[strange]], *(part[strange] for part in time)), two

    def _through_folders(
        self, found: Open, at: NDArray[np.int64], path: NDArray[np.integer], *time: NDArray[np.int64]
    ) -> Open:
        """This, and for the rows `at` what was open of the spans that declared a folder of their path: the innermost
        folder of which one was."""
        for _ in range(DEPTH):
            if not len(at):
                break
            path = self._folders.take(path)
            on = path >= 0
            at, path, time = at[on], path[on], tuple(part[on] for part in time)
            there = self._declared.open(self._files.path_file.take(path), *time)
            some = there.count > 0
            found = found.where(at[some], there.only(some))
            at, path, time = at[~some], path[~some], tuple(part[~some] for part in time)
        return found


def _only_one(one: Open, two: Open) -> NDArray[np.int64]:
    """The one span that there is for each; -1: none, or not the only one."""
    lone: NDArray[np.int64] = np.where(one.count == 0, two.single, np.where(two.count == 0, one.single, -1))
    return lone


class _Asked:
    """Rows whose parents are asked for: row, process, begin, last (ticks: the last moment that it says something of),
    slot of its object, whether it has no stack of Python's; and of the few that have them, as (places, slots): what was
    opened, the second object."""

    def __init__(
        self, block: Block, rows: NDArray[np.int64], begin: NDArray[np.int64], words: Vocabulary, slots: HeapSlots
    ) -> None:
        records = block.records
        self.rows, self.process, self.begin, self.last = rows, block.process[rows], begin, begin
        shape = words.shape.take(records["op"][rows])
        stretched = np.flatnonzero(records["flags"][rows] & layout.COALESCED)
        if len(stretched):
            self.last = begin.copy()
            self.last[stretched] += np.clip(records["offset"][rows[stretched]], 0, 1 << 61)
        self.slot = slots.of(records["desc"][rows])
        self.without_stack = records["stack"][rows] == 0
        at = np.flatnonzero(shape == layout.SHAPE_OPEN)
        at = np.setdiff1d(at, stretched, assume_unique=True)
        self.opened = at, slots.of(identities(records["offset"][rows[at]]))
        at = np.flatnonzero((shape == layout.SHAPE_PATH2) | (shape == layout.SHAPE_FD2))
        second = slots.of(records["aux"][rows[at]])
        at, second = at[second >= HeapSlots.NONE], second[second >= HeapSlots.NONE]
        self.second = at, second
        both = shape[at] == layout.SHAPE_FD2
        self.second_descriptor = at[both], second[both]


def links_of(log: LiveLog, words: Vocabulary, slots: HeapSlots, files: Files, survey: Survey) -> Links | None:
    """What finds parents in this log; None: there is nothing to be found."""
    if not survey.op_counts[words.shape == layout.SHAPE_SPAN].any() or not any(map(len, survey.spans)):
        return None
    if log.header["ring_lost"]:  # what the spans that are left say of a moment is not all there was
        return None
    links = Links(log, words, slots, files, survey)
    return links if links.useful else None
