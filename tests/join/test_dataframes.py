"""A log in pandas, in polars and in SQL says what the program did."""

from __future__ import annotations

import sys
from pathlib import Path

import pyarrow as pa
import pytest

import pyio_trace
from pyio_trace.errors import ConfigError
from pyio_trace.events import OPERATIONS
from pyio_trace.join.processes.mapped_files import mappings_schema
from pyio_trace.join.processes.op_counters import counters_schema
from pyio_trace.join.sources import dataframes
from pyio_trace.join.sources.facade import Log
from tests.support.logwriter import LogWriter
from tests.support.programs import Outcome, Runner, succeeded

#: Bytes that each write of the workload asks for, and where in its file.
WRITES = [(0, 100), (100, 4_096), (4_196, 1), (1 << 40, 700)]


PROGRAM = f"""
import os
descriptor = os.open("new", os.O_WRONLY | os.O_CREAT)
for offset, size in {WRITES}:
    os.pwrite(descriptor, b"b" * size, offset)
os.close(descriptor)
descriptor = os.open("old", os.O_WRONLY | os.O_APPEND)
os.write(descriptor, b"c" * 5)
"""


@pytest.fixture(scope="module")
def outcome(tmp_path_factory: pytest.TempPathFactory) -> Outcome:
    """A program that wrote WRITES to one file, and appended to another that was there before: a null offset."""
    folder = tmp_path_factory.mktemp("frames")
    (folder / "old").write_bytes(b"x" * 10)
    return succeeded(Runner(folder).traced(f"import os; os.chdir({str(folder)!r})\n{PROGRAM}"))


@pytest.fixture
def log(outcome: Outcome) -> Log:
    return outcome.log


def test_pandas_has_integers_and_attributes(log: Log) -> None:
    pandas = pytest.importorskip("pandas")
    # WHEN a log is made a DataFrame
    df = log.to_pandas()
    # THEN its columns are attributes, and its numbers are whole and what the program moved
    written = df[df.op == "pwrite"]
    assert written.file_offset.tolist() == [offset for offset, _ in WRITES]
    assert int(written.bytes_moved.sum()) == int(written.bytes_requested.sum()) == sum(size for _, size in WRITES)
    assert int(written.calls.sum()) == len(WRITES)
    assert df.file_offset.dtype == df.time.dtype == pandas.Int64Dtype()
    assert df.pid.dtype == df.calls.dtype == pandas.Int32Dtype()
    # AND what is not known is <NA>, what repeats a category
    assert df[df.op == "write"].file_offset.tolist() == [pandas.NA]
    assert isinstance(df.call_stack.dtype, pandas.CategoricalDtype)
    assert set(df.op.cat.categories) == set(df.op)


def test_pandas_takes_an_empty_table(tmp_path: Path) -> None:
    pytest.importorskip("pandas")
    empty = pyio_trace.open(LogWriter().save(tmp_path / "empty")).operations()
    assert dataframes.to_pandas(empty).shape == (0, len(OPERATIONS))


def test_polars_shares_the_numbers(log: Log) -> None:
    polars = pytest.importorskip("polars")
    # WHEN a log is made a polars DataFrame THEN it says the same
    df = log.to_polars(["op", "calls", "bytes_moved", "file_offset", "call_stack"])
    written = df.filter(polars.col("op") == "pwrite")
    assert written["file_offset"].to_list() == [offset for offset, _ in WRITES]
    assert written["bytes_moved"].sum() == sum(size for _, size in WRITES)
    assert written["calls"].sum() == len(WRITES)
    assert df.filter(polars.col("op") == "write")["file_offset"].to_list() == [None]
    assert df.schema["file_offset"] == polars.Int64 and df.schema["call_stack"] == polars.Categorical


def test_sql_needs_no_quotes(log: Log, outcome: Outcome) -> None:
    pytest.importorskip("duckdb")
    # WHEN a log is asked in SQL THEN the columns need no quotes, and the answer is a table
    found = log.sql("select calls, bytes_moved, file_offset from operations where op = 'pwrite' order by time")
    assert isinstance(found, pa.Table)
    assert found.to_pylist() == [{"calls": 1, "bytes_moved": size, "file_offset": offset} for offset, size in WRITES]
    everything = log.sql("select * from operations")
    assert everything.column_names == [column.name for column in OPERATIONS]
    assert everything.num_rows == log.rows()
    assert log.sql("select file_offset from operations where op = 'write'").to_pylist() == [{"file_offset": None}]
    # AND the other tables are there
    joined = "select p.pid, sum(bytes_moved) as written from operations o join processes p on o.process = p.index "
    joined += "where op_class = 'write' and layer = 'posix' and fd > 2 group by p.pid"
    assert log.sql(joined).to_pylist() == [{"pid": outcome.pid, "written": sum(size for _, size in WRITES) + 5}]
    assert log.sql("select count(*) as n from counters").to_pylist() == [{"n": log.counters().num_rows}]


