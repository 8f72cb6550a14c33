"""docs/explanation/architecture.md has one line for each folder of the code, and the code names pages that exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tools import docs_pages

pytestmark = pytest.mark.once
ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "explanation" / "architecture.md"
SUFFIXES = (".c", ".cfg", ".def", ".h", ".ini", ".py", ".pyi", ".toml", ".txt", ".yml")
#: Folders that hold folders only, but for a file that names them, or files that are installed elsewhere.
WITHOUT = {"csrc/core", "pyio_trace/join", "pyio_trace/capture"}


def folders() -> set[str]:
    """The folders with code in them, two levels into each part."""
    found = set()
    for part in ("csrc", "pyio_trace"):
        for path in [*(ROOT / part).glob("*/"), *(ROOT / part).glob("*/*/")]:
            name = str(path.relative_to(ROOT))
            inside = [file for file in path.iterdir() if file.suffix in (".py", ".c", ".h", ".def")]
            if inside and "__pycache__" not in name and not name.startswith("pyio_trace/capture/startup/"):
                found.add(name)
    return found - WITHOUT


def test_every_folder_has_a_line() -> None:
    # GIVEN the tables of the page WHEN they are held against the tree THEN each folder has one line, and no other
    named = re.findall(r"^\| `((?:csrc|pyio_trace)/[\w/]+)` \| \S", PAGE.read_text(), re.M)
    assert sorted(named) == sorted(folders())


def test_pages_that_the_code_names_exist() -> None:
    # GIVEN the files outside docs/ WHEN the pages they name are looked for THEN each is there, or written by the build
    parts = ("benchmarks", "csrc", "examples", "plugins", "pyio_trace", "tests", "tools")
    files = [path for part in parts for path in (ROOT / part).rglob("*") if path.suffix in SUFFIXES]
    files += [path for path in ROOT.iterdir() if path.suffix in (*SUFFIXES, ".md")]
    named = {(path.name, page) for path in files for page in re.findall(r"\bdocs/[\w/-]+\.md", path.read_text())}
    generated = {f"docs/{page}" for page in docs_pages.PAGES}
    assert len(named) > 20
    assert [(file, page) for file, page in sorted(named) if page not in generated and not (ROOT / page).exists()] == []
