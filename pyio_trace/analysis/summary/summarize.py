"""Makes the Summary of a log: scans its operations, then reads the figures from what the reducers found."""

from __future__ import annotations

import errno as errno_names
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from pyio_trace.analysis.calls import lifetimes
from pyio_trace.analysis.calls.renamed_files import present_names
from pyio_trace.analysis.reducer import Reducer, scan
from pyio_trace.analysis.results import figures, overview_figures
from pyio_trace.analysis.scan.batch_rows import POSIX, STDIO, USER_LAYER
from pyio_trace.analysis.summary import cost
from pyio_trace.analysis.summary.detail_rows import Details
from pyio_trace.analysis.summary.kept_summary import kept_summary
from pyio_trace.analysis.summary.overview import known_sum, make_overview, of_samples, wanted_details, with_wall
from pyio_trace.analysis.summary.summary_rows import SummaryReader
from pyio_trace.analysis.summary.summary_sums import SummarySums, Sums
from pyio_trace.analysis.summary.summary_times import SummaryTimes, Times
from pyio_trace.analysis.summary.unseen import IMPORT, unseen_of
from pyio_trace.analysis.summary.weaknesses import weaknesses
from pyio_trace.analysis.sums.dense_sums import NCLASSES, NLAYERS, NROLES, OPENS, READS, WRITES
from pyio_trace.enums import CLASSES, LAYERS, OpClass
from pyio_trace.join.base.roles import MOVING
from pyio_trace.join.processes.process_names import job_text, run_text, titled
from pyio_trace.log_constants import RUNNING

if TYPE_CHECKING:
    import pyarrow as pa

    from pyio_trace.analysis.scan.workers import Workers
    from pyio_trace.join.sources.facade import Log

Ints = NDArray[np.int64]
TOP = 10
_METADATA = [OpClass.META, OpClass.OPEN, OpClass.CLOSE, OpClass.SEEK]
_READ, _WRITE, _COPY, _PROCESS = OpClass.READ, OpClass.WRITE, OpClass.COPY, OpClass.PROCESS


def summarize(
    log: Log,
    top: int = TOP,
    progress: Callable[[int], None] | None = None,
    batches: Iterator[pa.RecordBatch] | None = None,
    workers: Workers | None = None,
) -> figures.Summary:
    """The Summary of an open log.

    top: how many files, lines, operations and errors to name; progress, batches,
    workers: see scan().  Raises what scan() raises.

    A large packed log has its summary, and is not scanned for it.
    """
    if batches is None and log.choice is None and top == TOP:
        kept = kept_summary(log)
        if kept is not None:
            return kept
    return summarize_with((), log, top, progress, batches, workers)[0]


def summarize_with(
    reducers: Sequence[Reducer[Any, Any]],
    log: Log,
    top: int = TOP,
    progress: Callable[[int], None] | None = None,
    batches: Iterator[pa.RecordBatch] | None = None,
    workers: Workers | None = None,
) -> tuple[figures.Summary, list[Any]]:
    """(the Summary of an open log, the result of each of these reducers), from one scan; see summarize().

    The few details that the summary parses are read afterwards, if it is known by
    then that the log has any.
    """
    table = log.processes().to_pylist()
    reader = SummaryReader(log, table)
    own: list[Reducer[Any, Any]] = [SummarySums(reader), SummaryTimes.of(reader, table)]
    sampled = of_samples(log)
    wanted_by_all = list(dict.fromkeys([*sampled, *reducers]))
    sums, times, *found = scan(log, [*own, *wanted_by_all], progress, batches, workers)
    of = dict(zip(wanted_by_all, found, strict=True))
    wall, results = (of[sampled[0]] if sampled else None), [of[one] for one in reducers]
    wanted = wanted_details(sums, log.dictionary("op").to_pylist())
    details = scan(log, [wanted], workers=workers)[0] if wanted else Details()
    summary = _SummaryMaker(log, table, sums, times, details, top).summary()
    return with_wall(summary, wall, top), results


def _error_name(number: int) -> str:
    """How an error is called; -1: an exception without a number."""
    return "exception" if number < 0 else errno_names.errorcode.get(number, str(number))


