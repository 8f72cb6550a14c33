"""Traces of torch.profiler (Chrome's JSON format), read event by event, in bounded memory.  They are untrusted."""

from __future__ import annotations

import gzip
import io
import json
import re
import zlib
from collections import Counter
from collections.abc import Iterator
from dataclasses import field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pyio_trace.errors import ConfigError, printable
from pyio_trace.light_dataclass import dataclass
from pyio_trace.timeline.slices import Slices, Texts
from pyio_trace.timeline.tracks import Tracks

Ints = NDArray[np.int64]
#: Characters that are read at a time; of one event, or another value; of a name; of the arguments of an event.
_AT_ONCE, _LONGEST, _LONGEST_NAME, _LONGEST_ARGUMENTS = 1 << 20, 1 << 24, 512, 4096
_LATEST = 1 << 61  # ns
_NOTHING = "{}"
_BLANK = re.compile(r"[ \t\r\n]*")
_SLICE, _INSTANTS, _METADATA, _FLOW_FROM, _FLOW_TO = "X", ("i", "I"), "M", "s", "f"
_NAMES = ("process_name", "thread_name")

#: (pid, tid) as a trace writes them: kineto has words for some.
_Thread = tuple[str, str]


@dataclass
class Trace:
    """Events of a trace: thread, begin (ns since the epoch), length (ns), name, category, arguments (JSON) of each.

    called: names of processes (pid, "") and threads.  sources, targets: (thread, begin) of the ends of flows, by id.
    left_out, left_out_ns: the shortest events; others: events of kinds that are not drawn, by their letter.
    """

    threads: list[_Thread] = field(default_factory=list)
    begins: list[int] = field(default_factory=list)
    lengths: list[int] = field(default_factory=list)
    names: list[str] = field(default_factory=list)
    categories: list[str] = field(default_factory=list)
    arguments: list[str] = field(default_factory=list)
    called: dict[_Thread, str] = field(default_factory=dict)
    sources: dict[tuple[str, str], tuple[_Thread, int]] = field(default_factory=dict)
    targets: dict[tuple[str, str], tuple[_Thread, int]] = field(default_factory=dict)
    left_out: int = 0
    left_out_ns: int = 0
    others: Counter[str] = field(default_factory=Counter)

    _LISTS = ("threads", "begins", "lengths", "names", "categories", "arguments")

    def __len__(self) -> int:
        return len(self.begins)

    def keep(self, most: int) -> None:
        """Keeps the longest events."""
        if len(self) <= most:
            return
        lengths = np.array(self.lengths, np.int64)
        order = np.argsort(-lengths, kind="stable")
        self.left_out += len(self) - most
        self.left_out_ns += int(lengths[order[most:]].sum())
        kept = np.sort(order[:most]).tolist()
        for name in self._LISTS:
            values = getattr(self, name)
            setattr(self, name, [values[at] for at in kept])

    def slices(self, tracks: Tracks) -> Slices:
        """The events as slices; adds their processes and threads, where the log has the process, to that."""
        known = tracks.by_pid()
        processes: dict[str, int] = {}
        made: dict[_Thread, int] = {}
        for thread in dict.fromkeys(self.threads):
            pid, tid = thread
            own = known.get(int(pid)) if _is_number(pid) else None
            if own is None and pid not in processes:
                name = self.called.get((pid, ""), "process")
                processes[pid] = tracks.add_process(
                    int(pid) if _is_number(pid) else -1, f"{name} {pid} (torch.profiler)"
                )
            process = processes[pid] if own is None else own
            called = self.called.get(thread, f"thread {tid}")
            made[thread] = tracks.add_thread(process, -1, f"{called} (torch.profiler)")
        track = np.array([made[thread] for thread in self.threads], np.int64)
        begin, length = np.array(self.begins, np.int64), np.array(self.lengths, np.int64)
        words, category, arguments = (_texts(one) for one in (self.names, self.categories, self.arguments))
        arguments.code[np.array([one == _NOTHING for one in self.arguments], np.bool_)] = -1
        return Slices(track, begin, length, words, category, arguments=arguments)

    def flows(self) -> tuple[Ints, Ints]:
        """(source, target) events of each flow whose both ends are there."""
        place = {one: at for at, one in enumerate(zip(self.threads, self.begins, strict=True))}
        pairs = [
            (place[source], place[self.targets[key]])
            for key, source in self.sources.items()
            if key in self.targets and source in place and self.targets[key] in place
        ]
        both = np.array(pairs, np.int64).reshape(-1, 2)
        return both[:, 0], both[:, 1]


def read(path: str, most: int) -> Trace:
    """The longest `most` events of a trace, which may be packed (gzip).  Raises ConfigError bad-trace."""
    found = Trace()
    reader = _Reader(path)
    base = 0
    try:
        with open(path, "rb") as raw:
            packed = raw.peek(2).startswith(b"\x1f\x8b")
            whole = gzip.GzipFile(fileobj=raw) if packed else raw
            for key, value in reader.values(io.TextIOWrapper(whole, "utf-8", "replace")):
                if key == "traceEvents":
                    _add(found, value, most)
                    if len(found) > most + (most >> 1) + 1000:
                        found.keep(most)
                elif key == "baseTimeNanoseconds" and isinstance(value, int) and not isinstance(value, bool):
                    base = min(max(value, 0), _LATEST)
    except OSError as error:
        raise ConfigError("bad-trace", f"{path}: cannot be read: {error.strerror or error}") from None
    except (ValueError, RecursionError, EOFError, zlib.error):
        raise reader.bad("it is not JSON") from None
    if not reader.events:
        raise reader.bad("it has no traceEvents")
    found.keep(most)
    found.begins = [begin + base for begin in found.begins]
    for ends in (found.sources, found.targets):
        ends.update({flow: (thread, begin + base) for flow, (thread, begin) in ends.items()})
    return found


