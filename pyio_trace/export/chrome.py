"""Chrome's trace events (JSON), for chrome://tracing and ui.perfetto.dev."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import chain
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from pyio_trace.timeline import json_columns as columns
from pyio_trace.timeline.counters import Counter
from pyio_trace.timeline.json_columns import quoted
from pyio_trace.timeline.slices import Texts

if TYPE_CHECKING:
    from pyio_trace.export import Options
    from pyio_trace.join.sources.facade import Log
    from pyio_trace.timeline.limited import Limited
    from pyio_trace.timeline.picture import Timeline
    from pyio_trace.timeline.slices import Slices

MERGES = True
LIMITED = True
#: Bytes of a slice, about; flows that are written at a time.
_ROW, _AT_ONCE = 200, 1 << 16


def write(log: Log, path: str, options: Options, progress: Callable[[int], None] | None) -> list[str]:
    """Writes the log as trace events; see pyio_trace.export.Format."""
    from pyio_trace.timeline.picture import Drawing

    drawing = Drawing(log, options.max_size, _ROW, options.imports, progress, options.merged)
    written = drawing.write(path, _write)
    return drawing.said(path, written, "at ui.perfetto.dev or in chrome://tracing")


def _write(file: Limited, shown: Timeline) -> None:
    file.write(b'{"traceEvents":[\n' + ",\n".join(_names(shown)).encode())
    for part in chain(_slices(shown), _flows(shown), (_counter(one, shown) for one in shown.counters)):
        file.write(b",\n" + part)
    about = f'"displayTimeUnit":"ns","baseTimeNanoseconds":{shown.base}'
    file.write(f"\n],{about}}}\n".encode())


def _names(shown: Timeline) -> Iterator[str]:
    for index, process in shown.tracks.described():
        yield _metadata("process_name", process.pid, 0, "name", process.name)
        yield _metadata("process_sort_index", process.pid, 0, "sort_index", index)
    for number, track in enumerate(shown.tracks.tracks):
        pid = shown.tracks.processes[track.process].pid
        yield _metadata("thread_name", pid, track.tid, "name", track.name)
        place = track.thread * 1000 + min(number - track.thread, 999)  # lanes beneath their thread
        yield _metadata("thread_sort_index", pid, track.tid, "sort_index", place)


def _metadata(what: str, pid: int, tid: int, name: str, value: str | int) -> str:
    spelled = quoted(value) if isinstance(value, str) else str(value)
    return f'{{"ph":"M","name":"{what}","pid":{pid},"tid":{tid},"args":{{"{name}":{spelled}}}}}'


def _slices(shown: Timeline) -> Iterator[bytes]:
    slices = shown.slices
    order = np.lexsort((-slices.length, slices.begin))  # outer ones first
    for first, end in slices.portions(order):
        yield _events(slices, order[first:end], shown)


def _events(slices: Slices, at: NDArray[np.int64], shown: Timeline) -> bytes:
    arguments = [columns.words(_at(one, at), f',"{name}":') for name, one in slices.texts.items()]
    arguments += [
        columns.numbers(one.value[at], f',"{name}":', one.present[at]) for name, one in slices.numbers.items()
    ]
    assert slices.arguments is not None
    others = columns.words(_at(slices.arguments, at), raw=True)
    parts = [
        '{"ph":"X","name":', columns.words(_at(slices.name, at)), ',"cat":', columns.words(_at(slices.category, at)),
        columns.words(_threads(shown, slices.track[at]), raw=True), ',"ts":',
        *columns.microseconds(slices.begin[at] - shown.base), ',"dur":', *columns.microseconds(slices.length[at]),
        ',"args":', columns.first_of(others, columns.objects(arguments)), "}",
    ]  # fmt: skip
    return columns.listed(columns.rows(parts))


def _flows(shown: Timeline) -> Iterator[bytes]:
    slices = shown.slices
    for first in range(0, len(shown.source), _AT_ONCE):
        ids = np.arange(first, min(first + _AT_ONCE, len(shown.source)))
        source, target = shown.source[ids], shown.target[ids]
        begin, end = slices.begin[target], slices.begin[target] + slices.length[target]
        # within the target, and not before it begins in the source
        arrives = np.maximum(begin, np.minimum(slices.begin[source], end - 1))
        for kind, ends, moment in (('"s"', source, slices.begin[source]), ('"f","bp":"e"', target, arrives)):
            parts = [
                f'{{"ph":{kind},"name":"flow","cat":"flow"', columns.numbers(ids + 1, ',"id":'),
                columns.words(_threads(shown, slices.track[ends]), raw=True), ',"ts":',
                *columns.microseconds(moment - shown.base), "}",
            ]  # fmt: skip
            yield columns.listed(columns.rows(parts))


def _counter(counter: Counter, shown: Timeline) -> bytes:
    pid = shown.tracks.processes[counter.process].pid
    head = f'{{"ph":"C","name":"{counter.name}","pid":{pid},"ts":'
    values = Texts(np.arange(len(counter.value)), [f"{value:.10g}" for value in counter.value.tolist()])
    ends = f',"args":{{"{counter.unit}":'
    parts = [head, *columns.microseconds(counter.time - shown.base), ends, columns.words(values, raw=True), "}}"]
    return columns.listed(columns.rows(parts))


def _threads(shown: Timeline, track: NDArray[np.int64]) -> Texts:
    processes = shown.tracks.processes
    known = [f',"pid":{processes[one.process].pid},"tid":{one.tid}' for one in shown.tracks.tracks]
    return Texts(track, known)


def _at(texts: Texts, at: NDArray[np.int64]) -> Texts:
    return Texts(texts.code[at], texts.words)
