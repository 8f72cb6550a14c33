"""The overview of real programs: its times are those of the rows, within what each program timed around its calls.

Times are compared with others of the same run that have them inside, or are inside, or are the same: a busy machine
makes all of them longer.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from pyio_trace.analysis.results.overview_figures import STATES, Overview, ProcessTime
from pyio_trace.analysis.summary import cost
from pyio_trace.analysis.summary.summarize import summarize
from pyio_trace.report.bars import Letters
from pyio_trace.report.overview_text import HEIGHT, WIDTH, overview_lines
from tests.support.programs import Outcome, Runner, succeeded

pytestmark = pytest.mark.once

#: What each program begins with: timed() adds up what its block takes, and done() prints it, as ns.
TIMING = """
import contextlib, json, os, time
times = {}
@contextlib.contextmanager
def timed(name):
    begin = time.perf_counter_ns()
    yield
    times[name] = times.get(name, 0) + time.perf_counter_ns() - begin
def done(): print(json.dumps(times))
"""


def seen(outcome: Outcome) -> tuple[Overview, ProcessTime, dict[str, Any]]:
    """(the overview, the first process, what the program timed), with the invariants checked."""
    assert outcome.status == 0, outcome.stderr
    summary = summarize(outcome.log, top=100)
    overview = summary.overview
    assert overview is not None
    for process in overview.processes:
        assert sum(process.split.state(state) for state in STATES) == process.split.wall_ns
    lines = overview_lines(summary, Letters())
    assert len(lines) <= HEIGHT and max(map(len, lines[:-1])) <= WIDTH
    return overview, overview.processes[0], json.loads(outcome.stdout.splitlines()[-1])


def line_of(overview: Overview, op: str) -> Any:
    return next(line for line in overview.lines if line.op == op)


def time_of(outcome: Outcome, **where: object) -> int:
    """ns of the rows with these values."""
    return sum(row["duration"] for row in outcome.select(**where))


@pytest.mark.parametrize("how", ["-c", "stdin"])
def test_a_program_without_a_file(program: Runner, how: str) -> None:
    # GIVEN a program that Python gets as an argument or on standard input, and that imports nothing new
    text = "import os\nfd = os.open('/etc/hostname', os.O_RDONLY)\nfor n in range(2000):\n    os.pread(fd, 5, n % 9)\n"
    env = {"PYIO_TRACE": "1", "PYIO_TRACE_QUIET": "1", "PYIO_TRACE_OUTPUT": str(program.folder / "run.pyio")}
    words = [sys.executable, "-c", text] if how == "-c" else ["sh", "-c", f"{sys.executable} - < script"]
    (program.folder / "script").write_text(text)
    # WHEN it is run traced THEN its I/O is its own, and neither a part of the start nor without a line
    outcome = succeeded(program.command(words, env))
    overview = summarize(outcome.log, top=100).overview
    assert overview is not None
    (process,) = (one for one in overview.processes if one.split.io_ns)
    assert process.split.io_ns == time_of(outcome, layer="posix", op=("open", "pread"))
    assert line_of(overview, "pread").line in ("<string>:4:<module>", "<stdin>:4:<module>")


def test_many_stats(program: Runner) -> None:
    outcome = program.traced(
        TIMING
        + """
with timed("all"):
    for n in range(20000):
        try: os.stat(f"item{n % 50}.txt")
        except OSError: pass
done()
"""
    )
    overview, process, timed = seen(outcome)
    # THEN the calls are counted by folder, and took at most what the loop did
    (line,) = [line for line in overview.lines if line.op == "stat" and line.count == 20_000]
    assert line.pattern == f"{program.folder}/item*.txt" and line.files == 50
    calls = time_of(outcome, op="stat", path=lambda path: "/item" in (path or ""))
    assert line.time_ns == calls <= process.split.io_ns <= timed["all"]
    assert overview.folders[0].folder == f"{program.folder}/" and overview.folders[0].calls >= 20_000


def test_checkpoints_with_fsync(program: Runner) -> None:
    outcome = program.traced(
        TIMING
        + """
for step in range(5):
    with open("tmp.ckpt", "wb") as f:
        f.write(bytes(1 << 20))
        f.flush()
        with timed("sync"): os.fsync(f.fileno())
    os.rename("tmp.ckpt", f"step{step}.ckpt")
