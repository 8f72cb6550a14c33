"""Findings of programs as people write them: one for each cause, none about what is not to blame; remedies run."""

from __future__ import annotations

import io
from importlib.util import find_spec

import pytest

from pyio_trace.analysis.summary.summarize import summarize
from pyio_trace.insights.finding import Finding, Query, Recoverable
from pyio_trace.insights.insights import Insights
from pyio_trace.report.findings_screen import findings_lines
from pyio_trace.report.findings_text import findings_section
from pyio_trace.report.overview_text import WIDTH
from tests.support.findings import evidence_of, findings_of, none, only
from tests.support.programs import Outcome, Runner, succeeded

pytestmark = pytest.mark.once

#: Counts the read() calls of this process, which the kernel does.
READS = """
def reads():
    with open("/proc/self/io") as f: return int(next(line for line in f if line.startswith("syscr")).split()[1])
"""


#: Rules about how a program uses its files.
ABOUT_FILES = {"reopen-per-item", "read-modify-write", "backward-reads", "small-accesses", "polling", "io-not-hidden"}

DATABASE = """
import sqlite3
OPEN
for n in range(150):
EACH
print(db.execute("SELECT count(*) FROM t").fetchone()[0])
db.close()
"""
MADE = 'db = sqlite3.connect("t.db"MORE); db.execute("CREATE TABLE t (x)")'


def database(program: Runner, each: str, more: str = "") -> Outcome:
    outcome = program.traced(DATABASE.replace("OPEN", MADE.replace("MORE", more)).replace("EACH", each))
    assert succeeded(outcome).stdout == "150\n"
    return outcome


@pytest.mark.parametrize(
    "each, line, more",
    [
        ("    db.execute('INSERT INTO t VALUES (?)', (n,))\n    db.commit()", 6, ""),
        ("    with db:\n        db.execute('INSERT INTO t VALUES (?)', (n,))", 5, ""),
        ("    db.execute('INSERT INTO t VALUES (?)', (n,))", 5, ", isolation_level=None"),
    ],
    ids=["commit", "with", "autocommit"],
)
def test_a_transaction_for_each_row(program: Runner, each: str, line: int, more: str) -> None:
    # GIVEN 150 rows, each of them a transaction WHEN the findings are made
    outcome = database(program, each, more)
    found = findings_of(outcome)
    finding = only(found, "commit-per-row")
    # THEN the commits are found, and nothing is said of what SQLite does with its files
    assert not {one.slug for one in found} & ABOUT_FILES
    assert finding.sites[0].line == line and finding.files == [f"{program.folder}/t.db"]
    assert sum(int(row["calls"]) for row in evidence_of(finding, outcome.log)) == 150
    # AND the remedy, run as it stands, makes one transaction of as many rows
    remedy = finding.remedy
    assert remedy is not None
    after = "rows = [(n,) for n in range(150)]\n" + remedy.after
    fixed = DATABASE.replace("OPEN", MADE.replace("t.db", "u.db").replace("MORE", more) + "\n" + after)
    outcome = program.traced(fixed.replace("for n in range(150):\nEACH\n", ""), log="fixed.pyio")
    assert succeeded(outcome).stdout == "150\n" and none(findings_of(outcome), "commit-per-row")


def test_lines_of_an_overview_name_the_database(program: Runner) -> None:
    # GIVEN commits that write a journal for longer than the database WHEN the lines are summed up
    outcome = database(program, "    with db: db.execute('INSERT INTO t VALUES (?)', (n,))")
    overview = summarize(outcome.log).overview
    assert overview is not None
    # THEN they name the database
    assert {line.pattern for line in overview.lines if line.own} == {f"{program.folder}/t.db"}


SCANS = """
import sqlite3
db = sqlite3.connect("q.db")
db.execute("CREATE TABLE t (id INTEGER, name TEXT, v REAL)")
with db: db.executemany("INSERT INTO t VALUES (?, ?, ?)", ((n, f"name {n}", n / 7) for n in range(150_000)))
wanted = range(100, 150_000, 10_000)
for n in wanted: db.execute("SELECT v FROM t WHERE id = ?", (n,)).fetchone()
"""


