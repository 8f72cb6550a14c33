"""SIGKILL at any instant: what a program acknowledged is in its log, whole; the log is readable, also meanwhile.

Ground truth is a pipe: each thread of each process writes a line into it after each step of its plan
(tests/faults/workload.py), and the plan says what the step was.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections import defaultdict
from itertools import islice
from pathlib import Path

import pytest

import pyio_trace
from pyio_trace.errors import PyioTraceError
from pyio_trace.join.sources.facade import Log
from tests.faults import workload
from tests.faults.workload import SHARED_SIZE, Expected, plan
from tests.support.programs import clean_environment
from tests.support.soak import rounds

#: Another one: PYIO_TEST_SEED=...; a failure says which it was.
SEED = int(os.environ.get("PYIO_TEST_SEED", "20240"))
COLUMNS = [
    "layer",
    "op",
    "path",
    "file_offset",
    "bytes_requested",
    "bytes_moved",
    "errno",
    "pid",
    "tid",
    "duration",
    "id",
]

#: (pid, tid) -> its name in the plan, the steps it acknowledged
Acks = dict[tuple[int, int], tuple[str, int]]


class AckPipe:
    """Reads acknowledgements all the time, so that nobody waits for room in the pipe."""

    def __init__(self) -> None:
        self._read, self.write = os.pipe()
        os.set_inheritable(self.write, True)
        self._lock = threading.Lock()
        self._acks: Acks = {}
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        rest = b""
        while data := os.read(self._read, 65536):
            *lines, rest = (rest + data).split(b"\n")
            with self._lock:
                for line in lines:
                    name, pid, tid, number = line.split()
                    self._acks[int(pid), int(tid)] = (name.decode(), int(number))

    def now(self) -> Acks:
        """What has been acknowledged so far."""
        with self._lock:
            return dict(self._acks)

    def all(self) -> Acks:
        """Closes our end, waits until every process that has the other one is gone."""
        os.close(self.write)
        self._thread.join(60)
        assert not self._thread.is_alive(), "a process of the round is still there"
        os.close(self._read)
        return self._acks


def start(mode: list[str], folder: Path, log: Path, pipe: AckPipe, *more: str) -> subprocess.Popen[str]:
    """Starts the workload traced, as the leader of a process group."""
    environment = clean_environment(PYIO_TRACE="1", PYIO_TRACE_OUTPUT=str(log), PYIO_TRACE_QUIET="1")
    words = [sys.executable, str(Path(workload.__file__)), *mode, str(folder), str(pipe.write), *more]
    return subprocess.Popen(
        words, env=environment, pass_fds=[pipe.write], text=True, start_new_session=True,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE,
    )  # fmt: skip


def rows_by_thread(log: Log, folder: Path) -> dict[tuple[int, int], list[tuple[Expected, bool]]]:
    """Each thread's rows on files of the folder, in order, and whether each is complete."""
    table = log.operations(COLUMNS)  # one look: the log may be growing
    columns = [table[name].to_pylist() for name in COLUMNS]
    threads: dict[tuple[int, int], list[tuple[int, Expected, bool]]] = defaultdict(list)
    start = f"{folder}/"
    for layer, op, path, offset, size, moved, errno, pid, tid, duration, number in zip(*columns, strict=True):
        if path is not None and path.startswith(start):
            row = Expected(layer, op, path[len(start) :], offset, size, moved, errno)
            threads[pid, tid].append((number, row, duration is not None))
    return {thread: [entry[1:] for entry in sorted(rows)] for thread, rows in threads.items()}


def matches(row: Expected, wanted: Expected) -> bool:
    """Whether a complete row is the one wanted; None in the latter: whatever it is."""
    return all(theirs is None or ours == theirs for ours, theirs in zip(row, wanted, strict=True))


def check(log: Log, folder: Path, acks: Acks, *, at_rest: bool = True) -> int:
    """Every acknowledged operation is in the log, in order and complete, and beyond it no more than one step.

    at_rest: all processes are dead.  While they live, what comes after the acknowledged part goes on changing.
    Returns how many operations were acknowledged.
    """
    threads, total = rows_by_thread(log, folder), 0
    for who, (name, steps) in acks.items():
        wanted = [row for step in islice(plan(name), steps) for row in step.rows]
        following = next(islice(plan(name), steps, None)).rows
        kinds = {(row.layer, row.op) for row in [*wanted, *following]} | {("posix", "open")}
        rows = [entry for entry in threads.get(who, []) if entry[0][:2] in kinds]
        opened, rows = rows[:1], rows[1:]  # the shared file
        assert opened[0][0].path == "shared"
        for number, expected in enumerate(wanted):
            assert number < len(rows), f"{name}: acknowledged {len(wanted)} operations, the log has {len(rows)}"
            row, complete = rows[number]
            assert complete and matches(row, expected), f"{name}: {row}, complete: {complete}, wanted {expected}"
        total += len(wanted)
        if at_rest:
            beyond = rows[len(wanted) :]
            assert len(beyond) <= len(following), f"{name}: {beyond} after what was acknowledged"
            for (row, complete), expected in zip(beyond, following, strict=False):
                assert row[:3] == expected[:3]
                assert not complete or matches(row, expected)
    if at_rest:
        check_in_flight(log, acks)
    return total


