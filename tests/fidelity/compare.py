"""Compares what strace saw with the rows of our log, call by call and thread by thread.

A call that came through a slot must have its row: the same call, descriptor, path, size, bytes, errno and offset, in
the same order.  Calls beneath one call of libc (fread, opendir, ...) must have that one's row.  What has no row must
have a reason that its stack or its descriptor proves, and so must a row without a call.  The rest is unexplained.
"""

from __future__ import annotations

import errno
import json
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from tests.fidelity import callsite
from tests.fidelity.callsite import Site, Way
from tests.fidelity.strace import descriptor
from tests.fidelity.world import Seen, World

Row = dict[str, Any]

#: Calls that start and end processes: they show whose descriptor table is in use and are not compared.
NOT_FILES = {
    "clone", "clone3", "fork", "vfork", "execve", "execveat", "pipe", "pipe2", "socket", "socketpair", "accept",
    "accept4", "chroot",
}  # fmt: skip

#: The system calls by which libc makes a call of this name, where they are not called the same.
BY = {
    "open": {"openat", "open"}, "openat": {"openat"}, "creat": {"creat", "openat", "open"}, "pread": {"pread64"},
    "pwrite": {"pwrite64"}, "stat": {"newfstatat", "stat"}, "lstat": {"newfstatat", "lstat"},
    "fstat": {"newfstatat", "fstat"}, "fstatat": {"newfstatat"}, "access": {"access", "faccessat"},
    "faccessat": {"faccessat", "faccessat2"}, "rename": {"rename", "renameat"}, "renameat": {"renameat", "renameat2"},
    "dup": {"dup", "fcntl"}, "dup2": {"dup2", "dup3", "fcntl"}, "posix_fadvise": {"fadvise64"},
    "mkfifo": {"mknod", "mknodat"}, "mknod": {"mknod", "mknodat"}, "utime": {"utime", "utimes", "utimensat"},
    "futime": {"utimensat"}, "rewinddir": {"lseek"}, "closedir": {"close"}, "getdents": {"getdents64"},
    "getxattr": {"getxattr", "lgetxattr"}, "setxattr": {"setxattr", "lsetxattr"},
    "listxattr": {"listxattr", "llistxattr"}, "removexattr": {"removexattr", "lremovexattr"},
    "fchmodat": {"fchmodat", "fchmodat2"}, "posix_fallocate": {"fallocate"}, "preadv": {"preadv"},
    "preadv2": {"preadv2", "preadv"}, "pwritev2": {"pwritev2", "pwritev"},
    "lockf": {"fcntl"}, "ioctl(FICLONE)": {"ioctl"}, "ioctl(FICLONERANGE)": {"ioctl"},
}  # fmt: skip

#: The same for hooks whose rows have another name.
HOOKS_BY = {
    "xstat": {"newfstatat", "stat"}, "lxstat": {"newfstatat", "lstat"}, "fxstat": {"newfstatat", "fstat"},
    "fxstatat": {"newfstatat"}, "mkfifoat": {"mknodat"}, "utimes": {"utimes", "utimensat"}, "lutimes": {"utimensat"},
    "posix_madvise": {"madvise"}, "futimes": {"utimensat"}, "futimens": {"utimensat"}, "closefrom": {"close_range"},
}  # fmt: skip

#: Calls of libc that make any number of system calls, and what their rows are called.
MANY = {
    "opendir": "opendir", "fdopendir": "fdopendir", "scandir": "scandir", "scandirat": "scandir",
    "realpath": "realpath", "realpath_chk": "realpath", "canonicalize_file_name": "realpath",
    "mkstemp": "mkstemp", "mkstemps": "mkstemp", "mkostemp": "mkstemp", "mkostemps": "mkstemp", "mkdtemp": "mkdtemp",
    "remove": "remove", "faccessat": "faccessat", "fchmodat": "fchmodat", "euidaccess": "access", "lockf": "lockf",
    "posix_fallocate": "posix_fallocate", "statvfs": "statfs", "fstatvfs": "fstatfs", "closefrom": "close_range",
}  # fmt: skip

