"""Tries one opening, or one question, in place of many for the same file; and one file in place of many small ones."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from time import perf_counter_ns

from pyio_trace.insights.trials.attempt import LARGEST, Attempt
from pyio_trace.insights.trials.originals import Originals
from pyio_trace.insights.trials.replay import NotTried, Replay, with_repetitions

#: Python's ways to open a file.  A replay uses open() if the program did, because it costs more than the system call.
_BY_PYTHON = ("open", "FileIO.__init__")


@dataclass
class _Use:
    """One opening of a file and what was moved until the next.  parts: (offset, bytes) of each read; written: bytes of
    each write."""

    path: str
    parts: list[tuple[int, int]] = field(default_factory=list)
    written: list[int] = field(default_factory=list)


class _Uses:
    """The openings of a finding's files by the thread that spent the most time in them."""

    def __init__(self, attempt: Attempt) -> None:
        rows = attempt.rows.where(
            layer=("posix", "stdio"), op_class=("open", "read", "write", "meta", "seek", "close")
        ).heaviest()
        self.by_python = bool(len(attempt.rows.where(layer="app", op=_BY_PYTHON)))
        self.uses: list[_Use] = []
        last: dict[str, _Use] = {}
        columns = (rows.texts("path"), rows.texts("op_class"), rows.columns["file_offset"].tolist(), rows.sizes)
        for path, kind, offset, size in zip(*columns, strict=True):
            if kind == "open" and path:
                last[path] = _Use(path)
                self.uses.append(last[path])
            elif kind in ("read", "write") and path in last and size:
                use = last[path]
                if kind == "write":
                    use.written.append(min(size, LARGEST))
                else:
                    offset = offset if offset >= 0 else sum(use.parts[-1]) if use.parts else 0
                    use.parts.append((offset, min(size, LARGEST)))
        opens = attempt.rows.where(layer=("posix", "stdio"), op_class="open").heaviest()
        self.writes = sum(bool(use.written) for use in self.uses) * 2 > len(self.uses)
        # What makes a file that is then read many times, or reads one that is then appended to, is another use.
        alike = [use for use in self.uses if bool(use.written) == self.writes]
        if not alike:
            raise NotTried("the log has no openings of it that could be issued again")
        whole = max(opens.recorded(attempt.rows), len(self.uses))
        self.recorded = max(round(whole * len(alike) / len(self.uses)), len(alike))
        self.uses = alike

    @property
    def paths(self) -> list[str]:
        """Each path once."""
        return list(dict.fromkeys(use.path for use in self.uses))


def opened_once(attempt: Attempt) -> Replay:
    """The same reads, or appends in scratch, with an opening for each use and with one for each file."""
    uses = _Uses(attempt)
    return _appended_once(attempt, uses) if uses.writes else _read_once(attempt, uses)


def _read_once(attempt: Attempt, uses: _Uses) -> Replay:
    files = attempt.originals
    descriptors = {path: files.open(path) for path in uses.paths}
    ends = dict.fromkeys(descriptors.values(), 0)
    for use in uses.uses:
        ends[descriptors[use.path]] = max([ends[descriptors[use.path]], *map(sum, use.parts)])
    pread = os.pread

    def remedy(count: int) -> int:
        begin = perf_counter_ns()
        for use in uses.uses[:count]:
            descriptor = descriptors[use.path]
            for offset, size in use.parts:
                pread(descriptor, size, offset)
        return perf_counter_ns() - begin

    return Replay(_one_by_one(files, uses), remedy, len(uses.uses), uses.recorded, originals=ends)


def _one_by_one(files: Originals, uses: _Uses) -> Callable[[int], int]:
    """Opens, reads and closes the files of each use."""
    pread = os.pread

    def plain(count: int) -> int:
        begin = perf_counter_ns()
        for use in uses.uses[:count]:
            if uses.by_python:
                with open(use.path, "rb", opener=lambda path, _: files.again(path)) as file:
                    for offset, size in use.parts:
                        pread(file.fileno(), size, offset)
            else:
                descriptor = files.again(use.path)
                for offset, size in use.parts:
                    pread(descriptor, size, offset)
                os.close(descriptor)
        return perf_counter_ns() - begin

    return plain


