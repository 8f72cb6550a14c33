"""The modes profile and ring, and switching at run time: sums are exact, memory is bounded, nothing is lost unseen."""

from __future__ import annotations

import io
import json
import os
import shutil
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Hashable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

import pyio_trace
from pyio_trace.analysis.summary.summarize import summarize
from pyio_trace.join.tables.detail_column import RANGES
from pyio_trace.report.text import print_summary
from tests.support.programs import Outcome, Row, Runner, succeeded

DETERMINISTIC = """\
import os, sys
os.makedirs("files", exist_ok=True)
for n in range(20):
    with open(f"files/{n}.txt", "w") as file:
        for line in range(n * 10):
            file.write(f"{line:04}\\n")
for n in range(20):
    with open(f"files/{n}.txt") as file:
        for line in file:
            pass
    os.stat(f"files/{n}.txt")
    try:
        os.stat(f"files/{n}.missing")
    except OSError:
        pass
fd = os.open("data.bin", os.O_CREAT | os.O_RDWR)
for size in (1, 99, 100, 101, 1024, 1025, 5000, 4096, 4096, 102400, 200000, 1 << 20, 1500000):
    os.write(fd, bytes(size))
os.lseek(fd, 0, 0)
while os.read(fd, 65536):
    pass
for n in range(50):
    os.pread(fd, 512, n * 1000 % 7000)
for n in range(50):
    os.pwrite(fd, b"x" * 512, 512 * n)
try:
    os.pread(fd, 10, -1)
except OSError:
    pass
os.rename("data.bin", "moved.bin")
if os.fork() == 0:
    for n in range(7):
        os.pread(fd, 10, n)
    os._exit(0)
os.wait()
"""

Key = tuple[Hashable, ...]


def afresh(program: Runner) -> None:
    """The folder as before DETERMINISTIC was run."""
    shutil.rmtree(program.folder / "files")
    (program.folder / "moved.bin").unlink()


def key(row: Row, table: list[Row]) -> Key:
    """What a sum is kept by, without ids."""
    chain: list[str] = []
    by_id = {other["id"]: other for other in table}
    parent = row["parent"]
    while parent is not None:
        chain.append(by_id[parent]["op"])
        parent = by_id[parent]["parent"]
    start = row["process"]
    return (start, row["layer"], row["op"], row["path"], row["call_stack"], row["errno"], tuple(chain))


def range_of(size: int) -> str:
    """Darshan's range of a size."""
    ends = (100, 1 << 10, 10 << 10, 100 << 10, 1 << 20, 4 << 20, 10 << 20, 100 << 20, 1 << 30)
    return RANGES[sum(size > end for end in ends)]


def ends_before(rows: list[Row]) -> dict[int, int]:
    """By transfer of a trace, where its process's latest transfer of the same file ended, of reads or of writes; rows:
    in the order in which they ended.  A copy's own id stands for what it read, minus that for what it wrote."""
    latest: dict[Key, int] = {}
    found: dict[int, int] = {}

    def meet(identity: int, place: Key, offset: int | None, moved: int) -> None:
        if offset is not None:
            if place in latest:
                found[identity] = latest[place]
            latest[place] = offset + moved

    for row in rows:
        if row["op"] in ("sendfile", "copy_file_range"):
            meet(row["id"], (row["process"], row["path"], False), row["file_offset"], row["bytes_moved"])
            to = json.loads(row["detail"])["to"]
            meet(-row["id"], (row["process"], to, True), row["to_file_offset"], row["bytes_moved"])
        else:
            meet(row["id"], (row["process"], row["path"], "write" in row["op"]), row["file_offset"], row["bytes_moved"])
    return found


def places(rows: list[Row], before: dict[int, int], sign: int = 1) -> dict[str, Any]:
    """What a sum says of where these rows of a trace were."""
    name = "file_offset" if sign > 0 else "to_file_offset"
    placed = [row for row in rows if row[name] is not None]
    compared = [(row[name], before[sign * row["id"]]) for row in placed if sign * row["id"] in before]
    ends = [row[name] + row["bytes_moved"] for row in placed]
    return {
        "placed": len(placed),
        "consecutive": sum(offset == end for offset, end in compared),
        "sequential": sum(offset >= end for offset, end in compared),
        "unaligned": sum(row[name] % 4096 != 0 for row in placed),
    } | ({"highest": max(ends)} if ends else {})


