"""Logs in the formats of other tools: one module or package here for each format, found without a list.

A format is a module with a docstring, whose first sentence `pyio-trace export --help` shows, and a function write()
as in `Format`.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol, cast

if TYPE_CHECKING:
    from pyio_trace.join.sources.facade import Log


class Format(Protocol):
    """The module of a format."""

    def write(self, log: Log, path: str, imports: bool, progress: Callable[[int], None] | None) -> list[str]:
        """Writes the log as the file `path`, which does not exist.  Returns what to tell the user, a line each.

        imports: also what Python's imports did; progress: called with the rows that are done.  Raises OSError, and
        what reading the log raises.
        """


def formats() -> list[str]:
    """The names of all formats, in alphabetical order."""
    return sorted(module.name for module in pkgutil.iter_modules(__path__))


def format_of(name: str) -> Format:
    """The format of this name, one of formats()."""
    return cast(Format, importlib.import_module(f"{__name__}.{name}"))
