"""A process as /proc shows it, read without stopping or signalling it.

Its folder is opened once.  All reads go through that descriptor, so they never
reach another process that got the number later.  Nothing here touches a path of
the process: looking at a file on a stalled file system would hang as well.
"""

from __future__ import annotations

import os
from typing import NamedTuple, Self

from pyio_trace.errors import PyioTraceError

_MOST = 1 << 22
_FOLDER = os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC
#: Clock ticks of /proc/PID/stat in a second.
_TICKS = os.sysconf("SC_CLK_TCK")


class ProcessError(PyioTraceError):
    """A process that cannot be looked at, and why."""


class Stat(NamedTuple):
    """Fields of stat.  state: a letter as ps shows it; start: clock ticks since the boot; cpu: the last one."""

    name: str
    state: str
    parent: int
    start: int
    cpu: int


class Call(NamedTuple):
    """The system call that a thread is in.  number: -1 outside of one, though asleep."""

    number: int
    arguments: tuple[int, ...]


class KernelProcess:
    """One process.  Raises ProcessError no-such-process, process-not-readable; use it in a with statement."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self._memory = -1
        self._kept: dict[str, bytes] = {}
        try:
            self._folder = os.open(f"/proc/{pid}", _FOLDER)
        except (OSError, ValueError, OverflowError):
            raise gone(pid) from None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for descriptor in (self._folder, self._memory):
            if descriptor >= 0:
                os.close(descriptor)
        self._folder = self._memory = -1

    def exists(self) -> bool:
        """Whether it is still there."""
        return bool(self.read("stat"))

    # ---- files

    def read(self, name: str, most: int = _MOST) -> bytes:
        """A file in its folder; empty if it cannot be read."""
        try:
            descriptor = os.open(name, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK, dir_fd=self._folder)
        except OSError:
            return b""
        parts: list[bytes] = []
        try:
            while most > 0 and (part := os.read(descriptor, min(most, 1 << 16))):
                parts.append(part)
                most -= len(part)
        except OSError:
            pass
        finally:
            os.close(descriptor)
        return b"".join(parts)

    def once(self, name: str) -> bytes:
        """The same, read once for all who ask."""
        if name not in self._kept:
            self._kept[name] = self.read(name)
        return self._kept[name]

    def text(self, name: str) -> str:
        """A file in its folder as text; bytes that are not UTF-8 are escaped."""
        return self.read(name).decode("utf-8", "backslashreplace")

    def link(self, name: str) -> str:
        """Where a link in its folder leads; "" if that cannot be read."""
        try:
            return os.fsdecode(os.readlink(os.fsencode(name), dir_fd=self._folder))
        except OSError:
            return ""

    def names(self, folder: str) -> list[str]:
        """The names in a folder; none if it cannot be read."""
        try:
            descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=self._folder)
        except OSError:
            return []
        try:
            return os.listdir(descriptor)
        except OSError:
            return []
        finally:
            os.close(descriptor)

    def may_be_read(self) -> bool:
        """Whether the kernel shows us what its threads do."""
        try:
            os.close(os.open("syscall", os.O_RDONLY | os.O_CLOEXEC, dir_fd=self._folder))
        except PermissionError:
            return False
        except OSError:
            return True
        try:
            os.readlink("exe", dir_fd=self._folder)
        except PermissionError:
            return False
        except OSError:  # a kernel thread, or a process that is about to end
            pass
        return True

    def memory(self, at: int, length: int) -> bytes:
        """The bytes at an address; fewer or none if they cannot be read."""
        try:
            if self._memory < 0:
                self._memory = os.open("mem", os.O_RDONLY | os.O_CLOEXEC, dir_fd=self._folder)
            return os.pread(self._memory, length, at)
        except (OSError, OverflowError):
            return b""

    def string(self, at: int) -> str:
        """A path in its memory, up to its NUL; "" if it cannot be read."""
        room = 4096 - at % 4096
        read = self.memory(at, room)
        if b"\0" not in read:
            read += self.memory(at + room, 4096)
        return os.fsdecode(read.partition(b"\0")[0]) if b"\0" in read else ""

    # ---- what they say

    def threads(self) -> list[int]:
        """The numbers of its threads, the main one first."""
        found = sorted(int(name) for name in self.names("task") if name.isdecimal())
        return sorted(found, key=lambda tid: tid != self.pid)

    def stat(self, tid: int | None = None) -> Stat | None:
        """What stat says of it, or of one of its threads; None: it is gone."""
        read = self.read("stat" if tid is None else f"task/{tid}/stat")
        name, closed, rest = read.partition(b"(")[2].rpartition(b")")
        fields = rest.split()
        if not closed or len(fields) < 37:
            return None
        text = name.decode("utf-8", "backslashreplace")
        return Stat(text, fields[0].decode(), int(fields[1]), int(fields[19]), int(fields[36]))

    def call(self, tid: int) -> Call | None:
        """The system call that a thread is in; None: it runs, or that cannot be read."""
        words = self.read(f"task/{tid}/syscall").split()
        if not words or not words[0].lstrip(b"-").isdigit():
            return None
        return Call(int(words[0]), tuple(int(word, 16) for word in words[1:7]) if len(words) >= 9 else ())

    def command(self) -> list[str]:
        """The words of its command line; none of a kernel thread or a zombie."""
        read = self.once("cmdline")
        return [word.decode("utf-8", "backslashreplace") for word in read.split(b"\0")[:-1]]

    def numbers(self, tid: int | None = None) -> list[int]:
        """Its number, or a thread's, in our pid namespace and in each below, down to its own."""
        read = self.read("status" if tid is None else f"task/{tid}/status")
        line = next((line for line in read.splitlines() if line.startswith(b"NSpid:")), b"")
        return [int(word) for word in line.split()[1:]] or [self.pid if tid is None else tid]

    def age(self) -> int:
        """For how long it has existed, ns; 0 if it is gone."""
        found = self.stat()
        if found is None:
            return 0
        with open("/proc/uptime", "rb") as file:
            up = float(file.read().split()[0])
        return max(int((up - found.start / _TICKS) * 1e9), 0)

    def children(self) -> list[int]:
        """The numbers of its children that have not been waited for."""
        found: set[int] = set()
        for tid in self.threads():
            found.update(map(int, self.read(f"task/{tid}/children").split()))
        return sorted(found) or [pid for pid, parent in _parents().items() if parent == self.pid]


def _parents() -> dict[int, int]:
    """Process -> its parent, on a kernel that does not list children."""
    if os.path.exists("/proc/thread-self/children"):
        return {}
    found = {}
    for name in os.listdir("/proc"):
        if name.isdecimal():
            try:
                with open(f"/proc/{name}/stat", "rb") as file:
                    found[int(name)] = int(file.read().rpartition(b")")[2].split()[1])
            except (OSError, IndexError):
                continue
    return found


def gone(pid: int) -> ProcessError:
    """The error for a process that is not there."""
    return ProcessError("no-such-process", f"there is no process {pid}; check the number")


def refused(pid: int) -> ProcessError:
    """The error for a process that we may not look at."""
    return ProcessError(
        "process-not-readable", f"process {pid} may not be examined from here; run this as its user, or as root"
    )
