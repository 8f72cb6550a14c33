"""The tables of a log for other libraries: pandas, polars, and SQL with DuckDB.

pyio_trace depends on none of them.  Each is imported at first use; if it is
missing, an error says what to install.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any

from pyio_trace import events
from pyio_trace.errors import ConfigError

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl
    import pyarrow as pa

#: Expressions that read the columns they name and no others (classes of DuckDB's json_serialize_sql).
_PLAIN = frozenset((
    "BETWEEN", "CASE", "CAST", "COLUMN_REF", "COMPARISON", "CONJUNCTION", "CONSTANT", "FUNCTION", "OPERATOR", "WINDOW",
))  # fmt: skip
#: A query, which may come from somebody else's report of findings, reads no files and writes none, and a table's name
#: is not looked up among the caller's variables.
_CLOSED = {"python_enable_replacements": "false", "enable_external_access": "false", "lock_configuration": "true"}


def to_pandas(table: pa.Table) -> pd.DataFrame:
    """A table as a DataFrame.

    Integers are nullable ones (Int64, Int32): a missing offset is <NA>, and no
    offset becomes a float.  Dictionary columns are categoricals.
    """
    pandas = _imported("pandas", "to_pandas()", "pandas")
    import pyarrow as pa

    integers = {pa.int64(): pandas.Int64Dtype(), pa.int32(): pandas.Int32Dtype()}
    return table.to_pandas(types_mapper=integers.get)


def to_polars(table: pa.Table) -> pl.DataFrame:
    """A table as a polars DataFrame that shares its numbers' memory.  Dictionary columns are Categorical."""
    polars = _imported("polars", "to_polars()", "polars")
    return polars.from_arrow(table, rechunk=False)


def run_sql(
    query: str,
    operations: Callable[[Sequence[str] | None], pa.Table],
    others: Mapping[str, Callable[[], pa.Table]],
) -> pa.Table:
    """The result of a query over the tables that it names.

    operations: gives the table of that name with some columns, or all of them
    (None); others: functions that give further tables, by name.  Raises
    duckdb.Error for a query that DuckDB does not accept, ConfigError bad-value
    for one without a result.
    """
    duckdb = _imported("duckdb", "sql()", "sql")
    with duckdb.connect(":memory:", config=_CLOSED) as connection:
        if "operations" in query.lower():
            connection.register("operations", operations(columns_read(connection, query)))
        for name, table in others.items():
            if name in query.lower():
                connection.register(name, table())
        found = connection.sql(query)
        if found is None:
            raise ConfigError("bad-value", f"sql(): {query!r} has no result; write a SELECT")
        return found.to_arrow_table()


def columns_read(connection: Any, query: str) -> list[str] | None:
    """The columns of operations that a query reads; None: perhaps all of them.

    It is certain only for a select from operations alone, without * and
    subqueries.  Making a table takes much less time without columns that
    nobody reads, above all the stacks.
    """
    ((text,),) = connection.execute("select json_serialize_sql(?)", [query]).fetchall()
    statements = json.loads(text).get("statements", [])
    nodes = list(_nodes(statements))
    selects = [node for node in nodes if "from_table" in node]
    if (
        len(statements) != 1
        or len(selects) != 1
        or any(node.get("class", "COLUMN_REF") not in _PLAIN for node in nodes)
    ):
        return None
    table = selects[0]["from_table"]
    if table.get("type") != "BASE_TABLE" or table.get("table_name", "").lower() != "operations":
        return None
    known = {name.lower(): name for name in events.ALL_COLUMNS}
    named = {node["column_names"][-1].lower() for node in nodes if node.get("class") == "COLUMN_REF"}
    if named & {"operations", table["alias"].lower()}:  # a whole row
        return None
    return [known[name] for name in known if name in named] or ["id"]


def _nodes(tree: Any) -> Iterator[dict[str, Any]]:
    """All objects in a JSON value."""
    if isinstance(tree, dict):
        yield tree
    for part in tree.values() if isinstance(tree, dict) else tree if isinstance(tree, list) else ():
        yield from _nodes(part)


def _imported(module: str, what: str, extra: str) -> Any:
    try:
        return import_module(module)
    except ImportError:
        message = f"{what} needs {module}; install it: pip install 'pyio_trace[{extra}]'"
        raise ConfigError("not-installed", message) from None
