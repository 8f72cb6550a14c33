"""Faults found by fuzzing or by thinking like an attacker: the smallest log that shows each."""

from __future__ import annotations

import csv
import io
import json
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import pyio_trace
from pyio_trace.analysis.reducer import found, scan
from pyio_trace.analysis.reducers.line_calls import LineCalls
from pyio_trace.analysis.scan.batch_rows import FileNumbers
from pyio_trace.analysis.scan.saturation import MOST as LARGEST
from pyio_trace.analysis.scan.saturation import addable
from pyio_trace.analysis.summary.summarize import summarize
from pyio_trace.analysis.sums.byte_ranges import ByteRanges
from pyio_trace.analysis.sums.dense_sums import DenseSums
from pyio_trace.analysis.tables.run_sums import run_sums
from pyio_trace.cli.main import main
from pyio_trace.errors import LogError, printable
from pyio_trace.insights.rules import unordered_writers
from pyio_trace.join.pack.packer import pack
from pyio_trace.join.processes.mapped_files import mappings_table
from pyio_trace.join.processes.op_counters import counters_table
from pyio_trace.join.processes.process_table import arrow_schema
from pyio_trace.join.sources.parquet_description import is_sound
from pyio_trace.log import layout
from pyio_trace.log.parquet_log import KEY, open_parquet
from tests.fuzz import readings, seeds
from tests.support.logwriter import LogWriter, Thread
from tests.support.smallrun import small_run

pytestmark = pytest.mark.once  # reading logs is the same on every Python

MOST = (1 << 63) - 1
PYTHON = {pa.string(): str, pa.bool_(): bool, pa.int32(): int, pa.int64(): int}


def in_every_way(path: Path) -> None:
    """No reading of it fails."""
    assert told(path) == {"table"}


def told(path: Path) -> set[str]:
    """Runs every command on it; what reading its tables gives, for some sets of columns and batch sizes."""
    for words in readings.COMMANDS:
        readings.command(path, words)
    return {readings.tables(path, choice) for choice in (0, 0x555555, 0xAAAAAA, 0xFFFFFF)}


def one_thread() -> tuple[LogWriter, Thread]:
    writer = LogWriter(tick_kind=layout.TICKS_TSC, rate=0.5)
    return writer, writer.thread(writer.process(100, begin=2_000), 100)


# ---- live logs


def test_a_wide_result_that_is_negative(tmp_path: Path) -> None:
    writer, thread = one_thread()
    wide = thread.record("READ", begin=2_000, flags=layout.WIDE, desc=writer.desc(3, "/x"))
    thread.record("EXT", begin=(1 << 64) - 5, parent=wide, offset=-7)
    path = writer.save(tmp_path / "log")
    assert pyio_trace.open(path).operations(["bytes_requested", "bytes_moved"]).to_pylist() == [
        {"bytes_requested": None, "bytes_moved": None}
    ]
    in_every_way(path)


def test_a_run_of_no_calls_is_one(tmp_path: Path) -> None:
    writer, thread = one_thread()
    thread.record("A_TEXT_NEXT", begin=2_000, flags=layout.COALESCED, aux=0, offset=5, size=0, result=0)
    path = writer.save(tmp_path / "log")
    assert pyio_trace.open(path).operations(["calls"]).to_pylist() == [{"calls": 1}]
    in_every_way(path)


def test_times_that_cannot_be(tmp_path: Path) -> None:
    writer, thread = one_thread()
    for begin in (0, 1, 1 << 62, (1 << 63) - 1, 1 << 63, (1 << 64) - 1):
        for state in (layout.BEGUN, layout.DONE):
            thread.record("READ", begin=begin, duration=(1 << 48) - 1, state=state, desc=writer.desc(3, "/x"), result=9)
    later = writer.process(101, end=1, end_kind=layout.END_EXIT)
    begin = layout.PROCESS_ENTRY.fields["begin"][1]  # type: ignore[index]
    writer.put((later << 4) + begin, ((1 << 64) - 1).to_bytes(8, "little"))
    writer.header["full_since"], writer.header["full_reason"], writer.header["lost"] = 1 << 63, 2, (1 << 64) - 1
    writer.header["first"]["real"] = -(1 << 63)
    in_every_way(writer.save(tmp_path / "log"))


