"""`pyio-trace export`: Darshan logs of real programs, and bad input in one line with status 2."""

from __future__ import annotations

import ctypes
import glob
import os
from pathlib import Path
from typing import Any

import pytest

from pyio_trace import darshan_format
from pyio_trace.cli.main import main
from tests.export.darshan_log import DarshanLog
from tests.support.logwriter import LogWriter
from tests.support.programs import Outcome, Runner, succeeded
from tests.support.smallrun import small_run

PROGRAM = """\
import ctypes, os
fd = os.open("data", os.O_RDWR | os.O_CREAT)
os.write(fd, bytes(1000))
os.pwrite(fd, bytes(24), 5000)
assert os.pread(fd, 4000, 2000) == bytes(3024)     # short
try: os.open("none", os.O_RDONLY)
except FileNotFoundError: pass
if not (child := os.fork()):
    os.pread(fd, 100, 0)
    os.close(os.open("of the child", os.O_WRONLY | os.O_CREAT))
    os._exit(0)
os.waitpid(child, 0)
os.close(fd)
os.rename("data", "renamed")
with open(b"odd \\xff\\n name", "wb", buffering=0) as file:
    file.write(b"x")
libc = ctypes.CDLL(None)
libc.fopen.restype = ctypes.c_void_p
stream = ctypes.c_void_p(libc.fopen(b"text", b"w+"))
libc.fwrite(b"12345678", 1, 8, stream)
libc.fseek(stream, 2, 0)
libc.fread(ctypes.create_string_buffer(100), 1, 100, stream)
libc.fclose(stream)
"""


def export(log: Path, output: Path) -> DarshanLog:
    assert main(["export", str(log), "--to", "darshan", "-o", str(output)]) == 0
    return DarshanLog(output)


@pytest.fixture
def outcome(program: Runner) -> Outcome:
    return succeeded(program.traced(PROGRAM, name="job.py"))


