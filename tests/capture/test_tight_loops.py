"""Tight loops of tiny calls on file objects: most calls are not timed, but every call is counted.

Of calls that only copy memory and follow each other at once, one in 32 is timed (docs/explanation/accuracy.md).
All else is exact: counts, bytes, the time of calls with an operation beneath them, and the parents of those operations.
"""

from __future__ import annotations

import json
import textwrap
from pathlib import Path

import pytest

from pyio_trace import open as open_log
from tests.support.programs import Runner, succeeded

SIZE = 1_600_000

#: way -> (how it opens, its loop, operation, calls, bytes)
LOOPS = {
    "read": ("'rb'", "for n in range(100_000): f.read(16)", "BufferedReader.read", 100_000, SIZE),
    "lines": ("'r'", "for line in f: pass", "TextIOWrapper.__next__", 100_001, SIZE),
    "text": ("'r'", "while f.read(100): pass", "TextIOWrapper.read", 16_001, SIZE),
    "large buffer": ("'r', 1 << 20", "for line in f: pass", "TextIOWrapper.__next__", 100_001, SIZE),
    "write": ("'r+b'", "for n in range(100_000): f.write(b'x' * 16)", "BufferedWriter.write", 100_000, SIZE),
    "text write": ("'w'", "for n in range(100_000): f.write('y' * 16)", "TextIOWrapper.write", 100_000, SIZE),
}  # fmt: skip


@pytest.mark.parametrize("way", LOOPS)
def test_a_tight_loop(program: Runner, tmp_path: Path, way: str) -> None:
    # GIVEN 100,000 lines of 16 bytes WHEN a loop goes through them as fast as it can
    path = tmp_path / "lines"
    path.write_bytes(b"".join(b"line %010d\n" % n for n in range(100_000)))
    how, loop, op, calls, moved = LOOPS[way]
    outcome = succeeded(program.traced(f"import sys\nwith open(sys.argv[1], {how}) as f:\n    {loop}", path))
    rows = outcome.select(op=op, path=path)
    # THEN counts and bytes are exact, in rows that stand for many
    assert (sum(row["calls"] for row in rows), sum(row["bytes_moved"] for row in rows)) == (calls, moved)
    assert len(rows) < calls / 50
    # THEN each system call beneath has such a row as its parent, except the final write of close()
    beneath = [row for row in outcome.select(path=path, layer="posix") if row["op"] in ("read", "write")]
    parents = {row["id"] for row in rows}
    others = {row["id"] for row in outcome.select(path=path) if row["op"].endswith(".close")}
    assert sum(row["bytes_moved"] for row in beneath) == moved
    assert [row for row in beneath if row["parent"] not in parents | others] == []
    assert len([row for row in beneath if row["parent"] in parents]) >= len(beneath) - 1 > 0
    # THEN a row's time holds that of what is beneath it
    for row in rows:
        inside = sum(other["duration"] for other in beneath if other["parent"] == row["id"])
        assert 0 < inside <= row["duration"] or not inside


@pytest.mark.parametrize("way", LOOPS)
def test_a_tight_loop_in_sums(program: Runner, tmp_path: Path, way: str) -> None:
    # GIVEN 100,000 lines of 16 bytes WHEN two loops go through them one after the other, and only sums are kept
    path = tmp_path / "lines"
    path.write_bytes(b"".join(b"line %010d\n" % n for n in range(100_000)))
    how, loop, op, calls, moved = LOOPS[way]
    text = f"import sys\nfor again in range(2):\n    with open(sys.argv[1], {how}) as f:\n        {loop}"
    outcome = succeeded(program.traced(text, path, env={"PYIO_TRACE_MODE": "profile"}))
    # THEN one sum has all calls and bytes, and system calls beneath have it as their parent; a while loop's first call
    # may be another instruction than the rest
    rows = outcome.select(op=op, path=path)
    assert (sum(row["calls"] for row in rows), sum(row["bytes_moved"] for row in rows)) == (2 * calls, 2 * moved)
    assert len(rows) <= 2 and len({(row["call_stack"], row["parent"]) for row in rows}) == 1
    assert sum(sum(json.loads(row["detail"])["sizes"].values()) for row in rows) == 2 * calls
    beneath = [row for row in outcome.select(path=path, layer="posix") if row["op"] in ("read", "write")]
    others = {row["id"] for row in outcome.select(path=path) if row["op"].endswith(".close")}
    assert sum(row["bytes_moved"] for row in beneath) == 2 * moved
    assert {row["parent"] for row in beneath} <= {row["id"] for row in rows} | others
    assert {row["parent"] for row in beneath} & {row["id"] for row in rows}


