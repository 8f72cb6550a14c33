"""docs/explanation/summaries.md shows what its programs print: the same lines of code, calls and files."""

from __future__ import annotations

import re
import tempfile
from pathlib import Path

import pytest

from tests.support import frameworks
from tools import summaries

pytestmark = pytest.mark.once
#: A row of LINES or FILES: figures, then what they are of.
_ROW = re.compile(r" +(?:[\d.,]+ \w+|-) {1,2}[ \d.,\w%-]* {2}(\S.*)")
#: What a row of LINES begins with: a line of a program, or what stands for one.
_PLACE = re.compile(r"[\w.<>]+:\d+|\(.*?\)|\S+")
_FIRST_SCREEN = 40


def rows(text: str, heading: str) -> list[str]:
    """The last column of a table of the summary, without folders: that of the quickstart has another name each time."""
    found: list[str] = []
    inside = False
    for line in text.splitlines():
        inside = line.startswith(heading) or (inside and line.startswith("  "))
        if inside and (row := _ROW.fullmatch(line)):
            found.append(re.sub(r"\S*/", "", row[1]))
    return found


def _places(text: str) -> list[str]:
    return [place[0] for row in rows(text, "LINES") if (place := _PLACE.match(row))]


def test_every_program_has_a_summary_of_one_screen() -> None:
    shown = summaries.shown()
    assert len(shown) == 7
    for name, text in shown.items():
        lines = text.splitlines()
        assert lines[0].startswith(f"pyio_trace: {Path(name).name}.py "), name
        assert len(lines) <= _FIRST_SCREEN and max(map(len, lines)) <= 80, name


def _imported(name: str) -> list[str]:
    return re.findall(r"^(?:import|from) (\w+)", (summaries.ROOT / "examples" / f"{name}.py").read_text(), re.M)


@pytest.mark.parametrize("name", [frameworks.param(name, _imported(name)) for name in summaries.shown()])
def test_a_run_prints_what_the_page_shows(name: str) -> None:
    # GIVEN what the page shows of a program WHEN it is run again, in a folder with a short name: PyTorch's workers put
    # sockets there, which may have 107 characters
    with tempfile.TemporaryDirectory(prefix="summary-", dir="/tmp") as folder:
        try:
            printed = summaries.produced(name, Path(folder))
        except ImportError as error:
            pytest.skip(str(error))
    shown = summaries.shown()[name]
    # THEN the line that costs most, and the files that do, are those of the page
    assert _places(shown)[0] in _places(printed)
    files = rows(shown, "FILES")
    assert not files or files[0] in rows(printed, "FILES")
