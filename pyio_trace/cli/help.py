"""`pyio-trace --help`: the overview, made from the tables of commands and options."""

from __future__ import annotations

import textwrap
from importlib import metadata

from pyio_trace.config import OPTIONS, PREFIX

_START = """\
usage: python -m pyio_trace [options] script.py [args]     (also: -m module, -c code)
       pyio-trace COMMAND ...

Trace what a Python program reads and writes, and say what it cost.

commands (pyio-trace COMMAND --help says more):
"""
_RUN = """\
usage: pyio-trace run [options] script.py [args]     (also: -m module, -c code)

Trace what a Python program reads and writes, and say what it cost.  The same as python -m pyio_trace, or pyio-trace,
with no command; a script that is named like one of those is run by this.  Options stand before the script.  The
program's own exit status is the status.
"""
_END = f"""
The same options as environment variables: {PREFIX}OUTPUT, {PREFIX}STACKS, ...; and in
[tool.pyio_trace] of pyproject.toml. PYIO_TRACE=1 alone traces any python script.py.
A script named like a command is written ./summary.
"""


def overview(commands: dict[str, str]) -> str:
    """The text of --help."""
    lines = [_START]
    lines += [f"  {name:<10} {what}\n" for name, what in commands.items()]
    return "".join(lines) + _options() + _END


def of_run() -> str:
    """The text of run --help."""
    return _RUN + _options() + _END


def _options() -> str:
    lines = ["\noptions:\n"]
    for option in OPTIONS:
        flags = ", ".join(option.flags) + (f" {option.metavar}" if option.metavar else "")
        text = textwrap.wrap(option.help, 72)
        lines.append(f"  {flags}\n" + "".join(f"      {line}\n" for line in text))
    return "".join(lines)


def version() -> str:
    """The installed version, or "unknown" where the package is run without being installed."""
    try:
        return metadata.version("pyio_trace")
    except metadata.PackageNotFoundError:
        return "unknown"
