"""The words for what flock, lockf, fcntl, waits, opens and seeks were told to do, which records have as a number.

The numbers are Linux's, the same on x86-64 and aarch64, except O_DIRECT: of that
one, the reading machine's number counts.  Of an open, only the flags have words
that say what may become of the file's content, when its writes are done and
whether they pass by the page cache.  O_CLOEXEC, O_NOFOLLOW, O_NONBLOCK and the
like say nothing of that, and neither does a bit that is not known.
"""

from __future__ import annotations

import os
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from pyio_trace.enums import Layer, OpClass
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
#: An lseek from the end that does not go to the end itself has a bit more in the log.
_SEEK = {0: "SEEK_SET", 1: "SEEK_CUR", 2: "SEEK_END", 258: "SEEK_END", 3: "SEEK_DATA", 4: "SEEK_HOLE"}
#: Access modes; the last one asks for both rights, and reads and writes nothing.
_ACCESS = ("O_RDONLY", "O_WRONLY", "O_RDWR", "O_ACCMODE")
_ACCESS_BITS = 3
#: Flags of opens in the order of their words.  The whole O_TMPFILE has the bit of O_DIRECTORY, too.
_OPEN_BITS = {
    0o100: "O_CREAT", 0o200: "O_EXCL", 0o1000: "O_TRUNC", 0o2000: "O_APPEND", 0o20000000: "O_TMPFILE",
    getattr(os, "O_DIRECT", 0o40000): "O_DIRECT", 0o10000: "O_DSYNC",
}  # fmt: skip
#: What O_SYNC has besides the bit of O_DSYNC.
_WHOLE_SYNC = 0o4000000
#: O_PATH: the descriptor only names the file, and no other flag counts.
_ONLY_NAME = 0o10000000


def _combined(bits: dict[int, str]) -> dict[int, str]:
    """The texts of all combinations of one or more bits."""
    groups = (group for count in range(1, len(bits) + 1) for group in combinations(bits.items(), count))
    return {sum(bit for bit, _ in group): "|".join(word for _, word in group) for group in groups}


_WAIT = _combined(_WAIT_BITS)
_BY_OP = {
    "fcntl": _FCNTL, "lockf": _LOCKF, "flock": _combined(_FLOCK_BITS),
    "lseek": _SEEK, "fseek": _SEEK,
    "wait": _WAIT, "waitpid": _WAIT, "wait3": _WAIT, "wait4": _WAIT, "waitid": _WAIT,
}  # fmt: skip


#: How many texts an open may have.
OPENS = 2 * (len(_ACCESS) << len(_OPEN_BITS)) + 1


def open_numbers(flags: NDArray[np.uint32]) -> NDArray[np.int64]:
    """What tells the texts of opens apart, below OPENS: bits for the flags that have a word."""
    numbers = (flags & _ACCESS_BITS).astype(np.int64)
    for place, bit in enumerate((*_OPEN_BITS, _WHOLE_SYNC)):
        numbers |= ((flags & np.uint32(bit)) != 0).astype(np.int64) << (2 + place)
    found: NDArray[np.int64] = np.where(flags & np.uint32(_ONLY_NAME), OPENS - 1, numbers)
    return found


def _open_text(number: int) -> str:
    """The text of a number of open_numbers()."""
    if number == OPENS - 1:
        return "O_PATH"
    words = [word for place, word in enumerate((*_OPEN_BITS.values(), "O_SYNC")) if number >> (2 + place) & 1]
    if "O_SYNC" in words:  # it is the bit of O_DSYNC and another one, which alone means nothing
        words.remove("O_DSYNC" if "O_DSYNC" in words else "O_SYNC")
    return "|".join((_ACCESS[number & _ACCESS_BITS], *words))


class Commands:
    """The commands that the operations of one log may have.  texts: all of them; "other": a number without a word."""

    def __init__(self, words: Vocabulary, opens: NDArray[np.bool_]) -> None:
        """opens: which of open_numbers() occur."""
        index: dict[str, int] = {_OTHER: 0}
        known = {}
        self._known = _has_command(words)
        for op in np.flatnonzero(self._known).tolist():
            for number, text in _BY_OP.get(words.names[op], {}).items():
                known[op << 32 | number] = index.setdefault(text, len(index))
        self._keys = np.array(sorted(known), np.int64)
        self._index = np.array([known[key] for key in sorted(known)], np.int32)
        self._waits: NDArray[np.bool_] = words.shape == layout.SHAPE_WAIT
        self._opens = np.full(OPENS, -1, np.int32)
        for number in np.flatnonzero(opens).tolist():
            self._opens[number] = index.setdefault(_open_text(number), len(index))
        self.texts = list(index)

    def of(self, op: NDArray[np.uint8], number: NDArray[np.uint32]) -> NDArray[np.int32]:
        """The index of the text of each row that has a command; -1: a wait without options, or none is recorded."""
        at, known = find(self._keys, op.astype(np.int64) << 32 | number)
        if not len(self._keys):
            return np.full(len(op), -1, np.int32)
        nothing = (number == layout.NO_BYTES) | ((number == 0) & self._waits.take(op)) | ~self._known.take(op)
        return np.where(nothing, -1, np.where(known, self._index[at], 0)).astype(np.int32)

    def of_opens(self, flags: NDArray[np.uint32]) -> NDArray[np.int32]:
        """The index of the text for the flags of each open."""
        return self._opens.take(open_numbers(flags))


def _has_command(words: Vocabulary) -> NDArray[np.bool_]:
    seeks = (words.shape == layout.SHAPE_SEEK) & (words.klass == OpClass.SEEK) & (words.layer != Layer.APP)
    found: NDArray[np.bool_] = seeks | np.isin(words.shape, (layout.SHAPE_COMMAND, layout.SHAPE_WAIT))
    return found
