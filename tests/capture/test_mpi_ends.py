"""Jobs that end suddenly: each rank's log has all that it had done, and says how it ended, as far as anyone saw."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from pyio_trace.cli.main import main
from pyio_trace.join.sources.opening import open_log
from pyio_trace.log_constants import RUNNING
from tests.support import mpi
from tests.support.mpi import RANKS, Job
from tests.support.programs import Outcome, Row, Runner
from tests.support.waiting import wait_until

pytest.importorskip("mpi4py", reason="mpi4py is not installed")

PROGRAM = """
import time
file = opened("data")
for turn in range(3):
    place = (turn * size + rank) * 100
    file.Write_at_all(place, bytes(100)); tell("MPI_File_write_at_all", "data", place, 100, 100)
settle(file)
leave()
world.Barrier()
def launcher():
    at = os.getpid()
    while True:
        with open(f"/proc/{at}/stat") as stat: at = int(stat.read().rpartition(")")[2].split()[1])
        with open(f"/proc/{at}/cmdline") as words: name = os.path.basename(words.read().split("\\0")[0])
        if name in ("mpiexec", "mpirun"): return at
HOW
for _ in range(150): time.sleep(0.2)  # until it is ended
os._exit(7)
"""
LOST = r"lost \(killed or crashed; not seen\)"
#: What brings the job down, and how ranks may end: who is killed cannot say so, and launchers kill the others;
#: without its launcher, a rank of Open MPI leaves with a status of the library's.
WAYS = {
    "MPI_Abort": ("if rank == 1: world.Abort(3)", f"{LOST}|exit 3"),
    "one rank killed": ("if rank == 1: os.kill(os.getpid(), 9)", LOST),
    "all ranks killed": ("os.kill(os.getpid(), 9)", LOST),
    "launcher killed": ("if rank == 1: os.kill(launcher(), 9)", rf"{LOST}|exit (?!0$|7$)\d+"),
    "all leave": ("os._exit(3)", "exit 3"),
}


@pytest.mark.slow
@pytest.mark.parametrize("run", [mpi.run, mpi.run_parallel_hdf5], ids=["wheel", "system"])
@pytest.mark.parametrize("way", WAYS)
def test_ends(way: str, run: Callable[[Runner, str], Job], program: Runner) -> None:
    # GIVEN a job of four ranks that ends in this way WHEN traced
    how, possible = WAYS[way]
    job = run(program, PROGRAM.replace("HOW", how))
    assert job.outcome.status
    # THEN each log has all calls of its rank
    for rank in range(RANKS):
        assert job.seen(rank) == job.told(rank) and len(job.told(rank)) == 3

    # AND says how it ended, once it has: without a launcher, ranks end in their own time
    def entries() -> list[Row]:
        logs = [Outcome(0, "", "", one.path) for one in job.ranks]
        return [row for log in logs for row in log.processes if row["parent"] is None]

    wait_until(lambda: all(row["ended"] != RUNNING for row in entries()), "the ends of the ranks")
    ends = [row["ended"] for row in entries()]
    assert len(ends) == RANKS and all(re.fullmatch(possible, end) for end in ends), ends
    # AND one log can be made of them, with what all wrote
    assert main(["merge", str(program.folder), "-o", str(program.folder / "job.parquet")]) == 0
    merged = open_log(program.folder / "job.parquet").operations(["op", "bytes_moved"]).to_pylist()
    assert sum(row["bytes_moved"] for row in merged if row["op"] == "MPI_File_write_at_all") == 3 * RANKS * 100
