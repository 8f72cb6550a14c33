"""No finding claims more than its program spent there, nor claims the same seconds as another one of its rule."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import pyio_trace
from pyio_trace.insights import insights, registry
from pyio_trace.insights.finding import Finding
from pyio_trace.insights.settings import Settings
from pyio_trace.join.sources.facade import Log
from pyio_trace.log import layout
from tests.support.findings import findings_of, none, only
from tests.support.logwriter import LogWriter, Thread
from tests.support.programs import Outcome, Runner, succeeded

pytestmark = pytest.mark.once

MS = 1_000_000


def of_rule(log: Log, slug: str, **limits: float) -> list[Finding]:
    """What one rule finds in a log."""
    _, found = insights.find(log, {slug: registry.found()[slug]}, Settings(limits={slug: limits}))
    assert found.failed == {}
    return found.findings


def time_of(outcome: Outcome, **where: object) -> int:
    """ns in the system calls of a run with these values."""
    return sum(row["duration"] for row in outcome.select(layer="posix", **where))


def one_thread() -> tuple[LogWriter, Thread, int]:
    """(a log of a run of a second, its thread, the stack of a line of it)."""
    writer = LogWriter()
    process = writer.process(100, argv=["python", "a.py"], begin=1_000, end=1_000 * MS, end_kind=layout.END_EXIT,
                             end_status=0, stack_state=1, version=b"3.11.7")  # fmt: skip
    return writer, writer.thread(process, 100), writer.stack((writer.code("/home/u/a.py", "main"), 10))


def test_threads_side_by_side(tmp_path: Path) -> None:
    # GIVEN four threads that each wait for ten syncs of 5 ms, all at the same time, in a run of a second
    writer, first, line = one_thread()
    file = writer.desc(3, "/d/log.bin", kind=1, dev=1, ino=11)
    for thread in (first, *(writer.thread(first.process, tid) for tid in range(101, 104))):
        for n in range(10):
            thread.record("FSYNC", begin=(100 + 5 * n) * MS, duration=5 * MS, desc=file, aux=3, stack=line)
    log = pyio_trace.open(writer.save(tmp_path / "run.pyio"))
    # WHEN findings are made THEN at most the 50 ms are claimed that the clock showed, of 200 ms in all calls
    (finding,) = of_rule(log, "sync-per-write")
    assert finding.evidence[0].values["syncs"] == 40
    assert 0 < finding.recoverable_ns <= 50 * MS


def closes(tmp_path: Path, duration: int) -> list[Finding]:
    """What is found of three closes of descriptors that the log does not know, in a run of a second."""
    writer, thread, line = one_thread()
    for n in range(3):
        thread.record("CLOSE", begin=(10 + 10 * n) * MS, duration=duration, aux=7, stack=line)
    return of_rule(pyio_trace.open(writer.save(tmp_path / "run.pyio")), "close-stall", share=0)


@pytest.mark.parametrize(("ns", "waits"), [(100 * MS - 1, 0), (100 * MS, 1)])
def test_how_long_a_lock_is_waited_for(tmp_path: Path, ns: int, waits: int) -> None:
    writer, thread, line = one_thread()
    file = writer.desc(3, "/d/lock", kind=1, dev=1, ino=11)
    thread.record("FLOCK", begin=10 * MS, duration=ns, desc=file, aux=3, stack=line)
    assert len(of_rule(pyio_trace.open(writer.save(tmp_path / "run.pyio")), "lock-waits")) == waits


def test_closes_that_take_less_than_a_stall(tmp_path: Path) -> None:
    assert closes(tmp_path, MS - 1) == [] and len(closes(tmp_path, MS)) == 1


def test_closes_without_a_path(tmp_path: Path) -> None:
    # GIVEN closes of descriptors that the log does not know THEN they are at most all calls on their files
    (finding,) = closes(tmp_path, 5 * MS)
    values = finding.evidence[0].values
    assert int(values["time_ns"]) <= int(values["io_ns"]) and "100 %" in finding.evidence[0].text


TURNS = """
import os
for name in ("a.bin", "b.bin"):
    with open(name, "wb") as f: f.write(bytes(1 << 14))
