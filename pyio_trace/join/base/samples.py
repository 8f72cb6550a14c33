"""Samples: what the threads of a run were found doing, as columns.

A row is a run of equal samples of one thread.  Whatever the log claims, the
columns are bounded: each value, so that sums fit, and the number of rows.  Where
a run was sampled for so long that there are more, neighbouring rows of a thread
that have the same stack and the same state become one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from pyio_trace.join.base.arrow_arrays import of_codes, of_numbers, of_texts
from pyio_trace.light_dataclass import dataclass
from pyio_trace.log import layout, runs
from pyio_trace.log.sorting import distinct

if TYPE_CHECKING:
    import pyarrow as pa

Ints = NDArray[np.int64]
Columns = dict[str, Ints]

#: The columns, all int64.  process: index into the process table, -1: none; stack: index of a text, -1: none; state:
#: index into layout.SAMPLE_STATES.
NAMES = ("process", "thread", "time", "duration", "cpu", "delay", "stack", "state", "samples")
AMOUNTS = ("duration", "cpu", "delay", "samples")
#: Most rows that are kept: 8 processes of 5 threads for two hours.
MOST = 1 << 20
#: The largest values that are believed: ns since 1970; ns, or samples, of a row (36 minutes).
_LATEST, _LARGEST = 1 << 62, 1 << 41
#: Rows within so many ns become one first.
_NARROWEST, _WIDEST = 1 << 31, 1 << 56


@dataclass(frozen=True)
class Samples:
    """columns: by name, sorted by process, thread and time; stacks: what the column stack stands for, outermost frame
    first, separated by ;."""

    columns: Columns
    stacks: Sequence[str]

    def __len__(self) -> int:
        return len(self.columns["time"])

    def __getitem__(self, name: str) -> Ints:
        return self.columns[name]

    def where(self, mask: NDArray[np.bool_]) -> Samples:
        """The rows of the mask."""
        return Samples({name: values[mask] for name, values in self.columns.items()}, self.stacks)

    def until(self) -> dict[int, int]:
        """Row of a process -> ns since the epoch of the end of its last sample, of all that have some."""
        found = distinct(self["process"])
        last = np.zeros(len(found), np.int64)
        np.maximum.at(last, np.searchsorted(found, self["process"]), self["time"] + self["duration"])
        return dict(zip(found.tolist(), last.tolist(), strict=True))

    def table(self) -> pa.Table:
        """The samples table; see Log.samples()."""
        import pyarrow as pa

        used = distinct(self["stack"][self["stack"] >= 0])
        words = {"stack": [self.stacks[at] for at in used.tolist()], "state": layout.SAMPLE_STATES}
        places = {"stack": np.where(self["stack"] < 0, -1, np.searchsorted(used, self["stack"]))}
        arrays = []
        for field in samples_schema():
            values = places.get(field.name, self[field.name])
            if field.name in words:
                arrays.append(of_codes(values, of_texts(words[field.name])))
            else:
                typed = values.astype(field.type.to_pandas_dtype())
                arrays.append(of_numbers(typed, typed < 0 if field.nullable else None))
        return pa.Table.from_arrays(arrays, schema=samples_schema())


NOTHING = Samples({name: np.zeros(0, np.int64) for name in NAMES}, [])


def samples_schema() -> pa.Schema:
    """The samples table's columns."""
    import pyarrow as pa

    word, big, small = pa.dictionary(pa.int32(), pa.string()), pa.int64(), pa.int32()
    fields = [
        ("process", small, True), ("thread", small, False), ("time", big, False), ("duration", big, False),
        ("cpu", big, False), ("delay", big, False), ("stack", word, True), ("state", word, False),
        ("samples", big, False),
    ]  # fmt: skip
    return pa.schema([pa.field(*field) for field in fields])


def bounded(columns: Columns) -> Columns:
    """The same columns without values that cannot be."""
    found = {name: np.clip(columns[name], 0, _LARGEST) for name in AMOUNTS}
    found["time"] = np.clip(columns["time"], 0, _LATEST)
    found["state"] = np.clip(columns["state"], 0, len(layout.SAMPLE_STATES) - 1)
    return columns | found