#: Columns that can be checked against an argument of the call, and its number.
SIZE_AT = {
    "read": 2, "write": 2, "pread64": 2, "pwrite64": 2, "sendfile": 3, "copy_file_range": 4, "splice": 4, "tee": 2,
    "mmap": 1,
}  # fmt: skip
OFFSET_AT = {
    "pread64": 3, "pwrite64": 3, "preadv": 3, "pwritev": 3, "preadv2": 3, "pwritev2": 3, "mmap": 5, "ftruncate": 1,
    "truncate": 1,
}  # fmt: skip
VECTORS = {"readv", "writev", "preadv", "pwritev", "preadv2", "pwritev2"}
MOVES = {"read", "write", "pread64", "pwrite64", "sendfile", "copy_file_range", "splice", "tee"} | VECTORS
PLAIN = {"read", "write", "readv", "writev"}
#: How far ahead both sides are searched for the place where they agree again.
HORIZON = 60


@dataclass
class Result:
    """The result for one program.  Counters by reason; unexplained: the first few differences, in words."""

    strace: int = 0
    found: int = 0
    same: int = 0
    own: int = 0
    beneath: Counter[str] = field(default_factory=Counter)
    missing: Counter[str] = field(default_factory=Counter)
    extra: Counter[str] = field(default_factory=Counter)
    unexplained: list[str] = field(default_factory=list)
    excluded: Counter[str] = field(default_factory=Counter)

    def wrong(self, text: str) -> None:
        """Records a difference without a reason."""
        self.unexplained.append(text)


def compare(world: World, rows: Iterable[Row]) -> Result:
    """The calls of a recording against the rows of the log of the same run."""
    result = Result()
    theirs: dict[int, list[tuple[Seen, Site]]] = defaultdict(list)
    phases = _Phases(world)
    for seen in world.seen:
        site = callsite.site_of(seen.call.frames)
        if seen.call.name in NOT_FILES or _no_file(seen, site):
            continue
        if site.way is Way.OURS:
            result.own += 1
            continue
        result.strace += 1
        if site.way is Way.SLOT or site.way is Way.UNKNOWN:
            theirs[seen.call.tid].append((seen, site))
        else:
            reason = phases.reason(seen, site)
            if reason is None:
                result.wrong(f"no row: {_words(seen)}, {site.way.value}: {site.name}")
            else:
                result.missing[reason] += 1
    ours: dict[int, list[Row]] = defaultdict(list)
    for row in rows:
        if row["layer"] in ("posix", "stdio") and row["op"] not in PROCESSES:
            ours[row["tid"]].append(row)
            result.found += 1
    for tid in theirs.keys() | ours.keys():
        _Thread(theirs.get(tid, []), ours.get(tid, []), tid not in world.exited, result).compare()
    return result


#: As NOT_FILES, among rows.
PROCESSES = {"fork", "vfork", "posix_spawn", "execve", "wait", "waitpid", "wait3", "wait4", "waitid"}


def _no_file(seen: Seen, site: Site) -> bool:
    """Anonymous memory and device requests."""
    name = seen.call.name
    if name == "ioctl":
        return "FICLONE" not in seen.call.args[1]
    if name == "mmap":
        return seen.number is None or "MAP_ANONYMOUS" in seen.call.args[3]
    if name in ("munmap", "msync", "madvise", "mremap"):
        return not seen.mapped
    return False


def beginnings(world: World) -> dict[int, int]:
    """Where in the recording each program began to be traced: where the core opened the run's log."""
    began: dict[int, int] = {}
    for seen in world.seen:
        opens = seen.call.name == "openat"  # as it is loaded, the core looks at stderr
        if opens and seen.image not in began and callsite.is_cores(callsite.site_of(seen.call.frames)):
            began[seen.image] = seen.call.start
    return began


