"""The options that choose operations, the same for every command that sums or lists them."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Callable
from typing import TYPE_CHECKING

from pyio_trace.cli.parser import Parser
from pyio_trace.errors import ConfigError
from pyio_trace.values import parse_duration

if TYPE_CHECKING:
    from pyio_trace.analysis.scan.filters import Filter
    from pyio_trace.analysis.scan.workers import Workers
    from pyio_trace.join.sources.facade import Log

_ABOUT = "only operations that match each option given; repeating one adds a value"


def add_selection(parser: Parser) -> None:
    """--path, --layer, --op, --process, --rank, --since, --until and --line."""
    group = parser.add_argument_group("selection", _ABOUT)
    for flag, metavar, kind, what in (
        ("--path", "GLOB", str, "on these paths: '*.h5', a name, a folder; as --include"),
        ("--layer", "LAYER", str, "app, user, hdf5, mpiio, stdio or posix"),
        ("--op", "OP", str, "name or pattern, such as 'pread*'"),
        ("--process", "PROCESS", str, "a pid, a number in the process table, or a pattern of its name"),
        ("--rank", "N[,N...]", _ranks, "of the processes of these ranks"),
        ("--line", "LINE", str, "from this line (train.py:9) or these files ('train*.py')"),
    ):
        action = "extend" if kind is _ranks else "append"
        group.add_argument(flag, action=action, default=[], type=kind, metavar=metavar, help=what)
    for flag, what in (
        ("--since", "under way then or later: 12.5s or 300ms after the run began"),
        ("--until", "begun before then"),
    ):
        group.add_argument(flag, type=_time(flag), metavar="TIME", help=what)


def selection(arguments: argparse.Namespace, min_duration: int = 0, errors: bool = False) -> Filter:
    """What the options say.  Raises ConfigError."""
    from pyio_trace.analysis.scan.filters import Filter

    if arguments.since is not None and arguments.until is not None and arguments.since >= arguments.until:
        raise ConfigError("contradictory-options", "--since is not before --until: no operation is between them")
    return Filter(
        layers=arguments.layer, ops=arguments.op, paths=arguments.path, processes=arguments.process,
        ranks=arguments.rank, lines=arguments.line, since=arguments.since, until=arguments.until,
        min_duration=min_duration, errors=errors, text=_as_typed(arguments),
    )  # fmt: skip


def restricted(
    log: Log, chosen: Filter, bar: Callable[[int], None] | None, workers: Workers | None = None
) -> tuple[Log, Callable[[int], None] | None]:
    """(the chosen operations, the bar for the command that sums them).

    A selection reports the rows it reads itself, so there is no bar left for the
    command, unless workers read them.
    """
    from pyio_trace.analysis.scan.filters import restrict

    if not chosen:
        return log, bar
    return (restrict(log, chosen, bar), None) if workers is None else (restrict(log, chosen), bar)


def _ranks(text: str) -> list[int]:
    numbers = text.split(",")
    if not all(number.isascii() and number.isdigit() for number in numbers):
        raise ConfigError("bad-value", f"--rank: {text!r} is not a rank; write 0, 1, 2 ... or 0,1,2")
    return [min(int(number[:19]), 1 << 62) for number in numbers]


def _time(name: str) -> Callable[[str], int]:
    return lambda text: parse_duration(text, name)


def _as_typed(arguments: argparse.Namespace) -> str:
    """The selection as it is typed, for the first lines of a report."""
    words = []
    for name in ("path", "layer", "op", "process", "line"):
        words += [f"--{name} {shlex.quote(value)}" for value in getattr(arguments, name)]
    if arguments.rank:
        words.append(f"--rank {','.join(map(str, arguments.rank))}")
    for name in ("since", "until"):
        if getattr(arguments, name) is not None:
            words.append(f"--{name} {getattr(arguments, name) / 1e9:g}s")
    return " ".join(words)
