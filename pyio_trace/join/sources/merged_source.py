"""Several logs as one: a run on several hosts, or a folder of runs.

Ids, process indexes and file numbers are shifted by a different amount for each
log, so that they stay distinct.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from pyio_trace import events
from pyio_trace.join.base.dictionaries import UnifiedDictionary
from pyio_trace.join.base.samples import Samples, collected
from pyio_trace.join.parents import ambiguous_parents
from pyio_trace.join.processes.mounts import agreed
from pyio_trace.join.sources.source import Source

if TYPE_CHECKING:
    import pyarrow as pa

#: Shift of the ids from one log to the next: no log has as many.
_SHIFT = 1 << 40


def log_of(file: int) -> int:
    """Which of the merged logs a file number is of, from 0 on."""
    return abs(file) // _SHIFT


class MergedSource:
    """See pyio_trace.join.sources.source.Source; the rows of one log follow those of another."""

    def __init__(self, sources: Sequence[Source], unreadable: Sequence[str] = ()) -> None:
        """unreadable: for each further log of the folder, why it could not be read."""
        self._sources = list(sources)
        self._unreadable = list(unreadable)
        self._unified: dict[str, UnifiedDictionary] = {}
        self._details: list[pa.Array] = []  # of each log, with the ids in them shifted
        counts = [len(source.processes()) for source in self._sources]
        self._first_process = [sum(counts[:position]) for position in range(len(counts))]

    def rows(self) -> int:
        return sum(source.rows() for source in self._sources)

    def values(self, column: str) -> pa.Array:
        return self._unify(column).values

    def batches(
        self, columns: Sequence[str], rows: int, within: tuple[int, int] | None = None
    ) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        schema = events.arrow_schema(columns)
        numbers = within or (0, sum(self.divisions()))
        end = 0
        for position, source in enumerate(self._sources):
            begin, end = end, end + sum(source.divisions())
            own = max(numbers[0], begin) - begin, min(numbers[1], end) - begin
            for batch in source.batches(columns, rows, own) if own[0] < own[1] else ():
                arrays = [
                    self._shifted(name, array, position) for name, array in zip(columns, batch.columns, strict=True)
                ]
                yield pa.RecordBatch.from_arrays(arrays, schema=schema)

    def divisions(self) -> list[int]:
        return [number for source in self._sources for number in source.divisions()]

    def processes(self) -> list[dict[str, Any]]:
        return [
            row
            | {
                "index": row["index"] + first,
                "parent": None if row["parent"] is None else row["parent"] + first,
                "started_by": None if row["started_by"] is None else row["started_by"] + position * _SHIFT,
            }
            for position, (source, first) in enumerate(zip(self._sources, self._first_process, strict=True))
            for row in source.processes()
        ]

    def mappings(self) -> list[dict[str, Any]]:
        return self._of_processes([source.mappings() for source in self._sources])

    def renames(self) -> list[dict[str, Any]]:
        return [
            row | {"file": row["file"] + position * _SHIFT}
            for position, source in enumerate(self._sources)
            for row in source.renames()
        ]

    def counters(self) -> list[dict[str, Any]]:
        return self._of_processes([source.counters() for source in self._sources])

    def _of_processes(self, tables: list[list[dict[str, Any]]]) -> list[dict[str, Any]]:
        return [
            row | {"process": None if row["process"] is None else row["process"] + first}
            for table, first in zip(tables, self._first_process, strict=True)
            for row in table
        ]

    def samples(self) -> Samples:
        each = [source.samples() for source in self._sources]
        return collected([
            Samples(part.columns | {"process": np.where(part["process"] < 0, -1, part["process"] + first)}, part.stacks)
            for part, first in zip(each, self._first_process, strict=True) if len(part)
        ])  # fmt: skip

    def attachment(self, name: str) -> str | None:
        return None

    def losses(self) -> dict[str, Any]:
        result: dict[str, Any] = {}
        for losses in (source.losses() for source in self._sources):
            for name, value in losses.items():
                result[name] = _both(name, result.get(name), value)
        if self._unreadable:
            result["unreadable_logs"] = result.get("unreadable_logs", []) + self._unreadable
        return result

    def info(self) -> dict[str, Any]:
        """The first log's, with sums over all of them, and each log's own under "logs"."""
        logs = [source.info() for source in self._sources]
        rows, size = self.rows(), sum(info["bytes"] for info in logs)
        ends = [info["end"] for info in logs]
        rings = [info["ring_since"] for info in logs if info.get("ring_since")]  # older packed logs do not have it
        return logs[0] | {
            "host": ", ".join(dict.fromkeys(info["host"] for info in logs)),
            "start": min(info["start"] for info in logs),
            "end": None if None in ends else max(ends),
            "format": "folder",
            "cores": logs[0].get("cores") if len({info["host"] for info in logs}) == 1 else None,
            "records": rows,
            "bytes": size,
            "bytes_per_operation": size / rows if rows else None,
            "file_systems": agreed([info.get("file_systems") for info in logs]),
            "lock_options": agreed([info.get("lock_options") for info in logs]),
            "ring_since": max(rings, default=None),
            "logs": logs,
        }

    def _unify(self, column: str) -> UnifiedDictionary:
        if column not in self._unified:
            values = [source.values(column) for source in self._sources]
            if column == "detail":  # details may contain ids
                values = [_with_shifted_ids(value, position * _SHIFT) for position, value in enumerate(values)]
                self._details = values
            self._unified[column] = UnifiedDictionary(values)
        return self._unified[column]

    def _shifted(self, name: str, array: pa.Array, position: int) -> pa.Array:
        import pyarrow as pa
        import pyarrow.compute as pc

        shift = position * _SHIFT
        if events.columns_of([name])[0].type == "dictionary":
            if name == "detail" and position:
                unified = self._unify(name)
                return unified.adopt(pa.DictionaryArray.from_arrays(array.indices, self._details[position]))
            return self._unify(name).adopt(array)
        if position == 0:
            return array
        if name in ("id", "parent", "request_id", "task_id"):
            return pc.add(array, shift)
        if name in ("file", "to_file"):
            return pc.add(array, pc.if_else(pc.greater(array, 0), shift, -shift))
        if name == "process":
            return pc.add(array, self._first_process[position]).cast(array.type)
        return array


def _with_shifted_ids(values: pa.Array, shift: int) -> pa.Array:
    import pyarrow as pa
    import pyarrow.compute as pc

    if not shift or not pc.any(pc.match_substring(values, ambiguous_parents.KEY)).as_py():
        return values
    return pa.array([ambiguous_parents.with_shifted_ids(text, shift) for text in values.to_pylist()], pa.string())


def _both(name: str, one: Any, other: Any) -> Any:
    """A loss of two logs together: counts and lists add up; the earlier moment; both reasons."""
    if one is None or other is None:
        return one if other is None else other
    if name == "since":
        return min(one, other)
    if name == "reason":
        return one if other in one else f"{one}; {other}"
    if name in ("raw_call_libraries", "sampler_refused", "not_in_log"):
        return sorted({*one, *other})
    return one + other
