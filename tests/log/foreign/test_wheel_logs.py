"""The logs that PyDarshan's wheel brings for its own tests: our figures are PyDarshan's."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import pytest

import pyio_trace
from pyio_trace.cli.main import main

pytestmark = pytest.mark.once  # reading logs is the same on every Python

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    darshan = pytest.importorskip("darshan")

_FOUND = {path.name: path for path in sorted(Path(darshan.__file__).parent.rglob("*.darshan"))}
#: Each once; the one of 2,048 records and ranks takes seconds.
LOGS = [
    pytest.param(path, id=name[:40], marks=[pytest.mark.slow] if path.stat().st_size > 100_000 else [])
    for name, path in _FOUND.items()
]
MODULES = {"POSIX": "posix", "STDIO": "stdio", "MPI-IO": "mpiio", "H5D": "hdf5"}
DIRECTIONS = {"read": ("BYTES_READ", "READS", "READ_TIME"), "write": ("BYTES_WRITTEN", "WRITES", "WRITE_TIME")}


def total(columns: Any, names: list[str]) -> float:
    return float(sum(columns[name].clip(lower=0).sum() for name in names))


@pytest.mark.parametrize("path", LOGS)
@pytest.mark.filterwarnings("ignore")
def test_figures_are_pydarshans(path: Path) -> None:
    report = darshan.DarshanReport(str(path), read_all=True)
    log = pyio_trace.open(path)
    ours = log.to_pandas(["layer", "op", "op_class", "calls", "bytes_moved", "duration"])
    job = report.metadata["job"]
    assert (log.info()["end"] - log.info()["start"]) / 1e9 == pytest.approx(job["run_time"])
    assert len(log.processes()) == job["nprocs"]
    for module in set(report.records) & set(MODULES):
        theirs, prefix = report.records[module].to_df(), module.replace("-IO", "IO")
        counters, times = theirs["counters"], theirs["fcounters"]
        rows = ours[(ours.layer == MODULES[module]) & ~ours.op.str.startswith("H5F")]
        for direction, (size, calls, time) in DIRECTIONS.items():
            own = rows[rows.op_class == direction]
            names = [one for one in counters if one in (f"{prefix}_{calls}", *(
                f"{prefix}_{kind}_{calls}" for kind in ("INDEP", "COLL", "SPLIT", "NB")))]  # fmt: skip
            assert own.bytes_moved.sum() == total(counters, [f"{prefix}_{size}"])
            assert own.calls.sum() == total(counters, names)
            # Darshan counts syncs as writing, and calls of threads at the same time once, which single calls are not
            spent = own.duration.sum() + (rows[rows.op_class == "sync"].duration.sum() if direction == "write" else 0)
            slack = 1e-4 if f"DXT_{module.replace('-IO', 'IO')}" in report.modules else 1e-7
            assert spent / 1e9 == pytest.approx(total(times, [f"{prefix}_F_{time}"]), abs=1e-5, rel=slack)
        rest = rows[~rows.op_class.isin(["read", "write", "sync"])]
        assert rest.duration.sum() / 1e9 == pytest.approx(total(times, [f"{prefix}_F_META_TIME"]), abs=1e-5)


@pytest.mark.parametrize("path", LOGS)
def test_commands_read_them(path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["summary", str(path)]) == 0
    assert main(["insights", str(path)]) in (0, 1)
    said = capfd.readouterr()
    assert said.err == ""
    assert "NOT SEEN" in said.out
    assert all(len(line) <= 80 for line in said.out.splitlines() if not line.startswith("LOG"))