files = [os.open(name, os.O_RDWR) for name in ("a.bin", "b.bin")]
for n in range(400):
    for f in files:
        x = os.pread(f, 8, n * 8)
        os.pwrite(f, x, n * 8)
"""


def test_files_that_one_line_reads_and_writes(program: Runner) -> None:
    # GIVEN two files that the same lines read and write by turns
    outcome = succeeded(program.traced(TURNS))
    found = of_rule(outcome.log, "read-modify-write")
    assert sorted(name for one in found for name in one.files) == [f"{program.folder}/{n}.bin" for n in "ab"]
    # THEN together their findings claim no more than the reads and writes of both took
    assert sum(one.recoverable_ns for one in found) <= time_of(outcome, op=lambda op: op in ("pread", "pwrite"))


DATABASES = """
import sqlite3
databases = [sqlite3.connect(name) for name in ("a.db", "b.db")]
for db in databases: db.execute("CREATE TABLE t (x)")
for n in range(60):
    for db in databases:
        db.execute("INSERT INTO t VALUES (?)", (n,))
        db.commit()
"""


def test_databases_of_one_line(program: Runner) -> None:
    # GIVEN two databases to which the same line commits
    outcome = succeeded(program.traced(DATABASES))
    found = of_rule(outcome.log, "commit-per-row")
    assert sorted(name for one in found for name in one.files) == [f"{program.folder}/{n}.db" for n in "ab"]
    # THEN each finding has the syncs of its own files
    syncs = outcome.select(layer="posix", op_class="sync", path=lambda path: ".db" in (path or ""))
    assert 2 * 60 <= sum(int(one.evidence[0].values["syncs"]) for one in found) <= len(syncs)


TWICE = """
import os
os.mkdir("d")
for n in range(1000):
    with open(f"d/{n}.bin", "wb") as f: f.write(b"x")
for n in range(1000):
    with open(f"d/{n}.bin", "rb") as f: f.read()
"""


def test_small_files_that_two_lines_use(program: Runner) -> None:
    # GIVEN files that one line writes and another one reads
    outcome = succeeded(program.traced(TWICE))
    found = of_rule(outcome.log, "small-files")
    assert {one.sites[0].line for one in found} == {5, 7}
    # THEN each finding claims its own opens' share
    spent = time_of(outcome, path=lambda path: (path or "").endswith(".bin"), op_class=lambda kind: kind != "write")
    assert sum(one.recoverable_ns for one in found) <= spent


CHILDREN = """
import os
os.mkdir("d")
for n in range(400): open(f"d/{n}", "w").close()
for child in range(4):
    if not os.fork():
        for n in range(400):
            for _ in range(3): os.stat(f"d/{n}")
        os._exit(0)
for child in range(4): os.wait()
"""


def test_each_process_has_to_ask_once(program: Runner) -> None:
    # GIVEN four processes that ask three times each for the same paths
    outcome = succeeded(program.traced(CHILDREN))
    (finding,) = of_rule(outcome.log, "stat-storm")
    assert finding.evidence[0].values["calls"] == 4 * 1200 and finding.evidence[0].values["paths"] == 400
    # THEN two of three calls could go
    longest = max(time_of(outcome, op="stat", pid=row["pid"]) for row in outcome.processes)
    assert finding.recoverable_ns <= longest * 2 // 3


SYNCS = """
import os
f = open("x.bin", "wb", buffering=0)
for n in range(30):
    f.write(bytes(1 << 16))
    os.fsync(f.fileno())
