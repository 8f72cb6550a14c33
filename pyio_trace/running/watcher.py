"""What a run does now: what is in flight, and sums since the last look and since the first, by line, file, process,
thread and layer.

Sums of calls and bytes are those of POSIX and of C streams, as everywhere.  The
time of a call counts while it lasts, not when it ends: a read that hangs takes
its share of each second.  Memory is bounded: from so many keys on, the least are
added up as one.
"""

from __future__ import annotations

import os
import re
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pyio_trace.analysis.calls.name_patterns import patterns
from pyio_trace.enums import LAYERS, Layer, OpClass, Role
from pyio_trace.join.processes.process_table import is_this_boot
from pyio_trace.log.added import ADDED, Begun
from pyio_trace.log.growing import GrowingLog
from pyio_trace.log.sorting import distinct
from pyio_trace.output import packed_name
from pyio_trace.running.activity import INTERVALS, NO_FILE, NO_LINE, OTHERS, TABLES, Activity, Amounts, InFlightRow, Row
from pyio_trace.running.log_names import LogNames
from pyio_trace.values import MODES

#: Rows that are summed at once; keys of a table; calls in flight that are listed.
_BATCH, _MOST_KEYS, _MOST_SHOWN = 1 << 16, 1 << 13, 200
_DIGITS = re.compile(r"\d+")


