"""Another process's memory: what is mapped where, and what it contains."""

from __future__ import annotations

import os
import struct
from dataclasses import dataclass
from typing import Self

from pyio_trace.errors import PyioTraceError


class DoctorError(PyioTraceError):
    """A process that cannot be examined, and what to do about it."""


@dataclass(frozen=True)
class Area:
    """A line of /proc/PID/maps."""

    start: int
    end: int
    rights: str
    offset: int
    path: str


def areas_of(pid: int) -> list[Area]:
    """What the process has mapped.  Raises DoctorError."""
    try:
        with open(f"/proc/{pid}/maps", encoding="utf-8", errors="surrogateescape") as file:
            return [_area(line) for line in file]
    except (FileNotFoundError, ProcessLookupError):
        raise DoctorError("no-such-process", f"there is no process {pid}; check the number") from None
    except PermissionError:
        raise _refused(pid) from None


def _area(line: str) -> Area:
    where, rights, offset, _, _, *path = line.rstrip("\n").split(" ", 5)
    start, _, end = where.partition("-")
    return Area(int(start, 16), int(end, 16), rights, int(offset, 16), path[0].lstrip() if path else "")


def _refused(pid: int) -> DoctorError:
    return DoctorError(
        "process-not-readable",
        f"process {pid} may not be examined from here; run the doctor as its user, or as root",
    )


class Memory:
    """The memory of a process, for as long as this is open.  Raises DoctorError."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        try:
            self._descriptor = os.open(f"/proc/{pid}/mem", os.O_RDONLY | os.O_CLOEXEC)
        except (FileNotFoundError, ProcessLookupError):
            raise DoctorError("no-such-process", f"there is no process {pid}; check the number") from None
        except OSError:
            raise _refused(pid) from None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._descriptor)

    def read(self, at: int, length: int) -> bytes:
        """The bytes at an address; fewer or none if they are not mapped."""
        try:
            return os.pread(self._descriptor, length, at)
        except PermissionError:
            raise _refused(self._pid) from None
        except (OSError, OverflowError):
            return b""

    def word(self, at: int) -> int | None:
        """The pointer at an address; None if nothing is mapped there."""
        raw = self.read(at, 8)
        return int(struct.unpack("<Q", raw)[0]) if len(raw) == 8 else None