def statistics(rows: list[Row], before: dict[int, int]) -> dict[str, Any]:
    """What a sum says of these rows of a trace."""
    return places(rows, before) | {"sizes": dict(Counter(range_of(row["bytes_moved"]) for row in rows))}


def test_profile_has_the_sums_of_a_trace(program: Runner) -> None:
    # GIVEN a program that does the same every time WHEN it is run in both modes
    trace = succeeded(program.traced(DETERMINISTIC, log="trace.pyio"))
    afresh(program)
    profile = succeeded(program.traced(DETERMINISTIC, env={"PYIO_TRACE_MODE": "profile"}))
    whole: dict[Key, list[Row]] = {}
    for row in trace.rows:
        whole.setdefault(key(row, trace.rows), []).append(row)
    sums = {key(row, profile.rows): row for row in profile.rows}
    # THEN there is one sum for each group of the trace's rows, and it is exact
    assert len(sums) == len(profile.rows)
    assert set(sums) == set(whole)
    for of, rows in whole.items():
        found = sums[of]
        assert found["calls"] == sum(row["calls"] for row in rows), of
        assert (found["bytes_moved"] or 0) == sum(row["bytes_moved"] or 0 for row in rows), of
        if all(row["bytes_requested"] is not None for row in rows):
            assert found["bytes_requested"] == sum(row["bytes_requested"] for row in rows), of
    assert len(profile.rows) < len(trace.rows)


def test_profile_keeps_the_span_that_a_thread_was_started_in(program: Runner) -> None:
    # GIVEN a thread that is started inside a span and stat()s files WHEN the program is run in profile mode
    text = """\
        import os, threading
        import pyio_trace
        def look():
            for _ in range(5):
                os.stat("/etc")
        with pyio_trace.span("outer"):
            thread = threading.Thread(target=look)
            thread.start()
            thread.join()
        """
    profile = succeeded(program.traced(text, env={"PYIO_TRACE_MODE": "profile"}))
    # THEN the sum of its calls is in the span, linked as a thread started there
    (row,) = profile.select(op="stat", path="/etc")
    assert (row["calls"], row["link"]) == (5, "context")
    assert [one["op"] for one in profile.parents(row)] == ["outer"]


def test_profile_has_what_darshan_counts(program: Runner) -> None:
    # GIVEN the same two runs
    trace = succeeded(program.traced(DETERMINISTIC, log="trace.pyio"))
    afresh(program)
    profile = succeeded(program.traced(DETERMINISTIC, env={"PYIO_TRACE_MODE": "profile"}))
    whole: dict[Key, list[Row]] = {}
    transfers = trace.select(layer="posix", op=("read", "write", "pread", "pwrite"), errno=0)
    for row in transfers:
        whole.setdefault(key(row, trace.rows), []).append(row)
    before = ends_before(transfers)
    # THEN sequence, alignment, ranges of sizes and the farthest byte are those that the trace gives
    compared = 0
    for row in profile.select(layer="posix", op=("read", "write", "pread", "pwrite"), errno=0):
        detail = json.loads(row["detail"])
        expected = statistics(whole[key(row, profile.rows)], before)
        assert {name: detail.get(name) for name in expected} == expected, row
        compared += 1
    assert compared >= 40
    sizes = Counter(row["bytes_moved"] for row in trace.select(op="pread", path=program.folder / "data.bin", errno=0))
    found = Counter[str]()
    for row in profile.select(op="pread", path=program.folder / "data.bin", errno=0):
        found.update(json.loads(row["detail"])["common_sizes"])
    assert found == {str(size): count for size, count in sizes.items()}


