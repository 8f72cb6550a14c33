"""--follow=all: the capture core as LD_PRELOAD for children that are not Python.

The variable is the program's too: what is in it stays, ours comes last and is
taken out again.  The core's own side of this is csrc/core/preload.c.
"""

from __future__ import annotations

import os

from pyio_trace import native
from pyio_trace.errors import say

VARIABLE = "LD_PRELOAD"
LIBRARY = "libpyio_trace.so"  # also named in csrc/core/hooks_process.c

_undo: tuple[str, str | None, str] | None = None  # our path, the variable before add() and after it


def library() -> str | None:
    """The core's path, as the extension has it loaded; None where there is none."""
    if native.core is None or not native.core.__file__:
        return None
    path = os.path.join(os.path.dirname(os.path.abspath(native.core.__file__)), LIBRARY)
    return path if os.path.exists(path) else None


def add(*, complain: bool) -> None:
    """Put the core into LD_PRELOAD, for children; where that cannot be, say so once if `complain`."""
    global _undo
    path = library()
    if path is None or " " in path or ":" in path or "$" in path:
        if complain:
            say(f"only Python children are followed: {path or LIBRARY!r} cannot be preloaded (a space, : or $ in it)")
        return
    before = os.environ.get(VARIABLE)
    if path in _entries(before):
        return
    after = f"{before}:{path}" if before else path
    _undo = path, before, after
    os.environ[VARIABLE] = after


def remove() -> None:
    """Take out what add() has put in; whatever else has come into the variable since stays."""
    global _undo
    if _undo is None:
        return
    path, before, after = _undo
    _undo = None
    now = os.environ.get(VARIABLE)
    rest: str | None = before
    if now != after:  # the program has changed it
        rest = ":".join(entry for entry in _entries(now) if entry != path) or None if path in _entries(now) else now
    if rest is None:
        os.environ.pop(VARIABLE, None)
    else:
        os.environ[VARIABLE] = rest


def _entries(value: str | None) -> list[str]:
    """The objects that the loader makes of it: separated by spaces or colons."""
    return (value or "").replace(":", " ").split()
