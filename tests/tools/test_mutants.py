"""The lists of mutants fit the code, and the runner tells killed mutants from survivors."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import pytest

from tests.mutants import runner
from tests.mutants.runner import Mutant, Verdict, Workshop

pytestmark = pytest.mark.once

LISTS = sorted((runner.ROOT / "tests/mutants").glob("*.toml"))
CONFTEST = """
import pathlib
from tests.support.outcomes import Outcomes
def pytest_addoption(parser): parser.addoption("--outcomes", type=pathlib.Path)
def pytest_configure(config): config.pluginmanager.register(Outcomes(config.getoption("--outcomes").absolute()))
"""
#: Looks at the source tree, and at the installed copy; never ends where a number says so.
TESTS = """
import pathlib, subprocess, sys
def test_source():
    from package.numbers import ONE
    assert ONE == 1
def test_installed():
    from package.numbers import SITE, TWO
    while TWO == 0: pass
    found = subprocess.run([sys.executable, "-c", "from package.numbers import TWO; print(TWO)"], cwd=SITE, text=True,
                           stdout=subprocess.PIPE)
    assert found.stdout == "2\\n"
"""
MUTANT = Mutant(1, "package/numbers.py", "ONE = 1", "ONE = 3", "counts wrong", ("test_it.py",))


@pytest.fixture
def workshop(tmp_path: Path) -> Workshop:
    tree, site = tmp_path / "tree", tmp_path / "site"
    for folder in (tree, site):
        (folder / "package").mkdir(parents=True)
        (folder / "package/__init__.py").touch()
        (folder / "package/numbers.py").write_text(f"ONE = 1\nTWO = 2\nSITE = {str(site)!r}\n")
    (tree / "conftest.py").write_text(f"import sys; sys.path.append({str(runner.ROOT)!r})\n{CONFTEST}")
    (tree / "test_it.py").write_text(TESTS)
    return Workshop(tree, Path(sys.executable), site, tmp_path / "build")


@pytest.mark.parametrize("path", LISTS, ids=lambda path: path.stem)
def test_lists_fit_the_code(path: Path) -> None:
    # GIVEN a list of mutants WHEN it is compared with the code THEN each text to change occurs exactly once in its file
    mutants = runner.read(path)
    assert mutants and all(mutant.breaks and mutant.tests for mutant in mutants)
    assert runner.stale(mutants, runner.ROOT) == []


def test_what_is_stale(workshop: Workshop) -> None:
    unknown = replace(MUTANT, old="THREE", file="package/numbers.py", tests=("test_that.py::test_it",))
    assert runner.stale([MUTANT, unknown, replace(MUTANT, new="ONE = 1")], workshop.tree) == [
        "1: its old text is 0 times in package/numbers.py", "1: there is no test_that.py", "1: changes nothing",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("old", "new", "verdict"),
    [
        ("ONE = 1", "ONE = 3", Verdict("killed", "test_it.py::test_source")),
        ("TWO = 2", "TWO = 3", Verdict("killed", "test_it.py::test_installed")),
        ("TWO = 2", "TWO = 0", Verdict("limit of time")),
        ("ONE = 1", "ONE = 1.0", Verdict("survived")),
        ("ONE = 1", "ONE = (", Verdict("killed", "test_it.py::test_source")),
    ],
)
def test_what_becomes_of_a_mutant(workshop: Workshop, old: str, new: str, verdict: Verdict) -> None:
    # GIVEN a mutant WHEN the tests run THEN the one that notices kills it, in-process or in a program that it starts
    before = (workshop.tree / MUTANT.file).read_text()
    limit = 5 if verdict.word == "limit of time" else None
    assert workshop.judge(replace(MUTANT, old=old, new=new), limit) == verdict
    # THEN the code is as before
    assert [(folder / MUTANT.file).read_text() for folder in (workshop.tree, workshop.site)] == [before, before]


def test_tests_that_fail_by_themselves_judge_no_mutant(workshop: Workshop) -> None:
    workshop.check([MUTANT])
    (workshop.tree / "test_it.py").write_text("def test_it(): assert False\n")
    with pytest.raises(runner.WrongList, match=r"without a mutant: killed test_it\.py::test_it"):
        workshop.check([MUTANT])


def test_the_table() -> None:
    verdicts = [Verdict("killed", "tests/a/test_b.py::test_c"), Verdict("survived")]
    assert [runner.line(MUTANT, verdict) for verdict in verdicts] == [
        "| 1 | package/numbers.py | counts wrong | killed | `a/test_b.py::test_c` |",
        "| 1 | package/numbers.py | counts wrong | survived |  |",
    ]
    assert runner.summary(verdicts) == "2 mutants: 1 killed, 1 survived"
