"""Figures of small logs made by hand for one question each: how long, how much, whose, and in which order."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from pyio_trace.analysis.summary.summarize import summarize
from pyio_trace.analysis.tables.run_sums import run_sums
from pyio_trace.analysis.tables.sums_tables import by_file, by_stack
from pyio_trace.join.sources.facade import Log
from pyio_trace.join.sources.opening import open_log
from pyio_trace.log import layout
from tests.support.logwriter import LogWriter, Thread


@pytest.fixture
def writer() -> LogWriter:
    return LogWriter()


def opened(writer: LogWriter, tmp_path: Path) -> Log:
    return open_log(writer.save(tmp_path / "run.pyio"))


def pread(thread: Thread, begin: int, duration: int, desc: int, size: int = 1, offset: int = 0, **fields: int) -> int:
    return thread.record(
        "PREAD", begin=begin, duration=duration, desc=desc, aux=3, offset=offset, size=size, result=size, **fields
    )


# ---- time


def test_threads_that_wait_at_once_wait_once(writer: LogWriter, tmp_path: Path) -> None:
    # GIVEN reads of two threads of one process, 2,000..3,000 and 2,400..3,400, and one of no duration at 5,000
    process = writer.process(100, begin=1_000, end=11_000, end_kind=layout.END_EXIT)
    desc = writer.desc(3, "/d/x", dev=1, ino=1)
    pread(writer.thread(process, 100), 2_000, 1_000, desc)
    second = writer.thread(process, 101)
    pread(second, 2_400, 1_000, desc)
    pread(second, 5_000, 0, desc)
    # WHEN they are summed up THEN the union is 1,400 of the 10,000 ns that the process lived, the sum 2,000
    summary = summarize(opened(writer, tmp_path))
    assert (summary.time.busy, summary.time.wall, summary.time.share) == (1_400, 10_000, 0.14)
    [layer] = summary.layers
    assert (layer.count, layer.busy, layer.time) == (3, 1_400, 2_000)
    [operation] = summary.operations
    assert (operation.count, operation.time, operation.moved) == (3, 2_000, 3)


def test_processes_that_wait_at_once_wait_each(writer: LogWriter, tmp_path: Path) -> None:
    # GIVEN the same 1,000 ns in two processes, of 5,000 and 15,000 ns
    for pid, end in ((100, 6_000), (200, 16_000)):
        process = writer.process(pid, begin=1_000, end=end, end_kind=layout.END_EXIT)
        pread(writer.thread(process, pid), 2_000, 1_000, writer.desc(3, "/d/x", dev=1, ino=1))
    # THEN times are sums over processes, and the run lasts from its first begin to its last end
    summary = summarize(opened(writer, tmp_path))
    assert (summary.time.busy, summary.time.wall, summary.time.share) == (2_000, 20_000, 0.1)
    assert [(one.busy, one.wall, one.share) for one in summary.processes] == [
        (1_000, 5_000, 0.2),
        (1_000, 15_000, 1 / 15),
    ]
    assert summary.run.wall == 15_000


def test_a_call_within_a_call_is_paid_for_once(writer: LogWriter, tmp_path: Path) -> None:
    # GIVEN a read of 50 bytes by the application, 1,000 ns, in which two of POSIX move 64 bytes in 300 ns each
    process = writer.process(100, begin=1_000, end=3_000, end_kind=layout.END_EXIT)
    thread, desc = writer.thread(process, 100), writer.desc(3, "/d/x", dev=1, ino=1)
    outer = thread.record("A_BUF_READ", begin=1_500, duration=1_000, desc=desc, size=50, result=50)
    for n in range(2):
        pread(thread, 1_600 + 400 * n, 300, desc, 64, 64 * n, parent=outer, link=1)
    summary = summarize(opened(writer, tmp_path))
    # THEN the file's time is the outer call's, its transfers are those of POSIX, and 128 bytes for 50 are 2.56
    [file] = summary.files
    assert (file.time, file.reads, file.read) == (1_000, 2, 128)
    assert (summary.bytes.asked_read, summary.bytes.below_read, summary.bytes.distinct_read) == (50, 128, 128)
    assert summary.bytes.read_amplification == 2.56
    assert summary.time.busy == 1_000


def test_a_user_span_is_no_io(writer: LogWriter, tmp_path: Path) -> None:
    process = writer.process(100, begin=1_000, end=3_000, end_kind=layout.END_EXIT)
    writer.thread(process, 100).record("SPAN_USER", begin=1_000, duration=2_000, aux=writer.string("epoch"))
    summary = summarize(opened(writer, tmp_path))
    assert (summary.time.busy, summary.operations, summary.files, summary.sites) == (0, [], [], [])
    assert [(one.layer, one.count, one.busy, one.time) for one in summary.layers] == [("user", 1, 2_000, 2_000)]


@pytest.mark.parametrize(
    ("fields", "wall", "wall_is"),
    [
        # seen by the process itself: 1,000 to 9,000
        ({"end": 9_000, "end_kind": layout.END_EXIT}, 8_000, ""),
        # not seen at all: to its last operation, 2,000 + 500
        ({}, 1_500, "at least"),
    ],
)
def test_how_long_a_process_lived(
    writer: LogWriter, tmp_path: Path, fields: dict[str, int], wall: int, wall_is: str
) -> None:
    process = writer.process(100, begin=1_000, **fields)
    pread(writer.thread(process, 100), 2_000, 500, writer.desc(3, "/d/x", dev=1, ino=1))
    [one] = summarize(opened(writer, tmp_path)).processes
    # who reads a log now finds the process gone, which is a bound from above; so only what is said is compared
    if one.wall_is != "at most":
        assert (one.wall, one.wall_is) == (wall, wall_is)
    else:
        assert wall_is and one.wall >= wall


# ---- files, lines, operations, errors


def test_ties_keep_the_order_of_the_log_and_the_top_is_cut(writer: LogWriter, tmp_path: Path) -> None:
    # GIVEN twelve files with one read each, of 10 ns all but the last, of 20
    process = writer.process(100, begin=1_000, end=9_000, end_kind=layout.END_EXIT)
    thread = writer.thread(process, 100)
    for n in range(12):
        pread(thread, 2_000 + 100 * n, 20 if n == 11 else 10, writer.desc(3, f"/d/{n:02}", dev=1, ino=n + 1))
    # WHEN the three largest are asked for THEN the longest is first, of those alike any two, and all are counted
    log = opened(writer, tmp_path)
    summary = summarize(log, top=3)
    assert summary.files[0].path == "/d/11" and [file.time for file in summary.files] == [20, 10, 10]
    assert (len(summary.files), summary.files_count) == (3, 12)
    # THEN the table has them all, the longest first
    assert [row["time"] for row in by_file(log).to_pylist()] == [20] + 11 * [10]


def test_failed_calls_by_kind_and_error(writer: LogWriter, tmp_path: Path) -> None:
    # GIVEN two stats without a file, one without permission, an open without a file, and one that went well
    process = writer.process(100, begin=1_000, end=9_000, end_kind=layout.END_EXIT)
    thread, name = writer.thread(process, 100), writer.string("/d/none")
    for n, (op, number) in enumerate((("STAT", 2), ("STAT", 2), ("STAT", 13), ("OPENAT", 2), ("STAT", None))):
        thread.record(
            op, begin=2_000 + 100 * n, desc=name, errno=number, **({"aux": os.O_RDONLY} if op == "OPENAT" else {})
        )
    summary = summarize(opened(writer, tmp_path))
    # THEN the most frequent is first, then by name and number
    assert [(one.op, one.name, one.count) for one in summary.errors] == [
        ("stat", "ENOENT", 2), ("openat", "ENOENT", 1), ("stat", "EACCES", 1),
    ]  # fmt: skip
    assert summary.failed_count == 4
    assert {one.op: (one.count, one.errors) for one in summary.operations} == {"stat": (4, 3), "openat": (1, 1)}
    assert errno.errorcode[2] == "ENOENT"


def test_an_error_without_a_name_has_its_number(writer: LogWriter, tmp_path: Path) -> None:
    process = writer.process(100, begin=1_000, end=9_000, end_kind=layout.END_EXIT)
    writer.thread(process, 100).record("STAT", begin=2_000, desc=writer.string("/d"), errno=4_000)
    [one] = summarize(opened(writer, tmp_path)).errors
    assert (one.errno, one.name) == (4_000, "4000")


def test_failed_transfers_have_no_size(writer: LogWriter, tmp_path: Path) -> None:
    # GIVEN a read of 100 bytes that failed, one at the end of the file, and one of 5,000 bytes
    process = writer.process(100, begin=1_000, end=9_000, end_kind=layout.END_EXIT)
    thread, desc = writer.thread(process, 100), writer.desc(3, "/d/x", dev=1, ino=1)
    thread.record("PREAD", begin=2_000, desc=desc, aux=3, offset=0, size=100, errno=errno.EIO)
    thread.record("PREAD", begin=2_100, desc=desc, aux=3, offset=5_000, size=100, result=0)
    pread(thread, 2_200, 10, desc, 5_000)
    summary = summarize(opened(writer, tmp_path))
    assert {label: count for label, count in summary.reads.bins if count} == {"0-100": 1, "1K-10K": 1}
    assert (summary.reads.common, summary.bytes.distinct) == ([(5_000, 1), (0, 1)], 5_000)
    [file] = summary.files
    assert (file.reads, file.read) == (3, 5_000)


def test_a_file_has_its_name_whatever_used_it_last(writer: LogWriter, tmp_path: Path) -> None:
    # GIVEN a file that is read by name, and then through a descriptor without a name in the log
    thread = writer.thread(writer.process(100), 100)
    pread(thread, 2_000, 10, writer.desc(3, "/d/x", kind=1, dev=1, ino=1))
    pread(thread, 3_000, 10, writer.desc(4, 0, kind=1, dev=1, ino=1))
    # WHEN calls are summed by file THEN it is one file with that name
    [file] = by_file(opened(writer, tmp_path)).to_pylist()
    assert (file["path"], file["reads"]) == ("/d/x", 2)


def test_imports_that_are_only_counted_are_no_descriptors_left_out(writer: LogWriter, tmp_path: Path) -> None:
    # GIVEN counts of imports and of pipes WHEN they are summed THEN only the pipes count as left out
    amounts = [0] * 16
    amounts[layout.DESC_KINDS.index("pipe")], amounts[layout.DESC_KINDS.index("import")] = 3, 5
    writer.process(100, excluded_ops=amounts, excluded_bytes=amounts)
    assert summarize(opened(writer, tmp_path)).unseen.excluded == {"pipe": (3, 3)}


def test_a_file_that_was_renamed_twice_has_its_last_name(writer: LogWriter, tmp_path: Path) -> None:
    # GIVEN a file that is renamed twice after a read; the name in between belonged to another file before
    thread = writer.thread(writer.process(100), 100)
    second, first, third = (writer.string(f"/d/{name}") for name in ("second", "first", "third"))
    pread(thread, 1_500, 20, writer.desc(3, second, kind=1, dev=1, ino=9))
    thread.record("UNLINK", begin=1_600, desc=second)
    pread(thread, 2_000, 10, writer.desc(3, first, kind=1, dev=1, ino=1))
    thread.record("RENAME", begin=3_000, desc=first, aux=second)
    thread.record("RENAME", begin=4_000, desc=second, aux=third)
    # WHEN calls are summed by file THEN the renamed file appears under its last name
    files = by_file(opened(writer, tmp_path)).to_pylist()
    assert {file["path"] for file in files if file["reads"]} == {"/d/second", "/d/third"}


def test_the_last_call_of_a_killed_process_does_not_last_until_the_log_is_read(tmp_path: Path) -> None:
    # GIVEN a process that vanished at an unknown time during a read, and another that ended at 9,000
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    writer = LogWriter(host=os.uname().nodename, boot_id=boot)
    process = writer.process(os.getpid(), start_time=1, begin=1_000)  # another process has this pid by now
    desc = writer.desc(3, "/d/x", kind=1, dev=1, ino=1)
    writer.thread(process, 100).record("PREAD", begin=2_000, state=layout.BEGUN, desc=desc, aux=3, offset=0, size=10)
    writer.process(200, begin=1_000, end=9_000, end_kind=layout.END_EXIT)
    # WHEN they are summed THEN the read lasts until the latest time in the log
    log = opened(writer, tmp_path)
    assert log.processes()["end_by"].to_pylist() == [None, "itself"]
    [operation] = summarize(log).operations
    assert operation.time == 7_000
    assert run_sums(log).wall == 8_000


def test_twenty_of_the_calls_in_flight_are_named(writer: LogWriter, tmp_path: Path) -> None:
    process = writer.process(100, begin=1_000, end=9_000, end_kind=layout.END_SIGNAL, end_status=9)
    thread, desc = writer.thread(process, 100), writer.desc(3, "/d/x", kind=1, dev=1, ino=1)
    for n in range(25):
        thread.record("READ", begin=2_000 + n, state=layout.BEGUN, desc=desc, aux=3, size=10)
    summary = summarize(opened(writer, tmp_path))
    assert (summary.in_flight_count, len(summary.in_flight)) == (25, 20)
    # since the start of the run, which is the first begin
    assert [one.time for one in summary.in_flight[:2]] == [1_000, 1_001]
    # each of them lasts to the end of its process; the union is from the first begin to there
    assert summary.time.busy == 7_000


# ---- tables


def test_a_table_by_stack_of_lines_alike(writer: LogWriter, tmp_path: Path) -> None:
    # GIVEN one line that is reached in two ways, 10 ns each, and a read without a stack, 30 ns
    process = writer.process(100, begin=1_000, end=9_000, end_kind=layout.END_EXIT)
    thread, desc = writer.thread(process, 100), writer.desc(3, "/d/x", dev=1, ino=1)
    line, one, two = writer.code("/p.py", "f"), writer.code("/p.py", "a"), writer.code("/p.py", "b")
    pread(thread, 2_000, 10, desc, stack=writer.stack((line, 5), (one, 1)))
    pread(thread, 3_000, 10, desc, stack=writer.stack((line, 5), (two, 2)))
    pread(thread, 4_000, 30, desc)
    log = opened(writer, tmp_path)
    # THEN the table has three rows, and the summary one line for both
    rows = by_stack(log).to_pylist()
    assert [(row["site"], row["time"], row["calls"], row["read"]) for row in rows] == [
        (None, 30, 1, 1), ("/p.py:5:f", 10, 1, 1), ("/p.py:5:f", 10, 1, 1),
    ]  # fmt: skip
    [site] = summarize(log).sites
    assert (site.site, site.count, site.time, site.read) == ("/p.py:5:f", 2, 20, 2)


def test_rows_that_stand_for_many_calls(writer: LogWriter, tmp_path: Path) -> None:
    # GIVEN 500 lines in one row, 2,000 ns of calls within 8,000 ns of the clock
    process = writer.process(100, begin=1_000, end=21_000, end_kind=layout.END_EXIT)
    desc = writer.desc(3, "/d/x", dev=1, ino=1)
    writer.thread(process, 100).record("A_TEXT_NEXT", begin=2_000, duration=2_000, flags=layout.COALESCED, desc=desc,
                                       aux=500, offset=8_000, result=5_000)  # fmt: skip
    summary = summarize(opened(writer, tmp_path))
    # THEN there are 500 calls, and they were busy for their own time, not for the clock's
    assert (summary.run.records, summary.run.calls, summary.time.busy) == (1, 500, 2_000)
    [operation] = summary.operations
    assert (operation.count, operation.time, operation.moved) == (500, 2_000, 5_000)


# ---- spans


def test_when_any_span_was_open(writer: LogWriter, tmp_path: Path) -> None:
    # GIVEN spans of one process at 10..20 and 15..30, and of another at 40..50
    processes = [writer.process(pid, begin=1, end=100, end_kind=layout.END_EXIT) for pid in (100, 200)]
    desc = writer.desc(3, "/d/x", dev=1, ino=1)
    spans = writer.thread(processes[0], 100), writer.thread(processes[0], 101), writer.thread(processes[1], 200)
    for thread, begin, end in zip(spans, (10, 15, 40), (20, 30, 50), strict=True):
        thread.record("SPAN_USER", begin=begin, duration=end - begin, aux=writer.string("epoch"))
    # AND reads without a parent, in threads of their own
    for process, moments in zip(processes, ((9, 10, 15, 20, 29, 30, 40), (9, 39, 40, 50)), strict=True):
        thread = writer.thread(process, 300)
        for moment in moments:
            pread(thread, moment, 1, desc, size=1)
    # THEN the begin of a span is within it and its end is not, and each process has its own
    links = {link.link: link.count for link in summarize(opened(writer, tmp_path)).links}
    assert links == {"none": 5, "outside": 6}
