"""Darshan's counters of one file in one process, from the calls a program says it made: a model of Darshan's own rules.

It follows the comments of Darshan's log format and the rules of its POSIX
module, one call after another, as a person would work them out on paper.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

_ENDS = (100, 1 << 10, 10 << 10, 100 << 10, 1 << 20, 4 << 20, 10 << 20, 100 << 20, 1 << 30)
_BINS = ("0_100", "100_1K", "1K_10K", "10K_100K", "100K_1M", "1M_4M", "4M_10M", "10M_100M", "100M_1G", "1G_PLUS")
_PLAIN = {
    "seek": "SEEKS", "stat": "STATS", "mmap": "MMAPS", "fsync": "FSYNCS", "fdatasync": "FDSYNCS",
    "rename": "RENAME_SOURCES",
}  # fmt: skip


class Model:
    """One record of Darshan's POSIX module."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self._last = {"read": 0, "write": 0}
        self._latest = ""
        self._sizes: Counter[int] = Counter()
        self._strides: Counter[int] = Counter()

    def meet(self, call: str, offset: int = 0, size: int = 0) -> None:
        """One successful call."""
        if call in ("open", "dup"):
            self.counts["OPENS"] += 1
            self.counts["DUPS"] += call == "dup"
        if call in ("open", "close"):
            self._last = {"read": 0, "write": 0}
        if call in _PLAIN:
            self.counts[_PLAIN[call]] += 1
        if call in ("read", "write"):
            self._transfer(call, offset, size)

    def _transfer(self, call: str, offset: int, size: int) -> None:
        plural, done, last = call.upper() + "S", {"read": "READ", "write": "WRITTEN"}[call], self._last[call]
        self.counts[plural] += 1
        self.counts[f"BYTES_{done}"] += size
        self.counts[f"SEQ_{plural}"] += offset > last
        self.counts[f"CONSEC_{plural}"] += offset == last + 1
        if offset > last and last != 0 and offset - last - 1:
            self._strides[offset - last - 1] += 1
        self._last[call] = offset + size - 1
        self.counts[f"MAX_BYTE_{done}"] = max(self.counts[f"MAX_BYTE_{done}"], offset + size - 1)
        self.counts[f"SIZE_{call.upper()}_{_BINS[sum(size > end for end in _ENDS)]}"] += 1
        if size:
            self._sizes[size] += 1
        self.counts["RW_SWITCHES"] += self._latest not in ("", call)
        self._latest = call

    def counters(self) -> dict[str, int]:
        """Those that are not 0, with the names of POSIX."""
        found = dict(self.counts)
        for name, what, values in (("ACCESS", "ACCESS", self._sizes), ("STRIDE", "STRIDE", self._strides)):
            ranked = sorted(values.items(), key=lambda pair: (-pair[1], -pair[0]))[:4]
            for number, (value, count) in enumerate(ranked, 1):
                found |= {f"{name}{number}_{what}": value, f"{name}{number}_COUNT": count}
        return {f"POSIX_{name}": value for name, value in found.items() if value}


def model_of(calls: Iterable[list[Any]]) -> dict[str, int]:
    """The counters after these calls: name, and of transfers offset and size."""
    model = Model()
    for call in calls:
        model.meet(*call)
    return model.counters()


def whole_counters(record: dict[str, Any], module: str = "POSIX") -> dict[str, int]:
    """The integer counters of a row of the table that are not 0."""
    return {
        name: value for name, value in record.items() if name.startswith(f"{module}_") and "_F_" not in name and value
    }
