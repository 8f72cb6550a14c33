"""Every command, program and snippet that the tutorials, the how-to guides and README show is run."""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.docs.pages import ROOT, Failed, Page, blocks
from tests.support import frameworks

PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").glob("*.md"), *(ROOT / "docs").glob("tutorials/*.md"),
                *(ROOT / "docs").glob("how-to/*.md"), ROOT / "pyio_trace" / "AGENTS.md",
                ROOT / "docs" / "reference" / "modes.md"])  # fmt: skip
pytestmark = pytest.mark.once  # the pages show what one Python prints
RUN = [page for page in PAGES if any(block.language in ("console", "python") for block in blocks(page))]


def _needed(page: Path) -> set[str]:
    return {name for block in blocks(page) if block.language == "needs" for name in block.text.split()}


def _page(page: Path) -> Any:
    marks = [] if page.name in ("README.md", "index.md") else [pytest.mark.slow]
    return frameworks.chosen(page, _needed(page), *marks)


@pytest.mark.parametrize("path", [_page(page) for page in RUN], ids=lambda path: str(path.relative_to(ROOT)))
def test_page_runs(path: Path, tmp_path: Path) -> None:
    # GIVEN a folder with the examples, as in a clone
    folder = tmp_path / "clone"
    folder.mkdir()
    shutil.copytree(ROOT / "examples", folder / "examples")
    # WHEN the page's blocks are run in order THEN each succeeds, and prints what the page shows
    page = Page(path, folder)
    page.run()
    if page.skipped:
        pytest.skip(page.skipped)
    assert page.commands


def test_a_page_that_shows_something_else_fails(tmp_path: Path) -> None:
    # GIVEN a page whose command prints other words, and one whose command fails
    folder = tmp_path / "clone"
    folder.mkdir()
    wrong = tmp_path / "wrong.md"
    wrong.write_text("```console\n$ echo 12 calls of program.py:7\n13 calls of program.py:8\n```\n")
    # WHEN it is run THEN it fails
    with pytest.raises(Failed, match=r"program\.py:8"):
        Page(wrong, folder).run()


def test_a_command_that_fails(tmp_path: Path) -> None:
    folder = tmp_path / "clone"
    folder.mkdir()
    wrong = tmp_path / "wrong.md"
    wrong.write_text("```console\n$ python -c 'import there_is_no_such_module'\n```\n")
    with pytest.raises(Failed, match="status 1"):
        Page(wrong, folder).run()


def test_tutorials_are_run() -> None:
    # GIVEN the tutorials WHEN their blocks are looked through THEN each has something that is run
    assert {path for path in PAGES if path.parent.name == "tutorials"} <= set(RUN)


def test_readme_has_the_command_that_ci_runs() -> None:
    # GIVEN README's two set-up commands
    text = (ROOT / "README.md").read_text()
    first, second = re.findall(r"^```\n(.*)\n```$", text, re.M)[:2]
    # WHEN they are compared with CI's script THEN it runs the second one, with the slow tests as well
    ci = (ROOT / ".ci" / "run").read_text()
    assert "examples/quickstart.py" in first
    install, tests = (part.strip() for part in second.split("&&"))
    every, option, _ = tests.partition(' -m "not slow"')
    assert option and f"stage install -- {install}\n" in ci and f"pytest=({every} --outcomes" in ci


def test_readme_table(tmp_path: Path) -> None:
    # GIVEN a script, and the table "I want to ... run ..." of README
    folder = tmp_path / "clone"
    folder.mkdir()
    (folder / "script.py").write_text("open('numbers', 'w').write('1 2 3')\n")
    text = (ROOT / "README.md").read_text().partition("| I want to ... |")[2].partition("\n\n")[0]
    commands = [command for command in re.findall(r"`([^`]+)`", text) if command.startswith(("p", "PYIO"))]
    assert len(commands) > 8
    # WHEN its commands are run in order, on the log of the first THEN each succeeds
    steps = ["$ python -m pyio_trace -q -o LOG script.py"]
    steps += [f"$ {command}" for command in commands if not command.startswith("pyio_trace.")]
    steps = [step.replace("PID", str(os.getpid())) for step in steps]  # of some process
    page = tmp_path / "table.md"
    page.write_text("```console\n" + "\n".join(steps) + "\n```\n")
    Page(page, folder).run()


def test_links_of_the_pages_outside_the_site() -> None:
    # GIVEN the pages that the site does not check WHEN their links are followed THEN each file and heading is there
    broken = []
    for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md"):
        for target in re.findall(r"\]\(([^)\s]+)\)", (ROOT / name).read_text()):
            path, _, anchor = target.partition("#")
            if path.startswith(("http:", "https:")):
                continue
            there = (ROOT / path) if path else ROOT / name
            headings = (
                re.findall(r"^#+ (.*)$", there.read_text(), re.M) if there.suffix == ".md" and there.exists() else []
            )
            slugs = {re.sub(r"[^\w -]", "", heading).lower().replace(" ", "-") for heading in headings}
            if not there.exists() or (anchor and anchor not in slugs):
                broken.append(f"{name}: {target}")
    assert broken == []
