"""The tests that docs/explanation/security.md names for each attack exist."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGE = (ROOT / "docs" / "explanation" / "security.md").read_text()


def test_each_test_that_the_page_names_is_there() -> None:
    """GIVEN the page's tables WHEN each test is looked for in the file that its section or its path names THEN it is
    defined there, and every row has one."""
    missing, file, rows = [], "", 0
    for line in PAGE.partition("## Attacks and rules")[2].splitlines():
        if line.startswith("### "):
            file = line.rpartition(" ")[2]
        if not line.startswith("| ") or line.startswith(("| attack", "| ---")):
            continue
        rows += 1
        last = line.rstrip(" |").rpartition(" | ")[2]
        names = re.findall(r"`((?:tests/[\w/]+\.py::)?test_\w+)`", last)
        if not names and last != "the same":
            missing.append(line)
        for name in names:
            where, _, test = name.rpartition("::")
            text = (ROOT / (where or file)).read_text()
            if f"def {test}(" not in text:
                missing.append(f"{where or file}::{test}")
    assert rows > 60
    assert missing == []
