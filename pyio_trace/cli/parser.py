"""What the commands share: a parser whose errors are one line, options for tables, the log, progress."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, NoReturn

from pyio_trace.errors import ConfigError
from pyio_trace.values import did_you_mean

if TYPE_CHECKING:
    import pyarrow as pa

    from pyio_trace.join.facade import Log


class Parser(argparse.ArgumentParser):
    """An ArgumentParser that raises ConfigError and guesses what was meant."""

    def __init__(self, prog: str, description: str | None) -> None:
        super().__init__(
            prog, description=description, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
        )

    @property
    def _name(self) -> str:
        return self.prog.partition(" ")[2]  # an error starts with pyio-trace already

    def parse(self, arguments: list[str]) -> argparse.Namespace:
        """The parsed arguments; --help prints and exits as usual."""
        known, rest = self.parse_known_args(arguments)
        for word in rest:
            if word.startswith("-"):
                flag = word.partition("=")[0]
                near = did_you_mean(flag, self._option_string_actions)
                raise ConfigError("unknown-option", f"{self._name} has no option {flag}{near}")
            raise ConfigError("unknown-option", f"{self._name}: one argument too many: {word!r}")
        return known

    def error(self, message: str) -> NoReturn:
        raise ConfigError("bad-arguments", f"{self._name}: {message}; see {self.prog} --help")


def add_log(parser: Parser) -> None:
    """The LOG that every command on logs has."""
    parser.add_argument("log", metavar="LOG", help="a live log (*.pyio), a Parquet log, or a folder of logs")


def add_table(parser: Parser, *more: str) -> None:
    """--format and --output for commands that give a table; more: further formats."""
    formats = ("text", "csv", "json", "parquet", *more)
    parser.add_argument("--format", choices=formats, default="text", help="default: text")
    parser.add_argument("--output", metavar="FILE", help="write there instead of to standard output")


def count(text: str) -> int:
    """A number of rows, 0 and up; raises ConfigError."""
    try:
        number = int(text)
    except ValueError:
        number = -1
    if number < 0:
        raise ConfigError("bad-arguments", f"{text!r} is no number of rows; write 0, 1, 2 ...")
    return min(number, sys.maxsize)


def open_log(path: str) -> Log:
    """The log, or the LogError that says why not."""
    from pyio_trace.join.opening import open_log as open_any

    return open_any(path)


def write_rows(batches: Iterable[pa.RecordBatch], schema: pa.Schema, arguments: argparse.Namespace) -> int:
    """Write a table as --format and --output say; returns the exit status."""
    from pyio_trace.report.tables import write_table

    if arguments.output is None:
        if arguments.format == "parquet":
            raise ConfigError("missing-value", "--format parquet needs a file to write: --output FILE")
        sys.stdout.flush()
        write_table(batches, schema, arguments.format, sys.stdout.buffer)
        sys.stdout.buffer.flush()
        return 0
    try:
        with open(arguments.output, "wb") as file:
            write_table(batches, schema, arguments.format, file)
    except OSError as error:
        raise ConfigError(
            "unwritable-output", f"{arguments.output}: cannot be written: {error.strerror or error}"
        ) from None
    return 0


def write_text(text: str, arguments: argparse.Namespace) -> int:
    """Write text to --output or standard output; returns the exit status."""
    output = arguments.output
    if output is None:
        sys.stdout.write(text)
        sys.stdout.flush()
        return 0
    try:
        with open(output, "w", encoding="utf-8", errors="backslashreplace") as file:
            file.write(text)
    except OSError as error:
        raise ConfigError("unwritable-output", f"{output}: cannot be written: {error.strerror or error}") from None
    return 0


@contextmanager
def progress(what: str, total: int) -> Iterator[Callable[[int], None] | None]:
    """A bar on stderr for long work, moved on by calling it with rows; None where nobody watches or it is soon done."""
    if total < 2_000_000 or not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(what, total=total)
        yield lambda rows: bar.advance(task, rows)


def up_to(bar: Callable[[int], None] | None) -> Callable[[int, int], None]:
    """Moves such a bar on for what tells how many rows are done, and not how many more, as pack() does."""
    done = 0

    def advance(rows: int, _: int) -> None:
        nonlocal done
        if bar is not None:
            bar(rows - done)
        done = rows

    return advance
