"""Each slug of an error has its paragraph in docs/reference/messages.md, and each paragraph is of a slug."""

from __future__ import annotations

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
SLUG = re.compile(r"[a-z]+(-[a-z]+)+")


def slugs_in(tree: ast.AST) -> set[str]:
    """Strings of a slug's form that stand first in a call or a tuple: where errors are made or chosen.  Tuples of rules
    have slugs of other rules."""
    found: set[str] = set()
    words = (node for node in ast.walk(tree) if isinstance(node, ast.keyword))
    of_rules = {id(word.value) for word in words if word.arg == "yields_to"}
    for node in ast.walk(tree):
        firsts: list[ast.expr] = []
        if isinstance(node, ast.Call) and "Error" in ast.unparse(node.func):
            firsts = node.args[:1]
        elif isinstance(node, ast.Tuple) and len(node.elts) == 2 and id(node) not in of_rules:
            firsts = node.elts[:1]
        slugs = {str(one.value) for one in firsts if isinstance(one, ast.Constant)}
        found |= {slug for slug in slugs if SLUG.fullmatch(slug)}
    return found


def test_every_slug_is_explained() -> None:
    used: set[str] = set()
    for path in (ROOT / "pyio_trace").rglob("*.py"):
        used |= slugs_in(ast.parse(path.read_text()))
    text = (ROOT / "docs" / "reference" / "messages.md").read_text()
    explained = re.findall(r"^## (\S+)$", text, re.MULTILINE)
    assert explained == sorted(explained)
    assert used == set(explained)
