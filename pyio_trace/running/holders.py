"""Who else has a pipe, a socket, a FIFO or the device of a FUSE file system open.

One scan of all processes' descriptors answers for all that is asked.  It takes
as long as it may and no longer, and says when it has not seen everything:
other users' processes cannot be looked at.
"""

from __future__ import annotations

import os
import time
from collections.abc import Collection
from typing import NamedTuple

#: Seconds that a scan may take.
_LONGEST = 0.7


class Holder(NamedTuple):
    """A descriptor of a process.  flags: as open() takes them."""

    pid: int
    fd: int
    flags: int


class Holders:
    """The holders of some objects, by what the links in /proc/PID/fd say ("pipe:[123]", "/dev/fuse")."""

    def __init__(self, wanted: Collection[str]) -> None:
        self._found: dict[str, list[Holder]] = {target: [] for target in wanted}
        #: whether all descriptors of all processes were looked at
        self.complete = True
        if wanted:
            self._scan()

    def of(self, target: str) -> list[Holder]:
        """Who has it open."""
        return self._found.get(target, [])

    def _scan(self) -> None:
        until = time.monotonic() + _LONGEST
        for name in os.listdir("/proc"):
            if not name.isdecimal():
                continue
            if time.monotonic() > until:
                self.complete = False
                return
            folder = f"/proc/{name}/fd"
            try:
                numbers = os.listdir(folder)
            except PermissionError:
                self.complete = False
                continue
            except OSError:
                continue
            for number in numbers:
                try:
                    target = os.readlink(f"{folder}/{number}")
                except OSError:
                    continue
                if target in self._found:
                    self._found[target].append(Holder(int(name), int(number), _flags(name, number)))


def _flags(pid: str, fd: str) -> int:
    return descriptor_facts(_read(f"/proc/{pid}/fdinfo/{fd}")).get("flags", 0)


def _read(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read(1 << 16)
    except OSError:
        return b""


def descriptor_facts(text: bytes) -> dict[str, int]:
    """The numbers in a descriptor's fdinfo: flags (as open() takes them), mnt_id, ino, pos, Pid, ..."""
    found = {}
    for line in text.splitlines():
        name, _, value = line.partition(b":")
        word = value.split()[0] if value.split() else b""
        try:
            found[name.decode("ascii", "replace")] = int(word, 8 if name == b"flags" else 10)
        except ValueError:
            continue
    return found
