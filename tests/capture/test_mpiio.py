"""MPI-IO as real ranks do it, through mpi4py and from C: calls, places, bytes, parents, against what each rank says."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from pyio_trace.cli.main import main
from tests.support import mpi
from tests.support.mpi import RANKS, Job, beneath, detail
from tests.support.programs import Outcome, Runner, succeeded

pytest.importorskip("mpi4py", reason="mpi4py is not installed")

#: Each part has files of its own, so that its test finds its rows by their path.
FORMS = """
SIZE = 1000
data = bytes([65 + rank]) * SIZE
room = bytearray(SIZE)

# independent
file = opened("independent")
file.Write_at(rank * SIZE, data); tell("MPI_File_write_at", "independent", rank * SIZE, SIZE, SIZE)
settle(file)
other = (rank + 1) % size
file.Read_at(other * SIZE, room); tell("MPI_File_read_at", "independent", other * SIZE, SIZE, SIZE)
assert room == bytes([65 + other]) * SIZE
file.Seek(size * SIZE + rank * 10)
file.Write(data[:10]); tell("MPI_File_write", "independent", size * SIZE + rank * 10, 10, 10)
file.Seek(-10, MPI.SEEK_CUR)
file.Read(room[:10]); tell("MPI_File_read", "independent", size * SIZE + rank * 10, 10, 10)
file.Close()

# collective
file = opened("collective")
file.Write_at_all(rank * SIZE, data); tell("MPI_File_write_at_all", "collective", rank * SIZE, SIZE, SIZE)
settle(file)
file.Read_at_all(other * SIZE, room); tell("MPI_File_read_at_all", "collective", other * SIZE, SIZE, SIZE)
assert room == bytes([65 + other]) * SIZE
file.Seek(rank * SIZE)
file.Write_all(data); tell("MPI_File_write_all", "collective", rank * SIZE, SIZE, SIZE)
settle(file)
file.Seek(rank * SIZE)
file.Read_all(room); tell("MPI_File_read_all", "collective", rank * SIZE, SIZE, SIZE)
file.Close()

# the shared pointer
file = opened("shared")
file.Write_shared(data); tell("MPI_File_write_shared", "shared", None, SIZE, SIZE)
settle(file)
file.Seek_shared(0)
file.Read_shared(room); tell("MPI_File_read_shared", "shared", None, SIZE, SIZE)
settle(file)
file.Write_ordered(data[:rank]); tell("MPI_File_write_ordered", "shared", None, rank, rank)
settle(file)
file.Seek_shared(0)
file.Read_ordered(room); tell("MPI_File_read_ordered", "shared", None, SIZE, SIZE)
file.Close()

# split
file = opened("split")
file.Write_at_all_begin(rank * SIZE, data); file.Write_at_all_end(data)
tell("MPI_File_write_at_all_begin", "split", rank * SIZE, SIZE, SIZE)
settle(file)
status = MPI.Status()
file.Read_at_all_begin(rank * SIZE, room); file.Read_at_all_end(room, status)
tell("MPI_File_read_at_all_begin", "split", rank * SIZE, SIZE, status.Get_elements(MPI.BYTE))
file.Seek(rank * SIZE)
file.Write_all_begin(data); file.Write_all_end(data); tell("MPI_File_write_all_begin", "split", rank * SIZE, SIZE, SIZE)
settle(file)
file.Seek(rank * SIZE)
file.Read_all_begin(room); file.Read_all_end(room); tell("MPI_File_read_all_begin", "split", rank * SIZE, SIZE, SIZE)
file.Seek_shared(0)
file.Write_ordered_begin(data); file.Write_ordered_end(data)
tell("MPI_File_write_ordered_begin", "split", None, SIZE, SIZE)
settle(file)
file.Seek_shared(0)
file.Read_ordered_begin(room); file.Read_ordered_end(room)
tell("MPI_File_read_ordered_begin", "split", None, SIZE, SIZE)
file.Close()

# 20 nonblocking calls at once, completed by each of the calls that can
file = opened("nonblocking")
def start(n, each=10):
    places = [rank * SIZE + i * each for i in range(n)]
    for place in places:
        tell("MPI_File_iwrite_at", "nonblocking", place, each, each)
    return [file.Iwrite_at(place, data[:each]) for place in places]