#: Loops in which a call fails, forks, or tracing stops and begins again.
BROKEN = {
    "fails": """
        for n in range(300):
            try: f.read(16 if n % 100 != 50 else "x")
            except TypeError: pass
    """,
    "forks": """
        for n in range(300):
            f.read(16)
            if n == 150:
                if not os.fork():
                    for k in range(100): f.read(16)
                    os._exit(0)
                os.wait()
    """,
}


@pytest.mark.parametrize("way", BROKEN)
def test_a_broken_loop_in_sums(program: Runner, tmp_path: Path, way: str) -> None:
    # GIVEN a loop of tiny reads in which some fail, or a child goes on with them WHEN only sums are kept
    path = tmp_path / "lines"
    path.write_bytes(bytes(1 << 20))
    text = (
        f"import os, sys\nwith open(sys.argv[1], 'rb') as f:\n{textwrap.indent(textwrap.dedent(BROKEN[way]), '    ')}"
    )
    outcome = succeeded(program.traced(text, path, env={"PYIO_TRACE_MODE": "profile"}))
    # THEN each call is in the sum of its process
    rows = outcome.select(op="BufferedReader.read", path=path)
    if way == "fails":
        assert [(row["calls"], row["bytes_moved"]) for row in rows] == [(300, 297 * 16)]  # without an errno
    else:
        per_process = {n: sum(row["calls"] for row in rows if row["process"] == n) for n in (0, 1)}
        assert per_process == {0: 300, 1: 100}
        assert sum(row["bytes_moved"] for row in rows) == 400 * 16


def test_restarted_sums(program: Runner, tmp_path: Path) -> None:
    # GIVEN a loop of tiny reads around which tracing stops, and begins again with another log
    path = tmp_path / "lines"
    path.write_bytes(bytes(1 << 20))
    text = """\
    import sys, pyio_trace
    def read(n):
        for _ in range(n): f.read(16)
    with open(sys.argv[1], "rb") as f:
        for n in (100, 200):
            with pyio_trace.trace(f"{n}.pyio", mode="profile"): read(n)
            read(1000)
    """
    # WHEN only sums are kept THEN each log has its own
    succeeded(program.bare(text, path))
    for calls in (100, 200):
        table = open_log(tmp_path / f"{calls}.pyio").operations().to_pylist()
        rows = [row for row in table if row["op"] == "BufferedReader.read"]
        assert (sum(row["calls"] for row in rows), sum(row["bytes_moved"] for row in rows)) == (calls, calls * 16)


def test_a_wait_in_a_tight_loop_is_in_the_sum(program: Runner) -> None:
    # GIVEN a FIFO whose writer pauses for 50 ms after each 20,000 lines, once the reader waits for more
    text = """\
    import os, threading, time
    from waiting import wait_for_reader
    os.mkfifo("fifo")
    main = threading.get_native_id()
    def write():
        with open("fifo", "wb", buffering=0) as out:
            for n in range(5):
                out.write(b"0123456\\n" * 20_000)
                wait_for_reader(main)
                time.sleep(0.05)  # the wait that is traced
    writer = threading.Thread(target=write); writer.start()
    lines, start = 0, time.monotonic_ns()
    with open("fifo") as file:
        while file.readline(): lines += 1
    print(lines, time.monotonic_ns() - start)
    writer.join()
    """
    program.write_waiting()
    # WHEN its lines are read as fast as they come
    outcome = succeeded(program.traced(text, env={"PYIO_TRACE_INCLUDE": "pipes"}))
    lines, elapsed = map(int, outcome.stdout.split())
    rows = outcome.select(op="TextIOWrapper.readline")
    waited = sum(row["duration"] for row in outcome.select(op="read", path=program.folder / "fifo"))
    # THEN no call is lost, and the rows hold the time of the calls that waited
    assert sum(row["calls"] for row in rows) == lines + 1 == 100_001
    assert 5 * 50_000_000 <= waited < sum(row["duration"] for row in rows)
    # THEN no call that waited stands for others: an untimed one adds at most 1 us (TIGHT_US in file_call.c) to the sum,
    # and all timed calls together took no longer than the loop
    assert sum(row["duration"] for row in rows) <= elapsed + 1_000 * lines


