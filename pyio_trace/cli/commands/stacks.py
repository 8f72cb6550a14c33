"""Sums by Python stack, the stack with the most time first.

Only outermost calls count, so that nothing counts twice.  Columns: site (the
innermost line of the program's own); time (in text, seconds); calls; read,
written (bytes); errors; first, last (in text, seconds since the run began);
stack (outermost frame first).

--format folded writes "frame;frame;frame number" lines, the food of flame
graphs (flamegraph.pl, speedscope, inferno); --value says what the number is.
"""

from __future__ import annotations

import argparse

from pyio_trace.cli.parser import Parser, add_log, add_table, count, open_log, progress, write_rows, write_text


def arguments(parser: Parser) -> None:
    add_log(parser)
    add_table(parser, "folded")
    parser.add_argument(
        "--value",
        choices=("time", "calls", "bytes"),
        default="time",
        help="of --format folded: us, calls or bytes (default: time)",
    )
    parser.add_argument("--limit", type=count, metavar="N", help="only the first N rows")
    parser.add_argument("--imports", action="store_true", help="also what Python's imports read")


def run(arguments: argparse.Namespace) -> int:
    from pyio_trace.analysis.groups import by_stack
    from pyio_trace.analysis.select import since_start
    from pyio_trace.report.folded import folded

    log = open_log(arguments.log)
    with progress("stacks", log.rows()) as bar:
        table = by_stack(log, arguments.imports, bar)
    if arguments.limit is not None:
        table = table.slice(0, min(arguments.limit, table.num_rows))
    if arguments.format == "folded":
        return write_text(folded(table, arguments.value), arguments)
    if arguments.format == "text":
        table = since_start(table, log, ("first", "last"))
    return write_rows(table.to_batches(), table.schema, arguments)