done()
"""
    )
    overview, process, timed = seen(outcome)
    # THEN fsync is told from writing, as the program timed it, and the files show both names
    assert time_of(outcome, op="fsync") == process.split.sync_ns <= timed["sync"]
    group = next(one for one in overview.files if one.pattern.endswith("tmp.ckpt"))
    assert (group.files, group.opens, group.written) == (5, 5, 5 << 20)
    assert group.renamed_to == f"{program.folder}/step*.ckpt"


def test_gzip_and_json(program: Runner) -> None:
    outcome = program.traced(
        TIMING
        + """
import gzip
rows = [{"n": n, "name": "x" * 20} for n in range(20000)]
with timed("all"):
    with gzip.open("rows.json.gz", "wt") as f: json.dump(rows, f)
    with gzip.open("rows.json.gz", "rt") as f: json.load(f)
done()
"""
    )
    overview, process, timed = seen(outcome)
    # THEN it is a library's time but for the I/O in it, and within what the program timed
    library, calls = process.split.library_ns, time_of(outcome, op=("json.dump", "json.load"))
    assert calls - process.split.io_ns <= library <= timed["all"]
    assert line_of(overview, "json.dump").pattern == f"{program.folder}/rows.json.gz"


def test_csv(program: Runner) -> None:
    pytest.importorskip("pandas")
    outcome = program.traced(
        TIMING
        + """
with timed("first"):  # with the import, which reads a file or two by requests
    import pandas
    pandas.DataFrame({"x": range(50000), "y": 0.5}).to_csv("t.csv")
    pandas.read_csv("t.csv")
with timed("all"): pandas.read_csv("t.csv")
done()
"""
    )
    _, process, timed = seen(outcome)
    calls = time_of(outcome, op=("DataFrame.to_csv", "pandas.read_csv"))
    assert 0 < calls - process.split.io_ns <= process.split.library_ns <= timed["all"] + timed["first"]


def test_a_column_of_chunks(program: Runner) -> None:
    pytest.importorskip("h5py")
    outcome = program.traced(
        TIMING
        + """
import h5py, numpy
with h5py.File("c.h5", "w") as f:
    f.create_dataset("t", data=numpy.arange(4096 * 256).reshape(4096, 256), chunks=(64, 256), compression="gzip")
with h5py.File("c.h5") as f:
    d = f["t"]
    with timed("all"):
        for c in range(10): d[:, c]
done()
"""
    )
    overview, process, timed = seen(outcome)
    # THEN the line says what was read how often, within what the program timed
    line = line_of(overview, "Dataset.__getitem__")
    assert (line.count, line.pattern) == (10, f"{program.folder}/c.h5")
    assert line.time_ns == time_of(outcome, op="Dataset.__getitem__") <= timed["all"]
    assert line.leaf_ns <= process.split.io_ns


@pytest.mark.frameworks("torch")
@pytest.mark.parametrize(
    "method", ["fork", *(pytest.param(one, marks=pytest.mark.slow) for one in ("spawn", "forkserver"))]
)
def test_a_training_loop(program: Runner, method: str) -> None:
    overview, process, timed = seen(
        program.traced(
            TIMING
            + f"""
import numpy
from torch.utils.data import DataLoader
class Images:
    def __len__(self): return 64
    def __getitem__(self, n): return numpy.load(f"img{{n:03}}.npy")
def main():
    for n in range(64): numpy.save(f"img{{n:03}}.npy", numpy.zeros((64, 64)))
    loader = DataLoader(Images(), 8, num_workers=2, multiprocessing_context="{method}")
    for epoch in range(2):
        with timed("epoch"):
            with timed("start"): batches = iter(loader)
            while True:
                with timed("wait"): batch = next(batches, None)
                if batch is None: break
                with timed("compute"): batch.double().sum()
    done()
if __name__ == "__main__":
    main()
