"""Who holds the lock that a process waits for: /proc/locks names them."""

from __future__ import annotations

from typing import NamedTuple


class FileLock(NamedTuple):
    """A lock on a file.  kind: "FLOCK", "POSIX", "OFDLCK" or "LEASE"; access: "READ" or "WRITE"; pid: who took it, 0:
    that is not known here; inode: of the file."""

    kind: str
    access: str
    pid: int
    inode: int


def holders_of(pid: int, kind: str, inode: int) -> list[FileLock]:
    """The locks that a process waits for, of one kind, on a file; inode 0: on any.  Empty: nobody on this machine."""
    found = []
    for holder, waiting in _waits():
        of_process = waiting.pid == pid or waiting.pid <= 0
        if waiting.kind == kind and of_process and inode in (0, waiting.inode) and holder not in found:
            found.append(holder)
    return found


def _waits() -> list[tuple[FileLock, FileLock]]:
    """(the lock, one that waits for it) of all waits."""
    try:
        with open("/proc/locks", "rb") as file:
            lines = file.read(1 << 24).decode("ascii", "replace").splitlines()
    except OSError:
        return []
    found: list[tuple[FileLock, FileLock]] = []
    holder: FileLock | None = None
    for line in lines:
        words = line.split()[1:]
        waits = words[:1] == ["->"]
        lock = _lock(words[waits:])
        if lock is None:
            continue
        if not waits:
            holder = lock
        elif holder is not None:
            found.append((holder, lock))
    return found


def _lock(words: list[str]) -> FileLock | None:
    if len(words) < 5:
        return None
    inode = words[4].rpartition(":")[2]
    pid = words[3].lstrip("-")
    if not inode.isdecimal() or not pid.isdecimal():
        return None
    return FileLock(words[0], words[2], max(int(words[3]), 0), int(inode))
