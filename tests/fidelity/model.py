"""What POSIX says must happen: names, files, descriptions, positions and sizes, and the rows that the log must have.

The model answers each step before it is made: what the call returns, and its row.  That its answers are right is
tested too: the program, untraced, must return the same.
"""

from __future__ import annotations

import errno
import os
from dataclasses import dataclass, field

#: Stands for an offset that the log need not know but must not have wrong.
EXACT, EXACT_OR_NULL, ANY = "exact", "exact or null", "any"


@dataclass(eq=False)
class File:
    """size_known: from the log (docs/explanation/limits.md, "Appends").  links: how many names."""

    number: int
    size: int = 0
    size_known: bool = False
    links: int = 1


@dataclass(eq=False)
class Description:
    """An open file description.  sure: its position can be known from the log."""

    file: File
    access: int
    appends: bool
    position: int = 0
    sure: bool = True

    @property
    def reads(self) -> bool:
        return self.access != os.O_WRONLY

    @property
    def writes(self) -> bool:
        return self.access != os.O_RDONLY


@dataclass(frozen=True)
class Handle:
    """A descriptor of a process: its description, and the name that was opened."""

    description: Description
    name: str


@dataclass
class Row:
    """A row that the log must have.  process: how many forks deep and which; file: number of the File, None: any."""

    ops: tuple[str, ...]
    process: int
    thread: bool
    path: str
    slot: int | None = None
    file: int | None = None
    offset: int | None = None
    trust: str = ANY
    size: int | None = None
    moved: int | None = None
    errno: int = 0
    to: str | None = None


