"""The page of `report --serve` in a browser: what it asks for, and what it shows of the answer."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from pyio_trace.page import levels as levels_module
from tests.page.test_browser import READY, place_of, quiet, row_of
from tests.page.test_levels import nested_run
from tests.page.test_server import served_log
from tests.support.browser import PROGRAM, Browser, browser
from tests.support.smallrun import small_run

pytestmark = [pytest.mark.slow, pytest.mark.once, pytest.mark.skipif(PROGRAM is None, reason="there is no Chromium")]

SPAN = "(pyioTrace.timeline.view.to - pyioTrace.timeline.view.from)"


@pytest.fixture(scope="module")
def tab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with browser(tmp_path_factory.mktemp("served")) as one:
        yield one


def asked(tab: Browser) -> list[str]:
    """What the page asked for; only parts of the run."""
    assert tab.problems == []
    found = [re.search(r"/tile\?level=(\d+)&place=(\d+)$", one) for one in tab.requests]
    assert all(found), tab.requests
    return [f"{one[1]}/{one[2]}" for one in found if one]


def test_zoom_to_one_operation(tab: Browser, tmp_path: Path) -> None:
    with served_log(small_run(tmp_path / "run.pyio")) as server:
        tab.open(server.address)
        tab.until(READY)
        # GIVEN the whole run, which is in the page WHEN one zooms to a call THEN the server has the part around it
        assert asked(tab) == []
        tab.eval(f"pyioTrace.timeline.select({row_of(tab, 'pread')}, true)")
        tab.until("document.documentElement.dataset.part > '1/'")
        assert asked(tab)
        x, y = place_of(tab, row_of(tab, "pread"))
        tab.until("document.querySelector('[aria-busy]') === null")
        x, y = place_of(tab, row_of(tab, "pread"))
        tab.click(x, y)
        tab.until("!document.querySelector('.details').hidden")
        text = tab.text(".details")
        assert "pread 6 us" in text and "/d/in.bin" in text and "train.py:10" in text
        assert tab.eval("[...document.querySelectorAll('.tree li')].map((one) => one.innerText.split(' ')[0])")[:3] == [
            "epoch", "BufferedReader.read", "pread",
        ]  # fmt: skip
        # back to the whole run: it is kept, and what was selected still is
        before = len(tab.requests)
        tab.eval("pyioTrace.timeline.show(pyioTrace.timeline.whole)")
        tab.until("document.documentElement.dataset.part === '0/0'")
        assert len(tab.requests) == before and "pread 6 us" in tab.text(".details")
        asked(tab)


def test_what_is_not_shown_one_by_one_is_drawn_and_can_be_reached(
    tab: Browser, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(levels_module, "MOST_ROWS", 30)
    with served_log(nested_run(tmp_path / "a.pyio", 400)) as server:
        tab.open(server.address, dark=True)
        tab.until(READY)
        assert "880 operations" in tab.text("header") or "880 calls" in tab.text("header")
        assert tab.eval("pyioTrace.operations.count") <= 30
        # GIVEN calls that the page has only as sums THEN their lane is drawn in the colour of I/O
        tab.until(
            """(() => { const canvas = document.querySelector('canvas.lanes'); const { model, timeline } = pyioTrace;
            const y = model.groups[0].bands[0].y + 14 + 11; const x = timeline.left;
            const data = canvas.getContext('2d').getImageData(x, y, canvas.width - x, 1).data;
            let found = 0;
            for (let at = 0; at < data.length; at += 4) if (data[at + 2] > 200) found++; return found; })()"""
        )
        tab.eval("pyioTrace.timeline.show({ from: 100000, to: 104000 })")
        tab.until(f"{SPAN} < 5000 && document.documentElement.dataset.part > '1/'")
        tab.until("pyioTrace.operations.kinds.some((one) => one.op === 'stat')")
        assert tab.eval("pyioTrace.operations.lanes.length") == 2
        asked(tab)


def test_a_page_of_a_file_cannot_ask(tab: Browser, tmp_path: Path) -> None:
    from pyio_trace.cli.main import main

    log = small_run(tmp_path / "run.pyio")
    assert main(["report", str(log)]) == 0
    tab.open(tmp_path / "run.html")
    tab.until(READY)
    tab.eval("pyioTrace.timeline.show({ from: 10000, to: 10400 })")
    tab.frame()
    quiet(tab)
    assert tab.eval("fetch('http://127.0.0.1:1/').then(() => 'asked', () => 'refused')") == "refused"


def test_the_command(tab: Browser, tmp_path: Path) -> None:
    log = small_run(tmp_path / "run.pyio")
    command = [sys.executable, "-m", "pyio_trace", "report", str(log), "--serve", "--no-browser"]
    root = Path(__file__).resolve().parents[2]
    running = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=root,
        env={**os.environ, "PYTHONPATH": str(root)},
    )  # fmt: skip
    try:
        assert running.stdout is not None
        line = running.stdout.readline()
        address = re.match(r"(http://127\.0\.0\.1:\d+/[\w-]{32}/)  14 operations, until Ctrl-C\n", line)
        assert address, line
        tab.open(address[1])
        tab.until(READY)
        asked(tab)
    finally:
        running.send_signal(signal.SIGINT)
        out, err = running.communicate(timeout=60)
    assert (out, err, running.returncode) == ("", "pyio-trace: stopped\n", 0)
    # the page says that its server has ended
    tab.eval("pyioTrace.timeline.show({ from: 10000, to: 20000 })")
    tab.until("document.querySelector('.range').textContent.startsWith('The server does not answer')")
