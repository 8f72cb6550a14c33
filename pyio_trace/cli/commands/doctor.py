"""Whether and how tracing works: here, in a live process, or for a script.

Without an argument: which versions are at work, whether the compiled core
loads, where logs go, which clock stamps the operations, whether Python programs
are traced by PYIO_TRACE=1 alone; then it traces a small program for real and
says what of it was seen.

With the number of a traced process: where its log is and how full, mode, clock,
stacks, what it has used that cannot be seen, and, for each object loaded in it,
how many functions lead to us, which do not, and why.

With a script: runs it TO ITS END, with all that it does, traced into a log that
is removed afterwards, and shows the same of it as it was just before it exited.
What it prints goes to standard error.  Its arguments follow it.

Status 1 if tracing does not work there.
"""

from __future__ import annotations

import argparse
import json
import os
import sys

from pyio_trace.cli.doctor.memory import DoctorError
from pyio_trace.cli.doctor.report import Report
from pyio_trace.cli.parser import Parser
from pyio_trace.errors import ConfigError


def arguments(parser: Parser) -> None:
    parser.add_argument("--format", choices=("text", "json"), default="text", help="default: text")
    parser.add_argument(
        "--no-trial", action="store_true", help="without an argument: do not run a small traced program"
    )
    parser.add_argument("what", metavar="PID|SCRIPT", nargs="?", help="a live process, or a script to run and look at")
    parser.add_argument("arguments", metavar="...", nargs=argparse.REMAINDER, help="the script's own arguments")


def run(arguments: argparse.Namespace) -> int:
    report = _examine(arguments)
    if arguments.format == "json":
        sys.stdout.write(json.dumps(report.to_dict(), indent=1) + "\n")
    else:
        sys.stdout.writelines(line + "\n" for line in report.lines())
    return 0 if report.works else 1


def _examine(arguments: argparse.Namespace) -> Report:
    what = arguments.what
    if what is None:
        from pyio_trace.cli.doctor.installation import examine

        return examine(not arguments.no_trial)
    if what.isdecimal():
        if arguments.arguments:
            raise ConfigError("unknown-option", f"doctor: one argument too many: {arguments.arguments[0]!r}")
        from pyio_trace.cli.doctor import process

        return process.examine(int(what))
    if not os.path.exists(what):
        raise DoctorError(
            "no-such-script", f"{what}: there is no such script; name a script or the number of a process"
        )
    from pyio_trace.cli.doctor.script import try_out
    from pyio_trace.cli.launch import runnable

    return try_out(runnable(what), arguments.arguments)
