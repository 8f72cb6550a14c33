"""Tiny calls on C streams coalesce into series: what joins a series, what ends one, and that no call is lost.

A pause of some 10 ms also ends a series, and a busy machine may pause anywhere.  So these tests check how many calls
precede each end, and the number of rows only roughly.
"""

from __future__ import annotations

from collections import Counter
from itertools import accumulate, pairwise
from pathlib import Path

from pyio_trace.analysis.summary.summarize import summarize
from pyio_trace.analysis.tables.sums_tables import by_file
from tests.support.programs import Runner, succeeded

#: libc through ctypes, with an open stream; `put` is one call of it.
OPENED = """\
import ctypes, os, sys, time
libc = ctypes.CDLL(None, use_errno=True)
libc.fopen.restype = ctypes.c_void_p
def stream(name, mode="w+"):
    return ctypes.c_void_p(libc.fopen(name.encode(), mode.encode()))
f = stream("file")
put = libc.fputc
"""


def test_the_line_of_python_ends_a_run(program: Runner, tmp_path: Path) -> None:
    # GIVEN characters written from two lines, one of them in a loop
    text = f"""{OPENED}
for n in range(1000):
    put(120, f)
put(121, f)
"""
    # WHEN they are traced THEN each line has its row
    rows = succeeded(program.traced(text)).select(op="fputc", path=tmp_path / "file")
    lines: Counter[str] = Counter()
    for row in rows:
        assert row["calls"] == row["bytes_moved"] == row["bytes_requested"]
        lines[row["site"].split(":")[1]] += row["calls"]
    assert lines == {"10": 1000, "11": 1}
    assert len(rows) < 50


def test_a_files_bytes_through_a_stream(program: Runner, tmp_path: Path) -> None:
    # GIVEN a file written and read through C streams, inside a call of a library, and a part of it with os
    text = f"""{OPENED}
import pyio_trace
with pyio_trace.span("saving"):
    for n in range(300):
        libc.fwrite(b"x" * 100, 1, 100, f)
    libc.fclose(f)
f = stream("file", "r")
buffer = ctypes.create_string_buffer(1000)
while libc.fread(buffer, 1, 1000, f): pass
libc.fclose(f)
os.pread(os.open("file", os.O_RDONLY), 50, 0)
"""
    # WHEN it is traced THEN the file's transfers are those of the streams, with what else was read of it
    outcome = succeeded(program.traced(text))
    summary = summarize(outcome.log)
    [file] = [file for file in summary.files if file.path == str(tmp_path / "file")]
    assert (file.opens, file.writes, file.written) == (3, 300, 30_000)
    assert (file.reads, file.read) == (32, 30_050)
    [row] = [row for row in by_file(outcome.log).to_pylist() if row["path"] == file.path]
    assert (row["opens"], row["written"], row["read"]) == (3, 30_000, 30_050)
    # THEN they are separate from what POSIX moved (Python itself reads its script), and the process has both
    theirs = sum(row["bytes_moved"] or 0 for row in outcome.select(layer="stdio") if row["op"] in ("fread", "fgetc"))
    assert (summary.bytes.stream_read, summary.bytes.stream_written) == (theirs, 30_000)
    assert theirs >= 30_000 and summary.bytes.posix_read >= 50 and summary.bytes.posix_written == 0
    assert [(one.read, one.written) for one in summary.processes] == [(theirs + summary.bytes.posix_read, 30_000)]


