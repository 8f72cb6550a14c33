"""Tables by file and by stack of the small run (tests/support/smallrun.py), and the choice of events."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from pyio_trace.analysis.reducer import found, scan
from pyio_trace.analysis.scan.filters import Filter, check, restrict
from pyio_trace.analysis.scan.prefetch import read_ahead
from pyio_trace.analysis.summary.summarize import summarize
from pyio_trace.analysis.tables.ordering import select
from pyio_trace.analysis.tables.sums_tables import by_file, by_stack
from pyio_trace.errors import ConfigError
from pyio_trace.join.sources.facade import Log
from pyio_trace.join.sources.opening import open_log
from tests.support.logwriter import LogWriter
from tests.support.programs import Runner, succeeded
from tests.support.smallrun import START, small_run


@pytest.fixture
def log(tmp_path: Path) -> Log:
    return open_log(small_run(tmp_path / "run.pyio"))


def test_by_file(log: Log) -> None:
    rows = by_file(log).to_pylist()
    assert [row["path"] for row in rows] == ["/d/in.bin", "/d/out.bin", "/d/none", "/d/fifo"]
    data = rows[0]
    assert data == {
        "path": "/d/in.bin", "time": 67_000, "opens": 1, "reads": 4, "writes": 0, "metadata": 0, "read": 50_480,
        "written": 0, "calls": 1_006, "errors": 0, "first": START + 8_000, "last": START + 600_000, "processes": 2,
        "names": 1, "renamed_from": None,
    }  # fmt: skip
    assert (rows[2]["metadata"], rows[2]["errors"]) == (1, 1)


def test_by_file_with_imports(log: Log) -> None:
    data = next(row for row in by_file(log, imports=True).to_pylist() if row["path"] == "/d/in.bin")
    assert (data["time"], data["reads"], data["read"], data["first"]) == (70_000, 5, 50_980, START + 1_000)


def test_by_stack(log: Log) -> None:
    rows = by_stack(log).to_pylist()
    assert [
        (row["call_stack"], row["time"], row["calls"], row["read"], row["written"], row["errors"]) for row in rows
    ] == [
        ("/home/u/train.py:10:main", 61_000, 1_002, 30_100, 0, 0),
        ("/home/u/train.py:20:main", 27_000, 3, 8_192, 1_000, 1),
        (None, 16_000, 2, 4_596, 0, 0),  # without the read of a FIFO, which is a wait
    ]


def test_a_file_under_two_names(tmp_path: Path) -> None:
    # GIVEN a file that one thread wrote as part, often, and another read under its last name, whose rows stand first
    writer = LogWriter()
    process = writer.process(1)
    for tid, name, count, begin in ((1, "/d/whole", 1, 9_000), (2, "/d/part", 5, 2_000)):
        thread, desc = writer.thread(process, tid), writer.desc(3, name, kind=1, dev=1, ino=5)
        for i in range(count):
            thread.record("PREAD", begin=begin + i, desc=desc, aux=3, offset=0, size=1, result=1)
    log = open_log(writer.save(tmp_path / "x.pyio"))
    # WHEN it is listed THEN the table and the summary have its last name
    (row,) = by_file(log).to_pylist()
    assert (row["path"], row["names"], row["reads"]) == ("/d/whole", 2, 6)
    assert [file.path for file in summarize(log).files] == ["/d/whole"]


def test_empty_log(tmp_path: Path) -> None:
    log = open_log(LogWriter().save(tmp_path / "x.pyio"))
    assert by_file(log).num_rows == by_stack(log).num_rows == 0


def rows_of(
    log: Log, chosen: Filter, *, sort: str | None = None, reverse: bool = False, limit: int | None = None
) -> list[tuple[str, int | None]]:
    batches = select(restrict(log, chosen), ("op", "duration"), sort, reverse, limit)
    return [(row["op"], row["duration"]) for batch in batches for row in batch.to_pylist()]


def test_filters(log: Log) -> None:
    assert rows_of(log, Filter(errors=True)) == [("stat", 2_000)]
    assert rows_of(log, Filter(processes=["200"])) == [("pread", 1_000), ("read", None)]
    assert rows_of(log, Filter(layers=["user"])) == [("epoch", 100_000)]
    assert len(rows_of(log, Filter(ops=["p*"]))) == 6
    assert rows_of(log, Filter(paths=["/d/out*"], min_duration=16_000)) == [("pwrite", 20_000)]
    assert rows_of(log, Filter(min_duration=100_000)) == [("epoch", 100_000), ("read", None)]
    assert len(rows_of(log, Filter(), limit=3)) == 3
    assert rows_of(log, Filter(), limit=0) == []


def test_sort(log: Log) -> None:
    longest = rows_of(log, Filter(), sort="duration", limit=3)
    assert longest == [("read", None), ("epoch", 100_000), ("TextIOWrapper.__next__", 50_000)]
    assert rows_of(log, Filter(layers=["posix"]), sort="duration", reverse=True, limit=2)[1:] == [("openat", 1_000)]
    assert [op for op, _ in rows_of(log, Filter(processes=["100"]), sort="op", limit=2)] == [
        "BufferedReader.read",
        "FileIO.readall",
    ]


def test_misspelt_filters(log: Log) -> None:
    check([log], Filter(layers=["posix"], ops=["pread*"]))
    with pytest.raises(ConfigError, match="there is no layer 'posx'"):
        check([log], Filter(layers=["posx"]))
    with pytest.raises(ConfigError, match=r"did you mean pread\?"):
        check([log], Filter(ops=["prad"]))


def test_reading_ahead_hands_errors_on_and_stops() -> None:
    def failing() -> Iterator[int]:
        yield 1
        yield 2
        raise KeyError("later")

    seen: list[int] = []
    with pytest.raises(KeyError, match="later"):
        seen.extend(read_ahead(failing(), 1))
    assert seen == [1, 2]
    ahead = read_ahead(iter(range(100)), 2)
    assert next(ahead) == 0
    ahead.close()  # leaves no thread behind that waits for ever
    assert list(read_ahead(iter(()))) == []


RENAMES = """
import ctypes, os
here = os.open(".", os.O_RDONLY)
for size in (100, 200, 300):  # a log is rotated
    if os.path.exists("log.1"): os.rename("log.1", "log.2")
    if os.path.exists("log"): os.rename("log", "log.1")
    with open("log", "wb", 0) as file: file.write(b"x" * size)
