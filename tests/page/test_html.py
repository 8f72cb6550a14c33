"""The file: nothing that a log says ends an element, runs or leads anywhere; source lines only where they are known."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest

from pyio_trace.cli.main import main
from pyio_trace.insights.finding import Site
from pyio_trace.join.sources.opening import open_log
from pyio_trace.page.html import page
from pyio_trace.page.rows import rows_of
from pyio_trace.page.shown import LONGEST, all_shown, shown
from pyio_trace.page.source_lines import SourceLines
from pyio_trace.page.svg import checked_svg
from pyio_trace.page.timeline import timeline_of
from pyio_trace.pictures.picture import Picture
from tests.page.decode import Page
from tests.page.hostile import NAMES, hostile_run
from tests.support.smallrun import small_run

PICTURE = Picture(
    "heat-map", "Where <b>it</b> reads", "A sentence & figures.", "everybody",
    '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 10 10"><rect class="io" width="5" height="5"/>'
    '<text class="label" x="1" y="2">a &lt;b&gt;</text></svg>', ("file", "reads"), (("<i>a</i>", "1"),),
)  # fmt: skip


def test_hostile_names_end_no_element(tmp_path: Path) -> None:
    log = hostile_run(tmp_path / "run.pyio")
    assert main(["report", str(log)]) == 0
    made = Page(tmp_path / "run.html")
    # GIVEN names with markup THEN the elements are those of the page, and no others
    names = {tag for tag, _ in made.tags}
    frame = {"html", "head", "meta", "title", "style", "body", "noscript", "script"}
    pictures = {
        "figure",
        "figcaption",
        "div",
        "details",
        "summary",
        "table",
        "thead",
        "tbody",
        "tr",
        "th",
        "td",
        "h3",
        "p",
    }
    shapes = {"svg", "g", "path", "rect", "line", "circle", "polyline", "text", "tspan", "title", "desc"}
    assert frame <= names <= frame | pictures | shapes
    assert [given for _, given in made.tags if any(name.startswith("on") for name in given)] == []
    found = {row["path"] for row in made.rows(0)}
    assert {shown(name) for name in NAMES} <= found
    assert not re.search("[\u2028\u2029\u202e\u200b\x00-\x09]", made.html.replace("\n", ""))


def test_the_policy_allows_this_program_and_this_style_and_nothing_else(tmp_path: Path) -> None:
    assert main(["report", str(small_run(tmp_path / "run.pyio"))]) == 0
    made = Page(tmp_path / "run.html")
    blocks = [re.findall(rf"<{name}>(.*?)</{name}>", made.html, re.DOTALL) for name in ("script", "style")]
    hashes = [base64.b64encode(hashlib.sha256(one[0].encode()).digest()).decode() for one in blocks]
    assert [len(one) for one in blocks] == [1, 1]
    assert made.policy == (
        f"default-src 'none'; script-src 'sha256-{hashes[0]}'; style-src 'sha256-{hashes[1]}'; base-uri 'none'; "
        "form-action 'none'"
    )
    assert not re.search(r"https?://(?!www\.w3\.org/2000/svg)", made.html)


def test_a_picture_is_a_card_with_its_table(tmp_path: Path) -> None:
    rows = rows_of(open_log(small_run(tmp_path / "run.pyio")), 0)
    html = "".join(page("x", {}, timeline_of(rows, [], 0), [PICTURE, replace(PICTURE, svg="<svg><script/></svg>")]))
    assert "<h3>Where &lt;b&gt;it&lt;/b&gt; reads</h3><p>A sentence &amp; figures.</p>" in html
    assert '<rect class="io" width="5" height="5"></rect>' in html and "a &lt;b&gt;" in html
    assert "<td>&lt;i&gt;a&lt;/i&gt;</td>" in html
    assert "a picture cannot have &lt;script&gt;" in html


@pytest.mark.parametrize(
    "svg",
    [
        "<svg><script>1</script></svg>", '<svg onload="x()"></svg>', '<svg><a href="http://x"/></svg>',
        '<svg><rect style="fill:red"/></svg>', '<svg><rect fill="url(http://x)"/></svg>', "<svg><foreignObject/></svg>",
        '<svg xmlns:x="http://www.w3.org/1999/xlink"><rect x:href="#a"/></svg>', "<p/>", "<svg>", "",
        '<!DOCTYPE svg [<!ENTITY a "b">]><svg>&a;</svg>', '<svg><image href="x.png"/></svg>',
    ],
)  # fmt: skip
def test_a_picture_is_shapes_and_texts(svg: str) -> None:
    with pytest.raises(ValueError):
        checked_svg(svg)


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("plain é ü 漢", "plain é ü 漢"), ("a\nb", "a\\nb"),
        ("\u202egpj.exe", "\\u202egpj.exe"), ("a\u200bb", "a\\u200bb"),
        ("\u2028", "\\u2028"), ("\x1b[31m", "\\x1b[31m"), ("\ud800", "\\ud800"), ("::error::x", "::error::x"),
    ],
)  # fmt: skip
def test_every_character_is_seen(text: str, wanted: str) -> None:
    assert shown(text) == wanted
    assert all_shown({"a": [text, (text, 1, None)]}) == {"a": [wanted, [wanted, 1, None]]}


def test_long_texts_are_cut() -> None:
    assert len(shown("a" * 100_000)) < LONGEST + 10


def source(folder: Path, text: str = "def main():\n    x = 1\n    open('a')\n\nmain()\n", name: str = "a.py") -> Path:
    path = folder / name
    path.write_text(text)
    return path


LATER = 1 << 62


def test_the_lines_around_a_line(tmp_path: Path) -> None:
    path = source(tmp_path)
    lines = SourceLines(LATER).around(Site(str(path), 2, "main"), 1)
    assert lines == [(1, "def main():"), (2, "    x = 1"), (3, "    open('a')")]
    assert SourceLines(LATER).around(Site(str(path), 3, "main"), 0) == [(3, "open('a')")]


def test_no_line_of_a_file_that_may_be_another(tmp_path: Path) -> None:
    path = source(tmp_path)
    known = SourceLines(LATER)
    # WHEN the function is not there, the line is not, or is empty THEN it is not known what it was
    for site in (
        Site(str(path), 3, "other"),
        Site(str(path), 99, "main"),
        Site(str(path), 4, "main"),
        Site("a.py", 1),
        Site(str(path), 5, "main"),
    ):
        assert known.around(site) == [], site
    assert known.around(Site(str(path), 5, "<module>"))
    # WHEN the file is newer than the run, is no Python, or says that it is something else THEN nothing of it is shown
    assert SourceLines(os.stat(path).st_mtime_ns - 1).around(Site(str(path), 5, "<module>")) == []
    for name, text in (("key.pem", "x = 1\n"), ("b.py", "-----BEGIN KEY-----\n"), ("c.py", "x = '\n")):
        assert SourceLines(LATER).around(Site(str(source(tmp_path, text, name)), 1, "<module>")) == []


def test_no_source_on_request(tmp_path: Path) -> None:
    log = hostile_run(tmp_path / "run.pyio", str(source(tmp_path)))
    os.utime(tmp_path / "a.py", (1, 1))
    for options, wanted in (([], {"open('a')"}), (["--no-source"], set())):
        assert main(["report", str(log), "--force", *options]) == 0
        assert set(Page(tmp_path / "run.html").facts["sources"].values()) == wanted


def test_the_answer_is_that_of_the_end_of_a_run(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    log = small_run(tmp_path / "run.pyio")
    assert main(["report", str(log)]) == 0
    facts = Page(tmp_path / "run.html").facts
    capfd.readouterr()
    assert main(["summary", str(log)]) == 0
    text = capfd.readouterr().out
    sentences = [one for one in facts["answer"] if not one.startswith("No finding")]
    assert sentences and all(one in text for one in sentences), text
    for _, amount, said in facts["data"]:
        assert f"{amount}  {said}".rstrip() in text


def test_the_facts_are_plain_json(tmp_path: Path) -> None:
    class Parser(HTMLParser):
        pass

    assert main(["report", str(hostile_run(tmp_path / "run.pyio"))]) == 0
    html = (tmp_path / "run.html").read_text()
    blocks = re.findall(r'<script type="application/json" id="\w+">(.*?)</script>', html)
    assert len(blocks) == 2
    for one in blocks:
        assert "<" not in one and one.isascii() and json.loads(one) is not None
