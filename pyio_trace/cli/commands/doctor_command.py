"""Whether and how tracing works: here, in a live process, or for a script.

Without an argument: shows the versions, whether the compiled core loads, where
logs go, which clock is used, and whether PYIO_TRACE=1 alone traces Python
programs; then traces a small program and says what was seen of it.

With the pid of a traced process: shows where its log is and how full, its mode,
clock and stacks, what it has used that cannot be seen, and for each loaded
object how many functions are hooked, which are not, and why.

With a script: RUNS IT TO ITS END, traced into a log that is removed afterwards,
and shows the same as for a process, just before the script exits.  What it
prints goes to standard error.  Its arguments follow its name.

The exit status is 1 if tracing does not work.
"""

from __future__ import annotations

import argparse
import json
import os

from pyio_trace.cli.doctor.diagnosis import Report
from pyio_trace.cli.doctor.process_memory import DoctorError
from pyio_trace.cli.parser import Parser, add_format
from pyio_trace.cli.standard_output import standard_output
from pyio_trace.errors import ConfigError, printable


def arguments(parser: Parser) -> None:
    add_format(parser, "text", "json")
    parser.add_argument(
        "--no-trial", action="store_true", help="without an argument: do not run a small traced program"
    )
    parser.add_argument("what", metavar="PID|SCRIPT", nargs="?", help="a live process, or a script to run and examine")
    parser.add_argument("arguments", metavar="...", nargs=argparse.REMAINDER, help="the script's own arguments")


def run(arguments: argparse.Namespace) -> int:
    report = _examine(arguments)
    with standard_output() as out:
        if arguments.format == "json":
            out.write(json.dumps(report.to_dict(), indent=1) + "\n")
        else:
            out.writelines(printable(line) + "\n" for line in report.lines())
    return 0 if report.works else 1


def _examine(arguments: argparse.Namespace) -> Report:
    what = arguments.what
    if what is None:
        from pyio_trace.cli.doctor.installation import examine

        return examine(not arguments.no_trial)
    if what.isdecimal():
        if arguments.arguments:
            raise ConfigError("unknown-option", f"doctor: unexpected argument {arguments.arguments[0]!r} after a PID")
        from pyio_trace.cli.doctor import live_process

        return live_process.examine(int(what))
    if not os.path.exists(what):
        raise DoctorError(
            "no-such-script", f"{what}: there is no such script; name a script or the number of a process"
        )
    from pyio_trace.capture.startup.command_line import runnable
    from pyio_trace.cli.doctor.traced_script import try_out

    return try_out(runnable(what), arguments.arguments)
