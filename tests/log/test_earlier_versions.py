"""A Parquet log of an earlier version reads as if it were one of today."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from pyio_trace.errors import LogError
from pyio_trace.events import OPERATION_COLUMNS
from pyio_trace.join.pack.packer import pack
from pyio_trace.join.sources.opening import open_log
from pyio_trace.log import parquet_log
from tests.log.test_damage import WHOLE
from tests.support.logwriter import LogWriter

ALL = (*OPERATION_COLUMNS, "imported")
#: What version 2 called them.
COLUMNS = {
    "file_offset": "offset", "bytes_requested": "size", "bytes_moved": "moved", "call_stack": "stack",
    "calls": "count", "to_file_offset": "to_offset",
}  # fmt: skip


def rewritten(packed: Path, path: Path, version: int, columns: dict[str, str], **fields: dict[str, str]) -> Path:
    """The packed log with another version, other names of columns, and of fields of tables of its description."""
    table = pq.read_table(packed)
    description: dict[str, Any] = json.loads(table.schema.metadata[parquet_log.KEY])
    description["version"] = version
    for name, renamed in fields.items():
        rows = description[name]
        description[name] = [{renamed.get(key, key): value for key, value in row.items()} for row in rows]
    table = table.rename_columns([columns.get(name, name) for name in table.column_names])
    pq.write_table(table.replace_schema_metadata({parquet_log.KEY: json.dumps(description)}), path)
    return path


@pytest.fixture
def packed(tmp_path: Path) -> Path:
    (tmp_path / "run.pyio").write_bytes(WHOLE)
    pack(tmp_path / "run.pyio", tmp_path / "run.parquet")
    return tmp_path / "run.parquet"


def test_version_two(packed: Path, tmp_path: Path) -> None:
    # GIVEN a log as version 2 wrote it
    old = rewritten(
        packed, tmp_path / "old.parquet", 2, COLUMNS,
        processes={"call_stack": "stack"}, counters={"calls": "count"}, mappings={"mappings": "count"},
    )  # fmt: skip
    assert {"offset", "stack", "count"} <= set(pq.read_schema(old).names)
    # WHEN it is read THEN it says the same, under today's names
    now, then = open_log(packed), open_log(old)
    assert then.operations(ALL).equals(now.operations(ALL))
    assert then.operations(["calls", "to_file_offset"]).column_names == ["calls", "to_file_offset"]
    for table in ("processes", "counters", "mappings"):
        assert getattr(then, table)().equals(getattr(now, table)()), table
    assert then.counters()["calls"].null_count == 0
    assert (then.losses(), then.renames()) == (now.losses(), now.renames())
    # AND packing it again makes one of today
    pack(old, tmp_path / "new.parquet")
    assert pq.read_schema(tmp_path / "new.parquet").names == pq.read_schema(packed).names
    assert open_log(tmp_path / "new.parquet").operations(ALL).equals(now.operations(ALL))


def test_without_in_import(tmp_path: Path) -> None:
    # GIVEN a log from before the column in_import, with an operation of an import, one of its program, and one without
    # a stack
    writer = LogWriter()
    thread = writer.thread(writer.process(100), 100)
    frozen, own = writer.code("<frozen importlib._bootstrap>", "_find_and_load"), writer.code("/a.py", "g")
    for number, stack in enumerate([writer.stack((frozen, 1), (own, 2)), writer.stack((own, 2)), 0]):
        thread.record("STAT", begin=2_000 + number, desc=writer.string("/x"), stack=stack)
    pack(writer.save(tmp_path / "run.pyio"), tmp_path / "run.parquet")
    old = tmp_path / "old.parquet"
    pq.write_table(pq.read_table(tmp_path / "run.parquet").drop_columns(["in_import"]), old)
    # WHEN it is read, with and without its stacks THEN these say the same
    for columns in (["in_import", "id"], ["call_stack", "in_import"]):
        rows = open_log(old).operations(columns).to_pylist()
        assert rows == open_log(tmp_path / "run.parquet").operations(columns).to_pylist()
        assert [row["in_import"] for row in rows] == [True, False, False]


def test_names_go_with_their_version(packed: Path, tmp_path: Path) -> None:
    # GIVEN names of one version in a log that says it is of another WHEN it is opened THEN it is damaged
    for version, columns in ((2, {}), (parquet_log.VERSION, COLUMNS)):
        with pytest.raises(LogError) as caught:
            open_log(rewritten(packed, tmp_path / "mixed.parquet", version, columns))
        assert caught.value.slug == "log-damaged"


@pytest.mark.parametrize("version", [1, parquet_log.VERSION + 1])
def test_versions_that_are_not_read(packed: Path, tmp_path: Path, version: int) -> None:
    with pytest.raises(LogError) as caught:
        open_log(rewritten(packed, tmp_path / "other.parquet", version, {}))
    assert caught.value.slug == "log-version" and f"version {version}" in str(caught.value)


def test_a_row_that_is_no_object(packed: Path, tmp_path: Path) -> None:
    # GIVEN an old log with a counter that is a number WHEN it is opened THEN it is damaged
    table = pq.read_table(rewritten(packed, tmp_path / "old.parquet", 2, COLUMNS))
    description = json.loads(table.schema.metadata[parquet_log.KEY]) | {"counters": [7]}
    pq.write_table(
        table.replace_schema_metadata({parquet_log.KEY: json.dumps(description)}), tmp_path / "forged.parquet"
    )
    with pytest.raises(LogError) as caught:
        open_log(tmp_path / "forged.parquet")
    assert caught.value.slug == "log-damaged"