statuses = [MPI.Status() for _ in range(20)]
MPI.Request.Waitall(start(20), statuses)
assert all(one.Get_elements(MPI.BYTE) == 10 for one in statuses)
MPI.Request.Waitall(start(20))
for request in start(3): request.Wait()
for request in start(3):
    while not request.Test(): pass
requests = start(5)
for _ in requests: assert MPI.Request.Waitany(requests) != MPI.UNDEFINED
requests = start(5)
while MPI.Request.Waitsome(requests) is not None: pass
requests = start(5)
while MPI.Request.Testsome(requests) is not None: pass
requests = start(5)
for _ in requests:
    while not MPI.Request.Testany(requests)[1]: pass
requests = start(1)  # of several MPICH 5.0 asks for the results twice, which is an error, traced or not
while not MPI.Request.Testall(requests): pass
MPI.Request.Waitall(start(100, 5))
settle(file)
half = room[:500]  # Open MPI 5.0 never completes a nonblocking read beyond the end
file.Iread_at(rank * SIZE, half).Wait(); tell("MPI_File_iread_at", "nonblocking", rank * SIZE, 500, 500)
file.Seek(rank * SIZE)
file.Iwrite(data).Wait(); tell("MPI_File_iwrite", "nonblocking", rank * SIZE, SIZE, SIZE)
settle(file)
file.Seek(rank * SIZE)
file.Iread(room).Wait(); tell("MPI_File_iread", "nonblocking", rank * SIZE, SIZE, SIZE)
file.Iwrite_at_all(rank * SIZE, data).Wait(); tell("MPI_File_iwrite_at_all", "nonblocking", rank * SIZE, SIZE, SIZE)
settle(file)
file.Iread_at_all(rank * SIZE, room).Wait(); tell("MPI_File_iread_at_all", "nonblocking", rank * SIZE, SIZE, SIZE)
file.Seek(rank * SIZE)
file.Iwrite_all(data).Wait(); tell("MPI_File_iwrite_all", "nonblocking", rank * SIZE, SIZE, SIZE)
file.Seek(rank * SIZE)
file.Iread_all(room).Wait(); tell("MPI_File_iread_all", "nonblocking", rank * SIZE, SIZE, SIZE)
file.Iwrite_shared(data[:10]).Wait(); tell("MPI_File_iwrite_shared", "nonblocking", None, 10, 10)
settle(file)
file.Seek_shared(0)
file.Iread_shared(room[:10]).Wait(); tell("MPI_File_iread_shared", "nonblocking", None, 10, 10)
file.Close()

# a strided view: blocks of 100 bytes, a rank's every size-th
file = opened("strided")
block = MPI.BYTE.Create_vector(1, 100, 100).Create_resized(0, size * 100).Commit()
pair = MPI.BYTE.Create_contiguous(2).Commit()
file.Set_view(40 + rank * 100, pair, block)
file.Write_at(50, data[:300]); tell("MPI_File_write_at", "strided", 40 + rank * 100 + size * 100, 300, 300)
file.Seek(100)
file.Write(data[:100]); tell("MPI_File_write", "strided", 40 + rank * 100 + 2 * size * 100, 100, 100)
settle(file)
file.Set_view(7)
file.Read_at(3, room[:10]); tell("MPI_File_read_at", "strided", 10, 10, 10)
file.Close()

# elements that are not bytes, places in doubles, holes in memory
file = opened("elements")
file.Set_view(8, MPI.DOUBLE)
file.Write_at(rank * 5, [data[:40], 5, MPI.DOUBLE]); tell("MPI_File_write_at", "elements", 8 + rank * 40, 40, 40)
holes = MPI.BYTE.Create_vector(4, 8, 16).Commit()
file.Write_at(size * 5 + rank * 4, [data[:56], 1, holes])
tell("MPI_File_write_at", "elements", 8 + size * 40 + rank * 32, 32, 32)
file.Close()