class _Phases:
    """Which programs were traced, and from when on."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._started = beginnings(world)
        self._python = {seen.image for seen in world.seen if (seen.path or "").endswith("/pyvenv.cfg")}

    def reason(self, seen: Seen, site: Site) -> str | None:
        """Why a call that went past the slots has no row."""
        start = self._started.get(seen.image)
        if start is None:
            if any("multiprocessing.resource_tracker import" in word for word in self._world.argv[seen.image]):
                return "the resource tracker, left alone by choice"
            return None if seen.image in self._python else "a program that is not Python"
        if seen.call.start < start:
            return "before tracing began in the process"
        if site.way in BY_WAY:
            return BY_WAY[site.way]
        return callsite.reason_past(site.name)


BY_WAY = {
    Way.LOADER: "the loader's: shared libraries",
    Way.LOADING: "in a library's constructor, while it is loaded",
    Way.NAMES: "libc's own: users, groups and hosts",
    Way.RAW: "a raw system call",
}


class _Thread:
    """One thread's calls and rows."""

    def __init__(self, calls: list[tuple[Seen, Site]], rows: list[Row], killed: bool, result: Result) -> None:
        self._calls, self._killed = calls, killed
        ordered = sorted(rows, key=lambda row: (row["time"], row["id"]))
        self._streams = [row for row in ordered if row["layer"] == "stdio" or row["op"] == "readdir"]
        self._rows = [row for row in ordered if row["layer"] != "stdio" and row["op"] != "readdir"]
        self._result = result

    def compare(self) -> None:
        """Fills in the result."""
        calls = list(self._in_order())
        at = row = 0
        while at < len(calls) or row < len(self._rows):
            if at == len(calls):
                self._extra(self._rows[row])
                row += 1
            elif self._excluded(calls[at][0]):
                at += 1
            elif row < len(self._rows) and _fits(*calls[at], self._rows[row]):
                at, row = self._pair(calls, at, row)
            else:
                at, row = self._apart(calls, at, row)

    def _in_order(self) -> Iterator[tuple[Seen, Site]]:
        """The calls that have a place in the order of the rows.

        A stream's are made when its buffer is empty or full, and its rows may be runs of many calls that began
        long before: what can be asked is that there is a row of that stream.
        """
        descriptors = {row["fd"] for row in self._streams}
        paths = {row["path"] for row in self._streams}
        for seen, site in self._calls:
            if not _of_stream(seen, site):
                yield seen, site
            elif self._excluded(seen):
                continue
            elif descriptors & {seen.number, None} or seen.path in paths:
                self._result.beneath[f"beneath {site.name}"] += 1
            else:
                self._result.wrong(f"no row: {_words(seen)}, beneath {site.name}")
        for row in self._streams:
            kind = "readdir" if row["op"] == "readdir" else "stdio"
            self._result.extra[f"{kind}: on a stream's buffer, beside the system calls that fill and empty it"] += 1

    def _excluded(self, seen: Seen) -> bool:
        copy = seen.call.name in ("sendfile", "splice", "tee", "copy_file_range")
        if not seen.excluded or copy:
            return False
        kind = re.match(r"/?(?:\w+:|dev/[a-z]+/?)", seen.told or "")
        name = kind[0].strip("/") if kind else ""
        self._result.missing[f"left out by kind, counted: {name}"] += 1
        self._result.excluded[name] += 1
        return True

    def _pair(self, calls: list[tuple[Seen, Site]], at: int, row: int) -> tuple[int, int]:
        seen, site = calls[at]
        if site.name not in MANY:
            self._result.same += 1
            difference = _difference(seen, self._rows[row])
            last = at + 1 == len(calls) and row + 1 == len(self._rows)
            ended = last and self._killed and self._rows[row]["duration"] is None  # by a signal, on the way back
            if difference and not ended:
                self._result.wrong(f"{_words(seen)}: {difference}")
            return at + 1, row + 1
        # A series of such calls and one of such rows: which call belongs to which row is not known, only how many.
        last = at
        while last < len(calls) and calls[last][1].name == site.name:
            self._result.beneath[f"beneath {site.name}"] += 1
            last += 1
        next_row = row
        while next_row < len(self._rows) and self._rows[next_row]["op"] == MANY[site.name]:
            next_row += 1
        self._result.same += next_row - row
        for difference in _differences([seen for seen, _ in calls[at:last]], self._rows[row:next_row]):
            self._result.wrong(f"{_words(seen)}: {difference}")
        return last, next_row

    def _apart(self, calls: list[tuple[Seen, Site]], at: int, row: int) -> tuple[int, int]:
        """The two sides differ here: goes on with the side whose next item is found sooner on the other."""
        if calls[at][0].call.restarted:
            self._missing(*calls[at])
            return at + 1, row
        for distance in range(1, HORIZON):
            if row + distance < len(self._rows) and _fits(*calls[at], self._rows[row + distance]):
                for skipped in self._rows[row : row + distance]:
                    self._extra(skipped)
                return at, row + distance
            if row < len(self._rows) and at + distance < len(calls) and _fits(*calls[at + distance], self._rows[row]):
                for seen, site in calls[at : at + distance]:
                    self._missing(seen, site)
                return at + distance, row
        self._missing(*calls[at])
        return at + 1, row

    def _missing(self, seen: Seen, site: Site) -> None:
        if self._excluded(seen):
            return
        if site.name == "syscall":
            self._result.missing["libc's syscall(): not recorded, and the process is marked"] += 1
            return
        if seen.call.restarted:
            self._result.missing["restarted by the kernel after a signal"] += 1
            return
        if seen.call.result is None:
            self._result.missing["in flight when its process ended"] += 1
            return
        self._result.wrong(f"no row: {_words(seen)}, {site.way.value}: {site.name}")

    def _extra(self, row: Row) -> None:
        if row["op"] in LIBC_ANSWERS and LIBC_ANSWERS[row["op"]](row):
            self._result.extra["answered by libc without a system call"] += 1
        else:
            self._result.wrong(f"no call: {_row_words(row)}")


