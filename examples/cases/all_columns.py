"""Case 11, third form: pandas reads all columns of CSV files to use two of them.

With --fixed the files are Parquet, and two columns are read.
"""

from pathlib import Path

import case
import numpy as np
import pandas as pd

FILES, ROWS, COLUMNS = 3, 100_000, 16


def make(folder: Path) -> None:
    numbers = np.random.default_rng(1)
    for part in range(FILES):
        frame = pd.DataFrame({f"column{n}": numbers.random(ROWS) for n in range(COLUMNS)})
        frame.to_csv(folder / f"part{part}.csv", index=False)
        frame.to_parquet(folder / f"part{part}.parquet")


def bad(folder: Path) -> case.Did:
    total, paths = 0.0, sorted(folder.glob("*.csv"))
    for path in paths:
        frame = pd.read_csv(path)
        total += float((frame["column0"] * frame["column1"]).sum())
    return {"files": FILES, "rows": FILES * ROWS, "stored": sum(path.stat().st_size for path in paths)}


def fixed(folder: Path) -> case.Did:
    total, paths = 0.0, sorted(folder.glob("*.parquet"))
    for path in paths:
        frame = pd.read_parquet(path, columns=["column0", "column1"])
        total += float((frame["column0"] * frame["column1"]).sum())
    return {"files": FILES, "rows": FILES * ROWS, "stored": sum(path.stat().st_size for path in paths)}


if __name__ == "__main__":
    case.run("all_columns", bad, fixed, make)