# the end of the file, and nothing at all
file = opened("short")
file.Set_size(0)
world.Barrier()
if rank == 0:
    file.Write_at(0, data[:150]); tell("MPI_File_write_at", "short", 0, 150, 150)
settle(file)
file.Read_at(100, room[:200]); tell("MPI_File_read_at", "short", 100, 200, 50)
file.Read_at(1000, room[:200]); tell("MPI_File_read_at", "short", 1000, 200, 0)
file.Write_at_all(rank * 10, data[:10 if rank else 0])
tell("MPI_File_write_at_all", "short", rank * 10, 10 if rank else 0, 10 if rank else 0)
file.Close()

# communicators
file = opened(f"own-{rank}", comm=MPI.COMM_SELF)
file.Write(data); tell("MPI_File_write", f"own-{rank}", 0, SIZE, SIZE)
file.Preallocate(4096); file.Get_size(); file.Set_atomicity(True)
file.Close()
part = world.Split(rank % 2, rank)
file = opened(f"part-{rank % 2}", comm=part)
file.Write_at_all(part.rank * SIZE, data)
tell("MPI_File_write_at_all", f"part-{rank % 2}", part.rank * SIZE, SIZE, SIZE)
file.Close()
try:
    opened("missing/file", MPI.MODE_RDONLY, MPI.COMM_SELF)
except MPI.Exception as problem:
    assert problem.Get_error_class() == MPI.ERR_NO_SUCH_FILE
world.Barrier()
if rank == 0:
    MPI.File.Delete("own-1")

