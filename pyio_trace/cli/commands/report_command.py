"""One HTML file that shows a run, to look at and to send.

It opens in any browser, needs no network and asks for nothing.  On its first
screen: what held the time, the bars of `summary`, the findings with their lines
of source, the lines and files that took the most time.  Below: every operation
on a timeline, from the whole run down to one call with its stack.

Source lines are in it if the files have not changed since the run: leave them
out with --no-source.  `pyio-trace pack --obfuscate` makes a log without names.

With --serve, no file is made: a server on this machine gives the page, and the
part of the timeline in view as one zooms, for logs of any size.

  pyio-trace report run.parquet
  pyio-trace report run.parquet -o run.html --open
  pyio-trace report run.parquet --serve
"""

from __future__ import annotations

import argparse
import contextlib
import os
from typing import TYPE_CHECKING

from pyio_trace.cli.parser import Parser, add_log, count, open_log, progress
from pyio_trace.cli.scan_workers import add_workers, workers
from pyio_trace.cli.selection import add_selection, restricted, selection
from pyio_trace.cli.standard_output import standard_output
from pyio_trace.errors import ConfigError, printable, say
from pyio_trace.existing_files import check_output
from pyio_trace.units import counted, number, size

if TYPE_CHECKING:
    from collections.abc import Iterable

_SUFFIX = ".html"


def arguments(parser: Parser) -> None:
    from pyio_trace.page.report import MOST_OPERATIONS

    add_log(parser)
    parser.add_argument("-o", "--output", metavar="FILE", help="the file; default: beside LOG, with its name and .html")
    parser.add_argument("--force", action="store_true", help="replace FILE if it exists")
    parser.add_argument(
        "--max-operations", type=count, default=MOST_OPERATIONS, metavar="N",
        help="operations on the timeline, the longest ones; the others are summed; default: %(default)d",
    )  # fmt: skip
    parser.add_argument("--no-source", action="store_true", help="no lines of source files")
    parser.add_argument("--open", action="store_true", help="open it in the browser")
    group = parser.add_argument_group("logs too large for a file")
    group.add_argument("--serve", action="store_true", help="show it in the browser from a server, until Ctrl-C")
    group.add_argument("--port", type=_port, metavar="N", help="port of the server; default: one that is free")
    group.add_argument(
        "--no-browser",
        action="store_true",
        help="print the address only: ps shows a browser's arguments, the address among them, to other users",
    )
    add_selection(parser)
    add_workers(parser)


def run(arguments: argparse.Namespace) -> int:
    from pyio_trace.insights import registry, settings
    from pyio_trace.insights.insights import find
    from pyio_trace.page.report import report

    if arguments.serve:
        return _serve(arguments)
    if arguments.port is not None or arguments.no_browser:
        raise ConfigError("contradictory-options", "--port and --no-browser are of --serve")
    output = _output(arguments)
    chosen = selection(arguments)
    log = open_log(arguments.log)
    rules = registry.found()
    wanted = settings.load(rules)
    with workers(arguments) as others, progress("report", 3 * log.rows()) as bar:
        log, bar = restricted(log, chosen, bar, others)
        summary, insights = find(log, rules, wanted, bar, workers=others)
        made = report(log, summary, insights, arguments.max_operations, not arguments.no_source, bar)
        written = _write(output, made.parts, arguments.force)
    less = f", the {number(made.shown)} longest of {number(made.of)} operations" if made.shown < made.of else ""
    with standard_output() as out:
        out.write(f"{printable(output)}  {size(written)}{less}\n")
    if arguments.open:
        import webbrowser
        from pathlib import Path

        if not webbrowser.open(Path(output).absolute().as_uri()):
            say("there is no browser here: open the file yourself")
    return 0


def _serve(arguments: argparse.Namespace) -> int:
    """Shows the page from a server until Ctrl-C."""
    from pyio_trace.insights import registry, settings
    from pyio_trace.insights.insights import find
    from pyio_trace.page.report import served
    from pyio_trace.page.server import Pages, Server

    if arguments.output is not None or arguments.force or arguments.open:
        raise ConfigError("contradictory-options", "--serve makes no file: leave out -o, --force and --open")
    chosen = selection(arguments)
    log = open_log(arguments.log)
    rules = registry.found()
    wanted = settings.load(rules)
    with workers(arguments) as others, progress("report", 3 * log.rows()) as bar:
        log, bar = restricted(log, chosen, bar, others)
        summary, insights = find(log, rules, wanted, bar, workers=others)
        made = served(log, summary, insights, not arguments.no_source, bar)
    server = Server(Pages(made.page.encode(), made.levels, summary.run.start), arguments.port or 0)
    with standard_output() as out:
        out.write(f"{server.address}  {counted(made.of, 'operation')}, until Ctrl-C\n")
        out.flush()
    try:
        if not arguments.no_browser:
            import webbrowser

            if not webbrowser.open(server.address):
                say("there is no browser here: open the address yourself")
        server.serve()
    except KeyboardInterrupt:
        say("stopped")
    return 0


def _port(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 6 and int(text) < 1 << 16):
        raise ConfigError("bad-value", f"--port: {text!r} is not a port; write a number up to 65535")
    return int(text)


def _output(arguments: argparse.Namespace) -> str:
    """The name of the file.  Raises ConfigError."""
    output: str | None = arguments.output
    if output == "":
        raise ConfigError("missing-value", "report: the name of the FILE is empty")
    if output is None:
        log = arguments.log.rstrip("/") or "/"
        output = (log if os.path.isdir(log) else os.path.splitext(log)[0]) + _SUFFIX
    check_output(arguments.log, output)
    _check_free(output, arguments.force)
    return output


def _check_free(output: str, force: bool) -> None:
    """Raises ConfigError if something has this name that is not to be replaced."""
    if not os.path.lexists(output):
        return
    if not force:
        raise ConfigError("output-exists", f"{output} exists: name another file with -o, or replace it with --force")
    if os.path.islink(output) or not os.path.isfile(output):
        raise ConfigError(
            "output-exists", f"{output} is not a plain file, which --force replaces: name another with -o"
        )


def _write(output: str, parts: Iterable[str], force: bool) -> int:
    """Writes the file under another name, and then gives it its own.  Returns its size.  Raises ConfigError.

    So what it replaces stays until it is complete, and a link is never written through.
    """
    unfinished = f"{output}.{os.urandom(8).hex()}.tmp"
    try:
        with open(unfinished, "x", encoding="utf-8") as file:
            for part in parts:
                file.write(part)
        written = os.path.getsize(unfinished)
        _check_free(output, force)  # it may have appeared meanwhile
        os.replace(unfinished, output)
    except OSError as error:
        raise ConfigError("unwritable-output", f"{output}: cannot be written: {error.strerror or error}") from None
    finally:
        with contextlib.suppress(OSError):  # it has its name
            os.unlink(unfinished)
    return written