def test_nothing_but_a_fork(tmp_path: Path) -> None:
    writer, thread = one_thread()
    thread.record("FORK", begin=2_000, result=5)
    in_every_way(writer.save(tmp_path / "log"))


def test_processes_that_start_each_other(tmp_path: Path) -> None:
    writer, _ = one_thread()
    for _ in range(3):
        writer.process(7, ppid=7, start=layout.START_JOINED, begin=2_000)
    entries = [at for at in range(layout.FIRST_CHUNK, len(writer.data), 4096) if _kind(writer, at) == 3]
    for at, other in zip(entries, entries[::-1], strict=True):
        writer.put(at + layout.PROCESS_ENTRY.fields["parent"][1], (other >> 4).to_bytes(4, "little"))  # type: ignore[index]
        writer.put(at + layout.PROCESS_ENTRY.fields["previous"][1], (at >> 4).to_bytes(4, "little"))  # type: ignore[index]
    in_every_way(writer.save(tmp_path / "log"))


def _kind(writer: LogWriter, at: int) -> int:
    head = np.frombuffer(bytes(writer.data[at : at + 80]), layout.CHUNK)[0]
    return int(head["kind"]) if int(head["magic"]) == layout.CHUNK_MAGIC else 0


def test_many_gaps_are_looked_through_once(tmp_path: Path) -> None:
    # GIVEN 4,000 chunks of a page, each followed by a page without a header
    writer, thread = one_thread()
    for _ in range(4000):
        writer.chunk(layout.CHUNK_PAD, layout.PAGE)
        writer.put(writer.gap(), b"x")
    thread.record("STAT", begin=2_000)
    path = writer.save(tmp_path / "log")
    # WHEN it is opened THEN what is read is a few times its size, not a window of MiB for each gap
    before = _bytes_read()
    log = pyio_trace.open(path)
    assert _bytes_read() - before < 6 * path.stat().st_size
    assert log.rows() == 1 and log.losses()["torn"] == 4000 * layout.PAGE


def _bytes_read() -> int:
    return int(Path("/proc/self/io").read_text().split()[1])


def test_stacks_and_paths_that_unfold(tmp_path: Path) -> None:
    # GIVEN 2,000 stacks of 60 frames and as many paths, each of which expands to 100 times its bytes in the log
    writer, thread = one_thread()
    code = writer.code("/" + "f" * 4000, "g" * 4000)
    base = writer.string("/" + "d" * 30_000)
    for number in range(2000):
        stack = writer.stack(*[(code, number * 100 + line) for line in range(60)])
        thread.record("STAT", begin=2_000 + number, desc=writer.string(f"x{number}", base=base), stack=stack)
    path = writer.save(tmp_path / "log")
    log = pyio_trace.open(path)
    table = log.operations(["path", "call_stack"])
    # THEN those that there is room for are there, and the text of all is bounded by the log's size
    assert 0 < table["call_stack"].null_count < 2000
    for name in ("path", "call_stack"):
        assert log.dictionary(name).nbytes < 64 * path.stat().st_size + (65 << 20)


# ---- what the analysis adds up


def test_sums_stop_at_the_largest_number() -> None:
    values = np.array([MOST, 1, -5, 1 << 56], np.int64)
    assert int(addable(values).sum()) <= LARGEST
    small = np.array([3, 0, 1 << 40], np.int64)
    assert addable(small) is small
    sums = DenseSums()
    for _ in range(300):
        sums.add(np.zeros(1, np.int64), 1, None, np.array([1 << 57], np.int64), np.zeros(1, np.int64))
    assert LARGEST - (1 << 57) <= sums.time[0] <= LARGEST and sums.count.tolist() == [300]


