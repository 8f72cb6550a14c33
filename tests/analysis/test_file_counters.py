"""Darshan's counters by file: against what programs say they did, Darshan's rules followed by hand, and strace."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pyio_trace.analysis.calls.call_order import PendingCalls
from pyio_trace.analysis.reducer import scan
from pyio_trace.analysis.reducers import file_counters
from pyio_trace.analysis.reducers.file_counters import FileCounters
from pyio_trace.join.sources.facade import Log
from pyio_trace.join.sources.opening import open_log
from tests.support.darshan import model_of, whole_counters
from tests.support.logwriter import LogWriter
from tests.support.programs import Outcome, Runner, succeeded
from tests.support.transfers import straced

#: Makes calls at random and prints those that succeeded, by file.
AT_RANDOM = """\
import json, mmap, os, random, sys
chance = random.Random(int(sys.argv[1]))
said = {}
def say(name, *call):
    said.setdefault(os.path.abspath(name), []).append(call)
fds = {}
def use():
    fd = chance.choice(list(fds))
    return fd, fds[fd]
for name in ("one", "two"):
    with open(name, "wb", buffering=0) as file:
        size = file.write(bytes(300_000))
    said[os.path.abspath(name)] = []
for step in range(600):
    what = chance.choice(["open", "read", "read", "read", "write", "write", "run", "append", "seek", "stat", "sync",
                          "dup", "close", "map"])
    if not fds or what == "open":
        name = chance.choice(["one", "two"])
        append = chance.random() < 0.2
        fd = os.open(name, os.O_RDWR | (os.O_APPEND if append else 0))
        fds[fd] = {"name": name, "file": {"at": 0}, "append": append}
        say(name, "open")
        continue
    fd, use_of = use()
    name, file = use_of["name"], use_of["file"]
    size = chance.choice([1, 7, 100, 101, 1000, 4096, 4096, 20_000, 110_000])
    place = chance.choice([0, 1, 4096, 8192, 12288, 100_000, 290_000])
    if what == "read":
        if chance.random() < 0.5:
            say(name, "read", place, len(os.pread(fd, size, place)))
        else:
            got = len(os.read(fd, size))
            say(name, "read", file["at"], got)
            file["at"] += got
    elif what == "write" and not use_of["append"]:
        if chance.random() < 0.5:
            say(name, "write", place, os.pwrite(fd, bytes(size), place))
        else:
            put = os.write(fd, bytes(size))
            say(name, "write", file["at"], put)
            file["at"] += put
    elif what == "append" and use_of["append"]:
        end = os.stat(name).st_size
        say(name, "stat")
        put = os.write(fd, bytes(size))
        say(name, "write", end, put)
        file["at"] = end + put
    elif what == "run":
        for n in range(5):
            say(name, "read", place + 5000 * n, len(os.pread(fd, 1000, place + 5000 * n)))
    elif what == "seek":
        file["at"] = os.lseek(fd, place, os.SEEK_SET)
        say(name, "seek")
    elif what == "stat":
        os.fstat(fd), os.stat(name), os.lstat(name)
        for _ in range(3): say(name, "stat")
    elif what == "sync" and chance.random() < 0.1:
        os.fsync(fd), os.fdatasync(fd)
        say(name, "fsync"), say(name, "fdatasync")
    elif what == "dup":
        fds[os.dup(fd)] = use_of
        say(name, "dup")
    elif what == "close":
        os.close(fd)
        del fds[fd]
        say(name, "close")
print(json.dumps(said))
"""

Record = dict[str, Any]


def counters(log: Log, **choice: bool) -> list[Record]:
    (found,) = scan(log, [FileCounters(**choice)])
    return list(found.table.to_pylist())


def of(outcome: Outcome, name: str, **choice: bool) -> list[Record]:
    """The records of a file of the program's folder."""
    return [one for one in counters(outcome.log, **choice) if Path(one["path"] or "").name == name]


