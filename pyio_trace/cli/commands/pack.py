"""Make a compact Parquet log of a live one (or of a folder of logs).

The Parquet log is a tenth the size, holds everything the live log says, and
any dataframe tool reads it.  The live log stays unless --remove is given; that
of a run which still goes on always stays.
"""

from __future__ import annotations

import argparse
import os
import sys

from pyio_trace.cli.parser import Parser, add_log, open_log, progress, up_to
from pyio_trace.errors import ConfigError
from pyio_trace.output import LIVE_SUFFIX, PACKED_SUFFIX, check_output, check_replaceable


def arguments(parser: Parser) -> None:
    add_log(parser)
    parser.add_argument("output", metavar="OUTPUT", nargs="?", help="default: beside the log, named *.parquet")
    parser.add_argument("--remove", action="store_true", help="remove the live log when the Parquet log is written")


def _beside(source: str) -> str:
    """The default name: that of the log, or of the folder, beside it.  Raises ConfigError."""
    if source.endswith(PACKED_SUFFIX) and not os.path.isdir(source):
        raise ConfigError("contradictory-options", f"{source}: is a Parquet log; to pack it again, name the OUTPUT too")
    if os.path.basename(source) in ("", ".", ".."):  # a folder by where it is, not by name
        source = os.path.realpath(source or "/")
        if source == "/":
            raise ConfigError("missing-value", "pack: the root folder has no name; name the OUTPUT too")
    return source.removesuffix(LIVE_SUFFIX) + PACKED_SUFFIX


def run(arguments: argparse.Namespace) -> int:
    from pyio_trace.join.pack import pack
    from pyio_trace.report.units import counted, size

    log = open_log(arguments.log)
    source = arguments.log.rstrip("/")
    output = _beside(source) if arguments.output is None else arguments.output
    if not output:
        raise ConfigError("missing-value", "pack: the name of the OUTPUT is empty")
    check_output(source, output)
    check_replaceable(output)
    running = "running" in log.processes()["ended"].to_pylist()
    with progress("pack", log.rows()) as bar:
        result = pack(arguments.log, output, up_to(bar))
    if arguments.remove and not running and os.path.isfile(source):
        os.unlink(source)
    each = "" if result["bytes_per_operation"] is None else f", {result['bytes_per_operation']:.1f} B each"
    sys.stdout.write(f"{output}: {counted(result['rows'], 'operation')}, {size(result['bytes'])}{each}\n")
    return 0
