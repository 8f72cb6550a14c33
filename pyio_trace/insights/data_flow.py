"""Where a program uses what one of its lines has read, by the names in its source."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterable, Iterator
from functools import lru_cache

from pyio_trace.insights.source_files import content

_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
#: Scopes of a source file that are looked at.
_MOST = 10_000


def uses(path: str, line: int) -> frozenset[int]:
    """The lines of the same function that use a name which a line binds: ``for text in f``, ``data = f.read()``.

    Only names that no other statement of the function binds.  Empty if the source cannot be read.
    """
    return _uses(path).get(line, frozenset())


@lru_cache(maxsize=64)
def _uses(path: str) -> dict[int, frozenset[int]]:
    """By line: the lines that use what it binds."""
    try:
        tree = ast.parse(content(path))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return {}
    found: dict[int, set[int]] = defaultdict(set)
    scopes: list[ast.AST] = [tree]
    for scope in scopes:
        scopes += _scopes_in(scope)[: max(_MOST - len(scopes), 0)]
        bound: dict[str, list[ast.stmt]] = defaultdict(list)
        used: dict[str, set[int]] = defaultdict(set)
        for statement in _statements(scope):
            for name in _names(statement):
                if isinstance(name.ctx, ast.Store):
                    bound[name.id].append(statement)
                else:
                    used[name.id] |= {name.lineno, statement.lineno}
        for word, statements in bound.items():
            if len(statements) == 1:
                for line in range(statements[0].lineno, _last(statements[0]) + 1):
                    found[line] |= used[word]
    return {line: frozenset(lines - {line}) for line, lines in found.items()}


def _scopes_in(scope: ast.AST) -> list[ast.AST]:
    """The functions and classes that a scope has, without those in them."""
    return [one for one in _statements(scope) if isinstance(one, _SCOPES)]


def _statements(scope: ast.AST) -> Iterator[ast.stmt]:
    """The statements of a scope, without those of scopes in it."""
    waiting = list(ast.iter_child_nodes(scope))
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.stmt):
            yield node
        if isinstance(node, (ast.stmt, ast.ExceptHandler, ast.match_case)) and not isinstance(node, _SCOPES):
            waiting += ast.iter_child_nodes(node)


def _names(statement: ast.stmt) -> Iterator[ast.Name]:
    """The names in a statement, without those of the statements in it."""
    waiting: list[ast.AST] = [] if isinstance(statement, _SCOPES) else [statement]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.Name):
            yield node
        waiting += (
            one for one in ast.iter_child_nodes(node)
            if not isinstance(one, (ast.stmt, ast.ExceptHandler, ast.match_case))
        )  # fmt: skip


def _last(statement: ast.stmt) -> int:
    """The last line of a statement, without those of the statements in it."""
    ends = (getattr(one, "end_lineno", None) for one in _expressions(ast.iter_child_nodes(statement)))
    return max((end for end in ends if end is not None), default=statement.lineno)


def _expressions(nodes: Iterable[ast.AST]) -> Iterator[ast.AST]:
    return (one for one in nodes if isinstance(one, (ast.expr, ast.withitem)))