@pytest.mark.parametrize("seed", range(3))
def test_counters_follow_darshans_rules(program: Runner, seed: int) -> None:
    # GIVEN a program that makes hundreds of calls at random and says which WHEN its counters are made
    outcome = succeeded(program.traced(AT_RANDOM, seed))
    said = json.loads(outcome.stdout)
    # THEN they are those of a model of Darshan that goes through the same calls
    for path, calls in said.items():
        # Python opened and wrote the file before: one more open, fstat, write of 300,000 bytes at 0, close
        expected = model_of([["open"], ["stat"], ["write", 0, 300_000], ["close"], *calls])
        (record,) = [one for one in counters(outcome.log) if one["path"] == path]
        assert record["unplaced"] == 0
        assert whole_counters(record) == expected, path
    assert sum(len(calls) for calls in said.values()) > 300


BY_HAND = """\
import os
fd = os.open("data", os.O_RDWR | os.O_CREAT)
os.write(fd, bytes(1000))       # at 0: neither sequential nor consecutive
os.write(fd, bytes(1000))       # at 1000: both
os.pwrite(fd, bytes(10), 5000)  # at 5000: sequential; a stride of 3000
os.lseek(fd, 0, os.SEEK_SET)
os.read(fd, 100)                # a switch
os.read(fd, 100)                # both
os.pread(fd, 100, 50)           # behind: neither
os.write(fd, bytes(5))          # at 200, a switch
twin = os.dup(fd)
os.close(twin)                  # Darshan forgets where transfers ended
os.pread(fd, 100, 300)          # a switch; sequential: after byte 0
os.close(fd)
fd = os.open("data", os.O_RDONLY)
os.read(fd, 0)
while os.read(fd, 4000): pass   # 4000, 1010, 0 bytes
os.close(fd)
os.rename("data", "moved")
"""


def test_counters_worked_out_on_paper(program: Runner) -> None:
    outcome = succeeded(program.traced(BY_HAND))
    (record,) = of(outcome, "data")
    assert whole_counters(record) == {
        "POSIX_OPENS": 3, "POSIX_DUPS": 1, "POSIX_READS": 8, "POSIX_WRITES": 4, "POSIX_SEEKS": 1,
        "POSIX_RENAME_SOURCES": 1, "POSIX_BYTES_READ": 5410, "POSIX_BYTES_WRITTEN": 2015,
        "POSIX_MAX_BYTE_READ": 5009, "POSIX_MAX_BYTE_WRITTEN": 5009,
        # the read after the one of 0 bytes at 0, at 4000, and at the end
        "POSIX_CONSEC_READS": 4, "POSIX_SEQ_READS": 5, "POSIX_CONSEC_WRITES": 1, "POSIX_SEQ_WRITES": 2,
        "POSIX_RW_SWITCHES": 3,
        "POSIX_SIZE_READ_0_100": 6, "POSIX_SIZE_READ_100_1K": 1, "POSIX_SIZE_READ_1K_10K": 1,
        "POSIX_SIZE_WRITE_0_100": 2, "POSIX_SIZE_WRITE_100_1K": 2,
        "POSIX_ACCESS1_ACCESS": 100, "POSIX_ACCESS1_COUNT": 4, "POSIX_ACCESS2_ACCESS": 1000,
        "POSIX_ACCESS2_COUNT": 2, "POSIX_ACCESS3_ACCESS": 4000, "POSIX_ACCESS3_COUNT": 1,
        "POSIX_ACCESS4_ACCESS": 1010, "POSIX_ACCESS4_COUNT": 1,
        "POSIX_STRIDE1_STRIDE": 3000, "POSIX_STRIDE1_COUNT": 1,
    }  # fmt: skip


def test_counters_against_strace(program: Runner) -> None:
    """GIVEN the random program under strace too WHEN its transfers are counted THEN bytes by file are the same."""
    outcome, moved = straced(program, AT_RANDOM, 7)
    succeeded(outcome)
    found = {one["path"]: one for one in counters(outcome.log)}
    for path in map(str, (program.folder / "one", program.folder / "two")):
        assert (found[path]["POSIX_BYTES_READ"], found[path]["POSIX_BYTES_WRITTEN"]) == moved[path]