# interleaved, through one aggregator
hints = MPI.Info.Create({"cb_nodes": "1", "romio_cb_write": "enable"})
file = MPI.File.Open(world, "gathered", MPI.MODE_CREATE | MPI.MODE_RDWR, hints)
file.Set_view(rank * 100, MPI.BYTE, block)
file.Write_at_all(0, data); tell("MPI_File_write_at_all", "gathered", rank * 100, SIZE, SIZE)
file.Close()
leave()
"""


@pytest.fixture(scope="module")
def forms(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Job]:
    """FORMS, run by four ranks."""
    job = mpi.run(Runner(tmp_path_factory.mktemp("forms")), FORMS)
    succeeded(job.outcome)
    yield job


def told_and_seen(job: Job, name: str) -> None:
    for rank in range(RANKS):
        path = job.folder / name
        assert job.seen(rank, path) == job.told(rank, path), f"rank {rank}"
        assert job.told(rank, path)


@pytest.mark.parametrize(
    "name", ["independent", "collective", "shared", "split", "nonblocking", "strided", "elements", "short", "gathered"]
)
def test_calls_places_and_bytes(forms: Job, name: str) -> None:
    # GIVEN ranks that use a file in each form WHEN traced THEN each call has a row with its place and its bytes
    told_and_seen(forms, name)


def test_system_calls_are_beneath(forms: Job) -> None:
    # GIVEN blocking calls of each rank alone WHEN traced THEN what was written beneath a call is what it wrote
    for rank in range(RANKS):
        rows = mpi.data_rows(forms.ranks[rank], forms.folder / "independent")
        for row in rows:
            calls = [call for call in beneath(forms.ranks[rank], row) if call["op_class"] == row["op_class"]]
            assert sum(call["bytes_moved"] for call in calls) == row["bytes_moved"]
            assert row["site"].startswith(str(forms.folder / "program.py"))


def test_nonblocking_parents(forms: Job) -> None:
    # GIVEN nonblocking calls WHEN traced THEN their system calls are theirs, whether made at once or while waiting
    for outcome in forms.ranks:
        for row in mpi.data_rows(outcome, forms.folder / "nonblocking"):
            if row["op"] == "MPI_File_iwrite_at":
                assert [one["op"] for one in beneath(outcome, row) if one["bytes_requested"]] == ["aio_write"]
        waits = outcome.select(op=("MPI_Wait", "MPI_Waitall", "MPI_Waitany", "MPI_Waitsome"))
        assert {row["op"] for row in waits} == {"MPI_Wait", "MPI_Waitall", "MPI_Waitany", "MPI_Waitsome"}
        assert all(row["layer"] == "mpiio" for row in waits)


def test_communicators(forms: Job) -> None:
    # GIVEN files of the world, of a part and of one rank WHEN traced THEN each call says whether
    # it was collective, and of how many
    for rank, outcome in enumerate(forms.ranks):
        [own] = mpi.data_rows(outcome, forms.folder / f"own-{rank}")
        [part] = mpi.data_rows(outcome, forms.folder / f"part-{rank % 2}")
        assert detail(own) == {"collective": False, "ranks": 1}
        assert detail(part) == {"collective": True, "ranks": RANKS // 2}
        [opening] = outcome.select(op="MPI_File_open", path=forms.folder / "gathered")
        assert detail(opening)["ranks"] == RANKS and detail(opening)["mode"] == "rw|create"
        told_and_seen(forms, "gathered")
        assert {row["op"] for row in outcome.select(layer="mpiio", path=forms.folder / f"own-{rank}")} >= {
            "MPI_File_open", "MPI_File_write", "MPI_File_preallocate", "MPI_File_get_size", "MPI_File_set_atomicity",
            "MPI_File_close",
        }  # fmt: skip
    assert len(forms.ranks[0].select(op="MPI_File_delete", path=forms.folder / "own-1")) == 1


def test_a_failed_opening(forms: Job) -> None:
    # GIVEN a file that is not there WHEN a rank opens it THEN its row has the error and the path
    for outcome in forms.ranks:
        [row] = outcome.select(op="MPI_File_open", path=forms.folder / "missing" / "file")
        assert os.strerror(row["errno"]) == "No such file or directory"


def test_aggregators(forms: Job) -> None:
    # GIVEN one aggregator WHEN all ranks write interleaved blocks THEN its system calls moved the bytes of all
    written = []
    for outcome in forms.ranks:
        [row] = mpi.data_rows(outcome, forms.folder / "gathered")
        written.append(sum(call["bytes_moved"] or 0 for call in beneath(outcome, row) if call["op_class"] == "write"))
    assert sum(written) == 1000 * RANKS
    if mpi.library() == "MPICH":
        assert written == [1000 * RANKS, 0, 0, 0]
        [opening] = forms.ranks[0].select(op="MPI_File_open", path=forms.folder / "gathered")
        assert json.loads(opening["detail"])["hints"]["cb_nodes"] == "1"


def test_ranks_are_those_of_mpi(forms: Job) -> None:
    # GIVEN a job WHEN traced into one fixed name THEN each rank has a log, and knows its rank and their number
    for rank, outcome in enumerate(forms.ranks):
        [entry] = [one for one in outcome.processes if one["parent"] is None]
        assert (entry["global_rank"], entry["world_size"]) == (rank, RANKS)
    # AND all have the id of their launch
    assert len({one["job_run"] for outcome in forms.ranks for one in outcome.processes}) == 1


def test_runs_of_one_folder(program: Runner) -> None:
    # GIVEN two launches of two ranks each, and a shell between a launcher and its rank, with their logs in one folder
    words = [
        "sh",
        "-c",
        'exec "$0" -m pyio_trace -q -o "$1-$PMI_RANK$PMIX_RANK.parquet" -c "$2"; exit 3',
        sys.executable,
    ]
    for name in ("first", "second"):
        outcome = mpi.run(program, "", 2, traced=False, words=[*words, program.folder / name, "import json"]).outcome
        succeeded(outcome)
    logs = sorted(program.folder.glob("*.parquet"))
    of_log = [{row["job_run"] for row in Outcome(0, "", "", log).processes} for log in logs]
    # THEN each has an id, that of its launch
    assert len(logs) == 4 and of_log[0] == of_log[1] != of_log[2] == of_log[3] and None not in of_log[0] | of_log[2]
    # AND one of them can be merged
    (run,) = of_log[2]
    assert main(["merge", str(program.folder), "--job", str(run), "-o", str(program.folder / "job.parquet")]) == 0
    assert {row["job_run"] for row in Outcome(0, "", "", program.folder / "job.parquet").processes} == {run}


def test_moments_that_all_ranks_share(forms: Job) -> None:
    # GIVEN the ranks of a job on one host THEN each knows when it called MPI_Init and when that returned; none left it
    # before all had entered, which is what clocks of several hosts are aligned on
    entries = [one for outcome in forms.ranks for one in outcome.processes if one["parent"] is None]
    assert all(one["begin"] < one["mpi_init_begin"] < one["mpi_init_end"] < one["end"] for one in entries)
    assert max(one["mpi_init_begin"] for one in entries) < min(one["mpi_init_end"] for one in entries)


@pytest.mark.slow
def test_results_are_as_without_tracing(program: Runner) -> None:
    # GIVEN the same program WHEN run untraced THEN it makes the same files
    job = mpi.run(program, FORMS, traced=False)
    succeeded(job.outcome)
    again = program.folder / "traced"
    again.mkdir()
    traced = mpi.run(Runner(again), FORMS)
    succeeded(traced.outcome)
    names = ["independent", "collective", "split", "strided", "elements", "short", "gathered", "part-0", "own-0"]
    for name in names:
        assert (again / name).read_bytes() == (program.folder / name).read_bytes(), name


THREADS = """
import threading
file = opened("data")
def work(n):
    for i in range(50):
        place = ((n * 50 + i) * size + rank) * 64
        file.Write_at(place, bytes(64)); places[n].append(place)