#: Calls that libc may answer without a system call, and when it does.
LIBC_ANSWERS: dict[str, Callable[[Row], bool]] = {
    "fstat": lambda row: row["errno"] == errno.EBADF and row["fd"] is None,
    "posix_fallocate": lambda row: row["errno"] == errno.EINVAL,
    "realpath": lambda row: row["errno"] in (errno.EINVAL, errno.ENOENT),
    "mkstemp": lambda row: row["errno"] == errno.EINVAL,
    "mkdtemp": lambda row: row["errno"] == errno.EINVAL,
}


def _of_stream(seen: Seen, site: Site) -> bool:
    """Whether a call came from inside a call on a stream: of directory entries, or of stdio."""
    if site.way is not Way.SLOT or site.name in MANY or site.name == "syscall":
        return False
    plain = site.name.removesuffix("_chk").removesuffix("_2")
    return seen.call.name not in HOOKS_BY.get(plain, BY.get(plain, {plain}))


def _fits(seen: Seen, site: Site, row: Row) -> bool:
    """Whether a row can be this call's: the same name, on the same descriptor or path."""
    if site.name in MANY:
        return bool(row["op"] == MANY[site.name])
    if seen.call.name not in BY.get(row["op"], {row["op"]}):
        return False
    if seen.call.restarted and row["errno"] != errno.EINTR:  # it was the kernel that made the call again, not libc
        return False
    if seen.number is not None:
        return bool(row["fd"] == seen.number)
    if seen.call.name in ("munmap", "msync", "madvise", "mremap", "close_range"):
        return True
    return _path_fits(seen, row)


