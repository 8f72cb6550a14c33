"""distributed's workers, traced like other children: each task is a span, however its worker runs it."""

from __future__ import annotations

import json
import re

import pytest

from tests.instruments.test_dask import task_of
from tests.support.programs import Outcome, Runner, succeeded

pytest.importorskip("distributed")

pytestmark = pytest.mark.slow  # clusters and pools of processes, each of which imports pandas

#: Each task writes one file, named as its key, of so many bytes.  A module, so that a pool of processes finds it.
TASKS = """
import asyncio, multiprocessing
from concurrent.futures import ProcessPoolExecutor

def plain(name, size):
    with open(name, "wb", 0) as file:
        for _ in range(4):
            file.write(bytes(size // 4))
    return size

async def coroutine(name, size):
    with open(name, "wb", 0) as file:
        for _ in range(4):
            await asyncio.sleep(0.02)  # others take their steps meanwhile
            file.write(bytes(size // 4))
    return size

def fails(name, size):
    plain(name, size)
    raise ValueError("no good")

class Writer:
    def write(self, name, size):
        return plain(name, size)

def pool(dask_worker):
    dask_worker.executors["pool"] = ProcessPoolExecutor(1, multiprocessing.get_context("spawn"))
"""

WORK = """
import json, os, sys
import dask
from distributed import Client, LocalCluster
from tasks import Writer, coroutine, fails, plain, pool

def names(prefix, n):
    return [f"file-{prefix}-{i}" for i in range(n)]

if __name__ == "__main__":
    processes = sys.argv[1] == "processes"
    dask.config.set({"temporary-directory": ".", "distributed.worker.daemon": False})  # its pool needs processes
    with LocalCluster(n_workers=2, threads_per_worker=2, processes=processes, dashboard_address=None) as cluster:
        with Client(cluster) as client:
            keys = names("plain", 6)
            print(sum(client.gather(client.map(plain, keys, [4000] * 6, key=keys))))
            keys = names("coroutine", 6)
            print(sum(client.gather(client.map(coroutine, keys, [400] * 6, key=keys))))
            print(repr(client.submit(fails, "file-fails-0", 40, key="file-fails-0").exception()))
            actor = client.submit(Writer, actor=True, key="file-actor").result()
            print(actor.write("file-actor-0", 80).result())
            if processes:
                client.run(pool)
                with dask.annotate(executor="pool"):
                    print(client.submit(plain, "file-pool-0", 120, key="file-pool-0").result())
            with open("addresses.json", "w") as file:
                json.dump(client.run(os.getpid), file)
"""