def check_in_flight(log: Log, acks: Acks) -> None:
    """At most one POSIX operation a thread is in flight: its last."""
    table = log.operations(["pid", "tid", "layer", "duration", "id"]).to_pylist()
    last: dict[tuple[int, int], int] = {}
    for row in table:
        if row["layer"] == "posix":
            who = row["pid"], row["tid"]
            last[who] = max(last.get(who, 0), row["id"])
    for row in table:
        if row["layer"] == "posix" and row["duration"] is None and (row["pid"], row["tid"]) in acks:
            assert row["id"] == last[row["pid"], row["tid"]], f"in flight, and not the last of its thread: {row}"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Where the workload works."""
    path = tmp_path / "work"
    path.mkdir()
    (path / "shared").write_bytes(bytes(SHARED_SIZE))
    return path


def kill_group(pid: int) -> None:
    """All processes of a round."""
    try:
        os.killpg(pid, signal.SIGKILL)
    except ProcessLookupError:
        pass  # it was killed before it had a group


def one_round(number: int, folder: Path, log: Path) -> int:
    """A whole Python is started traced and killed: counted from its start, or from its first acknowledgement."""
    chance = random.Random(f"{SEED} {number}")
    pipe = AckPipe()
    process = start(["once", f"r{number}"], folder, log, pipe)
    from_start = number % 4 == 0
    while not from_start and not pipe.now() and process.poll() is None:
        time.sleep(0.002)
    time.sleep(chance.uniform(0, 0.25 if from_start else 0.06))
    kill_group(process.pid)
    process.communicate()
    acks = pipe.all()
    assert process.returncode == -signal.SIGKILL
    try:
        opened = pyio_trace.open(log)
    except PyioTraceError:
        assert not acks, "operations were acknowledged, and there is no log"
        return 0
    assert "torn" not in opened.losses()
    return check(opened, folder, acks)


@pytest.mark.slow
@pytest.mark.soak
def test_whole_programs_killed_at_random(folder: Path, tmp_path: Path) -> None:
    # GIVEN many programs, each with its log, its threads and its forked children
    done, programs = 0, rounds(40, 400)
    for number in range(programs):
        log = tmp_path / f"{number}.pyio"
        try:
            # WHEN each is killed at a random instant THEN its log is whole up to there
            done += one_round(number, folder, log)
        except AssertionError as problem:
            raise AssertionError(f"seed {SEED}, round {number}, log kept at {log}") from problem
        log.unlink(missing_ok=True)
    assert done > 10 * programs


@pytest.mark.slow
@pytest.mark.soak
@pytest.mark.parametrize("batch", range(rounds(4, 40)))
def test_forked_workers_killed_at_random(folder: Path, tmp_path: Path, batch: int) -> None:
    # GIVEN fifty workers, forked one after the other by a traced program
    chance, log = random.Random(f"{SEED} batch {batch}"), tmp_path / "run.pyio"
    pipe = AckPipe()
    process = start(["zygote"], folder, log, pipe)
    assert process.stdin and process.stdout
    killed: list[int] = []
    for number in range(50):
        process.stdin.write(f"b{batch}r{number}\n")
        process.stdin.flush()
        pid = int(process.stdout.readline())
        try:
            # WHEN each is killed with its threads and children at a random instant
            time.sleep(chance.uniform(0, 0.015))
            if number % 10 == 9:  # THEN the log has, while they work, what they have acknowledged already
                acks = pipe.now()
                check(pyio_trace.open(log), folder, acks, at_rest=False)
        finally:
            kill_group(pid)
        killed.append(pid)
    process.communicate()
    acks = pipe.all()
    assert process.returncode == 0
    # THEN afterwards it has all that was acknowledged, and how they ended
    opened = pyio_trace.open(log)
    done = check(opened, folder, acks)
    assert done > 500, f"seed {SEED}"
    assert "torn" not in opened.losses()
    ended = {row["pid"]: row["ended"] for row in opened.processes().to_pylist()}
    assert {ended[pid] for pid in killed} == {"signal 9 (SIGKILL)"}


@pytest.mark.slow
@pytest.mark.soak
def test_a_run_killed_while_its_log_is_packed(folder: Path, tmp_path: Path) -> None:
    # GIVEN programs that come to their end, and are packing their logs
    for number in range(rounds(10, 200)):
        chance = random.Random(f"{SEED} packing {number}")
        final, live = tmp_path / f"{number}.parquet", tmp_path / f"{number}.pyio"
        pipe = AckPipe()
        process = start(["once", f"p{number}"], folder, final, pipe, "30")
        while process.poll() is None and sum(steps == 30 for _, steps in pipe.now().values()) < workload.THREADS + 2:
            time.sleep(0.002)
        # WHEN everything is killed at a random instant THEN one of the two logs, at least, has it all
        time.sleep(chance.uniform(0, 0.6))
        kill_group(process.pid)
        process.communicate()
        acks = pipe.all()
        assert len(acks) == workload.THREADS + 2
        assert check(pyio_trace.open(final if final.exists() else live), folder, acks) > 4 * 30
