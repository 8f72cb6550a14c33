"""The process table: relations and ends; counters, losses and the run's description."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from pyio_trace.analysis.summary.summarize import summarize
from pyio_trace.join.sources.opening import open_log
from pyio_trace.log import layout
from pyio_trace.log.log_file import LogFile
from tests.support.logwriter import LogWriter

REAL = 1_700_000_000_000_000_000


@pytest.fixture
def writer() -> LogWriter:
    return LogWriter()


def table(writer: LogWriter, tmp_path: Path) -> list[dict[str, Any]]:
    return open_log(writer.save(tmp_path / "run.pyio")).processes().to_pylist()


def losses(writer: LogWriter, tmp_path: Path) -> dict[str, Any]:
    return open_log(writer.save(tmp_path / "run.pyio")).losses()


def test_a_row_has_everything(writer: LogWriter, tmp_path: Path) -> None:
    writer.process(
        100, argv=["python", "a b.py", ""], ppid=99, begin=2_000, end=5_000, end_kind=layout.END_EXIT, end_status=3,
        executable="/usr/bin/python3", version="3.11.7", blind=0b101, stack_state=1, note="n", lost=2,
        cwd=writer.string("/home"), start=layout.START_TOP,
    )  # fmt: skip
    assert table(writer, tmp_path) == [
        {
            "index": 0, "host": "testhost", "pid": 100, "ppid": 99, "parent": None, "start": "top",
            "begin": REAL + 1_000, "end": REAL + 4_000, "ended": "exit 3", "status": 3,
            "argv": ["python", "a b.py", ""], "executable": "/usr/bin/python3", "version": "3.11.7",
            "followed": True, "cwd": "/home", "lost": 2, "blind": ["io_uring", "mapped"], "stack_state": "full",
            "note": "n", "kernel_read": None, "kernel_written": None, "storage_read": None, "storage_written": None,
            "major_faults": None, "cpu_user": None, "cpu_system": None, "imports": 0, "import_time": 0,
            "early_import_time": None, "script_begin": None, "import_packages": [], "import_package_times": [],
            "watch_time": 0, "program_packages": [],
            "unseen_read": None, "unseen_written": None, "mapped_touched": None,
            "mapped_written": None,
            "started_by": None, "site": None, "call_stack": None, "end_by": "itself",
            "process_kind": "script", "process_name": "a b.py", "global_rank": None, "local_rank": None,
            "world_size": None, "node": None, "job": None, "step": None, "job_run": None,
            "mpi_init_begin": None, "mpi_init_end": None,
        }
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "status", "ended"),
    [
        (layout.END_EXIT, 0, "exit 0"),
        (layout.END_SIGNAL, 9, "signal 9 (SIGKILL)"),
        (layout.END_SIGNAL, 99, "signal 99"),
        (layout.END_EXEC, 0, "exec"),
        (layout.END_STOPPED, 0, "stopped tracing"),
        (layout.END_UNKNOWN, 0, "lost (killed or crashed; not seen)"),
    ],
)
def test_ends(writer: LogWriter, tmp_path: Path, kind: int, status: int, ended: str) -> None:
    writer.process(100, end_kind=kind, end_status=status)
    assert table(writer, tmp_path)[0]["ended"] == ended


def test_running_only_if_it_is_this_very_process(tmp_path: Path) -> None:
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    own = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
    writer = LogWriter(host=os.uname().nodename, boot_id=boot)
    writer.process(os.getpid(), start_time=int(own[19]))
    writer.process(os.getpid(), start_time=int(own[19]) + 1, start=layout.START_FORK)
    assert [row["ended"][:7] for row in table(writer, tmp_path)] == ["running", "lost (k"]
    elsewhere = LogWriter(host=os.uname().nodename, boot_id="another start of this machine")
    elsewhere.process(os.getpid(), start_time=int(own[19]))
    assert table(elsewhere, tmp_path)[0]["ended"].startswith("lost")


def test_exec_goes_on_in_the_next_entry(writer: LogWriter, tmp_path: Path) -> None:
    top = writer.process(100, begin=2_000)
    writer.process(200, parent=top, start=layout.START_FORK, begin=2_100, end=2_200, end_kind=layout.END_EXEC)
    writer.process(200, start=layout.START_JOINED, ppid=100, begin=2_300, end=2_900, end_kind=layout.END_EXIT)
    rows = table(writer, tmp_path)
    assert [row["parent"] for row in rows] == [None, 0, 1]
    assert [row["ended"] for row in rows[1:]] == ["exec", "exit 0"]
    assert losses(writer, tmp_path) == {}


def test_a_spawned_child_that_joined_gets_the_end_its_parent_saw(writer: LogWriter, tmp_path: Path) -> None:
    top = writer.process(100, begin=2_000)
    writer.process(200, parent=top, start=layout.START_SPAWN, followed=0, begin=2_100, end=2_900,
                   end_kind=layout.END_SIGNAL, end_status=15)  # fmt: skip
    writer.process(200, start=layout.START_JOINED, ppid=100, begin=2_300)
    rows = table(writer, tmp_path)
    assert [(row["parent"], row["ended"], row["followed"]) for row in rows[1:]] == [
        (0, "exec", True),
        (1, "signal 15 (SIGTERM)", True),
    ]
    assert rows[2]["end"] == REAL + 1_900
    assert losses(writer, tmp_path) == {}


def test_a_number_used_again_is_another_process(writer: LogWriter, tmp_path: Path) -> None:
    top = writer.process(100, begin=2_000)
    writer.process(200, parent=top, start=layout.START_SPAWN, followed=0, begin=2_100, end=2_200,
                   end_kind=layout.END_EXIT)  # fmt: skip
    writer.process(200, start=layout.START_JOINED, ppid=100, begin=2_300)
    rows = table(writer, tmp_path)
    assert [(row["parent"], row["ended"][:6]) for row in rows[1:]] == [(0, "exit 0"), (0, "lost (")]


def test_a_spawned_program_may_enter_itself_first(writer: LogWriter, tmp_path: Path) -> None:
    # GIVEN a program that joined by itself before the one that spawned it came to note it down
    top = writer.process(100, begin=2_000)
    writer.process(200, parent=top, start=layout.START_JOINED, ppid=100, begin=2_300)
    writer.process(200, parent=top, start=layout.START_SPAWN, followed=0, begin=2_100, end=2_900,
                   end_kind=layout.END_EXIT, end_status=4, started_by=77)  # fmt: skip
    # WHEN the table is made THEN they are one program all the same
    rows = table(writer, tmp_path)
    assert [(row["parent"], row["ended"], row["followed"], row["started_by"]) for row in rows[1:]] == [
        (2, "exit 4", True, 77), (0, "exec", True, 77),
    ]  # fmt: skip
    assert losses(writer, tmp_path) == {}


def test_lines_that_processes_come_from(writer: LogWriter, tmp_path: Path) -> None:
    # GIVEN a Python that starts a shell, which forks, and the fork becomes a program
    top = writer.process(100, begin=2_000, version="3.11.7")
    thread = writer.thread(top, 100)
    stack = writer.stack((writer.code("run.py", "main"), 7))
    start = thread.record("SPAWN", begin=2_100, stack=stack)
    shell = writer.process(200, parent=top, started_by=start, begin=2_200, start=layout.START_JOINED)
    fork = writer.thread(shell, 200).record("FORK", begin=2_300)
    forked = writer.process(300, parent=shell, started_by=fork, begin=2_400, start=layout.START_FORK,
                            end_kind=layout.END_EXEC)  # fmt: skip
    writer.process(300, parent=forked, ppid=200, begin=2_500, start=layout.START_JOINED)
    # GIVEN a child whose starter is not known, one whose starter's id leads nowhere, and one whose id leads to a read
    writer.process(400, parent=top, begin=2_600, start=layout.START_JOINED)
    writer.process(500, parent=top, started_by=0xFFFFFFFF, begin=2_700, start=layout.START_FORK)
    read = thread.record("READ", begin=2_800, stack=stack)
    writer.process(600, parent=top, started_by=read, begin=2_900, start=layout.START_FORK)
    # WHEN the table is made THEN all that came of the line have it, and no others
    rows = table(writer, tmp_path)
    assert [row["site"] for row in rows] == [None, *["run.py:7:main"] * 3, None, None, None]
    assert {row["call_stack"] for row in rows if row["site"]} == {"run.py:7:main"}
    assert [row["started_by"] for row in rows[:4]] == [None, start, fork, None]


def test_children_that_were_not_followed(writer: LogWriter, tmp_path: Path) -> None:
    top = writer.process(100, begin=2_000)
    writer.process(200, argv=["gzip", "x"], parent=top, start=layout.START_SPAWN, followed=0)
    writer.process(300, argv=["python"], parent=top, start=layout.START_FORK, end_kind=layout.END_EXEC, end=2_500)
    writer.header["unfollowed"] = 1
    assert losses(writer, tmp_path) == {"unfollowed_children": [["gzip", "x"], ["python"]], "unfollowed": 2}
    assert table(writer, tmp_path)[1]["ended"] == "not followed"


def test_a_full_log(writer: LogWriter, tmp_path: Path) -> None:
    process = writer.process(100)
    writer.header["lost"], writer.header["full_since"] = 7, 5_000
    writer.header["full_reason"], writer.header["fault_count"] = layout.FULL_DISK, 1
    writer.count(process, "READ", 5, moved=50, ticks=100, errors=1)
    writer.count(0, "A_OPEN", 2)
    assert losses(writer, tmp_path) == {
        "operations_counted_only": 7, "since": REAL + 4_000, "reason": "disk full", "tracer_faults": 1,
    }  # fmt: skip
    counted = open_log(tmp_path / "run.pyio").counters().to_pylist()
    assert [(row["pid"], row["layer"], row["op"], row["calls"], row["bytes"]) for row in counted] == [
        (None, "app", "open", 2, 0),
        (100, "posix", "read", 5, 50),
    ]


def test_excluded_descriptors_are_counted(writer: LogWriter, tmp_path: Path) -> None:
    amounts = [0] * 16
    amounts[layout.DESC_KINDS.index("pipe")] = 3
    writer.process(100, excluded_ops=amounts, excluded_bytes=amounts)
    (row,) = open_log(writer.save(tmp_path / "run.pyio")).counters().to_pylist()
    assert (row["why"], row["kind"], row["calls"], row["bytes"], row["op"]) == ("excluded", "pipe", 3, 3, None)


def test_the_run(writer: LogWriter, tmp_path: Path) -> None:
    process = writer.process(100, begin=2_000, end=9_000, end_kind=layout.END_EXIT)
    writer.thread(process, 100).record("STAT", begin=3_000)
    log = open_log(writer.save(tmp_path / "run.pyio"))
    info = log.info()
    assert info["bytes_per_operation"] == info["bytes"] == len(writer.data)
    assert {key: info[key] for key in ("run", "host", "owner_pid", "start", "end", "mode", "format", "records")} == {
        "run": "0000000000001234", "host": "testhost", "owner_pid": 100, "start": REAL, "end": REAL + 8_000,
        "mode": "trace", "format": "live", "records": 1,
    }  # fmt: skip


def test_many_processes_are_read_once(writer: LogWriter, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # GIVEN a log of many processes, some of which have counted what they did
    ids = [writer.process(100 + n, begin=2_000 + n) for n in range(50)]
    for n, identity in enumerate(ids[::5]):
        writer.count(identity, "READ", n + 1, moved=10 * n)
    path = writer.save(tmp_path / "run.pyio")
    asked: list[str] = []
    structs, read = LogFile.structs, LogFile.read

    def seen_structs(file: LogFile, offsets: Any, dtype: Any) -> Any:
        asked.append(f"structs {dtype}")
        return structs(file, offsets, dtype)

    def seen_read(file: LogFile, at: int, count: int) -> bytes:
        asked.append(f"read {count}")
        return read(file, at, count)

    monkeypatch.setattr(LogFile, "structs", seen_structs)
    monkeypatch.setattr(LogFile, "read", seen_read)
    # WHEN it is summed up THEN the processes and their counters are read from the file only once
    summary = summarize(open_log(path))
    assert len([one for one in asked if one == f"structs {layout.PROCESS_ENTRY}"]) == 1
    assert len([one for one in asked if one == f"read {layout.MAX_OPS * layout.COUNTER.itemsize}"]) == len(ids)
    assert len(summary.processes) == 50 and summary.cost.time > 0
