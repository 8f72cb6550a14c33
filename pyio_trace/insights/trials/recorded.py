"""The recorded operations of findings, from one scan of the log."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from pyio_trace.analysis.calls.details import parse
from pyio_trace.analysis.scan.columns import Columns
from pyio_trace.analysis.scan.decoding import decoded
from pyio_trace.analysis.view_sums.loader_calls import OPS, hosts
from pyio_trace.globs import stars_only
from pyio_trace.insights.finding import Finding
from pyio_trace.log.sorting import distinct

if TYPE_CHECKING:
    import pyarrow as pa

    from pyio_trace.join.sources.facade import Log

Ints = NDArray[np.int64]
#: Operations that are read for a finding; of more, the first.
MOST_ROWS = 200_000
_TEXTS = ("layer", "op", "op_class", "path", "site", "detail")
#: Column -> what stands for null.
_NUMBERS = {
    "id": -1, "time": 0, "duration": 0, "process": -1, "tid": -1, "file_offset": -1, "bytes_requested": -1,
    "bytes_moved": -1, "errno": 0, "request_id": -1, "task_id": -1,
}  # fmt: skip
#: What they count as, 0 or 1: see scan.columns.Columns.
_TRUTHS = ("outer", "leaf")
COLUMNS = (*_TEXTS, *_NUMBERS, *_TRUTHS)
_READ = (*_TEXTS, *_NUMBERS, "outer", "op_role")


@dataclass(frozen=True)
class Rows:
    """Operations in the order of their times.  columns: by name; texts are indexes of dictionaries, -1 for null.

    whole: how many operations the log has for each (process, thread); only the first MOST_ROWS are here.
    """

    columns: Mapping[str, Ints]
    dictionaries: Mapping[str, pa.Array]
    whole: Mapping[tuple[int, int], int]

    def __len__(self) -> int:
        return len(self.columns["time"])

    def where(self, **words: str | Collection[str]) -> Rows:
        """Those whose column has one of these texts, of operations that worked: where(op_class="read")."""
        mask = self.columns["errno"] == 0
        for name, wanted in words.items():
            texts = (wanted,) if isinstance(wanted, str) else wanted
            found = [code for code in distinct(self.columns[name]).tolist() if self.text(name, code) in texts]
            mask = mask & np.isin(self.columns[name], found)
        return self.at(np.flatnonzero(mask))

    def at(self, where: Ints) -> Rows:
        """Those at these places."""
        return replace(self, columns={name: values[where] for name, values in self.columns.items()})

    def heaviest(self) -> Rows:
        """Those of the thread that spent the most time in them.  Other threads worked at the same time."""
        if not len(self):
            return self
        threads = np.stack([self.columns["process"], self.columns["tid"]])
        different, where = np.unique(threads, axis=1, return_inverse=True)
        times = np.bincount(where.ravel(), weights=self.columns["duration"].astype(np.float64))
        most = int(times.argmax()) if times.any() else int(np.bincount(where.ravel()).argmax())
        process, tid = (int(value) for value in different[:, most])
        chosen = self.at(np.flatnonzero(where.ravel() == most))
        return replace(chosen, whole={(process, tid): self.whole.get((process, tid), len(chosen))})

    def recorded(self, every: Rows) -> int:
        """How many such operations the log has.

        Only the first MOST_ROWS of a finding are here, so their number is scaled up to all rows of these threads.
        every: all rows of the finding, from which these were chosen.
        """
        here = whole = 0
        for (process, tid), count in self.whole.items():
            own = (every.columns["process"] == process) & (every.columns["tid"] == tid)
            here, whole = here + int(own.sum()), whole + count
        return len(self) if not here else max(round(len(self) * whole / here), len(self))

    def outermost(self) -> Rows:
        """Outermost requests, and calls that are in none of these.  Their times can be added up."""
        outer = self.columns["outer"] != 0
        alone = (self.columns["leaf"] != 0) & ~np.isin(self.columns["request_id"], self.columns["id"][outer])
        return self.at(np.flatnonzero(outer | alone))

    @property
    def process(self) -> int:
        """The process of the first row; -1: there is none."""
        return int(self.columns["process"][0]) if len(self) else -1

    def text(self, name: str, code: int) -> str:
        """What a code of a column stands for; "" for null."""
        return str(self.dictionaries[name][code].as_py()) if 0 <= code < len(self.dictionaries[name]) else ""

    def texts(self, name: str) -> list[str]:
        """A column of texts."""
        known = {code: self.text(name, code) for code in distinct(self.columns[name]).tolist()}
        return [known[code] for code in self.columns[name].tolist()]

    @cached_property
    def sizes(self) -> list[int]:
        """Bytes that each moved, or was to move; 0 if neither is known."""
        moved, asked = self.columns["bytes_moved"], self.columns["bytes_requested"]
        return [int(value) for value in np.maximum(np.where(moved >= 0, moved, asked), 0).tolist()]

    @cached_property
    def details(self) -> list[dict[str, Any]]:
        """The details of each, {} where there are none."""
        found = self.columns["detail"].tolist()
        known = {code: parse(self.text("detail", code)) for code in set(found)}
        return [known[code] for code in found]


class _Wanted:
    """Collects the rows of one finding."""

    def __init__(self, finding: Finding, rows: str, log: Log) -> None:
        """rows: as in rule.Trial."""
        self._in_tasks = rows == "loader"
        if self._in_tasks:
            self._column = "op"
            texts: Sequence[str | None] = log.dictionary("op").to_pylist()
            chosen = [text in OPS for text in texts]
            table = log.processes().to_pylist()
            own = set(map(hosts(table), finding.processes))
            #: By process, whether it is on a host of the finding: others may name their loaders alike.  The last
            #: element is for processes that are not known.
            self._near = np.array([*(process["host"] in own for process in table), True], np.bool_)
        elif rows == "line":
            self._column = "site"
            wanted: Collection[str] = {f"{one.file}:{one.line}:{one.function}" for one in finding.sites}
            texts = log.dictionary("site").to_pylist()
            chosen = [text in wanted for text in texts]
        else:
            self._column = "path"
            texts = log.dictionary("path").to_pylist()
            chosen = _matching(texts, finding.files)
        self._chosen = np.array([*chosen, False], np.bool_)  # the last is for null, whose code is -1
        self._parts: list[dict[str, Ints]] = []
        self._count = 0
        self._whole: Counter[tuple[int, int]] = Counter()

    def add(self, columns: Columns) -> None:
        mask = self._chosen[columns.codes(self._column)]
        if self._in_tasks:
            process, unknown = columns.numbers("process", -1), len(self._near) - 1
            near = self._near[np.where((process >= 0) & (process < unknown), process, unknown)]
            mask = (mask | (columns.numbers("task_id", -1) >= 0)) & near
        found = np.flatnonzero(mask)
        if not len(found):
            return
        processes, tids = (columns.numbers(name, -1)[found] for name in ("process", "tid"))
        threads, counts = np.unique(np.stack([processes, tids]), axis=1, return_counts=True)
        for process, tid, count in zip(*threads.tolist(), counts.tolist(), strict=True):
            self._whole[process, tid] += count
        found = found[: max(MOST_ROWS - self._count, 0)]
        self._count += len(found)
        if len(found):
            part = {name: columns.codes(name)[found] for name in _TEXTS}
            part |= {name: columns.numbers(name, null)[found] for name, null in _NUMBERS.items()}
            part |= {name: getattr(columns, name)[found].astype(np.int64) for name in _TRUTHS}
            self._parts.append(part)

    def rows(self, log: Log) -> Rows:
        whole = {
            name: np.concatenate([np.zeros(0, np.int64), *(part[name] for part in self._parts)]) for name in COLUMNS
        }
        order = np.lexsort((whole["id"], whole["time"]))
        dictionaries = {name: log.dictionary(name) for name in _TEXTS}
        return Rows({name: values[order] for name, values in whole.items()}, dictionaries, self._whole)


def _matching(paths: Sequence[str | None], patterns: Sequence[str]) -> list[bool]:
    """Which paths are among those that a finding names; * stands for a part of a file's name."""
    exact = set(patterns)
    any_of = re.compile("|".join(map(stars_only, patterns)) or "(?!)", re.DOTALL)
    return [path is not None and (path in exact or any_of.fullmatch(path) is not None) for path in paths]


def rows_of(log: Log, findings: Sequence[tuple[Finding, str]]) -> list[Rows]:
    """The operations of each finding, with which rows it needs (rule.Trial.rows).

    Raises what reading the log raises.
    """
    wanted = [_Wanted(finding, rows, log) for finding, rows in findings]
    for batch in decoded(log, _READ) if wanted else ():
        columns = Columns(batch)
        for one in wanted:
            one.add(columns)
    return [one.rows(log) for one in wanted]
