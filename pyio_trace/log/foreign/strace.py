"""strace's files: strace -ff -ttt -T -y -o NAME writes one for each thread, NAME.PID.

All files of one NAME are one log.  Their lines are taken in order of time, so that
what one process does to a descriptor is known before another inherits it.
"""

from __future__ import annotations

import errno
import heapq
import json
import os.path
import re
import signal
from collections.abc import Iterator, Sequence
from dataclasses import field
from pathlib import Path
from typing import Any

from pyio_trace.enums import OpClass
from pyio_trace.light_dataclass import dataclass
from pyio_trace.log.calls_of_libc import CALLS, plain
from pyio_trace.log.foreign_log import MOST, ForeignLog, Format, Rows, damaged
from pyio_trace.log.strace_lines import (
    BEGINS,
    Line,
    descriptor,
    lines_of,
    nanoseconds,
    numbers_at_end,
    parse,
    strings,
    without_strings,
)  # fmt: skip

#: Calls whose first argument is a path, and those whose first argument is the folder that a path is relative to.
_OF_PATH = frozenset((
    "open", "creat", "stat", "lstat", "access", "truncate", "rename", "unlink", "link", "symlink", "readlink", "mkdir",
    "mknod", "rmdir", "chmod", "chown", "lchown", "utime", "statfs", "getxattr", "setxattr", "listxattr", "removexattr",
    "chdir", "chroot", "execve",
))  # fmt: skip
_IN_FOLDER = frozenset((
    "openat", "fstatat", "statx", "faccessat", "renameat", "unlinkat", "linkat", "symlinkat", "readlinkat", "mkdirat",
    "mknodat", "fchmodat", "fchownat", "utimensat", "name_to_handle_at",
))  # fmt: skip
_TWO_PATHS = frozenset(("rename", "renameat", "link", "linkat"))
_PLACED = frozenset(("pread", "preadv", "preadv2", "pwrite", "pwritev", "pwritev2"))
_FORKS = frozenset(("fork", "vfork", "clone"))
_DUPS = frozenset(("dup", "dup2", "dup3"))
#: What descriptors that are no files look like, and what kind they are.
_KINDS = (
    ("pipe:", "pipe"), ("socket:", "socket"), ("TCP", "socket"), ("UDP", "socket"), ("UNIX", "socket"),
    ("NETLINK", "socket"), ("anon_inode:", "anon"), ("/dev/pts/", "terminal"), ("/dev/tty", "terminal"),
)  # fmt: skip
_FLAGS = re.compile(r"O_[A-Z]+(?:\|O_[A-Z]+)*")
_VECTOR = re.compile(r"iov_len=(\d{1,18})")
_END = re.compile(r"\+\+\+ (?:exited with (\d+)|killed by (\w+))")
#: Rows that are collected before they become a block.
_BLOCK = 1 << 13
_FIELDS = (
    "time", "duration", "process", "tid", "layer", "op_class", "op", "path", "fd", "offset", "requested", "moved",
    "errno", "detail", "command",
)  # fmt: skip


@dataclass
class _File:
    """An open file description: position (-1: not known), whether it appends."""

    position: int = 0
    appends: bool = False


@dataclass
class _Process:
    index: int
    files: dict[int, _File] = field(default_factory=dict)
    cwd: str = ""


