"""Perfetto's TrackEvent trace (protobuf), for ui.perfetto.dev.

The numbers are those of fields in protos/perfetto/trace of Perfetto; what they name
stands beside them.  Texts that repeat are interned: written once, and named by number.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from pyio_trace import protobuf
from pyio_trace.light_dataclass import dataclass
from pyio_trace.protobuf import Piece, chunk, number, text
from pyio_trace.timeline.nesting import nested

if TYPE_CHECKING:
    from pyio_trace.export import Options
    from pyio_trace.join.sources.facade import Log
    from pyio_trace.timeline.counters import Counter
    from pyio_trace.timeline.limited import Limited
    from pyio_trace.timeline.picture import Timeline
    from pyio_trace.timeline.slices import Slices, Texts

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

MERGES = True
LIMITED = True
#: Bytes of a slice, about; begins and ends that are written at a time.
_ROW, _AT_ONCE = 72, 1 << 15
#: Flows of one slice that are encoded together with other slices.
_FEW_FLOWS = 4

_PACKET = 1  # of Trace
_CLOCKS, _TIME, _SEQUENCE, _EVENT, _INTERNED, _FLAGS, _TRACK = 6, 8, 10, 11, 12, 13, 60  # of TracePacket
_CLEARED, _NEEDS_STATE = 1, 2  # flags
_CLOCK, _CLOCK_ID, _CLOCK_TIME, _REALTIME, _BOOTTIME = 1, 1, 2, 1, 6  # ClockSnapshot, its Clock, its clocks
_UUID, _NAME, _PROCESS, _THREAD, _PARENT, _COUNTER = 1, 2, 3, 4, 5, 8  # of TrackDescriptor
_PID, _PROCESS_NAME, _TID, _THREAD_NAME, _UNIT_NAME = 1, 6, 2, 5, 6  # of Process-, Thread- and CounterDescriptor
_CATEGORY, _ANNOTATION, _TYPE, _EVENT_NAME, _EVENT_TRACK = 3, 4, 9, 10, 11  # of TrackEvent
_DOUBLE_VALUE, _FLOW, _ENDING_FLOW = 44, 47, 48
_BEGIN, _END, _VALUE = 1, 2, 4  # types
_ANNOTATION_NAME, _ANNOTATION_INT, _ANNOTATION_TEXT = 1, 4, 17  # of DebugAnnotation
_CATEGORIES, _NAMES, _ANNOTATION_NAMES, _ANNOTATION_TEXTS = 1, 2, 3, 29  # of InternedData
_IID, _IID_TEXT = 1, 2  # of what is interned


def write(log: Log, path: str, options: Options, progress: Callable[[int], None] | None) -> list[str]:
    """Writes the log as track events; see pyio_trace.export.Format."""
    from pyio_trace.timeline.picture import Drawing

    drawing = Drawing(log, options.max_size, _ROW, options.imports, progress, options.merged)
    written = drawing.write(path, _write)
    return drawing.said(path, written, "at ui.perfetto.dev")


def _write(file: Limited, shown: Timeline) -> None:
    file.write(_packet(number(_FLAGS, _CLEARED) + chunk(_INTERNED, b"".join(_interned(shown.slices)))))
    clocks = [
        chunk(_CLOCK, number(_CLOCK_ID, one) + number(_CLOCK_TIME, moment))
        for one, moment in ((_BOOTTIME, 0), (_REALTIME, shown.base))
    ]
    file.write(_packet(chunk(_CLOCKS, b"".join(clocks))))
    for descriptor in _descriptors(shown):
        file.write(_packet(chunk(_TRACK, descriptor)))
    for part in _slices(shown):
        file.write(part)
    for place, counter in enumerate(shown.counters):
        for part in _counter(counter, _counter_uuid(shown, place), shown.base):
            file.write(part)


def _packet(fields: bytes) -> bytes:
    return chunk(_PACKET, number(_SEQUENCE, 1) + fields)


# ---- tracks: processes have the first numbers, then threads and lanes, then counters


def _uuid(shown: Timeline, track: int) -> int:
    return len(shown.tracks.processes) + track + 1


def _counter_uuid(shown: Timeline, place: int) -> int:
    return _uuid(shown, len(shown.tracks.tracks) + place)


def _descriptors(shown: Timeline) -> Iterator[bytes]:
    processes = shown.tracks.processes
    for index, process in shown.tracks.described():
        described = number(_PID, process.pid) + text(_PROCESS_NAME, process.name)
        yield number(_UUID, index + 1) + chunk(_PROCESS, described)
    for place, track in enumerate(shown.tracks.tracks):
        found = number(_UUID, _uuid(shown, place)) + number(_PARENT, track.process + 1)
        if track.thread == place:
            pid = number(_PID, processes[track.process].pid)
            yield found + chunk(_THREAD, pid + number(_TID, track.tid) + text(_THREAD_NAME, track.name))
        else:
            yield found + text(_NAME, track.name)
    for place, counter in enumerate(shown.counters):
        found = number(_UUID, _counter_uuid(shown, place)) + number(_PARENT, counter.process + 1)
        yield found + text(_NAME, counter.name) + chunk(_COUNTER, text(_UNIT_NAME, counter.unit))


# ---- texts


def _interned(slices: Slices) -> Iterator[bytes]:
    """The texts, numbered from 1 on: categories, names, names of annotations, and all texts of annotations together."""
    annotations = _annotations(slices)
    yield from _numbered(_CATEGORIES, slices.category.words)
    yield from _numbered(_NAMES, slices.name.words)
    yield from _numbered(_ANNOTATION_NAMES, [*slices.numbers, *(name for name, _, _ in annotations)])
    for _, texts, first in annotations:
        yield from _numbered(_ANNOTATION_TEXTS, texts.words, first)


def _numbered(field: int, words: list[str], first: int = 1) -> Iterator[bytes]:
    for place, word in enumerate(words, first):
        yield chunk(field, number(_IID, place) + text(_IID_TEXT, word))


def _annotations(slices: Slices) -> list[tuple[str, Texts, int]]:
    """(name, texts, number of the first of these texts) of what is known of slices as text."""
    found, first = [], 1
    assert slices.arguments is not None
    for name, texts in (*slices.texts.items(), ("args", slices.arguments)):
        found.append((name, texts, first))
        first += len(texts.words)
    return found


# ---- events


@dataclass
class _Flows:
    """Flows at the begins, or at the ends, of slices, in a field.  Those of a slice: the numbers from first[slice] to
    first[slice + 1] in ids."""

    field: int
    at_begins: bool
    ids: NDArray[np.uint64]
    first: Ints

    @classmethod
    def of(cls, field: int, at_begins: bool, slice_of: Ints, chosen: Bools, slices: int) -> _Flows:
        """slice_of: of each flow, flows being numbered from 1 on; chosen: which flows."""
        flows = np.flatnonzero(chosen)
        flows = flows[np.argsort(slice_of[flows], kind="stable")]
        counts = np.bincount(slice_of[flows], minlength=slices)
        return cls(field, at_begins, (flows + 1).astype(np.uint64), np.concatenate([[0], np.cumsum(counts)]))

    def counts(self, at: Ints, begins: Bools) -> Ints:
        """How many flows events have: slices, and whether they begin or end."""
        found: Ints = (self.first[at + 1] - self.first[at]) * (begins == self.at_begins)
        return found

    def piece(self, at: Ints, begins: Bools) -> Piece | None:
        """The field of these events; None: there is none."""
        counts = self.counts(at, begins)
        most = int(counts.max(initial=0))
        if not most:
            return None
        place = np.arange(most)
        present = place < counts[:, None]
        ids = self.ids[np.where(present, self.first[at][:, None] + place, 0)]
        return protobuf.fixed64s(self.field, ids, present)


def _slices(shown: Timeline) -> Iterator[bytes]:
    slices = shown.slices
    at, kinds = nested(slices.track, slices.begin, slices.begin + slices.length).events()
    begins = kinds > 0
    # a flow ends later than it begins: at the end of what waited before that was begun for which it waited
    late = slices.begin[shown.target] < slices.begin[shown.source]
    flows = [
        _Flows.of(_FLOW, True, shown.source, late | ~late, len(slices)),
        _Flows.of(_ENDING_FLOW, True, shown.target, ~late, len(slices)),
        _Flows.of(_ENDING_FLOW, False, shown.target, late, len(slices)),
    ]
    busy = np.flatnonzero(sum((one.counts(at, begins) for one in flows), np.zeros(len(at), np.int64)) > _FEW_FLOWS)
    borders = np.unique(np.concatenate([np.arange(0, len(at), _AT_ONCE), busy, busy + 1, [len(at)]]))
    for first, last in zip(borders[:-1].tolist(), borders[1:].tolist(), strict=True):
        yield _events(shown, at[first:last], begins[first:last], flows)


def _events(shown: Timeline, at: Ints, begins: Bools, flows: list[_Flows]) -> bytes:
    """The begins and ends of slices, one packet for each."""
    slices = shown.slices
    moment = slices.begin[at] - shown.base + np.where(begins, 0, slices.length[at])
    event = [
        protobuf.integers(_TYPE, np.where(begins, _BEGIN, _END)),
        protobuf.integers(_EVENT_TRACK, slices.track[at] + _uuid(shown, 0)),
        protobuf.integers(_CATEGORY, slices.category.code[at] + 1, begins & (slices.category.code[at] >= 0)),
        protobuf.integers(_EVENT_NAME, slices.name.code[at] + 1, begins & (slices.name.code[at] >= 0)),
    ]
    for place, one in enumerate(slices.numbers.values(), 1):
        event.append(_annotation(place, _ANNOTATION_INT, one.value[at], begins & one.present[at]))
    for place, (_, texts, first) in enumerate(_annotations(slices), len(slices.numbers) + 1):
        codes = texts.code[at]
        event.append(_annotation(place, _ANNOTATION_TEXT, codes + first, begins & (codes >= 0)))
    event += [piece for flow in flows if (piece := flow.piece(at, begins)) is not None]
    return _packets(moment, event)


def _annotation(place: int, field: int, values: Ints, present: Bools) -> Piece:
    """place: number of its name."""
    values = np.where(present, values, 0)
    name = protobuf.constants(len(values), number(_ANNOTATION_NAME, place))
    return protobuf.messages(_ANNOTATION, [name, protobuf.integers(field, values)], present)


def _packets(moment: Ints, event: list[Piece]) -> bytes:
    head = protobuf.constants(len(moment), number(_SEQUENCE, 1) + number(_FLAGS, _NEEDS_STATE))
    packet = [head, protobuf.integers(_TIME, moment), protobuf.messages(_EVENT, event)]
    return protobuf.written(protobuf.messages(_PACKET, packet))


def _counter(counter: Counter, uuid: int, base: int) -> Iterator[bytes]:
    for first in range(0, len(counter.time), _AT_ONCE):
        moment, value = counter.time[first : first + _AT_ONCE], counter.value[first : first + _AT_ONCE]
        event = [
            protobuf.constants(len(moment), number(_TYPE, _VALUE) + number(_EVENT_TRACK, uuid)),
            protobuf.fixed64s(_DOUBLE_VALUE, value.view(np.uint64)[:, None], np.ones((len(value), 1), np.bool_)),
        ]
        yield _packets(moment - base, event)
