"""The columns events.ENCLOSING, worked out again from the other columns of a source.

A log that was packed without them, and a selection of operations, gets them from
the spans among its rows, as the join gets them from records.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from pyio_trace.enums import OpClass, Role
from pyio_trace.join.base.arrow_arrays import numbers, of_numbers, present
from pyio_trace.join.parents.enclosures import NESTED, Enclosures
from pyio_trace.log.sorting import find

if TYPE_CHECKING:
    import pyarrow as pa

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

_NO_TABLE = np.full(1, 2, np.uint8)  # every span is looked up


def spans_of(batch: pa.RecordBatch, at: Ints, role: NDArray[np.uint8], op_class: Ints) -> NDArray[np.void]:
    """The rows `at`, as spans: what Enclosures takes.  role, op_class: of all rows, numbers of enums."""
    spans = np.zeros(len(at), NESTED)
    spans["id"], spans["parent"] = (numbers(batch.column(name))[at] for name in ("id", "parent"))
    spans["process"], spans["role"] = numbers(batch.column("process"), -1)[at], role[at]
    moves = ((op_class == OpClass.READ) | (op_class == OpClass.WRITE)) & present(batch.column("bytes_moved"))
    spans["transfers"] = moves[at] & (role[at] == Role.REQUEST)
    return spans


def enclosures_of(spans: Sequence[NDArray[np.void]]) -> Enclosures:
    """What these spans enclose in their own processes."""
    every = np.concatenate([np.empty(0, NESTED), *spans])
    every = every[np.argsort(every["id"], kind="stable")]
    return Enclosures(_NO_TABLE, [every], _process_of(every["id"].copy(), every["process"].copy()))


def _process_of(ids: Ints, process: Ints) -> Callable[[Ints], Ints]:
    def process_of(wanted: Ints) -> Ints:
        at, known = find(ids, wanted)
        found: Ints = np.where(known, process.take(at, mode="clip") if len(process) else -1, -1)
        return found

    return process_of


def columns_of(enclosures: Enclosures, batch: pa.RecordBatch, role: NDArray[np.uint8]) -> dict[str, pa.Array]:
    """request_id, task_id and in_transfer of the rows, whose parents are in `enclosures`."""
    process = numbers(batch.column("process"), -1).astype(np.int64)
    found = enclosures.above(numbers(batch.column("parent")), process)
    request = np.where((found.request == 0) & (role == Role.REQUEST), numbers(batch.column("id")), found.request)
    return {
        "request_id": of_numbers(request, request == 0),
        "task_id": of_numbers(found.task, found.task == 0),
        "in_transfer": of_numbers(found.in_transfer),
    }