@pytest.mark.parametrize(
    ("query", "columns"),
    [
        ("select op, sum(bytes_moved) from operations group by op order by 2", ["op", "bytes_moved"]),
        ("select count(*) from operations o where o.ERRNO != 0", ["errno"]),
        ("select count(*) from operations", ["id"]),
        ("select imported from operations", ["imported"]),
        ("select sum(duration) over (partition by tid order by time) from operations", ["time", "duration", "tid"]),
        ("select * from operations", None),
        ("from operations", None),
        ("select o from operations o", None),
        ("select operations from operations", None),
        ("select columns('bytes.*') from operations", None),
        ("select #1 from operations", None),
        ("select op from operations where id in (select parent from operations)", None),
        ("select op from operations natural join processes", None),
        ("with some as (select op from operations) select op from some", None),
        ("select op from operations union all select layer from operations", None),
        ("summarize operations", None),
        ("select nothing of this is sql", None),
    ],
)
def test_columns_that_a_query_reads(query: str, columns: list[str] | None) -> None:
    duckdb = pytest.importorskip("duckdb")
    with duckdb.connect(":memory:") as connection:
        found = dataframes.columns_read(connection, query)
    assert found is None if columns is None else found is not None and sorted(found) == sorted(columns)


@pytest.mark.parametrize(
    ("module", "call", "extra"),
    [
        ("pandas", lambda log: log.to_pandas(), "pandas"),
        ("polars", lambda log: log.to_polars(), "polars"),
        ("duckdb", lambda log: log.sql("select 1"), "sql"),
    ],
)
def test_what_is_not_installed(
    log: Log, monkeypatch: pytest.MonkeyPatch, module: str, call: object, extra: str
) -> None:
    # GIVEN that the library is not installed WHEN a method that needs it is called
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ConfigError) as caught:
        call(log)  # type: ignore[operator]
    # THEN one line says what to install
    assert caught.value.slug == "not-installed"
    assert f"pip install 'pyio_trace[{extra}]'" in str(caught.value) and "\n" not in str(caught.value)


def test_no_column_is_a_method_or_a_keyword() -> None:
    pandas, polars, duckdb = (pytest.importorskip(name) for name in ("pandas", "polars", "duckdb"))
    names = {column.name for column in OPERATIONS}
    names |= {*counters_schema().names, *mappings_schema().names}
    assert not names & {*dir(pandas.DataFrame), *dir(polars.DataFrame), *dir(polars.LazyFrame)}
    with duckdb.connect(":memory:") as connection:
        words = connection.execute("select keyword_name from duckdb_keywords() where keyword_category = 'reserved'")
        assert not names & {word for (word,) in words.fetchall()}


@pytest.mark.parametrize(
    "query",
    ["select * from read_text('{file}')", "select * from '{file}'", "copy operations to '{new}'", "install httpfs",
     "attach '{new}' as other", "set enable_external_access = true", "select * from glob('/etc/*')"],
)  # fmt: skip
def test_sql_reads_and_writes_no_files(log: Log, query: str, tmp_path: Path) -> None:
    # GIVEN a query out of somebody else's report WHEN it is run THEN it gets at no file
    duckdb = pytest.importorskip("duckdb")
    (tmp_path / "secret.csv").write_text("a,b\n1,2\n")
    with pytest.raises(duckdb.Error):
        log.sql(query.format(file=tmp_path / "secret.csv", new=tmp_path / "new.csv"))
    assert [path.name for path in tmp_path.iterdir() if path.suffix == ".csv"] == ["secret.csv"]


@pytest.mark.parametrize("query", ["", "  ", "-- nothing"])
def test_sql_without_a_result(log: Log, query: str) -> None:
    pytest.importorskip("duckdb")
    with pytest.raises(ConfigError, match="no result"):
        log.sql(query)
