"""A lock's wait is a state of its own: neither metadata nor a sync, in any figure or sentence, in every mode."""

from __future__ import annotations

import pytest

from pyio_trace.analysis.reducer import scan
from pyio_trace.analysis.reducers.by_op import ByOp
from pyio_trace.analysis.reducers.metadata import MetadataByPath
from pyio_trace.analysis.reducers.phases import PhasesOfRun
from pyio_trace.analysis.summary.summarize import summarize
from pyio_trace.analysis.tables.sums_tables import by_file
from pyio_trace.cli.main import main
from pyio_trace.join.pack.packer import pack
from pyio_trace.join.sources.facade import Log
from pyio_trace.join.sources.opening import open_log
from pyio_trace.report.conclusions import conclusions
from tests.support.programs import Runner, succeeded

#: It waits for a lock that a child holds until its parent has slept in the call for a while, then takes it many times.
WAITS = """
import fcntl, os, sys, threading, time
TAKE = {
    "flock": lambda fd: fcntl.flock(fd, fcntl.LOCK_EX),
    "lockf": lambda fd: os.lockf(fd, os.F_LOCK, 0),
    "fcntl": lambda fd: fcntl.lockf(fd, fcntl.LOCK_EX),  # Python's lockf() is C's fcntl()
}[sys.argv[1]]
ready = os.pipe()
if os.fork() == 0:
    fd = os.open("lock", os.O_RDWR | os.O_CREAT)
    TAKE(fd)
    os.write(ready[1], b"x")
    time.sleep(0.2)  # how long the wait lasts, not what is waited for
    os._exit(0)
os.read(ready[0], 1)
fd = os.open("lock", os.O_RDWR)
def work():
    for _ in range(20):
        TAKE(fd)
if sys.argv[2] == "main":
    work()
else:
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
os.wait()
"""


def waited(log: Log) -> int:
    """ns in the calls that lock, of the process that waited, as the rows say."""
    rows = log.operations(["op_role", "op_class", "duration", "process"]).to_pylist()
    assert {row["op_class"] for row in rows if row["op_role"] == "lock"} == {"lock"}
    assert not [row for row in rows if row["op_class"] == "lock" and row["op_role"] != "lock"]
    return sum(row["duration"] for row in rows if row["op_role"] == "lock" and row["process"] == 0)


@pytest.mark.parametrize(
    ("how", "mode", "where"),
    [("flock", "trace", "main"), ("lockf", "profile", "main"), ("fcntl", "ring", "main"), ("fcntl", "trace", "thread")],
)
def test_a_wait_for_a_lock(
    program: Runner, capsys: pytest.CaptureFixture[str], how: str, mode: str, where: str
) -> None:
    # GIVEN a program that does nothing but wait for a lock
    run = succeeded(program.traced(WAITS, how, where, env={"PYIO_TRACE_MODE": mode}))
    pack(run.path, program.folder / "packed.parquet")
    for log in (run.log, open_log(program.folder / "packed.parquet")):
        check(log, how, mode == "trace", where == "main")
    # AND no text of a command takes it for metadata or for a sync
    for words in (["summary"], ["insights"], ["insights", "--format", "markdown"]):
        assert main([words[0], str(run.path), *words[1:]]) == 0
        said = capsys.readouterr().out.partition("Not looked for")[0]  # names of other rules follow
        assert "metadata" not in said.lower() and "sync" not in said.lower(), said
    assert main(["diff", str(run.path), str(run.path)]) == 0
    (counted,) = (line.split() for line in capsys.readouterr().out.split("\n") if line.startswith("  metadata "))
    rows = run.log.operations(["layer", "op_class", "calls", "imported"]).to_pylist()
    assert int(counted[1]) == sum(
        row["calls"]
        for row in rows
        if row["layer"] in ("posix", "stdio") and row["op_class"] in ("meta", "close", "seek") and not row["imported"]
    )


def check(log: Log, how: str, in_order: bool, by_main: bool) -> None:
    waits = waited(log)
    assert waits > 50_000_000
    # WHEN it is summed up THEN that is time in locks, and of nothing else
    summary = summarize(log)
    assert summary.overview is not None
    split = summary.overview.processes[0].split
    assert (split.lock_ns if by_main else split.beside_lock_ns) == pytest.approx(waits, rel=0.01)
    assert split.sync_ns == split.beside_sync_ns == 0
    assert split.io_ns + summary.metadata.time + sum(one.metadata_ns for one in summary.overview.files) < waits / 2
    # AND the first sentence says so, with the line
    first = conclusions(summary)[0]
    assert first.startswith("Locks took ") and "program.py:" in first
    assert by_main != ("in other threads" in first)
    # AND views do
    ops, metadata, phases = scan(log, [ByOp(), MetadataByPath(), PhasesOfRun()])
    (row,) = (row for row in ops.rows if row.key == f"posix {how}")
    assert (row.metadata, row.syncs, row.sync_ns) == (0, 0, 0) and row.lock_ns >= waits
    assert metadata.time_ns < waits / 2 and how not in {row.op for row in metadata.rows}
    (file,) = (row for row in by_file(log).to_pylist() if row["path"].endswith("/lock"))
    assert file["time"] >= waits and file["metadata"] < 20
    if in_order:
        (phase,) = (one for one in phases.rows if one.io_ns > waits / 2)
        assert (phase.kind, phase.sync_ns) == ("lock", 0)


def test_locks_of_a_database_are_in_its_requests(program: Runner) -> None:
    # GIVEN a database, whose library locks its file beneath its calls
    run = succeeded(
        program.traced("""
        import sqlite3
        with sqlite3.connect("data.db") as data:
            data.execute("create table a (b)")
            data.execute("insert into a values (1)")
    """)
    )
    locks = run.select(op="fcntl", op_role="lock", errno=0)
    assert locks and {row["op_class"] for row in locks} == {"lock"}
    # WHEN it is summed up THEN the time in locks is in no sync, and syncs are
    (split,) = (one.split for one in summarize(run.log).overview.processes)
    assert split.lock_ns == sum(row["duration"] for row in run.select(op="fcntl", op_role="lock"))
    assert split.sync_ns == sum(row["duration"] for row in run.rows if row["op_role"] == "sync")


def test_fcntl_of_other_commands_is_no_lock(program: Runner) -> None:
    # GIVEN fcntl() with other commands WHEN the log is read THEN they are as before
    run = succeeded(
        program.traced("""
        import fcntl
        with open("x", "w") as file:
            fcntl.fcntl(file, fcntl.F_GETFL)
            fcntl.lockf(file, fcntl.LOCK_EX)
    """)
    )
    found = {row["command"]: (row["op_class"], row["op_role"]) for row in run.select(op="fcntl")}
    assert found["F_GETFL"] == ("meta", "io") and found["F_SETLKW"] == ("lock", "lock")
