"""The entry of `pyio-trace` and `python -m pyio_trace`: tells a launch from a command.

The way to a traced program's first line leads through here, so this module
and cli/launch.py import nothing but the errors and the config: no argparse, no
pyarrow.  A first word that is exactly a command's name is that command, in
whatever folder one stands; a script of such a name is written ./summary.
"""

from __future__ import annotations

import io
import os
import sys

from pyio_trace.errors import LogError, PyioTraceError

#: Command -> what it is for.  `run` is the launch itself; "finish" is for the traced process, not for people.
COMMANDS = {
    "run": "trace a program: the same as no command at all",
    "summary": "what a run did and what it cost, worst first",
    "events": "the operations, one row each",
    "files": "sums by file",
    "stacks": "sums by Python stack; --format folded for flame graphs",
    "counters": "what was counted and not recorded",
    "pack": "make a compact Parquet log of a live one",
    "doctor": "whether and how tracing works here",
}
HIDDEN = ("finish",)
_HELP, _VERSION = ("-h", "--help"), ("-V", "--version")


def main(argv: list[str] | None = None) -> int:
    """Run a command line (sys.argv without its first word when None); returns the exit status.

    Whatever is wrong with what was typed is one line on stderr and status 2.
    """
    arguments = sys.argv[1:] if argv is None else argv
    try:
        return _dispatch(arguments)
    except PyioTraceError as error:
        sys.stderr.write(f"pyio-trace: {error}\n")
        return 2
    except MemoryError:
        short = LogError("no-memory", "there is not enough memory for this log; try a larger machine")
        sys.stderr.write(f"pyio-trace: {short}\n")
        return 2
    except BrokenPipeError:
        # The reader of our output has seen enough (| head).  Python would complain again when it flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except KeyboardInterrupt:
        return 130


def launch_early() -> None:
    """What `python -m pyio_trace` is for, as soon as its interpreter can (capture/start/): a launch, if it is one.

    The rest, and whatever is wrong, is left to main(), to which the interpreter goes on.
    """
    arguments = sys.argv[1:]
    first = arguments[1:2] if arguments[:1] == ["run"] else arguments[:1]
    if not first or first[0] in {*_HELP, *_VERSION} or arguments[0] in {*COMMANDS, *HIDDEN} - {"run"}:
        return
    try:
        _dispatch(arguments)
    except Exception:
        pass  # it happens again in main(), which says so
    except KeyboardInterrupt:
        os._exit(130)  # as main() ends; an interpreter that is starting takes an exception for an error


def _dispatch(arguments: list[str]) -> int:
    word = arguments[0] if arguments else "--help"
    if word in COMMANDS or word in HIDDEN:
        if word != "run":
            return _command(word, arguments[1:])
        arguments = arguments[1:]
        if arguments and arguments[0] in _HELP:
            from pyio_trace.cli.help import of_run

            sys.stdout.write(of_run())
            return 0
    elif word in _HELP:
        from pyio_trace.cli.help import overview

        sys.stdout.write(overview(COMMANDS))
        return 0
    elif word in _VERSION:
        from pyio_trace.cli.help import version

        sys.stdout.write(f"pyio_trace {version()}\n")
        return 0
    from pyio_trace.cli.launch import launch

    return launch(arguments, tuple(COMMANDS))


def _command(name: str, arguments: list[str]) -> int:
    from importlib import import_module

    from pyio_trace.cli.parser import Parser

    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # a name that the terminal's encoding does not have
    module = import_module(f"pyio_trace.cli.commands.{name}")
    parser = Parser(f"pyio-trace {name}", module.__doc__)
    module.arguments(parser)
    parsed = parser.parse(arguments)
    if getattr(parsed, "output", None) is not None:
        from pyio_trace.output import check_output

        check_output(parsed.log, parsed.output)  # before anything is read or written
    status: int = module.run(parsed)
    return status
