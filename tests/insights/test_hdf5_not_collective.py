"""Collective transfers of parallel HDF5 that are done independently."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support import mpi
from tests.support.findings import evidence_of, findings_of, only
from tests.support.programs import Outcome, Runner, succeeded
from tests.support.ranks import Call, findings_in, write_job

SLUG = "hdf5-not-collective"


def job(folder: Path, op: str = "H5D_WRITE", share: float = 0.1, **detail: object) -> Path:
    """Four ranks that each make ten calls, which take a share of the run."""
    text = json.dumps({"dataset": "/x", "elements": 10, **detail})
    calls = [Call(op, "/d/data.h5", 100 * n, 100 * share, 80, detail=text) for n in range(10)]
    return write_job(folder / "logs", [calls] * 4)


@pytest.mark.parametrize(
    ("cause", "word"),
    [
        ("datatype_conversion", "astype"),
        ("parallel_filtered_writes_disabled", "filter"),
        ("not_contiguous_or_chunked_dataset", "contiguous"),
        ("data_transforms", "transform"),
        ("not_simple_or_scalar_dataspaces", "simple"),
        ("mpi_types_disabled", "HDF5_MPI_OPT_TYPES"),
        ("no_selection_io", "selection"),
    ],
)
@pytest.mark.parametrize("op", ["H5D_WRITE", "H5D_READ"])
def test_each_cause_has_its_words(tmp_path: Path, cause: str, word: str, op: str) -> None:
    folder = job(tmp_path, op, transfer="collective", actual="independent", local_cause=[], global_cause=[cause])
    (finding,) = findings_in(folder, SLUG)
    assert finding.evidence[0].values == {
        "calls": 40, "ranks": 4, "bytes": 3200, "time_ns": 40 * 10_000_000, "cause": cause,
    }  # fmt: skip
    assert finding.remedy is not None and word in finding.remedy.text + finding.remedy.after
    assert ("read" if op == "H5D_READ" else "written") in finding.title and finding.sites[0].line == 10


@pytest.mark.parametrize(
    "detail",
    [
        {},  # no MPI
        {"transfer": "independent"},
        {"transfer": "collective", "actual": "collective"},
        {"transfer": "collective", "actual": "chunks collective"},
        {"transfer": "collective", "actual": "chunks mixed", "global_cause": ["datatype_conversion"]},
        {"transfer": "collective", "actual": "independent"},  # HDF5 gives no cause
        {"transfer": "collective", "actual": "independent", "global_cause": ["error_while_checking", "other"]},
        {"transfer": "collective", "actual": "independent", "global_cause": 7},  # forged
        {"transfer": ["collective"], "actual": {}, "global_cause": {"datatype_conversion": []}},
    ],
)
def test_silent(tmp_path: Path, detail: dict[str, object]) -> None:
    assert findings_in(job(tmp_path, **detail), SLUG) == []


def test_silent_where_it_takes_no_time(tmp_path: Path) -> None:
    causes = {"local_cause": [], "global_cause": ["datatype_conversion"]}
    folder = job(tmp_path, share=0.001, transfer="collective", actual="independent", **causes)
    assert findings_in(folder, SLUG) == []


PROGRAM = """
import h5py, numpy as np
file = h5py.File("data.h5", "w", driver="mpio", comm=world)
made = file.create_dataset("x", (size * 10,), "f8")
part = slice(rank * 10, rank * 10 + 10)
for n in range(20):
    with made.collective:
        made[part] = np.arange(10)  # int64
for n in range(20):
    with made.collective:
        made[part] = np.arange(10.0)
for n in range(20):
    made[part] = np.arange(10)
file.close()
"""


def test_a_conversion_in_a_real_job(program: Runner) -> None:
    # GIVEN four ranks that write integers into doubles, doubles, and integers where nothing collective is asked for
    job = mpi.run_parallel_hdf5(program, PROGRAM)
    succeeded(job.outcome)
    logs = program.folder / "logs"
    logs.mkdir()
    for rank in job.ranks:
        Path(rank.path).rename(logs / Path(rank.path).name)
    # THEN the first is found, on its line, with all ranks
    together = Outcome(0, "", "", logs)
    finding = only(findings_of(together), SLUG)
    assert [site.line for site in finding.sites] == [mpi.PRELUDE.count("\n") + 8]
    assert finding.evidence[0].values["calls"] == 80 and finding.evidence[0].values["ranks"] == 4
    assert sum(int(row["calls"]) for row in evidence_of(finding, together.log)) == 80