STREAMS = """\
import ctypes, os
libc = ctypes.CDLL(None)
libc.fopen.restype = libc.fdopen.restype = ctypes.c_void_p
def stream(function, *args): return ctypes.c_void_p(function(*args))
room = ctypes.create_string_buffer(100)
s = stream(libc.fopen, b"text", b"w+")
for n in range(10): libc.fwrite(b"abcdefgh", 1, 8, s)
for n in range(6): libc.fputc(65, s)
libc.fputs(b"12345", s)
libc.fflush(s)
libc.fseek(s, 0, 0)
libc.fread(room, 1, 20, s)
libc.fread(room, 1, 0, s)         # moves nothing: not counted
while libc.fgetc(s) >= 0: pass    # 71 characters; the end of the file is not counted
libc.fclose(s)
s = stream(libc.fdopen, os.open("text", os.O_RDONLY), b"r")
libc.fgets(room, 11, s)
libc.fclose(s)
"""


def test_counters_of_streams(program: Runner) -> None:
    (record,) = of(succeeded(program.traced(STREAMS)), "text")
    assert whole_counters(record, "STDIO") == {
        "STDIO_OPENS": 2, "STDIO_FDOPENS": 1, "STDIO_READS": 73, "STDIO_WRITES": 17, "STDIO_SEEKS": 1,
        "STDIO_FLUSHES": 1, "STDIO_BYTES_READ": 101, "STDIO_BYTES_WRITTEN": 91,
    }  # fmt: skip
    assert whole_counters(record) == {"POSIX_OPENS": 1}


FORKED = """\
import os
fd = os.open("shared", os.O_RDWR | os.O_CREAT)
os.write(fd, bytes(100))
child = os.fork()
os.waitpid(child, 0) if child else None
os.write(fd, bytes(50))
print(os.getpid(), flush=True)
"""


def test_counters_by_process(program: Runner) -> None:
    # GIVEN a file that a process writes before and after its child does WHEN records are by process
    outcome = succeeded(program.traced(FORKED))
    child, parent = map(int, outcome.stdout.split())
    records = {one["pid"]: whole_counters(one) for one in of(outcome, "shared", by_process=True)}
    # THEN each process has its own place in the file, and both together have the sums
    assert records[parent]["POSIX_SEQ_WRITES"] == 1 and "POSIX_CONSEC_WRITES" not in records[parent]
    assert records[child] == {
        "POSIX_WRITES": 1, "POSIX_BYTES_WRITTEN": 50, "POSIX_MAX_BYTE_WRITTEN": 149, "POSIX_SEQ_WRITES": 1,
        "POSIX_SIZE_WRITE_0_100": 1, "POSIX_ACCESS1_ACCESS": 50, "POSIX_ACCESS1_COUNT": 1,
    }  # fmt: skip
    (whole,) = of(outcome, "shared")
    assert (whole["processes"], whole["pid"]) == (2, None)
    assert (whole["POSIX_WRITES"], whole["POSIX_SEQ_WRITES"], whole["POSIX_MAX_BYTE_WRITTEN"]) == (3, 2, 199)


def test_times_lie_within_the_run_and_do_not_overlap(program: Runner) -> None:
    # GIVEN calls whose times are in the log WHEN they are counted
    outcome = succeeded(program.traced(BY_HAND))
    (record,) = of(outcome, "data")
    rows = [row for row in outcome.rows if row["path"] == str(program.folder / "data") and row["layer"] == "posix"]
    start = outcome.log.info()["start"]

    def ends(*ops: str) -> tuple[float, float]:
        chosen = [row for row in rows if row["op"] in ops]
        return (
            (min(row["time"] for row in chosen) - start) / 1e9,
            (max(row["time"] + row["duration"] for row in chosen) - start) / 1e9,
        )

    # THEN first begins and last ends are those of the rows, and one thread's times add up without overlap
    for name, ops in (("OPEN", ("open", "dup")), ("READ", ("read", "pread")), ("WRITE", ("write", "pwrite")),
                      ("CLOSE", ("close",))):  # fmt: skip
        assert (record[f"POSIX_F_{name}_START_TIMESTAMP"], record[f"POSIX_F_{name}_END_TIMESTAMP"]) == ends(*ops)
    reads = [row["duration"] for row in rows if row["op"] in ("read", "pread")]
    assert record["POSIX_F_READ_TIME"] == sum(reads) / 1e9
    assert record["POSIX_F_MAX_READ_TIME"] == max(reads) / 1e9


