"""Commands, children, kinds of files, processor time and imports, from logs made by hand and from forged ones."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pyio_trace.cli.commands.processes_command import _plain
from pyio_trace.join.base.records import Completions
from pyio_trace.join.pack.packer import pack
from pyio_trace.join.processes.process_table import table_of
from pyio_trace.join.sources.facade import Log
from pyio_trace.join.sources.opening import open_log
from pyio_trace.log import layout
from tests.support.logwriter import LogWriter

ALL = 0xFFFFFFFF
MOST = 0xFFFFFFFFFFFFFFFF


@pytest.fixture
def writer() -> LogWriter:
    return LogWriter()


def _both(writer: LogWriter, folder: Path) -> list[Log]:
    """The live log and the packed one."""
    live = writer.save(folder / "run.pyio")
    pack(live, folder / "run.parquet")
    return [open_log(live), open_log(folder / "run.parquet")]


def test_commands(writer: LogWriter, tmp_path: Path) -> None:
    # GIVEN calls with commands that are known, unknown, impossible or not there
    given = [
        ("FLOCK", 6, "LOCK_EX|LOCK_NB"), ("FLOCK", 8, "LOCK_UN"), ("FLOCK", 64, "other"), ("LOCKF", 2, "F_TLOCK"),
        ("LOCKF", 0, "F_ULOCK"), ("FCNTL", 7, "F_SETLKW"), ("FCNTL", 38, "F_OFD_SETLKW"), ("FCNTL", ALL - 1, "other"),
        ("FCNTL", ALL, None), ("WAITPID", 0, None), ("WAITPID", 1, "WNOHANG"),
        ("WAITID", 0x1000005, "WNOHANG|WEXITED|WNOWAIT"), ("WAIT4", 1 << 30, "__WALL"), ("PREAD", 6, None),
    ]  # fmt: skip
    thread = writer.thread(writer.process(100), 100)
    for n, (op, number, _) in enumerate(given):
        thread.record(op, begin=2_000 + n, size=number)
    # THEN both logs have their words, and bytes of none but the read
    for log in _both(writer, tmp_path):
        rows = log.operations(["command", "bytes_requested"]).to_pylist()
        assert [row["command"] for row in rows] == [word for *_, word in given]
        assert [row["bytes_requested"] for row in rows] == [None] * (len(given) - 1) + [6]


def test_flags_of_opens(writer: LogWriter, tmp_path: Path) -> None:
    # GIVEN opens with flags that are known, not known, or all; and of file objects with a descriptor and without
    given = [
        (0, "O_RDONLY"), (os.O_WRONLY | os.O_CLOEXEC, "O_WRONLY"), (3, "O_ACCMODE"), (1 << 30, "O_RDONLY"),
        (os.O_TMPFILE | os.O_RDWR, "O_RDWR|O_TMPFILE"), (os.O_DIRECTORY, "O_RDONLY"),
        (os.O_PATH | os.O_TRUNC, "O_PATH"), (os.O_SYNC | os.O_DIRECT | os.O_RDWR, "O_RDWR|O_DIRECT|O_SYNC"),
        (0o4000000, "O_RDONLY"), (ALL, "O_PATH"),
        (ALL & ~os.O_PATH, "O_ACCMODE|O_CREAT|O_EXCL|O_TRUNC|O_APPEND|O_TMPFILE|O_DIRECT|O_SYNC"),
    ]  # fmt: skip
    thread = writer.thread(writer.process(100), 100)
    path = writer.string("/x")
    for n, (flags, _) in enumerate(given):
        thread.record("OPEN", begin=2_000 + n, desc=path, aux=flags)
    thread.record("A_OPEN", begin=3_000, desc=path, aux=os.O_RDWR, offset=writer.desc(3, "/x"))
    thread.record("A_OPEN", begin=3_001, desc=path, errno=2)
    thread.record("A_RAW_SEEK", begin=3_002, desc=path, size=1)
    # THEN both logs have their words, and none where the flags are not in the log
    for log in _both(writer, tmp_path):
        words = log.operations(["command"])["command"].to_pylist()
        assert words == [*(word for _, word in given), "O_RDWR", None, None]


def test_whence_of_seeks(writer: LogWriter, tmp_path: Path) -> None:
    # GIVEN seeks from places that exist, and from others
    given = [
        (0, "SEEK_SET"), (1, "SEEK_CUR"), (2, "SEEK_END"), (258, "SEEK_END"), (3, "SEEK_DATA"), (4, "SEEK_HOLE"),
        (5, "other"), (256, "other"), (ALL - 1, "other"), (ALL, None),
    ]  # fmt: skip
    thread = writer.thread(writer.process(100), 100)
    for op in ("LSEEK", "FSEEK"):
        for n, (whence, _) in enumerate(given):
            thread.record(op, begin=2_000 + n, size=whence)
    for log in _both(writer, tmp_path):
        assert log.operations(["command"])["command"].to_pylist() == [word for _, word in given] * 2


def test_children(writer: LogWriter, tmp_path: Path) -> None:
    # GIVEN waits for a child, for none, for one that is no number of a process, one that failed, one under way
    thread = writer.thread(writer.process(100), 100)
    thread.record("WAITPID", begin=2_000, result=4711)
    thread.record("WAITPID", begin=2_001, size=1)
    thread.record("WAIT", begin=2_002, result=ALL - 1)
    thread.record("WAITPID", begin=2_003, errno=10)
    thread.record("WAITPID", begin=2_004, state=layout.BEGUN)
    # THEN the details name the children
    for log in _both(writer, tmp_path):
        rows = log.operations(["detail", "duration", "bytes_moved"]).to_pylist()
        assert [row["detail"] for row in rows] == ['{"child": 4711}', None, f'{{"child": {ALL - 1}}}', None, None]
        assert [row["duration"] is None for row in rows] == [False] * 4 + [True]
        assert {row["bytes_moved"] for row in rows} == {None}


def test_kinds(writer: LogWriter, tmp_path: Path) -> None:
    # GIVEN descriptors of each kind, one that was never looked at, one of the same file, and forged ones
    thread = writer.thread(writer.process(100), 100)
    for n, kind in enumerate(("regular", "fifo", "device", "unknown", "path", "import")):
        number = layout.DESC_KINDS.index(kind)
        desc = writer.desc(3, f"/{kind}", kind=number, dev=n and 1, ino=n)
        thread.record("READ", begin=2_000 + n, desc=desc, aux=3, size=1, result=1)
    thread.record("READ", begin=2_100, desc=writer.desc(3, "/far", kind=ALL), aux=3, size=1, result=1)
    thread.record("OPEN", begin=2_101, desc=writer.string("/fifo"), state=layout.BEGUN)
    thread.record("STAT", begin=2_102, desc=writer.string("/elsewhere"))
    # THEN the kind is that of the descriptor, or of the file that a path leads to
    for log in _both(writer, tmp_path):
        kinds = log.operations(["file_kind"])["file_kind"].to_pylist()
        assert kinds == ["regular", "fifo", "device", None, None, None, None, "fifo", None]


def test_processor_time_of_spans(writer: LogWriter, tmp_path: Path) -> None:
    # GIVEN a span with its time, one without, one with a negative time, and a time of no span
    thread = writer.thread(writer.process(100), 100)
    name = writer.string("work")
    spans = [thread.record("SPAN_USER", begin=2_000 + n, aux=name, offset=0) for n in range(3)]
    thread.record("CPU", begin=2_000, parent=spans[0], offset=77)
    thread.record("CPU", begin=2_002, parent=spans[2], offset=-5)
    thread.record("CPU", begin=2_000, parent=ALL, offset=5)
    thread.record("READ", begin=2_010, size=1, result=1)
    # THEN the first has it, and the others are no rows
    for log in _both(writer, tmp_path):
        assert log.operations(["cpu_time"])["cpu_time"].to_pylist() == [77, None, None, None]


def test_packages(writer: LogWriter, tmp_path: Path) -> None:
    # GIVEN a process that has noted packages, one of them twice, and others whose lists are forged
    own, circle, huge, nothing = (writer.process(100 + n, version="3.11.7") for n in range(4))
    first = writer.package(own, "numpy", 30)
    writer.package(own, "numpy", 5, writer.package(own, "torch", 50, first))
    at = writer.package(circle, "a", 1)
    writer.put((at << layout.ID_SHIFT) + layout.PACKAGE.fields["previous"][1], np.array(at, "<u4"))  # type: ignore[index]
    writer.package(huge, "b", MOST, previous=ALL)
    field = layout.PROCESS_ENTRY.fields["packages"][1]  # type: ignore[index]
    writer.put((nothing << layout.ID_SHIFT) + field, np.array(writer.string("no package"), "<u4"))
    # WHEN they are read THEN times are added up, the longest first, and nothing is read twice or without end
    for log in _both(writer, tmp_path):
        rows = [(row["import_packages"], row["import_package_times"]) for row in log.processes().to_pylist()]
        assert rows[:2] == [(["torch", "numpy"], [50, 35]), (["a"], [1])]
        assert rows[2][0] == ["b"] and rows[2][1][0] > 0 and rows[3] == ([], [])


def test_a_table_without_lists() -> None:
    # GIVEN a process with packages, and one of an earlier log WHEN their lists become texts THEN each is one
    row = {"argv": ["python", "a b"], "import_packages": ["torch", "numpy"], "import_package_times": [5, 3]}
    plain = _plain(table_of([row, {"argv": []}])).to_pylist()
    assert [one["import_packages"] for one in plain] == ["torch numpy", ""]
    assert [one["import_package_times"] for one in plain] == ["5 3", ""] and plain[0]["argv"] == "python a b"


def _account(**fields: int) -> Any:
    account = np.zeros((), layout.ACCOUNT)
    for name, value in fields.items():
        account[name] = value
    return account


def test_processes(writer: LogWriter, tmp_path: Path) -> None:
    # GIVEN a process that ended, one that was killed after it had waited for a child, one that runs, and a forged one
    both = layout.ACCOUNT_BEGIN | layout.ACCOUNT_END
    writer.process(
        100, accounts=both, begin_account=_account(cpu_user=5, cpu_system=1), begin=1_000,
        end_account=_account(cpu_user=105, cpu_system=21), version="3.11.7", imports=3, import_ticks=40, watch_ticks=7,
        script_since=3_000, early_import_ticks=11, children_account=_account(cpu_user=1000),
    )  # fmt: skip
    writer.process(
        101, accounts=layout.ACCOUNT_BEGIN | layout.ACCOUNT_WAITED, children_account=_account(cpu_user=30),
        end_account=_account(cpu_user=100, cpu_system=7, storage_read=512, storage_written=4096),
    )  # fmt: skip
    writer.process(102, accounts=layout.ACCOUNT_BEGIN, end_account=_account(cpu_user=9))
    everything = dict.fromkeys(layout.ACCOUNT.names or (), MOST)
    writer.process(
        103, accounts=ALL, end_account=_account(**everything), begin_account=_account(**everything),
        children_account=_account(**everything), imports=ALL, import_ticks=MOST, script_since=MOST, version="3",
        watch_ticks=MOST, early_import_ticks=MOST,
    )  # fmt: skip
    # THEN the table has what is known of each
    for log in _both(writer, tmp_path):
        ended, killed, running, forged = log.processes().to_pylist()
        assert (ended["cpu_user"], ended["cpu_system"]) == (100, 20)
        assert (ended["imports"], ended["import_time"], ended["watch_time"]) == (3, 40, 7)
        assert (ended["script_begin"] - ended["begin"], ended["early_import_time"]) == (2_000, 10)
        assert (killed["cpu_user"], killed["cpu_system"]) == (70, 7)
        assert (killed["storage_read"], killed["storage_written"], killed["kernel_read"]) == (512, 4096, None)
        assert (killed["imports"], killed["watch_time"]) == (None, None)
        assert running["cpu_user"] is None
        assert forged["cpu_user"] == 0
        assert forged["imports"] == ALL and forged["watch_time"] > 0 and forged["early_import_time"] > 0


def test_of_several_completions_of_a_place_the_latest_counts() -> None:
    # GIVEN completions of two records that took the same place in a ring WHEN they are looked up
    records = np.zeros(2, layout.RECORD)
    records["parent"], records["begin"], records["offset"] = 9, (7, 5), (70, 50)
    completions, found = Completions(records), np.full(3, -1, np.int64)
    completions.fill(found, np.array([3, 9, 12]), np.array([7, 7, 7], np.uint64))
    # THEN the later record gets its own, and the earlier one, which was overwritten, gets none
    assert found.tolist() == [-1, 70, -1]
    gone = np.full(1, -1, np.int64)
    completions.fill(gone, np.array([9]), np.array([5], np.uint64))
    assert gone.tolist() == [-1]
