"""Processes that write the same bytes of a file in no order, and those that do so in one."""

from __future__ import annotations

import pickle
import random

import numpy as np
import pytest

from pyio_trace.insights import range_writes
from pyio_trace.insights.finding import Finding
from pyio_trace.insights.range_writes import Opened, Part, contested
from tests.support.findings import evidence_of, findings_of, none, only
from tests.support.programs import Runner

pytestmark = pytest.mark.once
SLUG = "unordered-writers"

#: Children that write once all of them live, and live until all have written.
CHILDREN = """
import fcntl, os, sys
ready, start, stop = os.pipe(), os.pipe(), os.pipe()
def children(*works):
    for work in works:
        if not os.fork():
            os.close(start[1])
            os.close(stop[1])
            os.write(ready[1], b".")
            os.read(start[0], 1)
            work()
            os.write(ready[1], b".")
            os.read(stop[0], 1)
            os._exit(0)
    os.close(ready[1])
    for pipe in start, stop:
        for work in works: assert os.read(ready[0], 1) == b"."
        os.close(pipe[1])
    for work in works: assert os.wait()[1] == 0
"""

#: Of two children one writes 100 bytes from 0 on, the other one 100 from 40 on.
WRITERS = """
NAME = "out.bin"
PREPARE
f = OPEN
def first():
    BEFORE
    os.pwrite(f, bytes(100), 0)
def second():
    BEFORE
    os.pwrite(f, b"x" * 100, PLACE)
children(first, second)
AFTER
"""
DEFAULTS = {
    "PREPARE": "pass",
    "OPEN": "os.open(NAME, os.O_RDWR | os.O_CREAT)",
    "BEFORE": "pass",
    "PLACE": "40",
    "AFTER": "pass",
}


def writers(**parts: str) -> str:
    text = WRITERS
    for word, value in {**DEFAULTS, **parts}.items():
        text = text.replace(word, value)
    return CHILDREN + text


def lines_with(program: Runner, text: str) -> list[int]:
    """The lines of the program that have this text."""
    lines = (program.folder / "program.py").read_text().splitlines()
    return [number for number, line in enumerate(lines, 1) if text in line]


def figures(finding: Finding) -> dict[str, object]:
    return dict(finding.evidence[0].values)


def test_two_children_that_write_one_range(program: Runner) -> None:
    # GIVEN two children that live side by side, of which each writes 100 bytes, 60 of them the same
    outcome = program.traced(writers())
    # WHEN the findings are made THEN these bytes, both lines and the file are named, and it is not about time
    finding = only(findings_of(outcome), SLUG)
    assert figures(finding) == {"bytes": 60, "processes": 2, "files": 1}
    assert sorted(site.line for site in finding.sites) == lines_with(program, "os.pwrite(")
    assert finding.files == [f"{program.folder}/out.bin"] and len(finding.processes) == 2
    assert (finding.severity, finding.recoverable_ns, finding.recoverable.bound) == ("warning", 0, "none")
    assert finding.confidence.level == "low" and not finding.makes_wrong
    rows = evidence_of(finding, outcome.log)
    assert {int(row["process"]) for row in rows} == set(finding.processes)
    assert sorted(int(row["bytes"]) for row in rows) == [100, 100]


def test_writes_in_turn(program: Runner) -> None:
    # GIVEN two processes of one parent, each of which writes a range again after the other one has
    outcome = program.traced(
        """
        import os
        f = os.open("out.bin", os.O_RDWR | os.O_CREAT)
        pipes = [os.pipe(), os.pipe()]
        for n in range(2):
            if not os.fork():
                for turn in range(3):
                    if n or turn: os.read(pipes[n][0], 1)
                    os.pwrite(f, bytes(50), 10)
                    os.write(pipes[1 - n][1], b".")
                if not n: os.read(pipes[0][0], 1)
                os._exit(0)
        for n in range(2): assert os.wait()[1] == 0
        """
    )
    finding = only(findings_of(outcome), SLUG)
    assert figures(finding) == {"bytes": 50, "processes": 2, "files": 1} and len(finding.sites) == 1
    assert [one.line for one in finding.sites] == lines_with(program, "os.pwrite(")
    assert finding.confidence.level == "medium"