def test_statements_without_an_index(program: Runner) -> None:
    # GIVEN 15 statements that look at every row of a database that is larger than SQLite's cache
    outcome = program.traced(SCANS)
    found = findings_of(outcome)
    finding = only(found, "database-scan")
    # THEN it names the line, and its statements and bytes are those in the log
    reads = outcome.select(op=lambda op: op.startswith("pread"), path=program.folder / "q.db")
    values, whole = finding.evidence[0].values, (program.folder / "q.db").stat().st_size
    line = sum(row["bytes_moved"] or 0 for row in reads if ":7:" in (row["site"] or ""))
    assert (values["statements"], values["read"]) == (15, line) and line > 14 * 0.9 * whole
    assert finding.sites[0].line == 7 and len(evidence_of(finding, outcome.log)) == 15
    # AND the remedy, run as it stands, leaves nothing to say
    remedy = finding.remedy
    assert remedy is not None
    fixed = SCANS[: SCANS.index("for n in wanted")].replace("q.db", "indexed.db") + remedy.after
    outcome = succeeded(program.traced(fixed, log="fixed.pyio"))
    assert none(findings_of(outcome), "database-scan")


SMALL = """
for n in range(1200):
    with open(f"item{n}.txt", "w") as f: f.write(f"{n} " * 500)
total = 0
for n in range(1200):
    with open(f"item{n}.txt") as f: total += len(f.read().split())
assert total == 1200 * 500
"""


def test_small_files_that_are_read_whole(program: Runner) -> None:
    # GIVEN 1,200 small files, each read at once, and then once more to find its end
    found = findings_of(program.traced(SMALL))
    # THEN neither a larger buffer is advised, nor are reads of the end taken for quick ones
    assert none(found, "small-accesses") and none(found, "slow-first-operations")


def test_records_appended_by_opening_the_file_anew(program: Runner) -> None:
    # GIVEN a file that is opened for each of 1,500 lines
    text = "for n in range(1500):\n    with open('out.txt', 'a') as f: f.write(f'{n}\\n')\n"
    found = findings_of(program.traced(text))
    # THEN that is the cause, and not the size of the writes
    assert only(found, "reopen-per-item").remedy and none(found, "small-accesses")


def test_a_text_that_is_read_in_small_blocks(program: Runner) -> None:
    # GIVEN a text of 12 MB that is read line by line: in blocks of 8 KiB
    made = "with open('t.txt', 'w') as f: f.writelines(f'line {n}\\n' for n in range(1_000_000))\n"
    text = made + "with open('t.txt') as f: print(sum(len(line) for line in f))\n"
    outcome = program.traced(text)
    found = findings_of(outcome)
    [remedy] = [one.remedy for one in found if one.slug == "small-accesses" and one.sites[0].line == 2]
    assert remedy is not None
    # WHEN the code of the remedy is run THEN it makes a tenth of the calls, at most
    count = (
        READS
        + "path, use = 't.txt', len\nbegin = reads()\n{}\nmiddle = reads()\n{}\nprint(middle - begin, reads() - middle)"
    )
    outcome = program.bare(count.format(remedy.before, remedy.after))
    before, after = map(int, succeeded(outcome).stdout.split())
    assert 1000 < before < 3000 and after * 10 < before


LOGGING = """
import logging
class Handler(logging.FileHandler):
    def emit(self, record):
        super().emit(record)
        self.flush()
log = logging.getLogger("x")
log.addHandler(Handler("run.log"))
for n in range(1100): log.warning("step %d", n)
"""


def test_a_flush_of_what_was_flushed(program: Runner) -> None:
    # GIVEN two flushes for each record, of which the second one has nothing to write
    found = [finding for finding in findings_of(program.traced(LOGGING)) if finding.slug == "flush-per-record"]
    # THEN the first one is found, and its writes are not found twice
    assert [finding.sites[0].line for finding in found] == [5]


