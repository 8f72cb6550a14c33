"""The page that sets other tools beside this one names only what exists."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from pyio_trace.analysis.reducer import found
from pyio_trace.cli.main import COMMANDS
from pyio_trace.insights import registry

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/reference/other-tools.md").read_text()

pytestmark = pytest.mark.once


def test_each_row_has_a_test_or_says_none() -> None:
    features = PAGE.split("\n## The pages of other tools", 1)[0]
    for row in re.findall(r"^\| (.*) \|$", features, re.MULTILINE):
        cells = [cell.strip() for cell in row.split(" | ")]
        if cells[0] in ("feature", "---"):
            continue
        tests = re.findall(r"`(tests/[^`]+)`", row)
        assert tests or re.search(r"\bnone\b|not every argument|not run by a test", row), row
        assert all((ROOT / test).is_file() for test in tests), row


def test_views_commands_and_findings_exist() -> None:
    named: dict[str, set[str]] = {"views?": set(), "findings?": set()}
    for kind, names in named.items():
        for words in re.findall(rf"\b{kind} ((?:`[a-z0-9_-]+`(?:, )?)+)", PAGE):
            names.update(re.findall(r"`([^`]+)`", words))
    assert named["views?"] <= set(found()) and len(named["views?"]) > 8
    assert named["findings?"] <= set(registry.found(third_party=False)) and named["findings?"]
    assert set(re.findall(r"pyio-trace ([a-z]+)", PAGE)) <= set(COMMANDS)
