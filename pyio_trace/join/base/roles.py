"""The role of each operation (enums.Role): how sums of time and bytes treat it.

The instrument of a span declares what it is (Target.kind), and the log's operation
table carries that.  Calls below have no spans inside; their role follows from their
class and name, and from what they work on: opening or mapping shared memory hands data
to another process, and a FIFO is waited for.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from pyio_trace.enums import CLASSES, Layer, OpClass, Role, SpanKind

#: Calls that take or release a lock, whatever their arguments.
LOCKS = ("flock", "lockf")
#: fcntl()'s commands on locks: F_SETLK, F_SETLKW, F_OFD_SETLK, F_OFD_SETLKW.
_LOCK_COMMANDS = (6, 7, 37, 38)
#: Where files are memory that processes share.
_SHARED = ("/dev/shm/", "/memfd:")
_OF_CLASS = {
    OpClass.SYNC: Role.SYNC, OpClass.MAP: Role.MAP, OpClass.PROCESS: Role.PROCESS, OpClass.INTERNAL: Role.NONE,
}  # fmt: skip
_OF_SPAN_KIND = {
    SpanKind.WAIT: Role.WAIT, SpanKind.CONTAINER: Role.CONTAINER, SpanKind.STARTING: Role.STARTING,
}  # fmt: skip


def role_of(layer: int, klass: int, kind: int, name: str) -> int:
    """The role of an operation, by its layer, class, kind of span, and name."""
    if layer < Layer.STDIO:
        return _OF_SPAN_KIND.get(kind, Role.CONTAINER if layer == Layer.USER else Role.REQUEST)
    if kind == SpanKind.WAIT:
        return Role.WAIT
    if name in LOCKS:
        return Role.LOCK
    role = _OF_CLASS.get(klass, Role.IO)
    return Role.IO if role == Role.SYNC and layer == Layer.STDIO else role  # fflush hands over to the kernel only


def lock_commands(op: NDArray[np.uint8], command: NDArray[np.uint32], fcntl: int) -> NDArray[np.int64]:
    """Which rows are of fcntl() and take or release a lock."""
    rows = np.flatnonzero(op == fcntl)
    if not len(rows):  # numpy imports much for nothing
        return rows
    return rows[np.isin(command[rows], _LOCK_COMMANDS)]


def is_shared_memory(paths: Sequence[str]) -> NDArray[np.bool_]:
    """Which of these paths lead to memory that processes share."""
    return np.array([path.startswith(_SHARED) for path in paths], np.bool_)


#: Role -> whether it counts as a call on a file if nothing that counts is around it.
LEAVES = np.isin(np.arange(Role.PROCESS + 1), (Role.IO, Role.SYNC, Role.LOCK, Role.MAP))
#: The layers that move bytes from and to files.  The calls that libc makes beneath those of a C stream have no rows
#: (docs/explanation/limits.md), so nothing counts twice.
MOVING = [Layer.STDIO, Layer.POSIX]
#: Class -> whether shared memory makes a call of it TRANSPORT.  What is read() and written there is data like any.
HANDED_OVER = ~np.isin(np.arange(len(CLASSES)), (OpClass.READ, OpClass.WRITE, OpClass.COPY, OpClass.PROCESS))
#: Class -> whether a FIFO makes the call a wait: it lasts until the other end is there, or has written.
WAITED_FOR = np.isin(np.arange(len(CLASSES)), (OpClass.OPEN, OpClass.READ, OpClass.WRITE))
