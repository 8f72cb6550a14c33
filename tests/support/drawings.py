"""What holds for every picture, whatever it shows: safe to put into a page, and readable."""

from __future__ import annotations

import itertools
import re
from xml.etree import ElementTree

from pyio_trace.errors import is_plain
from pyio_trace.pictures import Picture
from pyio_trace.pictures.canvas import WIDTH
from pyio_trace.pictures.style import LIGHT
from pyio_trace.pictures.words import width

SVG = "{http://www.w3.org/2000/svg}"
#: Elements, and the attributes that each may have.
ALLOWED = {
    "svg": {"viewBox", "width", "role", "aria-labelledby"}, "title": {"id"}, "desc": {"id"},
    "rect": {"class", "x", "y", "width", "height"}, "path": {"class", "d", "fill", "fill-opacity"},
    "text": {"class", "x", "y", "font-size", "text-anchor"},
}  # fmt: skip
CLASSES = {name for name in LIGHT if name != "card"} | {f"stroke-{name}" for name in LIGHT}
MOST = 2000
#: The smallest text: 7 pixels high where the drawing is 420 wide.
SMALLEST = 16

Box = tuple[float, float, float, float, str]


def check(picture: Picture) -> ElementTree.Element:
    """The drawing, which has to be sound."""
    root = ElementTree.fromstring(picture.svg)
    elements = list(root.iter())
    assert len(elements) <= MOST, (picture.slug, len(elements))
    for one in elements:
        tag = one.tag.removeprefix(SVG)
        assert set(one.attrib) <= ALLOWED[tag], (picture.slug, tag, one.attrib)
        assert one.get("class", "label") in CLASSES
        assert one.get("fill", "none") == "none"
        assert is_plain(one.text or "")
    named = {one.get("id") for one in elements if one.get("id")}
    assert root.get("role") == "img" and set((root.get("aria-labelledby") or "").split()) == named
    assert [one.text for one in root[:2]] == [picture.title, picture.sentence]
    texts = [picture.title, picture.sentence, *picture.columns, *(cell for row in picture.rows for cell in row)]
    assert all(map(is_plain, texts)) and re.fullmatch(r"[a-z0-9-]+", picture.slug)
    assert picture.rows and all(len(row) == len(picture.columns) for row in picture.rows)
    assert picture.concerns in ("everybody", "training", "arrays", "tables", "ranks")
    _check_texts(picture, root)
    return root


def _check_texts(picture: Picture, root: ElementTree.Element) -> None:
    """No text is too small, beyond the drawing or over another one."""
    height = float((root.get("viewBox") or "").split()[3])
    boxes = [_box(one) for one in root.iter(f"{SVG}text")]
    for left, top, right, bottom, text in boxes:
        assert left >= -1 and right <= WIDTH + 1 and top >= 0 and bottom <= height, (picture.slug, text)
    for one, other in itertools.combinations(boxes, 2):
        apart = one[2] <= other[0] + 1 or other[2] <= one[0] + 1 or one[3] <= other[1] + 1 or other[3] <= one[1] + 1
        assert apart, (picture.slug, one[4], other[4])


def _box(text: ElementTree.Element) -> Box:
    shown, size = "".join([text.text or "", *(one.tail or "" for one in text)]), float(text.get("font-size", 0))
    assert size >= SMALLEST
    wide, x, y = width(shown, size), float(text.get("x", 0)), float(text.get("y", 0))
    left = x - {"start": 0.0, "middle": wide / 2, "end": wide}[text.get("text-anchor", "start")]
    return left, y - 0.75 * size, left + wide, y + 0.2 * size, shown
