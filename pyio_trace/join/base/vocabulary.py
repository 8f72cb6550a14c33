"""What the operation numbers of one log mean.

A log brings its own operation table (csrc/core/format/operations.c makes it), so a
log of a later capture core reads the same.  Here the table becomes arrays of
256 entries, so that a column looks an operation up by indexing an array.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pyio_trace.enums import CLASSES, LAYERS, Layer, OpClass
from pyio_trace.join.base.roles import LOCKS, role_of
from pyio_trace.log import layout
from pyio_trace.log.layout import Trait

#: The shape of an operation that the log's table does not have: nothing is known of its fields.
SHAPE_UNKNOWN = 255


class Vocabulary:
    """What each operation is, by number; all arrays are 256 long.

    names: str; layer, klass, shape, role: uint8; traits: uint16, bits of Trait up to
    HIDDEN, which are looked up for every record (with_traits() knows the others).
    """

    def __init__(self, rows: NDArray[np.void]) -> None:
        raw = [bytes(name).decode("utf-8", "backslashreplace") for name in rows["name"]]
        known = np.array([bool(name) for name in raw])
        known[0] = True
        self.names = [name if name else f"op-{number}" for number, name in enumerate(raw)]
        layers, classes = len(LAYERS), len(CLASSES)
        self.layer = np.where(known & (rows["layer"] < layers), rows["layer"], Layer.POSIX).astype(np.uint8)
        self.klass = np.where(known & (rows["klass"] < classes), rows["klass"], OpClass.META).astype(np.uint8)
        self.klass[[name in LOCKS for name in raw]] = OpClass.LOCK
        shape = np.where(known, rows["shape"], SHAPE_UNKNOWN)
        # These differ from the others in Trait.OUTPUT_STAYS only, or in where name, detail and place stand.
        shape = np.where(shape == layout.SHAPE_FD2_AT, layout.SHAPE_FD2, shape)
        #: spans whose aux has both name and detail, because their offset is a place in the file
        self.placed_spans: NDArray[np.bool_] = shape == layout.SHAPE_SPAN_AT
        self.shape = np.where(self.placed_spans, layout.SHAPE_SPAN, shape).astype(np.uint8)
        self._traits: NDArray[np.uint32] = np.where(known, rows["traits"], 0).astype(np.uint32)
        self.klass[0] = OpClass.INTERNAL
        self._traits[0] |= Trait.HIDDEN
        self.traits = self._traits.astype(np.uint16)
        #: What the kernel counts in /proc/PID/io: Trait.READS, Trait.WRITES, or both.
        self.kernel = np.where(
            self.with_traits(Trait.KERNEL_COUNTS), self.traits & (Trait.READS | Trait.WRITES), 0
        ).astype(np.uint8)
        self.sized = self.with_traits(Trait.SIZE_IS_BYTES)
        self.moves = self.with_traits(Trait.RESULT_IS_BYTES)
        self.placed = self.with_traits(Trait.OFFSET_IS_PLACE)
        self.has_fd = self.with_traits(Trait.HAS_DESCRIPTOR)
        self.opens: NDArray[np.bool_] = self.klass == OpClass.OPEN
        self.role = np.array(
            [role_of(*one) for one in zip(self.layer, self.klass, rows["span"], self.names, strict=True)], np.uint8
        )
        #: the number of fcntl(), whose command says what it does; -1: there is none
        self.fcntl = self.names.index("fcntl") if "fcntl" in self.names else -1
        #: Calls on a C stream that write out its buffer, or move the descriptor's position to where the stream is.
        self.settles_stream: NDArray[np.bool_] = (self.layer == Layer.STDIO) & np.isin(
            np.array(self.names), ("fflush", "fclose", "fcloseall", "fdopen")
        )
        self.encloses = self.with_traits(Trait.ENCLOSES)
        self.followed = self.with_traits(Trait.TAKES_PARENT)

    def with_traits(self, traits: int) -> NDArray[np.bool_]:
        """Which operations have one of these traits, by number."""
        found: NDArray[np.bool_] = (self._traits & np.uint32(traits)) != 0
        return found