class _SummaryMaker:
    """Reads the figures from the results of the reducers."""

    def __init__(
        self, log: Log, table: list[dict[str, Any]], sums: Sums, times: Times, details: Details, top: int
    ) -> None:
        self._log, self._info, self._table, self._sums, self._top = log, log.info(), table, sums, top
        self._times, self._details = times, details
        self._start = int(self._info["start"])
        self._paths = log.dictionary("path")
        self._site_names = log.dictionary("site").to_pylist()
        self._op_names = log.dictionary("op").to_pylist()
        shape = (sums.processes, NLAYERS, NCLASSES)
        self._count = sums.by_process.count.reshape(shape)
        self._time = sums.by_process.time.reshape(shape)
        self._moved = sums.by_process.moved.reshape(shape)
        self._unions, last = times.busy.finish()
        self._walls = lifetimes.lifetimes(table, last, self._start, log.sampled().until())
        self._chosen = self._chosen_processes()
        self._busy = self._unions[NLAYERS] + times.coalesced.sum(axis=1)
        known = self._walls > 0
        self._busy[known] = np.minimum(self._busy[known], self._walls[known])

    def summary(self) -> figures.Summary:
        sums = self._sums
        files, sites, operations, errors = self._files(), self._sites(), self._operations(), self._errors()
        wall, busy = int(self._walls[self._chosen].sum()), int(self._busy.sum())
        counters = self._log.counters()
        unseen = unseen_of(self._log, self._table, sums, self._details.tasks_left_out, self._top)
        cost_of_run = self._cost(counters, wall)
        sums.read_sizes.update(self._details.reads)
        sums.write_sizes.update(self._details.writes)
        return figures.Summary(
            run=self._run(),
            time=figures.Time(busy, wall, _share(busy, wall), lifetimes.sum_is(self._table)),
            layers=self._layers(),
            bytes=self._bytes(),
            metadata=self._metadata(),
            imports=self._imports(counters),
            files=files[: self._top],
            sites=sites[: self._top],
            operations=operations[: self._top],
            reads=figures.Sizes(sums.read_sizes.bins(), sums.read_sizes.common()),
            writes=figures.Sizes(sums.write_sizes.bins(), sums.write_sizes.common()),
            errors=errors[: self._top],
            in_flight=self._in_flight(),
            in_flight_count=sums.pending_count,
            processes=self._processes(),
            unseen=unseen,
            cost=cost_of_run,
            files_count=self._files_count,
            sites_count=self._sites_count,
            failed_count=sum(sums.op_errors.values()),
            links=self._times.links.shares(),
            overview=self._overview(cost_of_run.time),
            weaknesses=weaknesses(unseen, sums.calls, self._followed(), int(self._moved[:, MOVING].sum())),
        )

    def _overview(self, cost_ns: int) -> overview_figures.Overview:
        tracing = overview_figures.Tracing(self._sums.rows, cost_ns)
        found = self._sums, self._times, self._details
        return make_overview(self._log, self._table, *found, self._walls, self._top, tracing, self._transfers())

    def _transfers(self) -> tuple[overview_figures.Transfer, overview_figures.Transfer]:
        """What was read, what was written."""
        sums, moved = self._sums, self._moved[:, MOVING].sum(axis=(0, 1))
        copied, ranges = int(self._moved[:, POSIX, _COPY].sum()), (sums.read_ranges, sums.write_ranges)
        made = []
        for direction, kind in enumerate((_READ, _WRITE)):
            asked, beneath = int(sums.requested[direction]), int(sums.beneath[direction])
            outside, unplaced = int(moved[kind]) - beneath, int(sums.unplaced[direction])
            distinct, filled = ranges[direction].total(), ranges[direction].may_exceed()
            moved_by = asked, beneath, max(outside, 0), copied
            made.append(overview_figures.Transfer(*moved_by, distinct, unplaced, _share(beneath, asked), filled))
        return made[0], made[1]

    def _imports(self, counters: pa.Table) -> figures.Imports:
        """What imports did: the rows, and what was only counted of them; the time of import statements, if known."""
        rows = self._sums.imports
        spent = sum(self._table[one]["import_time"] or 0 for one in self._chosen if one < len(self._table))
        counted = [row for row in counters.to_pylist() if row["kind"] == IMPORT]
        calls, size = (sum(row[name] or 0 for row in counted) for name in ("calls", "bytes"))
        return figures.Imports(rows.count + calls, max(spent, rows.time), rows.bytes + size)

    def _run(self) -> figures.Run:
        info = self._info
        begins = [p["begin"] for p in self._table] or [self._start]
        ends = [begin + int(wall) for begin, wall in zip(begins, self._walls, strict=False)] or [self._start]
        return figures.Run(
            path=str(self._log.path), run=info["run"], host=info["host"],
            command=(self._table[0]["argv"] or [self._table[0]["executable"]]) if self._table else [],
            start=self._start, wall=max(ends) - min(begins),
            wall_is=lifetimes.wall_is(self._table[int(np.argmax(ends))]) if self._table else "",
            running=any(p["ended"] == RUNNING for p in self._table),
            mode=info["mode"], format=info["format"], records=self._sums.rows, calls=self._sums.calls,
            log_bytes=info["bytes"], bytes_per_operation=info["bytes_per_operation"],
            ring_since=info.get("ring_since"), folder=(self._table[0]["cwd"] or "") if self._table else "",
            selection=info.get("selection", ""), records_in_log=self._log.rows(),
            tool=info.get("tool", ""),
            jobs=sorted({job for row in self._table if (job := job_text(row))}),
            job_runs=sorted({run for row in self._table if (run := run_text(row))}),
            nodes=sorted({row["node"] or row["host"] for row in self._table}),
        )  # fmt: skip

    def _chosen_processes(self) -> list[int]:
        """The processes that a selection may choose from, with the entries that theirs continue."""
        chosen = self._info.get("selected_processes")
        if chosen is None:
            return list(range(len(self._walls)))
        return sorted({entry for index in chosen for entry in lifetimes.entries_of(self._table, index)})

    def _followed(self) -> int:
        """How many of the chosen programs are traced."""
        chosen = set(self._chosen)
        programs = [one for one in self._table if one["followed"] and one["index"] in chosen]
        return len(programs) - sum(lifetimes.is_continuation(self._table, one) for one in programs)

    def _layers(self) -> list[figures.Layer]:
        rows = []
        for layer, name in enumerate(LAYERS):
            count = int(np.delete(self._count[:, layer], _PROCESS, axis=1).sum())
            if not count:
                continue
            rows.append(
                figures.Layer(
                    layer=name,
                    count=count,
                    busy=int((self._unions[layer] + self._times.coalesced[:, layer]).sum()),
                    time=int(np.delete(self._time[:, layer], _PROCESS, axis=1).sum()),
                    read=int(self._moved[:, layer, _READ].sum()),
                    written=int(self._moved[:, layer, _WRITE].sum()),
                )
            )
        return rows

    def _bytes(self) -> figures.Bytes:
        sums = self._sums
        both = sums.read_ranges.with_those_of(sums.write_ranges)
        asked_read, asked_written = sums.requested.tolist()
        below_read, below_written = sums.beneath.tolist()
        return figures.Bytes(
            asked_read=asked_read, asked_written=asked_written, below_read=below_read, below_written=below_written,
            posix_read=int(self._moved[:, POSIX, _READ].sum()), posix_written=int(self._moved[:, POSIX, _WRITE].sum()),
            stream_read=int(self._moved[:, STDIO, _READ].sum()),
            stream_written=int(self._moved[:, STDIO, _WRITE].sum()),
            copied=int(self._moved[:, POSIX, _COPY].sum()),
            distinct_read=sums.read_ranges.total(), distinct_written=sums.write_ranges.total(),
            distinct=both.total(), distinct_filled=both.may_exceed(),
            read_amplification=_share(below_read, asked_read), write_amplification=_share(below_written, asked_written),
        )  # fmt: skip

    def _metadata(self) -> figures.Metadata:
        count = int(self._count[:, POSIX][:, _METADATA].sum())
        time = int(self._time[:, POSIX][:, _METADATA].sum())
        whole = int(np.delete(self._time[:, POSIX], _PROCESS, axis=1).sum())
        return figures.Metadata(count, time, _share(time, whole))

    def _files(self) -> list[figures.File]:
        sums, size = self._sums.by_file, self._sums.files.size
        if not len(sums.count):
            self._files_count = 0
            return []
        count = sums.count[: size * NROLES].reshape(size, NROLES)
        time = sums.time[: size * NROLES].reshape(size, NROLES).sum(axis=1)
        moved = sums.moved[: size * NROLES].reshape(size, NROLES)
        present = count.sum(axis=1) > 0
        present[0] = False  # operations without a file
        self._files_count = int(present.sum())
        worst = _worst(time, present, self._top)
        used = np.array([int(self._sums.file_path[i]) for i in worst], np.int64)
        files = self._sums.files.identities()[worst]
        renamed = self._details.renamed.present(files, used, self._log)
        names, before = (found.to_pylist() for found in present_names(files, used, self._log))
        return [
            figures.File(
                path=renamed.get(place) or names[place] or "(name not known)",
                renamed_from=before[place],
                time=int(time[i]),
                opens=int(count[i, OPENS]),
                reads=int(count[i, READS]),
                writes=int(count[i, WRITES]),
                read=int(moved[i, READS]),
                written=int(moved[i, WRITES]),
            )
            for place, i in enumerate(worst)
        ]

    def _sites(self) -> list[figures.Site]:
        size = len(self._site_names) + 1
        sums = self._sums.by_site
        if not len(sums.count):
            self._sites_count = 0
            return []
        count = sums.count[: size * NROLES].reshape(size, NROLES).sum(axis=1)
        time = sums.time[: size * NROLES].reshape(size, NROLES).sum(axis=1)
        moved = sums.moved[: size * NROLES].reshape(size, NROLES)
        present = count > 0
        present[0] = False  # operations without a source line
        self._sites_count = int(present.sum())
        submitted = self._sums.submitted if len(self._sums.submitted) else np.zeros(size, np.int64)
        worst = _worst(time, present, self._top)
        names = [self._site_names[i - 1] for i in worst]
        columns = (count, time, moved[:, READS], moved[:, WRITES], submitted)
        return [
            figures.Site(name, *(int(column[i]) for column in columns)) for name, i in zip(names, worst, strict=True)
        ]

    def _operations(self) -> list[figures.Operation]:
        errors: dict[tuple[int, int], int] = {}
        for (op, layer, _), calls in self._sums.op_errors.items():
            errors[op, layer] = errors.get((op, layer), 0) + calls
        sums = self._sums.by_op
        rows = []
        present = sums.count > 0
        present[np.arange(len(present)) % NLAYERS == USER_LAYER] = False
        present[[key for key, kind in self._sums.op_class.items() if kind == _PROCESS]] = False
        for i in _worst(sums.time, present, self._top):
            op, layer = divmod(i, NLAYERS)
            rows.append(
                figures.Operation(
                    LAYERS[layer],
                    self._op_names[op],
                    CLASSES[self._sums.op_class[i]],
                    int(sums.count[i]),
                    int(sums.time[i]),
                    int(sums.moved[i]),
                    errors.get((op, layer), 0),
                )
            )
        return rows

    def _errors(self) -> list[figures.Failure]:
        rows = [
            figures.Failure(LAYERS[layer], self._op_names[op], number, _error_name(number), calls)
            for (op, layer, number), calls in self._sums.op_errors.items()
        ]
        return sorted(rows, key=lambda row: (-row.count, row.op, row.errno))

    def _in_flight(self) -> list[figures.InFlight]:
        return [
            figures.InFlight(
                process=one.process,
                pid=self._table[one.process]["pid"] if one.process < len(self._table) else None,
                layer=LAYERS[one.layer],
                op=self._op_names[one.op],
                path=_at(self._paths, one.path),
                site=self._site_names[one.site] if one.site >= 0 else None,
                time=one.time,
                name=titled(self._table[one.process]) if one.process < len(self._table) else None,
            )
            for one in self._sums.pending
        ]

    def _processes(self) -> list[figures.Process]:
        continued = {child["parent"] for child in self._table if lifetimes.is_continuation(self._table, child)}
        rows, chosen = [], set(self._chosen)
        for index, process in enumerate(self._table):
            if index in continued or index not in chosen:
                continue  # shown with the entry that continues it, or not selected
            entries = lifetimes.entries_of(self._table, index)
            wall, busy = int(self._walls[entries].sum()), int(self._busy[entries].sum())
            rows.append(
                figures.Process(
                    index=index,
                    pid=process["pid"],
                    host=process["host"],
                    command=process["argv"] or [process["executable"]],
                    wall=wall,
                    busy=busy,
                    share=_share(busy, wall),
                    calls=int(self._count[entries].sum()),
                    read=int(self._moved[entries][:, MOVING][..., [_READ, _COPY]].sum()),
                    written=int(self._moved[entries][:, MOVING][..., [_WRITE, _COPY]].sum()),
                    ended=process["ended"],
                    site=process["site"],
                    wall_is=lifetimes.wall_is(process),
                    kind=process["process_kind"],
                    name=titled(process),
                    rank=process["global_rank"],
                    storage_read=known_sum(self._table[entry]["storage_read"] for entry in entries),
                )
            )
        return rows

    def _cost(self, counters: pa.Table, wall: int) -> figures.Cost:
        if self._info.get("tool"):
            return figures.Cost(0, None)  # of another tool, whose log does not say
        counted = sum(row["calls"] or 0 for row in counters.to_pylist() if row["why"] == "counted")
        chosen = set(self._chosen)
        watching = sum(row["watch_time"] or 0 for index, row in enumerate(self._table) if index in chosen)
        mappings = self._log.mappings().to_pylist()
        time = cost.estimate(self._sums.rows, self._sums.calls - self._sums.rows, counted, mappings, watching)
        return figures.Cost(time, _share(time, wall))


def _worst(time: Ints, present: NDArray[np.bool_], top: int) -> list[int]:
    """Indexes of the `top` largest times where `present`, the largest first."""
    at = np.flatnonzero(present)
    if len(at) > top:
        at = at[np.argpartition(-time[at], top - 1)[:top]]
    return [int(i) for i in at[np.argsort(-time[at], kind="stable")]]


def _at(paths: pa.Array, index: int) -> str | None:
    text: str | None = paths[index].as_py() if index >= 0 else None
    return text


def _share(part: int, whole: int) -> float | None:
    return part / whole if whole else None