def test_a_lock_in_memory_is_not_seen(program: Runner) -> None:
    # GIVEN processes of multiprocessing that take turns by its lock, which the log does not have WHEN the findings are
    # made THEN there is one at most, and it only informs
    outcome = program.traced(
        """
        import multiprocessing, os
        def work(lock, both):
            f = os.open("out.bin", os.O_RDWR | os.O_CREAT)
            both.wait()
            for turn in range(3):
                with lock: os.pwrite(f, bytes(50), 10)
            both.wait()
        if __name__ == "__main__":
            context = multiprocessing.get_context("fork")
            lock, both = context.Lock(), context.Barrier(2)
            workers = [context.Process(target=work, args=(lock, both)) for n in range(2)]
            for one in workers: one.start()
            for one in workers: one.join()
            assert not any(one.exitcode for one in workers)
        """
    )
    finding = only(findings_of(outcome), SLUG)
    assert figures(finding) == {"bytes": 50, "processes": 2, "files": 1} and finding.severity == "info"
    assert "locks that are in memory" in finding.confidence.lowered_by[0]


def test_file_objects_of_each_process(program: Runner) -> None:
    # GIVEN three processes that open one file for themselves, and write all of it, as ranks do with a checkpoint
    outcome = program.traced(
        CHILDREN
        + """
def work():
    with open("state.bin", "wb") as f: f.write(bytes(30_000))
children(work, work, work)
"""
    )
    finding = only(findings_of(outcome), SLUG)
    assert figures(finding) == {"bytes": 30_000, "processes": 3, "files": 1}
    assert [site.line for site in finding.sites] == lines_with(program, "f.write(")


def test_a_lock_of_the_parent_alone(program: Runner) -> None:
    # GIVEN children of a process that locked a file of its own, and created one, before it started them
    prepare = 'fcntl.flock(os.open("parent.lock", os.O_RDWR | os.O_CREAT | os.O_EXCL), fcntl.LOCK_EX)'
    finding = only(findings_of(program.traced(writers(PREPARE=prepare))), SLUG)
    assert figures(finding) == {"bytes": 60, "processes": 2, "files": 1}


IN_ORDER = {
    "lockf": {"BEFORE": "fcntl.lockf(f, fcntl.LOCK_EX, 10, 1000); fcntl.lockf(f, fcntl.LOCK_UN, 10, 1000)"},
    "flock": {"BEFORE": "g = os.open(NAME, os.O_RDWR); fcntl.flock(g, fcntl.LOCK_EX); fcntl.flock(g, fcntl.LOCK_UN)"},
    "a lock on another file": {
        "BEFORE": 'g = os.open("x.lock", os.O_RDWR | os.O_CREAT); fcntl.flock(g, fcntl.LOCK_EX); os.close(g)'
    },
    "a file that one process creates": {
        "BEFORE": """
    while True:
        try: g = os.open("x.lock", os.O_RDWR | os.O_CREAT | os.O_EXCL)
        except FileExistsError: continue
        break
    os.close(g); os.remove("x.lock")"""
    },
    "other ranges": {"PLACE": "100"},
    "appends": {"OPEN": "os.open(NAME, os.O_RDWR | os.O_CREAT | os.O_APPEND)"},
    "appends from later on": {"BEFORE": "fcntl.fcntl(f, fcntl.F_SETFL, os.O_APPEND)"},
    "a file of each": {"BEFORE": "f = os.open(str(os.getpid()), os.O_RDWR | os.O_CREAT)"},
    "shared memory": {"PREPARE": 'NAME = f"/dev/shm/pyio-trace-{os.getpid()}"', "AFTER": "os.remove(NAME)"},
}


@pytest.mark.parametrize("how", IN_ORDER)
def test_what_does_not_depend_on_chance(program: Runner, how: str) -> None:
    outcome = program.traced(writers(**IN_ORDER[how]))
    assert none(findings_of(outcome), SLUG) and len(outcome.select(op="pwrite")) == 2


