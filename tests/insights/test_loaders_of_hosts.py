"""Loaders of two hosts whose processes have the same numbers, as ranks in containers do."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import pyio_trace
from pyio_trace.analysis.reducer import scan
from pyio_trace.analysis.reducers.batches import Batches, BatchesOfLoaders
from pyio_trace.insights import insights, registry
from pyio_trace.insights.trials.attempt import Attempt
from pyio_trace.insights.trials.loaders import loader_of
from pyio_trace.insights.trials.recorded import rows_of
from tests.support.findings import without_times
from tests.support.programs import TIMEOUT, Runner, clean_environment

pytestmark = [pytest.mark.frameworks("torch"), pytest.mark.once]

#: argv: how many batches.
TRAINER = """
import os, sys, time
from torch.utils.data import DataLoader
class Items:
    def __len__(self): return 2 * int(sys.argv[1])
    def __getitem__(self, n):
        time.sleep(0.02)  # so that the trainer waits for each batch
        with open(__file__, "rb", buffering=0) as file: return len(file.read(100 + n))
if __name__ == "__main__":
    for batch in DataLoader(Items(), batch_size=2, num_workers=1): pass
    print(os.getpid())
"""


@pytest.fixture
def folder(program: Runner) -> Path:
    """The logs of two ranks, of 3 and of 5 batches, each in a container of its own."""
    inside = ["unshare", "--pid", "--uts", "--fork", "--mount-proc", "--kill-child"]
    if os.geteuid() or subprocess.run([*inside, "true"], capture_output=True).returncode:
        pytest.skip("needs root and unshare --pid --uts")
    script, logs = program.write(TRAINER), program.folder / "logs"
    logs.mkdir()
    for host, batches in (("node1", 3), ("node2", 5)):
        command = [*inside, "sh", "-c", f'hostname {host} && exec "$@"', "sh", sys.executable, script, str(batches)]
        environment = clean_environment(PYIO_TRACE="1", PYIO_TRACE_OUTPUT=str(logs / f"{host}.parquet"))
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=TIMEOUT)
        assert (done.returncode, done.stdout) == (0, "1\n"), done.stderr
    return logs


def test_each_host_has_its_own(folder: Path) -> None:
    log = pyio_trace.open(folder)
    assert {process["host"] for process in log.processes().to_pylist()} == {"node1", "node2"}
    # THEN each batch is joined with the fetch of its own host
    batches: Batches = scan(log, [BatchesOfLoaders()])[0]
    assert {row.loader for row in batches.rows} == {"1.0"}
    numbers = {host: [row.batch for row in batches.rows if row.host == host] for host in ("node1", "node2")}
    assert numbers == {"node1": [0, 1, 2], "node2": [0, 1, 2, 3, 4]}
    assert all(row.wait_ns and row.fetch_ns and row.ready_ns is not None for row in batches.rows)
    # AND the finding about each trainer counts its own batches, and --verify lays out the same ones
    _, found = insights.find(log, registry.found(), without_times())
    starved = [one for one in found.findings if one.slug == "loader-starved"]
    assert sorted(one.evidence[0].values["batches"] for one in starved) == [3, 5]
    for finding, rows in zip(starved, rows_of(log, [(one, "loader") for one in starved]), strict=True):
        with Attempt(finding, rows, until=0) as attempt:
            assert len(loader_of(attempt).batches) == finding.evidence[0].values["batches"]
