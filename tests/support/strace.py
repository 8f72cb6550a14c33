"""What strace saw, in the words of the operations table.

A script is run once under strace, untraced by us, and once under us; both come
out as `Call`s on the files of one folder, per thread in order.  This module
owns the reading of strace's lines and the list of differences that have a
reason (docs/limits.md), each one beside what it leaves out.
"""

from __future__ import annotations

import errno
import os.path
import re
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

from tests.support.programs import Outcome, Row

#: The system calls asked for, and what each is called by the libc name a program uses for it.
PLAIN = {
    "openat": "open", "open": "open", "creat": "open", "read": "read", "write": "write", "pread64": "pread",
    "pwrite64": "pwrite", "readv": "readv", "writev": "writev", "preadv": "preadv", "pwritev": "pwritev",
    "preadv2": "preadv", "pwritev2": "pwritev", "lseek": "lseek", "close": "close", "stat": "stat", "lstat": "lstat",
    "fstat": "fstat", "newfstatat": "stat", "statx": "statx", "access": "access", "faccessat": "access",
    "faccessat2": "access", "rename": "rename", "renameat": "rename", "renameat2": "rename", "unlink": "unlink",
    "unlinkat": "unlink", "rmdir": "rmdir", "mkdir": "mkdir", "mkdirat": "mkdir", "ftruncate": "ftruncate",
    "truncate": "truncate", "fsync": "fsync", "fdatasync": "fdatasync", "copy_file_range": "copy_file_range",
    "sendfile": "sendfile", "readlink": "readlink", "readlinkat": "readlink", "symlink": "symlink",
    "symlinkat": "symlink", "link": "link", "linkat": "link", "chmod": "chmod", "fchmod": "fchmod",
    "fchmodat": "chmod", "utimensat": "utime", "mknod": "mknod", "mknodat": "mknod", "fallocate": "fallocate",
    "flock": "flock",
}  # fmt: skip

#: Names of ours that are one system call in strace's words.
OURS = {
    "openat": "open", "creat": "open", "mkstemp": "open", "opendir": "open", "fstatat": "stat", "preadv2": "preadv",
    "pwritev2": "pwritev", "renameat": "rename", "unlinkat": "unlink", "mkdirat": "mkdir", "faccessat": "access",
    "readlinkat": "readlink", "symlinkat": "symlink", "linkat": "link", "fchmodat": "chmod", "utimensat": "utime",
    "futime": "utime", "closedir": "close", "posix_fallocate": "fallocate", "remove": "unlink",
    # what libc does for these is one call on a descriptor
    "rewinddir": "lseek", "fdopendir": "fstat",
}  # fmt: skip

MOVES = {"read", "write", "pread", "pwrite", "readv", "writev", "preadv", "pwritev", "copy_file_range", "sendfile"}
SIZED = {"read", "write", "pread", "pwrite", "copy_file_range", "sendfile"}


@dataclass(frozen=True)
class Call:
    """One call, as both can tell it.  path: relative to the folder; size: asked for; moved: bytes; None: has none."""

    op: str
    path: str
    size: int | None
    moved: int | None
    errno: str | int


LINE = re.compile(r"^(?P<pid>\d+) +(?P<name>\w+)\((?P<args>.*)\) += (?P<result>-?\d+|0x[0-9a-f]+|\?)(?P<rest>.*)$")
UNFINISHED = re.compile(r"^(?P<pid>\d+) +(?P<start>\w+\(.*) <unfinished \.\.\.>$")
RESUMED = re.compile(r"^(?P<pid>\d+) +<\.\.\. \w+ resumed>(?P<rest>.*)$")
DESCRIPTOR = re.compile(r"\d+<((?:[^>\\]|\\.)*)>")
STRING = re.compile(r'"((?:[^"\\]|\\.)*)"')


def command(output: Path) -> list[str]:
    """The words before the program's: all system calls of PLAIN, in all threads, with the paths of descriptors."""
    calls = ",".join(f"?{name}" for name in PLAIN)
    return ["strace", "-f", "-qq", "-y", "-s", "4096", "-e", "signal=none", "-e", f"trace={calls}", "-o", str(output)]


