"""A profile for profiler.firefox.com: each operation a FileIO marker with its stack, and samples of I/O by stack.

The format is the processed profile of the Firefox Profiler, version 48, in which
each thread has its own tables; the profiler brings it up to its own version.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from pyio_trace.timeline import json_columns as columns
from pyio_trace.timeline.frames import Frames
from pyio_trace.timeline.slices import Texts

if TYPE_CHECKING:
    from pyio_trace.export import Options
    from pyio_trace.join.sources.facade import Log
    from pyio_trace.timeline.limited import Limited
    from pyio_trace.timeline.picture import Timeline

Ints = NDArray[np.int64]

LIMITED = True
#: Bytes of a marker, about.
_ROW = 245
_VERSION, _GECKO_VERSION = 48, 29
_INTERVAL = 1  # phase of a marker
_CATEGORIES = [
    {"name": "Other", "color": "grey", "subcategories": ["Other"]},
    {"name": "I/O", "color": "orange", "subcategories": ["Other"]},
]
_IO = 1
#: Key of a marker's data -> how the profiler shows it.
_FIELDS = {
    "operation": "string", "source": "string", "filename": "file-path", "line": "file-path", "offset": "integer",
    "bytes": "bytes", "errno": "integer", "calls": "integer", "time_ns": "nanoseconds", "in_flight": "integer",
}  # fmt: skip
_LABEL = "{marker.name} {marker.data.filename}"
_DISPLAY = ["marker-chart", "marker-table", "timeline-overview", "timeline-fileio"]


def write(log: Log, path: str, options: Options, progress: Callable[[int], None] | None) -> list[str]:
    """Writes the log as markers and samples; see pyio_trace.export.Format."""
    from pyio_trace.timeline.picture import Drawing

    drawing = Drawing(log, options.max_size, _ROW, options.imports, progress)

    def attempt(file: Limited, shown: Timeline) -> None:
        file.write(b'{"meta":' + json.dumps(_meta(log, shown)).encode() + b',"libs":[],"pages":[],"threads":[')
        for number, part in enumerate(_threads(log, shown)):
            file.write(b",\n" if number else b"\n")
            for piece in part:
                file.write(piece)
        file.write(b"\n]}\n")

    written = drawing.write(path, attempt)
    return drawing.said(path, written, "at profiler.firefox.com: Load a profile from file")


def _meta(log: Log, shown: Timeline) -> dict[str, Any]:
    schema = {
        "name": "FileIO", "display": _DISPLAY, "tooltipLabel": "{marker.name}", "tableLabel": _LABEL,
        "chartLabel": _LABEL,
        "data": [
            {"key": key, "label": key.replace("_", " "), "format": form, "searchable": True}
            for key, form in _FIELDS.items()
        ],
    }  # fmt: skip
    return {
        "interval": 1, "startTime": shown.base / 1e6, "processType": 0, "product": log.path.name, "stackwalk": 1,
        "version": _GECKO_VERSION, "preprocessedProfileVersion": _VERSION, "importedFrom": "pyio_trace",
        "symbolicated": True, "symbolicationNotSupported": True, "usesOnlyOneStackType": True,
        "sourceCodeIsNotOnSearchfox": True, "categories": _CATEGORIES, "markerSchema": [schema],
        "extensions": {"baseURL": [], "id": [], "name": [], "length": 0},
        "initialVisibleThreads": list(range(min(len(np.unique(_thread_of(shown))), 1000))),
    }  # fmt: skip


def _thread_of(shown: Timeline) -> Ints:
    """The thread of each slice, without lanes."""
    first = np.array([track.thread for track in shown.tracks.tracks], np.int64)
    return first[shown.slices.track] if len(first) else np.zeros(0, np.int64)


def _threads(log: Log, shown: Timeline) -> Iterator[Iterator[bytes]]:
    thread = _thread_of(shown)
    order = np.lexsort((-shown.slices.length, shown.slices.begin, thread))
    borders = np.flatnonzero(np.diff(thread[order], prepend=-1, append=-1)) if len(order) else np.zeros(1, np.int64)
    stacks = log.dictionary("call_stack")
    for first, last in zip(borders[:-1].tolist(), borders[1:].tolist(), strict=True):
        at = order[first:last]
        yield _Thread(shown, int(thread[at[0]]), at, stacks).pieces()


class _Thread:
    """One thread of the profile."""

    def __init__(self, shown: Timeline, track: int, at: Ints, stacks: Any) -> None:
        """at: its slices by time; stacks: what codes of call stacks stand for."""
        self._shown, self._at = shown, at
        self._track = shown.tracks.tracks[track]
        self._frames = Frames()
        self._strings: dict[str, int] = {}
        self._known: dict[tuple[str, str], int] = {}  # functions, by name and file
        codes = np.full(len(at), -1)
        single = at < len(shown.rows["call_stack"])  # the others are sums
        codes[single] = shown.rows["call_stack"][at[single]]
        used, place = np.unique(codes, return_inverse=True)
        found = [-1 if one < 0 else self._frames.stack(self._frames.of(stacks[one].as_py())) for one in used.tolist()]
        #: The stack of each slice, -1 none; and which slices are outermost calls.
        self._stack = np.array(found, np.int64)[place]
        self._outer = single.copy()
        self._outer[single] = shown.rows["outer"][at[single]]

    def pieces(self) -> Iterator[bytes]:
        """The thread as JSON, piece by piece."""
        process = self._shown.tracks.processes[self._track.process]
        head = {
            "processType": "default", "processName": process.name, "processStartupTime": 0,
            "processShutdownTime": None, "registerTime": 0, "unregisterTime": None, "pausedRanges": [],
            "name": self._track.name, "isMainThread": self._track.main, "pid": str(process.pid), "tid": self._track.tid,
        }  # fmt: skip
        yield json.dumps(head).encode()[:-1]
        yield from self._samples()
        yield from self._markers()
        tables = {
            "stackTable": self._stacks(), "frameTable": self._frame_table(), "funcTable": self._functions(),
            "nativeSymbols": _table("libIndex", "address", "name", "functionSize"),
            "resourceTable": _table("lib", "name", "host", "type"), "stringArray": list(self._strings),
        }  # fmt: skip
        yield b"," + json.dumps(tables).encode()[1:]

    def _string(self, text: str) -> int:
        return self._strings.setdefault(text, len(self._strings))

    def _samples(self) -> Iterator[bytes]:
        """The outermost calls, with their time as weight."""
        at = np.flatnonzero(self._outer)
        slices = self._at[at]
        stack = columns.first_of(columns.whole_numbers(self._stack[at], self._stack[at] >= 0), "null")
        yield b',"samples":{"weightType":"tracing-ms","length":%d,"stack":[' % len(at)
        yield columns.listed(stack) + b'],"time":['
        yield self._moments(slices) + b'],"weight":['
        yield columns.listed(columns.rows(columns.milliseconds(self._shown.rows["duration"][slices]))) + b"]}"

    def _moments(self, slices: Ints, ends: bool = False) -> bytes:
        moment = self._shown.slices.begin[slices] - self._shown.base
        if ends:
            moment = moment + self._shown.slices.length[slices]
        return columns.listed(columns.rows(columns.milliseconds(moment)))

    def _markers(self) -> Iterator[bytes]:
        slices, at = self._shown.slices, self._at
        names = np.array([self._string(name) for name in slices.name.words], np.int64)[slices.name.code[at]]
        yield b',"markers":{"length":%d,"name":[' % len(at)
        yield columns.listed(columns.whole_numbers(names)) + b'],"startTime":['
        yield self._moments(at) + b'],"endTime":[' + self._moments(at, ends=True)
        for name, value in (("phase", _INTERVAL), ("category", _IO)):
            yield b'],"%s":[' % name.encode() + b",".join([b"%d" % value] * len(at))
        yield b'],"data":['
        for first, end in slices.portions(at):
            yield (b",\n" if first else b"") + columns.listed(self._data(slice(first, end)))
        yield b"]}"

    def _data(self, part: slice) -> Any:
        slices, at, stacks = self._shown.slices, self._at[part], self._stack[part]
        texts = {"operation": slices.name, "source": slices.category, "filename": slices.texts["path"]}
        texts["line"] = slices.texts["line"]
        parts: list[Any] = ['{"type":"FileIO"']
        parts += [columns.words(Texts(one.code[at], one.words), f',"{name}":') for name, one in texts.items()]
        parts += [
            columns.numbers(one.value[at], f',"{name}":', one.present[at]) for name, one in slices.numbers.items()
        ]
        moment = columns.rows(columns.milliseconds(slices.begin[at] - self._shown.base))
        stack = columns.numbers(stacks, ',"stack":', stacks >= 0)
        # a part that is null leaves out all of the cause
        parts.append(columns.whole([f',"cause":{{"tid":{self._track.tid},"time":', moment, stack, "}"]))
        return columns.rows([*parts, "}"])

    # ---- tables

    def _stacks(self) -> dict[str, Any]:
        stacks = self._frames.stacks
        return {
            "frame": [frame for _, frame in stacks], "prefix": [None if at < 0 else at for at, _ in stacks],
            "category": [_IO] * len(stacks), "subcategory": [0] * len(stacks), "length": len(stacks),
        }  # fmt: skip

    def _frame_table(self) -> dict[str, Any]:
        frames = self._frames.frames
        count = len(frames)
        nothing = dict.fromkeys(("nativeSymbol", "innerWindowID", "implementation", "column"), [None] * count)
        return {
            "address": [-1] * count, "inlineDepth": [0] * count, "category": [_IO] * count,
            "subcategory": [0] * count, "func": [self._function(frame.function, frame.file) for frame in frames],
            **nothing, "line": [frame.line or None for frame in frames], "length": count,
        }  # fmt: skip

    def _function(self, name: str, file: str) -> int:
        return self._known.setdefault((name, file), len(self._known))

    def _functions(self) -> dict[str, Any]:
        known = list(self._known)
        count = len(known)
        return {
            "name": [self._string(name) for name, _ in known], "isJS": [False] * count,
            "relevantForJS": [False] * count, "resource": [-1] * count,
            "fileName": [self._string(file) if file else None for _, file in known],
            "lineNumber": [None] * count, "columnNumber": [None] * count, "length": count,
        }  # fmt: skip


def _table(*names: str) -> dict[str, Any]:
    """An empty table."""
    return {"length": 0, **{name: [] for name in names}}
