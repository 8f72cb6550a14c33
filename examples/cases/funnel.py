"""Case 5, rank 0 funnel: every process sends its part to the first one, which alone writes the file.

With --fixed each process writes its own part of the shared file, where it belongs.
"""

import os
from collections.abc import Callable
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import case

PROCESSES, STEPS, PART = 4, 40, 2 << 20
CONTEXT = get_context("fork")


def part_of(rank: int, step: int) -> bytes:
    return bytes([rank ^ step]) * PART


def place(rank: int, step: int, ranks: int) -> int:
    return (step * ranks + rank) * PART


def send(rank: int, to: Connection) -> None:
    for step in range(STEPS):
        to.send_bytes(part_of(rank, step))


def write(rank: int, path: Path, ranks: int) -> None:
    descriptor = os.open(path, os.O_WRONLY)
    for step in range(STEPS):
        os.pwrite(descriptor, part_of(rank, step), place(rank, step, ranks))
    os.close(descriptor)


def collect(path: Path, ends: list[Connection]) -> None:
    """Rank 0 of the bad run."""
    descriptor = os.open(path, os.O_WRONLY)
    for step in range(STEPS):
        os.pwrite(descriptor, part_of(0, step), place(0, step, PROCESSES))
        for rank, receiving in enumerate(ends, 1):
            os.pwrite(descriptor, receiving.recv_bytes(), place(rank, step, PROCESSES))
    os.close(descriptor)


def run(path: Path, writers: int, works: list[tuple[Callable[..., None], tuple[Any, ...]]]) -> case.Did:
    """Runs each rank's work in a process."""
    ranks = [CONTEXT.Process(target=work, args=given, name=f"rank {rank}") for rank, (work, given) in enumerate(works)]
    for process in ranks:
        process.start()
    for process in ranks:
        process.join()
    return {"processes": PROCESSES, "writers": writers, "bytes_written": path.stat().st_size}


def funnel(folder: Path) -> case.Did:
    path = folder / "plot.dat"
    path.write_bytes(b"")
    pipes = [CONTEXT.Pipe(duplex=False) for _ in range(1, PROCESSES)]
    works: list[Any] = [(send, (rank, sending)) for rank, (_, sending) in enumerate(pipes, 1)]
    return run(path, 1, [(collect, (path, [receiving for receiving, _ in pipes])), *works])


def each(folder: Path) -> case.Did:
    path = folder / "plot.dat"
    path.write_bytes(b"")
    return run(path, PROCESSES, [(write, (rank, path, PROCESSES)) for rank in range(PROCESSES)])


def funnel_of_rank(folder: Path, world: Any) -> case.Did:
    """The bad run as a rank of an MPI program."""
    path = folder / "plot.dat"
    if world.rank:
        for step in range(STEPS):
            world.send(part_of(world.rank, step), dest=0)
        return {"writers": 0, "bytes_written": 0}
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
    for step in range(STEPS):
        os.pwrite(descriptor, part_of(0, step), place(0, step, world.size))
        for rank in range(1, world.size):
            os.pwrite(descriptor, world.recv(source=rank), place(rank, step, world.size))
    os.close(descriptor)
    return {"writers": 1, "bytes_written": path.stat().st_size}


def own_part_of_rank(folder: Path, world: Any) -> case.Did:
    path = folder / "plot.dat"
    if world.rank == 0:
        path.write_bytes(b"")
    world.Barrier()
    write(world.rank, path, world.size)
    return {"writers": 1, "bytes_written": STEPS * PART}


if __name__ == "__main__":
    case.run("funnel", funnel, each, ranks=(funnel_of_rank, own_part_of_rank))
