"""Sums by file, the file with the most time first.

Columns: path; time (of outermost calls; in text, seconds); opens, reads,
writes, metadata (calls of POSIX and of C streams); read, written (bytes they
moved); calls (at all layers); errors; first, last (begin of the first and end
of the last call; in text, seconds since the run began); processes (how many
touched the file); names (how many paths it went by; path is the last of them);
renamed_from (where path is inferred: the name it was written under).
"""

from __future__ import annotations

import argparse

from pyio_trace.cli.parser import Parser, add_limits, add_log, add_table, limited, open_log, progress, write_sums
from pyio_trace.cli.scan_workers import add_workers, workers
from pyio_trace.cli.selection import add_selection, restricted, selection


def arguments(parser: Parser) -> None:
    add_log(parser)
    add_table(parser)
    add_selection(parser)
    add_workers(parser)
    add_limits(parser)


def run(arguments: argparse.Namespace) -> int:
    from pyio_trace.analysis.tables.sums_tables import by_file

    chosen = selection(arguments)
    log = open_log(arguments.log)
    with workers(arguments) as others, progress("files", log.rows()) as bar:
        log, bar = restricted(log, chosen, bar, others)
        table = by_file(log, arguments.imports, bar, others)
    return write_sums(limited(table, arguments), log, arguments)