def test_sums_of_many_batches(tmp_path: Path) -> None:
    # GIVEN a log of 80 row groups, each of which claims more than can be added up with the others
    writer = LogWriter()
    desc, line = writer.desc(3, "/d/x", kind=1, dev=1, ino=5), writer.stack((writer.code("/d/p.py", "main"), 5))
    thread = writer.thread(writer.process(100, begin=1_000, end=9_000_000), 100)
    for n in range(80):
        thread.record("PREAD", begin=5_000 + n, duration=1, desc=desc, aux=3, offset=n, size=9, result=9, stack=line)
    pack(writer.save(tmp_path / "a"), tmp_path / "b.parquet")
    table = pq.read_table(tmp_path / "b.parquet")
    for name in ("duration", "bytes_moved"):
        at = table.schema.get_field_index(name)
        table = table.set_column(at, table.schema.field(at), [[1 << 62] * len(table)])
    pq.write_table(table, tmp_path / "c.parquet", row_group_size=1)
    # WHEN it is summed up in every way
    log = pyio_trace.open(tmp_path / "c.parquet")
    summary, groups = summarize(log), run_sums(log).groups
    views = scan(log, [found()[name]() for name in ("by_file", "by_line", "by_process")])
    (calls,) = scan(log, [LineCalls()])
    figures = [(row.time_ns, row.read_bytes) for view in views for row in view.rows]
    figures += [(one.time, one.read) for one in (*summary.files, *summary.sites)]
    figures += [(int(groups.time.sum()), int(groups.moved.sum())), (calls.total("time"), calls.total("moved"))]
    # THEN no sum is too large for its type
    assert len(figures) == 7 and all(1 << 56 < value <= LARGEST for pair in figures for value in pair)


def test_more_time_than_there_is(tmp_path: Path) -> None:
    writer, thread = one_thread()
    file = writer.desc(3, "/x", dev=1, ino=1)
    for step in range(1000):
        thread.record("READ", begin=3_000 + step, duration=(1 << 48) - 1, desc=file, result=0xFFFFFFFE, size=1)
    path = writer.save(tmp_path / "log")
    summary = summarize(pyio_trace.open(path))
    assert summary.files[0].time >= 0 and summary.layers[0].time >= 0 and summary.layers[0].busy >= 0
    assert summary.bytes.posix_read == 1000 * 0xFFFFFFFE
    in_every_way(path)


def test_identities_of_files_far_apart() -> None:
    numbers = FileNumbers()
    first = numbers.of(np.array([1, -1, 0, 2], np.int64))
    second = numbers.of(np.array([MOST, -MOST - 1, 1, -1, 1 << 21, 0], np.int64))
    assert second[2:4].tolist() == first[:2].tolist() and second[5] == first[2] == 0
    assert len({*second.tolist()}) == 6 and numbers.size < 1 << 18


def test_ranges_aside_of_many_files() -> None:
    ranges = ByteRanges()
    files = np.arange(50_000, dtype=np.int64) % 25_000
    starts = np.full(50_000, 1 << 50, np.int64)
    ranges.add(files, starts, starts + 10)
    assert ranges.total() == 25_000 * 10


# ---- Parquet logs


@pytest.fixture
def packed(tmp_path: Path) -> Path:
    pack(small_run(tmp_path / "run.pyio"), tmp_path / "run.parquet")
    return tmp_path / "run.parquet"


def changed(path: Path, table: Callable[[pa.Table], pa.Table], about: Callable[[dict[str, Any]], object]) -> Path:
    """The log with other rows, another description, or both."""
    whole = pq.read_table(path)
    description = json.loads(whole.schema.metadata[KEY])
    about(description)
    out = path.with_name("changed.parquet")
    pq.write_table(table(whole).replace_schema_metadata({KEY: json.dumps(description).encode()}), out)
    return out


