"""Traces a Dask cluster: every operation of every worker, with the task that it belongs to.

    python examples/dask_cluster.py

Two worker processes read Parquet and write CSV.  One of them is killed in the
middle of its tasks, as a batch system or the kernel might do.  Its nanny starts
another one, Dask repeats the lost work, and the log of the killed worker has all
that it did.  The three logs are gathered into one folder and opened as one.
"""

import json
import os
import signal
import sys
import tempfile
from collections import Counter
from pathlib import Path

import dask
import dask.dataframe as dd
import pandas as pd
from distributed import Client, Event, LocalCluster, Queue, wait

import pyio_trace
from pyio_trace_plugins.dask import PyioTrace

PARTS = 16
ROWS = 20_000
WORKERS = 2
THREADS = 2  # of each worker


def make_parquet(folder: Path) -> None:
    """Writes PARTS files of readings, one per minute."""
    frame = pd.DataFrame({"minute": range(PARTS * ROWS), "value": [n % 977 / 7 for n in range(PARTS * ROWS)]})
    dd.from_pandas(frame, npartitions=PARTS).to_parquet(folder)


def to_csv(part: pd.DataFrame, folder: str) -> str:
    """Writes one part as a CSV file, under another name until it is complete."""
    path = f"{folder}/{part.minute.iloc[0]:07d}.csv"
    unfinished = f"{path}.{os.getpid()}"
    part.to_csv(unfinished, index=False)
    Queue("in the middle").put(os.getpid())
    Event("goes on").wait()  # so that the worker is killed here, and neither earlier nor later
    os.rename(unfinished, path)
    return path


def run(client: Client, source: Path, target: Path) -> int:
    """Reads and writes, and kills a worker on the way; returns the process number of the killed one."""
    target.mkdir()
    in_the_middle, goes_on = Queue("in the middle"), Event("goes on")
    parts = [dask.delayed(to_csv)(part, str(target)) for part in dd.read_parquet(source).to_delayed()]
    futures = client.compute(parts)
    *_, victim = (in_the_middle.get() for _ in range(WORKERS * THREADS))
    os.kill(victim, signal.SIGKILL)
    goes_on.set()
    wait(futures)
    return int(victim)


def bytes_by_task(folder: Path, target: Path) -> dict[int, Counter[str]]:
    """Bytes written to the target, by process and prefix of the task; "" stands for no task."""
    table = pyio_trace.open(folder).operations().to_pylist()
    rows = {row["id"]: row for row in table}
    written: dict[int, Counter[str]] = {}
    for row in table:
        if row["layer"] != "posix" or row["op"] != "write" or not (row["path"] or "").startswith(f"{target}/"):
            continue
        task = row
        while task is not None and task["op"] != "task":
            task = rows.get(task["parent"])
        prefix = json.loads(task["detail"])["prefix"] if task else ""
        written.setdefault(row["pid"], Counter())[prefix] += row["bytes_moved"]
    return written


def main() -> None:
    """Works in the folder named on the command line, or in a temporary one."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(sys.argv[1] if len(sys.argv) > 1 else temporary).absolute()
        make_parquet(folder / "parquet")
        dask.config.set({"temporary-directory": str(folder / "dask")})
        cluster = LocalCluster(n_workers=WORKERS, threads_per_worker=THREADS, dashboard_address=None)
        with cluster, Client(cluster) as client:
            client.register_plugin(PyioTrace(folder / "on-workers"))
            victim = run(client, folder / "parquet", folder / "csv")
            client.wait_for_workers(WORKERS)
            logs = PyioTrace.gather(client, folder / "logs")
        print(f"{len(logs)} logs gathered")
        for pid, by_prefix in bytes_by_task(folder / "logs", folder / "csv").items():
            who = "the worker that was killed" if pid == victim else "a worker"
            for prefix, size in sorted(by_prefix.items()):
                print(f"{who} ({pid}) wrote {size} bytes in tasks {prefix!r}")


if __name__ == "__main__":
    main()