class _Reading:
    """A run while it is read."""

    def __init__(self, path: Path) -> None:
        self.rows, self.path = Rows(path), path
        self.processes: list[dict[str, Any]] = []
        self.counted: dict[tuple[int, str], list[int]] = {}
        self.start, self.last = MOST, 0
        self.lost = [0]
        self._of: dict[int, _Process] = {}
        self._unfinished: dict[int, str] = {}
        self._block: list[tuple[int, ...]] = []

    # ---- lines

    def line(self, time: int, tid: int, line: str) -> None:
        self.start, self.last = min(self.start, time), max(self.last, time)
        found = BEGINS.match(line)
        if found is None:
            self.lost[0] += len(line)
            return
        process = self.process(tid, time)
        if found[5] is not None:
            line = self._unfinished.pop(tid, "") + line[found.end() :]
            found = BEGINS.match(line)
        elif line.endswith("<unfinished ...>") and found[4]:
            self._unfinished[tid] = line.removesuffix("<unfinished ...>").rstrip()
            return
        if found is None or found[4] is None:
            self._ended(process, tid, time, line)
            return
        call = parse(line, found.end(), nanoseconds(found[3]), plain(found[4]))
        if call is None:
            self.lost[0] += 0 if found[4] in ("exit", "exit_group") else len(line)
        elif call.name in CALLS:
            self.last = max(self.last, call.time + max(call.duration, 0))
            self._call(process, tid, call)

    def process(self, tid: int, time: int, parent: _Process | None = None) -> _Process:
        """The process of a thread; a new one, if it is not known."""
        known = self._of.get(tid)
        if known is None:
            known = self._of[tid] = _Process(len(self.processes))
            self.processes.append({"pid": tid, "begin": time, "end": None})
            if parent is not None:
                known.files, known.cwd = dict(parent.files), parent.cwd
                of = self.processes[parent.index]
                inherited = {"argv": of.get("argv", []), "executable": of.get("executable", "")}
                self.processes[-1] |= {"parent": parent.index, "ppid": of["pid"], "start": "fork", **inherited}
        return known

    def _ended(self, process: _Process, tid: int, time: int, line: str) -> None:
        found = _END.search(line)
        row = self.processes[process.index]
        if found is None or row["pid"] != tid:
            return
        row |= {"end": time, "end_by": "itself"}
        if found[1] is not None:
            row |= {"ended": f"exit {found[1][:9]}", "status": int(found[1][:9])}
        else:
            number = getattr(signal, found[2], None)
            name = f" ({found[2]})"
            row |= {"ended": f"signal {int(number)}{name}" if isinstance(number, signal.Signals) else f"signal{name}"}

    # ---- calls

    def _call(self, process: _Process, tid: int, call: Line) -> None:
        name = call.name
        if name in _FORKS:
            self._fork(process, call)
        elif name == "execve" and call.result == 0:
            words = strings(call.arguments)
            row = self.processes[process.index]
            row |= {"executable": words[0] if words else "", "argv": words[1:], "start": row.get("start", "top")}
        fd, path, end = descriptor(call.arguments)
        kind = next((kind for begin, kind in _KINDS if path.startswith(begin)), None)
        layer, klass = CALLS[name]
        if kind is not None and name not in _IN_FOLDER:
            calls = self.counted.setdefault((process.index, kind), [0, 0])
            calls[0] += 1
            calls[1] += (call.result or 0) if klass in (OpClass.READ, OpClass.WRITE) and (call.result or 0) > 0 else 0
            return
        if klass == OpClass.MAP and "MAP_ANONYMOUS" in call.arguments:
            return
        path, second = self._paths(process, call, fd, path, end)
        moves = klass in (OpClass.READ, OpClass.WRITE, OpClass.COPY)
        moved = max(call.result or 0, 0) if moves and call.duration >= 0 else -1
        offset, requested = self._place(process, call, fd, klass, moved)
        text = self.rows.text
        self._block.append((
            call.time, call.duration, process.index, tid, layer, klass, text("op", name),
            text("path", path) if path else -1, fd if name not in _IN_FOLDER else -1, offset, requested, moved,
            getattr(errno, call.error, -1) if call.error else 0,
            text("detail", json.dumps({"to": second}, ensure_ascii=False)) if second else -1,
            self._command(call, klass),
        ))  # fmt: skip
        if len(self._block) == _BLOCK:
            self.flush()

    def flush(self) -> None:
        """Turns what was collected into rows."""
        if self._block:
            columns = dict(zip(_FIELDS, zip(*self._block, strict=True), strict=True))
            self.rows.add(len(self._block), **columns)
            self._block = []

    def _fork(self, process: _Process, call: Line) -> None:
        child = call.result or 0
        if not 0 < child < 1 << 31 or child in self._of:
            return
        if "CLONE_THREAD" in call.arguments:
            self._of[child] = process
        else:
            self.process(child, call.time, process)

    def _paths(self, process: _Process, call: Line, fd: int, path: str, end: int) -> tuple[str, str]:
        """(the file that a call is about, the second one of a rename or link), absolute as far as is known."""
        if call.name in _IN_FOLDER or call.name in _OF_PATH:
            given = strings(call.arguments)
            if call.arguments.startswith("AT_FDCWD") and path:
                process.cwd = path
            folder = path if call.name in _IN_FOLDER else process.cwd
            first = os.path.normpath(os.path.join(folder, given[0])) if given and given[0] else path
            second = ""
            if call.name in _TWO_PATHS and len(given) > 1:
                second = os.path.normpath(os.path.join(folder, given[1]))
            if call.name == "chdir" and call.result == 0:
                process.cwd = first
            return (call.path if CALLS[call.name][1] == OpClass.OPEN and call.path else first), second
        return path, ""

    def _command(self, call: Line, klass: int) -> int:
        """What an open was for, or a lock or fcntl was to do."""
        flags = None
        if klass == OpClass.OPEN:
            found = _FLAGS.search(without_strings(call.arguments))
            flags = found[0] if found else None
        elif call.name in ("fcntl", "flock", "lseek"):
            words = without_strings(call.arguments).split(", ")
            at = 2 if call.name == "lseek" else 1
            flags = words[at] if len(words) > at else None
        return -1 if not flags else self.rows.text("command", flags[:200])

    def _place(self, process: _Process, call: Line, fd: int, klass: int, moved: int) -> tuple[int, int]:
        """(where in the file a call took place, how many bytes it was to move), and what it does to positions."""
        name, files, result = call.name, process.files, call.result
        failed = result is None or result < 0
        if klass == OpClass.OPEN and not failed:
            files[int(result or 0)] = _File(0, "O_APPEND" in call.arguments)
        elif klass == OpClass.CLOSE and name == "close":
            files.pop(fd, None)
        elif (name in _DUPS or (name == "fcntl" and "F_DUPFD" in call.arguments)) and not failed:
            if fd in files:
                files[int(result or 0)] = files[fd]
            else:
                files.pop(int(result or 0), None)
        elif name == "lseek" and not failed and fd in files:
            files[fd].position = int(result or 0)
        if klass not in (OpClass.READ, OpClass.WRITE):
            return -1, -1
        last = numbers_at_end(call.arguments, 2)
        requested = last[-1] if last else -1
        offset = -1
        if name in _PLACED:
            offset = last[1 if name.endswith("2") and len(last) > 1 else -1] if last else -1
            requested = last[0] if len(last) > 1 else -1
        elif fd in files:
            file = files[fd]
            offset = -1 if file.appends and klass == OpClass.WRITE else file.position
            if file.appends and klass == OpClass.WRITE:
                file.position = -1
            elif file.position >= 0:
                file.position += max(moved, 0)
        if "iov_len=" in call.arguments:
            requested = sum(map(int, _VECTOR.findall(without_strings(call.arguments))))
        return offset, min(max(requested, moved), MOST) if requested >= 0 else moved


