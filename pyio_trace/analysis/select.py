"""Choosing operations: the filters and orders of `pyio-trace events`."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pyio_trace.analysis.rows import codes, numbers
from pyio_trace.errors import ConfigError
from pyio_trace.events import LAYERS, OPERATION_COLUMNS

if TYPE_CHECKING:
    from pyio_trace.join.facade import Log

#: Columns of which the largest values are wanted first.
_LARGEST_FIRST = ("duration", "size", "moved", "count")


@dataclass(frozen=True)
class Filter:
    """Which operations; an empty or None part lets everything pass.

    layers, ops: names, ops also as patterns; path: pattern; pids: process
    numbers; min_duration: ns; errors: failed calls only.
    """

    layers: Sequence[str] = ()
    ops: Sequence[str] = ()
    path: str | None = None
    pids: Sequence[int] = ()
    min_duration: int = 0
    errors: bool = False

    def columns(self) -> set[str]:
        """The columns that the decision needs."""
        parts: dict[str, object] = {"layer": self.layers, "op": self.ops, "path": self.path, "pid": self.pids}
        parts |= {"duration": self.min_duration, "errno": self.errors}
        return {name for name, part in parts.items() if part}

    def mask(self, batch: pa.RecordBatch) -> np.ndarray | None:
        """Which rows pass, shape (rows,); None: all of them."""
        masks = []
        for name, patterns in (("layer", self.layers), ("op", self.ops)):
            if patterns:
                masks.append(_coded(batch.column(name), patterns, matching))
        if self.path:
            masks.append(_coded(batch.column("path"), [self.path], matching_path))
        if self.pids:
            masks.append(np.isin(numbers(batch.column("pid"), -1), np.array(self.pids)))
        if self.min_duration:  # what never came back lasted long
            masks.append(numbers(batch.column("duration"), np.iinfo(np.int64).max) >= self.min_duration)
        if self.errors:
            masks.append(numbers(batch.column("errno")) != 0)
        return np.logical_and.reduce(masks) if masks else None


def check(log: Log, chosen: Filter) -> None:
    """Raise ConfigError for a layer or operation that the log does not have: a misspelling gives no empty table."""
    from pyio_trace.values import did_you_mean

    for word in chosen.layers:
        if word not in LAYERS:
            raise ConfigError("bad-value", f"--layer: there is no layer {word!r}; there are {', '.join(LAYERS)}")
    known = log.dictionary("op").to_pylist()
    for word in chosen.ops:
        if not any(fnmatchcase(op, word) for op in known):
            raise ConfigError("bad-value", f"--op: no operation {word!r} in this log{did_you_mean(word, known)}")


def select(
    log: Log,
    chosen: Filter,
    columns: Sequence[str],
    sort: str | None = None,
    reverse: bool = False,
    limit: int | None = None,
    progress: Callable[[int], None] | None = None,
) -> Iterator[pa.RecordBatch]:
    """The chosen operations with the given columns, in the order of the log or sorted.

    sort: a column, its largest first for durations and sizes; reverse: the other way round.
    """
    wanted = list(dict.fromkeys([*columns, *sorted(chosen.columns()), *([sort] if sort else [])]))
    batches = _filtered(log, chosen, wanted, None if sort else limit, progress)
    if sort:
        order = "descending" if (sort in _LARGEST_FIRST) != reverse else "ascending"
        batches = _sorted(batches, sort, order, limit)
    for batch in batches:
        yield batch.select(list(columns))


def check_columns(names: Sequence[str]) -> None:
    """Raise ConfigError for what is no column of the operations table."""
    from pyio_trace.values import did_you_mean

    for name in names:
        if name not in OPERATION_COLUMNS:
            raise ConfigError("bad-value", f"there is no column {name!r}{did_you_mean(name, OPERATION_COLUMNS)}")


def _filtered(
    log: Log, chosen: Filter, wanted: Sequence[str], limit: int | None, progress: Callable[[int], None] | None
) -> Iterator[pa.RecordBatch]:
    left = limit
    for batch in log.batches(wanted):
        if left is not None and left <= 0:
            return
        if progress is not None:
            progress(batch.num_rows)
        mask = chosen.mask(batch)
        if mask is not None:
            batch = batch.take(pa.array(np.flatnonzero(mask)))
        if left is not None:
            batch = batch.slice(0, left)
            left -= batch.num_rows
        if batch.num_rows:
            yield batch


def _sorted(batches: Iterator[pa.RecordBatch], name: str, order: str, limit: int | None) -> Iterator[pa.RecordBatch]:
    """All rows in order; with a limit only about so many are ever kept."""
    kept: pa.Table | None = None
    for batch in batches:
        table = pa.Table.from_batches([batch])
        kept = table if kept is None else pa.concat_tables([kept, table])
        if limit is not None and kept.num_rows > 4 * limit + (1 << 20):
            kept = _ordered(kept, name, order, limit)
    if kept is not None:
        yield from _ordered(kept, name, order, limit).combine_chunks().to_batches()


def _ordered(table: pa.Table, name: str, order: str, limit: int | None) -> pa.Table:
    column = table[name].combine_chunks()
    if isinstance(column, pa.DictionaryArray):
        column = column.dictionary_decode()
    at = pc.array_sort_indices(column, order=order, null_placement="at_start" if name == "duration" else "at_end")
    return table.take(at if limit is None else at.slice(0, limit))


def _coded(
    column: pa.DictionaryArray, patterns: Sequence[str], matching: Callable[[pa.Array, str], pa.Array]
) -> np.ndarray:
    """Rows whose string matches one of the patterns: each distinct string is looked at once."""
    chosen = np.zeros(len(column.dictionary) + 1, np.bool_)  # the last: null
    for pattern in patterns:
        chosen[:-1] |= matching(column.dictionary, pattern).to_numpy(zero_copy_only=False)
    result: np.ndarray = chosen[codes(column)]
    return result


def matching(texts: pa.Array, pattern: str) -> pa.Array:
    """Which strings match a shell pattern; null matches nothing."""
    if not any(letter in pattern for letter in "*?["):
        return pc.fill_null(pc.equal(texts, pattern), False)
    return pa.array([text is not None and fnmatchcase(text, pattern) for text in texts.to_pylist()], pa.bool_())


def matching_path(paths: pa.Array, pattern: str) -> pa.Array:
    """Which paths a pattern is about, as with --include: one without a slash is that of any name in a path, one with a
    slash that of a path and what is below it. `*` matches slashes too; null matches nothing."""
    if "/" in pattern or pattern in (".", "..", "~"):
        whole = os.path.expanduser(pattern).rstrip("/")
        if whole.startswith(("./", "../")) or whole in (".", ".."):
            whole = os.path.abspath(whole)
        return pc.or_(matching(paths, whole), matching(paths, f"{whole}/*"))

    def named(path: str) -> bool:
        return fnmatchcase(path, pattern) or any(fnmatchcase(name, pattern) for name in path.split("/"))

    return pa.array([path is not None and named(path) for path in paths.to_pylist()], pa.bool_())


def since_start(table: pa.Table, log: Log, columns: Sequence[str]) -> pa.Table:
    """The table with these columns counted from the start of the run instead of 1970."""
    start = int(log.info()["start"])
    for name in columns:
        at = table.schema.get_field_index(name)
        table = table.set_column(at, name, pc.subtract(table[name], start))
    return table
