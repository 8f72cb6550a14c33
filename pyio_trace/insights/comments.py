"""`# pyio_trace: ignore[slug]` at the end of a source line: leaves out the findings of this line.

Nothing is kept of a source file but its comments.
"""

from __future__ import annotations

import re
from itertools import islice

from pyio_trace.insights.finding import Finding, Site
from pyio_trace.insights.source_files import content

_COMMENT = re.compile(rb"#[ \t]*pyio_trace:[ \t]*ignore(?:\[([^\]\n]*)\])?")
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
            source = content(site.file)
            self._bytes += len(source)
            self._lines[site.file] = _comments(source)
        return self._lines[site.file]


def _comments(source: bytes) -> _Lines:
    """The first comment of each line that has one."""
    found: _Lines = {}
    line, end = 1, 0
    for match in islice(_COMMENT.finditer(source), _MOST_COMMENTS):
        line, end = line + source.count(b"\n", end, match.start()), match.start()
        slugs = match[1]
        found.setdefault(
            line, None if slugs is None else frozenset(map(str.strip, slugs.decode("ascii", "replace").split(",")))
        )
    return found