def test_lines_counted_one_by_one(program: Runner) -> None:
    # GIVEN short lines that a loop takes from a file, which is the fastest way
    text = (
        "with open('t.txt', 'w') as f: f.write('ab\\n' * 400_000)\n"
        "with open('t.txt', 'rb') as f: print(sum(1 for line in f))"
    )
    assert none(findings_of(program.traced(text)), "tiny-calls")


ARRAYS = """
import numpy
for n in range(2): numpy.save(f"day{n}.npy", numpy.ones((600 + 600 * n, 200)))
for n in range(30):
    for day in range(2): numpy.load(f"day{day}.npy")[n]
"""


@pytest.mark.skipif(find_spec("numpy") is None, reason="needs numpy")
def test_whole_arrays_again(program: Runner) -> None:
    # GIVEN two files that are loaded 30 times each, one after the other
    outcome = program.traced(ARRAYS)
    found = findings_of(outcome)
    # THEN they are one finding, and neither bytes that are read again nor a watch for changes
    finding = only(found, "whole-file-again")
    assert none(found, "read-again") and none(found, "polling")
    values = finding.evidence[0].values
    assert finding.title == "2 files are read whole, 60 times in all"
    size = sum((program.folder / f"day{n}.npy").stat().st_size for n in range(2))
    twice = 2 * io.DEFAULT_BUFFER_SIZE  # numpy reads the header through a buffer, and what else is in it again
    assert values["loads"] == 60 and abs(int(values["once"]) - size) < 10_000 + twice


FOLDERS = """
import os
for c in range(3):
    os.mkdir(f"class{c}")
    for n in range(12):
        with open(f"class{c}/{n}.jpg", "wb") as f: f.write(bytes(50_000))
def read(path):
    with open(path, "rb") as f:
        return f.read()
for epoch in range(4):
    for c in range(3):
        for n in range(12): read(f"class{c}/{n}.jpg")
"""


def test_files_of_several_folders_read_again(program: Runner) -> None:
    # GIVEN 36 files in three folders that one line reads four times
    outcome = program.traced(FOLDERS)
    finding = only(findings_of(outcome), "read-again")
    # THEN they are one finding, whose query gives all reads of all files
    assert finding.title.startswith("36 files: each byte is read 4 times") and len(finding.files) == 3
    assert sum(int(row["bytes"]) for row in evidence_of(finding, outcome.log)) == 4 * 36 * 50_000
    # AND its remedy reads each file once
    assert finding.remedy is not None
    text = READS + "import functools\n" + finding.remedy.after + "\nread('class0/0.jpg')\nbegin = reads()\n"
    again = program.bare(text + "for n in range(9): read('class0/0.jpg')\nprint(reads() - begin)")
    assert int(succeeded(again).stdout) <= 3  # those of /proc/self/io


LOOKING = """
import os
for n in range(60): open(f"name{n}", "w").close()
folders, names = ["/none/a", "none", "."], [f"name{n}" for n in range(60)]
for again in range(5):
    for name in names:
        for folder in folders:
            if os.path.exists(f"{folder}/{name}"): break
"""


def test_the_remedy_of_missing_paths(program: Runner) -> None:
    # GIVEN names that are looked for in folders of which only the last one is there
    finding = only(findings_of(program.traced(LOOKING)), "missing-paths")
    assert finding.remedy is not None
    # THEN the remedy finds them all without an error
    head = LOOKING.partition("for again")[0]
    outcome = program.bare(f"{head}{finding.remedy.after}\n    assert folder == '.'\nprint(len(where) >= 60)")
    assert succeeded(outcome).stdout == "True\n"


THREADS = """
import pickle
from concurrent.futures import ThreadPoolExecutor
with open("table.pkl", "wb") as f: pickle.dump(list(range(100_000)), f)
def score(n):
    with open("table.pkl", "rb") as f: return pickle.load(f)[n]
with ThreadPoolExecutor(2) as pool: print(sum(pool.map(score, range(8))))
"""


