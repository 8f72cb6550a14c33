"""Rules about several processes: balance, start-up, what is shared over a fork."""

from __future__ import annotations

import pytest

from pyio_trace.analysis.summary.summarize import summarize
from pyio_trace.insights.settings import Settings
from tests.support.findings import evidence_of, findings_of, none, only
from tests.support.programs import Outcome, Runner

pytestmark = pytest.mark.once

#: Four workers, each writes the megabytes of MIB.
WORKERS = """
import multiprocessing, os
def work(n, mib):
    with open(f"out{n}.bin", "wb") as f:
        for _ in range(mib): f.write(bytes(1 << 20))
if __name__ == "__main__":
    workers = [multiprocessing.Process(target=work, args=(n, mib)) for n, mib in enumerate(MIB)]
    for one in workers: one.start()
    for one in workers: one.join()
"""


def test_one_process_does_all(program: Runner) -> None:
    outcome = program.traced(WORKERS.replace("MIB", "(1, 1, 30, 0)"))
    found = findings_of(outcome)
    finding = only(found, "one-does-all")
    assert finding.evidence[0].values["bytes"] == 30 << 20 and finding.evidence[0].values["of_bytes"] == 32 << 20
    assert finding.sites[0].line in (4, 5)
    (worst,) = finding.processes
    rows = evidence_of(finding, outcome.log)
    assert rows[0]["process"] == worst and int(rows[0]["bytes"]) == 30 << 20


def test_a_straggler(program: Runner) -> None:
    outcome = program.traced(WORKERS.replace("MIB", "(4, 4, 4, 30)"))
    found = findings_of(outcome)
    finding = only(found, "stragglers")
    assert finding.evidence[0].values["bytes"] == 30 << 20
    assert finding.evidence[0].values["mean_bytes"] == 42 * (1 << 20) // 4
    assert int(evidence_of(finding, outcome.log)[0]["bytes"]) == 30 << 20
    assert none(found, "one-does-all")


def test_balanced_processes(program: Runner) -> None:
    found = findings_of(program.traced(WORKERS.replace("MIB", "(8, 8, 8, 8)")))
    assert none(found, "stragglers") and none(found, "one-does-all")


SHARED = """
import os
open("out.bin", "wb").close()
for n in range(3):
    if not os.fork():
        name = "out.bin" if SHARED else f"out{n}.bin"
        f = os.open(name, os.O_RDWR | os.O_CREAT)
        for k in range(50): os.pwrite(f, bytes(100), (3 * k + n) * 100)
        os._exit(0)
for n in range(3): os.wait()
"""


def test_one_file_of_several_processes(program: Runner) -> None:
    outcome = program.traced(SHARED.replace("SHARED", "True"))
    finding = only(findings_of(outcome), "shared-file")
    assert finding.evidence[0].values["processes"] == 3 and finding.evidence[0].values["writes"] == 150
    assert finding.files == [f"{program.folder}/out.bin"] and [site.line for site in finding.sites] == [8]
    assert [int(row["calls"]) for row in evidence_of(finding, outcome.log)] == [50] * 3


def test_a_file_of_each_process(program: Runner) -> None:
    assert none(findings_of(program.traced(SHARED.replace("SHARED", "False"))), "shared-file")


FORK = """
import os
with open("data.bin", "wb") as f: f.write(bytes(100_000))
f = open("data.bin", "rb")
pid = os.fork()
if not pid:
    AGAIN
    f.seek(50_000); f.read(10)
    os._exit(0)
os.waitpid(pid, 0)
f.read(20)
"""


def test_a_position_shared_over_a_fork(program: Runner) -> None:
    outcome = program.traced(FORK.replace("AGAIN", "pass"))
    finding = only(findings_of(outcome), "handle-over-fork")
    assert finding.severity == "critical" and finding.files == [f"{program.folder}/data.bin"]
    assert {site.line for site in finding.sites} == {8, 11} and finding.processes == [0, 1]
    assert finding.recoverable_ns == 0 and findings_of(outcome)[0].slug == "handle-over-fork"


def test_a_file_opened_after_the_fork(program: Runner) -> None:
    assert none(findings_of(program.traced(FORK.replace("AGAIN", 'f = open("data.bin", "rb")'))), "handle-over-fork")


HANDLE = """
import h5py, numpy, os
with h5py.File("x.h5", "w") as f: f["x"] = numpy.arange(100_000)
f = h5py.File("x.h5")
pid = os.fork()
if not pid:
    AGAIN
    f["x"][1000:50_000]
    os._exit(0)
os.waitpid(pid, 0)
f["x"][:50_000]
"""