def _path_fits(seen: Seen, row: Row) -> bool:
    told = (seen.told or "").removesuffix("(deleted)")
    return row["path"] in (seen.path, told or None, (seen.path or "").removesuffix("(deleted)") or None)


def _difference(seen: Seen, row: Row) -> str:
    """The columns in which a row differs from its call."""
    call = seen.call
    found: list[str] = []

    def same(column: str, theirs: object, mine: object) -> None:
        if theirs != mine:
            found.append(f"{column} {theirs!r}, we have {mine!r}")

    if call.restarted:
        return ""
    if call.result is None:
        same("duration", None, row["duration"])
        return ", ".join(found)
    if row["duration"] is None:
        found.append("it came back, we have it in flight")
    same("errno", getattr(errno, call.error, call.error) if call.error else 0, row["errno"])
    if not _path_fits(seen, row) and call.name not in ("munmap", "msync", "madvise", "mremap", "close_range"):
        same("path", seen.path, row["path"])
    if call.name in ("openat", "open", "creat"):
        same("fd", None if call.error else call.result, row["fd"])
    if call.name in MOVES:
        same("bytes_moved", 0 if call.error else call.result, row["bytes_moved"])
    if call.name in SIZE_AT and call.args[SIZE_AT[call.name]].isdigit():
        same("bytes_requested", int(call.args[SIZE_AT[call.name]]), row["bytes_requested"])
    if call.name in VECTORS and "..." not in re.sub(r'"(\.\.\.)?', "", call.args[1]) and call.args[1].startswith("["):
        same("bytes_requested", sum(map(int, re.findall(r"iov_len=(\d+)", call.args[1]))), row["bytes_requested"])
    if call.name in OFFSET_AT and re.fullmatch(r"-?\d+|0x[0-9a-f]+|0", call.args[OFFSET_AT[call.name]]):
        given = int(call.args[OFFSET_AT[call.name]], 0)
        if given != -1 and not (seen.appends and call.name.startswith("pwrite")):  # those go to the end of the file
            same("file_offset", given, row["file_offset"])
    if row["op"] == "lseek" and not call.error:
        same("file_offset", call.result, row["file_offset"])
    if call.name in PLAIN and not call.error and seen.position is not None:
        same("file_offset", seen.position, row["file_offset"])
    if seen.second is not None and row["detail"]:
        same("second path", seen.second, json.loads(row["detail"]).get("to"))
    if call.name in ("sendfile", "copy_file_range", "splice"):
        source = descriptor(call.args[1 if call.name == "sendfile" else 0])[0]
        same("fd", source, row["fd"])
    return ", ".join(found)


def _differences(calls: list[Seen], rows: list[Row]) -> Iterator[str]:
    """What must agree for a series of calls beneath calls of libc that have rows."""
    opened = {seen.call.result for seen in calls if seen.call.name in ("openat", "open") and not seen.call.error}
    named = {seen.path for seen in calls if seen.path}
    errors = {getattr(errno, seen.call.error, 0) for seen in calls if seen.call.error}
    for row in rows:
        if row["op"] in ("opendir", "mkstemp") and not row["errno"]:
            if row["fd"] not in opened:
                yield f"fd one of {opened}, we have {row['fd']}"
            if row["path"] not in named:
                yield f"path one of {named}, we have {row['path']!r}"
        if row["errno"] and row["errno"] not in errors | {errno.EINVAL, errno.ENOENT, errno.ENOTDIR}:
            yield f"errno one of {errors}, we have {row['errno']}"


def _words(seen: Seen) -> str:
    call = seen.call
    answer = call.error or call.result
    return f"[{call.tid}] {call.name}({', '.join(call.args)}) = {answer} (line {call.start + 1})"


def _row_words(row: Row) -> str:
    return (
        f"[{row['tid']}] {row['op']} fd {row['fd']} {row['path']} offset {row['file_offset']} "
        f"requested {row['bytes_requested']} moved {row['bytes_moved']} errno {row['errno']} at {row['site']}"
    )