BY_TURNS = """\
import os, sys, threading
open("data", "wb").write(bytes(100_000))
one, two = os.open("data", os.O_RDWR), os.open("data", os.O_RDWR)
for n in range(10):
    os.pread(one, 1000, 2000 * n)
    os.pread(two, 1000, 2000 * n + 1000)
    os.pwrite(one, b"x" * 500, 50_000 - 1000 * n)
    os.read(one, 100)
    os.write(two, b"x" * 100)
turn = threading.Condition()
now = 0
def take(part):
    global now
    for n in range(part, 40, 2):
        with turn:
            turn.wait_for(lambda: now == n)
            os.pread(one, 100, 100 * n)
            now += 1
            turn.notify_all()
threads = [threading.Thread(target=take, args=[part]) for part in range(2)]
for thread in threads: thread.start()
for thread in threads: thread.join()
out = os.open("copy", os.O_RDWR | os.O_CREAT)
for n in range(5):
    os.sendfile(out, one, 1000 * n, 1000)
    os.sendfile(out, two, None, 10)
    os.copy_file_range(one, out, 300, 7 * n, 20_000 + 300 * n)
    os.copy_file_range(two, out, 300)
    os.write(out, b"y" * 50)
if os.fork() == 0:
    os.pread(one, 100, 4000)
    os.pread(one, 100, 4100)
    os._exit(0)
os.wait()
"""


def by_thread(rows: list[Row], table: list[Row]) -> dict[Key, list[Row]]:
    """Rows by what a sum is kept by, and by their threads, which have numbers in the order in which they began."""
    threads: dict[int, int] = {}
    for row in sorted(rows, key=lambda row: row["time"]):
        threads.setdefault(row["tid"], len(threads))
    found: dict[Key, list[Row]] = {}
    for row in rows:
        found.setdefault((threads[row["tid"]], *key(row, table)), []).append(row)
    return found


def test_profile_compares_with_the_files_latest_transfer(program: Runner) -> None:
    # GIVEN lines, descriptors and threads that read and write one file in alternation, a child, and copies of it
    transfers = ("read", "write", "pread", "pwrite", "sendfile", "copy_file_range")
    trace = succeeded(program.traced(BY_TURNS, log="trace.pyio"))
    (program.folder / "copy").unlink()
    # WHEN it is summed THEN each sum counts what the model says, by file and process, reads and writes apart
    profile = succeeded(program.traced(BY_TURNS, env={"PYIO_TRACE_MODE": "profile"}))
    names = [str(program.folder / name) for name in ("data", "copy")]
    rows = trace.select(layer="posix", op=transfers, path=names, errno=0)
    rows.sort(key=lambda row: row["time"] + row["duration"])
    before, whole = ends_before(rows), by_thread(rows, trace.rows)
    sums = profile.select(layer="posix", op=transfers, path=names, errno=0)
    found = dict.fromkeys(transfers, 0)
    for of, (row,) in by_thread(sums, profile.rows).items():
        detail, group = json.loads(row["detail"]), whole.pop(of)
        found[row["op"]] += detail["consecutive"]
        expected = statistics(group, before)
        assert {name: detail.get(name) for name in expected} == expected, row
        if row["op"] in ("sendfile", "copy_file_range"):
            assert detail["output"] == places(group, before, -1), row
    assert not whole
    # THEN the second line's reads went on where the first line's had ended, the threads' where the other's had, the
    # child's second where its first had
    assert found["pread"] == 10 + 39 + 1


def test_summary_of_a_profile(program: Runner) -> None:
    # GIVEN the same two runs WHEN they are summed up THEN sizes, calls and bytes are the same
    trace = succeeded(program.traced(DETERMINISTIC, log="trace.pyio"))
    of_trace = summarize(trace.log)
    afresh(program)
    outcome = succeeded(program.traced(DETERMINISTIC, env={"PYIO_TRACE_MODE": "profile"}))
    profile = summarize(outcome.log)
    assert (profile.reads.bins, profile.writes.bins) == (of_trace.reads.bins, of_trace.writes.bins)
    # The most common sizes are known where no sum met more than four: of reads, not of writes.
    assert profile.reads.common == of_trace.reads.common
    assert of_trace.writes.common and profile.writes.common == []
    assert profile.run.calls == of_trace.run.calls
    for name in ("posix_read", "posix_written", "asked_read", "asked_written"):
        assert getattr(profile.bytes, name) == getattr(of_trace.bytes, name), name
    words = [sys.executable, "-m", "pyio_trace", "summary", outcome.path]
    told = subprocess.run(words, capture_output=True, text=True, check=True).stdout
    assert "mode profile" in " ".join(told.split())  # a long name of the log may break the line there


