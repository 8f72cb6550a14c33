"""Known differences, each with its reason: what a program can notice, and why it stays."""

from __future__ import annotations

import re

#: (pattern of the module, pattern of the problem's text, reason)
_KNOWN: list[tuple[str, str, str]] = []


def reason_for(module: str, problem: str) -> str | None:
    """Why this difference is there, if it is known."""
    for name, pattern, reason in _KNOWN:
        if re.fullmatch(name, module) and re.search(pattern, problem):
            return reason
    return None
