"""Case 7, phases: IOR's pattern, in which all processes write, meet at a barrier, and read each other's files.

As `ior -i 30 -b 144k -t 24k -s SEGMENTS -F -C -e`: a file for each process,
blocks of 144 KiB in transfers of 24 KiB, fsync after each writing phase.  With
--fixed only the last phase is made durable.
"""

import os
from collections.abc import Callable
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import case

PROCESSES, ITERATIONS, SEGMENTS = 2, 30, 16
TRANSFER, BLOCK = 24 << 10, 144 << 10


def rank_main(rank: int, folder: Path, barrier: Callable[[], object], every: bool, ranks: int) -> None:
    data = bytes([rank + 1]) * TRANSFER
    transfers = SEGMENTS * BLOCK // TRANSFER
    for iteration in range(ITERATIONS):
        barrier()
        descriptor = os.open(folder / f"ior.{rank:08}", os.O_CREAT | os.O_RDWR | os.O_TRUNC, 0o644)
        for number in range(transfers):
            os.pwrite(descriptor, data, number * TRANSFER)
        if every or iteration == ITERATIONS - 1:
            os.fsync(descriptor)
        os.close(descriptor)
        barrier()
        descriptor = os.open(folder / f"ior.{(rank + 1) % ranks:08}", os.O_RDONLY)
        for number in range(transfers):
            assert len(os.pread(descriptor, TRANSFER, number * TRANSFER)) == TRANSFER
        os.close(descriptor)
        barrier()


def ior(folder: Path, every: bool) -> case.Did:
    context = get_context("fork")
    barrier = context.Barrier(PROCESSES)
    ranks = [
        context.Process(target=rank_main, args=(rank, folder, barrier.wait, every, PROCESSES), name=f"rank {rank}")
        for rank in range(PROCESSES)
    ]
    for process in ranks:
        process.start()
    for process in ranks:
        process.join()
    return done(PROCESSES, every)


def done(ranks: int, every: bool) -> case.Did:
    """What so many ranks do together."""
    count = ranks * ITERATIONS * SEGMENTS * BLOCK // TRANSFER
    fsyncs = ranks * (ITERATIONS if every else 1)
    return {"reads": count, "writes": count, "bytes_read": count * TRANSFER, "fsyncs": fsyncs}


def ior_of_rank(folder: Path, world: Any, every: bool) -> case.Did:
    """One rank of an MPI program."""
    rank_main(world.rank, folder, world.Barrier, every, world.size)
    return done(1, every)


if __name__ == "__main__":
    case.run(
        "ior_phases", lambda folder: ior(folder, True), lambda folder: ior(folder, False),
        ranks=(lambda *given: ior_of_rank(*given, True), lambda *given: ior_of_rank(*given, False)),
    )  # fmt: skip
