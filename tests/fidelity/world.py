"""What each descriptor is according to strace: names, kinds, open file descriptions and their positions.

An oracle written apart from the capture and the join: it goes over the calls one by one, in the order in which the
kernel answered them, and knows nothing of our log.
"""

from __future__ import annotations

import os.path
import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from tests.fidelity.strace import Call, Recording, arguments, descriptor, string

#: What -y says of descriptors that are not recorded by choice (docs/explanation/limits.md, "Descriptors").
EXCLUDED = re.compile(r"^(?:pipe:\[|socket:\[|anon_inode:|/dev/pts/|/dev/tty|/dev/console$|/memfd:|\w+:\[\d)")

OPENS = {"open", "openat", "openat2", "creat"}
CLONES = {"clone", "clone3", "fork", "vfork"}
READS = {"read", "readv"}
WRITES = {"write", "writev"}


@dataclass(slots=True)
class Description:
    """An open file description.  position None: not known."""

    position: int | None = None
    appends: bool = False


@dataclass(slots=True)
class Descriptor:
    """name: the path it was opened by, None if that was not seen."""

    description: Description
    name: str | None = None


@dataclass
class Process:
    """image: the program it is, by the number of the execve that began it; a forked child's is its parent's."""

    cwd: str
    table: dict[int, Descriptor] = field(default_factory=dict)
    image: int = 0
    mappings: set[int] = field(default_factory=set)


@dataclass(slots=True)
class Seen:
    """A call with the state of the world when it was made.

    path, second: absolute names; number: the descriptor; told: what strace says that it is; position: of the
    description before a plain read or write; appends: the description does; excluded: the kind is left out.
    """

    call: Call
    image: int
    path: str | None = None
    second: str | None = None
    number: int | None = None
    told: str | None = None
    position: int | None = None
    appends: bool = False
    excluded: bool = False
    mapped: bool = False


class World:
    """Replays a recording once.

    everything: what is no file is recorded as well.  argv: by image, the file executed and then its arguments;
    exited: threads that no signal ended.
    """

    def __init__(self, recording: Recording, folder: str, everything: bool = False) -> None:
        self._folder, self._everything = folder, everything
        self._parent: dict[int, tuple[int, str]] = {}
        for call in recording.calls:
            if call.name in CLONES and call.result and call.result > 0:
                self._parent[call.result] = (call.tid, " ".join(call.args))
        self._process_of: dict[int, Process] = {}
        self.argv: dict[int, list[str]] = {0: []}
        self.seen: list[Seen] = []
        self.exited = recording.exited
        self._go(recording)

    def _go(self, recording: Recording) -> None:
        events = sorted(
            [(call.start, 0, n) for n, call in enumerate(recording.calls)]
            + [(call.end, 1, n) for n, call in enumerate(recording.calls)]
        )
        seen: dict[int, Seen] = {}
        for _, ends, number in events:
            call = recording.calls[number]
            process = self._process(call.tid)
            if not ends:
                seen[number] = self._look(call, process)
                if call.name == "close":
                    process.table.pop(seen[number].number or 0, None)
            else:
                self._answer(seen[number], process)
        self.seen = [seen[number] for number in range(len(recording.calls))]

    def _process(self, tid: int) -> Process:
        found = self._process_of.get(tid)
        if found is not None:
            return found
        if tid not in self._parent:
            found = Process(self._folder)
        else:
            parent, flags = self._parent[tid]
            of = self._process(parent)
            if "CLONE_THREAD" in flags:
                found = of
            else:
                table = of.table if "CLONE_FILES" in flags else {
                    fd: Descriptor(entry.description, entry.name) for fd, entry in of.table.items()
                }  # fmt: skip
                found = Process(of.cwd, table, of.image, set(of.mappings))
        self._process_of[tid] = found
        return found

    # ---- a call begins

    def _look(self, call: Call, process: Process) -> Seen:
        seen = Seen(call, process.image)
        names = list(_names(call, process))
        if names:
            seen.path = names[0]
            seen.second = names[1] if len(names) > 1 else None
        place = _DESCRIPTOR_AT.get(call.name, 0)
        by_descriptor = not names or call.name in ("mmap",)
        if call.name == "ioctl" and "FICLONE" in call.args[1]:
            seen.number, seen.told = descriptor(call.args[2].removeprefix("{src_fd="))
        elif by_descriptor and place < len(call.args) and re.match(r"\d+(<|$)", call.args[place]):
            seen.number, seen.told = descriptor(call.args[place])
        if seen.number is not None:
            told = seen.told or ""
            entry = process.table.get(seen.number)
            seen.path = entry.name if entry and entry.name else told or None
            opened_by_path = entry is not None and entry.name is not None
            seen.excluded = bool(EXCLUDED.match(told)) and not opened_by_path and not self._everything
            seen.position = entry.description.position if entry else None
        if call.name in ("munmap", "msync", "madvise", "mremap"):
            seen.mapped = int(call.args[0], 0) in process.mappings if call.args[0].startswith("0x") else False
        return seen

    # ---- a call is answered

    def _answer(self, seen: Seen, process: Process) -> None:
        call = seen.call
        name, result = call.name, call.result
        if result is None or (result < 0 and call.error) or call.restarted:
            return
        if name in OPENS:
            flags = next((a for a in call.args[1:] if "O_" in a), "")
            if "O_TMPFILE" in flags:  # the name that the kernel has for it, here and in the log
                seen.path = call.returned.partition(">(deleted")[0] + " (deleted)"
            process.table[result] = Descriptor(Description(0, "O_APPEND" in flags), seen.path)
        elif name in ("chdir", "fchdir"):
            process.cwd = seen.path or process.cwd
        elif name == "execve":
            process.image = len(self.argv)
            process.table, process.mappings = {}, set()
            self.argv[process.image] = [string(call.args[0]) or "", *(string(a) or "" for a in _elements(call.args[1]))]
        elif name in ("dup", "dup2", "dup3") or (name == "fcntl" and "F_DUPFD" in call.args[1]):
            if seen.number is not None and seen.number != result:
                entry = process.table.get(seen.number)
                process.table[result] = (
                    Descriptor(entry.description, entry.name) if entry else Descriptor(Description())
                )
        elif name == "fcntl" and call.args[1] == "F_SETFL" and (entry := process.table.get(seen.number or 0)):
            entry.description.appends = "O_APPEND" in call.args[2]
        elif name in ("pipe", "pipe2", "socketpair"):
            for fd in re.findall(r"(\d+)<", call.args[-1 if name != "pipe2" else 0]):
                process.table.pop(int(fd), None)
        elif name in ("socket", "accept", "accept4"):
            process.table.pop(result, None)
        elif name == "close_range":
            for fd in [fd for fd in process.table if _within(fd, call.args)]:
                del process.table[fd]
        elif name == "mmap" and seen.number is not None:
            process.mappings.add(result)
        elif name == "munmap":
            process.mappings.discard(int(call.args[0], 0))
        elif name == "mremap" and seen.mapped:
            process.mappings.discard(int(call.args[0], 0))
            process.mappings.add(result)
        else:
            _move(seen, process)