#: The first call of a while loop is another instruction than the rest, those of a for loop are one.
ENDED = ["while file.read(10): pass", "for _ in range(100 * n + 101): file.read(10)"]


@pytest.mark.parametrize("loop", ENDED)
def test_a_file_object_at_the_address_of_another(program: Runner, tmp_path: Path, loop: str) -> None:
    # GIVEN files that are opened one after the other at one place, by one line, some by a descriptor that stays open
    text = f"""\
    import io, os
    for n in range(50):
        with open(f"file{{n}}", "wb") as file: file.write(b"x" * 1000 * (n + 1))
    where = set()
    for n in range(50):
        fd = os.open(f"file{{n}}", os.O_RDONLY)
        file = open(fd, "rb", closefd=n % 2 == 0)
        where.add(id(file))
        {loop}
        del file
    print(len(where))
    """
    # WHEN each is read in a tight loop THEN each has its own rows
    outcome = succeeded(program.traced(text))
    assert int(outcome.stdout) < 50
    for n in range(50):
        rows = outcome.select(op="BufferedReader.read", path=tmp_path / f"file{n}")
        assert sum(row["bytes_moved"] for row in rows) == 1000 * (n + 1)
        assert sum(row["calls"] for row in rows) == 100 * (n + 1) + 1


def test_files_used_by_turns(program: Runner, tmp_path: Path) -> None:
    # GIVEN pairs of file objects, at any addresses, one read and one written in a tight loop
    text = """\
    kept = []
    for n in range(20):
        with open(f"in{n}", "wb") as file: file.write(b"line\\n" * 1000)
        source, target = open(f"in{n}"), open(f"out{n}", "wb")
        kept += [source, target]
        for line in source: target.write(b"x" * 10)
        target.close()
    """
    # WHEN it is traced THEN neither ends the other's run
    outcome = succeeded(program.traced(text))
    for op, name, calls in (("TextIOWrapper.__next__", "in", 1001), ("BufferedWriter.write", "out", 1000)):
        for n in range(20):
            rows = outcome.select(op=op, path=tmp_path / f"{name}{n}")
            assert sum(row["calls"] for row in rows) == calls
            assert len(rows) < 20


def test_a_signal_handler_in_a_tight_loop(program: Runner, tmp_path: Path) -> None:
    # GIVEN a timer whose handler writes, in Python, in the middle of a loop of reads WHEN it runs
    text = """\
    import os, signal
    done = 0
    out = os.open("ticks", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    def tick(number, frame):
        global done
        done += 1
        os.write(out, b"tick")
    signal.signal(signal.SIGALRM, tick)
    with open("data", "wb") as file: file.write(b"x" * 8_000_000)
    signal.setitimer(signal.ITIMER_REAL, 0.001, 0.001)
    with open("data", "rb") as file:
        reads = 0
        while file.read(16): reads += 1
    signal.setitimer(signal.ITIMER_REAL, 0)
    print(reads, done)
    """
    outcome = succeeded(program.traced(text))
    reads, done = map(int, outcome.stdout.split())
    # THEN all reads and writes are there, and no write is counted as part of a read
    rows = outcome.select(op="BufferedReader.read", path=tmp_path / "data")
    writes = outcome.select(op="write", path=tmp_path / "ticks")
    assert sum(row["calls"] for row in rows) == reads + 1 == 500_001
    assert len(writes) == done > 0
    assert not {row["parent"] for row in writes} & {row["id"] for row in rows}
