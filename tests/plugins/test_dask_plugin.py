"""Dask's plugin on real clusters: workers come, go, are killed and restarted; every operation has its task."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.support.programs import Outcome, Runner, clean_environment, succeeded
from tests.support.waiting import wait_until

pytest.importorskip("distributed")
pytest.importorskip("pandas")

pytestmark = pytest.mark.slow  # clusters and pools of processes, each of which imports pandas

ROOT = Path(__file__).parents[2]

#: Programs of these tests begin so: a cluster in the current folder, quick to make.
START = """
import os, signal, sys
from pathlib import Path
import dask
from distributed import Client, LocalCluster, wait
import pyio_trace
from pyio_trace_plugins.dask import PyioTrace

dask.config.set({"temporary-directory": "."})

def write(name, size=1000):
    with open(name, "wb", 0) as file:
        file.write(bytes(size))
    return os.getpid()

def cluster(n=2, **options):
    return LocalCluster(n_workers=n, threads_per_worker=1, dashboard_address=None, **options)
"""


def opened(folder: Path) -> Outcome:
    """A folder of logs."""
    return Outcome(0, "", "", folder)


def key_of(outcome: Outcome, row: dict[str, Any]) -> str | None:
    """The key of the task that an operation happened in."""
    task = next((up for up in outcome.parents(row) if up["op"] == "task"), None)
    return json.loads(task["detail"])["key"] if task else None


def on(outcome: Outcome, path: Path, **wanted: Any) -> list[dict[str, Any]]:
    """POSIX operations on one file."""
    return outcome.select(layer="posix", path=path, **wanted)


def test_the_example_with_a_worker_killed(program: Runner) -> None:
    # GIVEN the example: two workers read Parquet and write CSV, and one is killed in the middle
    outcome = succeeded(program.command([sys.executable, ROOT / "examples/dask_cluster.py", program.folder]))
    logs = opened(program.folder / "logs")
    told = [line for line in outcome.stdout.splitlines() if "killed" in line]
    (victim,) = {int(line.partition("(")[2].partition(")")[0]) for line in told}
    # WHEN the gathered logs are opened as one THEN every operation of the workers on the data has its task's key
    for folder in ("parquet", "csv"):
        start = f"{program.folder / folder}/"
        rows = [row for row in logs.select(layer="posix") if (row["path"] or "").startswith(start)]
        loose = [(row["op"], row["path"], row["site"]) for row in rows if key_of(logs, row) is None]
        assert len(rows) > 100 and loose == []
        # ... and the one that was killed is among them
        assert victim in {row["pid"] for row in rows}
    assert len({row["pid"] for row in logs.select(op="task")}) >= 2
    # AND every byte that is in the files was written by tasks: to the name they had until they were whole
    written: Counter[str] = Counter()
    for row in logs.select(layer="posix", op="write"):
        if (row["path"] or "").startswith(f"{program.folder / 'csv'}/"):
            written[row["path"]] += row["bytes_moved"]
    renamed = {row["path"] for row in logs.select(op="rename", errno=0)}
    whole = sorted(program.folder.glob("csv/*.csv"))
    assert len(whole) == 16
    for path in whole:
        names = [name for name in written if name.startswith(f"{path}.") and name in renamed]
        assert names and all(written[name] == path.stat().st_size for name in names)
    # AND what the killed one had only begun is there as far as it came
    for left in program.folder.glob(f"csv/*.csv.{victim}"):
        assert written[str(left)] == left.stat().st_size
    # AND its log is where it was left, too
    assert [path for path in (program.folder / "on-workers").iterdir() if f"-{victim}." in path.name]


KILLED = (
    START
    + """
from waiting import wait_until
def stuck(name):
    with open(name, "wb", 0) as file:
        for n in range(100):
            file.write(bytes(10))
        Path(f"{name}-there").touch()
        wait_until(Path("goes-on").exists, "the other worker's end")
    return os.getpid()

