"""The Parquet log gives what the live log gives; folders give what their logs give."""

from __future__ import annotations

import os
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from benchmarks.generate_log import generate
from pyio_trace.errors import LogError
from pyio_trace.events import OPERATION_COLUMNS
from pyio_trace.join import pack as pack_module
from pyio_trace.join.facade import Log
from pyio_trace.join.opening import open_log
from pyio_trace.join.pack import pack
from tests.log.test_damage import WHOLE, small_log
from tests.support.logwriter import LogWriter

ALL = (*OPERATION_COLUMNS, "op_class", "imported")


def assert_same(one: Log, other: Log) -> None:
    assert one.operations(ALL).equals(other.operations(ALL))
    assert one.processes().equals(other.processes())
    assert one.counters().equals(other.counters())
    assert one.losses() == other.losses()
    differing = ("format", "bytes", "bytes_per_operation")
    assert {k: v for k, v in one.info().items() if k not in differing} == {
        k: v for k, v in other.info().items() if k not in differing
    }


def test_a_packed_log_is_the_log(tmp_path: Path) -> None:
    (tmp_path / "a.pyio").write_bytes(WHOLE)
    seen: list[tuple[int, int]] = []
    stats = pack(tmp_path / "a.pyio", tmp_path / "a.parquet", lambda done, total: seen.append((done, total)))
    assert stats["rows"] == 119 and stats["bytes"] == (tmp_path / "a.parquet").stat().st_size
    assert seen[-1] == (119, 119)
    assert_same(open_log(tmp_path / "a.pyio"), open_log(tmp_path / "a.parquet"))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.parquet", "a.pyio"]


def test_a_log_without_operations(tmp_path: Path) -> None:
    LogWriter().save(tmp_path / "a.pyio")
    pack(tmp_path / "a.pyio", tmp_path / "a.parquet")
    assert_same(open_log(tmp_path / "a.pyio"), open_log(tmp_path / "a.parquet"))


def test_many_row_groups(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pack_module, "_ROW_GROUP", 3_000)
    generate(tmp_path / "a.pyio", 20_000, files=50, stacks=30)
    pack(tmp_path / "a.pyio", tmp_path / "a.parquet")
    assert pq.ParquetFile(tmp_path / "a.parquet").num_row_groups > 5
    packed = open_log(tmp_path / "a.parquet")
    assert_same(open_log(tmp_path / "a.pyio"), packed)
    batches = list(packed.batches(["stack", "time"], rows=1_000))
    assert all(batch.column(0).dictionary.equals(packed.dictionary("stack")) for batch in batches)


def test_packing_twice_changes_nothing(tmp_path: Path) -> None:
    (tmp_path / "a.pyio").write_bytes(WHOLE)
    pack(tmp_path / "a.pyio", tmp_path / "a.parquet")
    pack(tmp_path / "a.parquet", tmp_path / "b.parquet")
    assert_same(open_log(tmp_path / "a.parquet"), open_log(tmp_path / "b.parquet"))


def test_an_output_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "a.pyio").write_bytes(WHOLE)
    with pytest.raises(LogError) as caught:
        pack(tmp_path / "a.pyio", tmp_path / "no" / "a.parquet")
    assert caught.value.slug == "log-unwritable"


def test_somebody_elses_parquet_file(tmp_path: Path) -> None:
    pq.write_table(pa.table({"a": [1]}), tmp_path / "a.parquet")
    with pytest.raises(LogError) as caught:
        open_log(tmp_path / "a.parquet")
    assert caught.value.slug == "not-a-log"


def test_a_folder(tmp_path: Path) -> None:
    one, two = small_log(), small_log()
    two.header["run_id"], two.header["host"] = 7, b"otherhost"
    one.save(tmp_path / "one")
    two.save(tmp_path / "two.pyio")
    pack(tmp_path / "two.pyio", tmp_path / "two.parquet")  # the same run: counted once
    (tmp_path / "notes.txt").write_text("no log")
    pq.write_table(pa.table({"a": [1]}), tmp_path / "foreign.parquet")
    log = open_log(tmp_path)
    rows = log.operations().to_pylist()
    assert log.rows() == len(rows) == 238
    assert len({row["id"] for row in rows}) == 238
    assert {row["host"] for row in rows} == {"testhost", "otherhost"}
    files = [{row["file"] for row in rows if row["host"] == host} for host in ("testhost", "otherhost")]
    assert not (files[0] & files[1]) - {None}
    processes = log.processes().to_pylist()
    assert [row["index"] for row in processes] == [0, 1, 2, 3]
    assert [row["parent"] for row in processes] == [None, 0, None, 2]
    by_index = {row["index"]: row["host"] for row in processes}
    assert all(by_index[row["process"]] == row["host"] for row in rows)
    parents = {row["parent"] for row in rows} - {None}
    assert parents <= {row["id"] for row in rows}
    assert log.info()["records"] == 238 and len(log.info()["logs"]) == 2


def test_a_folder_packs_into_one_log(tmp_path: Path) -> None:
    (tmp_path / "logs").mkdir()
    one, two = small_log(), small_log()
    two.header["run_id"] = 7
    one.save(tmp_path / "logs" / "one")
    two.save(tmp_path / "logs" / "two")
    pack(tmp_path / "logs", tmp_path / "all.parquet")
    assert_same(open_log(tmp_path / "logs"), open_log(tmp_path / "all.parquet"))


def test_a_folder_whose_name_is_no_text(tmp_path: Path) -> None:
    # GIVEN a folder with a name that is no UTF-8, which Arrow cannot open WHEN a log is packed there
    folder = tmp_path / os.fsdecode(b"\xff")
    try:
        folder.mkdir()
    except OSError:
        pytest.skip("the file system takes no such name")
    LogWriter().save(folder / "run.pyio")
    pack(folder / "run.pyio", folder / "run.parquet")
    # THEN it reads like the live one
    assert open_log(folder / "run.parquet").info()["run"] == open_log(folder / "run.pyio").info()["run"]
    assert sorted(os.listdir(folder)) == ["run.parquet", "run.pyio"]
