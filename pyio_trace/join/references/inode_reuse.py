"""Distinguishes files that used the same inode one after another.

A file system gives the inode of a removed file to the next one it creates.  By device and inode alone, all temporary
files of an hour could be one file.  When the last name of an opened file is removed, or another file is renamed to it,
the next opening that meets the same inode is of another file: the next *generation* of the inode.  An opening that
can only succeed by making a file (O_EXCL, O_TMPFILE) always begins one, whatever became of names: a file without a name
ends when it is closed.

Only name changes in the log count.  Renames and links lead from one name of a file to the others (names_over_time.py).
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pyio_trace.enums import Layer
from pyio_trace.join.base.records import begin_ticks
from pyio_trace.join.base.vocabulary import Vocabulary
from pyio_trace.join.references.names_over_time import Stretches
from pyio_trace.log import layout, runs
from pyio_trace.log.blocks import Block
from pyio_trace.log.layout import Trait
from pyio_trace.log.live import Sums
from pyio_trace.log.sorting import distinct, find

Ints = NDArray[np.int64]

#: Flags of an opening that fails if there is a file of that name.
_NEW_NAME = os.O_CREAT | os.O_EXCL
#: The bit of O_TMPFILE that O_DIRECTORY lacks.
_NAMELESS = os.O_TMPFILE & ~os.O_DIRECTORY
#: In place of ticks: the log has no record of the opening.
UNSEEN = np.iinfo(np.int64).max


class NameChanges(NamedTuple):
    """Openings (descriptor id, ticks, 1: it made the file), changes of names (string id, ticks, string id of the new
    name or 0: removed), and links (string id of the old name, ticks, of the new one, 1: symbolic), of one block or of a
    log."""

    opened: Ints  # shape (n, 3)
    changed: Ints  # shape (n, 3)
    linked: Ints  # shape (n, 4)


class NameChangeReader:
    """Collects the name changes of one log's blocks."""

    def __init__(self, words: Vocabulary) -> None:
        taken, given = words.with_traits(Trait.TAKES_NAME), words.with_traits(Trait.GIVES_NAME)
        self._opens: NDArray[np.bool_] = words.shape == layout.SHAPE_OPEN
        self._removes = (taken & ~given) | words.with_traits(Trait.REMOVES_FOLDER)
        self._renames = taken & given
        self._links = given & ~taken
        self._symbolic = np.char.startswith(np.array(words.names), "symlink")
        self._calls: NDArray[np.bool_] = words.layer != Layer.APP  # file objects' records have no flags
        self._all = self._opens | self._removes | self._renames | self._links

    def read(self, block: Block) -> NameChanges | None:
        """The openings and name changes in a block; None: there are none."""
        at = np.flatnonzero(self._all.take(block.op))
        if not len(at):
            return None
        records = block.some(at)
        flags = records["flags"] & (layout.STATE_MASK | layout.FAILED | layout.COALESCED)
        return self._changes(records[flags == layout.DONE])

    def read_sums(self, block: Block) -> NameChanges | None:
        """The name changes in a block of sums: of one call each, as the moments of several are not known.  Openings
        are found by their descriptors (openings_of_sums())."""
        assert block.sums is not None
        at = np.flatnonzero((self._all & ~self._opens).take(block.op) & (block.sums["count"] == 1))
        records = block.some(at)
        records = records[(records["flags"] & (layout.STATE_MASK | layout.FAILED)) == layout.DONE]
        return self._changes(records) if len(records) else None

    def _changes(self, records: NDArray[np.void]) -> NameChanges:
        op = records["op"]
        ticks = begin_ticks(records["begin"])
        first, second = records["desc"].astype(np.int64), records["aux"].astype(np.int64)
        opens, removes, renames = self._opens.take(op), self._removes.take(op), self._renames.take(op)
        links = self._links.take(op)
        renames &= first != second  # a rename to the same name does nothing
        symbolic = self._symbolic.take(op)  # the first path is the new name
        old, new = np.where(symbolic, second, first), np.where(symbolic, first, second)
        nothing = np.zeros(len(op), np.int64)
        return NameChanges(
            np.stack([records["offset"][opens], ticks[opens], self._makes(records[opens])], axis=1),
            np.concatenate([
                np.stack([first, ticks, nothing], axis=1)[removes],
                np.stack([second, ticks, nothing], axis=1)[renames],  # the file that had the new name has lost it
                np.stack([first, ticks, second], axis=1)[renames],
            ]),
            np.stack([old, ticks, new, symbolic], axis=1)[links],
        )  # fmt: skip

    def _makes(self, records: NDArray[np.void]) -> NDArray[np.bool_]:
        """Whether each of these openings made the file that it opened."""
        return _makes_file(records["aux"]) & self._calls.take(records["op"])