def column(name: str, value: object, kind: pa.DataType | None = None) -> Callable[[pa.Table], pa.Table]:
    """A change: all rows have this value."""

    def change(table: pa.Table) -> pa.Table:
        at = table.schema.names.index(name)
        return table.set_column(at, name, pa.array([value] * table.num_rows, kind or table.schema.types[at]))

    return change


ROWS: dict[str, Callable[[pa.Table], pa.Table]] = {
    "a layer nobody knows": column("layer", "basement", pa.dictionary(pa.int32(), pa.string())),
    "a class nobody knows": column("op_class", "x", pa.dictionary(pa.int32(), pa.string())),
    "no layer": column("layer", None, pa.dictionary(pa.int32(), pa.string())),
    "no id": column("id", None),
    "a process that is not there": column("process", 99),
    "a process below none": column("process", -1),
    "less than no time": column("duration", -1),
    "fewer than no bytes": column("bytes_moved", -1),
    "no calls": column("calls", 0),
    "too large for its type": column("pid", 1 << 40, pa.int64()),
    "words for numbers": column("file_offset", "many", pa.string()),
    "numbers for words": column("path", 5, pa.int64()),
    "words of other bytes": column("path", b"\xff\xfe", pa.binary()),
    "columns twice": lambda table: table.append_column("path", table["path"]),
    "columns missing": lambda table: table.drop_columns(["imported"]),
}


@pytest.mark.parametrize("change", ROWS.values(), ids=ROWS.keys())
def test_rows_that_are_not_what_was_promised(packed: Path, change: Callable[[pa.Table], pa.Table]) -> None:
    path = changed(packed, change, lambda _: None)
    assert told(path) == {"log-damaged"}


ABOUT: dict[str, Callable[[dict[str, Any]], object]] = {
    "no run": lambda d: d["info"].pop("run"),
    "a host that is a number": lambda d: d["info"].update(host=5),
    "a start beyond all time": lambda d: d["info"].update(start=1 << 70),
    "half a character": lambda d: d["info"].update(host="\ud800"),
    "mounts that are a list": lambda d: d["info"].update(file_systems=["ext4"]),
    "a mount without a type": lambda d: d["info"].update(file_systems={"/": None}),
    "half a character of a mount": lambda d: d["info"].update(file_systems={"/": "\ud800"}),
    "options that are a list": lambda d: d["info"].update(lock_options=["nolock"]),
    "a mount without options": lambda d: d["info"].update(lock_options={"/": None}),
    "processes out of order": lambda d: d["processes"].reverse(),
    "a parent that is not there": lambda d: d["processes"][0].update(parent=9),
    "a parent that is an object": lambda d: d["processes"][0].update(parent={}),
    "a command line that is a text": lambda d: d["processes"][0].update(argv="ab"),
    "a row that is a list": lambda d: d["processes"].append([]),
    "no begin": lambda d: d["processes"][0].update(begin=None),
    "an argument that is null": lambda d: d["processes"][0].update(argv=[None]),
    "a column less": lambda d: d["processes"][0].pop("ended"),
    "counters of nobody": lambda d: d["counters"][0].update(process=9),
    "a kind of counter nobody knows": lambda d: d["counters"][0].update(why="because"),
    "words for a loss": lambda d: d["losses"].update(torn="much"),
    "numbers for command lines": lambda d: d["losses"].update(unfollowed_children=[1]),
    "not a number": lambda d: d["info"].update(end=float("nan")),
    "a list of a million lists": lambda d: d.update(info=[[]] * 1_000_000),
}


@pytest.mark.parametrize("change", ABOUT.values(), ids=ABOUT.keys())
def test_descriptions_that_are_not_what_was_promised(packed: Path, change: Callable[[dict[str, Any]], object]) -> None:
    path = changed(packed, lambda table: table, change)
    with pytest.raises(LogError) as caught:
        pyio_trace.open(path)
    assert caught.value.slug == "log-damaged"