if __name__ == "__main__":
    with cluster(1) as workers, Client(workers) as client:
        client.register_plugin(PyioTrace("logs"))
        client.register_plugin(PyioTrace("logs"))  # once more: nothing happens
        first = client.submit(write, "first", key="first").result()
        future = client.submit(stuck, "stuck", key="stuck")
        wait_until(Path("stuck-there").exists, "the task")
        os.kill(first, signal.SIGKILL)
        Path("goes-on").touch()
        second = future.result()
        client.restart()
        third = client.submit(write, "third", key="third").result()
        print(first, second, third)
        # the scheduler is told in its own time
        wait_until(lambda: len(PyioTrace.gather(client, "gathered")) >= 3, "three logs")
"""
)


def test_killed_and_restarted(program: Runner) -> None:
    # GIVEN one worker with a nanny, killed in a task, restarted, and restarted once more by the client
    program.write_waiting()
    first, second, third = map(int, succeeded(program.command([sys.executable, program.write(KILLED)])).stdout.split())
    # WHEN the logs in the shared folder, or those gathered, are opened THEN there is one a process
    for folder in ("logs", "gathered"):
        logs = opened(program.folder / folder)
        assert len(list(logs.path.iterdir())) == 3
        assert {entry["pid"] for entry in logs.processes} == {first, second, third}
        # AND each worker's operations are there with their keys, those of the killed one to the last
        assert {(row["pid"], key_of(logs, row)) for row in on(logs, program.folder / "first")} == {(first, "first")}
        assert {(row["pid"], key_of(logs, row)) for row in on(logs, program.folder / "third")} == {(third, "third")}
        writes = on(logs, program.folder / "stuck", op="write")
        assert Counter(row["pid"] for row in writes) == {first: 100, second: 100}
        assert {key_of(logs, row) for row in writes} == {"stuck"}
        # AND the task that was under way is shown as one that never ended
        unfinished = [row for row in logs.select(op="task", pid=[first]) if row["duration"] is None]
        assert [json.loads(row["detail"])["key"] for row in unfinished] == ["stuck"]


UNMAPPABLE = (
    START
    + """
from waiting import wait_until

if __name__ == "__main__":
    with cluster(1) as workers, Client(workers) as client:
        client.register_plugin(PyioTrace(sys.argv[1]))
        first = client.submit(write, "first", key="first").result()
        os.kill(first, signal.SIGKILL)
        second = client.submit(write, "second", key="second").result()
        print(first, second)
        # the scheduler is told in its own time
        wait_until(lambda: len(client.get_events("pyio_trace")) >= 2, "both workers' events")
        client.unregister_worker_plugin("pyio_trace")
        PyioTrace.gather(client, "gathered")
        for _, told in client.get_events("pyio_trace"):
            Path(told["path"]).unlink(missing_ok=True)
"""
)


def test_where_logs_cannot_be_mapped(program: Runner, place: Path) -> None:
    # GIVEN a folder for logs in which none can be mapped, a worker that is killed, and one that is no longer traced
    program.write_waiting()
    out = succeeded(program.command([sys.executable, program.write(UNMAPPABLE), place]))
    assert "not gathered" not in out.stderr
    first, second = map(int, out.stdout.split())
    # WHEN their logs are gathered THEN both are there, by the names that they were to have
    logs = opened(program.folder / "gathered")
    assert sorted(path.name.rpartition("-")[2] for path in logs.path.iterdir()) == sorted(
        [f"{first}.pyio", f"{second}.pyio"]
    )
    assert all(path.name.startswith("pyio-dask-") for path in logs.path.iterdir())
    # AND they have what the workers did
    for pid, name in ((first, "first"), (second, "second")):
        assert {(row["pid"], key_of(logs, row)) for row in on(logs, program.folder / name)} == {(pid, name)}


STATES = (
    START
    + """
def after(pid, name):
    return write(name)

if __name__ == "__main__":
    with cluster(2) as workers, Client(workers) as client:
        client.register_plugin(PyioTrace("logs", instruments="all", stacks="site"))
        one = client.submit(write, "one", key="one")
        two = client.submit(after, one, "two", key="two")
        print(two.result())
        client.unregister_worker_plugin("pyio_trace")
        client.submit(write, "untraced", key="untraced").result()
        client.register_plugin(PyioTrace("logs", transitions=False))
        client.submit(write, "again", key="again").result()
        del one, two
        print(*client.run(pyio_trace.current_run).values() and [""])
