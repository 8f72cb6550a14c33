"""What a run did and what it cost, worst first.

Wall time and the share of it spent in I/O, by layer; bytes the application
asked for, bytes POSIX moved, distinct bytes touched; the files, source lines
and operations that took the most time; access sizes; failed calls; processes
and how they ended; what was not seen; what tracing itself cost.

--format json has every figure, times in ns and sizes in bytes.
"""

from __future__ import annotations

import argparse
import io
import json
import sys

from pyio_trace.cli.parser import Parser, add_log, count, open_log, progress, write_text


def arguments(parser: Parser) -> None:
    add_log(parser)
    parser.add_argument("--format", choices=("text", "json"), default="text", help="default: text")
    parser.add_argument("--output", metavar="FILE", help="write there instead of to standard output")
    parser.add_argument(
        "--top", type=count, default=10, metavar="N", help="how many files, lines and operations (default: 10)"
    )


def run(arguments: argparse.Namespace) -> int:
    from pyio_trace.analysis.summary import summarize
    from pyio_trace.report.text import print_summary

    log = open_log(arguments.log)
    with progress("summary", log.rows()) as bar:
        summary = summarize(log, max(arguments.top, 1), bar)
    if arguments.format == "json":
        return write_text(json.dumps(summary.to_dict(), indent=1) + "\n", arguments)
    if arguments.output is None:
        print_summary(summary, sys.stdout)
        sys.stdout.flush()
        return 0
    text = io.StringIO()
    print_summary(summary, text)
    return write_text(text.getvalue(), arguments)
