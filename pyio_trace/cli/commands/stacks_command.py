"""Sums by Python stack, the stack with the most time first.

Only outermost calls of the selection count, so that nothing counts twice.
Columns: site (the innermost line of the program's own); time (in text,
seconds); calls; read, written (bytes); errors; first, last (in text, seconds
since the run began); call_stack (outermost frame first).

--format folded writes lines "frame;frame;frame number", for flame graphs
(flamegraph.pl, speedscope, inferno); --value says what the number is.
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
    write_sums,
    write_text,
)
from pyio_trace.cli.scan_workers import add_workers, workers
from pyio_trace.cli.selection import add_selection, restricted, selection


def arguments(parser: Parser) -> None:
    add_log(parser)
    add_table(parser, "folded")
    parser.add_argument(
        "--value",
        choices=("time", "calls", "bytes"),
        default="time",
        help="with --format folded: microseconds, calls or bytes (default: %(default)s)",
    )
    add_selection(parser)
    add_workers(parser)
    add_limits(parser)


def run(arguments: argparse.Namespace) -> int:
    from pyio_trace.analysis.tables.sums_tables import by_stack
    from pyio_trace.report.folded import folded

    chosen = selection(arguments)
    log = open_log(arguments.log)
    with workers(arguments) as others, progress("stacks", log.rows()) as bar:
        log, bar = restricted(log, chosen, bar, others)
        table = by_stack(log, arguments.imports, bar, others)
    table = limited(table, arguments)
    if arguments.format == "folded":
        return write_text(folded(table, arguments.value), arguments)
    return write_sums(table, log, arguments)