#: Values that no column of a description has, and some that only some have.
WRONG = ({}, {"a": 1}, [{}], [[]], 1.5, float(2), True, "", "text", [], ["a"], [1], 7, 1 << 40, 1 << 70, -(1 << 70))


def test_a_wrong_type_in_any_field_of_a_description(packed: Path) -> None:
    # GIVEN the description of a log that has rows of each kind
    description = open_parquet(packed).description
    tables = {"processes": arrow_schema(), "counters": counters_table([]).schema, "mappings": mappings_table([]).schema}
    for name, schema in tables.items():
        rows = description[name] or [dict.fromkeys(schema.names)]
        for column in schema:
            for value in WRONG:
                # WHEN a field has a value of any type
                forged = {**description, name: [{**rows[0], column.name: value}, *rows[1:]]}
                # THEN it is refused, unless the type is the column's own
                fits = isinstance(value, list) if pa.types.is_list(column.type) else type(value) is PYTHON[column.type]
                assert not is_sound(forged) or fits, (name, column.name, value)
    for name in ("info", "losses"):
        for key in description[name]:
            for value in WRONG:
                forged = {**description, name: {**description[name], key: value}}
                same = type(value) is type(description[name][key]) or description[name][key] is None
                assert not is_sound(forged) or same or isinstance(value, (int, float)), (name, key, value)
    for name in (*tables, "info", "losses"):
        for value in (*WRONG, [None], [[1]], ["row"], {"info": {}}):
            if value not in ([], {}):
                assert not is_sound({**description, name: value}) or name == "losses", (name, value)


def test_processes_in_a_long_chain_that_write_one_file() -> None:
    # GIVEN processes each of which started the next WHEN what orders their writes is looked for
    looked = []

    class Row(dict[str, Any]):
        def __getitem__(self, name: str) -> Any:
            looked.append(name)
            return super().__getitem__(name)

    count = 5000
    rows = [Row(parent=number - 1 if number else count - 1) for number in range(count)]
    order = unordered_writers._Order.__new__(unordered_writers._Order)
    order._run, order._ancestors = types.SimpleNamespace(processes=rows), {}  # type: ignore[assignment]
    for number in range(count):
        order._above(number)
        order._above(number)
    # THEN a bounded number of rows is looked at for each, also where they started each other in a circle
    assert len(looked) <= count * (unordered_writers._DEEPEST + 1)


@pytest.mark.slow
def test_what_may_be_otherwise(packed: Path) -> None:
    """Other writers' habits: small row groups, plain strings, further columns, no rows."""
    whole = pq.read_table(packed)
    rows = pyio_trace.open(packed).operations(readings.EVERY)
    plain = pa.table(
        [c.cast(pa.string()) if pa.types.is_dictionary(c.type) else c for c in whole.columns], whole.schema.names
    ).replace_schema_metadata(whole.schema.metadata)
    out = packed.with_name("other.parquet")
    for table, size in ((whole, 2), (plain, 100), (whole.append_column("more", whole["id"]), 3)):
        pq.write_table(table, out, row_group_size=size, use_dictionary=size != 100)
        assert pyio_trace.open(out).operations(readings.EVERY).to_pylist() == rows.to_pylist()
        in_every_way(out)
    pq.write_table(whole.slice(0, 0), out)
    in_every_way(out)


def test_a_writer_whose_name_is_no_text(packed: Path) -> None:
    # GIVEN a Parquet log whose footer names its writer in bytes that are not UTF-8 WHEN opened THEN it says damaged
    data = packed.read_bytes()
    at = data.rindex(b"parquet-cpp-arrow")
    packed.write_bytes(data[:at] + b"\x80" + data[at + 1 :])
    with pytest.raises(LogError, match="log-truncated"):
        pyio_trace.open(packed)


