"""A job on two hosts whose clocks differ: namespaces stand in for the hosts, so that the true difference is known."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from pyio_trace.cli.main import main
from pyio_trace.join.sources.opening import open_log
from tests.support import mpi
from tests.support.mpi import RANKS
from tests.support.programs import Runner, succeeded

pytest.importorskip("mpi4py", reason="mpi4py is not installed")

#: Moves the wall clock of a program by SHIFT ns.
SHIFTED = """\
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <time.h>
int clock_gettime(clockid_t which, struct timespec *now)
{
    static int (*real)(clockid_t, struct timespec *);
    if (!real)
        real = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
    int result = real(which, now);
    const char *shift = getenv("SHIFT");
    if (!result && which == CLOCK_REALTIME && shift) {
        long long ns = now->tv_sec * 1000000000LL + now->tv_nsec + atoll(shift);
        now->tv_sec = ns / 1000000000;
        now->tv_nsec = ns % 1000000000;
    }
    return result;
}
"""
#: Ranks 2 and 3 run on the second host.
HOSTS = """\
rank=$PMI_RANK$OMPI_COMM_WORLD_RANK
case $rank in
    0|1) exec unshare --uts sh -c 'hostname first; exec "$@"' sh "$@" ;;
    *) export SHIFT={shift} SECOND=${{LD_PRELOAD:+$LD_PRELOAD:}}{library}
       exec unshare {namespaces} sh -c 'hostname second; LD_PRELOAD=$SECOND exec "$@"' sh "$@" ;;
esac
"""
#: One rank after the other writes, again and again.
TURNS = """
world.Barrier()
file = open(f"own-{rank}", "wb", buffering=0)
for turn in range(40):
    world.Barrier()
    if turn % size == rank:
        file.write(bytes(1000 + turn))
    world.Barrier()
"""


def _hosts(folder: Path, namespaces: Sequence[str], shift: int) -> list[object]:
    """The command that runs a command on the host of its rank; skips the test if there can be none."""
    compiler = shutil.which("cc") or pytest.skip("needs a C compiler")
    words = ["unshare", *namespaces, "sh", "-c", "hostname other"]
    if not shutil.which("unshare") or subprocess.run(words, capture_output=True).returncode:
        pytest.skip(f"needs the right to {' '.join(words)}")
    (folder / "shifted.c").write_text(SHIFTED)
    library, script = folder / "shifted.so", folder / "hosts.sh"
    words = [compiler, "-shared", "-fPIC", "-o", str(library), str(folder / "shifted.c"), "-ldl"]
    subprocess.run(words, check=True, capture_output=True, timeout=120)
    script.write_text(HOSTS.format(namespaces=" ".join(namespaces), shift=shift, library=library))
    return ["sh", script]


@pytest.mark.slow
@pytest.mark.once
@pytest.mark.parametrize(
    ("namespaces", "shift"),
    [
        (["--uts"], 7_500_000_000),
        (["--uts"], -3_600_000_000_000),
        (["--uts", "--time", "--monotonic", "5000", "--boottime", "5000"], 7_500_000_000),
    ],
)
def test_two_hosts(namespaces: list[str], shift: int, program: Runner, capfd: pytest.CaptureFixture[str]) -> None:
    # GIVEN ranks on two hosts, whose wall clocks and perhaps other clocks differ, that take turns in writing
    words = [
        *_hosts(program.folder, namespaces, shift),
        sys.executable,
        "-m",
        "pyio_trace",
        "-q",
        "-o",
        "logs/run.parquet",
    ]
    words.append(program.write(mpi.PRELUDE + TURNS))
    succeeded(mpi.run(program, "", traced=False, words=words).outcome)
    logs, merged = program.folder / "logs", program.folder / "job.parquet"
    assert len(list(logs.iterdir())) == RANKS
    # WHEN their logs are merged THEN that is one run, on two hosts
    assert main(["merge", str(logs), "-o", str(merged)]) == 0
    said = capfd.readouterr().out
    assert "4 logs of 2 hosts" in said and "runs" not in said and "aligned on MPI_Init, to within" in said
    log = open_log(merged)
    ranks = [row for row in log.processes().to_pylist() if row["parent"] is None]
    assert [row["host"] for row in ranks] == ["first", "first", "second", "second"]
    assert len({row["job_run"] for row in ranks}) == 1 and ranks[0]["job_run"]
    # AND the clocks differ by no more than is stated: both hosts have the same in truth
    info = log.info()
    error = info["clock_error"]
    raw = {path.name: open_log(path).processes().to_pylist()[0]["begin"] for path in logs.iterdir()}
    moved = [row["begin"] - raw[f"run-rank{row['global_rank']}.parquet"] for row in ranks]
    assert moved[0] == moved[1] == 0 and abs(moved[2] + shift) <= error < abs(shift) and moved[2] == moved[3]
    # AND so is the order of what they did
    columns = ["time", "layer", "op_class", "path", "bytes_moved"]
    rows = [row for row in log.operations(columns).to_pylist() if (row["layer"], row["op_class"]) == ("posix", "write")]
    written = [row for row in rows if row["path"] and Path(row["path"]).name.startswith("own-")]
    turns = {row["bytes_moved"] - 1000: row["time"] for row in written}
    assert sorted(turns) == list(range(40))
    assert all(turns[later] - turns[former] > -error for former in range(40) for later in range(former + 1, 40))
