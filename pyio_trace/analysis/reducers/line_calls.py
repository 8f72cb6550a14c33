"""Calls summed by process, source line, path and operation."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pyio_trace.analysis.scan.columns import MEANING, Columns
from pyio_trace.analysis.sums.grouped_sums import GroupedSums
from pyio_trace.analysis.view_sums.call_table import CallTable
from pyio_trace.enums import CLASSES, LAYERS, ROLES, Layer, OpClass
from pyio_trace.light_dataclass import dataclass

if TYPE_CHECKING:
    from pyio_trace.join.sources.facade import Log

Ints = NDArray[np.int64]
_VALUES = {"calls": "sum", "time": "sum", "moved": "sum", "outer": "sum", "first": "min", "last": "max"}
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
        *MEANING, "id", "request_id", "time", "duration", "op", "process", "path", "bytes_moved", "errno", "site",
        "in_import",
    )  # fmt: skip

    def partial(self, batch: pa.RecordBatch) -> GroupedSums:
        sums, columns = _sums(), Columns(batch)
        at = np.flatnonzero((columns.layer != Layer.USER) & (columns.kind != OpClass.PROCESS))
        if not len(at):
            return sums
        ids, request = columns.numbers("id")[at], columns.numbers("request_id")[at]
        duration = columns.duration[at]
        found: dict[str, NDArray[Any]] = {
            "process": columns.numbers("process", -1)[at],
            "site": columns.codes("site")[at], "path": columns.codes("path")[at], "op": columns.codes("op")[at],
            "what": _packed(
                layer=columns.layer[at], kind=columns.kind[at], role=columns.role[at],
                errno=np.clip(columns.numbers("errno")[at], 0, _ERRNO_MOST), inside=(request != 0) & (request != ids),
                imported=(columns.imported | columns.truths("in_import"))[at],
            ),
            "calls": columns.calls[at], "time": duration, "moved": columns.moved[at],
            "outer": duration * columns.outer[at], "first": columns.time[at], "last": columns.end[at],
        }  # fmt: skip
        sums.add(found)
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
