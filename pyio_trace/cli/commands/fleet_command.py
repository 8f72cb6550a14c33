"""What thousands of logs say together: jobs, users, programs, findings.

LOG is a folder tree with logs anywhere in it. Text has the jobs, users (the
owners of the files) and programs with the most seconds of I/O, and the
findings by the seconds that they would save in all logs. A job is a batch
system's, else what one mpirun or torchrun has started, on all hosts; a run
without either belongs to the job that its folder is named after. Logs that
cannot be read are counted and named.

csv, json and parquet have the rows of one of these tables (--by), or one row
for each log: times in ns, sizes in bytes.

Logs that were packed at the end of their run keep these figures, so a thousand
of them take seconds. Others are read; their findings take longest.

  pyio-trace fleet /shared/logs
  pyio-trace fleet /shared/logs --by log --format parquet --output fleet.parquet
  pyio-trace fleet /shared/logs --dask tcp://HOST:8786
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from pyio_trace.cli.parser import Parser, add_table, count, progress, write_rows, write_text
from pyio_trace.cli.scan_workers import add_workers, workers
from pyio_trace.errors import LogError

if TYPE_CHECKING:
    import pyarrow as pa

    from pyio_trace.insights.fleet import Fleet, Looked

_TABLES = ("job", "user", "program", "finding", "log")
_PER_LOG = 1000  #: rows of operations that a log counts as, for the progress bar


def arguments(parser: Parser) -> None:
    parser.add_argument("log", metavar="FOLDER", help="a folder with logs in it or below it")
    add_table(parser)
    parser.add_argument(
        "--by", choices=_TABLES, default="job", help="the table that is not text (default: %(default)s)"
    )
    parser.add_argument("--top", type=count, default=10, metavar="N", help="rows of a section (default: %(default)s)")
    add_workers(parser)
    parser.add_argument("--dask", dest="scheduler", metavar="ADDRESS", help="the same as --scheduler")


def run(arguments: argparse.Namespace) -> int:
    from pyio_trace.cli.command_process import do_without_pandas
    from pyio_trace.insights.fleet import Fleet, fleet_of, logs_in
    from pyio_trace.report.fleet_text import fleet_lines

    do_without_pandas()
    paths = logs_in(arguments.log)
    if not paths:
        raise LogError("not-a-log", f"{arguments.log}: a folder without a log in it or below it")
    fleet, rows = Fleet(), list[dict[str, Any]]()
    with workers(arguments) as others, progress("fleet", len(paths) * _PER_LOG) as bar:
        advance = None if bar is None else lambda logs: bar(logs * _PER_LOG)
        for looked in fleet_of(arguments.log, paths, others, advance):
            fleet.add(looked)
            if arguments.by == "log" and arguments.format != "text":
                rows.append(_row_of(looked))
    if arguments.format == "text":
        return write_text("".join(f"{line}\n" for line in fleet_lines(fleet, arguments.top)), arguments)
    schema = _schema(arguments.by)
    return write_rows(
        _batches(rows if arguments.by == "log" else _rows(fleet, arguments.by), schema), schema, arguments
    )


def _row_of(looked: Looked) -> dict[str, Any]:
    facts = {} if looked.facts is None else asdict(looked.facts)
    findings = facts.pop("findings", [])
    return facts | {
        "path": looked.path, "user": looked.user, "folder": looked.folder, "problem": looked.problem,
        "findings": " ".join(dict.fromkeys(one["slug"] for one in findings)),
    }  # fmt: skip


def _rows(fleet: Fleet, by: str) -> list[dict[str, Any]]:
    from pyio_trace.insights.fleet import ranked
    from pyio_trace.report.fleet_text import by_seconds

    if by == "finding":
        return [asdict(one) for one in by_seconds(fleet)]
    return [
        asdict(one) for one in ranked({"job": fleet.jobs, "user": fleet.users, "program": fleet.programs}[by].values())
    ]


def _schema(by: str) -> pa.Schema:
    import pyarrow as pa

    text, number = pa.string(), pa.int64()
    sums = dict.fromkeys(("logs", "io_ns", "process_ns", "wall_ns", "read", "written"), number)
    if by == "finding":
        return pa.schema({"name": text, "logs": number, "ns": number, "title": text, "line": text, "worst": text})
    if by != "log":
        return pa.schema({"name": text, **sums, "worst": text})
    figures = dict.fromkeys(("start", "rows", "processes", "wall_ns", "process_ns", "io_ns", "read", "written"), number)
    names = dict.fromkeys(("path", "user", "folder", "job", "program", "host", "run"), text)
    return pa.schema({**names, **figures, "findings": text, "searched": pa.bool_(), "problem": text})


def _batches(rows: Sequence[dict[str, Any]], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    import pyarrow as pa

    most = (1 << 63) - 1
    bounded = [
        {name: min(value, most) if type(value) is int else value for name, value in row.items() if name in schema.names}
        for row in rows
    ]
    yield from pa.Table.from_pylist(bounded, schema).to_batches() or [pa.RecordBatch.from_pylist([], schema)]
