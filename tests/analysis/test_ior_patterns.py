"""What programs of the patterns of IOR and mdtest print equals what the views say of them.

IOR: each rank moves `segments` x `blocks` in pieces of `transfer` bytes: to a shared file or, with -F, a file of its
own; with -z in random order; with -c by collective calls. mdtest: each rank creates, stats, reads and removes files.
"""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from pyio_trace.analysis.reducers.by_file import REDUCER as ByFile
from pyio_trace.analysis.reducers.by_rank import ByRank
from pyio_trace.analysis.reducers.mpi_calls import MpiCallsByFile
from pyio_trace.analysis.reducers.phases import PhasesOfRun
from pyio_trace.join.sources.facade import Log
from pyio_trace.join.sources.opening import open_log
from pyio_trace.views import scan
from tests.support import mpi
from tests.support.programs import Runner, succeeded

RANKS, SEGMENTS, BLOCK, TRANSFER = 4, 3, 1 << 16, 1 << 14
IOR = f"""
import random, time
SEGMENTS, BLOCK, TRANSFER = {SEGMENTS}, {BLOCK}, {TRANSFER}
own, shuffled, collective = (flag in sys.argv for flag in ("-F", "-z", "-c"))
path = f"data.{{rank:08d}}" if own else "data"
comm = MPI.COMM_SELF if own else world
offsets = []
for segment in range(SEGMENTS):
    base = segment * BLOCK if own else (segment * size + rank) * BLOCK
    offsets += range(base, base + BLOCK, TRANSFER)
if shuffled:
    random.Random(rank).shuffle(offsets)
buffer = bytearray(b"x" * TRANSFER)
printed = {{"rank": rank, "write": 0, "read": 0, "calls": 0}}
for way in ("write", "read"):
    file = opened(path, comm=comm)
    for offset in offsets:
        name = f"{{way.title()}}_at" + ("_all" if collective else "")
        getattr(file, name)(offset, buffer)
        printed[way] += TRANSFER
        printed["calls"] += 1
    if way == "write":
        file.Sync()
    file.Close()
    world.Barrier()
    time.sleep(0.3)
with open(f"printed-{{rank}}.json", "w") as out:
    json.dump(printed, out)
"""
MDTEST = """
ITEMS = 40
made = [f"item.{rank}.{n}" for n in range(ITEMS)]
for name in made:
    with open(name, "wb") as file:
        file.write(b"12345")
world.Barrier()
for name in made:
    os.stat(name)
world.Barrier()
for name in made:
    with open(name, "rb", buffering=0) as file:
        file.read(5)
world.Barrier()
for name in made:
    os.remove(name)
printed = {"rank": rank, "items": ITEMS}
with open(f"printed-{rank}.json", "w") as out:
    json.dump(printed, out)
"""

pytestmark = [pytest.mark.slow, pytest.mark.once]


def logs_of(folder: Path) -> Log:
    return open_log(folder)


def printed(folder: Path) -> list[dict[str, int]]:
    return [json.loads((folder / f"printed-{rank}.json").read_text()) for rank in range(RANKS)]


@pytest.mark.parametrize("flags", ["", "-F", "-z", "-c", "-F -z", "-c -z"])
def test_ior(program: Runner, flags: str) -> None:
    # GIVEN a job of the pattern
    program.write(mpi.PRELUDE + IOR, "ior.py")
    job = mpi.run(program, "", RANKS, words=[program.folder / "ior.py", *flags.split()])
    succeeded(job.outcome)
    said = printed(program.folder)
    log = logs_of(program.folder)
    calls, files, phases = scan(log, [MpiCallsByFile(), ByFile(), PhasesOfRun()])
    # THEN calls, ranks and bytes of each direction are what the program counted
    for way in ("write", "read"):
        rows = [row for row in calls.rows if way in row.op and row.moved_bytes]
        assert sum(row.moved_bytes for row in rows) == sum(one[way] for one in said)
        assert {row.collective for row in rows} == {"-c" in flags}
        assert {row.ranks for row in rows} == ({1} if "-F" in flags else {RANKS})
        assert sum(row.calls for row in rows) == RANKS * SEGMENTS * BLOCK // TRANSFER
    # ... on as many files
    names = {Path(row.path).name for row in calls.rows if row.path and row.moved_bytes}
    assert names == ({f"data.{rank:08d}" for rank in range(RANKS)} if "-F" in flags else {"data"})
    written = [row for row in files.rows if Path(row.key).name in names]
    moved, asked = sum(row.written_bytes for row in written), sum(one["write"] for one in said)
    # MPICH's aggregators also write what lies between the pieces of one collective call (data sieving)
    assert moved == asked or (flags == "-c -z" and moved > asked)
    # ... each offset once, in the order of the calls
    for rank, outcome in enumerate(job.ranks):
        offsets = [row["file_offset"] for row in mpi.data_rows(outcome) if "write" in row["op"]]
        assert len(set(offsets)) == len(offsets) == said[rank]["calls"] // 2
        assert (offsets == sorted(offsets)) == ("-z" not in flags)
    # ... and writing and reading are phases of their own
    kinds = [phase.kind for phase in phases.rows if phase.moved_bytes >= RANKS * TRANSFER]
    assert len(kinds) >= 2


def test_mdtest(program: Runner) -> None:
    succeeded(mpi.run(program, MDTEST, RANKS).outcome)
    said = printed(program.folder)
    log = logs_of(program.folder)
    columns = ["op", "op_class", "path", "global_rank", "bytes_moved", "layer"]
    rows = [row for row in log.operations(columns).to_pylist() if "/item." in (row["path"] or "")]
    rows = [row for row in rows if row["layer"] == "posix"]
    for one in said:
        mine = [row for row in rows if row["global_rank"] == one["rank"]]
        ops = Counter(row["op_class"] for row in mine)
        by_op = Counter(row["op"] for row in mine)
        assert len({row["path"] for row in mine}) == one["items"]
        assert ops["open"] == 2 * one["items"] and ops["close"] == 2 * one["items"]
        assert ops["write"] == one["items"] and by_op["unlink"] + by_op["unlinkat"] == one["items"]
        assert sum(row["bytes_moved"] for row in mine if row["op_class"] == "read") == 5 * one["items"]
    (ranks,) = scan(log, [ByRank()])
    assert {f"rank {one['rank']}" for one in said} <= {row.key for row in ranks.rows}
