"""Texts of a log as the page shows them: a page must not be able to say what its log does not."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from pyio_trace.errors import is_plain

#: Characters of one text.
LONGEST = 4096


def shown(text: str) -> str:
    """The text as one line whose characters are all seen; others are escaped as in a Python string.  A browser would
    turn, hide or break lines at some of them."""
    if len(text) > LONGEST:
        text = f"{text[: LONGEST // 2]} … {text[-LONGEST // 2 :]}"
    if is_plain(text):
        return text
    return "".join(one if is_plain(one) else one.encode("unicode_escape").decode() for one in text)


def all_shown(values: dict[str, Any]) -> dict[str, Any]:
    """The values with all their texts shown, in dicts (whose keys are ours), lists and tuples."""
    return {key: _shown(one) for key, one in values.items()}


def _shown(value: Any) -> Any:
    if isinstance(value, str):
        return shown(value)
    if isinstance(value, dict):
        return all_shown(value)
    if isinstance(value, Iterable):
        return [_shown(one) for one in value]
    return value
