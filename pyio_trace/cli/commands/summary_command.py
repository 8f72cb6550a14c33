"""What a run did and what it cost, on one screen.

What to conclude; time by kind of process, split into I/O, sync, libraries,
hand-over, waiting, tasks, start-up and the rest; what came from storage; the
source lines and files that took the most time; the first findings (`pyio-trace
insights` has them all); what was not seen; what tracing itself cost.  Each
figure is explained in docs/reference/summary.md.

With a selection, the figures are those of the chosen operations alone; wall
times are those of the run, or of the processes chosen.  --all adds every
section, --section prints only that one.  --json has every figure, times in ns
and sizes in bytes.

  pyio-trace summary LOG --line train.py:9
  pyio-trace summary FOLDER --scheduler tcp://HOST:8786
  pyio-trace summary LOG --path /data --since 10s --until 20s
"""

from __future__ import annotations

import argparse
import io
import json
from collections.abc import Callable
from typing import TYPE_CHECKING

from pyio_trace.cli.parser import Parser, add_format, add_log, add_output, count, open_log, progress, write_text
from pyio_trace.cli.scan_workers import add_workers, workers
from pyio_trace.cli.selection import add_selection, restricted, selection
from pyio_trace.cli.standard_output import standard_output

if TYPE_CHECKING:
    from pyio_trace.analysis.results.figures import Summary
    from pyio_trace.analysis.scan.workers import Workers
    from pyio_trace.insights.insights import Insights
    from pyio_trace.join.sources.facade import Log


def arguments(parser: Parser) -> None:
    from pyio_trace.report.sections import NAMES

    add_log(parser)
    add_format(parser, "text", "json")
    add_output(parser)
    parser.add_argument("--all", action="store_true", help="all sections after the first screen")
    parser.add_argument(
        "--section",
        action="append",
        choices=NAMES,
        metavar="NAME",
        help=f"only this section; may be repeated: {', '.join(NAMES)}",
    )
    add_selection(parser)
    add_workers(parser)
    parser.add_argument(
        "--top", type=count, default=10, metavar="N", help="how many files, lines and operations (default: %(default)s)"
    )


def run(arguments: argparse.Namespace) -> int:
    from pyio_trace.report.text import print_summary

    chosen = selection(arguments)
    overview = arguments.format == "text" and (arguments.all or not arguments.section)
    log = open_log(arguments.log)
    with workers(arguments) as others, progress("summary", log.rows()) as bar:
        log, bar = restricted(log, chosen, bar, others)
        summary, insights = _summary(log, max(arguments.top, 1), bar, others, overview)
    if arguments.format == "json":
        return write_text(json.dumps(summary.to_dict(), indent=1) + "\n", arguments)
    names = None if arguments.all else arguments.section or ()
    if arguments.output is None:
        with standard_output() as out:
            print_summary(summary, out, names, overview, insights)
        return 0
    text = io.StringIO()
    print_summary(summary, text, names, overview, insights)
    return write_text(text.getvalue(), arguments)


def _summary(
    log: Log, top: int, bar: Callable[[int], None] | None, others: Workers | None, findings: bool
) -> tuple[Summary, Insights | None]:
    """The summary, and the findings if they are wanted and the log is not too large for somebody who waits."""
    from pyio_trace.report.text import SEARCHED

    if not findings or log.rows() > SEARCHED:
        from pyio_trace.analysis.summary.summarize import summarize

        return summarize(log, top, bar, workers=others), None
    from pyio_trace.insights import registry, settings
    from pyio_trace.insights.insights import find

    rules = registry.found()
    return find(log, rules, settings.load(rules), bar, top=top, workers=others)
