"""The page in a browser: what a reader sees, clicks and types."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from pyio_trace.cli.main import main
from pyio_trace.units import number, seconds, size
from tests.page.hostile import NAMES, hostile_run
from tests.support.browser import PROGRAM, Browser, browser
from tests.support.logwriter import LogWriter
from tests.support.smallrun import small_run

pytestmark = [pytest.mark.slow, pytest.mark.once, pytest.mark.skipif(PROGRAM is None, reason="there is no Chromium")]

READY = "document.documentElement.dataset.ready === '1'"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("pages")


@pytest.fixture(scope="module")
def tab(folder: Path) -> Iterator[Browser]:
    with browser(folder) as one:
        yield one


@pytest.fixture
def run(folder: Path, tab: Browser) -> Browser:
    """The page of the small run, open."""
    log = folder / "run.pyio"
    if not log.exists():
        small_run(log)
        assert main(["report", str(log)]) == 0
    tab.open(folder / "run.html")
    tab.until(READY)
    return tab


def quiet(tab: Browser) -> None:
    """The page had no errors, and asked for nothing."""
    assert tab.problems == [] and tab.requests == []


def row_of(tab: Browser, op: str) -> int:
    """The first row of this operation."""
    row = tab.eval(f"[...pyioTrace.operations.kind].findIndex((one) => pyioTrace.operations.kinds[one].op === '{op}')")
    assert row >= 0
    return int(row)


def place_of(tab: Browser, row: int) -> tuple[float, float]:
    """Where a row is on the screen, once it is in view."""
    tab.eval(f"pyioTrace.timeline.select({row}, true); document.querySelector('#timeline-card').scrollIntoView()")
    tab.eval("pyioTrace.timeline.select(-1)")
    tab.frame()
    x, y = tab.eval(f"""(() => {{
        const {{ timeline, model, operations }} = pyioTrace;
        const box = document.querySelector('canvas.lanes').getBoundingClientRect();
        const middle = operations.time[{row}] + model.length[{row}] / 2;
        const share = (middle - timeline.view.from) / (timeline.view.to - timeline.view.from);
        const top = document.querySelector('.lanes-scroll').scrollTop;
        const y = model.bandOf.get(operations.laneOf({row})).y + operations.depth[{row}] * 14 + 7 - top;
        return [box.left + timeline.left + share * (box.width - timeline.left), box.top + y];
    }})()""")
    return x, y


def test_the_first_screen(run: Browser) -> None:
    quiet(run)
    assert run.text("header").startswith("train.py")
    assert run.text("h1")
    assert run.eval("document.querySelectorAll('.kind').length") >= 1
    for heading in ("Findings", "Files", "Not seen", "Processes", "Timeline"):
        assert run.eval(f"[...document.querySelectorAll('h2')].some((one) => one.innerText.startsWith('{heading}'))"), (
            heading
        )
    assert "signal 9" in run.text("main")
    # the whole of it fits the window
    assert run.eval("document.documentElement.scrollWidth <= innerWidth")


def test_click_on_a_system_call_shows_its_line_and_what_is_around_it(run: Browser) -> None:
    x, y = place_of(run, row_of(run, "pread"))
    run.click(x, y)
    run.until("!document.querySelector('.details').hidden")
    text = run.text(".details")
    assert "pread 6 us" in text and "/d/in.bin" in text and "8,192 B" in text and "train.py:10" in text
    # the chain: the user's span, the file object's read, the call
    assert run.eval("[...document.querySelectorAll('.tree li')].map((one) => one.innerText.split(' ')[0])")[:3] == [
        "epoch", "BufferedReader.read", "pread",
    ]  # fmt: skip
    quiet(run)


def test_the_keys(run: Browser) -> None:
    view = "pyioTrace.timeline.view"
    whole = run.eval(f"{view}.to - {view}.from")
    run.eval("document.activeElement.blur()")
    run.key("w", "w")
    assert run.eval(f"{view}.to - {view}.from") < whole / 2
    before = run.eval(f"{view}.from")
    run.key("d")
    assert run.eval(f"{view}.from") > before
    run.key("a", "s", "0")
    assert run.eval(f"{view}.to - {view}.from") == whole
    run.eval(f"pyioTrace.timeline.select({row_of(run, 'pread')})")
    run.key("f")
    assert run.eval(f"{view}.to - {view}.from") < whole / 10
    run.eval("document.querySelector('canvas.lanes').focus()")
    selected = "pyioTrace.operations.kinds[pyioTrace.operations.kind[pyioTrace.timeline.selected]].op"
    row = run.eval("pyioTrace.timeline.selected")
    run.key("ArrowUp")
    run.until(f"{selected} === 'BufferedReader.read'")
    run.key("ArrowDown")
    run.until(f"pyioTrace.timeline.selected === {row}")
    run.key("ArrowUp")
    run.until(f"{selected} === 'BufferedReader.read'")
    run.key("ArrowRight")
    run.until(f"{selected} === 'pread'")
    run.key("ArrowLeft")
    run.until(f"{selected} === 'BufferedReader.read'")
    run.key("Escape")
    assert run.eval("pyioTrace.timeline.selected") == -1
    run.key("?")
    assert run.eval("document.querySelector('dialog').open")
    run.key("Escape")
    run.until("!document.querySelector('dialog').open")
    run.key("t")
    assert run.eval("document.documentElement.dataset.theme") == "dark"
    run.key("t", "t")
    assert run.eval("document.documentElement.dataset.theme ?? ''") == ""
    quiet(run)


def test_drag_and_wheel(run: Browser) -> None:
    x, y = place_of(run, row_of(run, "pread"))
    view = "JSON.stringify(pyioTrace.timeline.view)"
    before = run.eval(view)
    run.drag(x, y, x - 80, y)
    assert run.eval("pyioTrace.timeline.selected") == -1
    moved = run.eval(view)
    assert moved != before
    run.wheel(x, y, -200, ctrl=True)
    run.until(f"{view} !== '{moved}'")
    span = run.eval("pyioTrace.timeline.view.to - pyioTrace.timeline.view.from")
    run.eval("window.scrollTo(0, 0)")
    run.wheel(x, 300, 120)
    assert run.eval("pyioTrace.timeline.view.to - pyioTrace.timeline.view.from") == span
    quiet(run)


def test_search_and_what_is_found(run: Browser) -> None:
    run.key("/")
    assert run.eval("document.activeElement.type") == "search"
    run.type("pwrite")
    run.until("document.querySelector('.count').textContent.startsWith('1 of ')")
    run.key("Enter")
    run.until("pyioTrace.timeline.selected >= 0")
    assert "/d/out.bin" in run.until(
        "((text) => text.includes('pwrite') && text)(document.querySelector('.details').innerText)"
    )
    run.eval("document.activeElement.blur()")
    for query, op in (
        ("/d/out.bin", "pwrite"),
        ("/d/*t.b*n", "pwrite"),
        ("*.bin >15us", "pwrite"),
        ("failed", "stat"),
        ("train.py:20", "pwrite"),
        ("epoch", "epoch"),
    ):
        run.eval(
            f"{{ const box = document.querySelector('input'); box.value = {query!r};"
            "box.dispatchEvent(new Event('input')); document.querySelector('.count').textContent = ''; }"
        )
        run.until("document.querySelector('.count').textContent !== ''")
        run.key("n")
        seen = set()
        for _ in range(8):
            seen.add(run.eval("pyioTrace.operations.kinds[pyioTrace.operations.kind[pyioTrace.timeline.selected]].op"))
            run.key("n")
        assert op in seen, (query, seen)
    run.key("Escape", "Escape")
    run.until("document.querySelector('.count').textContent === ''")
    quiet(run)


def test_a_line_leads_to_its_operations(run: Browser) -> None:
    run.press(".link.mono")
    run.until("document.querySelector('.count').textContent !== '' && pyioTrace.timeline.selected >= 0")
    assert run.eval("document.querySelector('input').value").startswith(("u/train.py:", "train.py:", "/d/"))
    assert not run.eval("document.querySelector('.details').hidden") or run.until(
        "!document.querySelector('.details').hidden"
    )
    quiet(run)


def test_the_tables_show_what_belongs_to_what_was_found(run: Browser) -> None:
    names = "[...document.querySelectorAll('[aria-label={}] tbody tr')].map((one) => one.cells[{}].innerText)"
    whole = run.eval(names.format("Files", 5))
    run.eval("document.querySelector('input').value = 'train.py:10'; document.querySelector('input').focus()")
    run.key("Enter")
    run.until("document.querySelector('.count').textContent !== ''")
    # GIVEN a line that read one file WHEN it is searched THEN that file is listed, and the process that ran the line
    found = run.eval(names.format("Files", 5))
    assert found == ["/d/in.bin"] and len(whole) > 1
    assert "200" not in "".join(run.eval(names.format("Processes", 0)))
    quiet(run)


def test_the_tables_are_sorted_and_the_picture_has_one(run: Browser) -> None:
    heads = "[...document.querySelectorAll('[aria-label=Files] th button')]"
    run.eval(f"{heads}.at(-1).click()")
    run.eval(f"{heads}.at(-1).focus()")
    names = run.eval(
        "[...document.querySelectorAll('[aria-label=Files] tbody tr')].map((one) => one.cells[5].innerText)"
    )
    assert names == sorted(names, key=str.casefold) and len(names) > 1
    assert run.eval("document.querySelector('[aria-label=Files] th[aria-sort=ascending]') !== null")
    run.eval("document.querySelector('.in-view').open = true")
    rows = run.until("document.querySelectorAll('.in-view tbody tr').length")
    assert rows == run.eval("pyioTrace.operations.count")
    quiet(run)


def test_hostile_names_do_nothing(folder: Path, tab: Browser) -> None:
    log = hostile_run(folder / "hostile.pyio")
    assert main(["report", str(log), "--force"]) == 0
    tab.open(folder / "hostile.html")
    tab.until(READY)
    count = tab.eval("pyioTrace.operations.count")
    tab.eval("document.querySelector('.in-view').open = true")
    for row in range(count):
        tab.eval(f"pyioTrace.timeline.select({row})")
        tab.until("!document.querySelector('.details').hidden")
        x, y = place_of(tab, row)
        tab.move(x, y)
    tab.eval("for (const one of document.querySelectorAll('details')) one.open = true")
    assert tab.eval("document.querySelectorAll('img, :not(.picture) > svg, iframe, object, main script').length") == 0
    assert tab.eval("document.querySelectorAll('main b[onclick]').length") == 0
    texts = "".join(NAMES[:2])
    assert all(
        part
        in tab.eval(
            "document.querySelector('.in-view').innerText + document.querySelector('[aria-label=Files]').innerText"
        )
        for part in ("<img src=x onerror=alert(1)>", "</script><script>alert(2)")
    ), texts
    quiet(tab)


@pytest.mark.parametrize("lie", ["times", "parents", "sizes"])
def test_a_log_that_lies_can_be_looked_at(lie: str, folder: Path, tab: Browser) -> None:
    import pyarrow as pa

    from tests.page.test_rows import forged

    def ends(table: pa.Table) -> pa.Array:
        return pa.array([(-(1 << 62), 1 << 62, 0)[at % 3] for at in range(len(table))])

    columns = {
        "times": {"time": ends},
        "parents": {"parent": lambda table: pa.array([*table["id"].to_pylist()[1:], table["id"][0].as_py()])},
        "sizes": {"file_offset": ends, "bytes_moved": ends, "duration": ends},
    }[lie]
    log = forged(folder / f"{lie}.parquet", **columns)
    if main(["report", str(log), "--force"]) == 2:
        return
    tab.open(folder / f"{lie}.html")
    tab.until(READY)
    for row in range(tab.eval("pyioTrace.operations.count")):
        tab.eval(f"pyioTrace.timeline.select({row}, true)")
        tab.until("!document.querySelector('.details').hidden")
    tab.frame()
    tab.eval("pyioTrace.timeline.select(-1)")
    tab.eval("pyioTrace.timeline.show(pyioTrace.timeline.whole)")
    tab.frame()
    quiet(tab)


def test_nothing_to_show(folder: Path, tab: Browser) -> None:
    writer = LogWriter()
    writer.process(100, argv=["python", "x.py"], begin=1_000, end=9_000)
    writer.save(folder / "empty.pyio")
    assert main(["report", str(folder / "empty.pyio"), "--force"]) == 0
    tab.open(folder / "empty.html")
    assert "No operation is in the log." in tab.text("#timeline-card")
    assert "No operation was recorded" in tab.text("main")
    quiet(tab)


def test_phones_and_the_dark(folder: Path, run: Browser) -> None:
    light = run.eval("getComputedStyle(document.body).backgroundColor")
    run.open(folder / "run.html", 420, 900, dark=True, mobile=True)
    run.until(READY)
    assert run.eval("document.documentElement.scrollWidth <= 420")
    assert run.eval("getComputedStyle(document.body).backgroundColor") != light
    quiet(run)


def test_numbers_are_written_as_everywhere(run: Browser) -> None:
    """GIVEN times and sizes WHEN the page writes them THEN it writes what the commands write."""
    amounts = [
        0,
        1,
        999,
        1000,
        1536,
        9_994,
        9_996,
        99_949,
        123_456,
        1 << 20,
        1_500_000,
        999_499_999,
        1_000_000_000,
        179_999_999_999,
        180_000_000_000,
        3_600_000_000_000,
        9_000_000_000_000,
        5 << 40,
    ]
    written = run.eval(
        f"{amounts}.map((one) => ['seconds', 'size', 'number'].map((name) => pyioTrace.units[name](one)))"
    )
    for amount, (time, bytes_, count) in zip(amounts, written, strict=True):
        assert (time, bytes_, count) == (seconds(amount), size(amount), number(amount))


def test_it_is_read_as_another_user(tmp_path: Path) -> None:
    """The page is a file like any other: who may read the folder may read it."""
    assert main(["report", str(small_run(tmp_path / "run.pyio"))]) == 0
    mask = os.umask(0)
    os.umask(mask)
    assert (tmp_path / "run.html").stat().st_mode & 0o777 == 0o666 & ~mask
