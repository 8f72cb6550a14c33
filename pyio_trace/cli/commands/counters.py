"""What was counted and not recorded.

why "counted": the log was full (or counting was all that was asked for); by
layer, class and operation.  why "excluded": left out by choice, such as pipes,
sockets and terminals; by kind of descriptor.  Columns: process (index), pid,
why, layer, op_class, op, kind, count, bytes (moved), duration (in text,
seconds), errors.
"""

from __future__ import annotations

import argparse

from pyio_trace.cli.parser import Parser, add_log, add_table, open_log, write_rows


def arguments(parser: Parser) -> None:
    add_log(parser)
    add_table(parser)


def run(arguments: argparse.Namespace) -> int:
    table = open_log(arguments.log).counters()
    return write_rows(table.to_batches(), table.schema, arguments)
