"""Writes of recorded sizes to files in scratch: through a buffer, with one sync for many, aligned, into one file."""

from __future__ import annotations

import os
from collections.abc import Callable
from time import perf_counter_ns

from pyio_trace.insights.trials import maps, page_cache, reads
from pyio_trace.insights.trials.attempt import LARGEST, Attempt
from pyio_trace.insights.trials.recorded import Rows
from pyio_trace.insights.trials.replay import NotTried, Replay
from pyio_trace.insights.trials.scratch import Scratch

_BUFFER = 1 << 20
_BLOCK = 4096


def in_larger_calls(attempt: Attempt) -> Replay:
    """Reads, or writes, of a line through a buffer: whichever the finding is about."""
    at_line = attempt.rows.where(layer=("posix", "stdio"), site=attempt.lines())
    written = len(at_line.where(op_class="write"))
    return buffered(attempt) if written > len(at_line.where(op_class="read")) else reads.larger(attempt)


def aligned(attempt: Attempt) -> Replay:
    """Reads, or writes, of a line that begin at a block's boundary."""
    written = len(attempt.rows.where(layer="posix", op_class="write"))
    if written > len(attempt.rows.where(layer="posix", op_class="read")):
        return _written_aligned(attempt)
    return reads.aligned(attempt)


def _sizes(rows: Rows) -> list[int]:
    return [min(size, LARGEST) for size in rows.sizes if size]


def buffered(attempt: Attempt) -> Replay:
    """A file object without a buffer, and one with 1 MiB."""
    return _through_a_buffer(attempt, attempt.moves("write"), flushes=False)


def flushed_once(attempt: Attempt) -> Replay:
    """A file object that is flushed after each write, and one that is flushed at the end."""
    return _through_a_buffer(attempt, attempt.moves("write"), flushes=True)


def _through_a_buffer(attempt: Attempt, rows: Rows, flushes: bool) -> Replay:
    sizes = _sizes(rows)
    scratch = attempt.scratch(rows.texts("path")[0])
    scratch.check_room(sum(sizes))
    data = memoryview(bytes(max(sizes)))
    name = scratch.name()

    def run(count: int, buffering: int, flush: bool) -> int:
        with open(scratch.create(name), "wb", buffering) as file:
            begin = perf_counter_ns()
            for size in sizes[:count]:
                file.write(data[:size])
                if flush:
                    file.flush()
            file.flush()
            return perf_counter_ns() - begin

    def plain(count: int) -> int:
        return run(count, -1 if flushes else 0, flushes)

    def remedy(count: int) -> int:
        return run(count, -1 if flushes else _BUFFER, False)

    return Replay(plain, remedy, len(sizes), rows.recorded(attempt.rows), before=scratch.clear)


def synced_once(attempt: Attempt) -> Replay:
    """The writes to files with each recorded sync, and with one for each file at the end.  Files are closed and opened
    again as recorded: some file systems write a file out when it was truncated and is closed."""
    rows = attempt.rows.where(layer="posix", op_class=("open", "write", "sync", "close")).heaviest()
    recorded = rows.recorded(attempt.rows)
    kinds, paths = rows.texts("op_class"), rows.texts("path")
    if "sync" not in kinds:
        raise NotTried("the log has no syncs of it that could be issued again")
    mapped = rows.where(op="msync")
    if 2 * len(mapped) > kinds.count("sync"):
        return maps.synced_once(attempt, mapped)
    scratch = attempt.scratch(paths[0])
    sizes = [min(size, LARGEST) for size in rows.sizes]
    names = {path: scratch.name() for path in dict.fromkeys(paths)}
    offsets = rows.columns["file_offset"].tolist()
    scratch.check_room(_highest(paths, kinds, offsets, sizes))
    steps = list(zip(kinds, [names[path] for path in paths], offsets, sizes, strict=True))
    data = memoryview(bytes(max(sizes)))

    def run(count: int, every: bool) -> int:
        files = {name: _Written(scratch, name) for name in names.values()}
        begin = perf_counter_ns()
        for kind, name, offset, size in steps[:count]:
            file = files[name]
            if kind == "write":
                file.write(data[:size], offset)
            elif kind == "open":
                file.opened = True
            elif kind == "close":
                file.close()
            elif every:
                file.sync()
        for file in files.values():
            if not every and file.made:
                file.sync()
            file.close()
        return perf_counter_ns() - begin

    return Replay(
        lambda count: run(count, True), lambda count: run(count, False), len(steps), recorded, before=scratch.clear
    )


class _Written:
    """A file in scratch that is written as the original was: one that is opened and written from the beginning again
    was truncated.  made: whether it is there."""

    def __init__(self, scratch: Scratch, name: str) -> None:
        self._scratch, self._name = scratch, name
        self._descriptor = -1
        self._position = 0
        self.made = self.opened = False

    def write(self, data: memoryview, offset: int) -> None:
        truncated = offset == 0 and self._position > 0 and self.opened
        self.opened = False
        if self._descriptor < 0:
            self._open(os.O_TRUNC if truncated else 0)
        elif truncated:
            os.ftruncate(self._descriptor, 0)
        at = offset if offset >= 0 else self._position
        self._position = at + os.pwrite(self._descriptor, data, at)

    def sync(self) -> None:
        if self._descriptor < 0:
            self._open(0)
        os.fsync(self._descriptor)

    def close(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
        self._descriptor = -1

    def _open(self, flags: int) -> None:
        self._descriptor = self._scratch.open(self._name, flags) if self.made else self._scratch.create(self._name)
        self.made = True


def _highest(paths: list[str], kinds: list[str], offsets: list[int], sizes: list[int]) -> int:
    """The bytes that all files together have at most: writes without an offset go on from the one before."""
    ends: dict[str, int] = {}
    for path, kind, offset, size in zip(paths, kinds, offsets, sizes, strict=True):
        if kind == "write":
            ends[path] = max(ends.get(path, 0), offset + size) if offset >= 0 else ends.get(path, 0) + size
    return sum(ends.values())


def _written_aligned(attempt: Attempt) -> Replay:
    """Writes into a file that is there and not in memory, at recorded offsets and at boundaries of blocks."""
    rows = attempt.moves("write")
    path = rows.texts("path")[0]
    offsets, sizes = rows.columns["file_offset"].tolist(), _sizes(rows)
    if min(offsets) < 0 or len(sizes) != len(offsets):
        raise NotTried("the offsets of its writes are not in the log")
    scratch = attempt.scratch(path)
    lowest = min(offsets) - min(offsets) % _BLOCK
    places = [offset - lowest for offset in offsets]
    end = max(place + size for place, size in zip(places, sizes, strict=True)) + _BLOCK
    scratch.check_room(end)
    name = scratch.name()
    file = scratch.create(name)
    block = bytes(min(_BUFFER, end))
    for at in range(0, end, len(block)):
        os.pwrite(file, block, at)
    data = memoryview(bytes(max(sizes)))

    def forgotten() -> None:
        os.fsync(file)
        page_cache.drop([file])

    def run(count: int, by: Callable[[int], int]) -> int:
        steps = [(by(place), size) for place, size in zip(places[:count], sizes, strict=False)]
        begin = perf_counter_ns()
        for place, size in steps:
            os.pwrite(file, data[:size], place)
        return perf_counter_ns() - begin

    return Replay(
        lambda count: run(count, lambda place: place),
        lambda count: run(count, lambda place: -(-place // _BLOCK) * _BLOCK),
        len(places),
        rows.recorded(attempt.rows),
        before=forgotten,
        cache="cold",
    )
