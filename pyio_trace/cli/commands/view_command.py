"""One view of a log, or of several logs: sums by file, line or process, and more.

pyio-trace views lists the names.  Text shows the first rows in 80 columns;
--json gives the whole typed result (times in ns, sizes in bytes; the fields are
in pyio-trace views --json).

  pyio-trace view by_line LOG --path '*.h5'
  pyio-trace view accesses LOG --json --limit 5
"""

from __future__ import annotations

import argparse
import json
from typing import Any

from pyio_trace.cli.parser import Parser, add_format, add_limits, add_log, add_output, open_log, progress, write_text
from pyio_trace.cli.scan_workers import add_workers, workers
from pyio_trace.cli.selection import add_selection, restricted, selection
from pyio_trace.errors import ConfigError, printable
from pyio_trace.values import did_you_mean

#: Rows that text shows unless --limit says otherwise.
_SHOWN = 10


def arguments(parser: Parser) -> None:
    parser.add_argument("view", metavar="NAME", help="a view; pyio-trace views lists them")
    add_log(parser)
    parser.add_argument("others", metavar="LOG", nargs="*", default=[], help="further logs, each with its own result")
    add_format(parser, "text", "json")
    add_output(parser)
    add_selection(parser)
    add_limits(parser)
    add_workers(parser)


def run(arguments: argparse.Namespace) -> int:
    from pyio_trace.analysis.typed_results import as_plain, views
    from pyio_trace.existing_files import check_output

    known = views()
    if arguments.view not in known:
        near = did_you_mean(arguments.view, list(known)) or "; pyio-trace views lists them"
        raise ConfigError("bad-value", f"view: there is no view {arguments.view!r}{near}")
    paths = [arguments.log, *arguments.others]
    for path in arguments.others if arguments.output is not None else ():
        check_output(path, arguments.output)
    results = {path: _result(known[arguments.view], path, arguments) for path in paths}
    if arguments.format == "json":
        plain = {path: as_plain(result) for path, result in results.items()}
        whole = plain if len(plain) > 1 else next(iter(plain.values()))
        return write_text(json.dumps(whole, indent=1) + "\n", arguments)
    from pyio_trace.report.views_text import result_lines

    lines = []
    for path, result in results.items():
        lines += [printable(f"{path}:")] if len(results) > 1 else []
        lines += result_lines(result, _SHOWN if arguments.limit is None else arguments.limit)
    return write_text("".join(f"{line}\n" for line in lines), arguments)


def _result(view: Any, path: str, arguments: argparse.Namespace) -> object:
    """The result of the view of one log."""
    from inspect import signature

    from pyio_trace.analysis.reducer import scan

    asked = {"imports": arguments.imports or None, "top": arguments.limit}
    known = signature(view).parameters
    if arguments.imports and "imports" not in known:
        raise ConfigError("bad-value", f"view: {arguments.view} does not take --imports")
    reducer = view(**{name: value for name, value in asked.items() if value is not None and name in known})
    chosen = selection(arguments)
    log = open_log(path)
    with progress(arguments.view, log.rows()) as bar, workers(arguments) as helpers:
        log, bar = restricted(log, chosen, bar, helpers)
        (result,) = scan(log, [reducer], bar, workers=helpers)
    return result
