"""What the commands share: a parser with one-line errors, common options, opening logs, writing output, progress."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, NoReturn

from pyio_trace.cli.standard_output import bytes_of, standard_output
from pyio_trace.errors import ConfigError
from pyio_trace.values import did_you_mean

if TYPE_CHECKING:
    import pyarrow as pa

    from pyio_trace.join.sources.facade import Log


#: From this many rows on, work may take long enough for a progress bar.
LONG_WORK = 200_000
#: Seconds after which a progress bar is drawn.
_SOON = 1.0


class Parser(argparse.ArgumentParser):
    """An ArgumentParser that raises ConfigError and suggests what may have been meant."""

    def __init__(self, prog: str, description: str | None) -> None:
        # argparse makes a formatter for each argument.  Without a width, that imports shutil to ask the terminal.
        unprinted = partial(argparse.RawDescriptionHelpFormatter, width=80)
        super().__init__(prog, description=description, formatter_class=unprinted, allow_abbrev=False)

    @property
    def _name(self) -> str:
        return self.prog.partition(" ")[2]  # an error starts with pyio-trace already

    def format_help(self) -> str:
        """The help.  Its first line has the arguments and, and [options] for all options."""
        words = {"?": "[{0}]", "*": "[{0} ...]", "+": "{0} ...", "...": "{0}"}
        names = [words.get(str(one.nargs), "{0}").format(one.metavar) for one in self._get_positional_actions()]
        self.usage = " ".join(["%(prog)s [options]", *names])
        self.formatter_class = argparse.RawDescriptionHelpFormatter
        return super().format_help()

    def print_help(self, file: Any = None) -> None:
        """Prints the help on standard output."""
        with standard_output() as out:
            out.write(self.format_help())

    def parse(self, arguments: list[str]) -> argparse.Namespace:
        """The parsed arguments.  Raises ConfigError; --help prints and exits as usual."""
        known, rest = self.parse_known_args(arguments)
        for word in rest:
            if word.startswith("-"):
                flag = word.partition("=")[0]
                near = did_you_mean(flag, self._option_string_actions)
                raise ConfigError("unknown-option", f"{self._name} has no option {flag}{near}")
            raise ConfigError("unknown-option", f"{self._name}: unexpected argument {word!r}; see {self.prog} --help")
        return known

    def error(self, message: str) -> NoReturn:
        raise ConfigError("bad-arguments", f"{self._name}: {message}; see {self.prog} --help")


def add_log(parser: Parser) -> None:
    """The argument LOG."""
    what = "a live log (*.pyio), a Parquet log, another tool's log, or a folder of logs"
    parser.add_argument("log", metavar="LOG", help=what)


def add_table(parser: Parser, *more: str) -> None:
    """The options of commands that print a table; more: further formats."""
    add_format(parser, "text", "csv", "json", "parquet", *more)
    add_output(parser)
    parser.add_argument(
        "--raw",
        action="store_true",
        help="with --format csv: do not put a ' before texts that a spreadsheet would run as formulas",
    )


def add_format(parser: Parser, *formats: str) -> None:
    """--format, of which the first is the default, and --json, if that is among them."""
    parser.add_argument("--format", choices=formats, default=formats[0], help="default: %(default)s")
    if "json" in formats:
        parser.add_argument("--json", dest="format", action="store_const", const="json", help="as --format json")


def add_output(parser: Parser) -> None:
    """-o, --output."""
    parser.add_argument("-o", "--output", metavar="FILE", help="write there instead of to standard output")


def add_limits(parser: Parser) -> None:
    """--limit and --imports, of sums."""
    parser.add_argument("--limit", type=count, metavar="N", help="only the first N rows")
    parser.add_argument("--imports", action="store_true", help="include what Python's imports read")


def count(text: str) -> int:
    """A number of rows, 0 or more.  Raises ArgumentTypeError, which argparse reports with the option's name."""
    try:
        number = int(text)
    except ValueError:
        number = -1
    if number < 0:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of rows, such as 0 or 10")
    return min(number, sys.maxsize)


def open_log(path: str) -> Log:
    """The log at `path`.  Raises LogError."""
    from pyio_trace.cli.command_process import do_without_pandas
    from pyio_trace.join.sources.opening import open_log as open_any

    do_without_pandas()
    return open_any(path)


def write_rows(batches: Iterable[pa.RecordBatch], schema: pa.Schema, arguments: argparse.Namespace) -> int:
    """Write a table as --format and --output say.  Returns the exit status."""
    from pyio_trace.report.tables import write_table

    if arguments.output is None:
        if arguments.format == "parquet":
            raise ConfigError("missing-value", "--format parquet needs a file to write: --output FILE")
        with standard_output() as out:
            out.flush()
            write_table(batches, schema, arguments.format, bytes_of(out, arguments.format), raw=arguments.raw)
        return 0
    try:
        with open(arguments.output, "wb") as file:
            write_table(batches, schema, arguments.format, file, raw=arguments.raw)
    except OSError as error:
        raise ConfigError(
            "unwritable-output", f"{arguments.output}: cannot be written: {error.strerror or error}"
        ) from None
    return 0


def limited(table: pa.Table, arguments: argparse.Namespace) -> pa.Table:
    """The first rows, as many as --limit says."""
    return table if arguments.limit is None else table.slice(0, min(arguments.limit, table.num_rows))


def write_sums(table: pa.Table, log: Log, arguments: argparse.Namespace) -> int:
    """Write sums with the columns first and last, in text as seconds since the run began.  Returns the exit status."""
    from pyio_trace.analysis.tables.ordering import since_start

    if arguments.format == "text":
        table = since_start(table, log, ("first", "last"))
    return write_rows(table.to_batches(), table.schema, arguments)


def write_text(text: str, arguments: argparse.Namespace) -> int:
    """Write text to --output or standard output.  Returns the exit status."""
    output = arguments.output
    if output is None:
        with standard_output() as out:
            out.write(text)
        return 0
    try:
        with open(output, "w", encoding="utf-8", errors="backslashreplace") as file:
            file.write(text)
    except OSError as error:
        raise ConfigError("unwritable-output", f"{output}: cannot be written: {error.strerror or error}") from None
    return 0


@contextmanager
def progress(what: str, total: int) -> Iterator[Callable[[int], None] | None]:
    """A progress bar on stderr, drawn once the work has lasted a second.

    Gives a function that takes the number of rows done since its last call; None
    if stderr is not a terminal or the work is short.
    """
    if total < LONG_WORK or not sys.stderr.isatty():
        yield None
        return
    with ExitStack() as drawn:
        yield _late_bar(what, total, drawn)


def _late_bar(what: str, total: int, drawn: ExitStack) -> Callable[[int], None]:
    begun, done = time.monotonic(), 0
    draw: Callable[..., None] | None = None

    def advance(rows: int) -> None:
        nonlocal done, draw
        done += rows
        if draw is None and time.monotonic() - begun >= _SOON:
            from rich.console import Console
            from rich.progress import Progress

            bar = drawn.enter_context(Progress(console=Console(stderr=True), transient=True))
            draw = partial(bar.update, bar.add_task(what, total=total))
        if draw is not None:
            draw(completed=done)

    return advance


def up_to(bar: Callable[[int], None] | None) -> Callable[[int, int], None]:
    """Adapts such a bar to a callback that gets the total number of rows done, such as that of pack()."""
    done = 0

    def advance(rows: int, _: int) -> None:
        nonlocal done
        if bar is not None:
            bar(rows - done)
        done = rows

    return advance