"""
        )
    )
    # THEN the line of __getitem__ and the data files are named, the epochs are joined, the waits are the program's
    load = line_of(overview, "numpy.load")
    assert (load.count, load.pattern, load.files) == (128, f"{program.folder}/img*.npy", 64)
    assert [(one.epoch, one.workers, one.batches) for one in overview.loaders] == [(0, 2, 8), (1, 2, 8)]
    waited = sum(one.wait_ns + one.stop_ns for one in overview.loaders)
    assert 0 < waited <= timed["wait"]
    assert all(one.not_ready_ns + one.hand_over_ns == one.wait_ns for one in overview.loaders)
    started = sum(one.start_ns for one in overview.loaders)
    assert 0 < started <= timed["start"]
    # AND with what the program computes they are within its epochs
    assert started + waited + timed["compute"] <= timed["epoch"]
    assert process.split.waiting_ns + process.split.hand_over_ns >= waited // 2
    workers = [one for one in overview.processes if one.split.idle_ns is not None]
    assert len(workers) == 4 and all(one.split.io_ns for one in workers)
    # AND the fetches are what their workers were busy with, the line's calls within, and their I/O within these
    fetches = sum(one.fetch_ns for one in overview.loaders)
    busy = sum(one.split.io_ns + one.split.library_ns + one.split.hand_over_ns + one.split.task_ns for one in workers)
    assert fetches * 4 // 5 <= busy
    assert load.leaf_ns <= load.time_ns <= fetches
    assert sum(one.split.io_ns for one in workers) <= fetches
    # AND a worker that waits for its next batch is idle
    assert all(one.split.waiting_ns == 0 for one in workers)
    assert not any(line.op == "Queue.get" for line in overview.lines)


@pytest.mark.frameworks("torch")
def test_a_dataset_of_a_library(program: Runner) -> None:
    # GIVEN a library whose dataset reads shards: in the workers no line of the program is on the stack
    library = program.folder / "site-packages"
    library.mkdir()
    (library / "shards.py").write_text("""
from torch.utils.data import IterableDataset, get_worker_info
class Shards(IterableDataset):
    def __iter__(self):
        for shard in range(get_worker_info().id, 4, 2):
            with open(f"part{shard}.tar", "rb", 0) as file:
                while record := file.read(1000):
                    yield len(record)
""")
    overview, _, timed = seen(
        program.traced(
            TIMING
            + """
import sys
sys.path.insert(0, os.path.abspath("site-packages"))
from shards import Shards
from torch.utils.data import DataLoader
for shard in range(4):
    with open(f"part{shard}.tar", "wb") as file: file.write(bytes(10_000))
with timed("all"): assert sum(int(batch.sum()) for batch in DataLoader(Shards(), 5, num_workers=2)) == 40_000
done()
"""
        )
    )
    # THEN the library's line stands for what was read: 10 records and the end of each shard
    line = next(one for one in overview.lines if one.line.startswith(f"{library}/shards.py:7:"))
    assert (line.own, line.kind, line.op, line.count) == (False, "request", "FileIO.read", 44)
    assert (line.pattern, line.files) == (f"{program.folder}/part*.tar", 4)
    assert 0 < line.leaf_ns <= line.time_ns <= 2 * timed["all"]
    assert not any(one.line.startswith("task ") for one in overview.lines)


def test_a_pool_of_processes(program: Runner) -> None:
    # GIVEN a program that gives a pool work, and computes besides
    text = (
        TIMING
        + """
import multiprocessing
def work(number):
    time.sleep(0.02)
    with open(f"part{number}", "w") as file: return file.write("x" * 100)
if __name__ == "__main__":
    with multiprocessing.get_context("fork").Pool(2) as pool:
        with timed("wait"): written = pool.map(work, range(8), chunksize=1)
        with timed("compute"): sum(range(10**6))
    assert sum(written) == 800
    done()
"""
    )
    overview, process, timed = seen(program.traced(text))
    # THEN it waited for the pool in that line, and for no longer than it was in there
    (number,) = [at for at, one in enumerate(text.splitlines(), 1) if "pool.map" in one]
    line = line_of(overview, "Pool.wait")
    assert (line.kind, line.count, line.line.rpartition("/")[2]) == ("wait", 1, f"program.py:{number}:<module>")
    assert 0 < line.time_ns <= timed["wait"]
    assert line.time_ns <= process.split.waiting_ns + process.split.hand_over_ns
    # AND its processes ran tasks, and were idle outside
    workers = [one for one in overview.processes if one.kind == "pool workers"]
    assert len(workers) == 2 and all(one.split.idle_ns is not None for one in workers)
    assert sum(one.split.task_ns for one in workers) >= 8 * 20_000_000 * 9 // 10
    assert [(one.name, one.count) for one in overview.tasks] == [("work", 8)]


def test_waiting_for_a_child(program: Runner) -> None:
    outcome = program.traced(
        TIMING
        + """
import subprocess, sys
child = subprocess.Popen([sys.executable, "-S", "-c", "sum(range(3_000_000))"])
with timed("wait"): child.wait()
done()
"""
    )
    overview, process, timed = seen(outcome)
    # THEN the wait is the program's, and no I/O; the child's line says what it is
    line = next(line for line in overview.lines if line.kind == "wait")
    assert 0 < line.time_ns <= process.split.waiting_ns <= timed["wait"]
    assert line.op.startswith("wait") and line.leaf_ns == 0


def test_imports_and_computing(program: Runner) -> None:
    (program.folder / "slow_to_import.py").write_text(
        "import time\nbegin = time.perf_counter_ns()\ntotal = sum(range(2_000_000))\n"
        "took = time.perf_counter_ns() - begin\n"
    )
    outcome = program.traced(
        TIMING
        + """
