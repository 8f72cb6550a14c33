"""Dictionary columns of what a log hands out: the values that occur, and no others."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from benchmarks.generate_log import generate
from pyio_trace.analysis.scan.filters import Filter, restrict
from pyio_trace.analysis.tables.ordering import select
from pyio_trace.events import OPERATION_COLUMNS, arrow_schema
from pyio_trace.join.base.used_values import only_used
from pyio_trace.join.pack.packer import pack
from pyio_trace.join.sources.facade import Log
from pyio_trace.join.sources.opening import open_log
from tests.log.test_damage import WHOLE, small_log

ALL = (*OPERATION_COLUMNS, "imported")
DICTIONARIES = [field.name for field in arrow_schema(ALL) if pa.types.is_dictionary(field.type)]


def assert_only_used(table: pa.Table) -> None:
    for name in set(table.column_names) & set(DICTIONARIES):
        for chunk in table[name].chunks:
            assert chunk.dictionary.equals(table[name].chunk(0).dictionary), name
        used = set(table[name].cast(pa.string()).drop_null().to_pylist())
        there = table[name].chunk(0).dictionary.to_pylist()
        assert set(there) == used, name
        assert len(there) == len(used), name


@pytest.fixture(params=["live", "packed", "folder"])
def log(request: pytest.FixtureRequest, tmp_path: Path) -> Log:
    (tmp_path / "a.pyio").write_bytes(WHOLE)
    if request.param == "packed":
        pack(tmp_path / "a.pyio", tmp_path / "a.parquet")
        return open_log(tmp_path / "a.parquet")
    if request.param == "folder":
        other = small_log()
        other.header["run_id"], other.header["host"] = 7, b"otherhost"
        other.save(tmp_path / "b.pyio")
        return open_log(tmp_path)
    return open_log(tmp_path / "a.pyio")


def test_operations(log: Log) -> None:
    # GIVEN a log whose operation table names far more operations than were made
    assert "fsync" in log.dictionary("op").to_pylist()
    # WHEN its operations are read
    table = log.operations(ALL)
    # THEN the dictionaries have what occurs, and the rows say what the batches say
    assert_only_used(table)
    assert table.to_pylist() == pa.Table.from_batches(log.batches(ALL)).to_pylist()
    assert "fsync" not in table["op"].chunk(0).dictionary.to_pylist()


def test_a_column_by_itself(log: Log) -> None:
    for name in DICTIONARIES:
        assert_only_used(log.operations([name]))


def test_many_chunks(tmp_path: Path) -> None:
    # GIVEN a log of several batches, of which not each has every file and stack
    generate(tmp_path / "a.pyio", 200_000, files=5_000, stacks=300)
    log = open_log(tmp_path / "a.pyio")
    batches = list(log.batches(ALL))
    assert len(batches) > 1
    # WHEN its operations are read THEN each row has its values
    table = log.operations(ALL)
    assert_only_used(table)
    whole = pa.Table.from_batches(batches)
    for name in DICTIONARIES:
        assert table[name].cast(pa.string()).equals(whole[name].cast(pa.string())), name


def test_a_choice_of_operations(log: Log) -> None:
    # GIVEN a filter WHEN operations are chosen THEN each batch has the values of its rows alone
    for chosen, sort, limit in (
        (Filter(ops=["pread"]), None, None),
        (Filter(layers=["posix"]), "path", None),
        (Filter(), "duration", 3),
        (Filter(), None, 2),
    ):
        batches = list(select(restrict(log, chosen), ALL, sort, limit=limit))
        assert batches
        for batch in batches:
            assert_only_used(pa.Table.from_batches([batch]))


def test_nulls_slices_and_nothing() -> None:
    # GIVEN dictionary columns with nulls, sliced, of nulls alone, and without rows
    coded = pa.DictionaryArray.from_arrays(pa.array([3, None, 1, 3, 0, None], pa.int32()), ["a", "b", "c", "d"])
    nulls = pa.DictionaryArray.from_arrays(pa.array([None] * 4, pa.int32()), ["a"])
    table = pa.table({"coded": coded.slice(1, 4), "nulls": nulls, "number": [1, 2, 3, 4]})
    # WHEN they are made compact THEN the rows stay
    compact = only_used(table)
    assert compact.to_pylist() == table.to_pylist()
    assert compact["coded"].chunk(0).dictionary.to_pylist() == ["a", "b", "d"]
    assert compact["nulls"].chunk(0).dictionary.to_pylist() == []
    assert only_used(table.slice(0, 0)).num_rows == only_used(table.schema.empty_table()).num_rows == 0
    assert only_used(table.schema.empty_table()).schema == table.schema
