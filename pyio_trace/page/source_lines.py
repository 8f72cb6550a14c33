"""The lines of source around one that a log names, where it is certain that they are the program's.

A forged log may name any file, and a page is sent to others.  So only Python
files count, that parse, have the named function at that line, and have not been
changed since the run began (source_files.py has further conditions).
"""

from __future__ import annotations

import ast
import os
import warnings

from pyio_trace.insights.finding import Site
from pyio_trace.insights.source_files import content
from pyio_trace.page.shown import shown

_AROUND = 2
#: For one page: files, and bytes of them all.
_MOST_FILES, _MOST_BYTES = 100, 16 << 20
_LONGEST = 200  #: characters of a line


class SourceLines:
    """Reads source files, each once."""

    def __init__(self, begin: int) -> None:
        """begin: of the run, ns since the epoch."""
        self._begin = begin
        self._files: dict[str, _File | None] = {}
        self._bytes = 0

    def around(self, site: Site, around: int = _AROUND) -> list[tuple[int, str]]:
        """(number, text) of the line and those around it, without their common indentation; none if it is not known
        what it was."""
        file = self._file(site.file)
        if file is None or not file.has(site):
            return []
        first = max(site.line - around, 1)
        lines = [line.expandtabs(4).rstrip() for line in file.lines[first - 1 : site.line + around]]
        while lines and not lines[-1]:
            del lines[-1]
        indent = min((len(line) - len(line.lstrip()) for line in lines if line), default=0)
        return [(first + at, shown(line[indent:][:_LONGEST])) for at, line in enumerate(lines)]

    def _file(self, path: str) -> _File | None:
        if path not in self._files:
            if len(self._files) >= _MOST_FILES or self._bytes >= _MOST_BYTES:
                return None
            self._files[path] = self._read(path)
        return self._files[path]

    def _read(self, path: str) -> _File | None:
        if not path.endswith(".py"):
            return None
        try:
            if os.stat(path).st_mtime_ns > self._begin:
                return None
            text = content(path).decode()
            self._bytes += len(text)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                return _File(text)
        except (OSError, ValueError, SyntaxError, RecursionError, MemoryError):
            return None


class _File:
    def __init__(self, text: str) -> None:
        self.lines = text.split("\n")
        self._functions = [
            (node.name, node.lineno, node.end_lineno or node.lineno)
            for node in ast.walk(ast.parse(text))
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
        ]

    def has(self, site: Site) -> bool:
        """Whether the line is within the function."""
        if not 1 <= site.line <= len(self.lines) or not self.lines[site.line - 1].strip():
            return False
        name = site.function.rpartition(".")[2]
        return (
            not name
            or name.startswith("<")
            or any(one == name and first <= site.line <= last for one, first, last in self._functions)
        )
