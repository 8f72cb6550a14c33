"""Make a compact Parquet log of a live one (or of a folder of logs).

The Parquet log has a tenth of the size and everything in the live log, and any
dataframe tool reads it. The live log stays unless --remove is given; while its
run goes on it always stays.

With --obfuscate, names are replaced by words that depend on KEY: paths, hosts,
users, arguments, functions of the program, and whatever texts there are. The
same name has the same word in all logs of the same key. Extensions of known
formats, the depth of folders, lines, sizes and times stay, and so do files and
functions of Python and of installed packages. The key is at least 8 characters
that nobody can guess; @FILE reads it from a file, where ps does not show it.

  pyio-trace pack run.parquet shown.parquet --obfuscate @key.txt
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

from pyio_trace.cli.parser import Parser, add_log, progress, up_to
from pyio_trace.cli.standard_output import standard_output
from pyio_trace.errors import ConfigError, PyioTraceError, printable
from pyio_trace.existing_files import check_output, check_replaceable
from pyio_trace.log_constants import RUNNING
from pyio_trace.output import LIVE_SUFFIX, PACKED_SUFFIX

if TYPE_CHECKING:
    import pyarrow as pa

    from pyio_trace.join.pack.replaced_names import Names
    from pyio_trace.join.sources.facade import Log

_LONGEST_KEY = 4096  #: bytes that are read of its file


def arguments(parser: Parser) -> None:
    add_log(parser)
    parser.add_argument("placed", metavar="OUTPUT", nargs="?", help="default: the log's name with .parquet")
    parser.add_argument("-o", "--output", metavar="FILE", help="another way to name the OUTPUT")
    parser.add_argument("--obfuscate", metavar="KEY", help="replace all names; @FILE: the key is in a file")
    parser.add_argument("--remove", action="store_true", help="remove the live log after writing the Parquet log")


def _default_output(source: str) -> str:
    """The default name: next to the log or folder, with its name.  Raises ConfigError."""
    if source.endswith(PACKED_SUFFIX) and not os.path.isdir(source):
        raise ConfigError("contradictory-options", f"{source} is a Parquet log; to pack it again, name the OUTPUT")
    if os.path.basename(source) in ("", ".", ".."):  # a folder given by its position, not by its name
        source = os.path.realpath(source or "/")
        if source == "/":
            raise ConfigError("missing-value", "pack: the root folder has no name; name the OUTPUT too")
    return source.removesuffix(LIVE_SUFFIX) + PACKED_SUFFIX


def _names(arguments: argparse.Namespace) -> Names | None:
    """The replacements that --obfuscate asks for.  Raises ConfigError."""
    key: str | None = arguments.obfuscate
    if key is None:
        return None
    if arguments.output is None:
        raise ConfigError("missing-value", "pack --obfuscate: name the OUTPUT; the log's own name may say too much")
    if arguments.remove:
        raise ConfigError("contradictory-options", "pack: --obfuscate and --remove: the names would be lost")
    from pyio_trace.join.pack.replaced_names import Names

    if key.startswith("@"):
        try:
            with open(key[1:], "rb") as file:
                key = os.fsdecode(file.read(_LONGEST_KEY)).strip()
        except OSError as error:
            raise ConfigError("bad-value", f"--obfuscate: {key[1:]}: cannot be read: {error.strerror}") from None
    return Names(key)


def attachments(log: Log, batches: Iterator[pa.RecordBatch]) -> dict[str, str]:
    """The summary of the log that is being packed.  A log can be packed even if there is a fault in its summary."""
    from pyio_trace.analysis.summary.kept_summary import WORTH_KEEPING, attachments_of
    from pyio_trace.analysis.summary.summarize import summarize

    if log.rows() < WORTH_KEEPING:
        return {}
    try:
        return attachments_of(summarize(log, batches=batches))
    except (PyioTraceError, OSError, MemoryError):
        raise
    except Exception:
        return {}


def run(arguments: argparse.Namespace) -> int:
    from pyio_trace.cli.command_process import do_without_pandas
    from pyio_trace.join.pack.new_file import Folder
    from pyio_trace.join.pack.packer import pack_source
    from pyio_trace.join.sources.foreign_source import ForeignSource
    from pyio_trace.join.sources.opening import open_source, there
    from pyio_trace.units import counted, size

    if arguments.placed is not None:
        if arguments.output is not None:
            raise ConfigError("contradictory-options", "pack: the OUTPUT is named twice: as an argument and with -o")
        arguments.output = arguments.placed
    do_without_pandas()
    names = _names(arguments)
    arguments.log = there(arguments.log)
    source = open_source(arguments.log)
    if arguments.remove and isinstance(source, ForeignSource):
        raise ConfigError("contradictory-options", f"pack: --remove: {arguments.log} is another tool's log, and stays")
    if names is not None:
        from pyio_trace.join.pack.obfuscated_source import ObfuscatedSource

        source = ObfuscatedSource(source, names)
    name = arguments.log.rstrip("/")
    packed = os.lstat(name)
    output = _default_output(name) if arguments.output is None else arguments.output
    if not output:
        raise ConfigError("missing-value", "pack: the name of the OUTPUT is empty")
    check_output(name, output)
    check_replaceable(output)
    running = any(process["ended"] == RUNNING for process in source.processes())
    with progress("pack", source.rows()) as bar:
        called = arguments.log if names is None else os.path.basename(output)  # in the summary that is kept
        result = pack_source(source, called, output, up_to(bar), attachments)
    if arguments.remove and not running and os.path.isfile(name):
        Folder(os.path.dirname(name)).remove(os.path.basename(name), (packed.st_dev, packed.st_ino))
    each = "" if result["bytes_per_operation"] is None else f", {result['bytes_per_operation']:.1f} B each"
    with standard_output() as out:
        rows = counted(result["rows"], "operation")
        out.write(printable(f"{output}: {rows}, {size(result['bytes'])}{each}") + "\n")
    return 0
