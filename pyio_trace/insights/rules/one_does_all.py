"""One process of several does nearly all reading and writing.

The others wait for it, or for the bandwidth of one. Let each process read its
own part of the file, or use a few writers (MPI-IO aggregators) on a striped file.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from pyio_trace.insights import sql
from pyio_trace.insights.finding import Confidence, Evidence, Finding, Query, Remedy
from pyio_trace.insights.rule import Limit, Rule, Trial
from pyio_trace.units import number, percent, size

if TYPE_CHECKING:
    from pyio_trace.insights.observed import Observed


#: By what the process mostly does.
_RANKS = {
    "read": Remedy(
        "Let each process read its part.",
        "if rank == 0:\n    data = f['x'][:]\npart = comm.scatter(numpy.split(data, size) if rank == 0 else None)",
        "part = f['x'][rank * n : (rank + 1) * n]",
        "h5py",
    ),
    "write": Remedy(
        "Let each process write its part: of one file with MPI-IO, or a file of its own.",
        "parts = comm.gather(part)\nif rank == 0:\n    numpy.save(path, numpy.concatenate(parts))",
        "f = MPI.File.Open(comm, path, MPI.MODE_CREATE | MPI.MODE_WRONLY)\n"
        "f.Write_at_all(rank * part.nbytes, part)\nf.Close()",
        "mpi4py",
    ),
}
#: The same of processes that are no ranks of a parallel job.
_PROCESSES = {
    "read": Remedy(
        "Let each process read its part.",
        "pool.map(work, numpy.array_split(numpy.load(path), processes))",
        "def read_and_work(part):\n    work(numpy.load(path, mmap_mode='r')[part])\n"
        "step = -(-rows // processes)\n"
        "parts = [slice(n, n + step) for n in range(0, rows, step)]\npool.map(read_and_work, parts)",
        "numpy",
    ),
    "write": Remedy(
        "Let each process write its part where it belongs in the file, or a file of its own.",
        "parts = pool.map(compute, range(count))\nPath(path).write_bytes(b''.join(parts))",
        "def compute_and_write(n):\n    part = compute(n)\n    with open(path, 'r+b') as f:\n"
        "        f.seek(n * len(part)); f.write(part)\n"
        "Path(path).touch()\npool.map(compute_and_write, range(count))",
        "python",
    ),
}


def find(run: Observed, limits: Mapping[str, float]) -> Iterator[Finding]:
    for kind, processes in run.peers():
        moved = {one.index: one.moved for one in processes}
        whole, most = sum(moved.values()), max(moved.values())
        if not whole or len(moved) < limits["processes"] or whole < limits["bytes"] or most < limits["share"] * whole:
            continue
        worst = max(processes, key=lambda one: one.moved)
        time = worst.split.io_ns + worst.split.sync_ns + worst.split.lock_ns
        gain = run.gain({worst.index: time * (len(moved) - 1) // len(moved)}, "its I/O, shared by all of them")
        calls = run.calls.where(process=worst.index, own=True)
        calls = calls.rows(calls.columns["moved"] > 0)  # of the files with the bytes, not those it looked for
        written, read = (calls.transfers(way).total("moved") for way in ("write", "read"))
        ranked = run.processes[worst.index]["global_rank"] is not None
        yield Finding(
            title=f"{worst.name} moves {percent(most / whole)} of the bytes of {number(len(moved))} {kind}",
            evidence=[
                Evidence(
                    f"{size(most)} of {size(whole)} are its own.",
                    {"process": worst.index, "bytes": most, "of_bytes": whole, "processes": len(moved)},
                )
            ],
            remedy=(_RANKS if ranked else _PROCESSES)["write" if written >= read else "read"],
            confidence=Confidence(0.7, "whether the others could do it at the same time is not known"),
            query=Query(
                "SELECT process, sum(bytes_moved) AS bytes\nFROM operations\n"
                f"WHERE op_role = 'io'\n  AND {sql.condition('process', list(moved))}\n"
                "GROUP BY process\nORDER BY bytes DESC"
            ),
            **{**run.about(calls, gain), "processes": [worst.index]},
        )


RULE = Rule(
    "balance",
    find,
    limits={
        "processes": Limit(3, "of one kind, at least"),
        "bytes": Limit(1 << 24, "moved by all of them, at least"),
        "share": Limit(0.8, "of the bytes, moved by one of them, at least"),
    },
    topic="shared",
    trial=Trial("pyio_trace.insights.trials.readers:of_files"),
)
