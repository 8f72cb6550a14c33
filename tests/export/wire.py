"""Reads protocol buffers, and what the formats that we write in them say; written from their .proto files."""

from __future__ import annotations

import gzip
import struct
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

Fields = dict[int, list[Any]]


def fields(data: bytes) -> Fields:
    """Field number -> values: numbers, or bytes of texts and messages."""
    found: Fields = defaultdict(list)
    at = 0
    while at < len(data):
        key, at = varint(data, at)
        if key & 7 == 0:
            value, at = varint(data, at)
        elif key & 7 == 1:
            value, at = struct.unpack_from("<Q", data, at)[0], at + 8
        else:
            assert key & 7 == 2
            length, at = varint(data, at)
            value, at = data[at : at + length], at + length
            assert len(value) == length
        found[key >> 3].append(value)
    return found


def varint(data: bytes, at: int) -> tuple[int, int]:
    """(number, place after it)."""
    value = shift = 0
    while True:
        value |= (data[at] & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if data[at - 1] < 0x80:
            return value, at


def packed(data: bytes) -> list[int]:
    """The numbers of a packed field."""
    found, at = [], 0
    while at < len(data):
        value, at = varint(data, at)
        found.append(value)
    return found


@dataclass
class Slice:
    """begin, end: ns since the epoch; depth: on its track; flows: numbers of those that leave and that arrive."""

    process: str
    thread: str
    track: int
    name: str
    category: str
    begin: int
    depth: int
    args: dict[str, Any]
    leaving: list[int] = field(default_factory=list)
    arriving: list[int] = field(default_factory=list)
    end: int = -1


class PerfettoTrace:
    """slices: in the order of the file; counters: (process, name) -> [(time, value)]."""

    def __init__(self, path: Path) -> None:
        self.packets = [fields(one) for one in fields(path.read_bytes())[1]]
        self.slices: list[Slice] = []
        self.counters: dict[tuple[str, str], list[tuple[int, float]]] = defaultdict(list)
        self._words: dict[tuple[int, int], str] = {}
        self._tracks: dict[int, tuple[str, str]] = {}
        self._open: dict[int, list[Slice]] = defaultdict(list)
        self._last: dict[int, int] = {}
        clocks = {}
        assert all(packet[10] == [1] for packet in self.packets)
        for packet in self.packets:
            for texts in packet[12]:
                for kind, every in fields(texts).items():
                    for one in map(fields, every):
                        self._words[kind, one[1][0]] = one[2][0].decode()
            for snapshot in packet[6]:
                clocks = {one[1][0]: one[2][0] for one in map(fields, fields(snapshot)[1])}
        self.base = clocks[1] - clocks[6]
        for packet in self.packets:
            for one in packet[60]:
                self._describe(fields(one))
            for one in packet[11]:
                self._event(packet[8][0] + self.base, fields(one))
        assert not any(self._open.values())

    def _describe(self, one: Fields) -> None:
        if one[3]:
            self._tracks[one[1][0]] = fields(one[3][0])[6][0].decode(), ""
            return
        process = self._tracks[one[5][0]][0]
        name = fields(one[4][0])[5][0] if one[4] else one[2][0]
        assert one[1][0] not in self._tracks
        self._tracks[one[1][0]] = process, name.decode()

    def _event(self, time: int, one: Fields) -> None:
        (track,) = one[11]
        assert time >= self._last.get(track, 0)
        self._last[track] = time
        stack = self._open[track]
        if one[9] == [4]:
            (value,) = one[44]
            self.counters[self._tracks[track]].append((time, struct.unpack("<d", struct.pack("<Q", value))[0]))
        elif one[9] == [1]:
            args = {}
            for annotation in map(fields, one[4]):
                name = self._words[3, annotation[1][0]]
                args[name] = annotation[4][0] if annotation[4] else self._words[29, annotation[17][0]]
            process, thread = self._tracks[track]
            named, kind = self._words[2, one[10][0]], self._words[1, one[3][0]] if one[3] else ""
            stack.append(Slice(process, thread, track, named, kind, time, len(stack), args, one[47], one[48]))
            self.slices.append(stack[-1])
        else:
            ended = stack.pop()
            ended.end = time
            ended.arriving += one[48]


class Profile:
    """A profile of pprof.  samples: (functions, outermost first; lines; values by type)."""

    def __init__(self, path: Path) -> None:
        self.fields = fields(gzip.decompress(path.read_bytes()))
        strings = [one.decode() for one in self.fields[6]]
        assert strings[0] == "" and len(set(strings)) == len(strings)
        self.types = [tuple(strings[one[key][0]] for key in (1, 2)) for one in map(fields, self.fields[1])]
        functions = {
            one[1][0]: (strings[one[2][0]], strings[one[4][0]] if one[4] else "") for one in map(fields, self.fields[5])
        }
        places = {}
        for one in map(fields, self.fields[4]):
            line = fields(one[4][0])
            places[one[1][0]] = (*functions[line[1][0]], line[2][0] if line[2] else 0)
        self.samples = []
        for one in map(fields, self.fields[2]):
            frames = [places[place] for place in reversed(packed(one[1][0]))]
            values = packed(one[2][0])
            assert len(values) == len(self.types)
            self.samples.append((frames, dict(zip((kind for kind, _ in self.types), values, strict=True))))

    def total(self, kind: str) -> int:
        """The sum of a type over all samples."""
        return sum(values[kind] for _, values in self.samples)