def test_a_handle_shared_over_a_fork(program: Runner) -> None:
    pytest.importorskip("h5py")
    outcome = program.traced(HANDLE.replace("AGAIN", "pass"))
    finding = only(findings_of(outcome), "handle-over-fork")
    assert finding.files == [f"{program.folder}/x.h5"] and {site.line for site in finding.sites} == {8, 11}


def test_a_handle_of_each_process(program: Runner) -> None:
    pytest.importorskip("h5py")
    outcome = program.traced(HANDLE.replace("AGAIN", 'f = h5py.File("x.h5")'))
    assert none(findings_of(outcome), "handle-over-fork")


INTERPRETERS = """
import subprocess, sys
for n in range(COUNT): subprocess.run([sys.executable, "-c", "pass"], check=True)
"""


def test_an_interpreter_for_each_item(program: Runner) -> None:
    outcome = program.traced(INTERPRETERS.replace("COUNT", "12"))
    finding = only(findings_of(outcome), "many-interpreters")
    assert finding.evidence[0].values["interpreters"] == 12 and [site.line for site in finding.sites] == [3]
    assert finding.recoverable_ns > 0
    assert len(evidence_of(finding, outcome.log)) == 12


def test_few_interpreters(program: Runner) -> None:
    assert none(findings_of(program.traced(INTERPRETERS.replace("COUNT", "3"))), "many-interpreters")


SPAWNED = """
import multiprocessing
def work(): pass
if __name__ == "__main__":
    context = multiprocessing.get_context("METHOD")
    for n in range(12):
        worker = context.Process(target=work)
        worker.start()
        worker.join()
"""


def test_a_worker_for_each_item(program: Runner) -> None:
    # GIVEN workers of multiprocessing, each of which is a new interpreter, or a fork of one
    finding = only(findings_of(program.traced(SPAWNED.replace("METHOD", "spawn"))), "many-interpreters")
    assert finding.evidence[0].values["interpreters"] == 12 and [site.line for site in finding.sites] == [8]
    # THEN the remedy is one for multiprocessing, and it is one
    assert finding.remedy is not None and "forkserver" in finding.remedy.after
    served = program.traced(SPAWNED.replace("METHOD", "forkserver"), log="served.pyio")
    assert none(findings_of(served), "many-interpreters")


IMPORTS = """
import os, sys
os.mkdir("modules")
for n in range(2000): open(f"modules/m{n}.py", "w").close()
sys.path.insert(0, "modules")
for n in range(COUNT): __import__(f"m{n}")
"""
#: What a program of several starts imports: each makes some hundreds of calls on files.
STARTS = """
import subprocess, sys
for n in range(6): subprocess.run([sys.executable, "-c", "import argparse, json, shutil, subprocess"], check=True)
"""
#: The environment of a log that has the calls of imports, and of one that only counts them.
ROWS = [{"PYIO_TRACE_INCLUDE": "imports"}, {}]


def test_many_imports(program: Runner) -> None:
    outcome = program.traced(IMPORTS.replace("COUNT", "400"))
    finding = only(findings_of(outcome), "import-storm")
    assert finding.evidence[0].values["imports"] >= 400 and finding.severity == "info"
    assert evidence_of(finding, outcome.log)[0]["imports"] >= 400


def test_packages_of_many_imports(program: Runner) -> None:
    # GIVEN many modules, and one that takes longest WHEN findings are made THEN it is named
    slow = IMPORTS.replace("COUNT", "400") + 'open("slow.py", "w").write("import time; time.sleep(0.2)")\nimport slow'
    finding = only(findings_of(program.traced(slow)), "import-storm")
    assert "each without others: slow 2" in finding.evidence[-1].text


def test_many_imports_with_rows(program: Runner) -> None:
    # GIVEN a log that has the calls of imports WHEN findings are made THEN they are priced, and the folder is named
    outcome = program.traced(IMPORTS.replace("COUNT", "400"), env=ROWS[0])
    finding = only(findings_of(outcome), "import-storm")
    # each module is looked for, opened, read and closed at least
    assert int(finding.evidence[0].values["calls"]) >= 4 * 400
    assert finding.recoverable_ns <= finding.evidence[1].values["io_ns"]
    # most calls by far are on these modules, so no three other folders take more time
    assert f"{program.folder}/modules/" in finding.evidence[1].text


@pytest.mark.parametrize("env", ROWS)
def test_one_module_of_a_large_folder(program: Runner, env: dict[str, str]) -> None:
    # GIVEN an import for which Python lists a folder of 2,000 modules THEN its names are no calls on files
    outcome = program.traced(IMPORTS.replace("COUNT", "1"), env=env)
    assert summarize(outcome.log).imports.count > 0
    assert none(findings_of(outcome), "import-storm")


