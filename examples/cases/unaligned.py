"""Case 3, unaligned shared file: processes that update interleaved blocks of one file, all beginning in mid-page.

A header of 1000 bytes moves every block off the boundaries of the file system's
blocks.  To change a part of a page that is not in memory, the kernel has to read
it first: two reads for each write.  With --fixed the header takes a whole block.
"""

import os
from pathlib import Path
from typing import Any

import case

PROCESSES, BLOCKS, BLOCK = 4, 32, 2 << 20
HEADER, ROUNDS = 1000, 3


def make(folder: Path) -> None:
    with open(folder / "shared.dat", "wb") as file:
        for _ in range(PROCESSES * BLOCKS + 1):
            file.write(os.urandom(BLOCK))
        os.fsync(file.fileno())


def update(path: Path, rank: int, header: int, ranks: int) -> int:
    """Writes the blocks of one process; returns the bytes."""
    block = bytes([rank]) * BLOCK
    descriptor = os.open(path, os.O_WRONLY)
    written = 0
    for number in range(BLOCKS):
        written += os.pwrite(descriptor, block, header + (number * ranks + rank) * BLOCK)
    os.close(descriptor)
    return written


def drop_from_memory(path: Path) -> None:
    """A file of yesterday is not in memory."""
    descriptor = os.open(path, os.O_RDWR)
    os.fsync(descriptor)
    os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
    os.close(descriptor)


def dump(folder: Path, header: int) -> case.Did:
    path = folder / "shared.dat"
    drop_from_memory(path)
    ranks = []
    for rank in range(PROCESSES):
        ranks.append(os.fork())
        if not ranks[-1]:
            os._exit(update(path, rank, header, PROCESSES) != BLOCKS * BLOCK)
    for pid in ranks:
        assert os.waitpid(pid, 0)[1] == 0
    return {"writes": PROCESSES * BLOCKS, "bytes_written": PROCESSES * BLOCKS * BLOCK, "first_offset": header}


def dump_of_rank(folder: Path, world: Any, header: int) -> case.Did:
    """The blocks of one rank of an MPI program, in several rounds: starting MPI takes longer than one."""
    path = folder / "shared.dat"
    if world.rank == 0:
        drop_from_memory(path)
    world.Barrier()
    written = sum(update(path, world.rank, header, world.size) for _ in range(ROUNDS))
    return {"writes": ROUNDS * BLOCKS, "bytes_written": written}


if __name__ == "__main__":
    case.run(
        "unaligned", lambda folder: dump(folder, HEADER), lambda folder: dump(folder, BLOCK), make,
        ranks=(lambda *given: dump_of_rank(*given, HEADER), lambda *given: dump_of_rank(*given, BLOCK)),
    )  # fmt: skip
