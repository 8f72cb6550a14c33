"""The operations, one row each.

Text shows the most important columns, with time in seconds since the run began;
csv, json and parquet have all columns, with time in ns since the epoch.
--columns chooses others.

Rows are in the order of the log: chunks of one thread each, by time within a
chunk.  --sort time sorts all rows by time.

  pyio-trace events LOG --layer posix --path '*.csv' --sort duration --limit 20
  pyio-trace events LOG --op 'pread*' --min-duration 1ms --format csv
  pyio-trace events LOG --since 12.5s --until 13s --process 'DataLoader*'
  pyio-trace events LOG --errors
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from pyio_trace.cli.parser import Parser, add_log, add_table, count, open_log, progress, write_rows
from pyio_trace.cli.selection import add_selection, selection
from pyio_trace.values import parse_duration

if TYPE_CHECKING:
    import pyarrow as pa

    from pyio_trace.join.sources.facade import Log

_SHOWN = (
    "time",
    "duration",
    "pid",
    "layer",
    "op",
    "file_offset",
    "bytes_requested",
    "bytes_moved",
    "errno",
    "calls",
    "path",
    "site",
)


def arguments(parser: Parser) -> None:
    add_log(parser)
    add_table(parser)
    add_selection(parser)
    parser.add_argument(
        "--min-duration",
        type=lambda text: parse_duration(text, "--min-duration"),
        default=0,
        metavar="TIME",
        help="only calls that took at least this long: 10us, 5ms or 1s",
    )
    parser.add_argument("--errors", action="store_true", help="only calls that failed")
    parser.add_argument("--limit", type=count, metavar="N", help="only the first N rows")
    parser.add_argument("--sort", metavar="COLUMN", help="sort by this column; durations and sizes: largest first")
    parser.add_argument("--reverse", action="store_true", help="reverse the order of --sort")
    parser.add_argument("--columns", metavar="A,B,...", help="which columns, in which order")


def run(arguments: argparse.Namespace) -> int:
    from pyio_trace.analysis.scan.filters import restrict
    from pyio_trace.analysis.tables.ordering import check_columns, select
    from pyio_trace.events import OPERATION_COLUMNS, arrow_schema

    columns = _SHOWN if arguments.format == "text" else OPERATION_COLUMNS
    if arguments.columns is not None:
        columns = tuple(arguments.columns.split(","))
    check_columns([*columns, *([] if arguments.sort is None else [arguments.sort])])
    log = open_log(arguments.log)
    chosen = selection(arguments, arguments.min_duration, arguments.errors)
    with progress("events", log.rows() if arguments.sort or arguments.output else 0) as bar:
        log = restrict(log, chosen, bar)
        batches: Iterable[pa.RecordBatch] = select(log, columns, arguments.sort, arguments.reverse, arguments.limit)
        if arguments.format == "text":
            batches = _relative(batches, log)
        return write_rows(batches, arrow_schema(columns), arguments)


def _relative(batches: Iterable[pa.RecordBatch], log: Log) -> Iterator[pa.RecordBatch]:
    import pyarrow as pa

    from pyio_trace.analysis.tables.ordering import since_start

    for batch in batches:
        if "time" in batch.schema.names:
            yield from since_start(pa.Table.from_batches([batch]), log, ("time",)).to_batches()
        else:
            yield batch