places = [[] for _ in range(4)]
assert MPI.Query_thread() == MPI.THREAD_MULTIPLE
threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
for one in threads: one.start()
for one in threads: one.join()
for part in places:
    for place in part: tell("MPI_File_write_at", "data", place, 64, 64)
file.Close()
leave()
"""


def test_threads(program: Runner) -> None:
    # GIVEN four threads of each rank that write at once WHEN traced THEN all 200 calls are there, each with its writes
    job = mpi.run(program, THREADS, 2)
    succeeded(job.outcome)
    for rank, outcome in enumerate(job.ranks):
        assert sorted(job.seen(rank), key=str) == sorted(job.told(rank), key=str)
        for row in mpi.data_rows(outcome):
            calls = [call for call in beneath(outcome, row) if call["op_class"] == "write"]
            assert [(call["file_offset"], call["bytes_moved"], call["tid"]) for call in calls] == [
                (row["file_offset"], 64, row["tid"])
            ]


def test_sums(program: Runner) -> None:
    # GIVEN mode profile WHEN ranks write, at once and later THEN the sums have calls and bytes
    text = """
file = opened("data")
for i in range(30): file.Write_at((i * size + rank) * 10, bytes(10))
MPI.Request.Waitall([file.Iwrite_at((i * size + rank) * 10, bytes(10)) for i in range(30)])
file.Close()
"""
    job = mpi.run(program, text, 2, ["--mode", "profile"])
    succeeded(job.outcome)
    for outcome in job.ranks:
        sums = {row["op"]: (row["calls"], row["bytes_moved"]) for row in mpi.data_rows(outcome)}
        assert sums == {"MPI_File_write_at": (30, 300), "MPI_File_iwrite_at": (30, 300)}


@pytest.mark.parametrize("how", ["world.Abort(3)", "os.kill(os.getpid(), 9)", "os._exit(3)"])
def test_sudden_ends(program: Runner, how: str) -> None:
    # GIVEN a job that one rank brings down WHEN traced THEN every log has what its rank had done before
    text = f"""