"""


def test_syncs_of_64_kib(program: Runner) -> None:
    # GIVEN syncs between small and large THEN they are one finding
    found = findings_of(program.traced(SYNCS))
    assert only(found, "sync-per-write") and none(found, "sync-again")


# ---- what is not there


def test_reads_at_places_that_are_not_known(program: Runner) -> None:
    # GIVEN a log whose reads have no offsets
    text = """
        import os
        with open("x.bin", "wb") as f: f.write(bytes(1 << 26))
        f = os.open("x.bin", os.O_RDONLY)
        for n in range(1000): os.read(f, 1 << 16)
    """
    outcome = succeeded(program.traced(text, log="run.parquet"))
    table = pq.read_table(outcome.path)
    at = table.schema.get_field_index("file_offset")
    table = table.set_column(at, table.schema.field(at), pa.nulls(len(table), pa.int64()))
    pq.write_table(table, program.folder / "none.parquet")
    # WHEN findings are made THEN none is about the order of the reads
    log = pyio_trace.open(program.folder / "none.parquet")
    for slug in ("backward-reads", "strided-reads", "unaligned-accesses", "random-reads"):
        assert of_rule(log, slug) == []


def test_old_files_that_are_replaced(program: Runner) -> None:
    # GIVEN a program that deletes the results of the run before, and writes its own
    for n in range(120):
        (program.folder / f"out{n}.txt").write_text("old")
    text = """
        import os
        for n in range(120): os.remove(f"out{n}.txt")
        for n in range(120):
            with open(f"out{n}.txt", "w") as f: f.write("new")
    """
    assert none(findings_of(program.traced(text)), "create-and-delete")


@pytest.mark.parametrize(
    ("asked", "found"),
    [("os.path.getsize", False), ("os.path.getmtime", False), ("lambda path: os.stat(path).st_size", False),
     ("os.path.isfile", True), ("lambda path: os.access(path, os.R_OK)", True),
     ("lambda path: pathlib.Path(path).exists()", True)],
)  # fmt: skip
def test_what_is_asked_for(program: Runner, asked: str, found: bool) -> None:
    # GIVEN a program that asks for the sizes of files, or whether they are there, and then opens them
    text = """
        import pathlib
        import os
        os.mkdir("d")
        for n in range(600): open(f"d/{n}", "w").close()
        for path in sorted((f"d/{n}" for n in range(600)), key=ASKED): open(path).close()
    """
    outcome = program.traced(text.replace("ASKED", asked))
    # THEN only the latter is said to ask before it opens, and that this is no waste for certain
    if not found:
        assert none(findings_of(outcome), "ask-before-open")
        return
    finding = only(findings_of(outcome), "ask-before-open")
    assert finding.recoverable.bound == "upper" and finding.confidence.level != "high"


BATCHES = """
import sqlite3
db = sqlite3.connect("t.db")
db.execute("CREATE TABLE t (x)")
for n in range(6):
    db.executemany("INSERT INTO t VALUES (?)", [("x" * 100,)] * 10_000)
    db.commit()
"""


def test_commits_of_many_rows(program: Runner) -> None:
    # GIVEN transactions of a megabyte WHEN findings are made THEN nobody is told to sync a database's files less often
    outcome = program.traced(BATCHES)
    assert len(outcome.select(layer="posix", op_class="sync")) >= 12
    assert none(findings_of(outcome), "sync-again")


SHELF = """
import dbm.dumb, shelve
with shelve.Shelf(dbm.dumb.open("shelf")) as shelf:
    shelf["one"] = 1
with shelve.Shelf(dbm.dumb.open("shelf")) as shelf:
    shelf["one"] = 2
for n in range(60):
    with shelve.Shelf(dbm.dumb.open("shelf", "r")) as shelf: shelf["one"]
"""


def test_a_shelf_that_is_opened_to_be_read(program: Runner) -> None:
    # GIVEN an index that is written twice, and read 60 times
    outcome = program.traced(SHELF)
    assert len(outcome.select(op="open", layer="posix", path=program.folder / "shelf.dir")) >= 60
    assert none(findings_of(outcome), "shelve-sync")
