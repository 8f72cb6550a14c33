"""The operations, one row each.

Text shows the columns people look at first, time in seconds since the run
began; csv, json and parquet have all columns, time in ns since the epoch.
--columns chooses others.  Options combine: a row must pass them all.

Rows come as they stand in the log: stretches of a thread, each in the order of
time.  --sort time puts all of them in that order.

  pyio-trace events LOG --layer posix --path '*.csv' --sort duration --limit 20
  pyio-trace events LOG --op 'pread*' --min-duration 1ms --format csv
  pyio-trace events LOG --errors
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from pyio_trace.cli.parser import Parser, add_log, add_table, count, open_log, progress, write_rows
from pyio_trace.errors import ConfigError

if TYPE_CHECKING:
    import pyarrow as pa

    from pyio_trace.join.facade import Log

_SHOWN = ("time", "duration", "pid", "layer", "op", "offset", "size", "moved", "errno", "count", "path", "site")
_UNITS = (("ns", 1), ("us", 1_000), ("ms", 1_000_000), ("s", 1_000_000_000))


def arguments(parser: Parser) -> None:
    add_log(parser)
    add_table(parser)
    parser.add_argument("--layer", action="append", default=[], help="app, user, stdio, posix, ...; may be repeated")
    parser.add_argument("--op", action="append", default=[], help="name or pattern, such as 'pread*'; may be repeated")
    parser.add_argument("--path", metavar="GLOB", help="only on these paths: '*.h5', a name, a folder")
    parser.add_argument("--process", action="append", type=int, default=[], metavar="PID", help="may be repeated")
    parser.add_argument("--min-duration", type=duration, default=0, metavar="TIME", help="such as 10us, 5ms or 1s")
    parser.add_argument("--errors", action="store_true", help="only calls that failed")
    parser.add_argument("--limit", type=count, metavar="N", help="only the first N rows")
    parser.add_argument("--sort", metavar="COLUMN", help="largest first for durations and sizes")
    parser.add_argument("--reverse", action="store_true", help="sort the other way round")
    parser.add_argument("--columns", metavar="A,B,...", help="which columns, in which order")


def run(arguments: argparse.Namespace) -> int:
    from pyio_trace.analysis.select import Filter, check, check_columns, select
    from pyio_trace.events import OPERATION_COLUMNS, arrow_schema

    columns = _SHOWN if arguments.format == "text" else OPERATION_COLUMNS
    if arguments.columns is not None:
        columns = tuple(arguments.columns.split(","))
    check_columns([*columns, *([arguments.sort] if arguments.sort else [])])
    log = open_log(arguments.log)
    chosen = Filter(
        arguments.layer, arguments.op, arguments.path, arguments.process, arguments.min_duration, arguments.errors
    )
    check(log, chosen)
    with progress("events", log.rows() if arguments.sort or arguments.output else 0) as bar:
        batches: Iterable[pa.RecordBatch] = select(
            log, chosen, columns, arguments.sort, arguments.reverse, arguments.limit, bar
        )
        if arguments.format == "text":
            batches = _relative(batches, log)
        return write_rows(batches, arrow_schema(columns), arguments)


def _relative(batches: Iterable[pa.RecordBatch], log: Log) -> Iterator[pa.RecordBatch]:
    import pyarrow as pa

    from pyio_trace.analysis.select import since_start

    for batch in batches:
        if "time" in batch.schema.names:
            yield from since_start(pa.Table.from_batches([batch]), log, ("time",)).to_batches()
        else:
            yield batch


def duration(text: str) -> int:
    """ns from ``"5ms"``; a bare number is ns."""
    number, unit = text.strip(), 1
    for name, size in _UNITS:
        if number.endswith(name):
            number, unit = number[: -len(name)], size
            break
    try:
        return int(float(number) * unit)
    except (ValueError, OverflowError):
        raise ConfigError("bad-value", f"--min-duration: {text!r} is no time; write such as 10us, 5ms or 1s") from None