with open("old", "wb", 0) as file:  # written under a name that it has no longer
    os.rename("old", "new")
    file.write(b"x" * 400)
for n in range(2):  # and back
    with open("there", "wb", 0) as file: file.write(b"x" * 250)
    os.rename("there", "back"); os.rename("back", "there")
nameless = os.open(".", os.O_TMPFILE | os.O_RDWR)
os.write(nameless, b"x" * 600)
os.link(f"/proc/self/fd/{nameless}", "named", dst_dir_fd=here)
os.write(nameless, b"x" * 100)
os.close(nameless)
second = os.open(".", os.O_TMPFILE | os.O_RDWR)
os.write(second, b"x" * 800)
if ctypes.CDLL(None).linkat(second, b"", -100, b"empty", 0x1000):  # AT_FDCWD, AT_EMPTY_PATH: not allowed to everybody
    os.link(f"/proc/self/fd/{second}", "empty", dst_dir_fd=here)
os.link("log", "other")  # has both names
"""


@pytest.mark.parametrize("name", ["run.pyio", "run.parquet"])
def test_a_file_is_called_by_the_name_it_was_renamed_to(program: Runner, name: str) -> None:
    # GIVEN files that were renamed, or first had no name WHEN they are listed, by each way there is
    log = succeeded(program.traced(RENAMES, log=name)).log
    (view,) = scan(log, [found()["by_file"]()])
    ways = [
        [(row["path"], row["written"]) for row in by_file(log).to_pylist()],
        [(file.path, file.written) for file in summarize(log, top=99).files],
        [(row.key, row.written_bytes) for row in view.rows],
    ]
    # THEN each has the name that it had in the end
    folder = str(program.folder)
    for way in ways:
        assert {Path(path).name: size for path, size in way if size and path.startswith(folder)} == {
            "log.2": 100, "log.1": 200, "log": 300, "new": 400, "there": 500, "named": 700, "empty": 800,
        }  # fmt: skip