@pytest.mark.parametrize("env", ROWS)
def test_imports_of_several_processes(program: Runner, env: dict[str, str]) -> None:
    # GIVEN processes that import a little each, together as much as a storm
    outcome = program.traced(STARTS, env=env)
    assert summarize(outcome.log).imports.count > 2000
    # THEN no process is blamed for what others import
    assert none(findings_of(outcome), "import-storm")


TURNS = """
import os, threading
f = open("data.bin", "rb", buffering=0)
def read():
    for n in range(64): f.read(SIZE)
def work():
    sum(range(300_000))
READS
"""
_ANY = Settings(limits={"io-not-hidden": {"share": 0, "spread": 0}})


def _turns(program: Runner, size: int, reads: str) -> Outcome:
    with open(program.folder / "data.bin", "wb") as f:
        f.truncate(256 * size)
    return program.traced(TURNS.replace("READS", reads).replace("SIZE", str(size)))


def test_reading_and_computing_by_turns(program: Runner) -> None:
    outcome = _turns(program, 1 << 20, "for _ in range(4): read(); work()")
    finding = only(findings_of(outcome, _ANY), "io-not-hidden")
    assert finding.evidence[0].values["reads"] == 256 and [site.line for site in finding.sites] == [5]
    assert [int(row["calls"]) for row in evidence_of(finding, outcome.log)] == [256]


def test_a_thread_does_not_help_with_tiny_reads(program: Runner) -> None:
    # GIVEN reads that take less than it takes to give what they read to another thread
    outcome = _turns(program, 16, "for _ in range(40): read(); work()")
    # THEN nobody is told to do that
    assert none(findings_of(outcome, _ANY), "io-not-hidden")


def test_reading_in_another_thread(program: Runner) -> None:
    # GIVEN threads that read while the main thread computes
    reads = """
t = [threading.Thread(target=read) for _ in range(4)]
for one in t: one.start()
while any(one.is_alive() for one in t): work()
"""
    outcome = _turns(program, 1 << 16, reads)
    # WHEN findings are made THEN the reads count as hidden
    assert none(findings_of(outcome, _ANY), "io-not-hidden")


FILES = """
import multiprocessing
def convert(n):
    with open(f"part{n}.bin", "rb") as f:
        while f.read(1 << 20): pass
if __name__ == "__main__":
    for n, mib in enumerate(MIB):
        with open(f"part{n}.bin", "wb") as f: f.write(bytes(mib << 20))
    with multiprocessing.Pool(2) as pool: pool.map(convert, range(len(MIB)), chunksize=1)
"""


def test_one_file_far_larger_than_the_others(program: Runner) -> None:
    outcome = program.traced(FILES.replace("MIB", "(1, 1, 1, 24, 1, 1, 1, 1)"))
    finding = only(findings_of(outcome), "unequal-files")
    values = finding.evidence[0].values
    assert (values["bytes"], values["usual"], values["files"]) == (48 << 20, 2 << 20, 8)  # written and read
    assert finding.files == [f"{program.folder}/part3.bin"]
    assert sum(int(row["bytes"]) for row in evidence_of(finding, outcome.log)) == 48 << 20


def test_files_of_equal_size(program: Runner) -> None:
    assert none(findings_of(program.traced(FILES.replace("MIB", "(4, 4, 4, 4, 4, 4, 4, 4)"))), "unequal-files")


THREADS = """
import hashlib, os, threading
lock = threading.Lock()
def read():
    f = os.open("data.bin", os.O_RDONLY)
    for n in range(40):
        LOCK: data = os.pread(f, 12 << 20, 0)
        hashlib.sha256(data[: 1 << 20])
threads = [threading.Thread(target=read) for _ in range(3)]
for one in threads: one.start()
for one in threads: one.join()
"""


def test_threads_that_read_with_one_lock(program: Runner) -> None:
    # GIVEN three threads that read under a lock, which makes them take turns, or without one
    (program.folder / "data.bin").write_bytes(bytes(12 << 20))
    # How often threads are switched, and how long they wait, is the machine's: calls with the lock are never at once,
    # and of 120 without it some are.
    settings = Settings(limits={"threads-in-turns": {"switches": 0, "share": 0, "at_once": 0}})
    outcome = program.traced(THREADS.replace("LOCK", "with lock"))
    finding = only(findings_of(outcome, settings), "threads-in-turns")
    values = finding.evidence[0].values
    assert values["threads"] == 3 and 100 <= int(values["calls"]) <= 120 and values["at_once_ns"] == 0
    assert [site.line for site in finding.sites] == [7]
    assert sum(int(row["calls"]) for row in evidence_of(finding, outcome.log)) == 120
    free = program.traced(THREADS.replace("LOCK", "if True"), log="free.pyio")
    assert none(findings_of(free, settings), "threads-in-turns")
