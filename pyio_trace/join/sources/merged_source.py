"""Several logs as one: a run on several hosts, or a folder of runs.

Ids, process indexes and file numbers are shifted by a different amount for each
log, so that they stay distinct.  Then files that logs of one job share get one
number (unified_files.py), and the clocks of hosts are aligned (host_clocks.py).
Of many logs only one is open at a time.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from pyio_trace import events
from pyio_trace.join.base.arrow_arrays import codes, of_numbers
from pyio_trace.join.base.identities import NOTHING, Identities
from pyio_trace.join.base.samples import Samples, collected
from pyio_trace.join.base.system import System, joined
from pyio_trace.join.parents import ambiguous_parents
from pyio_trace.join.processes.mounts import agreed
from pyio_trace.join.processes.process_names import run_of
from pyio_trace.join.sources.host_clocks import Clocks, aligned_by_run, shared_moment
from pyio_trace.join.sources.source import Source
from pyio_trace.join.sources.unified_files import FilesOfLog, Unified, jobs_of, on_shared, runs_of, unified

if TYPE_CHECKING:
    import pyarrow as pa

Ints = NDArray[np.int64]

#: Shift of the ids from one log to the next: no log has as many.
_SHIFT = 1 << 40
#: So many logs may be open at once; of more, each is closed after it was used.
MOST_OPEN = 64
_IDS = ("id", "parent", "request_id", "task_id")
_MOUNTS = ("file_systems", "lock_options")
_FILES = ("file", "to_file")
#: Moments in the process table.
_MOMENTS = ("begin", "end", "script_begin", "mpi_init_begin", "mpi_init_end")


def log_of(file: int) -> int:
    """Which of the merged logs a file number is of, from 0 on; of a file that several have, the first."""
    return abs(file) // _SHIFT


class MergedSource:
    """See pyio_trace.join.sources.source.Source; the rows of one log follow those of another."""

    def __init__(
        self,
        sources: Sequence[Source],
        unreadable: Sequence[str] = (),
        one_job: bool = False,
        left_out: Sequence[str] = (),
    ) -> None:
        """unreadable: for each further log of the folder, why it could not be read; one_job: whether all logs are of
        one job, unless they name several; left_out: files that have the name of a log and are data of another program.
        """
        self.left_out = list(left_out)
        self._sources = list(sources)
        self._unreadable = list(unreadable)
        self._values: dict[str, pa.Array] = {}
        #: By column and log: where the strings of its dictionary are among the values.
        self._places: dict[str, list[pa.Array]] = {}
        self._first_process: list[int] = []
        names, processes = [], 0
        for source in self._sources:
            rows = source.processes()
            self._first_process.append(processes)
            processes += len(rows)
            names.append(run_of(rows))
        self._infos = [source.info() for source in self._sources]
        #: The run of each log (unified_files.runs_of).
        self.runs = runs_of(self._infos, names)
        self._one_job = one_job and len(set(filter(None, self.runs))) < 2
        self._hosts = _numbers([(info["host"], info.get("boot")) for info in self._infos])
        for source in self._sources:
            self._used(source)

    def _used(self, source: Source) -> None:
        if len(self._sources) > MOST_OPEN:
            source.release()

    def rows(self) -> int:
        return sum(source.rows() for source in self._sources)

    def values(self, column: str) -> pa.Array:
        self._unify([column])
        return self._values[column]

    def batches(
        self, columns: Sequence[str], rows: int, within: tuple[int, int] | None = None
    ) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        self._unify([column.name for column in events.columns_of(columns) if column.type == "dictionary"])
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
            self._used(source)

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
            | {name: _moved(row[name], offset) for name in _MOMENTS}
            for position, (source, first, offset) in enumerate(
                zip(self._sources, self._first_process, self._clocks.offsets, strict=True)
            )
            for row in source.processes()
        ]

    def mappings(self) -> list[dict[str, Any]]:
        return self._of_processes([source.mappings() for source in self._sources])

    def renames(self) -> list[dict[str, Any]]:
        found = [(position, row) for position, source in enumerate(self._sources) for row in source.renames()]
        return [row | {"file": int(self._file(np.array([row["file"]]), position)[0])} for position, row in found]

    def counters(self) -> list[dict[str, Any]]:
        return self._of_processes([source.counters() for source in self._sources])

    def _of_processes(self, tables: list[list[dict[str, Any]]]) -> list[dict[str, Any]]:
        return [
            row | {"process": None if row["process"] is None else row["process"] + first}
            for table, first in zip(tables, self._first_process, strict=True)
            for row in table
        ]

    def samples(self) -> Samples:
        parts = []
        for source, first, offset in zip(self._sources, self._first_process, self._clocks.offsets, strict=True):
            part = source.samples()
            self._used(source)
            if len(part):
                moved = {
                    "process": np.where(part["process"] < 0, -1, part["process"] + first),
                    "time": part["time"] + offset,
                }
                parts.append(Samples(part.columns | moved, part.stacks))
        return collected(parts)

    def system(self) -> System:
        parts = []
        for source, offset in zip(self._sources, self._clocks.offsets, strict=True):
            part = source.system()
            self._used(source)
            if len(part):
                parts.append(System(part.columns | {"time": part["time"] + offset}, part.texts))
        return joined(parts)

    def stripes(self) -> dict[str, str]:
        return {path: text for source in reversed(self._sources) for path, text in source.stripes().items()}

    def identities(self) -> Identities:
        return NOTHING  # of several hosts

    def release(self) -> None:
        for source in self._sources:
            source.release()

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
        """The first log's, with sums over all of them, and each log's own under "logs".

        Of one job also files_by_path: how many files are one because of their
        path alone.  Of several hosts also clock_error: ns by which times of different hosts may be
        wrong; None: not known.
        """
        logs: list[dict[str, Any]] = [
            info | {"start": _moved(info["start"], offset), "end": _moved(info["end"], offset)}
            for info, offset in zip(self._infos, self._clocks.offsets, strict=True)
        ]
        rows, size = self.rows(), sum(info["bytes"] for info in logs)
        ends = [info["end"] for info in logs]
        rings = [info["ring_since"] for info in logs if info.get("ring_since")]  # older packed logs do not have it
        alone = len({info["host"] for info in logs}) == 1
        return (
            logs[0]
            | {
                "host": ", ".join(dict.fromkeys(info["host"] for info in logs)),
                "start": min(info["start"] for info in logs),
                "end": None if None in ends else max(ends),
                "format": "folder",
                "cores": logs[0].get("cores") if alone else None,
                "records": rows,
                "bytes": size,
                "bytes_per_operation": size / rows if rows else None,
                "file_systems": agreed([info.get("file_systems") for info in logs]),
                "lock_options": agreed([info.get("lock_options") for info in logs]),
                "ring_since": max(rings, default=None),
                "logs": [{name: value for name, value in info.items() if name not in _MOUNTS} for info in logs],
            }
            | ({} if alone else {"clock_error": self._clocks.error})
            | ({"files_by_path": self._unified.inferred} if self._one_job else {})
        )

    # ---- what the logs have in common

    def _unify(self, columns: Sequence[str]) -> None:
        """Merges the dictionaries of these columns, in one pass over the logs."""
        import pyarrow as pa

        missing = [column for column in columns if column not in self._values]
        if not missing:
            return
        parts: dict[str, list[pa.Array]] = {column: [] for column in missing}
        for position, source in enumerate(self._sources):
            for column in missing:
                values = source.values(column)
                if column == "detail":  # details may contain ids
                    values = _with_shifted_ids(values, position * _SHIFT)
                parts[column].append(values)
            self._used(source)
        for column in missing:
            encoded = pa.concat_arrays(parts[column]).dictionary_encode()
            self._values[column] = encoded.dictionary
            ends = np.cumsum([len(part) for part in parts[column]]).tolist()
            self._places[column] = [
                encoded.indices.slice(end - len(part), len(part)) for part, end in zip(parts[column], ends, strict=True)
            ]

    @cached_property
    def _unified(self) -> Unified:
        jobs = np.zeros(len(self._infos), np.int64) if self._one_job else jobs_of(self._infos, self.runs)
        alone = len(np.unique(jobs)) == len(jobs)
        if alone:
            return unified([], [], [], [])
        self._unify(["path"])
        pairs = zip(jobs.tolist(), self._hosts, strict=True)
        hosts_of_job: dict[int, set[int]] = {}
        for job, host in pairs:
            hosts_of_job.setdefault(job, set()).add(host)
        logs = [self._files_of(position, len(hosts_of_job[job]) > 1) for position, job in enumerate(jobs.tolist())]
        return unified(logs, self._hosts, jobs.tolist(), [position * _SHIFT for position in range(len(logs))])

    def _files_of(self, position: int, on_several_hosts: bool) -> FilesOfLog:
        source = self._sources[position]
        found: dict[int, int] = {}
        for batch in source.batches(("file", "path"), 1 << 20):
            file, path = (column.fill_null(0) for column in batch.columns[:1]), batch.column("path")
            files, first = np.unique(next(file).to_numpy(zero_copy_only=False), return_index=True)
            found |= dict(zip(files.tolist(), codes(path)[first].tolist(), strict=True))
        found.pop(0, None)
        own = np.array(list(found.values()), np.int64)
        values, mounts = source.values("path"), self._infos[position].get("file_systems")
        shared = np.zeros(len(own), np.bool_)
        if on_several_hosts:
            shared = on_shared([None if at < 0 else values[at].as_py() for at in own.tolist()], mounts)
        places = self._places["path"][position].to_numpy(zero_copy_only=False)
        path = np.append(places, -1)[own].astype(np.int64)
        log = FilesOfLog(np.array(list(found), np.int64), path, shared, source.identities())
        self._used(source)
        return log

    @cached_property
    def _clocks(self) -> Clocks:
        """How far the clock of each log is to be moved."""
        names = [info["host"] for info in self._infos]
        if len(set(names)) == 1:
            return Clocks([0] * len(names), 0)
        moments = []
        for source in self._sources:
            moments.append(shared_moment(source))
            self._used(source)
        return aligned_by_run(names, self.runs, moments)

    # ---- columns

    def _shifted(self, name: str, array: pa.Array, position: int) -> pa.Array:
        import pyarrow as pa
        import pyarrow.compute as pc

        if events.columns_of([name])[0].type == "dictionary":
            places = self._places[name][position]
            return pa.DictionaryArray.from_arrays(pc.take(places, array.indices), self._values[name])
        shift = position * _SHIFT
        if name in _FILES:
            missing = None if not array.null_count else array.is_null().to_numpy(zero_copy_only=False)
            numbers = self._file(array.fill_null(0).to_numpy(zero_copy_only=False), position)
            return of_numbers(numbers, missing)
        if name == "time" and (offset := self._clocks.offsets[position]):
            return pc.add(array, offset)
        if position == 0:
            return array
        if name in _IDS:
            return pc.add(array, shift)
        if name == "process":
            return pc.add(array, self._first_process[position]).cast(array.type)
        return array

    def _file(self, file: Ints, position: int) -> Ints:
        """The numbers of files of one log, among those of all."""
        shift = position * _SHIFT
        numbers: Ints = np.where(file > 0, file + shift, np.where(file < 0, file - shift, 0))
        if self._unified.numbers:
            changed, new = self._unified.numbers[position]
            if len(changed):
                at = np.minimum(np.searchsorted(changed, file), len(changed) - 1)
                numbers = np.where(changed[at] == file, new[at], numbers)
        return numbers


def _numbers(keys: Sequence[Any]) -> list[int]:
    """A number for each distinct key."""
    known: dict[Any, int] = {}
    return [known.setdefault(key, len(known)) for key in keys]


def _moved(time: int | None, offset: int) -> int | None:
    return None if time is None else min(max(time + offset, -(1 << 63)), (1 << 63) - 1)  # forged logs have any time


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