file = opened("data")
file.Write_at_all(rank * 100, bytes(100)); tell("MPI_File_write_at_all", "data", rank * 100, 100, 100)
settle(file)
leave()
world.Barrier()
if rank == 1: {how}
world.Barrier()
world.Barrier()
"""
    bare = mpi.run(program, text, 2, traced=False)
    job = mpi.run(program, text, 2)
    assert bool(job.outcome.status) == bool(bare.outcome.status)
    for rank in range(2):
        assert job.seen(rank) == job.told(rank)


def test_ranks_that_mpi_corrects(program: Runner) -> None:
    # GIVEN an environment that somebody else's launcher has made WHEN MPI starts THEN the rank is MPI's
    mpi.mpiexec()
    env = {**mpi.ENVIRONMENT, "RANK": "5", "WORLD_SIZE": "8"}
    outcome = succeeded(program.traced("from mpi4py import MPI", log="run-%p.pyio", env=env))
    [log] = program.folder.glob("run-*.pyio")
    outcome.path = log
    [entry] = outcome.processes
    assert (entry["global_rank"], entry["world_size"]) == (0, 1)


def test_packed_logs_of_a_fixed_name(program: Runner) -> None:
    # GIVEN a name for the log without a pattern WHEN ranks write it THEN each has its own, and none is lost
    words = [program.write(mpi.PRELUDE + 'opened("data").Close()')]
    command = [mpi.mpiexec(), "-n", RANKS, sys.executable, "-m", "pyio_trace", "-o", "run.parquet", *words]
    outcome = succeeded(program.command(command, env=mpi.ENVIRONMENT))
    assert sorted(path.name for path in program.folder.glob("*.parquet")) == [
        f"run-rank{rank}.parquet" for rank in range(RANKS)
    ]
    assert "MPI_File_open" in outcome.stderr or "4 ranks" in outcome.stderr


def test_a_program_without_mpi(program: Runner) -> None:
    # GIVEN a program that does not use MPI WHEN traced THEN no MPI library is loaded, and no row is of MPI-IO
    outcome = succeeded(program.traced("print('libmpi' in open('/proc/self/maps').read())"))
    assert outcome.stdout == "False\n"
    assert outcome.select(layer="mpiio") == []


C_PROGRAM = """\
#include <mpi.h>
#include <stdio.h>
#include <string.h>
int main(int argc, char **argv)
{
    int rank;
    char data[100];
    MPI_File file;
    MPI_Request requests[3];
    MPI_Status status;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    memset(data, 'a' + rank, sizeof data);
    MPI_File_open(MPI_COMM_WORLD, argv[1], MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &file);
    MPI_File_write_at_all(file, rank * 100, data, 25, MPI_INT, MPI_STATUS_IGNORE);
    MPI_File_write_at(file, rank * 100, data, 100, MPI_BYTE, &status);
    for (int i = 0; i < 3; i++)
        MPI_File_iwrite_at(file, rank * 100 + i * 10, data, 10, MPI_CHAR, &requests[i]);
    MPI_Waitall(3, requests, MPI_STATUSES_IGNORE);
    PMPI_File_read_at(file, rank * 100, data, 100, MPI_BYTE, MPI_STATUS_IGNORE);
    MPI_File_close(&file);
    MPI_Finalize();
    return 0;
}
"""


@pytest.mark.parametrize("compiler", ["mpicc", "mpicc_abi"])
def test_a_program_in_c(program: Runner, compiler: str) -> None:
    # GIVEN a program in C, against the library's own ABI or the standard one WHEN a traced Python starts it
    mpicc = Path(sys.prefix, "bin", compiler)
    if not mpicc.exists() or not shutil.which("cc"):
        pytest.skip(f"no {compiler}")
    (program.folder / "program.c").write_text(C_PROGRAM)
    words = [mpicc, "program.c", "-o", "program", f"-Wl,-rpath,{sys.prefix}/lib"]
    built = subprocess.run(words, cwd=program.folder, capture_output=True, text=True, timeout=120)
    assert not built.returncode, built.stderr
    starter = "import os; os.execv('./program', ['./program', 'data'])"
    job = mpi.run(program, "", 2, ["--follow", "all"], words=["-c", starter])
    succeeded(job.outcome)
    # THEN its calls have rows with the places and bytes, in the rank's log
    path = str(program.folder / "data")
    for rank in range(2):
        at = rank * 100
        assert job.seen(rank) == [
            ("MPI_File_write_at_all", path, at, 100, 100),
            ("MPI_File_write_at", path, at, 100, 100),
            *(("MPI_File_iwrite_at", path, at + i * 10, 10, 10) for i in range(3)),
            ("MPI_File_read_at", path, at, 100, 100),
        ]
        [entry] = [one for one in job.ranks[rank].processes if one["argv"] and one["argv"][0] == "./program"]
        assert (entry["global_rank"], entry["world_size"]) == (rank, 2)
