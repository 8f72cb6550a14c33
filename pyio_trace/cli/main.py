"""The entry point of `pyio-trace` and `python -m pyio_trace`: tells a launch from a command.

A launch goes through here before the traced program's first line, so this
module imports only the errors: no argparse, no pyarrow.  A first word that is
exactly a command's name is that command, whatever the current folder contains;
a script of that name is written ./summary.
"""

from __future__ import annotations

import errno
import io
import sys

from pyio_trace.errors import CaptureError, LogError, PyioTraceError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

#: Command -> its purpose.  `run` is the launch itself; the core uses "finish" at the end of a run, users do not.
COMMANDS = {
    "run": "trace a program: the same as no command at all",
    "summary": "what a run did and what it cost, worst first",
    "events": "the operations, one row each",
    "files": "sums by file",
    "stacks": "sums by Python stack; --format folded for flame graphs",
    "insights": "what is slow, why, at which line, and what to do",
    "report": "one HTML file that shows a run, to look at and to send",
    "diff": "two runs compared; more of them as a scaling table",
    "processes": "the processes: their names, who started them, how they ended",
    "counters": "Darshan's counters by file; what was counted and not recorded",
    "samples": "what the threads were found doing, beside their operations",
    "views": "the views that `view` prints, one line each",
    "view": "one view of a log: sums by line, accesses, reuse, phases, ...",
    "sql": "an SQL query over the tables of a log",
    "schema": "the JSON schema of what a command prints",
    "export": "the log for other tools: Perfetto, Firefox, pprof, Darshan",
    "pack": "make a compact Parquet log of a live one",
    "merge": "make one log of the logs of a job's ranks and hosts",
    "why": "what a running program waits for now: file, lock, line, since when",
    "top": "what a running program reads and writes now, by line and file",
    "fleet": "jobs, users, programs and findings of thousands of logs",
    "doctor": "whether tracing works here, in a process, for a script",
}
HIDDEN = ("finish",)
_HELP, _VERSION = ("-h", "--help"), ("-V", "--version")


def main(argv: list[str] | None = None) -> int:
    """Run a command line, by default that of this process.  Returns the exit status.

    An error of the user is one line on stderr and status 2.
    """
    arguments = sys.argv[1:] if argv is None else argv
    try:
        return _dispatch(arguments)
    except PyioTraceError as error:
        return _refused(error)
    except MemoryError:
        return _refused(LogError("no-memory", "there is not enough memory for this log; try a larger machine"))
    except BrokenPipeError:  # the reader of our output has closed it (| head)
        from pyio_trace.cli.standard_output import discard

        discard()
        return 0
    except KeyboardInterrupt:
        return 130
    except (OSError, RuntimeError) as error:
        if not _is_limit(error):
            raise
        return _refused(LogError("system-limit", f"a limit of this system is reached: {error}; ulimit -a shows them"))


def _is_limit(error: OSError | RuntimeError) -> bool:
    """Whether the process may have no more files, processes, threads or room on a disk."""
    if isinstance(error, OSError):
        return errno.errorcode.get(error.errno or 0) in ("EMFILE", "ENFILE", "EAGAIN", "ENOSPC", "EDQUOT", "EFBIG")
    return "thread" in str(error)


def _refused(error: PyioTraceError) -> int:
    """Says why, in one line.  Returns the exit status."""
    try:
        sys.stderr.write(f"pyio-trace: {error}\n")
        sys.stderr.flush()
    except (AttributeError, OSError):  # stderr is closed or its disk is full: there is nowhere to say it
        sys.stderr = None  # a last flush of it by Python would change the status to 120
    return 2


def _dispatch(arguments: list[str]) -> int:
    word = arguments[0] if arguments else "--help"
    if word in COMMANDS or word in HIDDEN:
        if word != "run":
            return _command(word, arguments[1:])
        arguments = arguments[1:]
        if arguments and arguments[0] in _HELP:
            from pyio_trace.cli.help_text import of_run

            return _print(of_run())
    elif word in _HELP:
        from pyio_trace.cli.help_text import overview

        return _print(overview(COMMANDS))
    elif word in _VERSION:
        from pyio_trace.cli.help_text import version

        return _print(f"pyio_trace {version()}\n")
    _launch(arguments)


def _print(text: str) -> int:
    from pyio_trace.cli.standard_output import standard_output

    with standard_output() as out:
        out.write(text)
    return 0


def _launch(arguments: list[str]) -> NoReturn:
    from pyio_trace.capture.startup.command_line import launch
    from pyio_trace.capture.startup.site_packages._pyio_trace_start import is_privileged

    if is_privileged():
        raise CaptureError(
            "privileged-process",
            "this process has more rights than the user who started it (set-user-ID, set-group-ID, file capabilities): "
            "it cannot be traced; start it as the user whose rights it needs",
        )
    launch(arguments, tuple(COMMANDS))


def _command(name: str, arguments: list[str]) -> int:
    if name != "doctor":
        from pyio_trace.cli.command_process import set_up

        set_up()
    from importlib import import_module

    from pyio_trace.cli.parser import Parser
    from pyio_trace.cli.standard_output import open_missing

    open_missing()
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # the terminal's encoding may lack a character
    module = import_module(f"pyio_trace.cli.commands.{name}_command")
    parser = Parser(f"pyio-trace {name}", module.__doc__)
    module.arguments(parser)
    parsed = parser.parse(arguments)
    if getattr(parsed, "output", None) is not None:
        from pyio_trace.existing_files import check_output

        named = getattr(parsed, "log", [])
        for log in named if isinstance(named, list) else [named]:
            check_output(log, parsed.output)  # before reading or writing anything
    status: int = module.run(parsed)
    return status