PROGRAMS = {
    "one after the other": """
import os
f = os.open("out.bin", os.O_RDWR | os.O_CREAT)
for n in range(2):
    if not os.fork():
        os.pwrite(f, bytes(100), 0)
        os._exit(0)
    assert os.wait()[1] == 0
""",
    "one process": """
import os
f = os.open("out.bin", os.O_RDWR | os.O_CREAT)
for n in range(2): os.pwrite(f, bytes(100), 0)
""",
    "threads": """
import os, threading
f = os.open("out.bin", os.O_RDWR | os.O_CREAT)
both = threading.Barrier(2)
def work():
    both.wait()
    os.pwrite(f, bytes(100), 0)
    both.wait()
threads = [threading.Thread(target=work) for n in range(2)]
for one in threads: one.start()
for one in threads: one.join()
""",
    "a parent that directs its child": """
import os
f = os.open("out.bin", os.O_RDWR | os.O_CREAT)
there, back = os.pipe(), os.pipe()
if not os.fork():
    os.read(there[0], 1)
    os.pwrite(f, bytes(100), 0)
    os.write(back[1], b".")
    os.read(there[0], 1)
    os._exit(0)
os.pwrite(f, bytes(200), 0)
os.write(there[1], b".")
os.read(back[0], 1)
os.pwrite(f, bytes(100), 0)
os.write(there[1], b".")
assert os.wait()[1] == 0
""",
    "one position for both": """
f = os.open("out.bin", os.O_RDWR | os.O_CREAT)
def work():
    for turn in range(50): os.write(f, bytes(100))
children(work, work)
assert os.path.getsize("out.bin") == 10_000
""",
    "one after the other, with a file object": """
import subprocess, sys
for n in range(2): subprocess.run([sys.executable, "-c", "open('out.bin', 'wb').write(bytes(100))"], check=True)
""",
    "new files under one name": """
import os
there, back, go = os.pipe(), os.pipe(), os.pipe()
for n in range(2):
    if not os.fork():
        os.close(go[1])
        if n: os.read(there[0], 1)
        f = os.open("new", os.O_RDWR | os.O_CREAT)
        os.pwrite(f, bytes(100), 0)
        os.close(f)
        os.rename("new", f"old{n}")
        os.write(there[1], b".")
        os.write(back[1], b".")
        os.read(go[0], 1)
        os._exit(0)
for n in range(2): os.read(back[0], 1)
os.close(go[1])
for n in range(2): assert os.wait()[1] == 0
""",
    "one that waits for the end of the other": """
f = os.open("out.bin", os.O_RDWR | os.O_CREAT)
alive, end = os.pipe(), os.pipe()
if not os.fork():
    os.close(end[0])
    os.read(alive[0], 1)
    os.pwrite(f, bytes(100), 0)
    os._exit(0)
if not os.fork():
    os.close(end[1])
    os.write(alive[1], b".")
    assert os.read(end[0], 1) == b""
    os.pwrite(f, bytes(100), 0)
    os._exit(0)
os.close(end[1])
for n in range(2): assert os.wait()[1] == 0
""",
    "a file that is handed on by its name": """
f = os.open("out.bin", os.O_RDWR | os.O_CREAT)
def first():
    os.pwrite(f, bytes(100), 0)
    os.rename("out.bin", "done")
def second():
    while True:
        try: os.rename("done", "out.bin")
        except FileNotFoundError: continue
        break
    os.pwrite(os.open("out.bin", os.O_RDWR), bytes(100), 0)
children(first, second)
""",
    "a pool": """
import multiprocessing
both = multiprocessing.Barrier(2)
def work(turn):
    both.wait()  # each worker has one task
    f = os.open("out.bin", os.O_RDWR | os.O_CREAT)
    os.pwrite(f, bytes(100), (multiprocessing.current_process()._identity[0] + turn) % 2 * 100)
    os.close(f)
    both.wait()
if __name__ == "__main__":
    with multiprocessing.get_context("fork").Pool(2) as pool:
        for turn in range(4): pool.map(work, [turn, turn], chunksize=1)
        pool.close()
        pool.join()
""",
    "a database": """
import sqlite3
with sqlite3.connect("a.db") as db: db.execute("CREATE TABLE t (x)")
db.close()
def work():
    with sqlite3.connect("a.db", timeout=60) as db: db.execute("INSERT INTO t VALUES (?)", (os.getpid(),))
children(work, work)
""",
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_that_know_the_order(program: Runner, name: str) -> None:
    assert none(findings_of(program.traced(CHILDREN + PROGRAMS[name])), SLUG)


def test_locks_that_have_no_rows(program: Runner) -> None:
    # GIVEN writes under a lock WHEN locks are left out of the log THEN nothing is said of what is not known
    locked = writers(BEFORE="fcntl.lockf(f, fcntl.LOCK_EX); fcntl.lockf(f, fcntl.LOCK_UN)")
    outcome = program.traced(locked, env={"PYIO_TRACE_EXCLUDE": "op:fcntl,op:lockf"})
    assert len(outcome.select(op="pwrite")) == 2 and not outcome.select(op_role="lock")
    assert none(findings_of(outcome), SLUG)


# ---- the reducer

Row = tuple[int, int, int, int, int, int, int]


def pieces_of(rows: list[Row]) -> dict[str, np.ndarray]:
    file, process, site, start, end, placed, time = np.array(rows, np.int64).reshape(-1, 7).T
    return {
        "file": file, "process": process, "path": file, "site": site, "start": start, "end": end, "placed": placed,
        "first": time.copy(), "last": time.copy(),
    }  # fmt: skip


def as_rows(part: Part) -> list[tuple[int, ...]]:
    return sorted(zip(*(part.pieces()[name].tolist() for name in range_writes._NAMES), strict=True))


def part_of(batches: list[list[Row]]) -> Part:
    whole = Part()
    for rows in batches:
        part = Part()
        part.add(range_writes._joined(pieces_of(rows)), {(row[0], row[1], Opened.WELL) for row in rows})
        whole.update(part)
    return whole


def rows_at_random(chance: random.Random, count: int) -> list[Row]:
    rows = []
    for time in range(count):
        start = chance.randrange(6) * 10
        row = chance.randrange(4), chance.randrange(3), chance.randrange(2), start, start + 10 + chance.randrange(3)
        rows.append((*row, 1, time))
    return rows


@pytest.mark.parametrize("most", [(1000, 1000), (60, 1000), (1000, 100)], ids=["all", "files too long", "too many"])
@pytest.mark.parametrize("seed", range(5))
def test_any_division_gives_the_same(seed: int, most: tuple[int, int], monkeypatch: pytest.MonkeyPatch) -> None:
    # GIVEN writes in batches, some of which are joined early or sent elsewhere
    chance = random.Random(seed)
    rows = rows_at_random(chance, 300)
    monkeypatch.setattr(range_writes, "_MOST_OF_FILE", most[0])
    monkeypatch.setattr(range_writes, "_MOST", most[1])
    whole = part_of([rows])
    expected = as_rows(whole)
    monkeypatch.setattr(range_writes, "_FEW", chance.choice((3, 50, 1000)))
    batches = [rows[at : at + 17] for at in range(0, len(rows), 17)]
    middle = chance.randrange(len(batches))
    left, right = part_of(batches[:middle]), pickle.loads(pickle.dumps(part_of(batches[middle:])))
    left.update(right)
    # THEN the pieces are those of all at once, and files, or all, are left out alike
    assert as_rows(left) == expected and (left.full, left.opens) == (whole.full, whole.opens)
    assert whole.full == (most[1] < 1000) and bool(expected) != whole.full


@pytest.mark.parametrize("seed", range(20))
def test_contested_bytes_are_those_of_a_plain_loop(seed: int) -> None:
    rows = rows_at_random(random.Random(seed), 12)
    expected = {
        (file, byte)
        for file, process, _, start, end, _, _ in rows
        for byte in range(start, end)
        if any(a == file and p != process and s <= byte < e for a, p, _, s, e, _, _ in rows)
    }
    found = [
        (one.file, byte, earlier, later)
        for one in contested(range_writes._joined(pieces_of(rows)))
        for start, end, earlier, later in zip(
            *(one.rows[name].tolist() for name in ("start", "end", "earlier", "later")), strict=True
        )
        for byte in range(start, end)
    ]
    assert {(file, byte) for file, byte, _, _ in found} == expected and all(a != b for _, _, a, b in found)
