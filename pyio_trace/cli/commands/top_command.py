"""What a running program reads and writes now, by line, file, process, layer.

Without an argument, the program whose live log is in the current folder; else a
live log, a folder with one, or the number of a process.  The log is read from
outside: the program does not notice, and never waits for it.

First comes what is IN FLIGHT: calls that have not returned, since when, on
which path, at which line.  Then calls, bytes and time since the last look; time
is a share of one thread's, so 8 threads that wait have 800 %.

Keys: q quits, tab the next table, s sorts, p pauses, / filters, t threads.
The screen needs textual: pip install 'pyio_trace[top]'.  --once and --json do
not: they look twice, --interval apart, and have all sums since the run began.

  pyio-trace top
  pyio-trace top 4242
  pyio-trace top run.pyio --once
  pyio-trace top logs/ --json
"""

from __future__ import annotations

import argparse
import json
import sys
import time

from pyio_trace.cli.parser import Parser, add_format
from pyio_trace.cli.standard_output import standard_output
from pyio_trace.errors import ConfigError

_SHORTEST, _LONGEST = 0.1, 3600.0


def arguments(parser: Parser) -> None:
    parser.add_argument("log", metavar="LOG|PID|FOLDER", nargs="?", help="default: the current folder")
    parser.add_argument("--once", action="store_true", help="print one look as text")
    add_format(parser, "text", "json")
    parser.add_argument("--interval", type=_seconds, default=1.0, metavar="SECONDS", help="between looks; default: 1")


def run(arguments: argparse.Namespace) -> int:
    from pyio_trace.running.find_logs import find_log
    from pyio_trace.running.watcher import Watcher

    once = arguments.once or arguments.format == "json"
    if not once:
        _check_screen()
    found = find_log(arguments.log)
    watcher = Watcher(found.path, found.opened, whole=once)
    if not once:
        from pyio_trace.report.top_screen import show

        return show(watcher, arguments.interval)
    activity = watcher.look()
    if activity.state != "ended":
        time.sleep(arguments.interval)
        activity = watcher.look()
    with standard_output() as out:
        if arguments.format == "json":
            from pyio_trace.analysis.typed_results import as_plain

            out.write(json.dumps(as_plain(activity), indent=1) + "\n")
        else:
            from pyio_trace.report.top_text import once_lines

            out.writelines(line.rstrip() + "\n" for line in once_lines(activity))
    return 0


def _check_screen() -> None:
    """Raises ConfigError where there is nothing to show a screen on, or with."""
    for stream in (sys.stdin, sys.stdout, sys.stderr):  # textual reads keys from the first and draws on the last
        if stream is None or not stream.isatty():
            raise ConfigError("no-terminal", "top draws a screen, and this is no terminal; use --once or --json")
    from importlib.util import find_spec

    if find_spec("textual") is None:
        raise ConfigError("not-installed", "top needs textual: pip install 'pyio_trace[top]', or use --once")


def _seconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not _SHORTEST <= value <= _LONGEST:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds from {_SHORTEST} to {_LONGEST:.0f}")
    return value