def test_timers_that_calls_add_to(tmp_path: Path) -> None:
    # GIVEN one call of each kind, in sequence, each with a different duration
    writer = LogWriter()
    thread = writer.thread(writer.process(100), 100)
    desc = writer.desc(3, "/d/x", kind=1, dev=1, ino=1)
    calls = {"PREAD": 1_000, "PWRITE": 20_000, "FSYNC": 300_000, "FDATASYNC": 4_000_000, "LSEEK": 50_000_000}
    for number, (op, duration) in enumerate(calls.items()):
        begin = 2_000 + number * 1_000_000_000
        thread.record(op, begin=begin, duration=duration, desc=desc, aux=3, offset=0, size=5, result=5)
    # WHEN the file's counters are computed THEN time in fsync() is write time, and time in lseek() is metadata time
    (record,) = counters(open_log(writer.save(tmp_path / "run.pyio")))
    times = [record[f"POSIX_F_{name}_TIME"] for name in ("READ", "WRITE", "META")]
    assert times == [pytest.approx(time) for time in (0.000_001, 0.004_32, 0.05)]


def test_sums_have_the_counters_of_rows(program: Runner) -> None:
    # GIVEN the same program in both modes
    rows = succeeded(program.traced(AT_RANDOM, 3, log="trace.pyio"))
    sums = succeeded(program.traced(AT_RANDOM, 3, env={"PYIO_TRACE_MODE": "profile"}))
    for name in ("one", "two"):
        (trace,), (profile,) = of(rows, name), of(sums, name)
        # THEN all counters that do not depend on the order of calls are equal, and the rest is said to lack transfers
        ordered = ("SEQ", "CONSEC", "SWITCHES", "STRIDE", "ACCESS", "MAX_BYTE")
        expected = {key: value for key, value in whole_counters(trace).items() if not any(o in key for o in ordered)}
        found = {key: value for key, value in whole_counters(profile).items() if not any(o in key for o in ordered)}
        assert found == expected
        assert profile["POSIX_F_CLOSE_END_TIMESTAMP"] > profile["POSIX_F_OPEN_START_TIMESTAMP"] > 0


@pytest.mark.parametrize("pending", [1, 5, 50])
def test_little_memory_gives_the_same_counters(program: Runner, monkeypatch: pytest.MonkeyPatch, pending: int) -> None:
    # GIVEN a log whose calls are looked at a few at a time
    outcome = succeeded(program.traced(AT_RANDOM, 4))
    whole = counters(outcome.log)
    batches: Callable[..., Any] = outcome.log.batches
    monkeypatch.setattr(outcome.log, "batches", lambda columns: batches(columns, 10))
    monkeypatch.setattr(file_counters, "_PENDING", pending)
    monkeypatch.setattr(PendingCalls, "CHUNK", 1)
    monkeypatch.setattr(file_counters.Part, "__init__", _small(pending, file_counters.Part.__init__))
    # WHEN it is read in small batches THEN nothing changes
    assert counters(outcome.log) == whole


def _small(pending: int, made: Callable[..., None]) -> Callable[..., None]:
    def init(self: file_counters.Part, *args: Any, **kwargs: Any) -> None:
        made(self, *args, **kwargs)
        self.most = pending

    return init


def test_a_log_without_operations(tmp_path: Path) -> None:
    """GIVEN a reducer that met no batch WHEN it finishes THEN there are no records, but all columns."""
    writer = LogWriter()
    writer.process(1)
    writer.save(tmp_path / "empty.pyio")
    (found,) = scan(open_log(tmp_path / "empty.pyio"), [FileCounters()])
    assert found.table.num_rows == 0 and "POSIX_OPENS" in found.table.column_names
