"""Whether a process of a log is still running, on the machine where the log was made.

A number means what it means in the pid namespace of its process.  From outside,
a process of another namespace is found by what /proc says of every process that
can be seen from here.  What cannot be told is taken to be running: its log must
not be packed while it writes.
"""

from __future__ import annotations

import os
from functools import cached_property
from typing import NamedTuple

import numpy as np

#: st_ino of the first pid namespace of a machine, from which all processes can be seen (PROC_PID_INIT_INO).
_FIRST = 0xEFFFFFFC


class _Seen(NamedTuple):
    """A process in a namespace below the reader's.  namespace: its st_ino; None: not allowed to know."""

    namespace: int | None
    start_time: int


class Liveness:
    """Answers for the processes of one log; it looks at /proc once."""

    def __init__(self, header: np.void) -> None:
        self._log = int(header["namespace_inode"])
        try:
            self._here = os.stat("/proc/self/ns/pid").st_ino
        except OSError:
            self._here = 0
        if not self._log or not self._here:
            self._log = self._here

    def alive(self, pid: int, start_time: int, namespace: int = 0, outer_pid: int = 0) -> bool:
        """Whether this process, and not another with its number, is running (a zombie is not).

        start_time: 0 unknown; namespace: where it counts, 0: in the log's; outer_pid: then, its number there.
        """
        if (namespace or self._log) == self._here:
            return self._is_running(pid, start_time)
        if outer_pid and self._log == self._here:
            return self._is_running(outer_pid, start_time)
        for seen in self._below.get(pid, ()):
            if seen.namespace in (None, namespace or self._log) and start_time in (0, seen.start_time):
                return True
        return self._here not in (self._log, _FIRST)

    def _is_running(self, pid: int, start_time: int) -> bool:
        found = _running(pid)
        return found is not None and start_time in (0, found)

    @cached_property
    def _below(self) -> dict[int, list[_Seen]]:
        """The running processes in namespaces below the reader's, by their numbers there."""
        found: dict[int, list[_Seen]] = {}
        for name in os.listdir("/proc"):
            if not name.isdecimal():
                continue
            start_time = _running(int(name))
            numbers = _numbers(name)
            if start_time is None or len(numbers) < 2:
                continue
            try:
                namespace: int | None = os.stat(f"/proc/{name}/ns/pid").st_ino
            except OSError:
                namespace = None
            found.setdefault(numbers[-1], []).append(_Seen(namespace, start_time))
        return found


def is_running(pid: int) -> bool:
    """Whether a process of the reader's namespace has this number, and is no zombie."""
    return _running(pid) is not None


def _running(pid: int) -> int | None:
    """The start time of a process; None: there is none of that number, or it is a zombie."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            fields = file.read().rpartition(b")")[2].split()
    except OSError:
        return None
    if len(fields) < 20 or fields[0] in (b"Z", b"X"):
        return None
    return int(fields[19])


def _numbers(name: str) -> list[int]:
    """The numbers of a process, in the reader's namespace and in each below, down to its own."""
    try:
        with open(f"/proc/{name}/status", "rb") as file:
            lines = [line for line in file if line.startswith(b"NSpid:")]
    except OSError:
        return []
    return [int(number) for number in lines[0].split()[1:]] if lines else []