def _move(seen: Seen, process: Process) -> None:
    """Positions after a read, a write, a seek or a copy."""
    call, result = seen.call, seen.call.result or 0
    name = call.name
    entry = process.table.get(seen.number if seen.number is not None else -1)
    seen.appends = entry is not None and entry.description.appends
    if name in READS | WRITES or (name in ("preadv2", "pwritev2") and call.args[3] == "-1"):
        if entry is None:
            return
        here = entry.description
        seen.position = here.position  # another thread may have been in between
        if here.appends and name not in READS | {"preadv2"}:
            seen.position = here.position = None  # the end of the file, which strace does not tell
        elif here.position is not None:
            here.position += result
    elif name == "lseek" and entry is None and seen.number is not None:
        process.table[seen.number] = Descriptor(Description(result))
    elif name == "lseek" and entry is not None:
        entry.description.position = result
    elif name == "getdents64" and entry is not None:
        entry.description.position = None
    elif name in ("sendfile", "copy_file_range", "splice"):
        places = {"sendfile": ((1, 2), (0, None)), "copy_file_range": ((0, 1), (2, 3)), "splice": ((0, 1), (2, 3))}
        for at, offset in places[name]:
            moved = process.table.get(descriptor(call.args[at])[0])
            given = offset is not None and call.args[offset] != "NULL"
            if moved is not None and not given and moved.description.position is not None:
                moved.description.position += result
                if moved.description.appends:
                    moved.description.position = None


def _elements(argument: str) -> list[str]:
    return list(arguments(argument[1:-1])) if argument.startswith("[") else []


def _within(fd: int, args: list[str]) -> bool:
    if "CLOEXEC" in args[2]:
        return False
    return int(args[0]) <= fd <= (int(args[1]) if args[1].isdigit() else 1 << 31)


#: Which argument of a call is its first descriptor, where it is not the first.
_DESCRIPTOR_AT = {"mmap": 4, "sendfile": 1}


def _names(call: Call, process: Process) -> Iterator[str]:
    """The absolute names that a call gives, in order; those of symlink: the link, then what it leads to."""
    base, target = process.cwd, None
    at_end = "AT_EMPTY_PATH" in " ".join(call.args[2:])
    for argument in call.args[:4]:
        if re.match(r"(AT_FDCWD|\d+)<", argument) or argument == "AT_FDCWD":
            number, told = descriptor(argument)
            if number == -100:
                process.cwd = base = told or process.cwd
            else:
                entry = process.table.get(number)
                base = entry.name if entry and entry.name else told.removesuffix("(deleted)")
            continue
        text = string(argument)
        if text is None or (text == "" and at_end):
            continue
        if call.name.startswith("symlink"):
            if target is not None:
                link = absolute(text, base)
                yield from (link, absolute(target, os.path.dirname(link)))
                return
            target = text
        elif call.name in NAMED:
            yield absolute(text, base)
            if call.name not in TWO:
                return


TWO = {"rename", "renameat", "renameat2", "link", "linkat", "symlink", "symlinkat"}
NAMED = TWO | {
    "open", "openat", "openat2", "creat", "stat", "lstat", "newfstatat", "statx", "access", "faccessat", "faccessat2",
    "unlink", "unlinkat", "rmdir", "mkdir", "mkdirat", "truncate", "readlink", "readlinkat", "chmod", "fchmodat",
    "fchmodat2", "chown", "lchown", "fchownat", "utime", "utimes", "utimensat", "futimesat", "mknod", "mknodat",
    "statfs", "getxattr", "lgetxattr", "setxattr", "lsetxattr", "listxattr", "llistxattr", "removexattr",
    "lremovexattr", "chdir", "chroot", "execve", "execveat", "name_to_handle_at",
}  # fmt: skip


def absolute(path: str, base: str) -> str:
    """A path from the root, without `.`, `..` and `//`."""
    if not path.startswith("/"):
        path = f"{base}/{path}"
    path = os.path.normpath(path)
    return path[1:] if path.startswith("//") else path
