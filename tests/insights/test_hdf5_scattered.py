"""Selections of many single places of an HDF5 dataset."""

from __future__ import annotations

import pytest

from pyio_trace.insights.settings import Settings
from tests.support.findings import evidence_of, findings_of, none, only
from tests.support.programs import Runner

pytest.importorskip("h5py")
pytestmark = pytest.mark.once

ANY = Settings(limits={"hdf5-scattered": {"share": 0}})
DATA = """
import h5py, numpy
with h5py.File("data.h5", "w") as file:
    file.create_dataset("d", data=numpy.arange(400_000, dtype="i8").reshape(50_000, 8), chunks=(1000, 8))
wanted = numpy.arange(0, 50_000, 7)
with h5py.File("data.h5", "r") as file:
    dataset = file["d"]
    SELECT
print(picked.sum())
"""
SELECTIONS = {
    "array": "picked = dataset[wanted]",
    "list": "picked = dataset[wanted.tolist()]",
    "mask": "picked = dataset[numpy.isin(numpy.arange(50_000), wanted)]",
    "of columns": "picked = dataset[wanted, 2:4]",
}


@pytest.mark.parametrize("how", SELECTIONS)
def test_scattered_places(program: Runner, how: str) -> None:
    # GIVEN a read of 7,143 rows that are not next to each other WHEN findings are made
    outcome = program.traced(DATA.replace("SELECT", SELECTIONS[how]))
    finding = only(findings_of(outcome, ANY), "hdf5-scattered")
    # THEN it says how many, at the line, and that they can be chosen in numpy
    assert finding.sites[0].line == 8 and finding.evidence[0].values["calls"] == 1
    assert int(finding.evidence[0].values["places"]) == (50_000 if how == "mask" else 7143)
    assert finding.recoverable_ns > 0 and evidence_of(finding, outcome.log)
    assert finding.remedy is not None and "numpy" in finding.remedy.text


@pytest.mark.parametrize("select", [
    "picked = dataset[:]", "picked = dataset[100:7000]", "picked = dataset[::7]", "picked = dataset[[1, 2, 5]]",
    "picked = numpy.array([dataset[n] for n in range(100)])",
])  # fmt: skip
def test_what_is_not_scattered(program: Runner, select: str) -> None:
    # GIVEN slices, a few places and single rows WHEN findings are made THEN this rule says nothing
    assert none(findings_of(program.traced(DATA.replace("SELECT", select)), ANY), "hdf5-scattered")


def test_the_remedy(program: Runner) -> None:
    # GIVEN the code after WHEN it runs THEN it picks the same rows, and nothing is scattered any more
    before = program.traced(DATA.replace("SELECT", SELECTIONS["array"]))
    remedy = only(findings_of(before, ANY), "hdf5-scattered").remedy
    assert remedy is not None
    code = remedy.after.replace("\n", "\n    ")
    after = program.traced(DATA.replace("SELECT", code), log="after.pyio")
    assert after.stdout == before.stdout and none(findings_of(after, ANY), "hdf5-scattered")
