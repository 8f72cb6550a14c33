"""The code of every remedy in the table runs: what is advised gives the same, and does less of what was found."""

from __future__ import annotations

import itertools
import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pyarrow.compute as pc
import pytest

from pyio_trace.insights import words
from tests.insights.words import program as runner
from tests.insights.words.setups import LESS, SETUPS
from tests.support.programs import Outcome, Runner, succeeded

pytestmark = [pytest.mark.once, pytest.mark.slow]

#: Which of the calls in a span count, and what of them is added up.
COUNTS = {
    "read": ({"layer": ("posix", "stdio"), "op_class": ("read",)}, "bytes_moved"),
    "reads": ({"layer": ("posix", "stdio"), "op_class": ("read",)}, "calls"),
    "writes": ({"layer": ("posix", "stdio"), "op_class": ("write",)}, "calls"),
    "opens": ({"layer": ("posix", "stdio"), "op_class": ("open",)}, "calls"),
    "calls": ({"layer": ("app", "hdf5")}, "calls"),
}
#: Libraries of this machine's processes, and not of one.
UNTRIED = {"MPI"}
#: Libraries that only tox -e frameworks has.
IN_FRAMEWORKS = {
    "torch", "xarray", "astropy", "nibabel", "tifffile", "pydicom", "joblib", "anndata", "lmdb", "rasterio", "uproot",
}  # fmt: skip
ROWS = [key for key, remedy in words.table().items() if remedy.before and key[1] not in UNTRIED]


def _marked(key: tuple[str, str]) -> Any:
    marks = [pytest.mark.frameworks(key[1])] if key[1] in IN_FRAMEWORKS else []
    return pytest.param(key, marks=marks, id="-".join(key))


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> tuple[Outcome, dict[str, Any]]:
    """All of them, in one traced program."""
    folder = tmp_path_factory.mktemp("words")
    rows = [
        {"name": "-".join(key), "before": words.table()[key].before, "after": words.table()[key].after}
        | asdict(SETUPS[key])
        for key in ROWS
        if key in SETUPS
    ]
    (folder / "rows.json").write_text(json.dumps(rows))
    command = [sys.executable, "-P", "-m", "pyio_trace", "-q", "-o", "run.pyio", Path(runner.__file__)]
    outcome = succeeded(Runner(folder).command([*command, "rows.json", "results.json"]))
    return outcome, json.loads((folder / "results.json").read_text())


def count(outcome: Outcome, span: str, what: str) -> int:
    """How much of it there is in a span, in all threads."""
    (row,) = outcome.select(layer="user", op=span)
    table = outcome.table
    inside = pc.and_(
        pc.greater_equal(table["time"], row["time"]), pc.less(table["time"], row["time"] + row["duration"])
    )
    found = [
        one for one in table.filter(inside).to_pylist() if not (one["path"] or "").endswith((".py", ".pyc", ".so"))
    ]
    if what == "back":
        places = [one["file_offset"] for one in found if one["op_class"] == "read" and one["file_offset"] is not None]
        return sum(later < earlier for earlier, later in itertools.pairwise(places))
    chosen, column = COUNTS[what]
    return sum(one[column] or 0 for one in found if all(one[name] in wanted for name, wanted in chosen.items()))


@pytest.mark.parametrize("key", [_marked(key) for key in ROWS])
def test_the_code_of_a_remedy(ran: tuple[Outcome, dict[str, Any]], key: tuple[str, str]) -> None:
    # GIVEN the code before and after a remedy, on small data WHEN both run
    outcome, results = ran
    before, after = (results[f"{'-'.join(key)} {which}"] for which in ("before", "after"))
    if "lacks" in before or "lacks" in after:
        pytest.skip(before.get("lacks") or after.get("lacks"))
    assert "failed" not in before and "failed" not in after, before.get("failed") or after.get("failed")
    # THEN both give the same
    assert before["used"] == after["used"]
    assert before["used"] or key[0] == "many files written"
    # AND there is less of what the finding is about
    setup = SETUPS[key]
    if not setup.why:
        what = setup.less or LESS[key[0]]
        most, least = (count(outcome, f"{'-'.join(key)} {which}", what) for which in ("before", "after"))
        assert least < most, (what, most, least)


def test_every_mechanism_has_words_for_all(ran: tuple[Outcome, dict[str, Any]]) -> None:
    # GIVEN a library that nobody knows THEN each mechanism has words, and no library's code
    for mechanism in {mechanism for mechanism, _ in words.table()}:
        remedy = words.remedy(mechanism, ["a_library_that_nobody_knows", "gzip"])
        assert remedy.text and not remedy.before and not remedy.after
    # AND every code in the table is tried
    assert set(ROWS) == {key for key in SETUPS if key in words.table()} == set(SETUPS)