"""
)


def test_states_of_tasks_and_registering_again(program: Runner) -> None:
    # GIVEN two tasks, one waiting for the other, and a plugin that is removed and registered again
    succeeded(program.command([sys.executable, program.write(STATES)]))
    logs = opened(program.folder / "logs")
    # WHEN the logs are read THEN each process has two: a stretch never takes the place of an earlier one
    assert len(list(logs.path.iterdir())) == 4
    # AND each task has a span of its states, which encloses its execution and nothing else
    for key, states in {"one": {"executing"}, "two": {"executing", "waiting"}}.items():
        (span,) = [row for row in logs.select(op="task states", layer="user") if f'"{key}"' in row["detail"]]
        (task,) = [row for row in logs.select(op="task", layer="app") if f'"{key}"' in row["detail"]]
        detail = json.loads(span["detail"])
        assert detail["ended"] == "memory"
        assert states <= set(detail["states_ns"])
        assert sum(detail["states_ns"].values()) <= span["duration"]
        assert span["time"] <= task["time"] and task["duration"] <= detail["states_ns"]["executing"]
        assert not [row for row in logs.rows if row["parent"] == span["id"]]
        assert on(logs, program.folder / key, op="write")
    # AND what ran in between is in no log
    assert not on(logs, program.folder / "untraced")
    assert {key_of(logs, row) for row in on(logs, program.folder / "again")} == {"again"}
    assert not [row for row in logs.select(op="task states") if "again" in row["detail"]]


THREADS = (
    START
    + """
if __name__ == "__main__":
    with cluster(2, processes=False) as workers, Client(workers) as client:
        client.register_plugin(PyioTrace("logs"))
        futures = client.map(write, [f"file-{n}" for n in range(8)], key=[f"file-{n}" for n in range(8)])
        assert set(client.gather(futures)) == {os.getpid()}
        print(PyioTrace.gather(client, "gathered", progress=True) != [])
    print(pyio_trace.current_run())
"""
)


def test_workers_that_are_threads_of_the_program(program: Runner) -> None:
    # GIVEN two workers in the client's own process WHEN both are given the plugin, and go
    outcome = succeeded(program.command([sys.executable, program.write(THREADS)]))
    # THEN there is one log, which ends with the last of them, and a bar was shown for it
    assert outcome.stdout == "True\nNone\n"
    assert "gathering log" in outcome.stderr
    assert len(list((program.folder / "logs").iterdir())) == len(list((program.folder / "gathered").iterdir())) == 1
    logs = opened(program.folder / "logs")
    for n in range(8):
        rows = on(logs, program.folder / f"file-{n}")
        assert {key_of(logs, row) for row in rows} == {f"file-{n}"}
        assert sum(row["bytes_moved"] for row in rows if row["op"] == "write") == 1000


ADAPTIVE = (
    START
    + """
from waiting import wait_until

if __name__ == "__main__":
    with cluster(0) as workers, Client(workers) as client:
        client.register_plugin(PyioTrace("logs"))
        workers.adapt(minimum=0, maximum=2, interval="50ms", wait_count=1)
        for n in range(2):  # there are none, one comes, it goes
            print(client.submit(write, f"file-{n}", key=f"file-{n}").result())
            wait_until(lambda: not client.scheduler_info()["workers"], "the worker's end")
        for log in PyioTrace.gather(client, "gathered"):
            assert log.exists()
"""
)


def test_adaptive_scaling(program: Runner) -> None:
    # GIVEN a cluster whose workers come when there is work, and go when there is none
    program.write_waiting()
    pids = [int(line) for line in succeeded(program.command([sys.executable, program.write(ADAPTIVE)])).stdout.split()]
    assert pids[0] != pids[1]
    # WHEN no worker is left to ask THEN the logs in the shared folder are gathered, and have each task
    logs = opened(program.folder / "gathered")
    for n, pid in enumerate(pids):
        rows = on(logs, program.folder / f"file-{n}")
        assert {(row["pid"], key_of(logs, row)) for row in rows} == {(pid, f"file-{n}")}


LAUNCHED = (
    START
    + """
if __name__ == "__main__":
    with cluster(2) as workers, Client(workers) as client:
        client.register_plugin(PyioTrace("logs"))
        print(client.submit(write, "file", key="file").result())