class Collected:
    """Columns that come in parts, as many rows of them as are kept."""

    def __init__(self, most: int = MOST) -> None:
        self._most, self._width = most, _NARROWEST
        self._parts: list[Columns] = []
        self._rows = 0

    def add(self, columns: Columns) -> None:
        """Takes more rows."""
        self._parts.append(bounded(columns))
        self._rows += len(columns["time"])
        if self._rows > 2 * self._most:
            self._merge()

    def columns(self) -> Columns:
        """All rows, in the order of process, thread and time."""
        if self._rows > self._most:
            self._merge()
        return _taken(self._whole(), "time", "thread", "process")

    def _whole(self) -> Columns:
        parts = self._parts or [NOTHING.columns]
        return {name: np.concatenate([part[name] for part in parts]) for name in NAMES}

    def _merge(self) -> None:
        whole = self._whole()
        whole = _in_bins(whole, self._width)
        while len(whole["time"]) > self._most and self._width < _WIDEST:
            self._width *= 4
            whole = _in_bins(whole, self._width)
        if len(whole["time"]) > self._most:  # only forged logs have so many threads
            whole["process"][self._most // 2 :] = whole["stack"][self._most // 2 :] = -1
            whole["thread"][self._most // 2 :] = 0
            whole = _in_bins(whole, self._width)
        self._parts, self._rows = [whole], len(whole["time"])


def collected(parts: Sequence[Samples]) -> Samples:
    """Samples of several logs, of which each counts processes from where the one before ended."""
    rows, stacks = Collected(), list[str]()
    for part in parts:
        shifted = np.where(part["stack"] < 0, -1, part["stack"] + len(stacks))
        rows.add(part.columns | {"stack": shifted})
        stacks += part.stacks
    return Samples(rows.columns(), stacks)


def _in_bins(columns: Columns, width: int) -> Columns:
    """Rows of the same thread, stack and state whose begins are within the same stretch of `width` ns as one.

    In each such stretch, the rows of a thread then follow each other as they began, without gaps.
    """
    whole = columns | {"bin": columns["time"] // width}
    whole = _taken(whole, "time", "state", "stack", "bin", "thread", "process")
    first = runs.starts(*(whole[name] for name in ("process", "thread", "bin", "stack", "state")))
    if not len(first):
        return columns
    found = {name: whole[name][first] for name in whole}
    found |= {name: np.minimum(np.add.reduceat(whole[name], first), _LARGEST) for name in AMOUNTS}
    found = _taken(found, "time", "thread", "process")
    before = np.cumsum(found["duration"]) - found["duration"]
    begins = runs.starts(found["process"], found["thread"], found["bin"])
    lengths = np.diff(np.append(begins, len(before)))
    base = found["time"][begins] - before[begins]
    found["time"] = np.repeat(base, lengths) + before
    return {name: found[name] for name in NAMES}


def _taken(columns: Columns, *keys: str) -> Columns:
    """In the order of these columns, the last one first."""
    order = _order([columns[key] for key in reversed(keys)])
    return {name: values.take(order) for name, values in columns.items()}


def _order(keys: list[Ints]) -> Ints:
    """The order of rows by these keys, the first one first.  Keys are packed into few numbers, which sort faster."""
    packed: list[Ints] = []
    size = 0
    for key in keys if len(keys[0]) else ():
        least, span = int(key.min()), int(key.max()) - int(key.min()) + 1
        if packed and size * span < 1 << 62:
            packed[-1] = packed[-1] * span + (key - least)
            size *= span
        else:
            packed.append(key - least)
            size = span
    found: Ints = np.argsort(packed[0], kind="stable") if len(packed) == 1 else np.lexsort(packed[::-1] or keys)
    return found


def checked(columns: Columns, processes: int, stacks: int) -> bool:
    """Whether indexes are within their tables, and threads numbers that a system can give."""
    limits: dict[str, tuple[Any, int]] = {"process": (-1, processes), "stack": (-1, stacks), "thread": (0, 1 << 31)}
    return all(
        int(columns[name].min(initial=least)) >= least and int(columns[name].max(initial=least)) < most
        for name, (least, most) in limits.items()
    )
