"""Sums by file, the file with the most time first.

Columns: path; time (of outermost calls; in text, seconds); opens, reads,
writes, metadata (calls of POSIX and of C streams); read, written (bytes they
moved); calls (at all layers); errors; first, last (begin of the first and end
of the last call; in text, seconds since the run began); processes (how many
touched the file); names (how many paths it went by; path is the last of them).
"""

from __future__ import annotations

import argparse

from pyio_trace.cli.parser import Parser, add_log, add_table, count, open_log, progress, write_rows


def arguments(parser: Parser) -> None:
    add_log(parser)
    add_table(parser)
    parser.add_argument("--path", metavar="GLOB", help="only these files: '*.h5', a name, a folder")
    parser.add_argument("--limit", type=count, metavar="N", help="only the first N rows")
    parser.add_argument("--imports", action="store_true", help="also what Python's imports read")


def run(arguments: argparse.Namespace) -> int:
    from pyio_trace.analysis.groups import by_file
    from pyio_trace.analysis.select import matching_path, since_start

    log = open_log(arguments.log)
    with progress("files", log.rows()) as bar:
        table = by_file(log, arguments.imports, bar)
    if arguments.path is not None:
        table = table.filter(matching_path(table["path"].combine_chunks(), arguments.path))
    if arguments.limit is not None:
        table = table.slice(0, min(arguments.limit, table.num_rows))
    if arguments.format == "text":
        table = since_start(table, log, ("first", "last"))
    return write_rows(table.to_batches(), table.schema, arguments)
