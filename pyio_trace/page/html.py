"""Writes the page: one HTML file with its data, its style and its program, which asks for nothing else."""

from __future__ import annotations

import base64
import hashlib
import html
import json
from collections.abc import Iterator, Sequence
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from pyio_trace.page.shown import shown
from pyio_trace.page.svg import checked_svg

if TYPE_CHECKING:
    from pyio_trace.page.timeline import Timeline
    from pyio_trace.pictures.picture import Picture

_SAVE_AS = "This report needs JavaScript: open it in a browser that allows it.  It makes no connections."


def policy_of(connects: bool) -> str:
    """The Content-Security-Policy; connects: the page may ask the server that it came from."""
    style, program = _assets()
    allowed = f"script-src {_hash(program)}; style-src {_hash(style)}" + ("; connect-src 'self'" if connects else "")
    return f"default-src 'none'; {allowed}; base-uri 'none'; form-action 'none'"


def _assets() -> tuple[str, str]:
    folder = files("pyio_trace.page") / "assets"
    return (folder / "page.css").read_text("utf-8"), (folder / "page.js").read_text("utf-8")


def page(
    title: str, facts: dict[str, Any], timeline: Timeline, pictures: Sequence[Picture], connects: bool = False
) -> Iterator[str]:
    """The parts of the file, in order.  facts: see document.py; connects: see policy_of()."""
    style, program = _assets()
    policy = policy_of(connects)
    yield '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
    yield f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
    yield '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
    yield '<meta name="color-scheme" content="light dark">\n<meta name="referrer" content="no-referrer">\n'
    yield f"<title>{html.escape(shown(title))}</title>\n<style>{style}</style>\n</head>\n<body>\n"
    yield f"<noscript>{_SAVE_AS}</noscript>\n"
    for picture in pictures:
        yield from _picture(picture)
    yield _json("facts", facts)
    columns = {name: {"width": one.width, "masked": one.masked} for name, one in timeline.columns.items()}
    yield _json("timeline", {**timeline.about, "columns": columns})
    for name, one in timeline.columns.items():
        yield _binary(f"column-{name}", one.data)
    for name, data in timeline.texts.items():
        yield _binary(f"texts-{name}", data)
    yield f"<script>{program}</script>\n</body>\n</html>\n"


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def _json(identity: str, value: Any) -> str:
    """A block of data.  No text in it can end it."""
    text = json.dumps(value, ensure_ascii=True, allow_nan=False, separators=(",", ":")).replace("<", "\\u003c")
    return f'<script type="application/json" id="{identity}">{text}</script>\n'


def _binary(identity: str, data: bytes) -> str:
    return f'<script type="text/plain" id="{identity}">{base64.b64encode(data).decode()}</script>\n'


def _picture(picture: Picture) -> Iterator[str]:
    """A card, which the program of the page puts in its place."""
    title, sentence = (html.escape(shown(text)) for text in (picture.title, picture.sentence))
    try:
        svg = checked_svg(picture.svg)
    except ValueError as error:
        svg = f'<p class="muted">{html.escape(shown(str(error)))}</p>'
    yield f'<figure class="card picture" id="picture-{html.escape(picture.slug)}" hidden>\n'
    yield f"<figcaption><h3>{title}</h3><p>{sentence}</p></figcaption>\n{svg}\n"
    if picture.rows:
        head = "".join(f'<th scope="col">{html.escape(shown(name))}</th>' for name in picture.columns)
        yield f'<details><summary>Table</summary><div class="scroll"><table><thead><tr>{head}</tr></thead><tbody>\n'
        for row in picture.rows:
            yield f"<tr>{''.join(f'<td>{html.escape(shown(cell))}</td>' for cell in row)}</tr>\n"
        yield "</tbody></table></div></details>\n"
    yield "</figure>\n"
