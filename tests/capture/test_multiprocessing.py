"""Pools and processes of multiprocessing, in each of its start methods."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from tests.support.programs import Runner, alike, succeeded

BLOCK = 4096
METHODS = ("fork", "spawn", "forkserver")

POOL = """\
import multiprocessing, os, sys

def read(job):
    path, first = job
    fd = os.open(path, os.O_RDONLY)
    for n in range(first, first + 250):
        os.pread(fd, 4096, n * 4096)
    os.close(fd)
    return os.getpid()

if __name__ == "__main__":
    path, method, end = sys.argv[1:]
    with multiprocessing.get_context(method).Pool(2) as pool:
        pids = pool.map(read, [(path, first) for first in range(0, 1000, 250)], chunksize=1)
        if end == "close":
            pool.close()
            pool.join()
    print(*sorted(set(pids)))
"""


@pytest.mark.parametrize("end", ["close", "terminate"])
@pytest.mark.parametrize("method", METHODS)
def test_pool(program: Runner, data: Path, method: str, end: str) -> None:
    # GIVEN a pool of two processes that read a file between them
    # WHEN it is run traced, and the pool is closed, or terminated by its context manager
    outcome = succeeded(program.traced(POOL, data, method, end))
    # THEN all 1000 reads are in the one log, by the workers, with their offsets
    rows = outcome.select(op="pread", path=data)
    assert sorted(row["file_offset"] for row in rows) == [n * BLOCK for n in range(1000)]
    workers = {int(pid) for pid in outcome.stdout.split()}
    assert {row["pid"] for row in rows} == workers
    assert len(outcome.select(op="close", path=data, pid=workers)) == 4
    # THEN each worker is in the process table with its end, and descends from the top process
    for pid in workers:
        entry = outcome.process(pid)
        assert entry["followed"]
        if method != "forkserver":  # whose workers' ends only the fork server sees
            assert entry["ended"] in ({"exit 0"} if end == "close" else {"exit 0", "signal 15 (SIGTERM)"})
        while entry["parent"] is not None:
            entry = outcome.processes[entry["parent"]]
        assert entry["pid"] == outcome.pid
    assert outcome.stderr == ""


LINES = """\
import multiprocessing, os, sys
from concurrent.futures import ProcessPoolExecutor

def own(pipe):
    pipe.send(os.getpid())

def pid(_):
    return os.getpid()

class Worker(multiprocessing.get_context("METHOD").Process):
    def run(self):
        own(self._args[0])

if __name__ == "__main__":
    context = multiprocessing.get_context("METHOD")
    ours, theirs = context.Pipe()
    process = context.Process(target=own, args=[theirs])
    process.start()  # process
    print("process", ours.recv())
    process.join()
    process = Worker(args=[theirs])
    process.start()  # subclass
    print("subclass", ours.recv())
    process.join()
    with context.Pool(1) as pool:  # pool
        print("pool", *pool.map(pid, [0]))
    with ProcessPoolExecutor(1, mp_context=context) as pool:
        print("executor", pool.submit(pid, 0).result())  # executor