def used(outcome: Outcome) -> int:
    return int(outcome.log.info()["bytes"])


def test_profile_does_not_grow_with_time(program: Runner) -> None:
    # GIVEN a program that does the same again and again, opening, duplicating and reading WHEN it goes on for longer
    text = """\
    import os, sys
    open("data.bin", "wb").write(bytes(5000))
    for n in range(int(sys.argv[1])):
        with open("data.bin", "rb") as file:
            while file.read(100):
                pass
            os.close(os.dup(file.fileno()))
        os.stat("data.bin")
    """
    profile = {"PYIO_TRACE_MODE": "profile", "PYIO_TRACE_SAMPLE": "off"}  # samples sum by stack: more come in time
    sizes = [used(succeeded(program.traced(text, n, env=profile))) for n in (10, 3000)]
    # THEN the log is as large as before
    assert sizes[0] == sizes[1]


def test_profile_bytes_a_file(program: Runner) -> None:
    # GIVEN many files that are written, read and looked at, each by the same lines
    text = """\
    import os, sys
    for n in range(int(sys.argv[1])):
        name = f"file-{n:06}"
        fd = os.open(name, os.O_CREAT | os.O_RDWR)
        os.write(fd, b"x" * 100)
        os.pread(fd, 100, 0)
        os.close(fd)
        os.unlink(name)
    """
    # WHEN there are more of them THEN each takes what docs/reference/modes.md says
    few, many = (used(succeeded(program.traced(text, n, env={"PYIO_TRACE_MODE": "profile"}))) for n in (1000, 5000))
    each = 3 * 112 + 2 * 304 + 64 + 48  # open, close, unlink; write, pread; the descriptor; the name
    assert (many - few) / 4000 <= each * 1.05


def test_profile_of_threads_signals_and_forks_is_exact(program: Runner, data: Path) -> None:
    # GIVEN threads that read at once, a signal handler that writes in the middle, and forked children
    text = """\
    import os, signal, sys, threading
    fd = os.open(sys.argv[1], os.O_RDONLY)
    out = os.open("out.bin", os.O_CREAT | os.O_WRONLY)
    handled = 0
    def handler(*_):
        global handled
        handled += 1
        os.pwrite(out, b"s" * 3, 0)
    signal.signal(signal.SIGALRM, handler)
    signal.setitimer(signal.ITIMER_REAL, 0.0005, 0.0005)
    def work():
        for n in range(3000):
            os.pread(fd, 10, n % 100)
    threads = [threading.Thread(target=work) for _ in range(6)]
    for thread in threads: thread.start()
    work()
    for thread in threads: thread.join()
    signal.setitimer(signal.ITIMER_REAL, 0)
    for _ in range(3):
        if os.fork() == 0:
            work()
            os._exit(0)
        os.wait()
    print(handled)
    """
    # WHEN it is profiled THEN every one of the calls is in the sums
    outcome = succeeded(program.traced(text, data, env={"PYIO_TRACE_MODE": "profile"}))
    reads = outcome.select(op="pread", path=data)
    assert sum(row["calls"] for row in reads) == 7 * 3000 + 3 * 3000
    assert sum(row["bytes_moved"] for row in reads) == 10 * 3000 * 10
    assert Counter(row["process"] for row in reads).keys() == {0, 1, 2, 3}
    assert sum(row["calls"] for row in outcome.select(op="pwrite")) == int(outcome.stdout)
    assert outcome.log.losses() == {}


