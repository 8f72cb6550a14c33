"""Matches the patterns of paths in --include, --exclude and --path, as csrc/core/base/globs.c does for capture.

`*` and `?` do not match a slash, `**` does, and a component `**` matches no
folder or several.  [abc], [a-z] and [!a-z] match one character other than a slash.  A pattern with a slash is
compared with the path from its start, one without with each name in the path; what matches a folder matches
what is in it.  tests/support/globs.json lists the answers that this module and the C one must give.
"""

from __future__ import annotations

import re
from collections.abc import Callable

_NOTHING = "(?!)"


def path_matcher(pattern: str) -> Callable[[str], bool]:
    """Whether a pattern matches an absolute path, or a folder that the path is in."""
    pattern = pattern[:1] + pattern[1:].rstrip("/")
    if pattern == "/":
        return lambda path: True
    expression = _expression(pattern)
    if "/" not in pattern:
        expression = rf"(?:.*/)?(?!/|\Z){expression}"  # any name, but an empty one
    compiled = re.compile(f"{expression}(?:/.*)?", re.DOTALL)
    return lambda path: compiled.fullmatch(path) is not None


def stars_only(pattern: str) -> str:
    """The regular expression of a pattern in which only `*` is special."""
    return _last([re.escape(text) for text in pattern.split("*")])


def _expression(pattern: str) -> str:
    """The regular expression that matches what a pattern does.

    The pattern is cut before each `**`.  It is enough to find the first place
    of a part: what comes before a `**` does not need another one, as that takes
    whatever is between.  So parts are atomic groups, and no pattern takes
    exponential time, whoever wrote it.
    """
    parts: list[tuple[str, list[str]]] = [("", [""])]  # (what its `**` matches, expressions between its `*`)
    at = 0
    while at < len(pattern):
        texts = parts[-1][1]
        if pattern.startswith("**/", at) and pattern[at - 1 : at] in ("", "/"):
            parts.append(("(?:[^/]*/)*?", [""]))
            at += 3
        elif pattern.startswith("**", at):
            if "/" in pattern:
                parts.append((".*?", [""]))
            else:
                texts.append("")
            at += 2
        elif pattern[at] == "[":
            part, at = _set(pattern, at)
            texts[-1] += part
        else:
            if pattern[at] == "*":
                texts.append("")
            else:
                texts[-1] += "[^/]" if pattern[at] == "?" else re.escape(pattern[at])
            at += 1
    *before, (start, texts) = parts
    return "".join(f"(?>{start}{_first(texts)})" for start, texts in before) + start + _last(texts)


def _first(texts: list[str]) -> str:
    """Expressions with `*` between them, at the first place after the one before: a later one is not needed, as the
    next `*` takes what is between."""
    return texts[0] + "".join(f"(?>[^/]*?{text})" for text in texts[1:])


def _last(texts: list[str]) -> str:
    """Expressions with `*` between them, the last one wherever what follows fits."""
    return texts[0] if len(texts) == 1 else f"{_first(texts[:-1])}[^/]*{texts[-1]}"


def _set(pattern: str, start: int) -> tuple[str, int]:
    """The expression for the [abc] that begins at start, and where it ends; without a ], for the bracket itself."""
    negated = pattern[start + 1 : start + 2] in ("!", "^")
    first = at = start + 1 + negated
    ranges = []
    while at < len(pattern) and (at == first or pattern[at] != "]"):
        low = high = pattern[at]
        at += 1
        if pattern[at : at + 1] == "-" and pattern[at + 1 : at + 2] not in ("", "]"):
            high = pattern[at + 1]
            at += 2
        if low <= high:
            ranges.append(f"{re.escape(low)}-{re.escape(high)}")
    if at >= len(pattern):
        return re.escape("["), start + 1
    if not ranges:
        return "[^/]" if negated else _NOTHING, at + 1
    return f"(?!/)[{'^' if negated else ''}{''.join(ranges)}]", at + 1
