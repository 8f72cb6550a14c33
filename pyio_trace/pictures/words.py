"""Texts in a drawing: how wide they are, and how they are made to fit."""

from __future__ import annotations

import re

from pyio_trace.errors import printable

#: Widths of characters, as shares of the size of the font.  Those of DejaVu Sans: what most other fonts need is less.
_NARROW, _SLIM, _USUAL, _CAPITAL, _WIDE, _FULL = 0.3, 0.42, 0.62, 0.72, 0.98, 1.15
_NARROW_ONES, _SLIM_ONES, _WIDE_ONES = frozenset("ijlI.,:;'|! "), frozenset('frt()[]/-\\`"'), frozenset("mwMW@%&")
ELLIPSIS = "…"
#: Characters of a word in a sentence.
_LONGEST = 80


def width(text: str, size: float) -> float:
    """About how wide a text is, at least as wide as most fonts draw it."""
    return size * sum(map(_share, text))


def _share(one: str) -> float:
    if one in _NARROW_ONES:
        return _NARROW
    if one in _SLIM_ONES:
        return _SLIM
    if one in _WIDE_ONES:
        return _WIDE
    if not one.isascii():
        return _USUAL if one < "\u0250" or one == ELLIPSIS else _FULL
    return _CAPITAL if one.isupper() else _USUAL


def fitted(text: str, size: float, room: float) -> str:
    """The text as it can be seen (errors.printable), cut in the middle if it is wider than `room`; its end is the
    longer part, as it says most of a path."""
    text = printable(text)
    if width(text, size) <= room:
        return text
    kept = min(len(text), int(room / (size * _NARROW)) + 1)
    while kept > 1:
        kept -= 1
        head = kept // 3
        cut = f"{text[:head]}{ELLIPSIS}{text[len(text) - (kept - head) :]}"
        if width(cut, size) <= room:
            return cut
    return ELLIPSIS if room >= width(ELLIPSIS, size) else ""


def readable(text: str) -> str:
    """A sentence as it can be seen, in which no word is so long that it would be unreadable: those are cut in the
    middle."""
    return re.sub(rf"\S{{{_LONGEST + 1},}}", lambda word: _cut(word[0], _LONGEST), printable(text))


def _cut(text: str, kept: int) -> str:
    return f"{text[: kept // 3]}{ELLIPSIS}{text[len(text) - (kept - kept // 3) + 1 :]}"


def file_name(path: str) -> str:
    """The last part of a path."""
    return path.rstrip("/").rpartition("/")[2] or path


def short_site(line: str) -> str:
    """FILE:LINE FUNCTION of file:line:function, without the folder; other texts as they are."""
    place, _, function = line.rpartition(":")
    file, colon, row = place.rpartition(":")
    return f"{file_name(file)}:{row} {function}" if colon and row.isdigit() else line
