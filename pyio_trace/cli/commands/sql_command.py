"""An SQL query over a log, answered by DuckDB (pip install 'pyio_trace[sql]').

The tables are operations, processes, counters, mappings, samples and system.
Times are in ns.  A query can read and write no files.  `pyio-trace insights LOG
--proof` prints such commands.

  pyio-trace sql LOG "SELECT op, count(*) FROM operations GROUP BY op"
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from pyio_trace.cli.parser import Parser, add_log, add_table, open_log, write_rows
from pyio_trace.errors import ConfigError, printable

if TYPE_CHECKING:
    import pyarrow as pa


def arguments(parser: Parser) -> None:
    add_log(parser)
    parser.add_argument("query", metavar="QUERY", help="a SELECT, in DuckDB's SQL")
    add_table(parser)


def run(arguments: argparse.Namespace) -> int:
    log = open_log(arguments.log)
    try:
        table = log.sql(arguments.query)
    except Exception as error:  # duckdb.Error, which only DuckDB has
        if not type(error).__module__.startswith(("duckdb", "_duckdb")):
            raise
        said = printable(str(error).partition("\n")[0])
        raise ConfigError("bad-query", f"sql: {said}; see pyio-trace sql --help") from None
    table = _plain(table)
    return write_rows(table.to_batches(), table.schema, arguments)


def _plain(table: pa.Table) -> pa.Table:
    """The table with sums of whole numbers, which DuckDB gives 128 bits, as int64; as float64 what does not fit."""
    import pyarrow as pa

    for at, field in enumerate(table.schema):
        if not pa.types.is_decimal(field.type):
            continue
        try:
            column = table.column(at).cast(pa.int64())
        except pa.ArrowInvalid:
            column = table.column(at).cast(pa.float64())
        table = table.set_column(at, field.name, column)
    return table