def test_profile_of_a_killed_process(program: Runner) -> None:
    # GIVEN a process that is killed while it waits in a read
    text = """\
    import os, signal, subprocess, sys
    from waiting import wait_for_reader
    os.mkfifo("fifo")
    keep = os.open("fifo", os.O_RDWR)
    pid = os.fork()
    if pid == 0:
        os.pread(os.open(__file__, os.O_RDONLY), 5, 0)
        os.read(os.open("fifo", os.O_RDONLY), 10)
    wait_for_reader(pid)
    os.kill(pid, signal.SIGKILL)
    print(pid, os.waitpid(pid, 0)[1])
    """
    program.write_waiting()
    # WHEN it is profiled THEN what it had done is there, and what it was doing
    outcome = succeeded(program.traced(text, env={"PYIO_TRACE_MODE": "profile"}))
    pid, status = outcome.stdout.split()
    assert int(status) == signal.SIGKILL
    (row,) = outcome.select(op="read", path=program.folder / "fifo", pid=int(pid))
    assert (row["duration"], row["calls"]) == (None, 1)
    assert json.loads(row["detail"])["in_flight"] == 1
    assert [row["bytes_moved"] for row in outcome.select(op="pread", pid=int(pid))] == [5]


RING = """\
import os, sys, threading
fd = os.open(sys.argv[1], os.O_RDONLY)
def work(count):
    for n in range(count):
        os.pread(fd, 1 + n % 50, n)
        if n % 1000 == 0:
            with open(sys.argv[1], "rb") as file:
                file.read(10)
threads = [threading.Thread(target=work, args=[int(sys.argv[2])]) for _ in range(3)]
for thread in threads: thread.start()
for thread in threads: thread.join()
work(3000)
"""


def test_ring_keeps_the_latest(program: Runner, data: Path) -> None:
    # GIVEN more operations than a ring of 1 MiB has room for
    env = {"PYIO_TRACE_MODE": "ring", "PYIO_TRACE_RING_SIZE": "1M"}
    outcome = succeeded(program.traced(RING, data, 60_000, env=env))
    # WHEN the program has ended THEN the log has whole rows, and all of those of the last thread, which was alone
    reads = sorted(outcome.select(op="pread", path=data), key=lambda row: row["time"])
    assert len(reads) > 10_000
    assert len(outcome.rows) * 48 <= 1 << 20
    assert all(row["bytes_moved"] == 1 + row["file_offset"] % 50 for row in reads)
    last = [row for row in reads if row["tid"] == outcome.pid]
    assert [row["file_offset"] for row in last] == list(range(3000))
    # AND it says that it overwrote others, all of which began earlier
    since = outcome.log.info()["ring_since"]
    assert outcome.log.info()["start"] < since < last[0]["time"]
    said = io.StringIO()
    print_summary(summarize(outcome.log), said, names=None)
    assert "The ring has overwritten earlier operations" in said.getvalue()
    # AND it has not grown, and its parents are there and the right ones
    assert used(outcome) < 2 << 20
    by_id = {row["id"]: row for row in outcome.rows}
    inside = [row for row in outcome.rows if row["parent"] is not None]
    assert inside
    assert {by_id[row["parent"]]["op"] for row in inside} <= {"open", "BufferedReader.read", "Buffered.close"}
    assert {row["op"] for row in inside if by_id[row["parent"]]["op"] == "Buffered.close"} == {"close"}
    assert outcome.log.losses() == {}


def test_ring_outlived_by_a_span(program: Runner, data: Path) -> None:
    # GIVEN a span that is open while the ring comes round several times
    text = """\
    import os, sys, pyio_trace
    fd = os.open(sys.argv[1], os.O_RDONLY)
    with pyio_trace.span("long"):
        for n in range(100_000):
            os.pread(fd, 1, n)
    """
    env = {"PYIO_TRACE_MODE": "ring", "PYIO_TRACE_RING_SIZE": "1M"}
    # WHEN it ends THEN it does not write over what is there now
    outcome = succeeded(program.traced(text, data, env=env))
    rows = sorted(outcome.select(op="pread"), key=lambda row: row["time"])
    assert [row["file_offset"] for row in rows] == list(range(rows[0]["file_offset"], 100_000))
    assert {row["parent"] for row in rows} == {None}
    assert {row["bytes_moved"] for row in rows} == {1}
    assert all(row["time"] + row["duration"] <= following["time"] for row, following in pairwise(rows))


