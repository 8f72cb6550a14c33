"""The names that processes get while they run: multiprocessing's, the launcher's ranks; and that forks inherit none."""

from __future__ import annotations

import json
from collections import Counter

import pytest

from pyio_trace.join.processes.process_names import label
from tests.support.programs import Outcome, Runner, succeeded

PROCESSES = """\
import json, multiprocessing, os, sys
from concurrent.futures import ProcessPoolExecutor

def who(what=None):
    return multiprocessing.current_process().name, os.getpid()

def tell(queue):
    queue.put(who())
    child = os.fork()  # without a name of its own
    if child == 0:
        os._exit(0)
    os.waitpid(child, 0)
    queue.put(("forked", child))

if __name__ == "__main__":
    context = multiprocessing.get_context(sys.argv[1])
    told = set()
    with context.Pool(2) as pool:
        told.update(pool.map(who, range(40), chunksize=1))
        pool.close()
        pool.join()
    if multiprocessing.__name__ == "multiprocessing":  # it takes no other library's processes
        with ProcessPoolExecutor(1, mp_context=context) as pool:
            told.add(pool.submit(who).result())
    queue = context.SimpleQueue()
    for name in (None, "reader of parts"):
        process = context.Process(target=tell, args=(queue,), name=name)
        process.start()
        told.update((queue.get(), queue.get()))
        process.join()
    print(json.dumps(sorted(told)))
"""


@pytest.mark.parametrize("library", ["multiprocessing", "multiprocess"])
@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_names_of_multiprocessing(program: Runner, method: str, library: str) -> None:
    pytest.importorskip(library)
    # GIVEN workers of both kinds of pools, and processes with a name of multiprocessing's and of the program's own
    text = PROCESSES.replace("import json, multiprocessing, os", f"import json, {library} as multiprocessing, os")
    outcome = succeeded(program.traced(text, method))
    kinds = Counter[str]()
    for name, pid in json.loads(outcome.stdout):
        row = outcome.process(pid)
        # WHEN each says what it is called THEN the log calls it so, and what it forks has not inherited that
        kinds[row["process_kind"]] += 1
        if name == "forked":
            assert row["process_name"].endswith(" (forked)") or row["process_name"] == "python -c (forked)"
        else:
            assert row["process_name"] == name
    workers = kinds.pop("pool worker") - (library == "multiprocessing")
    assert workers in (1, 2)  # one worker of the pool may have got all of the work
    assert kinds == {"multiprocessing process": 2, "forked process": 2}
    assert outcome.process(outcome.pid)["process_name"] == "program.py"
    assert "tracer_faults" not in outcome.log.losses() and outcome.stderr == ""


def test_tracing_that_begins_in_a_worker(program: Runner) -> None:
    # GIVEN a worker of a program that is not traced, which traces itself
    text = """
    import multiprocessing, pyio_trace
    def work():
        with pyio_trace.trace("run.pyio"):
            open(__file__).close()
    process = multiprocessing.get_context("fork").Process(target=work, name="late")
    process.start()
    process.join()
    """
    # THEN it has its name
    outcome = succeeded(program.bare(text))
    outcome.path = program.folder / "run.pyio"
    assert [(row["process_kind"], row["process_name"]) for row in outcome.processes] == [
        ("multiprocessing process", "late")
    ]


def test_a_secret_in_a_name(program: Runner) -> None:
    # GIVEN a process whose name has a password in it THEN the log does not have it
    text = """
    import multiprocessing
    process = multiprocessing.get_context("fork").Process(target=print, name="fetch --password=hunter2")
    process.start()
    process.join()
    """
    outcome = succeeded(program.traced(text))
    assert [row["process_name"] for row in outcome.processes][1] == "fetch --password=***"
    assert b"hunter2" not in outcome.path.read_bytes()


LAUNCHER = """\
import os, subprocess, sys
child = "import os; open(os.devnull).close(); os.fork() or os._exit(0); os.wait()"
for rank in range(2):
    env = {**os.environ, "RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": "2"}
    subprocess.run([sys.executable, "-c", child, f"of rank {rank}"], env=env, check=True)
"""


def test_ranks_of_a_launcher(program: Runner) -> None:
    # GIVEN a launcher that starts two ranks as torchrun does, each of which forks
    outcome = succeeded(program.traced(LAUNCHER))
    by_rank = {rank: [row for row in outcome.processes if row["argv"][-1] == f"of rank {rank}"] for rank in (0, 1)}
    for rank, rows in by_rank.items():
        # THEN each process has its rank, and only what the launcher has started is called so
        named = {row["start"]: (label(row), row["global_rank"], row["local_rank"], row["world_size"]) for row in rows}
        pids = {row["start"]: row["pid"] for row in rows}
        assert named["joined"] == (f"rank {rank} ({pids['joined']})", rank, rank, 2)
        assert named["fork"] == (f"rank {rank}, python -c (forked) ({pids['fork']})", rank, rank, 2)
        # AND its operations have it too
        assert {row["global_rank"] for row in outcome.rows if row["pid"] in pids.values()} == {rank}
    assert outcome.process(outcome.pid)["global_rank"] is None


def test_a_log_for_each_rank(program: Runner) -> None:
    # GIVEN two runs, as mpirun starts them
    def run(rank: int) -> Outcome:
        env = {"OMPI_COMM_WORLD_RANK": str(rank), "OMPI_COMM_WORLD_SIZE": "2"}
        return succeeded(program.traced("open(__file__).close()", log="run-%r.parquet", env=env))

    for rank in range(2):
        run(rank).path.exists()
        # THEN each has its rank in the name of its log, and in it
        outcome = Outcome(0, "", "", program.folder / f"run-{rank}.parquet")
        assert [(row["process_name"], row["global_rank"]) for row in outcome.processes] == [(f"rank {rank}", rank)]


def test_a_copy_of_python_that_became_another_program(program: Runner) -> None:
    # GIVEN a child that Python forks to run a function in it, and that is another program then
    outcome = program.traced("import subprocess\nsubprocess.run(['sleep', '0'], preexec_fn=lambda: None)")
    # THEN it is called what it became
    assert [row["process_name"] for row in succeeded(outcome).processes] == ["program.py", "sleep"]


def test_a_batch_job(program: Runner) -> None:
    # GIVEN a program of a Slurm job, which forks
    env = {"SLURM_JOB_ID": "47 11", "SLURM_STEP_ID": "0", "SLURMD_NODENAME": "n017"}
    succeeded(program.traced("import os; os.fork() or os._exit(0); os.wait()", env=env, log="%n/%j.parquet"))
    # THEN its log has the names that the batch system gave, and both processes have its job
    outcome = Outcome(0, "", "", program.folder / "n017/47_11.parquet")
    assert {(row["node"], row["job"], row["step"]) for row in outcome.processes} == {("n017", "47_11", "0")}
    assert len(outcome.processes) == 2
