"""What the end of a traced run does, in a fresh interpreter: pack the log, print the summary.

Started by the run's first process when Python has gone there (csrc/core/finish.c,
capture/bootstrap.py), not by people.  Whatever goes wrong here is one line on
stderr, the live log stays, and the status is 0: the program's own is not ours
to change.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
from dataclasses import replace
from typing import TYPE_CHECKING

from pyio_trace.cli.parser import Parser, open_log, progress, up_to
from pyio_trace.errors import PyioTraceError
from pyio_trace.output import PACKED_SUFFIX

if TYPE_CHECKING:
    from pyio_trace.analysis.facts import Summary
    from pyio_trace.join.facade import Log


def arguments(parser: Parser) -> None:
    parser.add_argument("log", metavar="LOG")
    parser.add_argument("--final", metavar="FINAL", help="the log to make of it, if the whole run has ended")
    parser.add_argument("--quiet", action="store_true", help="no summary")


def run(arguments: argparse.Namespace) -> int:
    try:
        _heed_interrupts()
        _finish(arguments.log, arguments.final, arguments.quiet)
    except KeyboardInterrupt:
        _say(f"interrupted; the live log stays: {arguments.log}")
    except (PyioTraceError, OSError, MemoryError) as error:
        _say(f"{error}; the live log stays: {arguments.log}")
    except Exception as error:
        _say(f"the summary failed ({type(error).__name__}: {error}); the live log stays: {arguments.log}")
    return 0


def _heed_interrupts() -> None:
    """From now on Ctrl-C ends the packing.  Until here it was blocked, and what came was meant for the program."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGINT])
    signal.signal(signal.SIGINT, before)


def _finish(path: str, final: str | None, quiet: bool) -> None:
    log = open_log(path)
    alive = _alive(log)
    summary = None if quiet else _summary(log)
    if final is not None and alive:
        left = f"still alive: {', '.join(map(str, alive))}"
        if not quiet:
            later = f"pyio-trace pack {path} {final}" if final.endswith(PACKED_SUFFIX) else f"mv {path} {final}"
            _say(f"{left}: the log stays live; later: {later}")
    elif final is not None:
        size = _settle(path, final, log.rows())
        if summary is not None:
            each = size / log.rows() if log.rows() else None
            summary = replace(summary, run=replace(summary.run, path=final, log_bytes=size, bytes_per_operation=each))
    if summary is not None:
        from pyio_trace.report.text import print_summary

        print_summary(summary, sys.stderr)


def _alive(log: Log) -> list[int]:
    """Processes of the run that go on.  The one that started us waits, and has nothing more to write."""
    table = log.processes()
    pairs = zip(table["pid"].to_pylist(), table["ended"].to_pylist(), strict=True)
    return [pid for pid, ended in pairs if ended == "running" and pid not in (os.getpid(), os.getppid())]


def _summary(log: Log) -> Summary:
    from pyio_trace.analysis.summary import summarize

    with progress("summary", log.rows()) as bar:
        return summarize(log, progress=bar)


def _settle(path: str, final: str, rows: int) -> int:
    """Make the log that one keeps, remove the live one; returns its bytes."""
    from pyio_trace.join.pack import settle

    with progress("packing the log", rows) as bar:
        return settle(path, final, up_to(bar))


def _say(text: str) -> None:
    sys.stderr.write(f"pyio-trace: {text}\n")
