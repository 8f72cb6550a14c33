"""Write a log in the format of another tool.

In time, each operation of its own:
  perfetto    for ui.perfetto.dev: protobuf, a track for each thread
  chrome      the same as JSON, for chrome://tracing too
  firefox     for profiler.firefox.com: markers and samples of I/O
As sums by call stack:
  pprof       for go tool pprof: calls, bytes, time
  speedscope  for speedscope.app: time, bytes, calls
  folded      lines "frame;frame;frame us", for flame graphs
For the tools of Darshan (PyDarshan, darshan-parser, Drishti, DXT Explorer):
  darshan     a log of Darshan 3.5, each process or rank as a rank

A file has at most --max-size bytes.  The longest operations are kept, and the
others are sums by line; how much these are is printed.

  pyio-trace export run.parquet --to perfetto -o run.pftrace
  pyio-trace export run.parquet --to chrome --with trace.json -o both.json
"""

from __future__ import annotations

import argparse
import os
from typing import TYPE_CHECKING

from pyio_trace.cli.parser import Parser, add_log, open_log, progress
from pyio_trace.cli.selection import add_selection, restricted, selection
from pyio_trace.cli.standard_output import standard_output
from pyio_trace.errors import ConfigError, printable
from pyio_trace.values import parse_bytes

if TYPE_CHECKING:
    from pyio_trace.export import Format, Options


def arguments(parser: Parser) -> None:
    from pyio_trace.export import formats

    add_log(parser)
    parser.add_argument("--to", choices=formats(), required=True, help="the format")
    parser.add_argument("-o", "--output", metavar="FILE", required=True, help="the new file")
    parser.add_argument(
        "--max-size",
        metavar="SIZE",
        help="of the file, such as 500M; shorter operations become sums by line (default: 100M; not of darshan)",
    )
    parser.add_argument(
        "--with",
        dest="merged",
        metavar="TRACE",
        help="show a trace of torch.profiler (JSON, or packed by gzip) beside the log, of chrome and perfetto",
    )
    parser.add_argument("--imports", action="store_true", help="include what Python's imports read")
    add_selection(parser)


def run(arguments: argparse.Namespace) -> int:
    from pyio_trace.export import format_of

    format_ = format_of(arguments.to)
    options = _options(arguments, format_)
    chosen = selection(arguments)
    log = open_log(arguments.log)
    output = arguments.output
    if not output:
        raise ConfigError("missing-value", "export: the name of the FILE is empty")
    if os.path.lexists(output):
        raise ConfigError("output-exists", f"{output} exists: name another file, or remove it")
    with progress("export", log.rows()) as bar:
        log, bar = restricted(log, chosen, bar)
        try:
            lines = format_.write(log, output, options, bar)
        except OSError as error:
            raise ConfigError("unwritable-output", f"{output}: cannot be written: {error.strerror or error}") from None
    with standard_output() as out:
        out.write("".join(f"{printable(line)}\n" for line in lines))
    return 0


def _options(arguments: argparse.Namespace, format_: Format) -> Options:
    from pyio_trace.export import MAX_SIZE, Options

    for option, value, name in (("--max-size", arguments.max_size, "LIMITED"), ("--with", arguments.merged, "MERGES")):
        if value is not None and not getattr(format_, name, False):
            raise ConfigError("contradictory-options", f"{option} is not for --to {arguments.to}")
    size = MAX_SIZE if arguments.max_size is None else parse_bytes(arguments.max_size, "--max-size")
    return Options(arguments.imports, size, arguments.merged)
