"""From a log to its Summary: runs the pass, then reads the figures off it."""

from __future__ import annotations

import errno as errno_names
import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from pyio_trace.analysis import cost, facts, links
from pyio_trace.analysis.ahead import read_ahead
from pyio_trace.analysis.collector import NCLASSES, NLAYERS, NROLES, OPENS, READS, WRITES, Collector
from pyio_trace.analysis.intervals import ByteRanges
from pyio_trace.analysis.rows import AHEAD, COLUMNS, MOVING, POSIX, STDIO, USER_LAYER, int64
from pyio_trace.events import CLASSES, LAYERS

if TYPE_CHECKING:
    import pyarrow as pa

    from pyio_trace.join.facade import Log

Ints = NDArray[np.int64]
TOP = 10
_METADATA = [CLASSES.index(name) for name in ("meta", "open", "close", "seek")]
_READ, _WRITE, _COPY, _PROCESS = (CLASSES.index(name) for name in ("read", "write", "copy", "process"))


def summarize(log: Log, top: int = TOP, progress: Callable[[int], None] | None = None) -> facts.Summary:
    """The Summary of an open log.

    top: how many files, lines, operations and errors to name; progress: told
    the rows of each batch when it is done.  Raises what reading the log raises.
    """
    info = log.info()
    processes = log.processes().to_pylist()
    start = int(info["start"])
    last_known = max([p["end"] for p in processes if p["end"] is not None] + [info["end"] or start, start])
    ends = np.array([int64((p["end"] or last_known) - start) for p in processes], np.int64)
    # Nothing in the log is later than this; a bound on times only, so generous where the end is not known.
    limit = max(last_known - start, 0) + (1 << 50)
    collector = Collector(start, ends, limit, lambda: log.batches(AHEAD))
    for rows in collector.add_all(read_ahead(log.batches(COLUMNS))):
        if progress is not None:
            progress(rows)
    return _Reading(log, info, processes, collector, top).summary()


