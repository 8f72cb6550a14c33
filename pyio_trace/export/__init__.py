"""Logs in the formats of other tools: one module or package here for each format, found without a list.

A format is a module with a docstring, whose first sentence says what it is, and a function write() as in `Format`.  If
the size of its files can be limited, it has LIMITED = True, and if it takes a trace of torch.profiler into its picture,
MERGES = True.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol, cast

from pyio_trace.light_dataclass import dataclass

if TYPE_CHECKING:
    from pyio_trace.join.sources.facade import Log

#: Bytes of a file, unless the user says another size.
MAX_SIZE = 100 << 20


@dataclass(frozen=True)
class Options:
    """imports: also what Python's imports did.  max_size: bytes of the file at most, of formats with LIMITED.  merged:
    the file of a trace of torch.profiler, of formats with MERGES."""

    imports: bool = False
    max_size: int = MAX_SIZE
    merged: str | None = None


class Format(Protocol):
    """The module of a format."""

    def write(self, log: Log, path: str, options: Options, progress: Callable[[int], None] | None) -> list[str]:
        """Writes the log as the file `path`, which does not exist.  Returns what to tell the user, a line each.

        progress: called with the rows that are done.  Raises OSError, PyioTraceError for what the user can change, and
        what reading the log raises.
        """


def formats() -> list[str]:
    """The names of all formats, in alphabetical order."""
    return sorted(module.name for module in pkgutil.iter_modules(__path__))


def format_of(name: str) -> Format:
    """The format of this name, one of formats()."""
    return cast(Format, importlib.import_module(f"{__name__}.{name}"))