import slow_to_import
times["import"] = slow_to_import.took
with timed("compute"): total = sum(range(2_000_000))
done()
"""
    )
    _, process, timed = seen(outcome)
    # THEN an import is a part of starting, although nothing in it does I/O; computing is not (two clocks are compared)
    split = process.split
    assert 0.99 * timed["import"] <= split.starting_ns <= split.wall_ns - 0.99 * timed["compute"]
    assert 0.99 * timed["compute"] <= split.other_ns <= split.wall_ns - 0.99 * timed["import"]
    assert summarize(outcome.log).imports.time >= 0.99 * timed["import"]


def test_a_thread_that_reads_while_the_main_thread_computes(program: Runner) -> None:
    _, process, timed = seen(
        program.traced(
            TIMING
            + """
import threading
with open("data", "wb") as f: f.write(bytes(8 << 20))
def read():
    with timed("read"):
        for _ in range(20):
            with open("data", "rb", buffering=0) as f: f.read()
thread = threading.Thread(target=read)
thread.start()
with timed("compute"):
    while thread.is_alive(): sum(range(1000))
thread.join()
done()
"""
        )
    )
    # THEN this I/O is beside the main thread's time, and in none of its states
    assert 0 < process.split.beside_ns <= timed["read"]
    assert process.split.other_ns >= 0.99 * timed["compute"]


def test_a_plain_program(program: Runner) -> None:
    overview, process, timed = seen(
        program.traced(
            TIMING
            + """
with timed("all"):
    with open("a.txt", "w") as f: f.write("x" * 100000)
    with open("a.txt") as f: f.read()
done()
"""
        )
    )
    assert 0 < process.split.io_ns + process.split.library_ns <= timed["all"]
    assert [(one.read, one.written) for one in overview.files if Path(one.pattern).name == "a.txt"] == [(100_000,) * 2]


def test_a_dask_job(program: Runner) -> None:
    pytest.importorskip("distributed")
    pytest.importorskip("pyarrow.dataset")
    outcome = program.traced(
        TIMING
        + """
def main():
    import dask.dataframe as dd, pandas
    from dask.distributed import Client, LocalCluster
    os.mkdir("parts")
    for n in range(4): pandas.DataFrame({"x": range(2000)}).to_parquet(f"parts/part.{n}.parquet")
    with LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster, Client(cluster):
        frame = dd.read_parquet("parts")
        with timed("all"): frame.to_csv("out/x-*.csv", index=False)
    done()
if __name__ == "__main__":
    main()
"""
    )
    overview, process, timed = seen(outcome)
    # THEN the client waited, the workers formatted, and the task stands for the line
    wait = line_of(overview, "dask.dataframe.to_csv")
    assert wait.kind == "wait" and time_of(outcome, op="dask.dataframe.to_csv") == wait.time_ns <= timed["all"]
    assert line_of(overview, "DataFrame.to_csv").line.startswith("task ")
    assert {Path(one.pattern).name for one in overview.files} >= {"x-*.csv", "part.*.parquet"}
    assert process.split.idle_ns is None and sum(one.split.library_ns for one in overview.processes[1:])
    # AND the tasks by name: four write, each for as long as its call at least
    (writes,) = [one for one in overview.tasks if "csv" in one.name]
    assert writes.count == 4 and 1 <= writes.processes <= 2
    written = sum(one.time_ns for one in overview.lines if one.op == "DataFrame.to_csv")
    assert 0 < writes.io_ns <= written <= writes.time_ns


def test_cost_of_libraries(program: Runner) -> None:
    # GIVEN a program that calls a library 200 times, and a file object more often
    pytest.importorskip("numpy")
    text = """
import numpy
numpy.save("x.npy", numpy.arange(4))
for n in range(199): numpy.load("x.npy")
with open("x.txt", "w") as f:
    for n in range(1000): f.write("x")
"""
    outcome = succeeded(program.traced(text))
    summary = summarize(outcome.log)
    # THEN what tracing costs has what the process measured of the library's calls, which cost more than their records
    records = cost.estimate(summary.run.records, summary.run.calls - summary.run.records, 0)
    [watching] = outcome.log.processes().column("watch_time").to_pylist()
    assert watching > 200 * cost.RECORDED
    assert summary.cost.time == pytest.approx(records + watching, abs=50 * cost.COUNTED)
