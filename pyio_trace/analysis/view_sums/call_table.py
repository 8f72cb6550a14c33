"""Sums of calls by process, source line, path and operation, and how to choose and add up among them."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from functools import cached_property

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pyio_trace.enums import Layer, OpClass
from pyio_trace.join.base.arrow_arrays import texts_at
from pyio_trace.join.references.own_code import OwnCode
from pyio_trace.light_dataclass import dataclass
from pyio_trace.log import runs
from pyio_trace.log.sorting import Places, distinct

Ints = NDArray[np.int64]
#: Values that are compared one by one.
_FEW = 4


@dataclass(frozen=True)
class Group:
    """The sum of some calls.

    keys: by name; calls; time, outer: ns, of all and of those that nothing which counts as I/O is around; moved: bytes;
    first, last: when the first began and the last ended, ns since the epoch.
    """

    keys: dict[str, int]
    calls: int
    time: int
    outer: int
    moved: int
    first: int
    last: int
    _table: CallTable
    _at: Ints

    def __getitem__(self, key: str) -> int:
        return self.keys[key]

    @property
    def rows(self) -> CallTable:
        """Its rows of the table."""
        return self._table.take(self._at)


class _Rows(dict[str, Ints]):
    """Columns of some rows of a table; each is made when it is first asked for."""

    def __init__(self, whole: Mapping[str, Ints], at: Ints) -> None:
        super().__init__()
        self.whole, self.at = whole, at

    def __missing__(self, name: str) -> Ints:
        found: Ints = self.whole[name].take(self.at)
        self[name] = found
        return found


class _Index:
    """Where the calls of a line or a path are, and which lines are the program's: made once for all tables of a log."""

    def __init__(self, columns: Mapping[str, Ints], words: Mapping[str, pa.Array], code: OwnCode) -> None:
        self._columns, self._words, self._code = columns, words, code
        self._codes: dict[str, dict[str, list[int]]] = {}
        self._places: dict[str, Places] = {}

    def codes(self, key: str, text: str) -> list[int]:
        """The codes that stand for a text and that occur: several in a log that another program wrote."""
        if key not in self._codes:
            codes = self._codes[key] = {}
            found = distinct(self._columns[key])
            found = found[found >= 0]
            for code, word in zip(found.tolist(), texts_at(self._words[key], found), strict=True):
                codes.setdefault(word or "", []).append(code)
        return self._codes[key].get(text, [])

    def places(self, key: str, texts: Collection[str]) -> Ints:
        """Where in the whole table the calls of these texts are, ascending."""
        if key not in self._places:
            self._places[key] = Places(self._columns[key])
        return self._places[key].of([code for text in set(texts) for code in self.codes(key, text)])

    @cached_property
    def own(self) -> NDArray[np.bool_]:
        """By code of a line, whether it is the program's; the last one stands for -1, no line."""
        found = distinct(self._columns["site"])
        found = found[found >= 0]
        own = np.zeros(int(found.max(initial=-1)) + 2, np.bool_)
        own[found] = [self._code.is_own(line or "") for line in texts_at(self._words["site"], found)]
        return own


