"""Case 11, second form: numpy.load of a whole file to use one row of it.

With --fixed the file is mapped, and only the pages of that row are read.
"""

from pathlib import Path
from typing import Any

import case
import numpy as np

ROWS, COLUMNS, LOOKUPS = 4096, 1024, 300


def make(folder: Path) -> None:
    np.save(folder / "embeddings.npy", np.random.default_rng(1).random((ROWS, COLUMNS), dtype=np.float32))


def row(path: Path, number: int, **how: Any) -> Any:
    return np.load(path, **how)[number]


def look_up(folder: Path, **how: Any) -> case.Did:
    path = folder / "embeddings.npy"
    total = sum(float(row(path, 37 * n % ROWS, **how).sum()) for n in range(LOOKUPS))
    return {"lookups": LOOKUPS, "bytes_used": LOOKUPS * COLUMNS * 4, "total": round(total, 1)}


if __name__ == "__main__":
    case.run("whole_array", look_up, lambda folder: look_up(folder, mmap_mode="r"), make)
