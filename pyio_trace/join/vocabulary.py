"""What the operation numbers of one log mean.

A log brings its own operation table, so a log of a later capture core reads
the same.  Here it becomes arrays of 256 entries, so that whatever a column
asks of an operation is one array read a row.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pyio_trace import events
from pyio_trace.log import layout

#: What a row takes part in; bits of Vocabulary.traits.
PLAIN = 1  #: reads or writes at the position of its open file description, unless it gives an offset
SEEKS = 2  #: sets that position
COPIES = 4  #: moves from one descriptor to another
REFERS = 8  #: has further ids in aux or offset
HIDDEN = 16  #: internal: never a row of the table; with SEEKS: says where a position was after a gap
WRITES = 32
PLACED_OUTPUT = 128  #: a copy whose output's position stays
COUNTS = 64  #: read, write or copy: a failed one moved 0 bytes

#: Bits of Vocabulary.kernel: the kernel counts what the operation moves in /proc/PID/io, as read or as written.
KERNEL_READS = 1
KERNEL_WRITES = 2
#: Data that moves without being counted there.
_UNCOUNTED = (
    "splice", "tee", "vmsplice", "recv", "recvfrom", "recvmsg", "recvmmsg", "send", "sendto", "sendmsg", "sendmmsg",
)  # fmt: skip

#: The shape of an operation this log has no row for: nothing is known of its fields.
SHAPE_UNKNOWN = 255

_SIZED = (layout.SHAPE_FD, layout.SHAPE_FD2, layout.SHAPE_SPAN, layout.SHAPE_PATH)
_REFERRING = (layout.SHAPE_PATH2, layout.SHAPE_OPEN, layout.SHAPE_FD2, layout.SHAPE_SPAN, layout.SHAPE_DUP)
_DESCRIBED = (
    layout.SHAPE_FD, layout.SHAPE_OPEN, layout.SHAPE_FD2, layout.SHAPE_SEEK, layout.SHAPE_DUP, layout.SHAPE_TRUNC,
)  # fmt: skip
_OFFSETS = (layout.SHAPE_FD, layout.SHAPE_SEEK, layout.SHAPE_FD2, layout.SHAPE_TRUNC, layout.SHAPE_PTRUNC)


class Vocabulary:
    """names: str by number; layer, klass, shape, traits: uint8 by number;
    sized, moves, placed, has_fd, opens: whether size, result and offset are
    bytes, whether there is a descriptor, whether it is a new one; kernel: uint8,
    bits of what the kernel counts; encloses: is a span, or an opening, which a
    span may be around; followed: a parent may be found for it afterwards
    (links.py); all 256 long."""

    def __init__(self, rows: NDArray[np.void]) -> None:
        raw = [bytes(name).decode("utf-8", "backslashreplace") for name in rows["name"]]
        known = np.array([bool(name) for name in raw])
        known[0] = True
        self.names = [name if name else f"op-{number}" for number, name in enumerate(raw)]
        layers, classes = len(events.LAYERS), len(events.CLASSES)
        self.layer = np.where(known & (rows["layer"] < layers), rows["layer"], layout.POSIX).astype(np.uint8)
        self.klass = np.where(known & (rows["klass"] < classes), rows["klass"], layout.META).astype(np.uint8)
        self.klass[0] = layout.INTERNAL
        shape = np.where(known, rows["shape"], SHAPE_UNKNOWN).astype(np.uint8)
        self._placed_output = shape == layout.SHAPE_FD2_AT
        self.shape = np.where(self._placed_output, layout.SHAPE_FD2, shape).astype(np.uint8)  # else alike
        process = self.klass == layout.PROCESS
        self.sized: NDArray[np.bool_] = np.isin(self.shape, _SIZED) & ~process
        self.moves: NDArray[np.bool_] = self.sized & ~np.isin(self.klass, (layout.OPEN, layout.CLOSE))
        self.placed: NDArray[np.bool_] = np.isin(self.shape, _OFFSETS) & ~process
        self.has_fd: NDArray[np.bool_] = np.isin(self.shape, _DESCRIBED) & ~process
        self.opens: NDArray[np.bool_] = self.klass == layout.OPEN
        self.encloses: NDArray[np.bool_] = (self.shape == layout.SHAPE_SPAN) | self.opens
        apart = np.isin(self.klass, (layout.PROCESS, layout.INTERNAL))
        self.followed: NDArray[np.bool_] = (
            np.isin(self.layer, (layout.APP, layout.STDIO, layout.POSIX))
            & ~np.isin(self.shape, (layout.SHAPE_SPAN, SHAPE_UNKNOWN))
            & ~apart
        )
        self.traits = self._traits()
        self.kernel = self._kernel()

    def _kernel(self) -> NDArray[np.uint8]:
        # libc's calls beneath a stream have no rows of their own: the stream's stand for them
        counted = np.isin(self.layer, (layout.POSIX, layout.STDIO)) & ~np.isin(self.names, _UNCOUNTED)
        kernel = np.zeros(layout.MAX_OPS, np.uint8)
        kernel[counted & np.isin(self.klass, (layout.READ, layout.COPY))] |= KERNEL_READS
        kernel[counted & np.isin(self.klass, (layout.WRITE, layout.COPY))] |= KERNEL_WRITES
        return kernel

    def _traits(self) -> NDArray[np.uint8]:
        posix = self.layer == layout.POSIX
        data = np.isin(self.klass, (layout.READ, layout.WRITE, layout.COPY))
        writes = self.klass == layout.WRITE
        traits = np.zeros(layout.MAX_OPS, np.uint8)
        traits[posix & (self.shape == layout.SHAPE_FD) & (writes | (self.klass == layout.READ))] |= PLAIN
        traits[posix & (self.shape == layout.SHAPE_SEEK)] |= SEEKS
        traits[posix & (self.shape == layout.SHAPE_FD2)] |= COPIES
        traits[self._placed_output] |= PLACED_OUTPUT
        traits[np.isin(self.shape, _REFERRING)] |= REFERS
        traits[self.klass == layout.INTERNAL] |= HIDDEN
        traits[np.array([name == "(resume)" for name in self.names]) & (self.klass == layout.INTERNAL)] |= SEEKS
        traits[writes] |= WRITES
        traits[data] |= COUNTS
        return traits