def test_tasks_of_a_pool_that_read_the_same(program: Runner) -> None:
    # GIVEN eight tasks of a pool of threads, each of which loads the same file
    finding = only(findings_of(program.traced(THREADS)), "tasks-read-again")
    # THEN they are named, in the words of Python and not of Dask
    assert "8 tasks (score) read 1 file 8 times" in finding.evidence[0].text
    assert finding.remedy is not None and finding.remedy.library == "python" and "delayed" not in finding.remedy.after


@pytest.mark.frameworks("torch")
def test_a_checkpoint_is_one_finding(program: Runner) -> None:
    # GIVEN checkpoints that are written at offsets as torch chooses them, and synced
    text = """
    import os, torch
    state = {f"w{n}": torch.zeros(100_001) for n in range(12)}
    for step in range(6):
        with open("c.pt", "wb") as f:
            torch.save(state, f)
            f.flush(); os.fsync(f.fileno())
    """
    found = findings_of(program.traced(text))
    # THEN what holds training up is said once
    assert not none(found, "checkpoint-stall") and none(found, "sync-again") and none(found, "unaligned-accesses")


def test_findings_in_the_summary() -> None:
    # GIVEN findings without lines WHEN they are printed in the summary
    def one(title: str) -> Finding:
        return Finding(title, 30_000_000, Recoverable("how", of_wall_ns=1_000_000_000), [], Query("SELECT 1"), slug="s")

    titles = ["Imports take 90 % of the run", "A flush after every 45 B", "ForkPoolWorker-1 waits", "Data.csv is read"]
    found = Insights([one(title) for title in titles])
    # THEN a finding without a line has its time too, and a name at the beginning stays as it is
    lines = findings_section(found, 9)[1:]
    assert [line.split(maxsplit=2)[:2] for line in lines] == [["30", "ms"]] * 4
    begun = [line.split(maxsplit=2)[2].split(" (")[0] for line in lines]
    assert begun == ["imports take 90 % of the run", "a flush after every 45 B", *titles[2:]]
    # AND no line ends in spaces
    text = list(findings_lines(found))
    assert all(line == line.rstrip() and len(line) <= WIDTH for line in text)


WORDS = """
import os
for n in range(600):
    with open(f"item{n}.txt", "w") as f: f.write(f"{n} " * 500)
paths = [f"item{n}.txt" for n in range(600)]
FIRST
for path in paths:
    with open(path) as f: f.read()
LAST
"""


def test_files_asked_for_after_they_were_opened(program: Runner) -> None:
    # GIVEN files that are looked for before they are opened, or after
    sizes = "print(sum(map(os.path.exists, paths)))"
    made, _, rest = WORDS.partition("paths = ")
    succeeded(program.traced(made, log="made.pyio"))
    before, after = (
        findings_of(program.traced("import os\npaths = " + rest.replace(first, sizes).replace(last, ""), log=log))
        for first, last, log in (("FIRST", "LAST", "before.pyio"), ("LAST", "FIRST", "after.pyio"))
    )
    # THEN only the former asks before it opens
    assert only(before, "ask-before-open").evidence[0].values["files"] == 600 and none(after, "ask-before-open")


def test_writes_are_no_reads_to_hide(program: Runner) -> None:
    # GIVEN a program that writes much and reads a little all the time
    text = """
    import os
    open("in.txt", "w").write("x" * 100_000)
    f, out = os.open("in.txt", os.O_RDONLY), os.open("out.bin", os.O_WRONLY | os.O_CREAT)
    data = bytes(400_000)
    for n in range(300):
        os.pread(f, 10, n)
        for _ in range(20): os.pwrite(out, data, 0)
        sum(range(20_000))
    """
    # THEN nothing is said of reading ahead
    assert none(findings_of(program.traced(text)), "io-not-hidden")


def test_the_remedy_of_many_small_files(program: Runner) -> None:
    # GIVEN 1,200 small texts, written and read
    found = [finding for finding in findings_of(program.traced(SMALL)) if finding.slug == "small-files"]
    write, read = sorted(found, key=lambda finding: finding.sites[0].line)
    assert write.remedy is not None and read.remedy is not None
    # WHEN the remedies run as they stand THEN what was written to one archive is read from it
    text = "import zipfile\nseen = []\nuse = seen.append\nitems = [(f'{n}.txt', f'text {n}') for n in range(50)]\n"
    outcome = program.bare(f"{text}{write.remedy.after}\n{read.remedy.after}\nprint(len(seen), seen[7].decode())")
    assert succeeded(outcome).stdout == "50 text 7\n"


