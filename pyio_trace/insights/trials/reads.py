"""Reads of recorded places, from the original files: through a buffer, in order, aligned, or once and then kept."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from time import perf_counter_ns
from typing import BinaryIO

import numpy as np

from pyio_trace.held_paths import reopened
from pyio_trace.insights.trials.attempt import LARGEST, Attempt
from pyio_trace.insights.trials.recorded import Rows
from pyio_trace.insights.trials.replay import NotTried, Replay, with_repetitions

#: (number of the file, offset, bytes) of a read.
Step = tuple[int, int, int]
_BLOCK = 4096
_BUFFER = 1 << 20
#: Contents that "read once" keeps, at most.
_KEPT = 1 << 30


class Places:
    """The files of some reads, open, and what is read of them.  Raises NotTried if a file is not what it was."""

    def __init__(self, attempt: Attempt, rows: Rows) -> None:
        self.recorded = rows.recorded(attempt.rows)
        paths = rows.texts("path")
        least: dict[str, int] = {}
        steps: list[tuple[str, int, int]] = []
        position: dict[str, int] = {}
        for path, offset, size in zip(paths, rows.columns["file_offset"].tolist(), rows.sizes, strict=True):
            if not path or not size:
                continue
            size = min(size, LARGEST)
            offset = offset if offset >= 0 else position.get(path, 0)
            position[path] = offset + size
            least[path] = max(least.get(path, 0), offset + 1)
            steps.append((path, offset, size))
        self.descriptors = [attempt.originals.open(path, end) for path, end in least.items()]
        numbers = {path: number for number, path in enumerate(least)}
        self.steps: list[Step] = [(numbers[path], offset, size) for path, offset, size in steps]
        self._ends = dict.fromkeys(self.descriptors, 0)
        for number, offset, size in self.steps:
            descriptor = self.descriptors[number]
            self._ends[descriptor] = max(self._ends[descriptor], offset + size)

    def replay(self, plain: Callable[[int], int], remedy: Callable[[int], int], least: bool = False) -> Replay:
        """least: a library that asked for them has work of its own."""
        note = "without what the library does besides" if least else ""
        return Replay(plain, remedy, len(self.steps), self.recorded, originals=self._ends, least=least, note=note)

    def read(self, steps: Sequence[Step]) -> int:
        """ns that these reads take, a system call for each."""
        pread, files = os.pread, self.descriptors
        begin = perf_counter_ns()
        for file, offset, size in steps:
            pread(files[file], size, offset)
        return perf_counter_ns() - begin


def larger(attempt: Attempt) -> Replay:
    """The same calls of Python's file objects, without a buffer and with one of 1 MiB."""
    places = Places(attempt, attempt.moves("read"))

    def through(buffering: int) -> Callable[[int], int]:
        def run(count: int) -> int:
            with ExitStack() as opened:
                files = [opened.enter_context(open(reopened(one), "rb", buffering)) for one in places.descriptors]
                return _read(files, places.steps[:count])

        return run

    return places.replay(through(0), through(_BUFFER))


def _read(files: Sequence[BinaryIO], steps: Sequence[Step]) -> int:
    """ns; seeks only where a read does not begin at the end of the one before, as programs do."""
    positions = [-1] * len(files)
    calls: list[tuple[Callable[[int], object], int]] = []
    for number, offset, size in steps:
        if positions[number] != offset:
            calls.append((files[number].seek, offset))
        calls.append((files[number].read, size))
        positions[number] = offset + size
    begin = perf_counter_ns()
    for call, argument in calls:
        call(argument)
    return perf_counter_ns() - begin


def in_order(attempt: Attempt) -> Replay:
    """The same reads, by file and offset."""
    places = Places(attempt, attempt.moves("read"))
    return places.replay(
        lambda count: places.read(places.steps[:count]), lambda count: places.read(sorted(places.steps[:count]))
    )


def aligned(attempt: Attempt) -> Replay:
    """The same reads, each begun at the block's boundary before it."""
    places = Places(attempt, attempt.moves("read"))
    moved = [(file, offset - offset % _BLOCK, size) for file, offset, size in places.steps]
    return places.replay(lambda count: places.read(places.steps[:count]), lambda count: places.read(moved[:count]))


def kept(attempt: Attempt) -> Replay:
    """The same reads, and each place only once: after that its bytes come from memory.

    Where only a part of the reads fits into the time, it has all reads of some places.
    """
    places = Places(attempt, attempt.moves("read"))
    different = len(set(places.steps))
    if different == len(places.steps):
        raise NotTried("needs the program: no thread of its own reads a place twice")
    if different * 2 > len(places.steps):
        raise NotTried("the same bytes are read in other pieces each time")
    chosen = with_repetitions(places.steps)

    def remedy(count: int) -> int:
        contents: dict[Step, bytes] = {}
        room, pread, files = _KEPT, os.pread, places.descriptors
        begin = perf_counter_ns()
        for step in chosen(count):
            if step not in contents:
                data = pread(files[step[0]], step[2], step[1])
                if room >= len(data):
                    contents[step] = data
                    room -= len(data)
        return perf_counter_ns() - begin

    return places.replay(lambda count: places.read(chosen(count)), remedy, least=_is_by_library(attempt.rows))


def _is_by_library(rows: Rows) -> bool:
    """Whether a library asked for most of the bytes, which then has work of its own."""
    ops = rows.where(layer="app", op_class="read")
    own = [not op.startswith(("FileIO.", "Buffered", "TextIOWrapper.", "mmap.")) for op in ops.texts("op")]
    asked = np.array(ops.sizes, np.float64)
    return bool(asked[np.array(own, np.bool_)].sum() * 2 > asked.sum()) if len(ops) else False