@dataclass
class Model:
    """The world of one process; a forked child's shares files and descriptions with its parent's."""

    process: int = 0
    names: dict[str, File] = field(default_factory=dict)
    handles: dict[int, Handle] = field(default_factory=dict)
    rows: list[Row] = field(default_factory=list)
    files: list[File] = field(default_factory=list)
    counters: dict[str, int] = field(default_factory=lambda: {"slot": 0, "process": 0})
    thread: bool = False

    def forked(self) -> Model:
        """The child's world."""
        self.counters["process"] += 1
        return Model(self.counters["process"], self.names, dict(self.handles), self.rows, self.files, self.counters)

    def slot(self) -> int:
        """A name for one more descriptor."""
        self.counters["slot"] += 1
        return self.counters["slot"]

    def _row(self, *ops: str, path: str, **columns: object) -> Row:
        row = Row(ops, self.process, self.thread, path, **columns)  # type: ignore[arg-type]
        self.rows.append(row)
        return row

    def _fd_row(self, *ops: str, slot: int, **columns: object) -> Row:
        handle = self.handles[slot]
        return self._row(*ops, path=handle.name, slot=slot, file=handle.description.file.number, **columns)

    def _fails(self, row: Row, error: int) -> str:
        row.errno, row.trust = error, ANY
        if row.moved is not None:
            row.moved = 0
        return f"errno {error}"

    # ---- names

    def open(self, slot: int, name: str, flags: int) -> object:
        """Opens a name."""
        row = self._row("open", path=name)
        file = self.names.get(name)
        if file is None and not flags & os.O_CREAT:
            return self._fails(row, errno.ENOENT)
        if file is not None and flags & os.O_CREAT and flags & os.O_EXCL:
            return self._fails(row, errno.EEXIST)
        if file is None:
            file = self.names[name] = File(len(self.files), size_known=bool(flags & (os.O_EXCL | os.O_TRUNC)))
            self.files.append(file)
        elif flags & os.O_TRUNC:
            file.size, file.size_known = 0, True
        elif flags & os.O_CREAT:
            file.size_known = False  # it could have been removed and made anew
        self.handles[slot] = Handle(Description(file, flags & os.O_ACCMODE, bool(flags & os.O_APPEND)), name)
        row.slot, row.file = slot, file.number
        return "fd"

    def rename(self, name: str, to: str) -> object:
        """Gives a file another name."""
        row = self._row("rename", path=name, to=to)
        file = self.names.get(name)
        if file is None:
            return self._fails(row, errno.ENOENT)
        old = self.names.get(to)
        if old is not file:
            if old is not None:
                old.links -= 1
            self.names[to] = self.names.pop(name)
        return None

    def link(self, name: str, to: str) -> object:
        """Gives a file one more name."""
        row = self._row("link", "linkat", path=name, to=to)
        if name not in self.names:
            return self._fails(row, errno.ENOENT)
        if to in self.names:
            return self._fails(row, errno.EEXIST)
        self.names[to] = self.names[name]
        self.names[to].links += 1
        return None

    def unlink(self, name: str) -> object:
        """Removes a name."""
        row = self._row("unlink", path=name)
        if name not in self.names:
            return self._fails(row, errno.ENOENT)
        self.names.pop(name).links -= 1
        return None

    def stat(self, name: str) -> object:
        """The size of a name's file."""
        row = self._row("stat", "fstatat", path=name)
        return self.names[name].size if name in self.names else self._fails(row, errno.ENOENT)

    def truncate(self, name: str, length: int) -> object:
        """Sets a size by name."""
        row = self._row("truncate", path=name, offset=length, trust=EXACT)
        if name not in self.names:
            return self._fails(row, errno.ENOENT)
        self.names[name].size = length
        for file in self.files:  # which file a name is, the log knows only where no name was ever changed
            file.size_known = False
        return None

    # ---- descriptors

    def dup(self, slot: int, source: int) -> object:
        """One more descriptor."""
        self._fd_row("dup", slot=source)
        self.handles[slot] = self.handles[source]
        return "fd"

    def dup2(self, slot: int, source: int, over: int) -> object:
        """A descriptor in place of another, whose slot ends."""
        self._fd_row("dup2", "dup3", slot=source)
        handle = self.handles[source]
        del self.handles[over]
        self.handles[slot] = handle
        return "fd"

    def close(self, slot: int) -> object:
        """Ends a descriptor."""
        self._fd_row("close", slot=slot)
        del self.handles[slot]
        return None

    def fstat(self, slot: int) -> object:
        """The size of an open file."""
        self._fd_row("fstat", slot=slot)
        return self.handles[slot].description.file.size

    # ---- data

    def _read(self, row: Row, slot: int, position: int, wanted: int) -> int | str:
        here = self.handles[slot].description
        if not here.reads:
            return self._fails(row, errno.EBADF)
        row.moved = max(0, min(wanted, here.file.size - position))
        return row.moved

    def _write(self, row: Row, slot: int, position: int, count: int) -> int | str:
        here = self.handles[slot].description
        if not here.writes:
            return self._fails(row, errno.EBADF)
        row.moved = count
        if count:
            here.file.size = max(here.file.size, position + count)
        return count

    def _plain(self, op: str, slot: int, count: int) -> object:
        here = self.handles[slot].description
        row = self._fd_row(op, slot=slot, size=count, moved=0)
        if op.startswith("read"):
            row.offset, row.trust = here.position, EXACT if here.sure else EXACT_OR_NULL
            result = self._read(row, slot, here.position, count)
        else:
            if here.appends and here.writes and count:
                here.position, here.sure = here.file.size, here.file.size_known
            row.offset, row.trust = here.position, EXACT if here.sure else EXACT_OR_NULL
            result = self._write(row, slot, here.position, count)
            if here.appends and not count:
                row.trust = ANY  # nothing was written anywhere
        if not isinstance(result, str):
            here.position += result
        return result

    def read(self, slot: int, count: int) -> object:
        """Reads at the position."""
        return self._plain("read", slot, count)

    def write(self, slot: int, count: int) -> object:
        """Writes at the position."""
        return self._plain("write", slot, count)

    def readv(self, slot: int, counts: list[int]) -> object:
        """Reads into several buffers."""
        return self._plain("readv", slot, sum(counts))

    def writev(self, slot: int, counts: list[int]) -> object:
        """Writes from several buffers."""
        return self._plain("writev", slot, sum(counts))

    def _placed(self, ops: tuple[str, ...], slot: int, count: int, position: int) -> object:
        here = self.handles[slot].description
        row = self._fd_row(*ops, slot=slot, size=count, moved=0, offset=position, trust=EXACT)
        if ops[0].startswith("pread"):
            return self._read(row, slot, position, count)
        if here.appends:  # on Linux, O_APPEND wins over the position given (pwrite(2), BUGS)
            position = row.offset = here.file.size
            row.trust = ANY if not count else EXACT if here.file.size_known else EXACT_OR_NULL
        return self._write(row, slot, position, count)

    def pread(self, slot: int, count: int, position: int) -> object:
        """Reads at a place."""
        return self._placed(("pread",), slot, count, position)

    def pwrite(self, slot: int, count: int, position: int) -> object:
        """Writes at a place."""
        return self._placed(("pwrite",), slot, count, position)

    def preadv(self, slot: int, counts: list[int], position: int) -> object:
        """Reads at a place into several buffers."""
        return self._placed(("preadv2", "preadv"), slot, sum(counts), position)

    def pwritev(self, slot: int, counts: list[int], position: int) -> object:
        """Writes at a place from several buffers."""
        return self._placed(("pwritev2", "pwritev"), slot, sum(counts), position)

    def lseek(self, slot: int, distance: int, whence: int) -> object:
        """Sets the position."""
        here = self.handles[slot].description
        row = self._fd_row("lseek", slot=slot)
        base = {os.SEEK_SET: 0, os.SEEK_CUR: here.position, os.SEEK_END: here.file.size}[whence]
        if base + distance < 0:
            return self._fails(row, errno.EINVAL)
        here.position, here.sure = base + distance, True
        row.offset, row.trust = here.position, EXACT
        if whence == os.SEEK_END and distance == 0:
            here.file.size_known = True
        return here.position

    def ftruncate(self, slot: int, length: int) -> object:
        """Sets a size."""
        here = self.handles[slot].description
        row = self._fd_row("ftruncate", slot=slot, offset=length, trust=EXACT)
        if not here.writes:
            return self._fails(row, errno.EINVAL)
        here.file.size, here.file.size_known = length, True
        return None

    def posix_fallocate(self, slot: int, position: int, length: int) -> object:
        """Reserves blocks; the file grows to where they end."""
        here = self.handles[slot].description
        row = self._fd_row("posix_fallocate", slot=slot, offset=position, trust=EXACT, size=length)
        if not here.writes:
            return self._fails(row, errno.EBADF)
        here.file.size = max(here.file.size, position + length)
        return None

    def can_map(self, slot: int, length: int, position: int) -> bool:
        """Whether that much of the file can be mapped for writing."""
        here = self.handles[slot].description
        return here.access == os.O_RDWR and here.file.size >= position + length

    def map(self, slot: int, length: int, position: int) -> object:
        """Maps, changes, flushes, unmaps."""
        handle = self.handles[slot]
        file = handle.description.file.number
        self._row("mmap", path=handle.name, file=file, offset=position, trust=EXACT, size=length)
        self._row("msync", path=handle.name, file=file, size=length)
        self._row("munmap", path=handle.name, file=file, size=length)
        return length

    # ---- copies from file to file, never within one

    def _copy(self, op: str, source: int, target: int, count: int, given: int | None, at: int | None) -> object:
        come, go = self.handles[source].description, self.handles[target].description
        position = come.position if given is None else given
        trust = EXACT if given is not None or come.sure else EXACT_OR_NULL
        row = self._fd_row(op, slot=source, size=count, moved=0, offset=position, trust=trust)
        row.to = self.handles[target].name
        if not come.reads or not go.writes:
            return self._fails(row, errno.EBADF)
        if go.appends:
            return self._fails(row, errno.EINVAL if op == "sendfile" else errno.EBADF)
        row.moved = moved = max(0, min(count, come.file.size - position))
        place = go.position if at is None else at
        if moved:
            go.file.size = max(go.file.size, place + moved)
            if at is not None or not go.sure:
                go.file.size_known = False  # the place in the output is not in the log
        if given is None:
            come.position += moved
        if at is None:
            go.position += moved
        return moved

    def sendfile(self, target: int, source: int, position: int | None, count: int) -> object:
        """Copies from a file to the position of another."""
        return self._copy("sendfile", source, target, count, position, None)

    def copy_file_range(self, source: int, target: int, count: int, given: int | None, at: int | None) -> object:
        """Copies from a file to another."""
        return self._copy("copy_file_range", source, target, count, given, at)
