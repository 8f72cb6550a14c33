"""Case 4, no chunking: tiles of a two-dimensional HDF5 dataset, written to contiguous storage.

Each process owns one file and writes it tile by tile.  The rows of a tile are
apart in the file, so each tile becomes a write for each of its rows.  With
--fixed the dataset is chunked as it is written.
"""

from multiprocessing import get_context
from pathlib import Path
from typing import Any

import case
import h5py
import numpy as np

PROCESSES, SIDE, TILE = 2, 4096, 512


def write(path: Path, chunks: tuple[int, int] | None) -> int:
    """Writes one file; returns the number of tiles."""
    tiles = 0
    tile = np.random.default_rng(1).random((TILE, TILE))
    with h5py.File(path, "w") as file:
        field = file.create_dataset("field", (SIDE, SIDE), "f8", chunks=chunks)
        for row in range(0, SIDE, TILE):
            for column in range(0, SIDE, TILE):
                field[row : row + TILE, column : column + TILE] = tile
                tiles += 1
    return tiles


def simulate(folder: Path, chunks: tuple[int, int] | None) -> case.Did:
    paths = [folder / f"domain{rank}.h5" for rank in range(PROCESSES)]
    with get_context("fork").Pool(PROCESSES) as pool:
        tiles = sum(pool.starmap(write, [(path, chunks) for path in paths], chunksize=1))
    return {"tiles": tiles, "bytes_written": tiles * TILE * TILE * 8, "rows": tiles * TILE}


def simulate_rank(folder: Path, world: Any, chunks: tuple[int, int] | None) -> case.Did:
    """One rank of an MPI program."""
    tiles = write(folder / f"domain{world.rank}.h5", chunks)
    return {"tiles": tiles, "bytes_written": tiles * TILE * TILE * 8, "rows": tiles * TILE}


if __name__ == "__main__":
    case.run(
        "no_chunking", lambda folder: simulate(folder, None), lambda folder: simulate(folder, (TILE, TILE)),
        ranks=(lambda *given: simulate_rank(*given, None), lambda *given: simulate_rank(*given, (TILE, TILE))),
    )  # fmt: skip