"""
)


def test_a_run_that_is_traced_already_is_left_alone(program: Runner) -> None:
    # GIVEN a program that is traced with all its children WHEN it registers the plugin
    outcome = succeeded(program.traced(LAUNCHED))
    # THEN there is one log, the run's, with the states of tasks in it
    assert not (program.folder / "logs").exists()
    assert {(row["pid"], key_of(outcome, row)) for row in on(outcome, program.folder / "file")} == {
        (int(outcome.stdout), "file")
    }
    assert outcome.select(op="task states", detail=lambda detail: '"file"' in detail)


def test_options_that_cannot_be_are_refused_at_the_client(program: Runner) -> None:
    # GIVEN options that no worker could start with WHEN a plugin is made THEN it says so, where the user is
    text = """
    import pyio_trace
    from pyio_trace_plugins.dask import PyioTrace
    for options in ({"mode": "trade"}, {"max_log_size": "12 parsec"}):
        try:
            PyioTrace("logs", **options)
        except pyio_trace.PyioTraceError as problem:
            print(problem.slug)
    """
    assert succeeded(program.bare(text)).stdout == "bad-value\nbad-size\n"


@contextmanager
def running(folder: Path, *words: object) -> Iterator[subprocess.Popen[bytes]]:
    """A command of Dask's, as long as this lasts."""
    with (folder / f"{words[0]}.txt").open("ab") as output:
        command = [sys.executable, "-m", "distributed.cli.dask_" + str(words[0]), *map(str, words[1:])]
        process = subprocess.Popen(command, cwd=folder, env=clean_environment(), stdout=output, stderr=output)
    try:
        yield process
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(60)


def test_preloaded_by_dask_worker(tmp_path: Path) -> None:
    # GIVEN a scheduler and two `dask worker`, which cannot see each other's folders, with the plugin preloaded
    from distributed import Client

    from pyio_trace_plugins.dask import PyioTrace

    def write(path: str) -> int:  # within the test: sent by value, workers have no tests
        with open(path, "wb", 0) as file:
            file.write(bytes(500))
        return os.getpid()

    told = tmp_path / "scheduler.json"
    with ExitStack() as stack:
        stack.enter_context(running(tmp_path, "scheduler", "--scheduler-file", told, "--port", 0, "--no-dashboard"))
        # The file is there before it has its text, which ends with a brace.
        wait_until(lambda: told.exists() and told.read_text().rstrip().endswith("}"), "the scheduler's address")
        address = json.loads(told.read_text())["address"]  # Dask takes it for an option of the preload's otherwise
        for n in range(2):
            options = ("--no-dashboard", "--nthreads", 1, "--name", f"worker-{n}")
            options += ("--local-directory", tmp_path / f"local-{n}")
            preload = ("--preload", "pyio_trace_plugins.dask", "--pyio-output", tmp_path / f"logs-{n}")
            stack.enter_context(running(tmp_path, "worker", address, *options, *preload, "--pyio-stacks", "site"))
        with Client(address, set_as_default=False) as client:
            client.wait_for_workers(2, timeout=240)
            pids = defaultdict(int)
            for n in range(2):
                future = client.submit(write, str(tmp_path / f"file-{n}"), key=f"file-{n}", workers=[f"worker-{n}"])
                pids[n] = future.result(240)
            logs = PyioTrace.gather(client, tmp_path / "gathered")
            addresses = {pid: address for address, pid in client.run(os.getpid).items()}
        assert len(logs) == 2
    # WHEN the logs are opened, gathered while the workers lived, or where they were left THEN the operations are there
    for folders in ([tmp_path / "gathered"] * 2, [tmp_path / "logs-0", tmp_path / "logs-1"]):
        for n, folder in enumerate(folders):
            found = opened(folder)
            rows = on(found, tmp_path / f"file-{n}")
            assert {(row["pid"], key_of(found, row)) for row in rows} == {(pids[n], f"file-{n}")}
            assert sum(row["bytes_moved"] for row in rows if row["op"] == "write") == 500
            # AND the worker is called by its address, though tracing began when it was there already
            assert found.process(pids[n])["process_name"] == f"Dask worker {addresses[pids[n]].rpartition('/')[2]}"
