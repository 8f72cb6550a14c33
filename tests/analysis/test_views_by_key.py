"""Sums by key: against what a program says that it did."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pyio_trace.analysis.reducer import found, scan
from pyio_trace.analysis.view_sums.key_sums import ByKey, Sums, SumsTable
from pyio_trace.join.sources.opening import open_log
from tests.support.logwriter import LogWriter
from tests.support.programs import Outcome, Runner, succeeded
from tests.support.smallrun import small_run

pytestmark = pytest.mark.once

#: Two processes; the sizes say which file and which line it was.
PROGRAM = """\
import os, threading
os.makedirs("in"), os.makedirs("out")
def produce(name, size):
    fd = os.open(name, os.O_WRONLY | os.O_CREAT)
    os.write(fd, bytes(size))
    os.close(fd)
def consume(name, size):
    fd = os.open(name, os.O_RDONLY)
    for _ in range(3): os.pread(fd, size, 0)
    os.close(fd)
for n in range(4): produce(f"in/part{n}.bin", 1000)
thread = threading.Thread(target=consume, args=("in/part0.bin", 10))
thread.start(), thread.join()
if os.fork() == 0:
    consume("in/part1.bin", 100)
    os._exit(0)
os.wait()
produce("out/whole.bin", 7)
try: os.stat("out/none")
except FileNotFoundError: pass
"""


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Outcome:
    return succeeded(Runner(tmp_path_factory.mktemp("views")).traced(PROGRAM))


def view(outcome: Outcome, name: str, **options: Any) -> SumsTable:
    (table,) = scan(outcome.log, [found()[name](**options)])
    assert isinstance(table, SumsTable) and table.dropped == 0
    return table


def rows(outcome: Outcome, name: str) -> dict[str, Sums]:
    return {row.key: row for row in view(outcome, name).rows}


def amounts(row: Sums) -> tuple[int, ...]:
    return row.opens, row.reads, row.writes, row.read_bytes, row.written_bytes, row.errors


def test_by_file_folder_and_pattern(run: Outcome) -> None:
    folder = str(run.path.parent)
    files = rows(run, "by_file")
    assert amounts(files[f"{folder}/in/part0.bin"]) == (2, 3, 1, 30, 1000, 0)
    assert amounts(files[f"{folder}/in/part1.bin"]) == (2, 3, 1, 300, 1000, 0)
    assert amounts(files[f"{folder}/in/part2.bin"]) == (1, 0, 1, 0, 1000, 0)
    assert amounts(files[f"{folder}/out/none"]) == (0, 0, 0, 0, 0, 1)
    assert amounts(rows(run, "by_folder")[f"{folder}/in/"]) == (6, 6, 4, 330, 4000, 0)
    assert amounts(rows(run, "by_pattern")[f"{folder}/in/part*.bin"]) == (6, 6, 4, 330, 4000, 0)


def test_by_line_and_stack(run: Outcome) -> None:
    lines = {key.rsplit(":", 2)[1]: row for key, row in rows(run, "by_line").items() if "program.py" in key}
    assert amounts(lines["5"]) == (0, 0, 5, 0, 4007, 0)
    assert amounts(lines["9"]) == (0, 6, 0, 330, 0, 0)
    stacks = {key: row for key, row in rows(run, "by_stack").items() if key.endswith(":9:consume")}
    assert sorted(row.read_bytes for row in stacks.values()) == [30, 300]


def test_by_process_thread_and_kind(run: Outcome) -> None:
    first, second = run.log.processes()["pid"].to_pylist()
    processes = rows(run, "by_process")
    assert processes[f"program.py (forked) ({second})"].read_bytes == 300
    threads = {key: row.read_bytes for key, row in rows(run, "by_thread").items() if row.read_bytes in (30, 300)}
    assert sorted(threads.values()) == [30, 300]
    assert any(key.startswith(f"program.py ({first}), thread ") for key in threads)
    assert rows(run, "by_kind")["program.py (forked)"].opens == 1
    assert view(run, "by_worker").rows == []
    assert list(rows(run, "by_rank")) == ["(no rank)"]


def test_by_layer_and_operation(run: Outcome) -> None:
    assert rows(run, "by_layer")["posix"].written_bytes == rows(run, "totals")["all"].written_bytes >= 4007
    assert (rows(run, "by_op")["posix pread"].reads, rows(run, "by_op")["posix pread"].read_bytes) == (6, 330)


#: by_worker is only of workers.
@pytest.mark.parametrize(
    "name", [name for name, one in found().items() if issubclass(one, ByKey) and "worker" not in name]
)
def test_every_view_adds_up_to_the_totals(run: Outcome, name: str) -> None:
    (table,) = scan(run.log, [found()[name]()])
    (totals,) = view(run, "totals").rows
    of_files = name in ("by_file", "by_folder", "by_pattern")
    for field in ("read_bytes", "written_bytes", "opens", "errors", *([] if of_files else ["time_ns", "io_ns"])):
        assert sum(getattr(row, field) for row in table.rows) == getattr(totals, field), field


def test_worked_out_on_paper(tmp_path: Path) -> None:
    # GIVEN the run made by hand WHEN it is summed THEN requests, calls and times are those of its comments
    (table,) = scan(open_log(small_run(tmp_path / "run.pyio")), [found()["totals"]()])
    (row,) = table.rows
    # outermost: open 1,000, request 10,000, posix 5,000, 20,000 and 2,000, lines 50,000, thread 15,000, child 1,000
    assert row.time_ns == 104_000
    assert row.io_ns == 1_000 + 6_000 + 5_000 + 20_000 + 2_000 + 9_000 + 15_000 + 1_000
    assert (row.requests, row.asked_read_bytes) == (1_001, 30_100)
    assert (row.opens, row.reads, row.writes, row.errors, row.waits) == (1, 6, 1, 1, 1)  # the wait is a read
    assert (row.read_bytes, row.written_bytes) == (8_192 + 8_192 + 30_000 + 500 + 4_096, 1_000)


def test_rows_beyond_the_limit_are_counted(run: Outcome) -> None:
    whole, first = view(run, "by_file"), view(run, "by_file", top=2)
    assert first.rows == whole.rows[:2] and first.more == len(whole.rows) - 2


def test_what_does_not_fit_into_memory_is_counted(run: Outcome) -> None:
    (table,) = scan(run.log, [found()["by_file"](most=4)])
    # those with the most time stay, which are not always the same; files without a name are one row
    assert table.dropped > 0 and 1 <= len(table.rows) <= 2


def test_forged_values_do_no_harm(tmp_path: Path) -> None:
    writer = LogWriter()
    process = writer.process(100, argv=["python"], begin=0, end=10)
    thread = writer.thread(process, 100)
    desc = writer.desc(3, "/d/in.bin", kind=1, dev=1, ino=11)
    thread.record("PREAD", begin=1, desc=desc, aux=3, offset=0, size=1, result=1)
    for value in ((1 << 63) - 1, (1 << 62), 5):
        thread.record("PREAD", begin=(1 << 64) - 1, duration=1 << 40, desc=desc, aux=3, offset=value, size=value,
                      result=value)  # fmt: skip
    log = open_log(writer.save(tmp_path / "run.pyio"))
    for name, view in found().items():
        (result,) = scan(log, [view()])
        assert result is not None, name
        json.dumps(str(result))
