"""Lines and files of the overview, from logs by hand: what a call is follows from its row, not from its name."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from pyio_trace.analysis.reducer import scan
from pyio_trace.analysis.reducers.by_span import BySpan
from pyio_trace.analysis.reducers.tasks import TasksOfRun
from pyio_trace.analysis.results.overview_figures import Overview
from pyio_trace.analysis.summary import detail_rows
from pyio_trace.analysis.summary.summarize import summarize
from pyio_trace.join.sources.facade import Log
from pyio_trace.join.sources.opening import open_log
from pyio_trace.log import layout
from tests.support.logwriter import LogWriter
from tests.support.programs import Runner, succeeded

SITE = "/w/run.py:{}:main"


@pytest.fixture
def writer() -> LogWriter:
    return LogWriter()


def overview_of(log: Log) -> Overview:
    found = summarize(log).overview
    assert found is not None
    return found


def test_a_fifo_makes_no_waits_of_other_reads(writer: LogWriter, tmp_path: Path) -> None:
    # GIVEN line 10, which reads from a file, and line 20, which then waits for a FIFO in a call of the same name
    thread = writer.thread(writer.process(100, argv=["python", "run.py"], begin=1_000, end=1_000_000), 100)
    data, fifo = (writer.desc(n, path, kind=kind, dev=1, ino=n) for n, path, kind in ((3, "/d/x", 1), (4, "/d/f", 3)))
    code = writer.code("/w/run.py", "main")
    for number in range(3):
        thread.record(
            "READ", begin=10_000 + 1_000 * number, duration=500, desc=data, stack=writer.stack((code, 10)), result=7
        )
    thread.record("READ", begin=20_000, duration=90_000, desc=fifo, stack=writer.stack((code, 20)), result=1)
    # WHEN it is summed up
    overview = overview_of(open_log(writer.save(tmp_path / "run.pyio")))
    # THEN each line is what its calls are
    lines = {one.line: (one.kind, one.count, one.time_ns, one.leaf_ns, one.pattern) for one in overview.lines}
    assert lines == {
        SITE.format(10): ("request", 3, 1_500, 1_500, "/d/x"),
        SITE.format(20): ("wait", 1, 90_000, 0, None),
    }
    # AND the FIFO takes no time of I/O
    files = {one.pattern: (one.read, one.time_ns) for one in overview.files}
    assert files == {"/d/x": (21, 1_500), "/d/f": (1, 0)}


@pytest.mark.parametrize(("first", "others"), [(300, 3), (900, 0)])
def test_files_beside_the_one_that_is_named(writer: LogWriter, tmp_path: Path, first: int, others: int) -> None:
    # GIVEN a line that spends 300 or 900 ns reading one file, and 200 ns on each of three others
    thread = writer.thread(writer.process(100, argv=["python", "run.py"], begin=1_000, end=1_000_000), 100)
    stack = writer.stack((writer.code("/w/run.py", "main"), 10))
    for number, took in enumerate((first, 200, 200, 200)):
        desc = writer.desc(3 + number, f"/d/{'abcd'[number]}", kind=1, dev=1, ino=number)
        thread.record("READ", begin=10_000 + 1_000 * number, duration=took, desc=desc, stack=stack, result=7)
    (line,) = overview_of(open_log(writer.save(tmp_path / "run.pyio"))).lines
    # THEN the first is named, and the others are counted if they took more time together
    assert (line.pattern, line.files, line.other_files) == ("/d/a", 1, others)


@pytest.mark.parametrize(("took", "named"), [(20, "/d/a.nc"), (900, "/d/out.txt")])
def test_a_library_that_keeps_its_file_in_memory(writer: LogWriter, tmp_path: Path, took: int, named: str) -> None:
    # GIVEN a line that reads from a library's memory for 9,000 ns, and prints for 20 or for 900 ns
    thread = writer.thread(writer.process(100, argv=["python", "run.py"], begin=1_000, end=1_000_000), 100)
    stack = writer.stack((writer.code("/w/run.py", "main"), 10))
    for number in range(3):
        path = writer.string("/d/a.nc")
        thread.record("H5D_READ", begin=10_000 + 5_000 * number, duration=3_000, desc=path, stack=stack, result=8)
    out = writer.desc(1, "/d/out.txt", kind=1, dev=1, ino=9)
    thread.record("WRITE", begin=40_000, duration=took, desc=out, stack=stack, result=3)
    (line,) = overview_of(open_log(writer.save(tmp_path / "run.pyio"))).lines
    # THEN calls say which file it works on, unless time on another one matters
    assert (line.op, line.count, line.leaf_ns) == ("H5Dread", 3, took)
    assert (line.pattern, line.files) == (named, 1)


def test_copies_read_one_file_and_write_another(writer: LogWriter, tmp_path: Path) -> None:
    # GIVEN a copy within the kernel, of 500 ns WHEN it is summed up
    thread = writer.thread(writer.process(100, argv=["python", "run.py"], begin=1_000, end=1_000_000), 100)
    source, target = (writer.desc(n, path, kind=1, dev=1, ino=n) for n, path in ((3, "/d/in"), (4, "/d/out")))
    thread.record("WRITE", begin=10_000, duration=20, desc=target, result=7)
    thread.record("SENDFILE", begin=20_000, duration=500, desc=source, aux=target, size=10, result=10, offset=0)
    overview = overview_of(open_log(writer.save(tmp_path / "run.pyio")))
    # THEN each file has its side of it
    files = {one.pattern: (one.read, one.written, one.time_ns) for one in overview.files}
    assert files == {"/d/in": (10, 0, 500), "/d/out": (0, 17, 520)}


def test_files_renamed_by_calls_that_were_not_seen(
    writer: LogWriter, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # GIVEN a file that a call beyond the hooks renamed
    thread = writer.thread(writer.process(100, argv=["python", "run.py"], begin=1_000, end=1_000_000), 100)
    thread.record("WRITE", begin=10_000, desc=writer.desc(3, "/d/x.tmp", kind=1, dev=1, ino=3), result=7)
    log = open_log(writer.save(tmp_path / "run.pyio"))
    renames = [{"file": 1, "path": "/d/x.tmp", "to": "/d/x", "how": "seen at the end"}]
    monkeypatch.setattr(log, "renames", lambda: renames)
    # WHEN it is summed up THEN it has both names
    (group,) = overview_of(log).files
    assert (group.pattern, group.renamed_to, group.files) == ("/d/x.tmp", "/d/x", 1)


def test_one_of_several_later_names_is_shown(writer: LogWriter, tmp_path: Path) -> None:
    # GIVEN eight files that were written under one name and then renamed WHEN they are summed up
    thread = writer.thread(writer.process(100, argv=["python", "run.py"], begin=1_000, end=1_000_000), 100)
    for number, name in enumerate("hgfedcba"):
        file = writer.desc(3, "/d/tmp", kind=1, dev=1, ino=10 + number)
        thread.record("WRITE", begin=10_000 + 1_000 * number, desc=file, result=7)
        later = writer.string(f"/d/{name}.pt")
        thread.record("RENAME", begin=10_500 + 1_000 * number, desc=writer.string("/d/tmp"), aux=later)
    overview = overview_of(open_log(writer.save(tmp_path / "run.pyio")))
    # THEN it is always the same name that stands for all
    (group,) = [one for one in overview.files if one.written]
    assert (group.pattern, group.renamed_to, group.files) == ("/d/tmp", "/d/a.pt", 8)


def test_tasks_beyond_those_that_are_looked_at(
    writer: LogWriter, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # GIVEN five tasks, and room for three
    thread = writer.thread(writer.process(100, argv=["python", "run.py"], begin=1_000, end=1_000_000), 100)
    name, detail = writer.string("task"), writer.string('{"prefix": "load"}')
    for number in range(5):
        thread.record("SPAN_APP_CONTAINER", begin=10_000 + 1_000 * number, duration=500, aux=name, offset=detail)
    log = open_log(writer.save(tmp_path / "run.pyio"))
    missing = "2 tasks are missing from tasks and from lines of tasks: too many to keep"
    assert missing not in summarize(log).unseen.notes
    monkeypatch.setattr(detail_rows, "MOST_TASKS", 3)
    # WHEN it is summed up THEN it says that two are missing
    summary = summarize(log)
    assert summary.overview is not None and [one.count for one in summary.overview.tasks] == [3]
    assert missing in summary.unseen.notes


def test_tasks_of_sums_count(program: Runner) -> None:
    # GIVEN a pool that runs 20 tasks, in mode profile, whose rows stand for several WHEN it is summed up
    text = """\
        import concurrent.futures, os
        if __name__ == "__main__":
            with concurrent.futures.ProcessPoolExecutor(1) as pool:
                list(pool.map(os.path.exists, ["x"] * 20))
        """
    log = succeeded(program.traced(text, env={"PYIO_TRACE_MODE": "profile"})).log
    summary = summarize(log)
    (spans, tasks) = scan(log, [BySpan(), TasksOfRun()])
    # THEN there are 20 in each view, and none is missing
    assert summary.overview is not None and [one.count for one in summary.overview.tasks] == [20]
    assert not any("missing" in note for note in summary.unseen.notes)
    assert sum(row.count for row in spans.rows) == tasks.count == 20
    assert tasks.more == 0 and 0 < len(tasks.rows) <= 20


def test_shares_are_of_the_programs_that_are_followed(writer: LogWriter, tmp_path: Path) -> None:
    # GIVEN a program that used io_uring, and a child that was not followed WHEN it is summed up
    first = writer.process(100, argv=["python", "run.py"], begin=1_000, end=1_000_000, blind=1)
    writer.process(101, argv=["gzip", "x"], begin=2_000, end=3_000, parent=first, followed=0)
    writer.thread(first, 100).record("STAT", begin=5_000)
    weaknesses = {one.slug: one.share for one in summarize(open_log(writer.save(tmp_path / "run.pyio"))).weaknesses}
    # THEN one of one program is blind in part, and one of two is missing
    assert weaknesses == {"io-uring": 1.0, "unfollowed-children": 0.5}


def test_storage_is_that_of_all_entries_of_a_program(
    writer: LogWriter, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # GIVEN a program whose entries, before and after its exec, have accounts of 5 and 7 bytes
    first = writer.process(100, argv=["python", "run.py"], begin=1_000, end=1_000_000)
    made = writer.process(101, argv=["gzip"], begin=2_000, end=3_000, parent=first, start=layout.START_FORK)
    writer.process(101, argv=["gzip"], begin=3_000, end=9_000, parent=made, start=layout.START_JOINED)
    log = open_log(writer.save(tmp_path / "run.pyio"))
    table = log.processes()
    place = table.schema.get_field_index("storage_read")
    table = table.set_column(place, "storage_read", pa.array([None, 5, 7], pa.int64()))
    monkeypatch.setattr(log, "processes", lambda: table)
    # WHEN it is summed up THEN the table of processes says the same as the overview
    summary = summarize(log)
    assert [one.storage_read for one in summary.processes] == [None, 12]
    assert summary.overview is not None
    assert [one.storage_read for one in summary.overview.processes] == [None, 12]
