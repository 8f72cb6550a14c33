"""Case 6, HDF5 metadata and alignment: rows appended to an HDF5 dataset, with a flush after each.

A flush writes the whole chunk that the row is in, and the file's metadata in
small pieces after it.  With --fixed the file is flushed once in a hundred rows,
its metadata is in blocks of their own, and data begin at pages.
"""

from pathlib import Path
from typing import Any

import case
import h5py
import numpy as np

ROWS, COLUMNS, CHUNK = 2000, 1024, 256
RARELY = 100  # rows between two flushes, with --fixed


def record(folder: Path, every: int, **options: Any) -> case.Did:
    flushes = 0
    row = np.arange(COLUMNS, dtype="f8")
    with h5py.File(folder / "record.h5", "w", **options) as file:
        series = file.create_dataset("series", (0, COLUMNS), "f8", maxshape=(None, COLUMNS), chunks=(CHUNK, COLUMNS))
        for number in range(ROWS):
            series.resize(number + 1, axis=0)
            series[number] = row
            if number % every == every - 1:
                file.flush()
                flushes += 1
    return {"rows": ROWS, "flushes": flushes, "bytes_of_data": ROWS * COLUMNS * 8}


def fixed(folder: Path) -> case.Did:
    options = {"alignment_threshold": 4096, "alignment_interval": 4096, "meta_block_size": 1 << 20}
    return record(folder, RARELY, libver="latest", **options)


if __name__ == "__main__":
    case.run("hdf5_metadata", lambda folder: record(folder, 1), fixed)