def test_a_log_of_a_program(outcome: Outcome, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = export(outcome.path, tmp_path / "job.darshan")
    said = capsys.readouterr().out
    # THEN the job is described
    assert said.startswith(str(tmp_path / "job.darshan")) and "segments" in said
    assert found.metadata["lib_ver"] == "3.5.0" and "job.py" in found.exe and not found.partial
    assert (found.job["end_sec"], found.job["end_nsec"]) > (found.job["start_sec"], found.job["start_nsec"])
    # AND there are the records of both processes, which are ranks
    assert found.job["nprocs"] == 2 and found.job["uid"] == os.getuid()
    data = found.of("POSIX", "/data", -1)  # both used it
    assert (data["READS"], data["BYTES_READ"], data["WRITES"], data["BYTES_WRITTEN"]) == (2, 3124, 2, 1024)
    assert (data["MAX_BYTE_READ"], data["MAX_BYTE_WRITTEN"], data["RENAME_SOURCES"]) == (5023, 5023, 1)
    assert (data["FASTEST_RANK_BYTES"], data["SLOWEST_RANK_BYTES"]) in ((100, 4048), (4048, 100))
    renamed = found.of("POSIX", "/renamed")
    assert (renamed["RENAME_TARGETS"], renamed["RENAMED_FROM"] % (1 << 64), renamed["OPENS"]) == (1, data["id"], 0)
    assert not [one for one in found.records["POSIX"] if one["name"].endswith("/none")]
    assert found.of("POSIX", "/of the child")["rank"] == 1
    odd = [name for name in found.names.values() if "odd" in name]
    assert len(odd) == 1 and "\n" not in odd[0] and odd[0].endswith("\\x0a name")
    text = found.of("STDIO", "/text")
    assert (text["OPENS"], text["WRITES"], text["BYTES_WRITTEN"], text["BYTES_READ"]) == (1, 1, 8, 6)
    # AND its segments
    segments = found.of("DXT_POSIX", "/data", 0)
    assert [one[:2] for one in segments["writes"]] == [(0, 1000), (5000, 24)]
    assert [one[:2] for one in segments["reads"]] == [(2000, 3024)]
    assert {one["name"] for one in found.records["HEATMAP"]} == {"heatmap:POSIX", "heatmap:STDIO"}


def test_a_packed_log_gives_the_same(outcome: Outcome, tmp_path: Path) -> None:
    packed = tmp_path / "packed.parquet"
    assert main(["pack", str(outcome.path), str(packed)]) == 0
    one, other = export(outcome.path, tmp_path / "a.darshan"), export(packed, tmp_path / "b.darshan")
    assert one.records == other.records and one.names == other.names and one.job == other.job


def test_records_of_hdf5(program: Runner, tmp_path: Path) -> None:
    pytest.importorskip("h5py")
    outcome = succeeded(program.traced("""\
        import h5py, numpy
        with h5py.File("a.h5", "w") as file:
            made = file.create_dataset("group/x", data=numpy.arange(100.0))
            made[:10] = 1
            made[...]
            file.flush()
        with h5py.File("a.h5") as file:
            file["group/x"][5]
    """))  # fmt: skip
    found = export(outcome.path, tmp_path / "h.darshan")
    file, dataset = found.of("H5F", "/a.h5"), found.of("H5D", "/a.h5:/group/x")
    assert (file["OPENS"], file["FLUSHES"]) == (2, 1) and dataset["file_id"] == file["id"]
    # Darshan does not count H5Oopen(), by which h5py opens what exists
    assert (dataset["WRITES"], dataset["READS"], dataset["OPENS"]) == (2, 2, 1)
    assert (dataset["BYTES_WRITTEN"], dataset["BYTES_READ"], dataset["RW_SWITCHES"]) == (880, 808, 1)
    assert (dataset["SIZE_WRITE_AGG_100_1K"], dataset["SIZE_READ_AGG_0_100"]) == (1, 1)
    assert dataset["F_CLOSE_END_TIMESTAMP"] >= dataset["F_READ_END_TIMESTAMP"] > dataset["F_OPEN_START_TIMESTAMP"] > 0


def test_an_empty_log(tmp_path: Path) -> None:
    writer = LogWriter()
    writer.process(1)
    found = export(writer.save(tmp_path / "empty.pyio"), tmp_path / "empty.darshan")
    assert found.records == {} and found.job["nprocs"] == 1
    assert (found.job["end_sec"], found.job["end_nsec"]) > (found.job["start_sec"], found.job["start_nsec"])


def test_a_log_without_any_name(tmp_path: Path) -> None:
    # GIVEN a log whose only call is on a file without a name
    writer = LogWriter()
    thread = writer.thread(writer.process(1), 1)
    desc = writer.desc(3, 0, kind=1, dev=1, ino=1)
    thread.record("PREAD", begin=2_000, duration=100, desc=desc, aux=3, offset=0, size=5, result=5)
    found = export(writer.save(tmp_path / "run.pyio"), tmp_path / "run.darshan")
    assert [one["BYTES_READ"] for one in found.records["POSIX"]] == [5]


@pytest.mark.parametrize("real", [-(1 << 63), -1, 0, 5, 1 << 62, (1 << 63) - (1 << 20)])
def test_a_log_of_any_time(real: int, tmp_path: Path) -> None:
    # GIVEN a damaged log that begins at any time WHEN it is exported THEN the job still takes some time
    writer = LogWriter(real=real)
    thread = writer.thread(writer.process(1), 1)
    desc = writer.desc(3, "/d/x", kind=1, dev=1, ino=1)
    thread.record("PREAD", begin=2_000, duration=1 << 47, desc=desc, aux=3, offset=1 << 60, size=5, result=5)
    found = export(writer.save(tmp_path / "run.pyio"), tmp_path / "run.darshan")
    assert (found.job["end_sec"], found.job["end_nsec"]) > (found.job["start_sec"], found.job["start_nsec"])
    assert found.of("POSIX", "/d/x")["BYTES_READ"] == 5 and len(found.records["HEATMAP"][0]["reads"]) <= 200


def test_a_log_that_is_not_complete_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    # GIVEN a run whose log was full WHEN it is exported THEN Darshan's tools are told for each module
    found = export(small_run(tmp_path / "run.pyio"), tmp_path / "run.darshan")
    assert found.partial == set(found.records) and found.partial
    assert "not complete" in capsys.readouterr().out


def test_sums_have_counters_and_no_segments(
    program: Runner, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    outcome = succeeded(program.traced(PROGRAM, env={"PYIO_TRACE_MODE": "profile"}))
    found = export(outcome.path, tmp_path / "sums.darshan")
    assert "DXT_POSIX" not in found.records and "5 transfers in sums" in capsys.readouterr().out
    assert found.of("POSIX", "/data", -1)["BYTES_WRITTEN"] == 1024


def test_only_some_operations(outcome: Outcome, tmp_path: Path) -> None:
    output = tmp_path / "some.darshan"
    assert main(["export", str(outcome.path), "--to", "darshan", "-o", str(output), "--path", "text"]) == 0
    assert list(DarshanLog(output).records) == ["STDIO", "HEATMAP"]


@pytest.mark.parametrize(
    ("words", "slug"),
    [
        (["LOG", "--to", "darshan", "-o", "there"], "output-exists"),
        (["LOG", "--to", "darshan", "-o", "folder"], "output-exists"),
        (["LOG", "--to", "darshan", "-o", "dangling"], "output-exists"),
        (["LOG", "--to", "darshan", "-o", "LOG"], "contradictory-options"),
        (["LOG", "--to", "darshan", "-o", "no/such/folder/x"], "unwritable-output"),
        (["LOG", "--to", "darshan", "-o", "there/x"], "unwritable-output"),
        (["LOG", "--to", "darshan", "-o", "n" * 300], "unwritable-output"),
        (["LOG", "--to", "darshan", "-o", ""], "missing-value"),
        (["LOG", "--to", "darshan"], "bad-arguments"),
        (["LOG", "-o", "x"], "bad-arguments"),
        (["LOG", "--to", "recorder", "-o", "x"], "bad-arguments"),
        (["none.pyio", "--to", "darshan", "-o", "x"], "no-such-log"),
        (["there", "--to", "darshan", "-o", "x"], "not-a-log"),
    ],
)
def test_what_cannot_be_exported_is_one_line(
    words: list[str], slug: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    log = str(small_run(tmp_path / "run.pyio"))
    (tmp_path / "there").write_text("precious")
    (tmp_path / "folder").mkdir()
    (tmp_path / "dangling").symlink_to("nowhere")
    assert main(["export", *(log if word == "LOG" else word for word in words)]) == 2
    said = capsys.readouterr()
    assert said.out == "" and said.err.count("\n") == 1 and said.err.endswith(f"[{slug}]\n")
    assert (tmp_path / "there").read_text() == "precious"
    assert sorted(one.name for one in tmp_path.iterdir()) == ["dangling", "folder", "run.pyio", "there"]


def test_a_folder_that_may_not_be_written_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    if os.geteuid() == 0:
        pytest.skip("root may write anywhere")
    log, folder = small_run(tmp_path / "run.pyio"), tmp_path / "closed"
    folder.mkdir(0o500)
    assert main(["export", str(log), "--to", "darshan", "-o", str(folder / "x")]) == 2
    assert capsys.readouterr().err.endswith("[unwritable-output]\n") and not list(folder.iterdir())


# ---- against Darshan's own library


def test_names_of_counters_are_darshans() -> None:
    darshan = pytest.importorskip("darshan")
    folder = Path(darshan.__file__).parent.parent / "darshan.libs"
    (path,) = glob.glob(str(folder / "libdarshan-util*"))
    library: Any = ctypes.CDLL(path)
    for prefix, module in (
        ("posix", darshan_format.POSIX), ("mpiio", darshan_format.MPIIO), ("stdio", darshan_format.STDIO),
        ("h5f", darshan_format.H5F), ("h5d", darshan_format.H5D),
    ):  # fmt: skip
        for symbol, sort, names in (("", "", module.counters), ("f_", "F_", module.fcounters)):
            own = (ctypes.c_char_p * len(names)).in_dll(library, f"{prefix}_{symbol}counter_names")
            assert [one.decode() for one in own] == [f"{module.prefix}_{sort}{name}" for name in names]


@pytest.mark.filterwarnings("ignore")
def test_pydarshan_reads_the_same(outcome: Outcome, tmp_path: Path) -> None:
    darshan = pytest.importorskip("darshan")
    found = export(outcome.path, tmp_path / "job.darshan")
    report = darshan.DarshanReport(str(tmp_path / "job.darshan"), read_all=True)
    assert report.metadata["job"]["nprocs"] == 2 and report.metadata["job"]["run_time"] > 0
    assert report.name_records == found.names and set(report.modules) == set(found.records)
    for module in ("POSIX", "STDIO"):
        tables = report.records[module].to_df()
        rows = tables["counters"].to_dict("records")
        assert len(rows) == len(found.records[module])
        for row, record in zip(rows, found.records[module], strict=True):
            assert {name.partition("_")[2]: value for name, value in row.items() if name not in ("id", "rank")} == {
                name: value for name, value in record.items()
                if name not in ("id", "rank", "name") and not name.startswith("F_")
            }  # fmt: skip
    for theirs, ours in zip(report.records["DXT_POSIX"], found.records["DXT_POSIX"], strict=True):
        for direction in ("write", "read"):
            assert [tuple(one.values()) for one in theirs[f"{direction}_segments"]] == ours[f"{direction}s"]
    for module, heatmap in report.heatmaps.items():
        table = heatmap.to_df(["read", "write"])
        both = [one for one in found.records["HEATMAP"] if one["name"] == f"heatmap:{module}"]
        assert table.to_numpy().sum() == sum(sum(one["reads"]) + sum(one["writes"]) for one in both)
    derived = report.records["POSIX"].to_df()["fcounters"]["POSIX_F_READ_TIME"]
    assert (derived >= 0).all()
