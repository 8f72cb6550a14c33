"""The Parquet log gives what the live log gives; folders give what their logs give."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from benchmarks.generate_log import generate
from pyio_trace.analysis.summary.summarize import summarize
from pyio_trace.cli.main import main
from pyio_trace.errors import LogError
from pyio_trace.events import ALL_COLUMNS, OPERATION_COLUMNS
from pyio_trace.join.base.freed_memory import give_back
from pyio_trace.join.base.used_values import only_used
from pyio_trace.join.pack import packer as pack_module
from pyio_trace.join.pack.end_of_run import EndedLog, finish_log
from pyio_trace.join.pack.packer import pack
from pyio_trace.join.sources.facade import Log
from pyio_trace.join.sources.live_source import LiveSource
from pyio_trace.join.sources.merged_source import log_of
from pyio_trace.join.sources.opening import open_log
from pyio_trace.join.tables import log_tables
from pyio_trace.log import layout
from pyio_trace.log import parquet_pages as pages
from tests.log.test_damage import WHOLE, small_log
from tests.support.logwriter import LogWriter
from tests.support.programs import Runner, succeeded
from tests.support.smallrun import small_run

ALL = (*OPERATION_COLUMNS, "imported")


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


def test_a_large_log_gives_memory_back_and_is_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.pyio").write_bytes(WHOLE)
    usual, given_back = open_log(tmp_path / "a.pyio"), []
    pack(tmp_path / "a.pyio", tmp_path / "a.parquet")
    monkeypatch.setattr(log_tables, "_MANY", 0)
    monkeypatch.setattr(log_tables, "give_back", lambda: given_back.append(give_back()))
    pack(tmp_path / "a.pyio", tmp_path / "b.parquet")
    assert given_back  # the first pass and the offsets each leave much behind
    assert (tmp_path / "a.parquet").read_bytes() == (tmp_path / "b.parquet").read_bytes()
    assert_same(usual, open_log(tmp_path / "a.pyio"))


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
    batches = list(packed.batches(["call_stack", "time"], rows=1_000))
    assert all(batch.column(0).dictionary.equals(packed.dictionary("call_stack")) for batch in batches)


def test_the_name_of_a_log_that_a_killed_run_never_wrote(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    # GIVEN the live log of a run that was killed WHEN the Parquet log is named, which it was to make
    live = small_run(tmp_path / "run.pyio")
    name = str(tmp_path / "run.parquet")
    # THEN the live log is read, and packed by that name
    assert_same(open_log(name), open_log(live))
    assert main(["insights", name]) == 0 and main(["pack", name]) == 0
    assert os.path.exists(name) and main(["summary", str(tmp_path / "other.parquet")]) == 2
    assert "other.parquet: there is no such log" in capsys.readouterr().err


def test_no_log_of_another_tool_is_removed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "t.1").write_text(
        '1700000000.000001 openat(AT_FDCWD</>, "/etc/hostname", O_RDONLY) = 3</etc/hostname>\n'
    )
    assert main(["pack", str(tmp_path / "t.1"), str(tmp_path / "t.parquet"), "--remove"]) == 2
    assert "another tool's log" in capsys.readouterr().err and [*tmp_path.iterdir()] == [tmp_path / "t.1"]


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


def test_files_of_a_folder_are_each_of_one_log(tmp_path: Path) -> None:
    # GIVEN two logs with two files each; one file has an inode in the log, and the other only a path
    for number in range(2):
        writer = LogWriter(host=f"host{number}")
        writer.header["run_id"] = 7 + number
        thread = writer.thread(writer.process(100), 100)
        for begin, desc in enumerate((writer.desc(3, "/seen", dev=1, ino=1), writer.desc(4, "/named"))):
            thread.record("PREAD", begin=2_000 + begin, desc=desc, aux=3, offset=0, size=1, result=1)
        writer.save(tmp_path / f"{number}.pyio")
    # WHEN the folder is read THEN there are four files, each from its own log
    rows = open_log(tmp_path).operations(["host", "path", "file"]).to_pylist()
    logs = {(row["host"], row["path"]): log_of(row["file"]) for row in rows}
    assert logs == {(f"host{number}", path): number for number in range(2) for path in ("/seen", "/named")}
    assert len({row["file"] for row in rows}) == 4


def test_a_folder_ends_with_its_last_run(tmp_path: Path) -> None:
    # GIVEN two runs whose rings dropped operations, and one run whose end is unknown
    for number, end in enumerate((9_000, 8_000, 0)):
        writer = LogWriter(host=f"host{number}")
        writer.header["run_id"], writer.header["ring_lost"] = 7 + number, (3_000, 4_000, 0)[number]
        writer.process(100, begin=2_000, end=end, end_kind=layout.END_EXIT if end else 0)
        for folder in ("all", "ended") if end else ("all",):
            (tmp_path / folder).mkdir(exist_ok=True)
            writer.save(tmp_path / folder / f"{number}.pyio")
    # WHEN they are read together THEN the end is that of the run that ended last, or unknown if one is, and nothing is
    # missing from the later of the two losses on
    every, ended = (open_log(tmp_path / folder).info() for folder in ("all", "ended"))
    start = ended["start"]
    assert (every["end"], ended["end"] - start) == (None, 8_000)
    assert [info["ring_since"] - start for info in (every, ended)] == [3_000, 3_000]


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


def test_no_log_is_packed_that_readers_would_refuse(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # GIVEN readers that allow a packed log next to nothing WHEN a log is packed
    monkeypatch.setattr(pages, "_UNPACKED_ANYWAY", 10)
    monkeypatch.setattr(pages, "_UNPACKED", 0)
    (tmp_path / "a.pyio").write_bytes(WHOLE)
    with pytest.raises(LogError) as problem:
        pack(tmp_path / "a.pyio", tmp_path / "a.parquet")
    # THEN it is refused at once, and the live log is all there is
    assert problem.value.slug == "log-too-large"
    assert [path.name for path in tmp_path.iterdir()] == ["a.pyio"]


def test_pages_are_large(tmp_path: Path) -> None:
    # GIVEN a log of many rows WHEN it is packed THEN its pages end where their bytes say, not after some rows
    generate(tmp_path / "run.pyio", 200_000)
    pack(tmp_path / "run.pyio", tmp_path / "run.parquet")
    with (tmp_path / "run.parquet").open("rb") as file:
        column = pq.read_metadata(file).row_group(0).column(0)
        found, at = 0, column.data_page_offset
        while at < column.data_page_offset + column.total_compressed_size:
            header, length = pages._header(file.fileno(), at, at + column.total_compressed_size)
            at += length + int(str(header[3]))
            found += 1
    assert found <= 1 + column.total_uncompressed_size // (1 << 20)


@pytest.mark.parametrize("how", ["the same", "of their own", "in part without"])
def test_dictionaries_of_row_groups(tmp_path: Path, how: str) -> None:
    # GIVEN a packed log in several row groups, whose dictionaries are the same, or of the strings of each group, or
    # too large to be one
    log = open_log(_of_many_names(tmp_path / "run.pyio"))
    pack(tmp_path / "run.pyio", tmp_path / "run.parquet")
    expected = log.operations(ALL)
    table = pq.read_table(tmp_path / "run.parquet")
    names = [name for name in table.column_names if pa.types.is_dictionary(table.schema.field(name).type)]
    limit = 300 if how == "in part without" else 1 << 20
    with pq.ParquetWriter(
        tmp_path / "new.parquet", table.schema, use_dictionary=names, dictionary_pagesize_limit=limit
    ) as writer:
        for first in range(0, len(table), 40):
            part = table.slice(first, 40).combine_chunks()
            writer.write_table(only_used(part) if how == "of their own" else part)
    # WHEN it is read THEN it has the same rows
    assert pq.read_metadata(tmp_path / "new.parquet").num_row_groups == 3
    assert open_log(tmp_path / "new.parquet").operations(ALL).equals(expected)


def _of_many_names(path: Path) -> Path:
    writer = LogWriter()
    thread = writer.thread(writer.process(100), 100)
    for number in range(120):
        thread.record("STAT", begin=2_000 + number, desc=writer.string(f"/data/{number // 2}"))
    return writer.save(path)


FINISH = """\
import sys
from pyio_trace.cli.main import main
main(["finish", *sys.argv[1:]])
print(*sorted(sys.modules))
"""
#: Each takes as long to import as a small log takes to pack and sum up.
HEAVY = (
    "pandas", "pyarrow.compute", "pyarrow.dataset", "pyarrow.fs", "pyarrow.parquet", "ssl", "numpy.ma", "rich",
    "asyncio", "multiprocessing", "pyio_trace.insights.insights",
)  # fmt: skip


def test_the_end_of_a_small_run_imports_little(program: Runner) -> None:
    # GIVEN the live log of a small program, which reads and writes by lines
    text = "open('f', 'w').write('a line' * 9)\nfor line in open('f'): print(len(line))\n"
    succeeded(program.traced(text))
    # WHEN the log is packed and summed up in a process of its own
    names = program.folder / "run.pyio", "--final", program.folder / "run.parquet"
    outcome = succeeded(program.command([sys.executable, "-P", "-c", FINISH, *names]))
    # THEN both are done, without any of the modules that would take the most time
    assert open_log(program.folder / "run.parquet").rows() > 0 and "next: " in outcome.stderr
    loaded = outcome.stdout.split()
    assert "pyarrow._parquet" in loaded and not [name for name in HEAVY if name in loaded]


def test_packing_and_the_summary_share_one_scan(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    # GIVEN the live log of a run, of which each reading is noted
    live = small_run(tmp_path / "run.pyio")
    expected = summarize(open_log(live)).to_dict()
    readings: list[Sequence[str]] = []
    batches = LiveSource.batches

    def noting(source: LiveSource, columns: Sequence[str], rows: int) -> Iterator[pa.RecordBatch]:
        readings.append(columns)
        return batches(source, columns, rows)

    monkeypatch.setattr(LiveSource, "batches", noting)
    # WHEN its run ends THEN it is read for the packed log alone, besides the look at how sure parents are
    assert main(["finish", str(live), "--final", str(tmp_path / "run.parquet")]) == 0
    assert [len(columns) for columns in readings if "op" in columns] == [len(ALL_COLUMNS)]
    # and the summary is that of the live log
    packed = summarize(open_log(tmp_path / "run.parquet")).to_dict()
    for part in ("time", "layers", "bytes", "files", "sites", "operations", "errors"):
        assert packed[part] == expected[part]
    assert "in.bin" in capsys.readouterr().err and not live.exists()


def test_who_reads_along_gets_all_batches(tmp_path: Path) -> None:
    # GIVEN a live log of several blocks
    path = tmp_path / "run.pyio"
    generate(path, 20_000)
    whole = open_log(path).operations(ALL)
    read: list[pa.RecordBatch] = []
    # WHEN it is packed for somebody who reads along THEN that one got all of it, and the log is packed
    finish_log(EndedLog(str(path), None), str(tmp_path / "run.parquet"), 0o600, read=read.extend)
    assert sum(map(len, read)) == whole.num_rows == open_log(tmp_path / "run.parquet").rows()
    assert [number for batch in read for number in batch["id"].to_pylist()] == whole["id"].to_pylist()
