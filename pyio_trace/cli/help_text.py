"""`pyio-trace --help`: the overview, made from the tables of commands and options."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from importlib import metadata

from pyio_trace.config import OPTIONS, PREFIX, SWITCH
from pyio_trace.output import DEFAULT_PATTERN

_START = """\
usage: python -m pyio_trace [options] script.py [args]
       (also: -m module, -c code)
       pyio-trace COMMAND ...

Trace what a Python program reads and writes, and say what it cost.

commands (pyio-trace COMMAND --help says more):
"""
_RUN = """\
usage: pyio-trace run [options] script.py [args]
       (also: -m module, -c code)

Trace what a Python program reads and writes, and say what it cost.  This is
the same as python -m pyio_trace, or pyio-trace, without a command; use it for a
script that has the name of a command.  Options come before the script.  The
exit status is the program's own.
"""
_END = f"""
The same options as environment variables: {PREFIX}OUTPUT, {PREFIX}STACKS,
...; and in [tool.pyio_trace] of pyproject.toml.  PYIO_TRACE=1 alone traces any
python script.py.  Write ./summary for a script that is named like a command.
"""


def overview(commands: dict[str, str]) -> str:
    """The text of --help."""
    lines = [_START]
    lines += [f"  {name:<10} {what}\n" for name, what in commands.items()]
    return "".join(lines) + _options() + _END


def of_run() -> str:
    """The text of run --help."""
    return _RUN + _options() + _END


def option_rows() -> Iterator[dict[str, str]]:
    """The table as texts, one row for each option: for the help and for the reference page.

    An isolated program (python -E or -I) takes none of them from the environment
    or a pyproject.toml: it gets those of its launch's command line, or of the run that it joins.
    """
    for option in OPTIONS:
        yield {
            "name": option.name,
            "flags": ", ".join(option.flags) + (f" {option.metavar}" if option.metavar else ""),
            "variable": option.variable,
            "key": option.name.replace("_", "-"),
            "type": " | ".join(option.choices) or option.type,
            "default": DEFAULT_PATTERN if option.name == "output" else option.default,
            "help": option.help,
        }


def _options() -> str:
    lines = ["\noptions:\n"]
    for row in option_rows():
        default = "" if row["type"] == SWITCH or row["default"] in ("", "0") else f". Default: {row['default']}"
        lines.append(f"  {row['flags']}\n")
        lines += [f"      {line}\n" for line in textwrap.wrap(row["help"] + default, 72, break_on_hyphens=False)]
    return "".join(lines)


def version() -> str:
    """The installed version, or "unknown" where the package is run without being installed."""
    try:
        return metadata.version("pyio_trace")
    except metadata.PackageNotFoundError:
        return "unknown"
