"""Processes of the program that do not trace themselves: they are older than the tracing, or an older one started them.

The workers of a pool that was made before trace() are not traced.  They get
entries in the process table, so that the log says what it lacks.  They are looked
for when tracing begins and when it ends.  A fork server does no work itself.  It
gets an entry if a process that it had started ended meanwhile, which may have
been missed.
"""

from __future__ import annotations

import os

from pyio_trace import native

#: Fields of /proc/PID/stat, counted from the state.  _CHILDREN_FAULTS: minor faults of children that were waited for.
_STATE, _CHILDREN_FAULTS, _START_TIME = 0, 8, 19
_SERVER = b".forkserver import main"
_MOST = 1024

#: Each process found; for a fork server, with the faults of the children that it has waited for.
Found = dict[int, int | None]


def enter(before: Found | None = None) -> Found:
    """Enter those that are not in the process table yet; before: what this returned when tracing began.

    With `before`, only children of the processes found then are looked at: children
    of traced processes enter themselves.  None of this is recorded.  Raises OSError
    if /proc cannot be read; what a process does not show is left out.
    """
    core, found = native.core, Found()
    if core is None or os.readlink("/proc/self") != str(os.getpid()):  # /proc is of another pid namespace
        return found
    core.suppress(True)
    try:
        known = before or {}
        waiting = [(0, pid) for pid in known] if before is not None else _with_children(os.getpid())
        for parent, pid in waiting:  # grows while it is gone through
            fields, words = _stat(pid), _read(f"/proc/{pid}/cmdline")
            if not fields or fields[_STATE] in (b"Z", b"X"):
                continue
            if len(waiting) < _MOST:
                waiting += _with_children(pid)
            found[pid] = None
            if _SERVER in words and found.get(parent) is None:  # its forks have the same command line
                found[pid] = int(fields[_CHILDREN_FAULTS])
                if found[pid] == known.get(pid, found[pid]):
                    continue
            elif pid in known:
                continue
            core.enter_found(pid, parent, int(fields[_START_TIME]), os.fsencode(_program(pid)), words)
    finally:
        core.suppress(False)
    return found


def _with_children(pid: int) -> list[tuple[int, int]]:
    return [(pid, child) for child in _children(pid)]


def _children(pid: int) -> list[int]:
    """The children of all its threads; none where the kernel does not list them (CONFIG_PROC_CHILDREN)."""
    try:
        threads = os.listdir(f"/proc/{pid}/task")
    except OSError:
        return []
    return [int(child) for thread in threads for child in _read(f"/proc/{pid}/task/{thread}/children").split()]


def _stat(pid: int) -> list[bytes]:
    return _read(f"/proc/{pid}/stat").rpartition(b")")[2].split()


def _program(pid: int) -> str:
    try:
        return os.readlink(f"/proc/{pid}/exe")
    except OSError:
        return ""


def _read(path: str) -> bytes:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return b""
    try:
        return os.read(descriptor, 1 << 16)
    except OSError:  # the process has just ended
        return b""
    finally:
        os.close(descriptor)
