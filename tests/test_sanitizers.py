"""The table of tests that are skipped under the address sanitizer: it names tests that exist, each with its reason."""

from __future__ import annotations

from pathlib import Path

from tests.support import sanitizers

ROOT = Path(__file__).parents[1]


def test_the_table_names_tests_that_exist() -> None:
    for entry in sanitizers.entries():
        assert entry.reason.endswith(".")
        for test in entry.tests:
            file, _, name = test.partition("::")
            source = (ROOT / file).read_text()
            assert name == "*" or f"def {name}(" in source, test
            assert entry.parameters in source


def test_an_entry_covers_a_test_or_one_of_its_parameter_sets() -> None:
    whole = sanitizers.Skipped("Why.", ["tests/a.py::test_one"])
    some = sanitizers.Skipped("Why.", ["tests/b.py::*"], parameters="musl")
    assert whole.covers("tests/a.py::test_one") and whole.covers("tests/a.py::test_one[x]")
    assert not whole.covers("tests/a.py::test_one_more")
    assert some.covers("tests/b.py::test_any[musl]") and some.covers("tests/b.py::test_any[lazy-musl]")
    assert not some.covers("tests/b.py::test_any") and not some.covers("tests/b.py::test_musl[glibc]")
