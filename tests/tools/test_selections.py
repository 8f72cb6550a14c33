"""Which tests are chosen (tests/support/selections.py)."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.support import selections

TESTS = """
import pytest

@pytest.mark.parametrize("n", [1, 2, 3])
def test_numbers(n): pass

@pytest.mark.slow
def test_slow(): pass

@pytest.mark.once
def test_once(): pass

@pytest.mark.parametrize("n", [pytest.param(1, marks=pytest.mark.slow), 2, 3])
def test_slow_and_quick(n): pass

class TestGroup:
    def test_numbers(self): pass
"""


@dataclass(frozen=True)
class Item:
    """What the choice looks at of a test."""

    nodeid: str
    marks: tuple[str, ...] = ()

    def get_closest_marker(self, name: str) -> str | None:
        return name if name in self.marks else None


READING = [Item("tests/join/test_x.py::test[1]"), Item("tests/join/test_x.py::test[2]")]
CAPTURE = [Item("tests/capture/test_x.py::test[1]"), Item("tests/capture/test_x.py::test[2]")]
SLOW = [Item("tests/capture/test_y.py::test", ("slow",)), Item("tests/join/test_y.py::test", ("once",))]


@pytest.mark.parametrize(
    ("version", "chosen"),
    [
        ((3, 11), [*READING, *CAPTURE, *SLOW]),
        ((3, 12), CAPTURE[:1]),
        ((3, 13), CAPTURE[:1]),
        ((3, 14), CAPTURE[:1]),
        ((3, 15), [READING[0], CAPTURE[0]]),
    ],
)
def test_what_a_python_runs(version: tuple[int, int], chosen: list[Item]) -> None:
    # GIVEN tests of capture and of reading, some marked slow or once WHEN the share of a Python is chosen
    # THEN the oldest runs all, the newest one test of each function of capture and of each file of reading, and those
    # between one of each function of capture
    items: list[Any] = [*READING, *CAPTURE, *SLOW]
    assert selections.of_python(items, version) == chosen


def test_what_a_text_draws() -> None:
    # GIVEN a function with 300 sets of parameters, and some with one or two WHEN texts draw
    many: list[Any] = [Item(f"tests/test_x.py::test_many[{n}]") for n in range(300)]
    few: list[Any] = [*READING, *CAPTURE, *SLOW]
    draws = [selections.drawn([*many, *few], f"text {n}") for n in range(20)]
    # THEN each draws about a third, in their order, some of each function; the same text the same; several texts all
    for chosen in draws:
        assert chosen == sorted(chosen, key=[*many, *few].index)
        assert 60 < sum(item in many for item in chosen) < 140
        assert {item.nodeid.partition("[")[0] for item in chosen} == {
            item.nodeid.partition("[")[0] for item in [*many, *few]
        }
    assert selections.drawn([*many, *few], "text 0") == draws[0] != draws[1]
    assert {item for chosen in draws for item in chosen} == {*many, *few}


def test_what_is_quick(tmp_path: Path) -> None:
    # GIVEN tests with and without parameters and marks WHEN the quick ones are run THEN one test of each function runs,
    # but none that is slow or once
    (tmp_path / "test_it.py").write_text(TESTS)
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers =\n  slow\n  once\n")
    words = [sys.executable, "-m", "pytest", "-v", "-p", "no:cacheprovider", "-p", "tests.conftest", "--quick"]
    words += ["-p", "no:randomly"]
    root = Path(__file__).parents[2]
    done = subprocess.run(
        [*words, f"--rootdir={tmp_path}", str(tmp_path)], cwd=root, capture_output=True, text=True, timeout=120
    )
    ran = [line.split()[0].split("::", 1)[1] for line in done.stdout.splitlines() if " PASSED" in line]
    assert ran == ["test_numbers[1]", "test_slow_and_quick[2]", "TestGroup::test_numbers"], done.stdout + done.stderr


@pytest.mark.parametrize("mark", ["frameworks", "once", "slow", "soak"])
def test_files_left_out_have_no_chosen_test(request: pytest.FixtureRequest, mark: str) -> None:
    # GIVEN the tests of this session WHEN only those with one mark are to run THEN each file that has such a test names
    # the mark, so it is not left out
    files = {item.path for item in request.session.items if item.get_closest_marker(mark)}
    assert [file.name for file in files if mark not in file.read_text()] == []


def test_files_left_out_of_a_python_have_no_chosen_test(pytestconfig: pytest.Config) -> None:
    # GIVEN the files of this project's tests WHEN a Python chooses its share
    # THEN exactly the files without a chosen test are left out
    root = Path(__file__).parents[2]
    files = sorted(root.glob("tests/**/test_*.py"))
    names = [str(file.relative_to(pytestconfig.rootpath)) for file in files]
    items: list[Any] = [Item(f"{name}::test") for name in names]
    for version in [(3, 11), (3, 12), (3, 14), (3, 15)]:
        chosen = {item.nodeid.partition("::")[0] for item in selections.of_python(items, version)}
        left_out = [selections.none_in(file, pytestconfig, True, version) for file in files]
        assert chosen == {name for name, out in zip(names, left_out, strict=True) if not out}
