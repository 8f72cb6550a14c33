"""What forked processes share without the process that opened it: positions of descriptors, handles of libraries."""

from __future__ import annotations

import pytest

from tests.support.findings import evidence_of, findings_of, none, only
from tests.support.programs import Runner

pytestmark = pytest.mark.once

#: Two children, which begin to work when both are there.  OPEN runs in the parent, WORK in each of them.
SIBLINGS = """
import os, sys
IMPORT
OPEN
begin, ready = os.pipe()
here, there = os.pipe()
children = []
for n in range(2):
    child = os.fork()
    if not child:
        os.write(there, b".")
        os.read(begin, 1)
        for k in range(30):
            WORK
        os._exit(0)
    children.append(child)
for n in range(2): os.read(here, 1)
os.write(ready, b"..")
for child in children: os.waitpid(child, 0)
"""
ROWS = 'open("rows.bin", "wb").write(bytes(6400)); file = open("rows.bin", "rb", buffering=0)'
ZIP = """
with zipfile.ZipFile("rows.zip", "w") as made: made.writestr("member", bytes(100_000))
file = zipfile.ZipFile("rows.zip")
"""
TABLE = """
made = sqlite3.connect("rows.db")
made.execute("create table t (n)"); made.executemany("insert into t values (?)", [(n,) for n in range(9)])
made.commit(); made.close()
file = sqlite3.connect("rows.db"); file.execute("select * from t").fetchall()
"""
ARRAY = """
with h5py.File("rows.h5", "w") as made: made.create_dataset("x", data=list(range(9000)), chunks=(100,))
file = h5py.File("rows.h5")
"""


def siblings(opening: str, work: str, module: str = "array") -> str:
    made = SIBLINGS.replace("IMPORT", f"import {module}").replace("OPEN", opening.strip())
    return made.replace("WORK", work)


@pytest.mark.parametrize(
    ("opening", "work", "module", "kind", "library"),
    [
        (ROWS, "file.seek(n * 64); file.read(64)", "array", "position", "python"),
        (ROWS, "os.readv(file.fileno(), [bytearray(64)])", "array", "position", "python"),
        (ZIP, 'file.open("member").seek(0) and None', "zipfile", "position", "python"),
        (TABLE, 'file.execute("select n from t").fetchall()', "sqlite3", "handle", "sqlite3"),
        (ARRAY, 'file["x"][k * 200 + n * 100]', "h5py", "handle", "h5py"),
    ],
    ids=["seek", "readv", "zip", "sqlite3", "h5py"],
)
def test_children_that_share(program: Runner, opening: str, work: str, module: str, kind: str, library: str) -> None:
    # GIVEN what a parent opened and two children use, while the parent leaves it alone WHEN findings are made
    pytest.importorskip(module)
    outcome = program.traced(siblings(opening, work, module))
    finding = only(findings_of(outcome), "handle-over-fork")
    # THEN it is critical, names the line in the children and the library's way to open it, and is not about time
    assert finding.severity == "critical" and finding.recoverable_ns == 0 and finding.makes_wrong
    assert finding.title.startswith(f"A {kind} in a file is shared over a fork: rows.")
    assert finding.remedy is not None and finding.remedy.library == library
    (line,) = [n for n, text in enumerate(siblings(opening, work, module).split("\n"), 1) if work in text]
    assert line in [site.line for site in finding.sites] and len(finding.processes) == 2
    rows = evidence_of(finding, outcome.log)
    assert len({row["process"] for row in rows}) == 2
    assert finding.evidence[0].values["child_calls"] == sum(
        int(row["calls"]) for row in rows if "read" in row["op"] or row["op"] == "lseek"
    )


@pytest.mark.parametrize(
    ("opening", "work"),
    [
        (ROWS, "os.pread(file.fileno(), 64, n * 64)"),
        (ROWS, 'own = open("rows.bin", "rb", buffering=0); own.read(64); own.close()'),
        ('file = open("log", "wb", buffering=0)', 'file.write(b"record")'),
        ('os.mkfifo("jobs"); file = os.open("jobs", os.O_RDWR); os.write(file, bytes(60))', "os.read(file, 1)"),
        ("read, file = os.pipe(); os.write(file, bytes(60))", "os.read(read, 1)"),
    ],
    ids=["pread", "own", "log", "fifo", "pipe"],
)
def test_children_that_share_nothing_that_matters(program: Runner, opening: str, work: str) -> None:
    # GIVEN children that name the place, open the file themselves, append records, or take from a queue
    # WHEN findings are made THEN nothing is said of a position
    assert none(findings_of(program.traced(siblings(opening, work))), "handle-over-fork")


IN_TURN = """
import os
open("rows.bin", "wb").write(bytes(6400))
file = open("rows.bin", "rb", buffering=0)
for n in range(2):
    child = os.fork()
    if not child:
        file.read(64)
        os._exit(0)
    os.waitpid(child, 0)
"""


def test_children_one_after_the_other(program: Runner) -> None:
    # GIVEN a child that has ended before the next one begins WHEN findings are made THEN nothing moved under it
    assert none(findings_of(program.traced(IN_TURN)), "handle-over-fork")


GRANDCHILDREN = """
import os
open("rows.bin", "wb").write(bytes(6400))
file = open("rows.bin", "rb", buffering=0)
begin, ready = os.pipe()
here, there = os.pipe()
if not os.fork():
    for n in range(2):
        if not os.fork():
            os.write(there, b".")
            os.read(begin, 1)
            file.seek(n * 64); file.read(64)
            os._exit(0)
    for n in range(2): os.read(here, 1)
    os.write(ready, b"..")
    for n in range(2): os.wait()
    os._exit(0)
os.wait()
"""


def test_grandchildren(program: Runner) -> None:
    # GIVEN grandchildren of the process that opened a file WHEN findings are made THEN theirs is one position
    finding = only(findings_of(program.traced(GRANDCHILDREN)), "handle-over-fork")
    assert finding.severity == "critical" and [site.line for site in finding.sites] == [12]
    assert finding.processes == [2, 3]
