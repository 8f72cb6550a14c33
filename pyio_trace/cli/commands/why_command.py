"""What a running program waits for now: each thread, on what, since when, where.

PID: of any process.  It is looked at from outside, by /proc: it is not stopped,
and gets no signal.  Of a traced program, the live log tells the line of Python
and the exact begin; of others, only the kernel is asked.

The first line is the verdict.  Then come its threads, and those of its child
processes, the longest wait first: the system call, its file, pipe, socket or
lock, who could end the wait (the holder of a lock, who has the other end of a
pipe), and the line.

  pyio-trace why 4242
  pyio-trace why 4242 --json
"""

from __future__ import annotations

import argparse
import json

from pyio_trace.cli.parser import Parser, add_format
from pyio_trace.cli.standard_output import standard_output
from pyio_trace.errors import ConfigError


def arguments(parser: Parser) -> None:
    parser.add_argument("pid", metavar="PID", help="the number of a process")
    add_format(parser, "text", "json")


def run(arguments: argparse.Namespace) -> int:
    from pyio_trace.running.waits import waits_of

    waits = waits_of(pid_in(arguments.pid))
    with standard_output() as out:
        if arguments.format == "json":
            from pyio_trace.analysis.typed_results import as_plain
            from pyio_trace.report.why_text import verdict

            out.write(json.dumps({"verdict": verdict(waits), **as_plain(waits)}, indent=1) + "\n")
        else:
            from pyio_trace.report.why_text import why_lines

            out.writelines(line + "\n" for line in why_lines(waits))
    return 0


def pid_in(text: str) -> int:
    """A process's number.  Raises ConfigError."""
    if not (text.isascii() and text.isdecimal() and 0 < int(text) < 1 << 31):
        raise ConfigError("bad-arguments", f"why: {text!r} is no number of a process; ps shows them")
    return int(text)
