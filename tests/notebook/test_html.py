"""HTML and plots of a log: escaped, self-contained, one line where something is missing."""

from __future__ import annotations

import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest

import pyio_trace
from pyio_trace.errors import ConfigError, is_plain
from pyio_trace.notebook.html import html_of_findings, html_of_log, html_of_picture, html_of_summary, page
from pyio_trace.notebook.magic import CellReport
from pyio_trace.notebook.opened import OpenedLog
from pyio_trace.pictures.found import found
from tests.pictures.test_soundness import hostile
from tests.support.smallrun import small_run


class Elements(HTMLParser):
    """The elements of a page, which have to be closed in their order, and its texts."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: set[str] = set()
        self.attributes: set[str] = set()
        self.texts: list[str] = []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.open.append(tag)
        self.seen.add(tag)
        self.attributes |= {name for name, _ in attrs}

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.add(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open[-1] != "style":
            self.texts.append(data)


@pytest.fixture
def log(tmp_path: Path) -> OpenedLog:
    hostile(tmp_path)
    return pyio_trace.open(tmp_path / "hostile.pyio")


def test_names_of_a_log_cannot_do_anything(log: OpenedLog) -> None:
    # GIVEN a log whose names would end an element or run a script WHEN all that shows it is made
    findings = log.findings()
    texts = [
        html_of_log(log), html_of_summary(log.summary()), html_of_findings(findings.insights), findings._repr_html_(),
        CellReport.of(log)._repr_html_(), page(*map(html_of_picture, log.pictures())),
    ]  # fmt: skip
    for text in texts:
        # THEN it has none of their elements, and every character is seen
        elements = Elements(text)
        assert elements.seen.isdisjoint({"script", "img", "a", "link", "iframe"})
        assert not any(name.startswith("on") or name in ("href", "src", "style") for name in elements.attributes)
        assert all(map(is_plain, elements.texts))
        assert len(text) < 1 << 20


def test_a_log_tells_of_itself_without_a_scan(log: OpenedLog, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log, "batches", None)
    assert "operations" in log._repr_html_()


def test_a_selection_has_plots_too(tmp_path: Path) -> None:
    from pyio_trace.analysis.scan.filters import restrict_unchecked

    log = pyio_trace.open(small_run(tmp_path / "run.pyio"))
    assert type(restrict_unchecked(log, {})) is OpenedLog


@pytest.mark.parametrize("name", [kind.name for kind in found()])
def test_every_picture_is_a_plot(log: OpenedLog, name: str) -> None:
    # GIVEN a picture WHEN it is asked for as a plot THEN there is a figure, or one line says that there is none
    pytest.importorskip("matplotlib")
    from matplotlib.figure import Figure

    try:
        assert isinstance(getattr(log.plot, name)(), Figure)
    except ConfigError as problem:
        assert problem.slug == "nothing-to-plot" and "\n" not in str(problem)


def test_a_plot_that_there_is_not(log: OpenedLog) -> None:
    pytest.importorskip("matplotlib")
    for number in (0, 9, -1):
        with pytest.raises(ConfigError, match="1 to") as caught:
            log.plot.offsets(number)
        assert caught.value.slug == "nothing-to-plot"


def test_without_matplotlib_one_line_says_what_to_install(log: OpenedLog, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(ConfigError) as caught:
        log.plot.lines()
    assert caught.value.slug == "not-installed" and "pip install 'pyio_trace[plot]'" in str(caught.value)
