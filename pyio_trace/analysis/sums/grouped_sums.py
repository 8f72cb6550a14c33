"""Sums by key that can be added to and merged, kept as Arrow tables."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pyio_trace.analysis.scan.saturation import addable
from pyio_trace.analysis.sums.packed_keys import packing_of
from pyio_trace.join.base.arrow_arrays import numbers, of_numbers
from pyio_trace.log import runs

#: What a value that is not given becomes, by the way in which it is summed: it changes nothing.
_NEUTRAL = {"sum": 0, "min": (1 << 63) - 1, "max": -(1 << 63)}
_HOW = {"sum": np.add, "min": np.minimum, "max": np.maximum}
_FEW = 1 << 18
#: Rows that are summed without Arrow, whose first group_by() imports pandas: 0.2 s, longer than these rows take.
_SMALL = 1 << 16
#: Rows that are summed later, with others.
_NOT_WORTH_IT = 256
#: The column that stands for all keys; no key has this name.
_CODE = ""


class GroupedSums:
    """Rows of int64 values by int64 keys, of which only the sums are kept.

    Rows collect until there are twice as many as keys at the last summing, so
    adding many small parts takes time in proportion to their rows.
    """

    def __init__(
        self,
        keys: tuple[str, ...],
        values: Mapping[str, str],
        most: int | None = None,
        instead: Mapping[str, int] | None = None,
    ) -> None:
        """values: column -> sum, min or max.  most: keys kept; beyond, those with the smallest first value are dropped,
        down to half of it; instead: they are added up with these values of some keys, not dropped."""
        self.keys, self._values, self._most, self._instead = keys, dict(values), most, instead
        #: Sums that were dropped, or added up with others.  A key that comes again after that counts again.
        self.dropped = 0
        self._parts: list[pa.Table] = []
        self._rows, self._limit = 0, _FEW
        self._done = False  # whether the last part is a sum of all before it

    def add(self, columns: Mapping[str, NDArray[np.int64]]) -> None:
        """Adds rows: all key columns, and those value columns that are not neutral."""
        if not len(columns[self.keys[0]]):
            return
        whole = self._neighbours_summed(columns)
        rows = len(whole[self.keys[0]])
        for name, how in self._values.items():
            if name not in whole:
                whole[name] = np.full(rows, _NEUTRAL[how], np.int64)
        names = (*self.keys, *self._values)
        arrays = [of_numbers(whole[name].astype(np.int64, copy=False)) for name in names]
        table = pa.Table.from_arrays(arrays, list(names))
        self._append(table if rows < _NOT_WORTH_IT else self._summed(table))

    def _neighbours_summed(self, columns: Mapping[str, NDArray[np.int64]]) -> dict[str, NDArray[np.int64]]:
        """The same sums in fewer rows, where most have the keys of the row before: quicker than sorting them."""
        whole = dict(columns)
        first = runs.starts(*(whole[key] for key in self.keys))
        if 2 * len(first) > len(whole[self.keys[0]]):
            return whole
        found = {key: whole[key].take(first) for key in self.keys}
        for name, how in self._values.items():
            if name in whole:
                values = whole[name].astype(np.int64, copy=False)
                found[name] = _HOW[how].reduceat(addable(values) if how == "sum" else values, first)
        return found

    def update(self, other: GroupedSums) -> None:
        """Adds the sums of another one with the same columns."""
        self.dropped += other.dropped
        for part in other._parts:
            self._append(part)

    def __getstate__(self) -> dict[str, Any]:
        self._compact()
        return self.__dict__

    def rekeyed(self, change: Callable[[dict[str, NDArray[np.int64]]], dict[str, NDArray[np.int64]]]) -> GroupedSums:
        """The sums by other values of the keys; change: gets all columns and returns them with those."""
        found = GroupedSums(self.keys, self._values, self._most, self._instead)
        found.add(change(self.columns()))
        found.dropped += self.dropped
        return found

    def columns(self, *without: str) -> dict[str, NDArray[np.int64]]:
        """Keys and sums as arrays, sorted by the keys; without: keys that are left out and summed over."""
        keys = [key for key in self.keys if key not in without]
        table = self._compact()
        if without:
            table = self._summed(table.drop_columns(list(without)), keys)
        found = {name: _array(table[name]) for name in table.column_names}
        order = _order([found[key] for key in keys])
        return {name: values[order] for name, values in found.items()}

    def _append(self, table: pa.Table) -> None:
        self._parts.append(table)
        self._done = False
        self._rows += len(table)
        if self._rows > self._limit:
            self._compact()

    def _compact(self) -> pa.Table:
        names = [*self.keys, *self._values]
        if not self._parts:
            return pa.Table.from_arrays([of_numbers(np.empty(0, np.int64)) for _ in names], names)
        whole = (
            self._summed(pa.concat_tables(self._parts)) if len(self._parts) > 1 or not self._done else self._parts[0]
        )
        if self._most is not None and len(whole) > self._most:
            self.dropped += len(whole) - self._most // 2
            whole = self._without_smallest(whole, self._most // 2)
        self._parts, self._rows, self._done = [whole], len(whole), True
        self._limit = max(_FEW, 2 * len(whole))
        return whole

    def _without_smallest(self, whole: pa.Table, kept: int) -> pa.Table:
        ranked = np.argsort(whole[next(iter(self._values))].to_numpy(), kind="stable")
        largest = whole.take(pa.array(np.sort(ranked[-kept:])))
        if self._instead is None:
            return largest
        rest = whole.take(pa.array(ranked[:-kept]))
        for name, value in self._instead.items():
            at = rest.schema.get_field_index(name)
            rest = rest.set_column(at, name, of_numbers(np.full(len(rest), value, np.int64)))
        return self._summed(pa.concat_tables([largest, self._summed(rest)]))

    def _summed(self, table: pa.Table, keys: list[str] | None = None) -> pa.Table:
        by = list(self.keys) if keys is None else keys
        table = self._addable(table)
        if len(table) <= _SMALL:
            return self._summed_small(table.select([*by, *self._values]), by)
        columns = [_array(table[key]) for key in by]
        packing = packing_of(columns)
        if packing is not None:
            table = table.select(list(self._values)).append_column(_CODE, of_numbers(packing.pack(columns)))
        found = table.group_by(by if packing is None else _CODE).aggregate(list(self._values.items()))
        sums = [found[f"{name}_{how}"] for name, how in self._values.items()]
        if packing is None:
            return pa.Table.from_arrays([*(found[key] for key in by), *sums], [*by, *self._values])
        unpacked = map(of_numbers, packing.unpack(_array(found[_CODE])))
        return pa.Table.from_arrays([*unpacked, *sums], [*by, *self._values])

    def _addable(self, table: pa.Table) -> pa.Table:
        for name, how in self._values.items():
            if how == "sum":
                values = _array(table[name])
                cut = addable(values)
                if cut is not values:
                    table = table.set_column(table.schema.get_field_index(name), name, of_numbers(cut))
        return table

    def _summed_small(self, table: pa.Table, by: list[str]) -> pa.Table:
        if not len(table):
            return table
        columns = {name: _array(table[name]) for name in table.column_names}
        order = _order([columns[key] for key in by])
        columns = {name: values.take(order) for name, values in columns.items()}
        at = runs.starts(*(columns[key] for key in by))
        sums = [of_numbers(columns[key].take(at)) for key in by]
        sums += [of_numbers(_HOW[how].reduceat(columns[name], at)) for name, how in self._values.items()]
        return pa.Table.from_arrays(sums, table.column_names)


def _order(keys: list[NDArray[np.int64]]) -> NDArray[np.int64]:
    """The places of rows in the order of their keys, the first key first."""
    packing = packing_of(keys)
    if packing is None:
        return np.lexsort(keys[::-1])
    return np.argsort(packing.pack(keys), kind="stable")


def _array(column: pa.ChunkedArray) -> NDArray[np.int64]:
    """A column without nulls."""
    parts = [numbers(chunk) for chunk in column.chunks]
    return parts[0] if len(parts) == 1 else np.concatenate([np.empty(0, np.int64), *parts])
