"""Darshan's logs: what is in a log of each version is in the operations, with the same figures."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import pyio_trace
from pyio_trace import darshan_format as form
from pyio_trace.analysis.reducer import scan
from pyio_trace.analysis.reducers.file_counters import FileCounters
from pyio_trace.errors import LogError
from pyio_trace.join.pack.packer import pack
from tests.support.darshan_logs import START, DarshanLog, example, traced

pytestmark = pytest.mark.once  # reading logs is the same on every Python

STAMPS = ("CLOSE_START_TIMESTAMP", "OPEN_END_TIMESTAMP")
CALLS = ("FILENOS", "DUPS", "RENAME_SOURCES", "RENAME_TARGETS", "RENAMED_FROM")


def rows(log_path: Path, **fields: Any) -> list[dict[str, Any]]:
    """The rows with these fields."""
    every = pyio_trace.open(log_path).operations().to_pylist()
    return [row for row in every if all(row[name] == value for name, value in fields.items())]


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return example().write(tmp_path / "app.darshan")


@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize("version", ["3.10", "3.20", "3.21", "3.41"])
@pytest.mark.parametrize("compression", [0, 1, 2])
def test_each_format_has_the_same_rows(tmp_path: Path, log: Path, order: str, version: str, compression: int) -> None:
    if version == "3.10":  # it has no datasets
        given = example(order=order, version=version)
        del given.regions["H5D"]
    else:
        given = example(order=order, version=version)
    path = given.write(tmp_path / "same", compression=compression)
    begun = 0 if version != "3.41" else 250_000_000  # whole seconds before

    def figures(one: Path, shift: int) -> list[tuple[Any, ...]]:
        names = ("op", "path", "process", "calls", "bytes_moved", "duration", "detail")
        return sorted(
            (row["time"] - shift, *(str(row[name]) for name in names)) for row in rows(one) if row["op"] != "H5Dread"
        )

    assert figures(path, begun) == figures(log, 250_000_000)


def test_a_record_is_a_row_for_each_operation(log: Path) -> None:
    (write,) = rows(log, op="write", process=1)
    detail = json.loads(write["detail"])
    assert (write["calls"], write["bytes_moved"], write["duration"]) == (4, 4096, 500_000_000)
    assert write["time"] == START * 10**9 + 250_000_000 + 10**9
    assert write["path"] == "/scratch/a"
    assert (write["pid"], write["global_rank"]) == (1, 1)
    assert detail["sizes"] == {"100-1K": 4}
    assert detail["common_sizes"] == {"1024": 4}
    assert detail["strides"] == {"512": 2}
    assert (detail["highest"], detail["consecutive"], detail["span_ns"]) == (4096, 3, 10**9)
    assert rows(log, op="open", process=1)[0]["duration"] == 250_000_000


def test_a_record_of_all_ranks_is_of_none(log: Path) -> None:
    (write,) = rows(log, op="MPI_File_write_all")
    (below,) = rows(log, op="write", path="/scratch/s")
    assert (write["process"], write["pid"], write["global_rank"]) == (None, None, None)
    assert below["parent"] == write["id"]
    assert below["request_id"] == write["id"]


def test_stripes_and_datasets_are_in_details(log: Path) -> None:
    (opened,) = rows(log, op="open", path="/scratch/s")
    (read,) = rows(log, op="H5Dread")
    assert json.loads(opened["detail"])["stripe_size"] == 1 << 20
    assert (read["path"], json.loads(read["detail"])["dataset"]) == ("/scratch/h.h5", "/g/x")


@pytest.mark.parametrize(
    ("module", "version", "lacks", "values"),
    [
        ("POSIX", 3, CALLS, {"OPENS": 2, "READS": 3, "BYTES_READ": 99, "READ_TIME": 0.5}),
        ("POSIX", 2, (*CALLS, *STAMPS), {"OPENS": 2, "READS": 3, "BYTES_READ": 99, "READ_TIME": 0.5}),
        ("MPI-IO", 1, STAMPS, {"INDEP_READS": 3, "BYTES_READ": 99, "READ_TIME": 0.5}),
        ("STDIO", 1, ("FDOPENS",), {"READS": 3, "BYTES_READ": 99, "READ_TIME": 0.5}),
        ("H5D", 1, ("file_id",), {"READS": 3, "BYTES_READ": 99, "READ_TIME": 0.5}),
    ],
)
def test_earlier_records(
    tmp_path: Path, module: str, version: int, lacks: tuple[str, ...], values: dict[str, float]
) -> None:
    given = DarshanLog(version="3.21")
    given.record(module, "/d/f:/x", 0, values, lacks, version)
    (read,) = rows(given.write(tmp_path / "earlier"), op_class="read")
    assert (read["calls"], read["bytes_moved"], read["duration"]) == (3, 99, 500_000_000)


def test_streams_were_once_counted_by_posix(tmp_path: Path) -> None:
    # GIVEN a record of the first version, with counters of streams behind MMAPS
    given = DarshanLog(version="3.10")
    given.record("POSIX", "/d/f", 0, {"OPENS": 1, "READS": 1, "BYTES_READ": 70}, (*CALLS, *STAMPS), 1)
    (record,) = given.regions["POSIX"]
    at = 16 + 8 * 6
    streams = (0, 2, 0, 0)
    given.regions["POSIX"] = [record[:at] + b"".join(one.to_bytes(8, "little") for one in streams) + record[at:]]
    # THEN what is behind them is where it belongs
    (read,) = rows(given.write(tmp_path / "first"), op="read")
    assert (read["calls"], read["bytes_moved"]) == (1, 70)


def test_single_calls_and_what_is_left_of_the_sum(tmp_path: Path) -> None:
    path = traced().write(tmp_path / "dxt")
    writes = rows(path, op="write")
    single = [row for row in writes if row["detail"] is None]
    (rest,) = [row for row in writes if row["detail"] is not None]
    assert [(row["file_offset"], row["bytes_moved"], row["duration"]) for row in single] == [
        (0, 250, 125_000_000), (250, 250, 250_000_000), (500, 250, 250_000_000),
    ]  # fmt: skip
    assert (rest["calls"], rest["bytes_moved"], rest["duration"]) == (1, 250, 375_000_000)
    assert sum(row["calls"] for row in rows(path, op="read")) == 1
    # and the MPI call encloses those of its rank and file
    (above,) = rows(path, layer="mpiio")
    assert {row["parent"] for row in single} == {above["id"]}
    assert {row["host"] for row in single} == {"node7"}


@pytest.mark.parametrize(("module", "version"), [("DXT_POSIX", 2), ("DXT_MPIIO", 1), ("DXT_MPIIO", 3)])
def test_other_versions_of_traces(tmp_path: Path, module: str, version: int) -> None:
    given = DarshanLog()
    given.trace(module, "/f", 0, [(64, 32, 1.0, 2.0), (96, 16, 3.0, 4.0)], version=version)
    found = rows(given.write(tmp_path / "dxt"), op_class="write")
    places = [None, None] if (module, version) == ("DXT_MPIIO", 1) else [64, 96]
    assert [(row["file_offset"], row["bytes_moved"]) for row in found] == list(zip(places, (32, 16), strict=True))


def test_counters_are_darshans_again(log: Path) -> None:
    (counters,) = scan(pyio_trace.open(log), [FileCounters()])
    row = next(row for row in counters.table.to_pylist() if row["path"] == "/scratch/a")
    expected = {
        "POSIX_OPENS": 3, "POSIX_WRITES": 12, "POSIX_BYTES_WRITTEN": 3 * 4096, "POSIX_MAX_BYTE_WRITTEN": 4095,
        "POSIX_CONSEC_WRITES": 9, "POSIX_SIZE_WRITE_100_1K": 12, "POSIX_ACCESS1_ACCESS": 1024,
        "POSIX_ACCESS1_COUNT": 12, "POSIX_STRIDE1_STRIDE": 512, "POSIX_STRIDE1_COUNT": 6, "POSIX_F_WRITE_TIME": 1.5,
        "POSIX_F_META_TIME": 0.75, "POSIX_F_MAX_WRITE_TIME": 0.2,
    }  # fmt: skip
    assert {name: row[name] for name in expected} == expected


def test_what_a_log_cannot_know_is_said(tmp_path: Path) -> None:
    given = example()
    given.partial = {"POSIX"}
    given.raw("APMPI", b"anything", 1)
    given.heat("heatmap:POSIX", 0, [9 << 20, 1 << 20], [0, 5])
    said = " | ".join(pyio_trace.open(given.write(tmp_path / "log")).losses()["not_in_log"])
    for part in ("no lines of Python", "sums by file and rank", "one record for all ranks", "POSIX had no room",
                 "modules that are not read: APMPI", "POSIX, files without a record: 5 B read"):  # fmt: skip
        assert part in said


def test_the_job(log: Path) -> None:
    found = pyio_trace.open(log)
    assert found.info()["tool"] == "Darshan"
    assert found.info()["file_systems"] == {"/scratch": "lustre", "/": "ext4"}
    assert found.info()["end"] - found.info()["start"] == 9_250_000_000
    table = found.processes().to_pylist()
    assert [row["global_rank"] for row in table] == [0, 1, 2, 3]
    assert table[0]["argv"] == ["./app", "-n", "3"]


def test_more_calls_than_a_row_can_stand_for(tmp_path: Path) -> None:
    given = DarshanLog()
    given.record("POSIX", "/f", 0, {"READS": 5_000_000_000, "BYTES_READ": 1 << 50, "READ_TIME": 5e5})
    found = rows(given.write(tmp_path / "many"), op="read")
    assert sum(row["calls"] for row in found) == 5_000_000_000
    assert sum(row["bytes_moved"] for row in found) == 1 << 50
    assert sum(row["duration"] for row in found) == 500_000 * 10**9


def test_a_packed_log_says_the_same(tmp_path: Path, log: Path) -> None:
    pack(log, tmp_path / "packed.parquet")
    packed = pyio_trace.open(tmp_path / "packed.parquet")
    assert packed.operations().to_pylist() == rows(log)
    assert packed.losses() == pyio_trace.open(log).losses()
    assert packed.info()["tool"] == "Darshan"


def test_a_folder_of_logs_is_one(tmp_path: Path) -> None:
    for name in ("one", "two"):
        example().write(tmp_path / name)
    assert len(rows(tmp_path, op="MPI_File_write_all")) == 2


@pytest.mark.parametrize("count", [(1 << 63) - 1, 1 << 50])
def test_more_calls_than_there_can_be(tmp_path: Path, count: int) -> None:
    given = DarshanLog()
    given.record("STDIO", "/f", 0, {"SEEKS": count})
    with pytest.raises(LogError, match="log-damaged"):
        rows(given.write(tmp_path / "forged"))


@pytest.mark.parametrize(
    ("change", "slug"),
    [
        (lambda raw: raw[:700], "log-truncated"),
        (lambda raw: raw[:-5], "log-truncated"),
        (lambda raw: raw[:1800] + bytes(8) + raw[1808:], "log-damaged"),
        (lambda raw: b"3.99" + raw[4:], "log-version"),
        (lambda raw: b"2.06" + raw[4:], "log-version"),
        (lambda raw: raw[:16] + b"\x07" + raw[17:], "log-damaged"),
        (lambda raw: raw[:32] + (40).to_bytes(8, "little") + raw[40:], "log-damaged"),
    ],
)
def test_a_damaged_log_is_refused(tmp_path: Path, change: Callable[[bytes], bytes], slug: str) -> None:
    path = tmp_path / "bad"
    path.write_bytes(change(example().bytes()))
    with pytest.raises(LogError) as refused:
        rows(path)
    assert refused.value.slug == slug


@pytest.mark.parametrize(
    "given",
    [{"nprocs": 0}, {"nprocs": 1 << 40}, {"nprocs": -3}, {"end": -1}, {"end": 1 << 60}],
)
def test_a_job_that_makes_no_sense(tmp_path: Path, given: dict[str, int]) -> None:
    with pytest.raises(LogError, match="log-damaged"):
        rows(example().write(tmp_path / "bad", job=given))


def test_a_record_of_a_rank_that_the_job_has_not(tmp_path: Path) -> None:
    given = DarshanLog(processes=2)
    given.record("STDIO", "/f", 2, {"WRITES": 1})
    with pytest.raises(LogError, match="rank 2, of 2 processes"):
        rows(given.write(tmp_path / "bad"))


@pytest.mark.parametrize("count", [-1, 1 << 40, (1 << 63) - 1])
@pytest.mark.parametrize("module", ["DXT_POSIX", "HEATMAP", "LUSTRE"])
def test_forged_lengths(tmp_path: Path, module: str, count: int) -> None:
    given, forged = DarshanLog(), count.to_bytes(8, "little", signed=True)
    given.trace("DXT_POSIX", "/f", 0, [(0, 1, 0.0, 1.0)])
    given.heat("heatmap:POSIX", 0, [1], [1])
    given.stripes("/f", 1 << 20, 1)
    at = {"DXT_POSIX": form.DXT_RECORD.fields["write_count"][1], "HEATMAP": 24, "LUSTRE": 16}[module]  # type: ignore[index]
    (record,) = given.regions[module]
    given.regions[module] = [record[:at] + forged + record[at + 8 :]]
    with pytest.raises(LogError):
        rows(given.write(tmp_path / "bad"))


def test_what_unpacks_to_too_much_is_refused(tmp_path: Path) -> None:
    given = DarshanLog()
    given.raw("POSIX", bytes(48 << 20), 4)
    with pytest.raises(LogError, match="log-too-large"):
        rows(given.write(tmp_path / "bomb"))


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -1e300, 1e300])
def test_times_that_are_none(tmp_path: Path, value: float) -> None:
    given = DarshanLog()
    given.record("POSIX", "/f", 0, {"READS": 1, "READ_TIME": value, "READ_START_TIMESTAMP": value})
    given.trace("DXT_POSIX", "/g", 0, [(0, 1, value, value)])
    assert all(row["duration"] >= 0 for row in rows(given.write(tmp_path / "odd")))
