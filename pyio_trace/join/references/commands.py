"""The words for what flock, lockf, fcntl and waits were told to do, which records have as a number.

The numbers are Linux's, the same on x86-64 and aarch64, except O_DIRECT: of that
one, the reading machine's number counts.  Of an open, only the flags count that
say when its writes are done and whether they pass by the page cache.
"""

from __future__ import annotations

import os
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from pyio_trace.join.base.vocabulary import Vocabulary
from pyio_trace.log import layout
from pyio_trace.log.sorting import find

_FCNTL = {
    0: "F_DUPFD", 1: "F_GETFD", 2: "F_SETFD", 3: "F_GETFL", 4: "F_SETFL", 5: "F_GETLK", 6: "F_SETLK", 7: "F_SETLKW",
    8: "F_SETOWN", 9: "F_GETOWN", 10: "F_SETSIG", 11: "F_GETSIG", 15: "F_SETOWN_EX", 16: "F_GETOWN_EX",
    36: "F_OFD_GETLK", 37: "F_OFD_SETLK", 38: "F_OFD_SETLKW", 1024: "F_SETLEASE", 1025: "F_GETLEASE",
    1026: "F_NOTIFY", 1030: "F_DUPFD_CLOEXEC", 1031: "F_SETPIPE_SZ", 1032: "F_GETPIPE_SZ", 1033: "F_ADD_SEALS",
    1034: "F_GET_SEALS", 1035: "F_GET_RW_HINT", 1036: "F_SET_RW_HINT", 1037: "F_GET_FILE_RW_HINT",
    1038: "F_SET_FILE_RW_HINT",
}  # fmt: skip
_LOCKF = {0: "F_ULOCK", 1: "F_LOCK", 2: "F_TLOCK", 3: "F_TEST"}
#: Bits that a number may combine.
_FLOCK_BITS = {1: "LOCK_SH", 2: "LOCK_EX", 8: "LOCK_UN", 4: "LOCK_NB"}
_WAIT_BITS = {
    1: "WNOHANG", 2: "WUNTRACED", 4: "WEXITED", 8: "WCONTINUED", 0x1000000: "WNOWAIT", 0x20000000: "__WNOTHREAD",
    0x40000000: "__WALL", 0x80000000: "__WCLONE",
}  # fmt: skip
_OTHER = "other"
#: Of opens, by _open_number(); the first is no text.
_OPEN = ("", "O_DSYNC", "O_SYNC", "O_DIRECT", "O_DIRECT|O_DSYNC", "O_DIRECT|O_SYNC")


def _combined(bits: dict[int, str]) -> dict[int, str]:
    """The texts of all combinations of one or more bits."""
    groups = (group for count in range(1, len(bits) + 1) for group in combinations(bits.items(), count))
    return {sum(bit for bit, _ in group): "|".join(word for _, word in group) for group in groups}


_WAIT = _combined(_WAIT_BITS)
_BY_OP = {
    "fcntl": _FCNTL, "lockf": _LOCKF, "flock": _combined(_FLOCK_BITS),
    "wait": _WAIT, "waitpid": _WAIT, "wait3": _WAIT, "wait4": _WAIT, "waitid": _WAIT,
}  # fmt: skip


class Commands:
    """The commands that the operations of one log may have.  texts: all of them; "other": a number without a word."""

    def __init__(self, words: Vocabulary) -> None:
        index: dict[str, int] = {_OTHER: 0}
        known = {}
        for op in np.flatnonzero(_has_command(words)).tolist():
            for number, text in _BY_OP.get(words.names[op], {}).items():
                known[op << 32 | number] = index.setdefault(text, len(index))
        self._keys = np.array(sorted(known), np.int64)
        self._index = np.array([known[key] for key in sorted(known)], np.int32)
        self._waits: NDArray[np.bool_] = words.shape == layout.SHAPE_WAIT
        self._opens = np.array([-1, *(index.setdefault(text, len(index)) for text in _OPEN[1:])], np.int32)
        self.texts = list(index)

    def of(self, op: NDArray[np.uint8], number: NDArray[np.uint32]) -> NDArray[np.int32]:
        """The index of the text of each row that has a command; -1: a wait without options, or none is recorded."""
        at, known = find(self._keys, op.astype(np.int64) << 32 | number)
        if not len(self._keys):
            return np.full(len(op), -1, np.int32)
        nothing = (number == layout.NO_BYTES) | ((number == 0) & self._waits.take(op))
        return np.where(nothing, -1, np.where(known, self._index[at], 0)).astype(np.int32)

    def of_opens(self, flags: NDArray[np.uint32]) -> NDArray[np.int32]:
        """The index of the text for the flags of each open; -1: none of those that have a text."""
        return self._opens.take(_open_number(flags))


def _open_number(flags: NDArray[np.uint32]) -> NDArray[np.int64]:
    """Indexes into _OPEN.  O_SYNC has the bit of O_DSYNC, too."""
    whole = (flags & os.O_SYNC) == os.O_SYNC
    data = (flags & os.O_DSYNC) != 0
    direct = (flags & os.O_DIRECT) != 0
    numbers: NDArray[np.int64] = np.where(whole, 2, data.astype(np.int64)) + 3 * direct
    return numbers


def _has_command(words: Vocabulary) -> NDArray[np.bool_]:
    found: NDArray[np.bool_] = (words.shape == layout.SHAPE_COMMAND) | (words.shape == layout.SHAPE_WAIT)
    return found
