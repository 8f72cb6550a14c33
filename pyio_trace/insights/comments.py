"""`# pyio_trace: ignore[slug]` at the end of a source line: leaves out the findings of this line.

A log names source files, and a forged one may name anything.  So a file is read
only if it is a regular one of a real file system, not large, and belongs to the
user or to root; nothing is kept of it but its comments.
"""

from __future__ import annotations

import os
import re
from itertools import islice

from pyio_trace.config import trusted_content
from pyio_trace.insights.finding import Finding, Site
from pyio_trace.insights.kernel_files import made_up_devices

_COMMENT = re.compile(rb"#[ \t]*pyio_trace:[ \t]*ignore(?:\[([^\]\n]*)\])?")
_LARGEST = 4 << 20  #: bytes of a file
#: For one list of findings: files, and bytes of them all.
_MOST_FILES, _MOST_BYTES = 1000, 64 << 20
_MOST_COMMENTS = 10_000  #: of a file

#: Line -> the slugs of its comment; None: all.
_Lines = dict[int, frozenset[str] | None]


class Comments:
    """Reads source files, each once."""

    def __init__(self) -> None:
        self._lines: dict[str, _Lines] = {}
        self._bytes = 0

    def suppress(self, finding: Finding) -> bool:
        """Whether the first line of a finding has a comment that names it, or no slug at all."""
        if not finding.sites:
            return False
        site = finding.sites[0]
        lines = self._of(site)
        if site.line not in lines:
            return False
        slugs = lines[site.line]
        return slugs is None or finding.slug in slugs

    def _of(self, site: Site) -> _Lines:
        if site.file not in self._lines:
            if len(self._lines) >= _MOST_FILES or self._bytes >= _MOST_BYTES:
                return {}
            content = _read(site.file)
            self._bytes += len(content)
            self._lines[site.file] = _comments(content)
        return self._lines[site.file]


def _read(path: str) -> bytes:
    if not os.path.isabs(path) or "\0" in path:
        return b""
    try:
        device = os.stat(path).st_dev
    except OSError:
        return b""
    return b"" if device in made_up_devices() else trusted_content(path, _LARGEST) or b""


def _comments(content: bytes) -> _Lines:
    """The first comment of each line that has one."""
    found: _Lines = {}
    line, end = 1, 0
    for match in islice(_COMMENT.finditer(content), _MOST_COMMENTS):
        line, end = line + content.count(b"\n", end, match.start()), match.start()
        slugs = match[1]
        found.setdefault(
            line, None if slugs is None else frozenset(map(str.strip, slugs.decode("ascii", "replace").split(",")))
        )
    return found