@pytest.fixture(scope="module", params=["processes", "threads"])
def work(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Outcome:
    """A cluster whose workers are processes, or threads of the program."""
    bare, traced = (Runner(tmp_path_factory.mktemp(name)) for name in ("bare", "traced"))
    for runner in (bare, traced):
        runner.write(TASKS, "tasks.py")
    outcome = succeeded(traced.traced(WORK, request.param))
    assert outcome.stdout == succeeded(bare.bare(WORK, request.param)).stdout
    return outcome


def test_every_operation_has_the_key_of_its_task(work: Outcome) -> None:
    # GIVEN files that are each written by the task of that key
    files = {path.name: path.stat().st_size for path in work.path.parent.glob("file-*")}
    processes = work.process(work.pid)["argv"][-1] == "processes"
    assert len(files) == (15 if processes else 14)
    for name, size in files.items():
        rows = work.select(layer="posix", path=work.path.parent / name)
        # WHEN the operations on one are looked at THEN all are in that task, by a link that is known, and no other's
        tasks = {task["id"]: json.loads(task["detail"]) for row in rows if (task := task_of(work, row))}
        assert all(task_of(work, row) is not None for row in rows), name
        (detail,) = tasks.values()
        assert detail["key"] == ("file-actor.write" if name == "file-actor-0" else name)
        assert {up["link"] for row in rows for up in [row, *work.parents(row)] if up["parent"]} <= {"thread", "context"}
        # AND every byte is there
        assert sum(row["bytes_moved"] for row in rows if row["op"] == "write") == size, name
        assert len([row for row in rows if row["op"] == "write"]) == 4
        assert detail.get("raised") == ("ValueError" if "fails" in name else None)


def test_workers_are_called_by_their_addresses(work: Outcome) -> None:
    # GIVEN the addresses of the workers, and in which processes they are
    addresses = json.loads((work.path.parent / "addresses.json").read_text())
    assert len(addresses) == 2
    for address, pid in addresses.items():
        row = work.process(pid)
        # THEN a process that is a worker is called so; one that the workers share with the program is the program's
        if pid == work.pid:
            assert row["process_name"] == "program.py"
        else:
            called = row["process_kind"], row["process_name"]
            assert called == ("Dask worker", f"Dask worker {address.removeprefix('tcp://')}")
    # AND a process of a worker's pool has its own name
    pools = {row["pid"] for row in work.select(op="write", path=work.path.parent / "file-pool-0")}
    assert all(re.fullmatch(r"SpawnProcess-\d:1", work.process(pid)["process_name"]) for pid in pools), [
        work.process(pid)["process_name"] for pid in pools
    ]


def test_each_task_is_one_span(work: Outcome) -> None:
    # GIVEN the tasks that ran WHEN spans are counted THEN there is one for each, with the prefix that Dask gives it
    from dask.utils import key_split

    details = [json.loads(row["detail"]) for row in work.select(op="task", layer="app")]
    keys = sorted(detail["key"] for detail in details)
    files = sorted(path.name for path in work.path.parent.glob("file-*"))
    assert keys == sorted(["file-actor", *(f if f != "file-actor-0" else "file-actor.write" for f in files)])
    assert all(detail["prefix"] in (key_split(detail["key"]), "file-actor.write") for detail in details)


def test_steps_of_coroutines_are_kept_apart(work: Outcome) -> None:
    # GIVEN six coroutines that take turns in event loops' threads
    spans = work.select(op="task", detail=lambda detail: detail and "file-coroutine" in detail)
    assert len(spans) == 6
    # WHEN they overlap in one thread THEN each has its own writes, and only those
    overlapping = [
        (one, two) for one in spans for two in spans
        if one["tid"] == two["tid"] and one["time"] < two["time"] < one["time"] + one["duration"]
    ]  # fmt: skip
    assert overlapping
    for span in spans:
        key = json.loads(span["detail"])["key"]
        inside = [row for row in work.select(op="write") if span["id"] in {up["id"] for up in work.parents(row)}]
        assert {row["path"] for row in inside if row["layer"] == "posix"} == {str(work.path.parent / key)}


def test_worker_is_as_it_was_afterwards(program: Runner) -> None:
    # GIVEN a program that looks at distributed.worker before, while and after it is traced
    text = """
    import distributed.worker as worker, inspect, pickle, pyio_trace
    before = worker._run_task_async, worker._run_task_simple
    with pyio_trace.trace("stretch.pyio"):
        assert inspect.iscoroutinefunction(worker._run_task_async)
        assert inspect.signature(worker._run_task_async) == inspect.signature(before[0])
        assert pickle.loads(pickle.dumps(worker._run_task_simple)) is before[1]
    assert (worker._run_task_async, worker._run_task_simple) == before
    """
    # THEN it cannot tell
    succeeded(program.bare(text))


#: A client that waits for tasks in each way.
WAITS = """
import time
from distributed import Client, LocalCluster
if __name__ == "__main__":
    with LocalCluster(n_workers=1, threads_per_worker=1, processes=False, dashboard_address=None) as cluster:
        with Client(cluster) as client:
            futures = client.map(lambda number: time.sleep(0.05) or number, range(4), pure=False)
            before = time.monotonic_ns()
            assert client.gather(futures) == [0, 1, 2, 3]
            between = time.monotonic_ns()
            assert client.submit(time.sleep, 0.05, pure=False).result() is None
            print(between - before, time.monotonic_ns() - between)
"""


def test_the_client_s_waits(program: Runner) -> None:
    # GIVEN a client that gathers results, and then asks one future for its own, and times both
    # WHEN it runs traced
    outcome = succeeded(program.traced(WAITS))
    # THEN both are waits, as long as the program measured at most
    measured = [int(word) for word in outcome.stdout.split()]
    waits = outcome.select(op=("Client.gather", "Future.result"))
    assert [(row["op"], row["op_role"]) for row in waits] == [("Client.gather", "wait"), ("Future.result", "wait")]
    assert all(0 < row["duration"] <= most for row, most in zip(waits, measured, strict=True))
