"""Several logs as one: a run over several hosts, or a folder of runs.

What numbers something within a log (ids, processes, files) is moved apart, so
that nothing of one log is taken for something of another.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from pyio_trace import events
from pyio_trace.join import candidates
from pyio_trace.join.source import Source
from pyio_trace.join.unify import Unified

if TYPE_CHECKING:
    import pyarrow as pa

#: Ids of the k-th log start at k times this: more than any one log has.
_APART = 1 << 40


class MergedSource:
    """See pyio_trace.join.source.Source; the logs' rows one after the other."""

    def __init__(self, sources: Sequence[Source], unreadable: Sequence[str] = ()) -> None:
        """unreadable: why further logs of the folder could not be read."""
        self._sources = list(sources)
        self._unreadable = list(unreadable)
        self._unified: dict[str, Unified] = {}
        self._details: list[pa.Array] = []  # each log's, with the ids in them moved
        counts = [len(source.processes()) for source in self._sources]
        self._first_process = [sum(counts[:position]) for position in range(len(counts))]

    def rows(self) -> int:
        return sum(source.rows() for source in self._sources)

    def values(self, column: str) -> pa.Array:
        return self._unify(column).values

    def batches(self, columns: Sequence[str], rows: int) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        schema = events.arrow_schema(columns)
        for position, source in enumerate(self._sources):
            for batch in source.batches(columns, rows):
                arrays = [
                    self._moved(name, array, position) for name, array in zip(columns, batch.columns, strict=True)
                ]
                yield pa.RecordBatch.from_arrays(arrays, schema=schema)

    def processes(self) -> list[dict[str, Any]]:
        return [
            row
            | {
                "index": row["index"] + first,
                "parent": None if row["parent"] is None else row["parent"] + first,
                "started_by": None if row["started_by"] is None else row["started_by"] + position * _APART,
            }
            for position, (source, first) in enumerate(zip(self._sources, self._first_process, strict=True))
            for row in source.processes()
        ]

    def mappings(self) -> list[dict[str, Any]]:
        return self._of_processes([source.mappings() for source in self._sources])

    def counters(self) -> list[dict[str, Any]]:
        return self._of_processes([source.counters() for source in self._sources])

    def _of_processes(self, tables: list[list[dict[str, Any]]]) -> list[dict[str, Any]]:
        return [
            row | {"process": None if row["process"] is None else row["process"] + first}
            for table, first in zip(tables, self._first_process, strict=True)
            for row in table
        ]

    def losses(self) -> dict[str, Any]:
        result: dict[str, Any] = {}
        for losses in (source.losses() for source in self._sources):
            for name, value in losses.items():
                result[name] = _both(name, result.get(name), value)
        if self._unreadable:
            result["unreadable_logs"] = result.get("unreadable_logs", []) + self._unreadable
        return result

    def info(self) -> dict[str, Any]:
        """That of the first log, with sums, and each log's own under "logs"."""
        logs = [source.info() for source in self._sources]
        rows, size = self.rows(), sum(info["bytes"] for info in logs)
        ends = [info["end"] for info in logs]
        rings = [info["ring_since"] for info in logs if info.get("ring_since")]  # older packed logs do not say
        return logs[0] | {
            "host": ", ".join(dict.fromkeys(info["host"] for info in logs)),
            "start": min(info["start"] for info in logs),
            "end": None if None in ends else max(ends),
            "format": "folder",
            "records": rows,
            "bytes": size,
            "bytes_per_operation": size / rows if rows else None,
            "ring_since": max(rings, default=None),
            "logs": logs,
        }

    def _unify(self, column: str) -> Unified:
        if column not in self._unified:
            values = [source.values(column) for source in self._sources]
            if column == "detail":  # ids may stand in them
                values = [_moved_details(value, position * _APART) for position, value in enumerate(values)]
                self._details = values
            self._unified[column] = Unified(values)
        return self._unified[column]

    def _moved(self, name: str, array: pa.Array, position: int) -> pa.Array:
        import pyarrow as pa
        import pyarrow.compute as pc

        apart = position * _APART
        if events.columns_of([name])[0].type == "dictionary":
            if name == "detail" and position:
                unified = self._unify(name)
                return unified.adopt(pa.DictionaryArray.from_arrays(array.indices, self._details[position]))
            return self._unify(name).adopt(array)
        if position == 0:
            return array
        if name in ("id", "parent"):
            return pc.add(array, apart)
        if name == "file":
            return pc.add(array, pc.if_else(pc.greater(array, 0), apart, -apart))
        if name == "process":
            return pc.add(array, self._first_process[position]).cast(array.type)
        return array


def _moved_details(values: pa.Array, apart: int) -> pa.Array:
    import pyarrow as pa
    import pyarrow.compute as pc

    if not apart or not pc.any(pc.match_substring(values, candidates.KEY)).as_py():
        return values
    return pa.array([candidates.moved(text, apart) for text in values.to_pylist()], pa.string())


def _both(name: str, one: Any, other: Any) -> Any:
    """A loss of two logs: counts and lists add up, the earlier moment, both reasons."""
    if one is None or other is None:
        return one if other is None else other
    if name == "since":
        return min(one, other)
    if name == "reason":
        return one if other in one else f"{one}; {other}"
    return one + other