class _Sums:
    """Amounts by key, of this interval and of all."""

    def __init__(self) -> None:
        self.now: dict[str, Amounts] = {}
        self.total: dict[str, Amounts] = {}
        self.history: dict[str, deque[int]] = {}

    def add(self, key: str, more: Amounts) -> None:
        self.now.setdefault(key, Amounts()).add(more)
        self.total.setdefault(key, Amounts()).add(more)

    def close(self) -> None:
        """Ends the interval: notes its times for the sparklines, and limits the keys."""
        for key in self.now:
            self.history.setdefault(key, deque([0] * INTERVALS, INTERVALS))
        for key, history in list(self.history.items()):
            history.append(self.now[key].time_ns if key in self.now else 0)
            if not any(history):
                del self.history[key]
        if len(self.total) <= _MOST_KEYS:
            return
        order = sorted(self.total, key=lambda key: self.total[key].time_ns)
        others = self.total.setdefault(OTHERS, Amounts())
        for key in order[: len(order) - _MOST_KEYS // 2]:
            if key != OTHERS and key not in self.now:
                others.add(self.total.pop(key))

    def rows(self, groups: dict[str, str] | None = None) -> list[Row]:
        """All keys, or groups of keys, those with the most time now first."""
        if groups is None:
            found = [
                Row(key, _copy(self.now.get(key, Amounts())), _copy(one), list(self.history.get(key, ())))
                for key, one in self.total.items()
            ]
        else:
            found = self._grouped(groups)
        return sorted(found, key=lambda row: (-row.now.time_ns, -row.now.calls, -row.total.time_ns, row.key))

    def _grouped(self, groups: dict[str, str]) -> list[Row]:
        rows: dict[str, Row] = {}
        for key, one in self.total.items():
            name = groups.get(key, key)
            row = rows.setdefault(name, Row(name, Amounts(), Amounts(), [0] * INTERVALS))
            row.total.add(one)
            if key in self.now:
                row.now.add(self.now[key])
            for at, value in enumerate(self.history.get(key, ())):
                row.history[at] += value
        return list(rows.values())


class Watcher:
    """Looks at a live log again and again.  Raises LogError, also later, if the log cannot be read."""

    def __init__(self, path: str | os.PathLike[str], opened: int | None = None, *, whole: bool) -> None:
        """whole: totals are since the run began, which takes a pass over the log; else since the first look."""
        self._log = GrowingLog(path, opened, from_now=not whole)
        self._names = LogNames(self._log)
        self._tables = {name: _Sums() for name in TABLES}
        self._total = Amounts()
        self._counted: dict[int, int] = {}
        self._before, self._whole = 0, whole
        self._used = -1
        self._groups: tuple[int, dict[str, str]] = (0, {})
        words = self._names.words
        self._klass, self._layer, self._role = words.klass, words.layer, words.role

    def look(self) -> Activity:
        """What was done since the last look, and what is in flight now."""
        log = self._log
        for sums in self._tables.values():
            sums.now = {}
        before = _copy(self._total)
        batch: list[NDArray[np.void]] = []
        waiting = 0
        first = True
        for part in log.look():
            if first:
                self._names.refresh()
                first = False
            batch.append(part)
            waiting += len(part)
            if waiting >= _BATCH:
                self._take(np.concatenate(batch))
                batch, waiting = [], 0
        self._names.refresh()
        if batch:
            self._take(np.concatenate(batch))
        now = log.now()
        began = log.in_flight()
        self._count_time_in_flight(began, now)
        for sums in self._tables.values():
            sums.close()
        start = int(log.header["first"]["real"])
        since, self._before = self._before or start, now
        state, end = self._state(now)
        found = self._in_flight(began, now) if state != "ended" else []
        top = self._names.rows[0] if self._names.rows else {}
        mode = int(log.header["mode"])
        path = str(log.path)
        rows = {name: sums.rows() for name, sums in self._tables.items() if name != "files"}
        return Activity(
            path, f"{int(log.header['run_id']):016x}", MODES[mode] if mode < len(MODES) else "unknown",
            str(top.get("process_name") or "program"), int(top.get("pid", 0)), state,
            str(top.get("ended", "")) if state == "ended" else "", _summary_of(path), max(end - start, 0),
            max(now - since, 1), _difference(self._total, before), _copy(self._total), found[:_MOST_SHOWN], len(found),
            files=self._tables["files"].rows(self._grouped()), **rows, left_out=self._left_out(),
            counted_only=int(log.header["lost"]), missed_chunks=log.missed_chunks, unwatched=log.unwatched,
        )  # fmt: skip

    # ---- sums

    def _take(self, added: NDArray[np.void]) -> None:
        """Adds operations to the sums."""
        time_ns = self._log.clock.span(np.clip(added["ticks"], 0, 1 << 60))
        if self._counted:
            for row in np.flatnonzero(np.isin(added["id"], list(self._counted))).tolist():
                time_ns[row] -= min(self._counted.pop(int(added["id"][row])), int(time_ns[row]))
        op = added["op"]
        klass, layer = self._klass.take(op), self._layer.take(op)
        shown = (klass != OpClass.PROCESS) & (self._role.take(op) != Role.CONTAINER)
        reads, writes = np.isin(klass, (OpClass.READ, OpClass.COPY)), np.isin(klass, (OpClass.WRITE, OpClass.COPY))
        amounts = (added["calls"], np.where(reads, added["moved"], 0), np.where(writes, added["moved"], 0), time_ns)
        self._add("layers", layer[shown].astype(np.int64), [each[shown] for each in amounts], self._layer_names)
        calls = shown & np.isin(layer, (Layer.POSIX, Layer.STDIO))
        rows, amounts_of = added[calls], [each[calls] for each in amounts]
        self._total.add(Amounts(*(int(each.sum()) for each in amounts_of)))
        process = rows["process"] << 32
        self._add("lines", process | rows["stack"], amounts_of, self._line_names)
        self._add("files", rows["desc"].astype(np.int64), amounts_of, self._file_names)
        self._add("processes", process, amounts_of, self._process_names)
        self._add("threads", process | (rows["tid"].astype(np.int64) & 0xFFFFFFFF), amounts_of, self._thread_names)

    def _add(
        self, table: str, keys: NDArray[np.int64], amounts: Sequence[NDArray[np.int64]],
        names: Callable[[list[int]], Iterable[str]],
    ) -> None:  # fmt: skip
        """Adds rows to a table: each distinct key is named once."""
        found = distinct(keys)
        at = np.searchsorted(found, keys)
        sums = [np.bincount(at, each, len(found)).astype(np.int64).tolist() for each in amounts]
        for name, *values in zip(names(found.tolist()), *sums, strict=True):
            self._tables[table].add(name, Amounts(*values))

    def _layer_names(self, keys: list[int]) -> Iterable[str]:
        return (LAYERS[key] for key in keys)

    def _line_names(self, keys: list[int]) -> Iterable[str]:
        lines = self._names.lines((key & 0xFFFFFFFF, (key >> 32) & 0xFFFFFFFF) for key in keys)
        return (line.site or NO_LINE for line in lines)

    def _file_names(self, keys: list[int]) -> Iterable[str]:
        return (self._file_key(self._names.object(key)[0]) for key in keys)

    def _process_names(self, keys: list[int]) -> Iterable[str]:
        return (self._names.process((key >> 32) & 0xFFFFFFFF) for key in keys)

    def _thread_names(self, keys: list[int]) -> Iterable[str]:
        tids = ((key & 0xFFFFFFFF) - (1 << 32 if key >> 31 & 1 else 0) for key in keys)
        return (
            f"{self._names.process((key >> 32) & 0xFFFFFFFF)} thread {tid}" for key, tid in zip(keys, tids, strict=True)
        )

    def _add_call(self, row: np.void, site: str, amounts: Amounts) -> None:
        self._total.add(amounts)
        self._tables["lines"].add(site or NO_LINE, amounts)
        self._tables["files"].add(self._file_key(self._names.path(row)), amounts)
        process = self._names.process(int(row["process"]))
        self._tables["processes"].add(process, amounts)
        self._tables["threads"].add(f"{process} thread {int(row['tid'])}", amounts)

    def _file_key(self, path: str) -> str:
        files = self._tables["files"].total
        return (path if path in files or len(files) < _MOST_KEYS // 2 else _DIGITS.sub("*", path)) or NO_FILE

    def _grouped(self) -> dict[str, str]:
        """Path -> its pattern."""
        files = self._tables["files"].total
        if self._groups[0] != len(files):
            self._groups = len(files), patterns(path for path in files if path.startswith("/"))
        return self._groups[1]

    def _count_time_in_flight(self, began: list[Begun], now: int) -> None:
        """Adds to the sums the time that calls in flight have taken since the last look."""
        known = {one.id for one in began}
        for identity in [one for one in self._counted if one not in known]:
            del self._counted[identity]
        shown = [one for one in began if one.since_is_known and self._is_call(one)]
        lines = self._names.lines((int(one.record["stack"]), one.process) for one in shown)
        for one, line in zip(shown, lines, strict=True):
            taken = max(now - self._begin(one), 0)
            if self._before:
                taken = min(taken, max(now - self._before, 0) + self._counted.get(one.id, 0))
            elif not self._whole:
                taken = 0
            more = Amounts(0, 0, 0, max(taken - self._counted.get(one.id, 0), 0))
            self._counted[one.id] = max(now - self._begin(one), 0)
            row = np.zeros(1, ADDED)
            row["process"], row["tid"], row["desc"] = one.process, one.tid & 0x7FFFFFFF, one.record["desc"]
            self._add_call(row[0], line.site, more)
            self._tables["layers"].add(LAYERS[int(self._layer[int(one.record["op"])])], more)

    def _is_call(self, one: Begun) -> bool:
        op = int(one.record["op"])
        return int(self._layer[op]) in (Layer.POSIX, Layer.STDIO) and int(self._klass[op]) != OpClass.PROCESS

    def _begin(self, one: Begun) -> int:
        return self._log.clock.epoch_of(min(int(one.record["begin"]), 1 << 62))

    # ---- in flight

    def _in_flight(self, began: list[Begun], now: int) -> list[InFlightRow]:
        """The innermost call of each thread, the oldest first."""
        threads: dict[tuple[int, int], list[Begun]] = {}
        for one in began:
            if self._role[int(one.record["op"])] != Role.CONTAINER:
                threads.setdefault((one.process, one.tid), []).append(one)
        found = []
        for each in threads.values():
            each.sort(key=lambda one: int(one.record["begin"]))
            found.append((each[-1], each[0]))
        lines = self._names.lines((int(one.record["stack"]), one.process) for one, _ in found)
        rows = [self._row(one, outer, line.site, now) for (one, outer), line in zip(found, lines, strict=True)]
        return sorted(rows, key=lambda row: -row.age_ns)

    def _row(self, one: Begun, outer: Begun, site: str, now: int) -> InFlightRow:
        path, kind = self._names.object(int(one.record["desc"]))
        row: dict[str, Any] = self._names.by_id.get(one.process, {})
        operation = "" if outer is one or self._is_call(outer) else self._names.op(outer.record)
        return InFlightRow(
            self._names.op(one.record), path, kind, site, self._names.process(one.process), int(row.get("pid", 0)),
            one.tid, max(now - self._begin(one), 0), one.since_is_known, operation,
        )  # fmt: skip

    # ---- the run

    def _state(self, now: int) -> tuple[str, int]:
        """(state, when it ended, or now)."""
        used, self._used = self._used, self._log.used
        if not is_this_boot(self._log.header):
            grows = used >= 0 and used != self._used
            ends = [row["end"] for row in self._names.rows]
            if ends and all(end is not None for end in ends):
                return "ended", max(ends)
            return ("running" if grows else "unknown"), now
        if self._names.running() or int(self._log.header["forks_pending"]):
            return "running", now
        ends = [row["end"] for row in self._names.rows if row["end"] is not None]
        return "ended", max(ends, default=now)

    def _left_out(self) -> int:
        entries = self._log.processes()
        return int(self._log.header["excluded_ops"].sum()) + int(entries["excluded_ops"].sum())


def _copy(one: Amounts) -> Amounts:
    return Amounts(**vars(one))


def _difference(now: Amounts, before: Amounts) -> Amounts:
    return Amounts(**{name: value - getattr(before, name) for name, value in vars(now).items()})


def _summary_of(path: str) -> str:
    """The log to read when the run is over: the packed one, once it is there."""
    packed = packed_name(path)
    return packed if packed is not None and os.path.exists(packed) else path
