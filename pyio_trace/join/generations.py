"""Files that came to have the number of a removed one.

A file system gives the inode of a file that is gone to the next that it makes: by device and inode alone, temporary
files of an hour would be one file.  When a name that a file was opened by is removed (or another file is renamed to
it), the next opening that meets the same inode is of another file: a further generation of it.

Only what the log tells is believed.  A rename takes the name along; what has a link is left as it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pyio_trace.join.vocabulary import Vocabulary
from pyio_trace.log import layout
from pyio_trace.log.live import Block

Ints = NDArray[np.int64]

_REMOVES = ("unlink", "unlinkat", "remove", "rmdir")
_RENAMES = ("rename", "renameat")
_LINKS = ("link", "linkat", "symlink", "symlinkat")
#: Renames of one file that are followed; after more it is taken for the same.
_FOLLOWED = 8
#: No opening of this descriptor has a record.
UNSEEN = np.iinfo(np.int64).max


class Named(NamedTuple):
    """Of one block, or of all: openings (descriptor id, ticks); changes of names (string id, ticks, string id of the
    new name or 0: removed); names of links (string ids)."""

    opened: Ints  # shape (n, 2)
    changed: Ints  # shape (n, 3)
    linked: Ints  # shape (n,)


class Naming:
    """Which operations matter here, of one log's vocabulary."""

    def __init__(self, words: Vocabulary) -> None:
        names = np.array(words.names)
        self._opens: NDArray[np.bool_] = words.shape == layout.SHAPE_OPEN
        self._removes: NDArray[np.bool_] = np.isin(names, _REMOVES) & (words.shape == layout.SHAPE_PATH)
        self._renames: NDArray[np.bool_] = np.isin(names, _RENAMES) & (words.shape == layout.SHAPE_PATH2)
        self._links: NDArray[np.bool_] = np.isin(names, _LINKS) & (words.shape == layout.SHAPE_PATH2)
        self._all = self._opens | self._removes | self._renames | self._links

    def of(self, block: Block) -> Named | None:
        """None: the block has nothing of it."""
        at = np.flatnonzero(self._all.take(block.op))
        if not len(at):
            return None
        records = block.some(at)
        flags = records["flags"] & (layout.STATE_MASK | layout.FAILED | layout.COALESCED)
        records = records[flags == layout.DONE]
        op = records["op"]
        ticks = np.minimum(records["begin"], np.uint64(1 << 61)).astype(np.int64)
        first, second = records["desc"].astype(np.int64), records["aux"].astype(np.int64)
        opens, removes, renames = self._opens.take(op), self._removes.take(op), self._renames.take(op)
        links = self._links.take(op)
        nothing = np.zeros(len(op), np.int64)
        return Named(
            np.stack([records["offset"][opens], ticks[opens]], axis=1),
            np.concatenate([
                np.stack([first, ticks, nothing], axis=1)[removes],
                np.stack([second, ticks, nothing], axis=1)[renames],  # what had the new name has lost it
                np.stack([first, ticks, second], axis=1)[renames],
            ]),
            np.concatenate([first[links], second[links]]),
        )  # fmt: skip


def together(parts: Sequence[Named]) -> Named | None:
    """None: no name was changed, so that nothing is to be told apart."""
    if not any(len(part.changed) for part in parts):
        return None
    opened, changed, linked = (np.concatenate(column) for column in zip(*parts, strict=True))
    return Named(opened, changed, linked)


def opened_at(named: Named, descs: Ints, roots: Ints) -> Ints:
    """By descriptor (ids ascending): the ticks at which its description was opened, or UNSEEN."""
    ticks = np.full(len(descs), UNSEEN, np.int64)
    desc = named.opened[:, 0]
    at = np.minimum(np.searchsorted(descs, desc), len(descs) - 1)
    known = descs[at] == desc if len(descs) else np.zeros(0, np.bool_)
    np.minimum.at(ticks, at[known], named.opened[known, 1])
    of_root = np.minimum(np.searchsorted(descs, roots), max(len(descs) - 1, 0))
    copied = (roots != descs) & (descs[of_root] == roots)
    ticks[copied] = ticks[of_root[copied]]
    return ticks


def generations(file: Ints, path: Ints, ticks: Ints, changed: Ints, linked: Ints) -> Ints:
    """Which generation of its inode each descriptor's file is, from 0.

    file: numbers of inodes; path: index of the name opened, -1 unknown; ticks: of
    opened_at().  changed: (path index, ticks, path index of the new name or -1),
    linked: path indexes.
    """
    if not len(file):
        return file
    order = np.lexsort((ticks, file))
    file, path, ticks = file[order], path[order], ticks[order]
    before, after = np.arange(len(order) - 1), np.arange(1, len(order))
    asked = (file[before] == file[after]) & (ticks[after] != UNSEEN) & (path[before] >= 0)
    asked &= ~(np.isin(path[before], linked) | np.isin(path[after], linked))
    before, after = before[asked], after[asked]
    begins = np.zeros(len(order), np.int64)
    begins[after] = _gone(path[before], ticks[before], ticks[after], changed)
    number = np.cumsum(begins)
    first = np.flatnonzero(np.append(True, file[1:] != file[:-1]))
    number -= np.repeat(number[first], np.diff(np.append(first, len(file))))
    result = np.empty(len(order), np.int64)
    result[order] = number
    return result


def _gone(path: Ints, since: Ints, until: Ints, changed: Ints) -> NDArray[np.bool_]:
    """Whether the file that had this name then had lost it, or the one that it was renamed to, before the end."""
    changed = changed[np.lexsort((changed[:, 1], changed[:, 0]))]
    levels = np.unique(changed[:, 1])
    span = len(levels) + 1

    def place(path: Ints, ticks: Ints) -> Ints:
        found: Ints = path * span + np.searchsorted(levels, ticks, side="right")
        return found

    keys = place(changed[:, 0], changed[:, 1])
    gone = np.zeros(len(path), np.bool_)
    open_ones = np.arange(len(path))
    for _ in range(_FOLLOWED):
        at = np.searchsorted(keys, place(path[open_ones], since[open_ones]), side="right")
        there = at < len(keys)
        there[there] = changed[at[there], 0] == path[open_ones[there]]
        open_ones, at = open_ones[there], at[there]
        there = changed[at, 1] < until[open_ones]
        open_ones, at = open_ones[there], at[there]
        to = changed[at, 2]
        gone[open_ones[to < 0]] = True
        open_ones, at = open_ones[to >= 0], at[to >= 0]
        if not len(open_ones):
            break
        path[open_ones], since[open_ones] = changed[at, 2], changed[at, 1]
    return gone
