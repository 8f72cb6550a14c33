"""What `pytest --quick` chooses (tests/support/quick.py)."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

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


def test_what_is_chosen(tmp_path: Path) -> None:
    # GIVEN tests with and without parameters and marks WHEN the quick ones are run THEN each function has one test,
    # but for what takes long or what one Python alone is asked
    (tmp_path / "test_it.py").write_text(TESTS)
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers =\n  slow\n  once\n")
    words = [sys.executable, "-m", "pytest", "-v", "-p", "no:cacheprovider", "-p", "tests.conftest", "--quick"]
    root = Path(__file__).parents[2]
    done = subprocess.run(
        [*words, f"--rootdir={tmp_path}", str(tmp_path)], cwd=root, capture_output=True, text=True, timeout=120
    )
    ran = [line.split()[0].split("::", 1)[1] for line in done.stdout.splitlines() if " PASSED" in line]
    assert ran == ["test_numbers[1]", "test_slow_and_quick[2]", "TestGroup::test_numbers"], done.stdout + done.stderr
