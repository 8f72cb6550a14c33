"""Where a program uses what a line has read."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest

from pyio_trace.insights.data_flow import uses

#: By what is in it: a source, and by line the lines that use what it binds.
SOURCES = {
    "a loop": ("with open(p) as f:\n    for line in f:\n        use(line)\n        other()", {2: {3}}),
    "a variable": ("data = f.read()\nuse(1)\nx = use(data)", {1: {3}}),
    "several lines": ("data = read(\n    1,\n    2,\n)\nuse(\n    data\n)", {1: {5, 6}, 3: {5, 6}}),
    "a condition": ("while part := f.read(9):\n    use(part)", {1: {2}}),
    "another function": ("def a():\n    data = read()\ndef b():\n    use(data)", {2: set()}),
    "a method": ("class A:\n    def a(self):\n        data = read()\n        return use(data)", {3: {4}}),
    "bound twice": ("data = read()\ndata = 3\nuse(data)", {1: set(), 2: set()}),
    "an attribute": ("self.data = read()\nuse(self.data)", {1: set()}),
    "a match": ("match read():\n    case [x]:\n        y = x\n        use(y)", {3: {4}}),
    "no Python": ("for line in", {1: set()}),
}


@pytest.mark.parametrize("name", SOURCES)
def test_uses(tmp_path: Path, name: str) -> None:
    text, expected = SOURCES[name]
    (tmp_path / "p.py").write_text(textwrap.dedent(text))
    assert {line: set(uses(str(tmp_path / "p.py"), line)) for line in expected} == expected


def test_no_file(tmp_path: Path) -> None:
    assert uses(str(tmp_path / "none.py"), 1) == frozenset()