def calls(output: Path, folder: Path) -> dict[int, list[Call]]:
    """strace's calls on the folder's files by thread, in the order in which they began.

    Threads are numbered in the order of their first call.
    """
    pending: dict[str, tuple[int, str]] = {}
    lines: dict[int, str] = {}
    for number, line in enumerate(output.read_text(errors="backslashreplace").splitlines()):
        if match := UNFINISHED.match(line):
            pending[match["pid"]] = (number, match["start"])
        elif match := RESUMED.match(line):
            begun, start = pending.pop(match["pid"])
            lines[begun] = f"{match['pid']} {start}{match['rest']}"
        else:
            lines[number] = line
    found: dict[int, list[Call]] = defaultdict(list)
    opened_stream: dict[str, str | None] = {}
    for number in sorted(lines):
        match = LINE.match(lines[number])
        if match is None:
            continue
        call = _call(match["name"], match["args"], match["result"], match["rest"], folder)
        if call is not None and not (call.op == "fstat" and opened_stream.get(match["pid"]) == call.path):
            found[int(match["pid"])].append(call)
        # opendir() looks at what it has opened: that fstat is libc's own
        stream = "O_NONBLOCK|O_CLOEXEC|O_DIRECTORY" in match["args"]
        opened_stream[match["pid"]] = call.path if call and stream else None
    return dict(enumerate(found.values()))


def _call(name: str, args: str, result: str, rest: str, folder: Path) -> Call | None:
    op = PLAIN[name]
    path = _path(name, args, folder)
    if path is None:
        return None
    if name == "newfstatat":
        linked = args.startswith("AT_FDCWD") and "AT_SYMLINK_NOFOLLOW" in args
        op = "fstat" if "AT_EMPTY_PATH" in args else "lstat" if linked else "stat"
    failed = result == "-1"
    error = rest.split(maxsplit=1)[0] if failed else 0
    moved = (0 if failed else int(result)) if op in MOVES else None
    size = _size(op, args) if op in SIZED else None
    return Call(op, path, size, moved, error)


def _size(op: str, args: str) -> int:
    words = args.split(", ")
    place = {"read": -1, "write": -1, "pread": -2, "pwrite": -2, "sendfile": -1, "copy_file_range": -2}[op]
    return int(words[place], 0)


def _path(name: str, args: str, folder: Path) -> str | None:
    """The first file that a call names, if it is of the folder."""
    strings = [match[1] for match in STRING.finditer(args)]
    descriptors = [match[1] for match in DESCRIPTOR.finditer(args)]
    named = name in ("open", "creat", "stat", "lstat", "access", "rename", "unlink", "rmdir", "mkdir", "truncate",
                     "readlink", "symlink", "link", "chmod", "mknod") or name.endswith("at") or name in (
                     "faccessat2", "renameat2", "statx")  # fmt: skip
    if name == "sendfile":
        descriptors = descriptors[1:]
    if name == "newfstatat" and 'AT_EMPTY_PATH' in args:
        named = False
    if named and strings:
        base = _base(args)
        path = strings[0] if strings[0].startswith("/") else f"{base or folder}/{strings[0]}"
    elif descriptors:
        path = descriptors[0]
    else:
        return None
    path = path.removesuffix(" (deleted)").removesuffix("(deleted)")
    return relative(path, folder)


def _base(args: str) -> str | None:
    match = re.match(r'(?:\d+|AT_FDCWD)<((?:[^>\\]|\\.)*)>, "', args)
    return match[1] if match else None


def relative(path: str, folder: Path) -> str | None:
    """A path as seen from the folder, None if it is outside it.  Made-up names of tempfile are all the same."""
    path = os.path.normpath(path)
    if path == str(folder):
        return "."
    inside = path[len(str(folder)) + 1 :] if path.startswith(f"{folder}/") else None
    if inside and re.fullmatch(r"#\d+", inside):  # O_TMPFILE: we have the name of the folder
        return "."
    return inside and re.sub(r"\btmp[a-z0-9_]{8}", "tmpXXXXXXXX", inside)


def ours(outcome: Outcome, folder: Path) -> dict[int, list[Call]]:
    """Our POSIX operations on the folder's files in the same words, by thread in the order of their first one."""
    threads: dict[int, list[Row]] = defaultdict(list)
    rows = [row for row in outcome.rows if row["layer"] == "posix"]
    for row in sorted(rows, key=lambda row: (row["time"], row["id"])):
        threads[row["tid"]].append(row)
    found = []
    for mine in threads.values():
        calls = [call for row in mine if (call := _of_row(row, folder)) is not None]
        if calls:
            found.append(calls)
    return dict(enumerate(found))


def _of_row(row: Row, folder: Path) -> Call | None:
    op = OURS.get(row["op"], row["op"])
    if op not in set(PLAIN.values()):
        return None
    path = relative(row["path"], folder) if row["path"] else None
    if path is None:
        return None
    moved = row["moved"] if op in MOVES else None
    size = row["size"] if op in SIZED else None
    error = errno.errorcode[row["errno"]] if row["errno"] else 0
    return Call(op, path, size, moved, error)
