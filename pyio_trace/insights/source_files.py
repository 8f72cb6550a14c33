"""Reads source files that a log names.

A forged log may name anything.  So a file is read only if it is a regular one of a real file system, not large, and
belongs to the user or to root; nothing of it may be printed but what page/source_lines.py lets through.
"""

from __future__ import annotations

import itertools
import os

from pyio_trace.config import trusted_content
from pyio_trace.insights.kernel_files import made_up_devices

_LARGEST = 4 << 20  #: bytes of a file


def content(path: str) -> bytes:
    """The bytes of a source file; none if it is not there, or not to be read."""
    if not os.path.isabs(path) or "\0" in path:
        return b""
    try:
        device = os.stat(path).st_dev
    except OSError:
        return b""
    return b"" if device in made_up_devices() else trusted_content(path, _LARGEST) or b""


#: Lines that a statement may have here.
_LONGEST = 12


def statement(path: str, line: int) -> bytes:
    """What begins in a line of a source file, up to where its brackets are closed; b"": the file is not to be read."""
    found, depth = [], 0
    for one in itertools.islice(content(path).split(b"\n"), max(line - 1, 0), max(line - 1, 0) + _LONGEST):
        found.append(one)
        depth += sum(map(one.count, (b"(", b"[", b"{"))) - sum(map(one.count, (b")", b"]", b"}")))
        if depth <= 0:
            break
    return b"\n".join(found)