def test_ring_used_by_many_processes_some_of_which_are_killed(program: Runner, data: Path) -> None:
    # GIVEN children that fill the ring in turn, and are killed in the middle
    text = """\
    import os, signal, sys
    fd = os.open(sys.argv[1], os.O_RDONLY)
    for child in range(30):
        pid = os.fork()
        if pid == 0:
            for n in range(2000):
                os.pread(fd, 5, n)
            os.kill(os.getpid(), signal.SIGKILL)
        os.waitpid(pid, 0)
    for n in range(3000):
        os.pread(fd, 7, n)
    """
    env = {"PYIO_TRACE_MODE": "ring", "PYIO_TRACE_RING_SIZE": "1M"}
    # WHEN the parent goes on THEN the chunks of the dead are used again, and the latest are all there
    outcome = succeeded(program.traced(text, data, env=env))
    mine = [row["file_offset"] for row in outcome.select(op="pread", pid=outcome.pid)]
    assert sorted(mine) == list(range(3000))
    latest = [row for row in outcome.select(op="pread") if row["pid"] != outcome.pid]
    assert latest and {row["bytes_moved"] for row in latest} == {5}


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_ring_of_processes_of_two_users(program: Runner, data: Path) -> None:
    # GIVEN a child with a half-full chunk, and a parent that has become another user and may no longer signal the child
    text = """\
    import os, sys
    fd = os.open(sys.argv[1], os.O_RDONLY)
    ready, go = os.pipe(), os.pipe()
    child = os.fork()
    if child == 0:
        os.pread(fd, 3, 0)
        os.write(ready[1], b"x")
        os.read(go[0], 1)
        for n in range(1, 5):
            os.pread(fd, 3, n)
        os._exit(0)
    os.read(ready[0], 1)
    os.setresuid(65534, 65534, 65534)
    for n in range(100_000):
        os.pread(fd, 4, n)
    os.write(go[1], b"x")
    os.waitpid(child, 0)
    print(child)
    """
    env = {"PYIO_TRACE_MODE": "ring", "PYIO_TRACE_RING_SIZE": "1M"}
    # WHEN the parent's records wrap around the ring THEN they do not overwrite the child's chunk
    outcome = succeeded(program.traced(text, data, env=env))
    made = [row for row in outcome.select(op="pread", path=data) if row["bytes_moved"] == 3]
    assert [row["file_offset"] for row in made] == [0, 1, 2, 3, 4]
    assert {row["pid"] for row in made} == {int(outcome.stdout)}


def test_dump_at_a_signal_and_from_code(program: Runner, data: Path) -> None:
    # GIVEN a ring, and a program that asks for dumps by a signal and by a call
    text = """\
    import os, signal, sys, pyio_trace
    fd = os.open(sys.argv[1], os.O_RDONLY)
    for n in range(1000):
        os.pread(fd, 3, n)
    os.kill(os.getpid(), signal.SIGUSR2)
    for n in range(100_000):
        os.pread(fd, 4, n)
    print(pyio_trace.current_run().dump())
    print(pyio_trace.current_run().dump("named.pyio"))
    """
    env = {"PYIO_TRACE_MODE": "ring", "PYIO_TRACE_RING_SIZE": "1M", "PYIO_TRACE_DUMP_SIGNAL": "USR2"}
    outcome = succeeded(program.traced(text, data, env=env))
    # WHEN they are read THEN each has what was there at its moment
    first = pyio_trace.open(program.folder / "run-dump-1.pyio")
    rows = [row for row in first.operations().to_pylist() if row["op"] == "pread" and row["path"] == str(data)]
    assert [(row["file_offset"], row["bytes_moved"]) for row in rows] == [(n, 3) for n in range(1000)]
    assert first.info()["ring_since"] is None
    second, third = outcome.stdout.split()
    assert (second, third) == (str(program.folder / "run-dump-2.pyio"), "named.pyio")
    rows = [row for row in pyio_trace.open(second).operations().to_pylist() if row["op"] == "pread"]
    assert max(row["file_offset"] for row in rows) == 99_999
    assert {row["bytes_moved"] for row in rows} == {4}


