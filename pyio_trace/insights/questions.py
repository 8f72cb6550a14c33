"""Finds the lines that ask for a file's size, time or status, and not just whether it exists."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pyio_trace.analysis.scan.columns import MEANING, Columns
from pyio_trace.enums import Layer, OpClass
from pyio_trace.join.base.arrow_arrays import texts_at
from pyio_trace.light_dataclass import dataclass

if TYPE_CHECKING:
    from pyio_trace.join.sources.facade import Log

Ints = NDArray[np.int64]
#: Functions that say whether a file exists, or of what kind it is.
_WHETHER = frozenset((
    "exists", "lexists", "isfile", "isdir", "islink", "is_file", "is_dir", "is_symlink", "is_mount", "ismount",
))  # fmt: skip
#: What Path.exists() and the like call.
_BENEATH = frozenset(("stat", "lstat"))
#: Different pairs of a line and a stack that are kept.
_MOST = 1 << 16


@dataclass(frozen=True)
class AskedWhat:
    """The reducer.  Its result: the lines (codes) none of whose stat calls come from a function that asks whether a
    file exists, according to their stacks."""

    columns: ClassVar[tuple[str, ...]] = (*MEANING, "op", "site", "call_stack")

    def partial(self, batch: pa.RecordBatch) -> Ints:
        columns = Columns(batch)
        asks = (columns.layer == Layer.POSIX) & (columns.kind == OpClass.META) & ~columns.of_words("op", _TESTING)
        site, stack = columns.codes("site"), columns.codes("call_stack")
        at = np.flatnonzero(asks & (site >= 0) & (stack >= 0))
        return _distinct(np.stack([site[at], stack[at]]).astype(np.int64))

    def combine(self, part: Ints, later: Ints) -> Ints:
        return _distinct(np.concatenate([part, later], axis=1))

    def finish(self, part: Ints | None, log: Log) -> frozenset[int]:
        if part is None:
            return frozenset()
        site, stack = part
        stacks, which = np.unique(stack, return_inverse=True)
        asks = np.array([_whether(text or "") for text in texts_at(log.dictionary("call_stack"), stacks)], np.bool_)
        asks = asks[which.ravel()] if len(asks) else np.zeros(len(site), np.bool_)
        return frozenset(site[~asks].tolist()) - frozenset(site[asks].tolist())


#: Calls that test a file, whoever makes them.
_TESTING = ("access", "faccessat")
#: For a rule's `needs`.
ASKED_WHAT = AskedWhat()


def _distinct(pairs: Ints) -> Ints:
    found: Ints = np.unique(pairs, axis=1)[:, :_MOST]
    return found


def _whether(stack: str) -> bool:
    """Whether the innermost frames of a folded stack ask if a file is there."""
    names = [frame.rpartition(":")[2].rpartition(".")[2] for frame in stack.split(";")[-2:]]
    return names[-1] in _WHETHER or (names[-1] in _BENEATH and names[0] in _WHETHER)
