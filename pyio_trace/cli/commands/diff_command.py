"""What got slower or faster, and which operations and bytes are more or fewer.

Two logs: totals; files, those whose names differ in digits only together;
source lines, matched by function and operation where their numbers differ; and
operations.  Opens, reads, writes and metadata are calls of POSIX and C streams,
requests those of file objects and libraries.  Time in calls is that of the
outermost ones, libraries' own work included, summed over threads.  Paths and
sources beneath the folders in which two runs were started are compared by their
place in it.

More than two logs: a scaling table, each log against the first.

--fail-if makes the exit status 1 if a condition holds (2: bad use).  It is
FIGURE COMPARISON LIMIT: opens, reads, writes, metadata, calls, requests,
bytes_read, bytes_written, errors, files, time or wall, or counts for any of
them but the times, with [PATTERN] for the paths that match; > >= < <= == or !=;
a limit of the figure in the last log, or with a sign of its difference to the
first one, which may be in percent.

  pyio-trace diff before.parquet after.parquet
  pyio-trace diff base.parquet pr.parquet --fail-if 'counts>+0'
  pyio-trace diff A B --fail-if 'opens[*.h5]>100' --fail-if 'bytes_read>+5%'
  pyio-trace diff one.parquet two.parquet four.parquet
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from pyio_trace.cli.parser import Parser, add_format, add_output, count, open_log, progress, write_text
from pyio_trace.cli.selection import add_selection, selection

if TYPE_CHECKING:
    from pyio_trace.analysis.compare.conditions import Outcome
    from pyio_trace.analysis.tables.run_sums import RunSums


def arguments(parser: Parser) -> None:
    parser.add_argument("log", metavar="LOG", help="the log to compare with: live, Parquet, or a folder")
    parser.add_argument("others", metavar="LOG", nargs="+", help="the log, or logs, to compare")
    add_format(parser, "text", "json")
    add_output(parser)
    parser.add_argument(
        "--top", type=count, default=5, metavar="N", help="how many files, lines and operations (default: %(default)s)"
    )
    parser.add_argument("--all", action="store_true", help="show everything that differs")
    parser.add_argument(
        "--fail-if", action="append", default=[], metavar="CONDITION", help="exit with 1 if it holds; may be repeated"
    )
    add_selection(parser)


def run(arguments: argparse.Namespace) -> int:
    from pyio_trace.analysis.compare.conditions import evaluate, parse_condition

    conditions = [parse_condition(text) for text in arguments.fail_if]
    runs = _sums(arguments)
    outcomes = [one for condition in conditions for one in evaluate(condition, runs[0], runs[-1])]
    if arguments.format == "json":
        text = json.dumps(_as_dict(runs, outcomes), indent=1) + "\n"
    else:
        text = "".join(f"{line}\n" for line in _lines(runs, outcomes, arguments))
    write_text(text, arguments)
    return 1 if any(one.holds for one in outcomes) else 0


def _sums(arguments: argparse.Namespace) -> list[RunSums]:
    """The sums of each log, of its selected operations."""
    from dataclasses import replace

    from pyio_trace.analysis.scan.filters import check, restrict_unchecked
    from pyio_trace.analysis.summary.training import training
    from pyio_trace.analysis.tables.run_sums import run_sums
    from pyio_trace.existing_files import check_output

    chosen = selection(arguments)
    paths = [arguments.log, *arguments.others]
    for path in paths if arguments.output is not None else ():
        check_output(path, arguments.output)
    logs = [open_log(path) for path in paths]
    check(logs, chosen)
    with progress("diff", sum(log.rows() for log in logs)) as bar:
        sums = [run_sums(restrict_unchecked(log, chosen, bar)) for log in logs]
    loops = [training(restrict_unchecked(log, chosen)) for log in logs]
    return [replace(one, training=loop) for one, loop in zip(sums, loops, strict=True)]


def _as_dict(runs: list[RunSums], outcomes: list[Outcome]) -> dict[str, Any]:
    from dataclasses import asdict

    from pyio_trace.analysis.compare.comparison import compare
    from pyio_trace.analysis.compare.scaling import series

    found = compare(*runs) if len(runs) == 2 else series(runs)
    return {**found.to_dict(), "conditions": [asdict(one) for one in outcomes]}


def _lines(runs: list[RunSums], outcomes: list[Outcome], arguments: argparse.Namespace) -> Iterator[str]:
    from pyio_trace.analysis.compare.comparison import compare
    from pyio_trace.analysis.compare.scaling import series
    from pyio_trace.report.comparison_text import comparison_lines, outcome_lines
    from pyio_trace.report.scaling_text import series_lines

    if outcomes:
        yield from outcome_lines(outcomes)
        yield ""
    if len(runs) > 2:
        yield from series_lines(series(runs))
    else:
        yield from comparison_lines(compare(*runs), 1 << 40 if arguments.all else arguments.top)