def test_what_ends_a_run(program: Runner, tmp_path: Path) -> None:
    # GIVEN pauses, seeks, flushes, large transfers, spans and errors between characters that are alike
    text = f"""{OPENED}
import pyio_trace
def letters(count):
    for n in range(count):
        put(120, f)
def inside():
    with pyio_trace.span("part"):
        letters(30)
block = ctypes.create_string_buffer(5000)
between = [
    lambda: time.sleep(0.1), lambda: libc.fseek(f, 0, 2), lambda: libc.fflush(f),
    lambda: libc.fwrite(block, 1, 5000, f), inside, lambda: libc.ftell(f), lambda: None,
]
for step in between:
    letters(10)
    step()
libc.fclose(f)
"""
    # WHEN they are traced THEN each stretch has its row; asking for the position ends none
    outcome = succeeded(program.traced(text))
    rows = outcome.select(op="fputc", path=tmp_path / "file")
    sums = list(accumulate(row["calls"] for row in rows))
    assert {10, 20, 30, 40, 50, 80, 100} <= set(sums) and sums[-1] == 100
    assert sum(row["calls"] for row in rows if row["parent"] is not None) == 30
    [block] = outcome.select(op="fwrite", path=tmp_path / "file")
    assert (block["calls"], block["bytes_moved"]) == (1, 5000)
    # THEN runs do not overlap
    flat = [row for row in rows if row["parent"] is None]
    for row, following in pairwise(flat):
        assert row["duration"] > 0 and row["time"] + row["duration"] <= following["time"]


def test_each_span_has_its_own(program: Runner, tmp_path: Path) -> None:
    # GIVEN back-to-back spans on one line, with one character written in each
    text = f"""{OPENED}
import pyio_trace
for n in range(50):
    with pyio_trace.span("part", number=n):
        put(120, f)
"""
    # WHEN they are traced THEN each write is in its own span
    outcome = succeeded(program.traced(text))
    rows = outcome.select(op="fputc", path=tmp_path / "file")
    assert [row["calls"] for row in rows] == [1] * 50
    assert len({row["parent"] for row in rows}) == 50


def test_errors_have_rows_of_their_own(program: Runner, tmp_path: Path) -> None:
    # GIVEN a run on a full device, with errors in its middle
    text = f"""{OPENED}
full = stream("/dev/full")
for n in range(10000):
    libc.fputc(120, full)
print(libc.fflush(full))
"""
    # WHEN it is traced THEN calls that failed are not among those that did not
    outcome = succeeded(program.traced(text, env={"PYIO_TRACE_INCLUDE": "dev"}))
    rows = outcome.select(op="fputc", path="/dev/full")
    good = [row for row in rows if not row["errno"]]
    bad = [row for row in rows if row["errno"]]
    assert {(row["errno"], row["calls"], row["bytes_moved"]) for row in bad} == {(28, 1, 0)}
    assert sum(row["calls"] for row in good) + len(bad) == 10000
    assert sum(row["bytes_moved"] for row in good) == sum(row["calls"] for row in good)


def test_wherever_two_streams_lie(program: Runner, tmp_path: Path) -> None:
    # GIVEN copies character by character from one stream to each of eight, whose addresses are all different
    text = f"""{OPENED}
for n in range(800):
    libc.fputc(97 + n % 26, f)
libc.rewind(f)
others = [stream(f"other{{n}}", "w") for n in range(8)]
for other in others:
    for n in range(100):
        libc.fputc(libc.fgetc(f), other)
"""
    # WHEN they are traced THEN no two of them end each other's runs
    outcome = succeeded(program.traced(text))
    for number in range(8):
        rows = outcome.select(op="fputc", path=tmp_path / f"other{number}")
        assert sum(row["calls"] for row in rows) == 100 and len(rows) < 20