SHELLS = """
import subprocess
for n in range(30):
    with open(f"item{n}.txt", "w") as f: f.write("x\\n" * n)
paths = [f"item{n}.txt" for n in range(30)]
RUN
"""


def test_a_process_for_each_file(program: Runner) -> None:
    # GIVEN a shell for each of 30 files
    each = "for path in paths: subprocess.check_output(f'wc -l < {path}', shell=True)"
    outcome = program.traced(SHELLS.replace("RUN", each))
    finding = only(findings_of(outcome), "process-per-item")
    # THEN they are counted, and their line is named
    assert finding.evidence[0].values["processes"] == 30 and finding.sites[0].line == 6
    assert len(evidence_of(finding, outcome.log)) == 30
    # AND the remedy, run as it stands, starts one
    assert finding.remedy is not None
    outcome = program.traced(SHELLS.replace("RUN", finding.remedy.after))
    assert none(findings_of(outcome), "process-per-item") and (program.folder / "item7.txt.gz").exists()


USED = """
import os, pathlib, time
for n in range(25):
    for c in range(3): pathlib.Path(f"class{c}").mkdir(exist_ok=True)
    time.sleep(0.1)
"""


def test_folders_that_are_made_if_they_are_missing(program: Runner) -> None:
    # GIVEN folders that a program makes again and again, at a steady pace
    # THEN it does not wait for them
    assert none(findings_of(program.traced(USED)), "polling")


def test_several_paths_that_are_watched(program: Runner) -> None:
    # GIVEN three paths that one line asks for every 100 ms
    text = USED.replace('pathlib.Path(f"class{c}").mkdir(exist_ok=True)', 'os.path.exists(f"class{c}")')
    outcome = program.traced(text)
    # THEN they are one finding
    finding = only(findings_of(outcome), "polling")
    assert finding.evidence[0].values["calls"] == 75 == len(evidence_of(finding, outcome.log))
    assert finding.title.startswith("75 calls ask for 3 paths, of each one every")


ROTATING = """
import logging, logging.handlers
HANDLER
log = logging.getLogger("x")
log.addHandler(handler)
for n in range(1500): log.warning("step %d, as long as a line of a log is", n)
logging.shutdown()
"""


def test_the_remedy_of_a_log(program: Runner) -> None:
    # GIVEN a log of 1,500 records, each of which its handler flushes, after it has moved to the end, which flushes too
    handler = "handler = logging.handlers.RotatingFileHandler('run.log', maxBytes=1 << 30)"
    outcome = program.traced(ROTATING.replace("HANDLER", handler))
    found = findings_of(outcome)
    finding = only(found, "flush-per-record")
    # THEN a flush is said to write a record, and neither its small writes nor the handler's stats are found again
    size = (program.folder / "run.log").stat().st_size
    assert finding.title == f"A flush after every {size // 1500} B"
    assert none(found, "small-accesses") and none(found, "stat-storm")
    # AND with the handler of the remedy the same log is written in a few calls
    assert finding.remedy is not None
    made = "path = 'new.log'\n" + finding.remedy.after
    outcome = succeeded(program.traced(ROTATING.replace("HANDLER", made), log="fixed.pyio"))
    assert (program.folder / "new.log").stat().st_size == size
    assert len(outcome.select(op="write", path=program.folder / "new.log")) <= size // 8192 + 1


def test_a_shelf_is_one_finding(program: Runner) -> None:
    # GIVEN a shelf whose dumb database opens its files for each key
    text = """
    import dbm.dumb, shelve
    with shelve.Shelf(dbm.dumb.open("s")) as shelf:
        for n in range(300): shelf[str(n)] = n; shelf.sync()
    """
    found = findings_of(program.traced(text))
    assert only(found, "shelve-sync") and none(found, "reopen-per-item")