class _Reader:
    """Reads the values of a JSON object one by one, those of traceEvents event by event."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._text, self._at = "", 0
        self._ended = False
        self._decoder = json.JSONDecoder()
        self.events = False  # whether there was a list of them

    def bad(self, why: str) -> ConfigError:
        """The error for a file that is no such trace."""
        return ConfigError("bad-trace", f"{self._path} is not a trace of torch.profiler: {why}")

    def values(self, file: io.TextIOBase) -> Iterator[tuple[str, Any]]:
        """(key, value) of the object; of each event, ("traceEvents", event)."""
        self._file = file
        if self._next() != "{":
            raise ValueError
        while self._next(peek=True) != "}":
            key = self._value()
            if not isinstance(key, str) or self._next() != ":":
                raise ValueError
            if key == "traceEvents" and self._next(peek=True) == "[":
                self.events = True
                for event in self._list():
                    yield key, event
            else:
                yield key, self._value()
            if self._next(peek=True) == ",":
                self._next()

    def _list(self) -> Iterator[Any]:
        self._next()
        while self._next(peek=True) != "]":
            yield self._value()
            if self._next(peek=True) == ",":
                self._next()
        self._next()

    def _next(self, peek: bool = False) -> str:
        """The next character that is not blank."""
        while True:
            self._at = _BLANK.match(self._text, self._at).end()  # type: ignore[union-attr]  # matches anything
            if self._at < len(self._text):
                found = self._text[self._at]
                self._at += not peek
                return found
            if not self._fill():
                raise ValueError

    def _value(self) -> Any:
        self._next(peek=True)
        while True:
            try:
                value, end = self._decoder.raw_decode(self._text, self._at)
            except ValueError:  # or it goes on
                if len(self._text) - self._at > _LONGEST or not self._fill():
                    raise
                continue
            if end < len(self._text) or not self._fill():  # a number may go on
                self._at = end
                return value

    def _fill(self) -> bool:
        more = "" if self._ended else self._file.read(_AT_ONCE)
        self._ended = not more
        self._text, self._at = self._text[self._at :] + more, 0
        return bool(more)


def _add(trace: Trace, event: Any, most: int) -> None:
    """Adds one event."""
    if not isinstance(event, dict):
        raise ValueError
    kind = event.get("ph")
    thread = str(event.get("pid", ""))[:_LONGEST_NAME], str(event.get("tid", ""))[:_LONGEST_NAME]
    arguments = event.get("args")
    if kind == _METADATA:
        what = event.get("name")
        name = arguments.get("name") if isinstance(arguments, dict) else None
        if what in _NAMES and isinstance(name, str) and len(trace.called) < most + 1000:
            trace.called[thread if what == _NAMES[1] else (thread[0], "")] = name[:_LONGEST_NAME]
        return
    begin = _ns(event.get("ts"))
    if kind in (_FLOW_FROM, _FLOW_TO) and begin is not None:
        ends = trace.sources if kind == _FLOW_FROM else trace.targets
        if len(ends) < most:
            ends[str(event.get("cat"))[:_LONGEST_NAME], str(event.get("id"))[:_LONGEST_NAME]] = thread, begin
            return
    if (kind != _SLICE and kind not in _INSTANTS) or begin is None:
        trace.others[printable(str(kind))[:8] if len(trace.others) < 16 else "..."] += 1
        return
    trace.threads.append(thread)
    trace.begins.append(begin)
    trace.lengths.append((_ns(event.get("dur")) or 0) if kind == _SLICE else 0)
    trace.names.append(printable(str(event.get("name", ""))[:_LONGEST_NAME]))
    trace.categories.append(printable(str(event.get("cat", ""))[:_LONGEST_NAME]))
    trace.arguments.append(_spelled(arguments))


def _ns(value: Any) -> int | None:
    """Nanoseconds of a time in microseconds; None: it is none that can be."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value <= _LATEST // 1000:
        return None  # or no number at all (NaN)
    return round(value * 1000)


def _spelled(arguments: Any) -> str:
    """The arguments as a JSON object of bounded length."""
    if not isinstance(arguments, dict):
        return _NOTHING
    try:
        text = json.dumps(arguments, allow_nan=False)
    except (ValueError, RecursionError):
        text = ""
    if text and len(text) <= _LONGEST_ARGUMENTS:
        return text
    return json.dumps({"left out": f"{len(arguments)} arguments"})


def _texts(values: list[str]) -> Texts:
    words: dict[str, int] = {}
    codes = np.array([words.setdefault(value, len(words)) for value in values], np.int64)
    return Texts(codes, list(words))


def _is_number(word: str) -> bool:
    return word.isascii() and word.isdecimal() and len(word) < 10