"""


@pytest.mark.parametrize("method", METHODS)
def test_lines_that_started_processes(program: Runner, method: str) -> None:
    # GIVEN processes started by start(), of a subclass too, by a pool and by an executor
    text = LINES.replace("METHOD", method)
    # WHEN it is run traced THEN each comes from the line of the program that asked for it, also of a fork server
    outcome = succeeded(program.traced(text))
    for name, pid in (line.split() for line in outcome.stdout.splitlines()):
        (line,) = [number for number, line in enumerate(text.splitlines(), 1) if line.endswith(f"# {name}")]
        entry = outcome.process(int(pid))
        assert entry["site"].endswith(f"program.py:{line}:<module>"), name
        assert f"program.py:{line}:<module>" in entry["call_stack"], name


def test_pool_that_inherits_a_descriptor(program: Runner, data: Path) -> None:
    # GIVEN a pool of forked workers that read through a descriptor of their parent's, by place and in turn
    text = """\
    import multiprocessing, os, sys
    fd = os.open(sys.argv[1], os.O_RDONLY)
    def read(n):
        os.pread(fd, 4096, n * 4096)
        return len(os.read(fd, 100))
    with multiprocessing.get_context("fork").Pool(2) as pool:
        print(sum(pool.map(read, range(1000), chunksize=10)))
    """
    # WHEN it is run traced THEN the places are right, those of the shared position too
    outcome = succeeded(program.traced(text, data))
    assert outcome.stdout == "100000\n"
    assert sorted(row["file_offset"] for row in outcome.select(op="pread", path=data)) == [
        n * BLOCK for n in range(1000)
    ]
    rows = outcome.select(op="read", path=data)
    assert len(rows) == 1000 and {row["bytes_moved"] for row in rows} == {100}
    # two workers that read at the very same moment may come in either order (docs/explanation/limits.md)
    assert sorted(row["file_offset"] for row in rows) == [n * 100 for n in range(1000)]


@pytest.mark.parametrize("method", METHODS)
def test_killed_worker(program: Runner, data: Path, method: str) -> None:
    # GIVEN a worker process that reads a thousand blocks and is killed
    text = """\
    import multiprocessing, os, signal, sys

    def work(path, done):
        fd = os.open(path, os.O_RDONLY)
        for n in range(1000):
            os.pread(fd, 4096, n * 4096)
        done.send(os.getpid())
        signal.pause()

    if __name__ == "__main__":
        context = multiprocessing.get_context(sys.argv[2])
        here, there = context.Pipe()
        process = context.Process(target=work, args=(sys.argv[1], there))
        process.start()
        print(here.recv())
        process.kill()
        process.join()
        print(process.exitcode)
    """
    # WHEN it is run traced
    outcome = succeeded(program.traced(text, data, method))
    # THEN its reads are there
    pid, code = map(int, outcome.stdout.split())
    assert [row["file_offset"] for row in outcome.select(op="pread", path=data, pid=pid)] == [
        n * BLOCK for n in range(1000)
    ]
    if method != "forkserver":
        assert code == -9
        assert outcome.process(pid)["ended"] == "signal 9 (SIGKILL)"


def test_process_pool_executor_and_shared_queue(program: Runner, data: Path) -> None:
    # GIVEN a ProcessPoolExecutor whose jobs open and read by file objects
    text = """\
    import sys
    from concurrent.futures import ProcessPoolExecutor

    def size(path):
        with open(path, "rb") as file:
            return len(file.read())

    if __name__ == "__main__":
        with ProcessPoolExecutor(2) as pool:
            print(sum(pool.map(size, [sys.argv[1]] * 20)))
    """
    # WHEN it is run traced THEN the twenty reads are there, at both layers
    outcome = succeeded(program.traced(text, data))
    assert outcome.stdout.strip() == str(20 * 1000 * BLOCK)
    assert Counter(row["op"] for row in outcome.select(path=data, layer="app"))["BufferedReader.read"] == 20
    assert sum(row["bytes_moved"] for row in outcome.select(path=data, op="read")) == 20 * 1000 * BLOCK


@pytest.mark.slow
@pytest.mark.parametrize("method", ["spawn", "forkserver"])
def test_in_a_venv_that_sees_the_package(tmp_path: Path, program: Runner, data: Path, method: str) -> None:
    # GIVEN a virtual environment of its own, to which the package comes by a path file only
    program.command([sys.executable, "-m", "venv", "--without-pip", tmp_path / "venv"])
    python = tmp_path / "venv" / "bin" / "python"
    where = "import sysconfig; print(sysconfig.get_path('purelib'))"
    mine = subprocess.run([sys.executable, "-c", where], capture_output=True, text=True, check=True).stdout.strip()
    theirs = subprocess.run([python, "-c", where], capture_output=True, text=True, check=True).stdout.strip()
    Path(theirs, "link.pth").write_text(f"import site; site.addsitedir({mine!r})\n")
    # WHEN a pool is run traced there
    outcome = succeeded(program.traced(POOL, data, method, "close", python=str(python)))
    # THEN its workers are in the log
    assert len(outcome.select(op="pread", path=data)) == 1000
    assert {entry["executable"] for entry in outcome.processes if entry["followed"]} == {str(python)}


def test_a_callable_that_notices_questions(program: Runner) -> None:
    # GIVEN a process that runs a callable object, which answers for any attribute
    text = """\
    import multiprocessing, os

    class Task:
        def __getattr__(self, name):
            print("asked for", name, flush=True)
            raise SystemExit(3)
        def __call__(self):
            open("done", "w").close()

    context = multiprocessing.get_context("fork")
    process = context.Process(target=Task())
    process.start()
    process.join()
    print(process.exitcode)
    """
    # WHEN it runs traced and untraced THEN nobody has asked it for anything
    outcome = succeeded(alike(program.traced(text), program.bare(text)))
    assert outcome.stdout == "0\n"


def test_a_name_that_is_no_text(program: Runner) -> None:
    # GIVEN a process whose name has a lone surrogate, as file names with undecodable bytes have
    text = """\
    import multiprocessing

    process = multiprocessing.get_context("fork").Process(target=print, args=("ran",), name="of \\udcff")
    process.start()
    process.join()
    """
    # WHEN it runs traced THEN nothing is said of it, and the name is in the process table
    outcome = succeeded(alike(program.traced(text), program.bare(text)))
    assert "of \\udcff" in [row["process_name"] for row in outcome.processes]