PAUSE = """\
import os, sys, pyio_trace
def numbers():
    return os.open("first.bin", os.O_CREAT | os.O_RDWR)
first = numbers()
os.write(first, b"0" * 100)
run = pyio_trace.current_run()
run.pause()
assert run.paused
os.write(first, b"p" * 50)
closed = os.open("closed.bin", os.O_CREAT | os.O_RDWR)
os.close(first)
again = os.open("second.bin", os.O_CREAT | os.O_RDWR)
assert again == first
os.write(again, b"q" * 30)
os.write(closed, b"r" * 7)
run.resume()
os.write(again, b"s" * 20)
os.write(closed, b"t" * 2)
os.lseek(closed, 0, 0)
os.read(closed, 5)
os.dup2(closed, again)
os.read(again, 3)
"""


def test_pause_and_resume(program: Runner) -> None:
    # GIVEN a program that changes its descriptors while tracing is paused WHEN it is traced
    outcome = succeeded(program.traced(PAUSE))

    def rows(op: str, name: str) -> list[tuple[int | None, int]]:
        return [(row["file_offset"], row["bytes_moved"]) for row in outcome.select(op=op, path=program.folder / name)]

    # THEN what came in between is not there but counted, and what came after has the right file and place
    assert rows("write", "first.bin") == [(0, 100)]
    assert rows("write", "second.bin") == [(30, 20)]
    assert rows("write", "closed.bin") == [(7, 2)]
    assert rows("read", "closed.bin") == [(0, 5), (5, 3)]
    counted = [row for row in outcome.log.counters().to_pylist() if row["kind"] == "paused"]
    assert [(row["calls"], row["bytes"]) for row in counted] == [(6, 87)]


def test_offsets_after_suppressed_calls(program: Runner) -> None:
    # GIVEN reads of one descriptor, some of them suppressed WHEN traced THEN the others have the right offsets
    text = """\
    import os, pyio_trace
    fd = os.open("data.bin", os.O_CREAT | os.O_RDWR)
    os.write(fd, bytes(1000))
    os.lseek(fd, 0, 0)
    for n in range(5):
        os.read(fd, 10)
        with pyio_trace.suppress():
            os.read(fd, 7)
    """
    rows = succeeded(program.traced(text)).select(op="read", path=program.folder / "data.bin")
    assert [row["file_offset"] for row in rows] == [0, 17, 34, 51, 68]


def test_offsets_after_suppressed_copies(program: Runner) -> None:
    # GIVEN reads of one descriptor and writes to another, with suppressed copies between the two in between
    text = """\
    import os, pyio_trace
    open("in.bin", "wb").write(bytes(1000))
    fd, out = os.open("in.bin", os.O_RDONLY), os.open("out.bin", os.O_CREAT | os.O_WRONLY)
    for n in range(3):
        os.read(fd, 10)
        os.write(out, b"x")
        with pyio_trace.suppress():
            os.sendfile(out, fd, None, 7)
    """
    # WHEN traced THEN reads and writes have the right offsets
    outcome = succeeded(program.traced(text))
    for op, name, offsets in (("read", "in.bin", [0, 17, 34]), ("write", "out.bin", [0, 8, 16])):
        rows = outcome.select(op=op, layer="posix", path=program.folder / name, fd=lambda fd: fd > 2)
        assert [row["file_offset"] for row in rows] == offsets


