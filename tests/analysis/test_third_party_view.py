"""docs/how-to/add-a-view.md shows the code of examples/third_party_view, which works once it is installed."""

from __future__ import annotations

import json
import re
import sys
import tomllib
from pathlib import Path

import pytest

from pyio_trace import instruments, rules, views
from pyio_trace.analysis.typed_results import GROUP
from tests.support.programs import Outcome, Runner, succeeded

pytestmark = pytest.mark.once
ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "third_party_view"
PAGE = (ROOT / "docs" / "how-to" / "add-a-view.md").read_text()
MODULE = (EXAMPLE / "pyio_trace_by_suffix.py").read_text()
PROGRAM = """
for name, size in (("a.csv", 1000), ("b.csv", 500), ("c.bin", 70)):
    with open(name, "wb") as file: file.write(bytes(size))
"""


def test_the_page_shows_the_example() -> None:
    assert "    def shown(self, keys, log, names):\n        return [PurePath(name).suffix or None" in PAGE
    assert "    def shown(self, keys, log, names):\n        return [PurePath(name).suffix or None" in MODULE
    (table,) = re.findall(r"```toml\n(.*?)```", PAGE, re.S)
    assert table in (EXAMPLE / "pyproject.toml").read_text()


def installed(program: Runner, module: str) -> dict[str, str]:
    """The environment in which an installer would have left the example, with that module."""
    project = tomllib.loads((EXAMPLE / "pyproject.toml").read_text())["project"]
    distribution = program.folder / "site" / "pyio_trace_by_suffix-1.0.dist-info"
    distribution.mkdir(parents=True)
    points = "".join(f"{name} = {where}\n" for name, where in project["entry-points"][GROUP].items())
    (distribution / "entry_points.txt").write_text(f"[{GROUP}]\n{points}")
    (program.folder / "site" / "pyio_trace_by_suffix.py").write_text(module)
    return {"PYTHONPATH": str(program.folder / "site")}


def _run(program: Runner, env: dict[str, str], *words: object) -> Outcome:
    return program.command([sys.executable, "-P", "-m", "pyio_trace", *words], env)


def test_the_example_is_a_view(program: Runner) -> None:
    # GIVEN the example, installed, and a program that writes three files
    env = installed(program, MODULE)
    log = succeeded(program.traced(PROGRAM)).path
    # WHEN the view is asked for THEN it has the bytes that were written, by ending
    result = json.loads(succeeded(_run(program, env, "view", "by_suffix", log, "--json")).stdout)
    written = {row["key"]: row["written_bytes"] for row in result["rows"] if row["written_bytes"]}
    assert written == {".csv": 1500, ".bin": 70}
    # AND it is listed with what it shows, and only while it is installed
    assert "Sums by the ending of file names" in succeeded(_run(program, env, "views")).stdout
    assert "by_suffix" not in succeeded(_run(program, {}, "views")).stdout


@pytest.mark.parametrize("module", ["raise OSError('x')", "BySuffix = 1", "class BySuffix: pass", ""])
def test_a_view_that_is_none_is_refused_in_one_line(program: Runner, module: str) -> None:
    outcome = _run(program, installed(program, module), "views")
    assert outcome.status == 2 and outcome.stderr.count("\n") == 1
    assert "pyio_trace_by_suffix:BySuffix" in outcome.stderr and "[bad-view]" in outcome.stderr


def test_what_stays() -> None:
    # What plug-ins import by these names must go on working: names may be added here, and none taken away.
    assert {"Finding", "Limit", "Remedy", "Role", "Rule", "rule", "seconds", "size", "sql"} <= set(rules.__all__)
    assert {"ByKey", "Columns", "GroupedSums", "MEANING", "Reducer", "scan"} <= set(views.__all__)
    assert {"Instrument", "Target"} <= set(instruments.__all__)
    assert all(hasattr(face, name) for face in (rules, views, instruments) for name in face.__all__)
