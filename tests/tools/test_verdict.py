"""How .ci/run decides: what failed first and passed alone, what failed twice, and what never ended."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.programs import Outcome, Runner

pytestmark = pytest.mark.once

ROOT = Path(__file__).parents[2]
VERDICT = ROOT / ".ci" / "verdict.py"
CONFTEST = """
import pathlib
from tests.support.outcomes import Outcomes
def pytest_addoption(parser): parser.addoption("--outcomes", type=pathlib.Path)
def pytest_configure(config):
    if not hasattr(config, "workerinput"): config.pluginmanager.register(Outcomes(config.getoption("--outcomes")))
"""
#: One test of each kind; the file that the unstable one leaves makes it pass from then on.
TESTS = """
import pathlib, pytest
def test_right(): pass
@pytest.mark.parametrize("name", ["a b", "it's"])
def test_wrong(name): assert name == "right"
def test_left_out(): pytest.skip("no reason")
def test_unstable():
    seen = pathlib.Path(__file__).with_name("seen")
    print("words of the test")
    assert seen.exists() or seen.touch()
"""


def session(program: Runner, *tests: str, flags: tuple[str, ...] = ()) -> None:
    """Runs pytest as .ci/run does, for the session "one"."""
    words = [sys.executable, "-m", "pytest", "-q", *flags, "--outcomes", "build/ci/one.json", *tests]
    program.command(words, {"PYTHONPATH": str(ROOT)})


def failed(program: Runner, name: str = "one") -> list[str]:
    found = program.command([sys.executable, VERDICT, "failed", name])
    assert found.status == 0
    return [test for test in found.stdout.split("\0") if test]


def verdict(program: Runner, *stages: str) -> Outcome:
    (program.folder / "build/ci/stages").write_text("".join(f"{stage}\n" for stage in stages))
    return program.command([sys.executable, VERDICT])


def result(program: Runner, name: str, tests: list[str], passed: int = 0) -> None:
    """What a session found, made up."""
    folder = program.folder / "build/ci"
    folder.mkdir(parents=True, exist_ok=True)
    counts = {"passed": passed, "failed": len(tests), "skipped": 0}
    found = {"counts": counts, "failed": {test: {"text": f"why {test}", "load": 1.5} for test in tests}, "seconds": {}}
    (folder / name).write_text(json.dumps(found))


@pytest.mark.parametrize("flags", [(), ("-n", "2")])
def test_sessions_of_pytest(program: Runner, flags: tuple[str, ...]) -> None:
    # GIVEN tests that pass, fail, are skipped, and fail once WHEN those that failed are run again
    program.write(CONFTEST, "conftest.py")
    program.write(TESTS, "test_some.py")
    session(program, flags=flags)
    again = failed(program)
    assert sorted(again) == [
        "test_some.py::test_unstable", "test_some.py::test_wrong[a b]", "test_some.py::test_wrong[it's]",
    ]  # fmt: skip
    session(program, *again)
    # THEN two have failed, and the third is told as unstable, with what it had printed
    outcome = verdict(program, "only 1 90 one")
    assert outcome.status == 1
    assert "\n=== UNSTABLE one test_some.py::test_unstable\nload " in outcome.stdout
    assert "words of the test" in outcome.stdout
    assert [line.split() for line in outcome.stdout.splitlines()[-4:]] == [
        ["stage", "passed", "failed", "unstable", "skipped", "minutes"], ["only", "RED", "1.5"],
        ["one", "1", "2", "1", "1"], ["CI:", "1", "passed,", "2", "failed"],
    ]  # fmt: skip


def test_a_file_that_cannot_be_imported(program: Runner) -> None:
    program.write(CONFTEST, "conftest.py")
    program.write("import nothing_of_that_name\n", "test_some.py")
    session(program)
    assert failed(program) == ["test_some.py"]


@pytest.mark.parametrize(("unstable", "status"), [(1, 0), (2, 1)])
def test_one_unstable_test_is_green_and_two_are_not(program: Runner, unstable: int, status: int) -> None:
    tests = [f"test_{number}" for number in range(unstable)]
    result(program, "one.first.json", tests, passed=5)
    result(program, "one.json", [], passed=unstable)
    assert verdict(program, "only 1 60 one").status == status


@pytest.mark.parametrize(
    "stages",
    [
        ("only 1 60",),  # a stage without tests
        ("only 1 60 one lost",),  # one of its sessions left no result
        ("only 1 60 whole",),  # all passed, and yet it failed
        ("only 1 60 one", "other 2 60"),
    ],
)
def test_what_no_unstable_test_explains_is_red(program: Runner, stages: tuple[str, ...]) -> None:
    result(program, "one.first.json", ["test_it"], passed=5)
    result(program, "one.json", [], passed=1)
    result(program, "whole.json", [], passed=5)
    assert verdict(program, "only 1 60 one").status == 0
    assert verdict(program, *stages).status == 1


def test_a_second_run_that_died(program: Runner) -> None:
    # GIVEN tests to run again WHEN that run leaves no result, or one of fewer tests THEN they have failed
    result(program, "one.json", ["test_a", "test_b"], passed=5)
    assert failed(program) == ["test_a", "test_b"]
    assert verdict(program, "only 1 60 one").status == 1
    result(program, "one.json", [], passed=1)
    assert verdict(program, "only 1 60 one").status == 1


def test_many_failures_are_not_run_again(program: Runner) -> None:
    result(program, "one.json", [f"test_{number}" for number in range(11)])
    assert failed(program) == [] and failed(program, "lost") == []
    assert verdict(program, "only 1 60 one").status == 1


def test_a_stage_that_this_machine_cannot_run(program: Runner) -> None:
    result(program, "one.json", [], passed=5)
    outcome = verdict(program, "sid 77 1 lost", "only 0 60 one")
    assert outcome.status == 0 and "sid         not run" in outcome.stdout


def test_what_ci_runs_is_shell() -> None:
    for script in ("run", "sid"):
        subprocess.run(["bash", "-n", ROOT / ".ci" / script], check=True)
