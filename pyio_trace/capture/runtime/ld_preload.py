"""--follow=all: puts the capture core into LD_PRELOAD, for child programs that are not Python.

The program uses that variable too: its entries stay, ours is added at the end
and removed again.  csrc/core/control/preload.c is the core's part of this.
"""

from __future__ import annotations

import os

from pyio_trace import native

VARIABLE = "LD_PRELOAD"
LIBRARY = "libpyio_trace.so"  # also named in csrc/core/process/environment.c

_added: tuple[str, str | None, str] | None = None  # our path, the variable before add() and after it


def library() -> str | None:
    """The path of the core, next to the extension; None if there is none."""
    if native.core is None or not native.core.__file__:
        return None
    path = os.path.join(os.path.dirname(os.path.abspath(native.core.__file__)), LIBRARY)
    return path if os.path.exists(path) else None


def add(*, complain: bool) -> None:
    """Put the core into LD_PRELOAD.  complain: print a line where that is not possible."""
    global _added
    path = library()
    if path is None or " " in path or ":" in path or "$" in path:
        if complain:
            native.say(
                f"only Python children are followed: {path or LIBRARY!r} cannot be preloaded (a space, : or $ in it)"
            )
        return
    before = os.environ.get(VARIABLE)
    if path in _entries(before):
        return
    after = f"{before}:{path}" if before else path
    _added = path, before, after
    native.set_variable(VARIABLE, after)


def remove() -> None:
    """Remove what add() has added, and keep whatever the program has put in since."""
    global _added
    if _added is None:
        return
    path, before, after = _added
    _added = None
    now = os.environ.get(VARIABLE)
    rest: str | None = before
    if now != after:  # the program has changed it
        rest = ":".join(entry for entry in _entries(now) if entry != path) or None if path in _entries(now) else now
    native.set_variable(VARIABLE, rest)


def _entries(value: str | None) -> list[str]:
    """The objects that the dynamic linker reads from it: separated by spaces or colons."""
    return (value or "").replace(":", " ").split()
