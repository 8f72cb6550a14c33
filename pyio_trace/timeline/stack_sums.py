"""Sums by call stack and operation, as flame graphs and profiles show them: the largest, and the others by line."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pyio_trace.analysis.calls.code_texts import texts
from pyio_trace.analysis.reducer import scan
from pyio_trace.analysis.scan.columns import Columns
from pyio_trace.analysis.tables.sums_tables import StacksTable
from pyio_trace.analysis.view_sums.key_sums import MANY, Part
from pyio_trace.join.base.arrow_arrays import numbers, of_numbers, of_texts
from pyio_trace.timeline.frames import NO_STACK, Frame, Frames
from pyio_trace.timeline.picture import without
from pyio_trace.units import counted, seconds, size

if TYPE_CHECKING:
    from pyio_trace.join.sources.facade import Log

Ints = NDArray[np.int64]
Progress = Callable[[int], None] | None

_VALUES = ("every", "moved", "time_ns")
#: The innermost frame of sums by line.
_LEFT_OUT = "(left out: sum by line)"
#: Stacks whose texts are in memory at a time.
_AT_ONCE = 1 << 14


class Stack(NamedTuple):
    """frames: numbers, outermost first, the operation last; calls, bytes, ns: of outermost calls."""

    frames: list[int]
    calls: int
    bytes: int
    ns: int


class _StackSums(StacksTable):
    """The reducer: columns of codes and sums."""

    key: ClassVar[tuple[str, ...]] = ("call_stack", "site")

    def finish(self, part: Part | None, log: Log) -> dict[str, Ints]:  # type: ignore[override]
        part = part or self._empty()
        found = part.sums.columns()
        found["moved"] = found["read"] + found["written"]
        order = np.lexsort((-found["every"], -found["time_ns"]))
        return {name: values[order] for name, values in found.items()}


class _OperationSums(_StackSums):
    """The same by operation, too."""

    key: ClassVar[tuple[str, ...]] = ("call_stack", "site", "op")


class _Imported:
    """A reducer that counts the outermost calls of imports."""

    columns: ClassVar[tuple[str, ...]] = ("imported", "outer", "calls")

    def partial(self, batch: pa.RecordBatch) -> int:
        columns = Columns(batch)
        return int(columns.calls[columns.imported & columns.outer].sum())

    def combine(self, part: int, later: int) -> int:
        return part + later

    def finish(self, part: int | None, log: Log) -> int:
        return part or 0


class StackSums:
    """The sums of a log, the one with the most time first.  frames: numbered when stacks are made."""

    def __init__(self, log: Log, imports: bool, progress: Progress, operations: bool = True) -> None:
        """imports: also what imports did; operations: each operation apart."""
        self._log = log
        reducer = (_OperationSums if operations else _StackSums)(imports=imports, most=MANY)
        self._sums: dict[str, Ints]
        self._sums, imported = scan(log, [reducer, _Imported()], progress)
        self._left_out_imports = 0 if imports else imported
        self.frames = Frames()
        self._left_out = 0

    def __len__(self) -> int:
        return len(self._sums["time_ns"])

    def fitting(self, letters: int) -> int:
        """How many of the largest sums have call stacks of at most so many characters together."""
        import pyarrow.compute as pc

        lengths = numbers(pc.binary_length(self._log.dictionary("call_stack")))
        codes = self._sums["call_stack"]
        each = np.append(lengths, 0)[codes] + 1  # the last one is of -1
        return int(np.searchsorted(np.cumsum(each), letters, "right"))

    def stacks(self, most: int) -> Iterator[Stack]:
        """The largest `most` sums, and the others by line."""
        self.frames = Frames()
        self._left_out = len(self) - min(most, len(self))
        shown = len(self) - self._left_out
        for first in range(0, shown, _AT_ONCE):
            yield from self._stacks(slice(first, min(first + _AT_ONCE, shown)))
        if self._left_out:
            yield from self._by_line(slice(most, None))

    def _stacks(self, part: slice) -> Iterator[Stack]:
        codes = {name: self._sums[name][part] for name in ("call_stack", "op")}
        values = (self._sums[name][part].tolist() for name in _VALUES)
        words = (texts(self._log, name, one) for name, one in codes.items())
        for stack, op, *amounts in zip(*words, *values, strict=True):
            yield Stack([*self.frames.of(stack), self.frames.number(Frame(op or "?", "", 0))], *amounts)

    def table(self, most: int) -> pa.Table:
        """The same as a table: call_stack, folded, and time, ns.  Only without operations."""
        self._left_out = len(self) - min(most, len(self))
        known = texts(self._log, "call_stack", self._sums["call_stack"][:most])
        times = self._sums["time_ns"][:most].tolist()
        for line, *amounts in self._lines(slice(most, None)):
            known.append(f"{line or NO_STACK};{_LEFT_OUT}")
            times.append(amounts[-1])
        return pa.table({"call_stack": of_texts(known), "time": of_numbers(np.array(times, np.int64))})

    def _by_line(self, part: slice) -> Iterator[Stack]:
        innermost = self.frames.frame(_LEFT_OUT)
        for line, *amounts in self._lines(part):
            yield Stack([self.frames.frame(line or NO_STACK), innermost], *amounts)

    def _lines(self, part: slice) -> list[tuple[Any, ...]]:
        """(line, calls, bytes, ns) of the sums by line."""
        sites, line = np.unique(self._sums["site"][part], return_inverse=True)
        totals = np.zeros((len(_VALUES), len(sites)), np.int64)
        for place, name in enumerate(_VALUES):
            np.add.at(totals[place], line, self._sums[name][part])
        return list(zip(texts(self._log, "site", sites), *totals.tolist(), strict=True))

    def said(self, path: str, written: int, opened: str) -> list[str]:
        """What to tell the user.  opened: how to open the file."""
        total = {name: int(self._sums[name].sum()) for name in _VALUES}
        amounts = f"{counted(total['every'], 'call')}, {size(total['moved'])}, {seconds(total['time_ns'])}"
        lines = [f"{path}: {counted(len(self), 'stack')}, {amounts} of I/O; {size(written)}"]
        if self._left_out:
            rest = {name: int(self._sums[name][-self._left_out :].sum()) for name in _VALUES}
            amounts = f"{counted(rest['every'], 'call')}, {size(rest['moved'])}, {seconds(rest['time_ns'])}"
            lines.append(f"the smallest {counted(self._left_out, 'stack')} are sums by line: {amounts}")
        known = bool((self._sums["call_stack"] >= 0).any())
        lines += without(self._log, self._left_out_imports, known, len(self))
        return [*lines, f"open it {opened}"]