class _Reading:
    """Takes the figures off a Collector that is done."""

    def __init__(
        self, log: Log, info: dict[str, Any], processes: list[dict[str, Any]], collector: Collector, top: int
    ) -> None:
        self._log, self._info, self._table, self._c, self._top = log, info, processes, collector, top
        self._start = int(info["start"])
        shape = (collector.processes, NLAYERS, NCLASSES)
        self._count = collector.by_process.count.reshape(shape)
        self._time = collector.by_process.time.reshape(shape)
        self._moved = collector.by_process.moved.reshape(shape)
        self._unions, self._last = collector.busy.finish()
        self._walls = self._lifetimes()
        self._busy = self._unions[NLAYERS] + collector.coalesced.sum(axis=1)
        known = self._walls > 0
        self._busy[known] = np.minimum(self._busy[known], self._walls[known])

    def _lifetimes(self) -> Ints:
        """ns each process lived: to its end, or to its last operation where its end was not seen."""
        walls = np.zeros(self._c.processes, np.int64)
        for index, process in enumerate(self._table):
            end = process["end"]
            last = int(self._last[index]) + self._start
            walls[index] = int64(max((last if end is None else end) - process["begin"], 0))
        return walls

    def summary(self) -> facts.Summary:
        collector = self._c
        files, sites, operations, errors = self._files(), self._sites(), self._operations(), self._errors()
        wall = int(self._walls.sum())
        counters = self._log.counters()
        if collector.summed:
            self._add_sums()
        return facts.Summary(
            run=self._run(),
            time=facts.Time(int(self._busy.sum()), wall, _share(int(self._busy.sum()), wall)),
            layers=self._layers(),
            bytes=self._bytes(),
            metadata=self._metadata(),
            imports=facts.Imports(collector.imports.count, collector.imports.time, collector.imports.bytes),
            files=files[: self._top],
            sites=sites[: self._top],
            operations=operations[: self._top],
            reads=facts.Sizes(collector.read_sizes.bins(), collector.read_sizes.common()),
            writes=facts.Sizes(collector.write_sizes.bins(), collector.write_sizes.common()),
            errors=errors[: self._top],
            in_flight=self._in_flight(),
            in_flight_count=collector.pending_count,
            processes=self._processes(),
            unseen=self._unseen(counters),
            cost=self._cost(counters, wall),
            files_count=self._files_count,
            sites_count=self._sites_count,
            failed_count=sum(collector.op_errors.values()),
            links=self._links(),
        )

    def _links(self) -> list[facts.Link]:
        if not self._c.spans:
            return []
        return links.shares(read_ahead(self._log.batches(links.COLUMNS)), self._c.spans, self._start, self._c.processes)

    def _add_sums(self) -> None:
        """The sizes of transfers that have no row of their own stand in their sums' details."""
        import pyarrow.compute as pc

        sizes = {"read": self._c.read_sizes, "write": self._c.write_sizes}
        for batch in self._log.batches(("layer", "op_class", "count", "detail")):
            found = batch.filter(pc.greater(batch["count"], 1)).to_pylist()
            for row in found:
                detail = _object(row["detail"])
                if row["layer"] == "posix" and row["op_class"] in sizes:
                    sizes[row["op_class"]].add_sum(_numbers(detail.get("sizes")), _numbers(detail.get("common_sizes")))

    def _run(self) -> facts.Run:
        info = self._info
        begins = [p["begin"] for p in self._table] or [self._start]
        ends = [begin + int(wall) for begin, wall in zip(begins, self._walls, strict=False)] or [self._start]
        return facts.Run(
            path=str(self._log.path), run=info["run"], host=info["host"],
            command=(self._table[0]["argv"] or [self._table[0]["executable"]]) if self._table else [],
            start=self._start, wall=max(ends) - min(begins),
            running=any(p["ended"] == "running" for p in self._table),
            mode=info["mode"], format=info["format"], records=self._c.rows, calls=self._c.calls,
            log_bytes=info["bytes"], bytes_per_operation=info["bytes_per_operation"],
            ring_since=info.get("ring_since"),
        )  # fmt: skip

    def _layers(self) -> list[facts.Layer]:
        rows = []
        for layer, name in enumerate(LAYERS):
            count = int(np.delete(self._count[:, layer], _PROCESS, axis=1).sum())
            if not count:
                continue
            rows.append(
                facts.Layer(
                    layer=name,
                    count=count,
                    busy=int((self._unions[layer] + self._c.coalesced[:, layer]).sum()),
                    time=int(np.delete(self._time[:, layer], _PROCESS, axis=1).sum()),
                    read=int(self._moved[:, layer, _READ].sum()),
                    written=int(self._moved[:, layer, _WRITE].sum()),
                )
            )
        return rows

    def _bytes(self) -> facts.Bytes:
        collector = self._c
        touched = ByteRanges()
        for ranges in (collector.read_ranges, collector.write_ranges):
            touched.update(ranges)
        asked_read, asked_written = collector.asked.tolist()
        below_read, below_written = collector.below.tolist()
        return facts.Bytes(
            asked_read=asked_read, asked_written=asked_written, below_read=below_read, below_written=below_written,
            posix_read=int(self._moved[:, POSIX, _READ].sum()), posix_written=int(self._moved[:, POSIX, _WRITE].sum()),
            stream_read=int(self._moved[:, STDIO, _READ].sum()),
            stream_written=int(self._moved[:, STDIO, _WRITE].sum()),
            copied=int(self._moved[:, POSIX, _COPY].sum()),
            distinct_read=collector.read_ranges.total(), distinct_written=collector.write_ranges.total(),
            distinct=touched.total(),
            read_amplification=_share(below_read, asked_read), write_amplification=_share(below_written, asked_written),
        )  # fmt: skip

    def _metadata(self) -> facts.Metadata:
        count = int(self._count[:, POSIX][:, _METADATA].sum())
        time = int(self._time[:, POSIX][:, _METADATA].sum())
        whole = int(np.delete(self._time[:, POSIX], _PROCESS, axis=1).sum())
        return facts.Metadata(count, time, _share(time, whole))

    def _files(self) -> list[facts.File]:
        sums, size = self._c.by_file, self._c.reader.files.size
        if not len(sums.count):
            self._files_count = 0
            return []
        count = sums.count[: size * NROLES].reshape(size, NROLES)
        time = sums.time[: size * NROLES].reshape(size, NROLES).sum(axis=1)
        moved = sums.moved[: size * NROLES].reshape(size, NROLES)
        there = count.sum(axis=1) > 0
        there[0] = False  # operations without a file
        self._files_count = int(there.sum())
        paths = self._c.reader.paths
        return [
            facts.File(
                path=_at(paths, int(self._c.file_path[i])) or "(name not known)",
                time=int(time[i]),
                opens=int(count[i, OPENS]),
                reads=int(count[i, READS]),
                writes=int(count[i, WRITES]),
                read=int(moved[i, READS]),
                written=int(moved[i, WRITES]),
            )
            for i in _worst(time, there, self._top)
        ]

    def _sites(self) -> list[facts.Site]:
        size = len(self._c.reader.sites) + 1
        sums = self._c.by_site
        if not len(sums.count):
            self._sites_count = 0
            return []
        count = sums.count[: size * NROLES].reshape(size, NROLES).sum(axis=1)
        time = sums.time[: size * NROLES].reshape(size, NROLES).sum(axis=1)
        moved = sums.moved[: size * NROLES].reshape(size, NROLES)
        there = count > 0
        there[0] = False  # operations without a source line
        self._sites_count = int(there.sum())
        return [
            facts.Site(
                self._c.reader.sites[i - 1], int(count[i]), int(time[i]), int(moved[i, READS]), int(moved[i, WRITES])
            )
            for i in _worst(time, there, self._top)
        ]

    def _operations(self) -> list[facts.Operation]:
        errors: dict[tuple[int, int], int] = {}
        for (op, layer, _), calls in self._c.op_errors.items():
            errors[op, layer] = errors.get((op, layer), 0) + calls
        sums = self._c.by_op
        rows = []
        there = sums.count > 0
        there[np.arange(len(there)) % NLAYERS == USER_LAYER] = False
        there[[key for key, kind in self._c.op_class.items() if kind == _PROCESS]] = False
        for i in _worst(sums.time, there, self._top):
            op, layer = divmod(i, NLAYERS)
            rows.append(
                facts.Operation(
                    LAYERS[layer],
                    self._c.reader.ops[op],
                    CLASSES[self._c.op_class[i]],
                    int(sums.count[i]),
                    int(sums.time[i]),
                    int(sums.moved[i]),
                    errors.get((op, layer), 0),
                )
            )
        return rows

    def _errors(self) -> list[facts.Failure]:
        rows = [
            facts.Failure(
                LAYERS[layer], self._c.reader.ops[op], number, errno_names.errorcode.get(number, str(number)), calls
            )
            for (op, layer, number), calls in self._c.op_errors.items()
        ]
        return sorted(rows, key=lambda row: (-row.count, row.op, row.errno))

    def _in_flight(self) -> list[facts.InFlight]:
        return [
            facts.InFlight(
                process=one.process,
                pid=self._table[one.process]["pid"] if one.process < len(self._table) else None,
                layer=LAYERS[one.layer],
                op=self._c.reader.ops[one.op],
                path=_at(self._c.reader.paths, one.path),
                site=self._c.reader.sites[one.site] if one.site >= 0 else None,
                time=one.time,
            )
            for one in self._c.pending
        ]

    def _processes(self) -> list[facts.Process]:
        gone_on = {child["parent"] for child in self._table if _is_continued(self._table, child)}
        rows = []
        for index, process in enumerate(self._table):
            if index in gone_on:
                continue  # told with what it became
            entries = _entries(self._table, index)
            wall, busy = int(self._walls[entries].sum()), int(self._busy[entries].sum())
            rows.append(
                facts.Process(
                    index=index,
                    pid=process["pid"],
                    host=process["host"],
                    command=process["argv"] or [process["executable"]],
                    wall=wall,
                    busy=busy,
                    share=_share(busy, wall),
                    calls=int(self._count[entries].sum()),
                    read=int(self._moved[entries][:, MOVING, _READ].sum()),
                    written=int(self._moved[entries][:, MOVING, _WRITE].sum()),
                    ended=process["ended"],
                    site=process["site"],
                )
            )
        return rows

    def _unseen(self, counters: pa.Table) -> facts.Unseen:
        blind: dict[str, int] = {}
        for process in self._table:
            for name in process["blind"] or ():
                blind[name] = blind.get(name, 0) + 1
        excluded: dict[str, tuple[int, int]] = {}
        for row in counters.to_pylist():
            if row["why"] == "excluded":
                calls, size = excluded.get(row["kind"], (0, 0))
                excluded[row["kind"]] = (calls + (row["count"] or 0), size + (row["bytes"] or 0))
        notes = sorted({process["note"] for process in self._table if process["note"]})
        if self._c.summed:
            notes.append(f"{self._c.summed:,} transfers are in sums of like ones: which bytes they touched is not kept")
        return facts.Unseen(self._log.losses(), blind, excluded, notes, self._mapped())

    def _mapped(self) -> list[facts.Mapped]:
        files: dict[str, list[int]] = {}
        for row in self._log.mappings().to_pylist():
            if row["path"] is not None and (row["touched"] or row["written"]):
                sums = files.setdefault(row["path"], [0, 0, 0, 0])
                for at, name in enumerate(("count", "touched", "at_least", "written")):
                    sums[at] += row[name] or 0
        largest = sorted(files.items(), key=lambda one: -one[1][1])[: self._top]
        return [facts.Mapped(path, *sums) for path, sums in largest]

    def _cost(self, counters: pa.Table, wall: int) -> facts.Cost:
        counted = sum(row["count"] or 0 for row in counters.to_pylist() if row["why"] == "counted")
        time = cost.estimate(self._c.rows, self._c.calls - self._c.rows, counted)
        return facts.Cost(time, _share(time, wall))