def _lines(path: Path, lost: list[int]) -> Iterator[tuple[int, int, str]]:
    """(time, thread, line) of a file; lines without a moment go with the one before."""
    own = path.name.rpartition(".")[2]
    tid = int(own) if own.isascii() and own.isdigit() and len(own) < 10 else 0
    time = 0
    for line in lines_of(path, lost):
        found = BEGINS.match(line)
        if found is not None:
            time = max(nanoseconds(found[3]), time)
            number = found[1] or found[2]
            yield time, int(number[:9]) if number else tid, line
        elif line.strip():
            lost[0] += len(line)


def _read(paths: Sequence[Path]) -> ForeignLog:
    reading = _Reading(paths[0])
    for time, tid, line in heapq.merge(*(_lines(path, reading.lost) for path in paths), key=lambda one: one[:2]):
        reading.line(time, tid, line)
    reading.flush()
    if reading.start == MOST:
        raise damaged(paths[0], "it has no line with a moment")
    ends = [one["end"] for one in reading.processes]
    counters = [
        {"process": process, "pid": reading.processes[process]["pid"], "why": "excluded", "kind": kind, "calls": calls,
         "bytes": size}
        for (process, kind), (calls, size) in sorted(reading.counted.items())
    ]  # fmt: skip
    return ForeignLog(
        tool="strace", start=reading.start, end=None if None in ends else max(reading.last, *ends), rows=reading.rows,
        processes=reading.processes, counters=counters, torn=reading.lost[0],
        not_seen=["no lines of Python, no calls of libraries; imports are not told apart", "I/O through mapped files"],
    )  # fmt: skip


def _together(paths: Sequence[Path]) -> list[list[Path]]:
    found: dict[str, list[Path]] = {}
    for path in paths:
        stem, _, number = path.name.rpartition(".")
        found.setdefault(stem if number.isdigit() else path.name, []).append(path)
    return list(found.values())


def _begins_so(name: str, head: bytes) -> bool:
    line = head.split(b"\n", 1)[0].decode("utf-8", "backslashreplace")
    return BEGINS.match(line) is not None


FORMAT = Format(_begins_so, _read, _together)
