"""Write a log in the format of another tool.

darshan: a log of Darshan 3.5, which PyDarshan, darshan-parser, Drishti and DXT
Explorer read, with its modules POSIX, STDIO, MPI-IO, H5F, H5D, DXT_POSIX,
DXT_MPIIO and HEATMAP, as far as the run used them.  Processes of a parallel job
are its ranks; of other programs, each process that did I/O is a rank.

The manual's page on Darshan says which counters a log cannot have.

  pyio-trace export run.parquet --to darshan -o run.darshan
  python -m darshan summary run.darshan
"""

from __future__ import annotations

import argparse
import os

from pyio_trace.cli.parser import Parser, add_log, open_log, progress
from pyio_trace.cli.selection import add_selection, restricted, selection
from pyio_trace.cli.standard_output import standard_output
from pyio_trace.errors import ConfigError, printable


def arguments(parser: Parser) -> None:
    from pyio_trace.export import formats

    add_log(parser)
    parser.add_argument("--to", choices=formats(), required=True, help="the format")
    parser.add_argument("-o", "--output", metavar="FILE", required=True, help="the new file")
    parser.add_argument("--imports", action="store_true", help="include what Python's imports read")
    add_selection(parser)


def run(arguments: argparse.Namespace) -> int:
    from pyio_trace.export import format_of

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
            lines = format_of(arguments.to).write(log, output, arguments.imports, bar)
        except OSError as error:
            raise ConfigError("unwritable-output", f"{output}: cannot be written: {error.strerror or error}") from None
    with standard_output() as out:
        out.write("".join(f"{printable(line)}\n" for line in lines))
    return 0
