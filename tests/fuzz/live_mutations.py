"""What can be wrong with a live log, piece by piece, in terms of its own structures.

A mutation is four numbers, so that hypothesis can make it smaller: which kind,
where, which part, which value.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from pyio_trace.log import layout

Mutation = tuple[int, int, int, int]
PAGE = layout.PAGE
_HEAP = {
    layout.HEAP_STRING: layout.STRING, layout.HEAP_STACK: layout.STACK, layout.HEAP_CODE: layout.CODE,
    layout.HEAP_DESC: layout.DESC,
}  # fmt: skip
#: Edges of every width; more come from the log itself.
_EDGES = [0, 1, 2, 3, 4, 5, 7, 8, 16, 47, 48, 80, 96, 127, 128, 255, 256, 4095, 4096, 4097, 65535, 65536]
_EDGES += [(1 << bits) + more for bits in (20, 31, 32, 36, 40, 47, 53, 62, 63, 64) for more in (-1, 0, 1)]


@dataclass(frozen=True)
class Place:
    """A structure in a log."""

    at: int
    dtype: np.dtype[np.void]


def places(data: bytes) -> list[list[Place]]:
    """Every structure of a sound log, by sort: header, operation rows, chunks, processes, records, heap objects."""
    header = np.frombuffer(data, layout.HEADER, 1)[0]
    rows = [Place(layout.OPTABLE_OFFSET + number * 32, layout.OP_ROW) for number in range(layout.MAX_OPS)]
    sorts: dict[str, list[Place]] = {"header": [Place(0, layout.HEADER)], "rows": rows}
    at = int(header["first_chunk"])
    while at + layout.CHUNK.itemsize <= len(data):
        chunk = np.frombuffer(data, layout.CHUNK, 1, at)[0]
        if int(chunk["magic"]) != layout.CHUNK_MAGIC:
            at += PAGE
            continue
        sorts.setdefault("chunks", []).append(Place(at, layout.CHUNK))
        end = at + int(chunk["size"])
        for sort, place in _within(data, at, end, int(chunk["kind"])):
            sorts.setdefault(sort, []).append(place)
        at = end
    return list(sorts.values())


def _within(data: bytes, at: int, end: int, kind: int) -> Iterator[tuple[str, Place]]:
    if kind == layout.CHUNK_PROCESS:
        yield "processes", Place(at, layout.PROCESS_ENTRY)
        for number in range(0, layout.MAX_OPS, 16):
            yield "counters", Place(at + layout.COUNTERS_OFFSET + 32 * number, layout.COUNTER)
    elif kind == layout.CHUNK_OPS:
        for record in range(at + layout.OPS_START, end - 47, 48):
            if data[record + 1]:
                yield "records", Place(record, layout.RECORD)
    elif kind in (layout.CHUNK_SUMS, layout.CHUNK_SUMS_DATA):
        step = layout.PROFILE_SIZE if kind == layout.CHUNK_SUMS else layout.PROFILE_DATA_SIZE
        for entry in range(at + layout.HEAP_START, end - step + 1, step):
            if data[entry]:
                yield "sums", Place(entry, layout.PROFILE)
                if kind == layout.CHUNK_SUMS_DATA:
                    yield "transfers", Place(entry + layout.PROFILE_SIZE, layout.PROFILE_DATA)
    elif kind == layout.CHUNK_SAMPLES:
        for sample in range(at + layout.HEAP_START, end - layout.SAMPLE.itemsize + 1, layout.SAMPLE.itemsize):
            if any(data[sample : sample + 8]):
                yield "samples", Place(sample, layout.SAMPLE)
    elif kind == layout.CHUNK_SYSTEM:
        for row in range(at + layout.HEAP_START, end - layout.SYSTEM.itemsize + 1, layout.SYSTEM.itemsize):
            if any(data[row : row + 8]):
                yield "system", Place(row, layout.SYSTEM)
    elif kind == layout.CHUNK_HEAP:
        at += layout.HEAP_START
        while at + 16 <= end:
            found, size = np.frombuffer(data, "<u4", 2, at).tolist()
            if size < 16:
                return
            if found in _HEAP:
                yield f"heap-{found}", Place(at, _HEAP[found])
            at += size


class Mutator:
    """Applies mutations to one sound log."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._places = places(data)
        starts = [place.at for sort in self._places for place in sort]
        self._values = _EDGES + [at >> 4 for at in starts] + starts + [len(data), len(data) + PAGE]

    def apply(self, mutations: list[Mutation]) -> bytes:
        data = bytearray(self._data)
        for kind, where, part, value in mutations:
            _KINDS[kind % len(_KINDS)](self, data, where, part, value)
            del data[1 << 22 :]
        return bytes(data)

    def _place(self, where: int) -> Place:
        sort = self._places[where % len(self._places)]
        return sort[where // len(self._places) % len(sort)]

    def _field(self, data: bytearray, where: int, part: int, value: int) -> None:
        """A field of a structure takes a value at an edge."""
        place = self._place(where)
        fields = list(_flat(place.dtype, place.at))
        at, size = fields[part % len(fields)]
        if size <= 8:
            number = self._values[value % len(self._values)] + (0 if value < 1 << 30 else -1)
            _put(data, at, (number % (1 << 8 * size)).to_bytes(size, "little"))
        else:
            _put(data, at, bytes([value % 256, part % 256]) * (size // 2))

    def _many(self, data: bytearray, where: int, part: int, value: int) -> None:
        """The same field of all structures of a sort."""
        sort = where % len(self._places)
        for number in range(min(len(self._places[sort]), 200)):
            self._field(data, number * len(self._places) + sort, part, value)

    def _copy(self, data: bytearray, where: int, part: int, value: int) -> None:
        """A structure takes another's place."""
        source, target = self._place(part), self._place(where)
        _put(data, target.at, bytes(data[source.at : source.at + target.dtype.itemsize]))

    def _havoc(self, data: bytearray, where: int, part: int, value: int) -> None:
        """Any bytes anywhere."""
        if data:
            _put(data, where % len(data), value.to_bytes(4, "little")[: part % 4 + 1])

    def _page(self, data: bytearray, where: int, part: int, value: int) -> None:
        """A page is zero, or another's."""
        pages = len(data) // PAGE
        if pages:
            source = part % pages * PAGE
            _put(data, where % pages * PAGE, bytes(data[source : source + PAGE]) if value % 2 else bytes(PAGE))

    def _cut(self, data: bytearray, where: int, part: int, value: int) -> None:
        if value % 4 == 0 and data:
            del data[where % len(data) :]

    def _more(self, data: bytearray, where: int, part: int, value: int) -> None:
        """Something follows: zeros, or the log again."""
        data.extend(bytes(part % (64 * PAGE)) if value % 2 else bytes(data))


_KINDS: list[Callable[[Mutator, bytearray, int, int, int], None]] = [
    *[Mutator._field] * 6, *[Mutator._many] * 2, Mutator._copy, Mutator._havoc, Mutator._page, Mutator._cut,
    Mutator._more,
]  # fmt: skip


def _put(data: bytearray, at: int, raw: bytes) -> None:
    raw = raw[: max(len(data) - at, 0)]
    data[at : at + len(raw)] = raw


def _flat(dtype: np.dtype[np.void], at: int) -> Iterator[tuple[int, int]]:
    """(offset, size) of every field that is no structure itself."""
    for name in dtype.names or ():
        field, offset = dtype.fields[name][:2]  # type: ignore[index]
        if field.names:
            yield from _flat(field, at + offset)
        else:
            yield at + offset, min(field.itemsize, 8) if field.subdtype else field.itemsize
