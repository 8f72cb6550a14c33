"""The names of records, and their ids: Darshan's hash of the name, so that ids agree with those of Darshan's logs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
from numpy.typing import NDArray

from pyio_trace import darshan_format

Ints = NDArray[np.int64]
Ids = NDArray[np.uint64]

#: Bytes of a name; no path is longer, and Darshan's readers have room for no more.
LONGEST = 4095
_ESCAPED = {code: f"\\x{code:02x}" for code in (*range(32), 127)}


class NameTable:
    """Numbers names in the order in which they come."""

    def __init__(self) -> None:
        self._numbers: dict[bytes, int] = {}

    def number(self, texts: Iterable[str]) -> Ints:
        """The number of each name; names that are written alike have the same one."""
        return np.array([self._numbers.setdefault(raw_name(text), len(self._numbers)) for text in texts], np.int64)

    def ids(self) -> Ids:
        """The id of each name, by number."""
        return record_ids(list(self._numbers))

    def records(self, used: Ints) -> Iterator[bytes]:
        """The name records of these numbers, as the log has them."""
        names, ids = list(self._numbers), self.ids().astype(darshan_format.NAME_ID)
        for number in used.tolist():
            yield ids[number].tobytes() + names[number] + b"\0"


def raw_name(text: str) -> bytes:
    """A name as a log has it: UTF-8 on one line, of at most LONGEST bytes."""
    raw = text.translate(_ESCAPED).encode("utf-8", "backslashreplace")
    return raw if len(raw) <= LONGEST else raw[:LONGEST].decode("utf-8", "ignore").encode()


def record_ids(names: list[bytes]) -> Ids:
    """Bob Jenkins' hash "lookup8" of each name: blocks of three 64-bit words, mixed into a state of three."""
    if not names:
        return np.zeros(0, np.uint64)
    size = np.array([len(name) for name in names], np.int64)
    whole = size // 24
    block = np.cumsum(whole + 1) - (whole + 1)  # the last one of each name is not full
    words = np.frombuffer(b"".join(name.ljust((len(name) // 24 + 1) * 24, b"\0") for name in names), "<u8")
    words = words.reshape(-1, 3)
    a, b = np.zeros(len(names), np.uint64), np.zeros(len(names), np.uint64)
    c = np.full(len(names), 0x9E3779B97F4A7C13, np.uint64)
    for number in range(int(whole.max())):
        at = np.flatnonzero(whole > number)
        word = words[block[at] + number].T
        a[at], b[at], c[at] = _mixed(a[at] + word[0], b[at] + word[1], c[at] + word[2])
    last = words[block + whole].T
    eight = np.uint64(8)
    return _mixed(a + last[0], b + last[1], c + size.astype(np.uint64) + (last[2] << eight))[2]


#: Of each round: shifts to the right, the left and the right.
_ROUNDS = ((43, 9, 8), (38, 23, 5), (35, 49, 11), (12, 18, 22))


def _mixed(a: Ids, b: Ids, c: Ids) -> tuple[Ids, Ids, Ids]:
    for first, second, third in (tuple(map(np.uint64, one)) for one in _ROUNDS):
        a = (a - b - c) ^ (c >> first)
        b = (b - c - a) ^ (a << second)
        c = (c - a - b) ^ (b >> third)
    return a, b, c
