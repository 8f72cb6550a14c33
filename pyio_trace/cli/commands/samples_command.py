"""What the threads of a run were found doing: runs of equal samples, one row each.

A sampler beside the program looks at each thread many times a second.  Columns:
process (index), thread, time (in text, seconds since the run began), duration,
cpu and delay (in text, seconds: how long it was so, and how much of that the
thread had a processor, and waited for one), state (running; gil, lock, sleep,
poll, wait: blocked in that; system call: in another one; fault: in a page
fault, or stopped), samples (how often it was looked at), stack (outermost frame
first).

pyio-trace view by_line_time adds them up by line of the program.

  pyio-trace samples LOG --format csv --output samples.csv
"""

from __future__ import annotations

import argparse

from pyio_trace.cli.parser import Parser, add_log, add_table, count, limited, open_log, write_rows

#: As the table has them, the stack last: it has the rest of the line.
_COLUMNS = ["process", "thread", "time", "duration", "cpu", "delay", "state", "samples", "stack"]


def arguments(parser: Parser) -> None:
    add_log(parser)
    add_table(parser)
    parser.add_argument("--limit", type=count, metavar="N", help="only the first N rows")


def run(arguments: argparse.Namespace) -> int:
    from pyio_trace.analysis.tables.ordering import since_start

    log = open_log(arguments.log)
    table = limited(log.samples().select(_COLUMNS), arguments)
    if arguments.format == "text":
        table = since_start(table, log, ("time",))
    return write_rows(table.to_batches(), table.schema, arguments)
