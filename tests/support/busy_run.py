"""A run of 150,000 operations, live and packed, and a Dask cluster to read its log with."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from pyio_trace.join.pack import packer
from tests.support.programs import Runner, succeeded

#: Two processes with two threads each: spans, text lines, copies, renames, errors, preads, pickles, syncs.
BUSY = """\
import os, pickle, threading, sys, shutil
import pyio_trace
def work(name, rounds):
    fd = os.open("shared", os.O_RDWR | os.O_CREAT)
    for n in range(rounds):
        with pyio_trace.span("step", number=n):
            with open(f"{name}.{n % 50}.tmp", "w") as file:
                for line in range(5): file.write(f"line {line}\\n")
            os.rename(f"{name}.{n % 50}.tmp", f"{name}.{n % 50}.txt")
            with open(f"{name}.{n % 50}.txt") as file:
                for line in file: pass
        for k in range(150):
            os.pread(fd, 100 + n % 7, 4096 * (k * n % 1000))
        os.pwrite(fd, bytes(50 + n % 3), 1000 * n)
        os.fsync(fd)
        try: os.stat(f"missing{n % 3}")
        except OSError: pass
        with open(f"{name}.pickle", "wb") as file: pickle.dump(list(range(n)), file)
    shutil.copyfile("shared", f"{name}.copy")
    os.close(fd)
pid = os.fork()
threads = [threading.Thread(target=work, args=[f"{bool(pid)}{n}", 200]) for n in range(2)]
for thread in threads: thread.start()
for thread in threads: thread.join()
if not pid: os._exit(0)
os.wait()
"""


def busy_logs(folder: Path) -> dict[str, Path]:
    """The live log of BUSY, and the same packed with many row groups."""
    outcome = succeeded(Runner(folder).traced(BUSY))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(packer, "_ROW_GROUP", 10_000)
        packer.pack(outcome.path, folder / "packed.parquet")
    return {"live": outcome.path, "packed": folder / "packed.parquet"}


@contextmanager
def cluster_of_two() -> Iterator[str]:
    """The address of a Dask cluster of two workers; skips the test where Dask is missing."""
    distributed = pytest.importorskip("distributed")
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None, worker_dashboard_address=None
    ) as started:
        yield started.scheduler_address