def test_row_groups_that_nobody_packs(packed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A few bytes can stand for any number of like rows."""
    pyio_trace.open(packed)
    monkeypatch.setattr("pyio_trace.log.parquet_log._MOST_ROWS", pyio_trace.open(packed).rows() - 1)
    with pytest.raises(LogError) as caught:
        pyio_trace.open(packed)
    assert caught.value.slug == "log-damaged"


# ---- names

NAMES = [name.decode("utf-8", "backslashreplace").replace("\0", "") for name in seeds.NASTY]


def test_printable() -> None:
    assert printable("\x1b[31m a\nb \x9b \u202e \ud800 \x7f\r\t") == r"\x1b[31m a\nb \x9b \u202e \ud800 \x7f\r\t"
    for text in ("", "plain", "größe 日本語 ไทย हिन्दी עברית 👍", "\\x1b"):
        assert printable(text) == text


def test_no_name_reaches_a_terminal_raw(tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    path = tmp_path / "\x1b[31mlog\n"
    path.write_bytes(seeds.rich())
    for words in readings.COMMANDS:
        if words[0] != "pack":
            readings.command(path, words)
    assert main(["summary", str(path)]) == 0
    assert main(["events", str(path)]) == 0  # the summary shows one name of a file
    shown = capfdbinary.readouterr().out.decode()
    assert not readings.RAW.search(shown)
    for name in (r"\x1b[31mlog\n", r"/n/\x1b]0;title\x07", r"\x9b31m \x85 \u2028 \u202e", r"x.py \x1b[2J"):
        assert name in shown
    assert main(["summary", str(tmp_path / "\x1b[31mnone\n")]) == 2
    said = capfdbinary.readouterr().err.decode()
    assert said.count("\n") == 1 and not readings.RAW.search(said) and r"\x1b[31mnone\n" in said


def test_names_come_back_from_csv_and_json(tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    writer, thread = one_thread()
    for number, name in enumerate(NAMES):
        thread.record("STAT", begin=2_000 + number, desc=writer.string(name))
    path = str(writer.save(tmp_path / "log"))
    expected = pyio_trace.open(path).operations(["path"])["path"].to_pylist()
    assert len(set(expected)) == len(NAMES)
    assert main(["events", path, "--format", "csv", "--raw", "--columns", "path,op"]) == 0
    rows = list(csv.reader(io.StringIO(capfdbinary.readouterr().out.decode(), newline="")))
    assert rows == [["path", "op"], *([name, "stat"] for name in expected)]
    assert main(["events", path, "--format", "json", "--columns", "path"]) == 0
    assert [row["path"] for row in json.loads(capfdbinary.readouterr().out)] == expected


def test_a_terminal_that_knows_few_letters(tmp_path: Path) -> None:
    writer, thread = one_thread()
    thread.record("STAT", begin=2_000, desc=writer.string("/größe 日本"))
    path = writer.save(tmp_path / "log")
    for words in (["summary"], ["files"], ["stacks", "--format", "folded"]):
        out = io.TextIOWrapper(io.BytesIO(), "ascii")
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("sys.stdout", out)
            assert main([words[0], str(path), *words[1:]]) == 0


# ---- options


def test_options_beyond_all_numbers(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    path = str(small_run(tmp_path / "log"))
    for words in (["--limit", "9" * 30], ["--since", "1e8s"], ["--min-duration", "1e8s"]):
        assert main(["events", path, *words]) == 0, words
    for flag in ("--process", "--rank"):
        assert main(["events", path, flag, "9" * 30]) == 2, flag
        assert capfd.readouterr().err.count("\n") == 1
    for words in (["files", path, "--limit", "9" * 30], ["stacks", path, "--limit", "9" * 30],
                  ["summary", path, "--top", "9" * 30]):  # fmt: skip
        assert main(words) == 0, words
    for duration in ("1e290s", "1e400s", "inf", "nan", "-inf", "x"):
        assert main(["events", path, f"--min-duration={duration}"]) == 2
        assert capfd.readouterr().err.count("\n") == 1
    assert main(["events", path, "--limit=-5"]) == 2
    assert capfd.readouterr().err.count("\n") == 1