def _is_continued(table: list[dict[str, Any]], child: dict[str, Any]) -> bool:
    """Whether the entry before this one is of the same program, on its way from the fork or spawn to its own start."""
    parent = None if child["parent"] is None else table[child["parent"]]
    return (
        parent is not None
        and (parent["pid"], parent["host"], parent["argv"]) == (child["pid"], child["host"], child["argv"])
        and parent["start"] != "top"
    )


def _entries(table: list[dict[str, Any]], index: int) -> list[int]:
    """The entries of one program: its own, and those that only led to it."""
    entries = [index]
    while _is_continued(table, table[index]) and (index := table[index]["parent"]) not in entries:
        entries.append(index)
    return entries


def _worst(time: Ints, there: NDArray[np.bool_], top: int) -> list[int]:
    """Indexes of the `top` largest times among those that are there, the largest first."""
    at = np.flatnonzero(there)
    if len(at) > top:
        at = at[np.argpartition(-time[at], top - 1)[:top]]
    return [int(i) for i in at[np.argsort(-time[at], kind="stable")]]


def _at(paths: pa.Array, index: int) -> str | None:
    text: str | None = paths[index].as_py() if index >= 0 else None
    return text


def _object(text: str | None) -> dict[str, Any]:
    """A JSON object; of what is none, an empty one."""
    try:
        found = json.loads(text or "{}")
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _numbers(counts: object) -> dict[str, int]:
    """The part of a JSON object that counts something."""
    pairs = counts.items() if isinstance(counts, dict) else ()
    return {name: value for name, value in pairs if isinstance(value, int) and 0 <= value < 1 << 62}


def _share(part: int, whole: int) -> float | None:
    return part / whole if whole else None
