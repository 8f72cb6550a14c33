"""An SQL query over a log, answered by DuckDB (pip install 'pyio_trace[sql]').

The tables are operations, processes, counters, mappings and samples.  Times are
in ns.  A query can read and write no files.  `pyio-trace insights LOG --proof`
prints such commands.

  pyio-trace sql LOG "SELECT op, count(*) FROM operations GROUP BY op"
"""

from __future__ import annotations

import argparse

from pyio_trace.cli.parser import Parser, add_log, add_table, open_log, write_rows
from pyio_trace.errors import ConfigError, printable


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
    return write_rows(table.to_batches(), table.schema, arguments)
