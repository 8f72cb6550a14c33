"""Programs that use libraries well: the rules have nothing against them, however slow the machine is."""

from __future__ import annotations

from importlib.util import find_spec

import pytest

from pyio_trace.insights.finding import SEVERITIES
from tests.support import frameworks
from tests.support.findings import findings_of, worst_of
from tests.support.programs import Runner

pytestmark = [pytest.mark.once, pytest.mark.slow]

#: Stands for what a program does besides.
COMPUTE = """
def compute(seconds=0.3):
    import time
    end = time.process_time() + seconds
    while time.process_time() < end:
        sum(range(1000))
"""

#: Name -> (modules it needs, its text).
PROGRAMS = {
    "numpy_array_mapped_and_reduced": ("", """
import numpy as np
np.save("field.npy", np.random.default_rng(1).random((2000, 500)))
field = np.load("field.npy", mmap_mode="r")
means = field.mean(axis=0)
compute()
np.save("means.npy", means)
"""),
    "csv_read_once_and_stored_as_parquet": ("pandas", """
import pandas as pd
frame = pd.DataFrame({"city": ["a", "b", "c", "d"] * 2500, "value": range(10_000)})
frame.to_csv("in.csv", index=False)
read = pd.read_csv("in.csv", usecols=["city", "value"])
compute()
read.groupby("city").sum().to_parquet("out.parquet")
"""),
    "two_columns_of_a_parquet_file": ("pandas", """
import numpy as np, pandas as pd
pd.DataFrame({f"c{n}": np.arange(100_000.0) for n in range(10)}).to_parquet("t.parquet")
frame = pd.read_parquet("t.parquet", columns=["c1", "c2"])
compute()
print((frame.c1 * frame.c2).sum())
"""),
    "h5py_along_its_chunks": ("h5py", """
import h5py, numpy as np
with h5py.File("c.h5", "w") as file:
    data = file.create_dataset("t", (64, 256, 256), "f4", chunks=(1, 256, 256), compression="lzf")
    for n in range(64):
        data[n] = np.full((256, 256), n)
with h5py.File("c.h5") as file:
    data = file["t"]
    total = 0.0
    for n in range(64):
        total += float(data[n].mean())
compute()
"""),
    "netcdf_time_steps": ("netCDF4", """
import netCDF4, numpy as np
with netCDF4.Dataset("n.nc", "w") as file:
    file.createDimension("time", None)
    file.createDimension("x", 1000)
    variable = file.createVariable("u", "f8", ("time", "x"), chunksizes=(100, 1000))
    variable[0:200] = np.random.default_rng(1).random((200, 1000))
with netCDF4.Dataset("n.nc") as file:
    print(file["u"][:].mean())
compute()
"""),
    "pytables_rows_in_blocks": ("tables", """
import numpy as np, tables
with tables.open_file("p.h5", "w") as file:
    array = file.create_earray("/", "a", tables.Float64Atom(), (0, 100), expectedrows=10_000)
    for n in range(10):
        array.append(np.random.default_rng(n).random((1000, 100)))
with tables.open_file("p.h5") as file:
    print(file.root.a[:].mean())
compute()
"""),
    "sqlite_in_one_transaction": ("", """
import sqlite3
with sqlite3.connect("d.sqlite") as connection:
    connection.execute("CREATE TABLE t (n INTEGER, square INTEGER)")
    connection.executemany("INSERT INTO t VALUES (?, ?)", ((n, n * n) for n in range(20_000)))
compute()
print(connection.execute("SELECT avg(square) FROM t WHERE n % 3 = 0").fetchone())
connection.close()
"""),
    "configuration_and_a_log": ("", """
import json, logging
from pathlib import Path
Path("config.json").write_text(json.dumps({"steps": 200, "name": "run"}))
config = json.loads(Path("config.json").read_text())
logging.basicConfig(filename="run.log", level=logging.INFO)
for step in range(config["steps"]):
    logging.info("step %d", step)
    compute(0.002)
"""),
    "gzip_lines_counted": ("", """
import collections, gzip
with gzip.open("words.gz", "wt") as file:
    file.writelines(f"word{n % 100}\\n" for n in range(50_000))
with gzip.open("words.gz", "rt") as file:
    counts = collections.Counter(line.strip() for line in file)
compute()
print(counts.most_common(1))
"""),
    "training_with_workers_that_keep_up": ("torch", """
import numpy as np, time, torch
from torch.utils.data import DataLoader
class Images:
    def __init__(self):
        self.images = None
    def __len__(self):
        return 256
    def __getitem__(self, n):
        if self.images is None:
            self.images = np.load("images.npy", mmap_mode="r")
        return torch.from_numpy(self.images[n].astype("f4"))
if __name__ == "__main__":
    np.save("images.npy", np.zeros((256, 64, 64), "u1"))
    loader = DataLoader(Images(), batch_size=16, num_workers=1, persistent_workers=True)
    model = torch.nn.Linear(64 * 64, 2)
    for epoch in range(3):
        for batch in loader:
            model(batch.flatten(1)).sum().backward()
            time.sleep(0.02)
    torch.save(model.state_dict(), "model.pt")
"""),
    "dask_frame_from_parquet_to_parquet": ("dask", """
import dask.dataframe as dd, numpy as np, pandas as pd
frame = pd.DataFrame({"k": np.arange(80_000) % 7, "v": np.arange(80_000.0)})
dd.from_pandas(frame, npartitions=4).to_parquet("parts")
compute()
dd.read_parquet("parts").groupby("k").v.mean().to_frame().to_parquet("means")
"""),
    "zarr_in_chunks": ("zarr", """
import numpy as np, zarr
array = zarr.create_array("a.zarr", shape=(400, 500), chunks=(100, 500), dtype="f8")
for n in range(0, 400, 100):
    array[n:n + 100] = np.random.default_rng(n).random((100, 500))
array = zarr.open_array("a.zarr", mode="r")
print(sum(array[n:n + 100].mean() for n in range(0, 400, 100)))
compute()
"""),
}  # fmt: skip
#: What is said of a program at the worst, if any time is long enough.  What the NetCDF library reads again is little.
SAID = {
    "csv_read_once_and_stored_as_parquet": {"format-bound": "warning", "parse-bound": "warning"},
    "netcdf_time_steps": {"read-again": "critical"},
    "training_with_workers_that_keep_up": dict.fromkeys(
        ("loader-first-batch", "loader-starved", "loader-too-many-workers"), "warning"
    ),
}


@pytest.mark.parametrize("name", [frameworks.param(name, [needed]) for name, (needed, _) in PROGRAMS.items()])
def test_nothing_else_is_said(program: Runner, name: str) -> None:
    if (needed := PROGRAMS[name][0]) and find_spec(needed) is None:
        pytest.skip(f"needs {needed}")
    # GIVEN a program that does its I/O well
    outcome = program.traced(COMPUTE + PROGRAMS[name][1])
    # WHEN findings are made, with thresholds of time that all is above THEN they are no others
    said, worse = worst_of(outcome), SAID.get(name, {})
    assert all(
        slug in worse and SEVERITIES.index(one) >= SEVERITIES.index(worse[slug]) for slug, one in said.items()
    ), said


def test_little_is_read_again(program: Runner) -> None:
    # GIVEN the one program with a finding that could be critical THEN what it reads again is less than two megabytes
    pytest.importorskip("netCDF4")
    found = findings_of(program.traced(COMPUTE + PROGRAMS["netcdf_time_steps"][1]))
    assert sum(int(one.evidence[0].values["again"]) for one in found if one.slug == "read-again") < 2 << 20
