"""Darshan's counters of each file, the file with the most time first.

Names and meanings are Darshan's, of its modules POSIX and STDIO; the manual's
page on counters has the differences.  Names with _F_ are in seconds, others are
counts or bytes.  Text leaves out what is 0; csv, json and parquet have one row
for each file with path, process, pid, processes, all counters (null: the file
has no call of that module), and unplaced: transfers that no counter of offsets
includes, because their offset is not known.

--unrecorded instead gives the operations that have no row of their own.  why
"counted": the log was full, or the mode only counts; by layer, class and
operation.  why "excluded": left out by choice, such as pipes, sockets and
terminals; by kind of descriptor.  These sums have no paths and no lines, so
only --limit chooses among them.  Columns: process (index), pid, why, layer,
op_class, op, kind, calls, bytes (moved), duration (in text, seconds), errors.

  pyio-trace counters LOG --path '*.h5' --by-process
  pyio-trace counters LOG --format csv --output counters.csv
"""

from __future__ import annotations

import argparse

from pyio_trace.cli.parser import (
    Parser,
    add_limits,
    add_log,
    add_table,
    limited,
    open_log,
    progress,
    write_rows,
    write_text,
)
from pyio_trace.cli.scan_workers import add_workers, workers
from pyio_trace.cli.selection import add_selection, restricted, selection
from pyio_trace.errors import ConfigError

#: Files that text shows unless --limit says otherwise.
_SHOWN = 10


def arguments(parser: Parser) -> None:
    add_log(parser)
    add_table(parser)
    parser.add_argument("--by-process", action="store_true", help="a row for each process of a file")
    parser.add_argument("--unrecorded", action="store_true", help="instead: operations counted without a row")
    add_selection(parser)
    add_workers(parser)
    add_limits(parser)


def run(arguments: argparse.Namespace) -> int:
    return _unrecorded(arguments) if arguments.unrecorded else _darshan(arguments)


def _unrecorded(arguments: argparse.Namespace) -> int:
    """The operations that have no row.  Raises ConfigError for options that choose files, lines or times."""
    if selection(arguments) or arguments.by_process or arguments.imports:
        raise ConfigError(
            "contradictory-options", "counters: --unrecorded takes no selection, no --by-process and no --imports"
        )
    table = limited(open_log(arguments.log).counters(), arguments)
    return write_rows(table.to_batches(), table.schema, arguments)


def _darshan(arguments: argparse.Namespace) -> int:
    from pyio_trace.analysis.reducer import scan
    from pyio_trace.analysis.reducers.file_counters import FileCounters
    from pyio_trace.analysis.view_sums.counters_table import Counters

    chosen = selection(arguments)
    log = open_log(arguments.log)
    reducer = FileCounters(arguments.imports, arguments.by_process)
    with workers(arguments) as others, progress("counters", log.rows()) as bar:
        log, bar = restricted(log, chosen, bar, others)
        (counters,) = scan(log, [reducer], bar, workers=others)
    table = counters.table
    if arguments.format == "text":
        from pyio_trace.report.counters_text import counters_lines

        lines = counters_lines(Counters(table), _SHOWN if arguments.limit is None else arguments.limit)
        return write_text("".join(f"{line}\n" for line in lines), arguments)
    table = limited(table, arguments)
    return write_rows(table.to_batches(), table.schema, arguments)
