"""Each slug that an error can carry has its paragraph in docs/messages.md, and no paragraph is without one."""

from __future__ import annotations

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
SLUG = re.compile(r"[a-z]+(-[a-z]+)+")


def slugs_in(tree: ast.AST) -> set[str]:
    """Strings of a slug's form that stand first in a call or a tuple: where errors are made or chosen."""
    found: set[str] = set()
    for node in ast.walk(tree):
        firsts: list[ast.expr] = []
        if isinstance(node, ast.Call) and "Error" in ast.unparse(node.func):
            firsts = node.args[:1]
        elif isinstance(node, ast.Call) and ast.unparse(node.func) == "parse_choice":
            firsts = node.args[-1:]
        elif isinstance(node, ast.Tuple) and len(node.elts) == 2:
            firsts = node.elts[:1]
        words = {str(one.value) for one in firsts if isinstance(one, ast.Constant)}
        found |= {word for word in words if SLUG.fullmatch(word)}
    return found


def test_every_slug_is_explained() -> None:
    used: set[str] = set()
    for path in (ROOT / "pyio_trace").rglob("*.py"):
        used |= slugs_in(ast.parse(path.read_text()))
    text = (ROOT / "docs" / "messages.md").read_text()
    explained = re.findall(r"^## (\S+)$", text, re.MULTILINE)
    assert explained == sorted(explained)
    assert used == set(explained)
