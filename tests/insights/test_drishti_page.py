"""docs/reference/drishti.md has each trigger once, and names findings that there are."""

from __future__ import annotations

import re
from pathlib import Path

from pyio_trace.insights import registry

PAGE = (Path(__file__).parents[2] / "docs" / "reference" / "drishti.md").read_text()


def test_each_trigger_has_a_row() -> None:
    triggers = re.findall(r"^\| ([SPM]\d\d) ", PAGE, re.M)
    posix = [f"P{n:02}" for n in range(1, 23) if n != 20]
    assert triggers == ["S01", *posix, *(f"M{n:02}" for n in range(1, 11))]


def test_its_findings_exist() -> None:
    rows = [row.split(" | ") for row in PAGE.splitlines() if re.match(r"\| [SPM]\d\d ", row)]
    slugs = {slug for row in rows for slug in re.findall(r"`([a-z-]+)`", row[2])}
    slugs |= set(re.findall(r"`([a-z]+(?:-[a-z]+)+)`", PAGE.rpartition("\n\n")[2])) - {"pyio-trace"}
    assert slugs <= set(registry.found(third_party=False)) and len(slugs) > 15
