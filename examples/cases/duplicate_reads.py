"""Case 11, duplicate reads: a Dask graph in which several tasks read the same Parquet files.

Each statistic comes from a task that reads the whole table.  With
--fixed one task reads each file once, and all statistics come from what it got.
"""

from pathlib import Path
from typing import Any

import case
import dask
import numpy as np
import pandas as pd
import pyarrow.parquet as pq

FILES, ROWS = 4, 300_000
NAMES = ("min", "max", "mean", "std", "sum", "prod", "first_valid_index", "last_valid_index")


def make(folder: Path) -> None:
    numbers = np.random.default_rng(1)
    for part in range(FILES):
        frame = pd.DataFrame({f"column{n}": numbers.random(ROWS) for n in range(8)})
        frame.to_parquet(folder / f"part{part}.parquet")


def load(path: Path) -> Any:
    return pq.read_table(path).to_pandas()


def load_and_compute(path: Path, name: str) -> float:
    return compute(load(path), name)


def compute(frame: Any, name: str) -> float:
    return float(getattr(frame["column0"], name)())


def total(parts: list[float]) -> float:
    return sum(parts)


def bad(folder: Path) -> case.Did:
    paths = sorted(folder.glob("*.parquet"))
    each = dask.delayed(load_and_compute)
    sums = [dask.delayed(total)([each(path, name) for path in paths]) for name in NAMES]
    dask.compute(*sums, scheduler="threads", num_workers=2)
    return {"files": len(paths), "readings": len(paths) * len(NAMES), "stored": sum(p.stat().st_size for p in paths)}


def fixed(folder: Path) -> case.Did:
    paths = sorted(folder.glob("*.parquet"))
    frames = [dask.delayed(load)(path) for path in paths]
    each = dask.delayed(compute)
    sums = [dask.delayed(total)([each(frame, name) for frame in frames]) for name in NAMES]
    dask.compute(*sums, scheduler="threads", num_workers=2)
    return {"files": len(paths), "readings": len(paths), "stored": sum(p.stat().st_size for p in paths)}


if __name__ == "__main__":
    case.run("duplicate_reads", bad, fixed, make)