def test_switching_modes(program: Runner) -> None:
    # GIVEN a program that switches between the modes, on one descriptor
    text = """\
    import os, pyio_trace
    fd = os.open("data.bin", os.O_CREAT | os.O_RDWR)
    run = pyio_trace.current_run()
    os.write(fd, b"a" * 10)
    run.mode = "profile"
    for n in range(5):
        os.write(fd, b"b" * 100)
    run.mode = "trace"
    os.write(fd, b"c" * 1000)
    run.mode = "ring"
    os.write(fd, b"d" * 10000)
    print(run.mode)
    try:
        run.mode = "rings"
    except pyio_trace.PyioTraceError as problem:
        print(problem)
    """
    outcome = succeeded(program.traced(text))
    # WHEN it is traced THEN each stretch is recorded in its way, and places are right
    rows = sorted(outcome.select(op="write", layer="posix", path=program.folder / "data.bin"), key=lambda r: r["time"])
    assert [(row["calls"], row["bytes_moved"], row["file_offset"]) for row in rows] == [
        (1, 10, 0),
        (5, 500, None),
        (1, 1000, 510),
        (1, 10000, 1510),
    ]
    assert outcome.stdout.startswith("ring\n") and "did you mean ring?" in outcome.stdout


def test_no_run_no_switch() -> None:
    # GIVEN a process that is not traced WHEN its run is asked for THEN there is none
    assert pyio_trace.current_run() is None
    with pytest.raises(pyio_trace.PyioTraceError, match="not being traced"):
        pyio_trace.Run().pause()
    assert "PYIO_TRACE_LOG" not in os.environ


def test_ring_has_no_wrong_offsets(program: Runner) -> None:
    # GIVEN a program whose positions are the sums of more reads than the ring keeps WHEN it is traced
    outcome = succeeded(
        program.traced(
            """\
            import os
            fd = os.open("data.bin", os.O_CREAT | os.O_RDWR)
            os.write(fd, bytes(800_000))
            os.lseek(fd, 0, 0)
            for n in range(50_000):
                os.read(fd, 8)
            os.lseek(fd, 160, 0)
            os.read(fd, 9)
            again = os.open("data.bin", os.O_RDONLY)
            os.read(again, 10)
            os.read(again, 11)
            """,
            env={"PYIO_TRACE_MODE": "ring", "PYIO_TRACE_RING_SIZE": "1M"},
        )
    )
    # THEN reads whose history was overwritten have no offset; those after a surviving seek or open have theirs
    reads = outcome.select(op="read", path=program.folder / "data.bin")
    assert 1000 < len(reads) < 50_000
    assert {row["file_offset"] for row in reads if row["bytes_requested"] == 8} == {None}
    assert {row["bytes_requested"]: row["file_offset"] for row in reads if row["bytes_requested"] != 8} == {
        9: 160,
        10: 0,
        11: 10,
    }


def test_profile_takes_no_place_for_another(program: Runner) -> None:
    # GIVEN descriptors whose positions others move, that have the number of an earlier one, or were moved in a pause
    outcome = succeeded(
        program.traced(
            """\
            import os
            import pyio_trace
            run = pyio_trace.current_run()
            fd = os.open("data.bin", os.O_CREAT | os.O_RDWR)
            os.write(fd, bytes(100_000))
            first = os.open("data.bin", os.O_RDONLY)
            os.lseek(first, 5000, 0)
            os.read(first, 1)
            os.close(first)
            os.lseek(fd, 70_000, 0)
            assert os.dup(fd) == first
            os.read(first, 2)
            os.lseek(fd, 0, 0)
            os.read(first, 3)
            os.read(fd, 4)
            other = os.open("data.bin", os.O_RDONLY)
            run.pause()
            os.read(other, 1000)
            run.resume()
            os.read(other, 5)
            os.lseek(other, 10, 0)
            if os.fork() == 0:
                os.read(other, 10)
                os._exit(0)
            os.wait()
            os.read(other, 6)
            """,
            env={"PYIO_TRACE_MODE": "profile"},
        )
    )
    # WHEN sums are kept THEN only what is known has a place
    placed = {}
    for row in outcome.select(op="read", path=program.folder / "data.bin"):
        detail = json.loads(row["detail"])
        placed[row["bytes_requested"]] = (detail["placed"], detail.get("highest"))
    unknown = dict.fromkeys((2, 3, 4, 5, 6, 10), (0, None))
    assert placed == {1: (1, 5001)} | unknown