class CallTable:
    """The result of pyio_trace.analysis.reducers.line_calls, or some of its rows."""

    def __init__(
        self,
        columns: Mapping[str, Ints],
        words: Mapping[str, pa.Array],
        code: OwnCode,
        more: int = 0,
        index: _Index | None = None,
    ) -> None:
        """columns: keys and sums; words: dictionaries of the columns site, path and op; code: tells the lines of the
        log apart; more: sums that were added up without their paths, as there were too many; index: of the whole
        table, None: this is it."""
        self.columns, self.words, self.code, self.more = columns, words, code, more
        self._index = _Index(columns, words, code) if index is None else index

    def __len__(self) -> int:
        return len(self.columns.at if isinstance(self.columns, _Rows) else self.columns["calls"])

    def total(self, value: str) -> int:
        """The sum of calls, time, outer or moved."""
        return int(self.columns[value].sum())

    def distinct(self, key: str) -> int:
        """How many different values a key has, without -1."""
        found = distinct(self.columns[key])
        return int(np.count_nonzero(found >= 0))

    def where(
        self,
        op: Collection[str] | None = None,
        own: bool | None = None,
        imported: bool | None = False,
        **keys: int | Collection[int],
    ) -> CallTable:
        """The rows for which all of this holds.

        op: names; own: the line is the program's, and no library's; imported:
        an import made the call (None: either); keys: values of other keys,
        such as layer=Layer.POSIX.
        """
        chosen = np.ones(len(self), np.bool_)
        if op is not None:
            chosen &= np.isin(self.columns["op"], [code for code, name in enumerate(self._ops) if name in op])
        if own is not None:
            chosen &= self.own == own
        if imported is not None:
            chosen &= self.columns["imported"] == int(imported)
        for name, value in keys.items():
            values = [value] if isinstance(value, (int, np.integer)) else list(value)
            column = self.columns[name]
            if len(values) > _FEW:
                chosen &= np.isin(column, values)
            else:  # several times as fast
                chosen &= np.logical_or.reduce([column == one for one in values]) if values else False
        return self.rows(chosen)

    def rows(self, chosen: NDArray[np.bool_]) -> CallTable:
        """The rows of a mask."""
        return self.take(np.flatnonzero(chosen))

    def take(self, at: Ints) -> CallTable:
        """The rows at these places."""
        columns = self.columns
        if isinstance(columns, _Rows):
            at = columns.at.take(at)
            columns = columns.whole
        return CallTable(_Rows(columns, at), self.words, self.code, self.more, self._index)

    def where_line(self, line: str) -> CallTable:
        """The rows of a line, ``file:line:function``."""
        return self.where_lines([line])

    def where_lines(self, lines: Collection[str]) -> CallTable:
        """The rows of some lines."""
        return self._where_texts("site", lines)

    def where_paths(self, paths: Collection[str]) -> CallTable:
        """The rows of these paths."""
        return self._where_texts("path", paths)

    def _where_texts(self, key: str, texts: Collection[str]) -> CallTable:
        if isinstance(self.columns, _Rows):
            codes = [code for text in set(texts) for code in self._index.codes(key, text)]
            return self.rows(np.isin(self.columns[key], codes)).where()
        return self.take(self._index.places(key, texts)).where()

    def transfers(self, direction: str) -> CallTable:
        """The POSIX and stdio calls that succeeded and "read" or "write"; a copy reads."""
        kinds = (OpClass.READ, OpClass.COPY) if direction == "read" else (OpClass.WRITE,)
        return self.where(layer=(Layer.POSIX, Layer.STDIO), kind=kinds, errno=0)

    def matching(self, pattern: str) -> CallTable:
        """The rows whose path the regular expression matches from its start."""
        found, where = np.unique(self.columns["path"], return_inverse=True)
        matches = re.compile(pattern).match
        chosen = np.array([code >= 0 and matches(self.path(int(code)) or "") is not None for code in found], np.bool_)
        return self.rows(chosen[where.ravel()])

    def by(self, *keys: str) -> list[Group]:
        """The rows added up by some keys, those with the most time first.  For keys with few values: see sums()."""
        if not len(self):
            return []
        order, starts = self._runs(keys)
        ends = [*starts[1:].tolist(), len(order)]
        values = zip(*(self.columns[key][order[starts]].tolist() for key in keys), strict=True)
        sums = [_sums(self.columns[name][order], starts) for name in ("calls", "time", "outer", "moved")]
        first = np.minimum.reduceat(self.columns["first"][order], starts)
        last = np.maximum.reduceat(self.columns["last"][order], starts)
        figures = np.stack([*sums, first, last], axis=1).tolist()
        groups = []
        for value, figure, start, end in zip(values, figures, starts.tolist(), ends, strict=True):
            calls, time, outer, moved, begin, until = figure
            named = dict(zip(keys, value, strict=True))
            groups.append(Group(named, calls, time, outer, moved, begin, until, self, order[start:end]))
        return sorted(groups, key=lambda group: -group.time)

    def sums(self, *keys: str) -> dict[str, Ints]:
        """The same as columns: the keys, then calls, time, outer and moved."""
        order, starts = self._runs(keys)
        found = {key: self.columns[key][order[starts]] for key in keys}
        for name in ("calls", "time", "outer", "moved"):
            found[name] = _sums(self.columns[name][order], starts)
        return found

    def _runs(self, keys: tuple[str, ...]) -> tuple[Ints, Ints]:
        """(an order in which rows with equal keys follow each other, where in it each run of them begins)"""
        columns = [self.columns[key] for key in keys]
        order = np.lexsort(columns[::-1])
        return order, runs.starts(*(column[order] for column in columns))

    # ---- what codes stand for

    def site(self, code: int) -> str | None:
        """The line, ``file:line:function``."""
        return self._word("site", code)

    def path(self, code: int) -> str | None:
        """The path."""
        return self._word("path", code)

    def op(self, code: int) -> str:
        """The operation."""
        return self._word("op", code) or ""

    def paths(self) -> list[str]:
        """The different paths, in order of their first use as a code."""
        found = distinct(self.columns["path"])
        return [path or "" for path in texts_at(self.words["path"], found[found >= 0])]

    def codes(self, key: str) -> list[int]:
        """The different values of a key, without -1."""
        found = distinct(self.columns[key])
        values: list[int] = found[found >= 0].tolist()
        return values

    def lines(self) -> list[str]:
        """The different lines, the one with the most time first."""
        return [line for line in (self.site(group["site"]) for group in self.by("site")) if line is not None]

    def _word(self, name: str, code: int) -> str | None:
        word: str | None = self.words[name][code].as_py() if 0 <= code < len(self.words[name]) else None
        return word

    @cached_property
    def _ops(self) -> list[str]:
        ops: list[str] = self.words["op"].to_pylist()
        return ops

    @cached_property
    def own(self) -> NDArray[np.bool_]:
        """Which rows have a line of the program itself."""
        own: NDArray[np.bool_] = self._index.own[self.columns["site"]]
        return own


def _sums(values: Ints, starts: Ints) -> Ints:
    """The sum of each run of values; starts: where the runs begin."""
    return np.add.reduceat(values, starts) if len(starts) else values
