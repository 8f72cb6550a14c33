"""Calls summed by process, source line, path and operation."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pyio_trace.analysis.scan.batch_rows import addable, places
from pyio_trace.analysis.sums.grouped_sums import GroupedSums
from pyio_trace.analysis.view_sums.call_table import CallTable
from pyio_trace.enums import CLASSES, LAYERS, ROLES, Layer, OpClass, Role
from pyio_trace.join.base.arrow_arrays import codes, numbers, truths
from pyio_trace.join.base.roles import LEAVES
from pyio_trace.light_dataclass import dataclass

if TYPE_CHECKING:
    from pyio_trace.join.sources.facade import Log

Ints = NDArray[np.int64]
_VALUES = {"calls": "sum", "time": "sum", "moved": "sum", "outer": "sum", "first": "min", "last": "max"}
_LATEST = 1 << 62
#: A key that stands for an error number beyond those of any system.
_ERRNO_MOST = 1 << 12
#: Keys of few values, and how many each has: they are summed as one, "what", which takes less time and memory.
_FEW = {
    "layer": len(LAYERS), "kind": len(CLASSES), "role": len(ROLES), "errno": _ERRNO_MOST + 1,
    "inside": 2, "imported": 2,
}  # fmt: skip
_KEYS = ("process", "site", "path", "op", "what")
#: Sums that are kept.  Beyond, those of the fewest calls are added up without their paths, down to half of it.
MOST = 1 << 21


@dataclass(frozen=True)
class LineCalls:
    """The reducer.

    Of CallTable's keys: site, path and op are codes of the log's dictionaries (-1: none); layer, kind (class) and role
    are numbers of enums; inside: 1 if a request is around the call; imported: 1 if an import made it.  Starts of
    programs and user spans are left out.
    """

    columns: ClassVar[tuple[str, ...]] = (
        "id", "request_id", "time", "duration", "layer", "op", "op_class", "op_role", "process", "path",
        "bytes_moved", "errno", "site", "calls", "imported", "in_import",
    )  # fmt: skip

    def partial(self, batch: pa.RecordBatch) -> GroupedSums:
        sums = _sums()
        layer, kind = places(batch, "layer", LAYERS), places(batch, "op_class", CLASSES)
        at = np.flatnonzero((layer != Layer.USER) & (kind != OpClass.PROCESS))
        if not len(at):
            return sums
        role = places(batch, "op_role", ROLES)[at]
        ids, request = numbers(batch["id"])[at], numbers(batch["request_id"])[at]
        time = np.clip(numbers(batch["time"])[at], -_LATEST, _LATEST)
        duration = addable(numbers(batch["duration"])[at])
        outer = np.where(role == Role.REQUEST, request == ids, LEAVES.take(role) & (request == 0))
        columns: dict[str, NDArray[Any]] = {
            "process": numbers(batch["process"], -1)[at],
            "site": codes(batch["site"])[at], "path": codes(batch["path"])[at], "op": codes(batch["op"])[at],
            "what": _packed(
                layer=layer[at], kind=kind[at], role=role, errno=np.clip(numbers(batch["errno"])[at], 0, _ERRNO_MOST),
                inside=(request != 0) & (request != ids),
                imported=(truths(batch["imported"]) | truths(batch["in_import"]))[at],
            ),
            "calls": addable(numbers(batch["calls"]).astype(np.int64)[at]), "time": duration,
            "moved": addable(numbers(batch["bytes_moved"])[at]), "outer": np.where(outer, duration, 0),
            "first": time, "last": np.minimum(time, _LATEST - (1 << 57)) + duration,
        }  # fmt: skip
        sums.add({name: values.astype(np.int64) for name, values in columns.items()})
        return sums

    def combine(self, part: GroupedSums, later: GroupedSums) -> GroupedSums:
        part.update(later)
        return part

    def finish(self, part: GroupedSums | None, log: Log) -> CallTable:
        sums = part or _sums()
        columns = sums.columns()
        what = columns.pop("what")
        for name, size in reversed(_FEW.items()):
            what, columns[name] = np.divmod(what, size)
        words = {name: log.dictionary(name) for name in ("site", "path", "op")}
        return CallTable(columns, words, log.own_code(), sums.dropped)


def _sums() -> GroupedSums:
    return GroupedSums(_KEYS, _VALUES, MOST, {"path": -1})


def _packed(**values: NDArray[Any]) -> Ints:
    """The values of the keys in _FEW as one number."""
    what = np.zeros(len(values["layer"]), np.int64)
    for name, size in _FEW.items():
        what *= size
        what += values[name]
    return what


REDUCER = LineCalls