def _makes_file(flags: NDArray[np.uint32]) -> NDArray[np.bool_]:
    found: NDArray[np.bool_] = ((flags & _NEW_NAME) == _NEW_NAME) | ((flags & _NAMELESS) != 0)
    return found


_NOTHING = NameChanges(np.empty((0, 3), np.int64), np.empty((0, 3), np.int64), np.empty((0, 4), np.int64))


def combined(parts: Sequence[NameChanges]) -> NameChanges:
    """Those of all blocks."""
    return NameChanges(*(np.concatenate(column) for column in zip(_NOTHING, *parts, strict=True)))


def with_openings_of_sums(names: NameChanges, descs: Ints, rows: NDArray[np.void]) -> NameChanges:
    """The same with the first opening of each descriptor that stands for all openings of a file; rows: layout.DESC."""
    at = np.flatnonzero(rows["gap"] == layout.GAP_SUMS)
    made = _makes_file(rows["open_flags"][at])
    opened = np.stack([descs[at], np.maximum(rows["position"][at], 0), made], axis=1)
    return names._replace(opened=np.concatenate([names.opened, opened]))


def one_file_each(names: NameChanges, path: NDArray[np.int32], inode: Ints) -> bool:
    """Whether no name was changed and no file surely made, and each name led to one inode: then moments do not matter.

    path, inode: by descriptor, -1 and 0: not known.
    """
    if len(names.changed) or len(names.linked) or names.opened[:, 2].any():
        return False
    known = (path >= 0) & (inode > 0)
    pairs = distinct(path[known].astype(np.int64) * (int(inode.max(initial=0)) + 1) + inode[known])
    return len(pairs) == len(distinct(path[known]))


def names_in_sums(sums: Iterable[Sums], words: Vocabulary) -> Ints:
    """The strings (ids) that summed calls took from files or gave to them; sums do not say when."""
    changes = words.with_traits(Trait.TAKES_NAME | Trait.GIVES_NAME)
    rows = [row[changes.take(row["op"])] for _, row, _ in sums]
    return distinct(np.concatenate([np.empty(0, np.int64), *(row[name] for row in rows for name in ("desc", "aux"))]))


def opened_at(names: NameChanges, descs: Ints, roots: Ints) -> tuple[Ints, NDArray[np.bool_]]:
    """By descriptor (ids ascending): the ticks at which its open file description was opened, or UNSEEN; whether that
    made the file."""
    ticks, made = np.full(len(descs), UNSEEN, np.int64), np.zeros(len(descs), np.bool_)
    at, known = find(descs, names.opened[:, 0])
    np.minimum.at(ticks, at[known], names.opened[known, 1])
    made[at[known & (names.opened[:, 2] != 0)]] = True
    of_root, known = find(descs, roots)
    copied = (roots != descs) & known
    ticks[copied], made[copied] = ticks[of_root[copied]], made[of_root[copied]]
    return ticks, made


def generations(file: Ints, path: Ints, ticks: Ints, made: NDArray[np.bool_], stretches: Stretches) -> Ints:
    """Which generation of its inode each descriptor's file is, from 0.

    file: numbers of inodes; path: index of the name opened, -1 unknown; ticks,
    made: from opened_at(); stretches: the names of files over time.

    The descriptors of an inode are put in the order of their opening.  Between
    two neighbours a new generation begins if the later opening made its file, or
    if the file of the earlier one had lost its last name before.
    """
    if not len(file):
        return file
    order = np.lexsort((ticks, file))
    file, path, ticks, made = file[order], path[order], ticks[order], made[order]
    before, after = np.arange(len(order) - 1), np.arange(1, len(order))
    pairs = (file[before] == file[after]) & (ticks[after] != UNSEEN)
    begins = np.zeros(len(order), np.int64)
    begins[after] = pairs & made[after] & (ticks[before] != ticks[after])  # of one opening: copies of a descriptor
    pairs &= (begins[after] == 0) & (path[before] >= 0)
    before, after = before[pairs], after[pairs]
    begins[after] = stretches.nameless_since(path[before], ticks[before]) < ticks[after]
    number = np.cumsum(begins)
    first = runs.starts(file)
    number -= np.repeat(number[first], np.diff(np.append(first, len(file))))
    result = np.empty(len(order), np.int64)
    result[order] = number
    return result