def test_streams_and_calls_side_by_side(program: Runner, tmp_path: Path) -> None:
    # GIVEN a copy character by character between two files, and two alternating calls on one stream
    text = f"""{OPENED}
for n in range(500):
    libc.fputs(b"value ", f)
    libc.fputc(10, f)
libc.rewind(f)
g = stream("other", "w")
for n in range(3500):
    libc.fputc(libc.fgetc(f), g)
libc.fclose(f)
libc.fclose(g)
"""
    # WHEN they are traced THEN neither breaks the other's run
    outcome = succeeded(program.traced(text))
    names = {"file", "other"}
    rows = [row for row in outcome.select(layer="stdio") if row["path"] and Path(row["path"]).name in names]
    calls: Counter[tuple[str, str, str]] = Counter()
    for row in rows:
        calls[row["op"], Path(row["path"]).name, "calls"] += row["calls"]
        calls[row["op"], Path(row["path"]).name, "bytes"] += row["bytes_moved"] or 0
    assert {key: number for key, number in calls.items() if key[0] not in ("fopen", "fclose", "fseek")} == {
        ("fputs", "file", "calls"): 500, ("fputs", "file", "bytes"): 3000,
        ("fputc", "file", "calls"): 500, ("fputc", "file", "bytes"): 500,
        ("fgetc", "file", "calls"): 3500, ("fgetc", "file", "bytes"): 3500,
        ("fputc", "other", "calls"): 3500, ("fputc", "other", "bytes"): 3500,
    }  # fmt: skip
    assert len(rows) < 100
    assert (tmp_path / "other").read_bytes() == b"value \n" * 500


def test_threads_on_one_stream(program: Runner, tmp_path: Path) -> None:
    # GIVEN threads that share a stream, and a fork in the middle
    text = f"""{OPENED}
import threading
def work(count):
    for n in range(count):
        put(120, f)
threads = [threading.Thread(target=work, args=[1000 + n]) for n in range(4)]
for thread in threads: thread.start()
for thread in threads: thread.join()
libc.fflush(f)
work(10)
libc.fflush(f)
if os.fork() == 0:
    work(20)
    libc.fflush(f)
    os._exit(0)
os.wait()
work(30)
libc.fclose(f)
"""
    # WHEN they are traced THEN every call is in its thread's and its process's rows
    outcome = succeeded(program.traced(text))
    rows = outcome.select(op="fputc", path=tmp_path / "file")
    counts: dict[tuple[int, int], int] = {}
    for row in rows:
        counts[row["pid"], row["tid"]] = counts.get((row["pid"], row["tid"]), 0) + row["calls"]
    main = outcome.pid, outcome.pid
    assert counts.pop(main) == 40
    assert sorted(counts.values()) == [20, 1000, 1001, 1002, 1003]
    assert (tmp_path / "file").stat().st_size == 4006 + 60
    assert outcome.log.losses() == {}


def test_tracing_stops_in_a_run(program: Runner, tmp_path: Path) -> None:
    # GIVEN a stream that is written before, in and after two traced stretches
    text = f"""{OPENED}
import pyio_trace
def letters(count):
    for n in range(count):
        put(120, f)
letters(5)
put = lambda ch, f: ctypes.CDLL(None).fputc(ch, f)  # looked up while tracing
for part in range(2):
    with pyio_trace.trace(f"part{{part}}.pyio"):
        letters(10 + part)
    letters(100)
with pyio_trace.trace("part2.pyio"):
    letters(1)
    with pyio_trace.suppress():
        letters(50)
    letters(1)
"""
    # WHEN it is run THEN each log has its stretch, no more
    succeeded(program.bare(text))
    for part, count in enumerate([10, 11, 2]):
        log = succeeded(program.command(["true"], log=f"part{part}.pyio"))
        assert sum(row["calls"] for row in log.select(op="fputc", path=tmp_path / "file")) == count


def test_all_streams_at_once(program: Runner) -> None:
    # GIVEN calls that name no stream WHEN they are traced THEN they have rows that name no file
    text = f"""{OPENED}
put(120, f)
libc.fflush(None)
libc._flushlbf()
libc.fcloseall()
print(os.path.getsize("file"))
"""
    outcome = succeeded(program.traced(text))
    assert outcome.stdout == "1\n"
    rows = outcome.select(op=("fflush", "fcloseall"), path=None)
    assert [(row["op"], row["fd"], row["bytes_moved"]) for row in rows] == [
        ("fflush", None, None), ("fflush", None, None), ("fcloseall", None, None),
    ]  # fmt: skip
