"""Tight loops of tiny calls on file objects: most calls are not timed, but every call is counted.

Of calls that only copy memory and follow each other at once, one in 32 is timed (docs/explanation/accuracy.md).
All else is exact: counts, bytes, the time of calls with an operation beneath them, and the parents of those operations.
"""

from __future__ import annotations

from pathlib import Path

import pytest

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