def _appended_once(attempt: Attempt, uses: _Uses) -> Replay:
    scratch = attempt.scratch(uses.uses[0].path)
    data = _data(scratch.check_room, [use.written for use in uses.uses])
    names = {path: scratch.name() for path in uses.paths}

    def fresh() -> None:
        scratch.clear()
        for name in names.values():
            os.close(scratch.create(name))

    def opened(use: _Use) -> int:
        return scratch.open(names[use.path], os.O_APPEND)

    def plain(count: int) -> int:
        begin = perf_counter_ns()
        for use in uses.uses[:count]:
            if uses.by_python:
                with open(use.path, "ab", opener=lambda _path, _flags, use=use: opened(use)) as file:  # type: ignore[misc]
                    for size in use.written:
                        file.write(data[:size])
            else:
                descriptor = opened(use)
                for size in use.written:
                    os.write(descriptor, data[:size])
                os.close(descriptor)
        return perf_counter_ns() - begin

    def remedy(count: int) -> int:
        begin = perf_counter_ns()
        with ExitStack() as files:
            by_path = {}
            for use in uses.uses[:count]:
                if use.path not in by_path:
                    by_path[use.path] = files.enter_context(open(opened(use), "ab"))
                for size in use.written:
                    by_path[use.path].write(data[:size])
        return perf_counter_ns() - begin

    return Replay(plain, remedy, len(uses.uses), uses.recorded, before=fresh)


def _data(check_room: Callable[[int], None], written: list[list[int]]) -> memoryview:
    """Bytes to write, as many as the largest write has.  Raises NotTried if all writes together are too many."""
    check_room(sum(map(sum, written)))
    return memoryview(bytes(max((max(sizes, default=0) for sizes in written), default=0)))


def packed(attempt: Attempt) -> Replay:
    """Small files, each opened and read, or made; and one file that has them all."""
    uses = _Uses(attempt)
    return _made_as_one(attempt, uses) if uses.writes else _read_from_one(attempt, uses)


def _read_from_one(attempt: Attempt, uses: _Uses) -> Replay:
    files = attempt.originals
    scratch = attempt.scratch(uses.uses[0].path)
    ends = dict.fromkeys(uses.paths, 0)
    for use in uses.uses:
        ends[use.path] = max([ends[use.path], *(offset + size for offset, size in use.parts)])
    scratch.check_room(sum(ends.values()))
    archive, starts, end = scratch.create(scratch.name()), {}, 0
    for path, length in ends.items():
        descriptor = files.open_anew(path)
        content = os.pread(descriptor, length, 0)
        os.close(descriptor)
        starts[path] = end
        end += os.pwrite(archive, content, end) if content else 0
    pread = os.pread

    def remedy(count: int) -> int:
        begin = perf_counter_ns()
        for use in uses.uses[:count]:
            start = starts[use.path]
            for offset, size in use.parts:
                pread(archive, size, start + offset)
        return perf_counter_ns() - begin

    # packing has just read them
    return Replay(_one_by_one(files, uses), remedy, len(uses.uses), uses.recorded, cache="cached")


def _made_as_one(attempt: Attempt, uses: _Uses) -> Replay:
    scratch = attempt.scratch(uses.uses[0].path)
    data = _data(scratch.check_room, [use.written for use in uses.uses])
    names = [f"item{number}" for number in range(len(uses.uses))]

    def plain(count: int) -> int:
        begin = perf_counter_ns()
        for name, use in zip(names[:count], uses.uses, strict=False):
            descriptor = scratch.create(name)
            for size in use.written:
                os.write(descriptor, data[:size])
            os.close(descriptor)
        return perf_counter_ns() - begin

    def remedy(count: int) -> int:
        begin = perf_counter_ns()
        descriptor = scratch.create("archive")
        for use in uses.uses[:count]:
            for size in use.written:
                os.write(descriptor, data[:size])
        os.close(descriptor)
        return perf_counter_ns() - begin

    return Replay(plain, remedy, len(uses.uses), uses.recorded, before=scratch.clear)


def asked_once(attempt: Attempt) -> Replay:
    """Questions about paths, and listings of folders: each asked as recorded, and each asked once."""
    rows = attempt.rows.where(layer="posix", op=_LISTINGS).heaviest()
    listings = bool(len(rows))
    ask: Callable[[str], object] = attempt.originals.listed if listings else _asked
    if not listings:
        rows = attempt.rows.where(layer="posix", op_class="meta").heaviest()
    paths = rows.texts("path")
    for path in dict.fromkeys(paths):
        if listings or os.path.lexists(path):
            attempt.originals.hold(path, folder=listings or os.path.isdir(path))

    chosen = with_repetitions(paths)

    def plain(count: int) -> int:
        begin = perf_counter_ns()
        for path in chosen(count):
            ask(path)
        return perf_counter_ns() - begin

    def remedy(count: int) -> int:
        known: dict[str, object] = {}
        begin = perf_counter_ns()
        for path in chosen(count):
            if path not in known:
                known[path] = ask(path)
        return perf_counter_ns() - begin

    return Replay(plain, remedy, len(paths), rows.recorded(attempt.rows), cache="cached")


_LISTINGS = ("opendir", "fdopendir", "scandir")


def _asked(path: str) -> object:
    try:
        return os.stat(path, follow_symlinks=False)
    except OSError:
        return None
