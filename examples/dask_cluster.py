"""A Dask cluster, traced: every operation of every worker, with the task it was for.

    python examples/dask_cluster.py

Two worker processes read Parquet and write CSV.  In the middle one of them is
killed, as a batch system or the kernel would: its nanny starts another, Dask
repeats what was lost, and the log of the one that died has all it did.  The
logs of the three are gathered into one folder and opened as one.
"""

import json
import os
import signal
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import dask
import dask.dataframe as dd
import pandas as pd
from distributed import Client, LocalCluster, as_completed

import pyio_trace
from pyio_trace_plugins.dask import PyioTrace

PARTS = 16
ROWS = 20_000


def make_parquet(folder: Path) -> None:
    """A year of readings, in as many files as there are parts."""
    frame = pd.DataFrame({"minute": range(PARTS * ROWS), "value": [n % 977 / 7 for n in range(PARTS * ROWS)]})
    dd.from_pandas(frame, npartitions=PARTS).to_parquet(folder)


def to_csv(part: pd.DataFrame, folder: str) -> str:
    """One part as a CSV file: written under another name, renamed when it is whole."""
    path = f"{folder}/{part.minute.iloc[0]:07d}.csv"
    unfinished = f"{path}.{os.getpid()}"
    part.to_csv(unfinished, index=False)
    time.sleep(0.1)  # work of some other kind
    os.rename(unfinished, path)
    return path


def run(client: Client, source: Path, target: Path) -> int:
    """Read, write, and lose a worker on the way; returns the process number of the one that was killed."""
    target.mkdir()
    parts = [dask.delayed(to_csv)(part, str(target)) for part in dd.read_parquet(source).to_delayed()]
    victim = 0
    for n, _ in enumerate(as_completed(client.compute(parts)), 1):
        if n == PARTS // 4:
            victim = next(iter(client.run(os.getpid).values()))
            os.kill(victim, signal.SIGKILL)
    return victim


def tell(folder: Path, target: Path) -> dict[int, Counter[str]]:
    """By process: how many bytes its tasks wrote to the target, by prefix; "" is what no task did."""
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
        written.setdefault(row["pid"], Counter())[prefix] += row["moved"]
    return written


def main() -> None:
    """Everything happens in one folder: the one named, or a temporary one."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(sys.argv[1] if len(sys.argv) > 1 else temporary).absolute()
        make_parquet(folder / "parquet")
        dask.config.set({"temporary-directory": str(folder / "dask")})
        cluster = LocalCluster(n_workers=2, threads_per_worker=2, dashboard_address=None)
        with cluster, Client(cluster) as client:
            client.register_plugin(PyioTrace(folder / "on-workers"))
            victim = run(client, folder / "parquet", folder / "csv")
            client.wait_for_workers(2)
            logs = PyioTrace.gather(client, folder / "logs")
        print(f"{len(logs)} logs gathered")
        for pid, by_prefix in tell(folder / "logs", folder / "csv").items():
            who = "the worker that was killed" if pid == victim else "a worker"
            for prefix, size in sorted(by_prefix.items()):
                print(f"{who} ({pid}) wrote {size} bytes in tasks {prefix!r}")


if __name__ == "__main__":
    main()
