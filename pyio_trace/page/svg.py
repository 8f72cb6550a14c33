"""Checks the SVG of a picture before it becomes a part of the page.

The page forbids scripts and requests anyway (its Content-Security-Policy); this
keeps a mistake in a picture from showing at all.
"""

from __future__ import annotations

import re
from xml.etree import ElementTree

_ELEMENTS = {
    "svg", "g", "path", "rect", "line", "circle", "ellipse", "polyline", "polygon", "text", "tspan", "title", "desc",
    "defs", "clipPath", "pattern", "linearGradient", "stop", "marker",
}  # fmt: skip
_REFERENCE = re.compile(r"url\((?!#[\w-]+\))|javascript:|data:", re.IGNORECASE)
_NAMESPACE = "{http://www.w3.org/2000/svg}"
_MOST = 4 << 20  #: characters


def checked_svg(svg: str) -> str:
    """The picture, written anew.  Raises ValueError if it is more than shapes and texts."""
    if len(svg) > _MOST or "<!" in svg or "<?" in svg:
        raise ValueError("the picture is too large, or has declarations")
    try:
        root = ElementTree.fromstring(svg)
    except ElementTree.ParseError as error:
        raise ValueError(f"the picture is no XML: {error}") from None
    for element in root.iter():
        name = element.tag.removeprefix(_NAMESPACE)
        if name not in _ELEMENTS:
            raise ValueError(f"a picture cannot have <{name}>")
        element.tag = name
        for attribute, value in element.attrib.items():
            if attribute.lower().startswith("on") or attribute in ("style", "href") or "}" in attribute:
                raise ValueError(f"a picture cannot have the attribute {attribute}")
            if _REFERENCE.search(value):
                raise ValueError("a picture cannot refer to anything outside")
    if root.tag != "svg":
        raise ValueError("the picture is no <svg>")
    return ElementTree.tostring(root, encoding="unicode", short_empty_elements=False)
