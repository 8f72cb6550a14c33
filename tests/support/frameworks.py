"""Tests that need PyTorch, Ray or uvloop: tox's environment `frameworks` has these, and runs what is marked so.

``pytest.mark.frameworks(name)`` skips a test where the framework is missing;
without a name, the test itself does.  A test that is skipped for want of one,
and has no mark, would run nowhere: it fails.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from importlib.util import find_spec
from typing import Any

import pytest

NAMES = ("torch", "ray", "uvloop")
_NAMED = re.compile(rf"\b({'|'.join(NAMES)})\b", re.I)


def param(value: Any, needed: Iterable[str]) -> Any:
    """A parameter whose test needs some modules."""
    return pytest.param(value, marks=[pytest.mark.frameworks(name) for name in NAMES if name in needed])


def chosen(value: Any, needed: Iterable[str], *marks: pytest.MarkDecorator) -> Any:
    """The same for a test that does without what is missing.  marks: further ones."""
    return pytest.param(value, marks=[*marks, *([pytest.mark.frameworks] if set(NAMES) & set(needed) else [])])


#: For tests of event loops.
LOOPS = [param(name, [name]) for name in ("asyncio", "uvloop")]


def missing(item: pytest.Item) -> str | None:
    """Why a test cannot run here; None: it can."""
    names = [name for mark in item.iter_markers("frameworks") for name in mark.args if find_spec(name) is None]
    return f"{names[0]} is not installed" if names else None


def check_skipped(item: pytest.Item, report: pytest.TestReport) -> None:
    """Makes a test fail that was skipped for want of a framework, and has no mark."""
    if report.skipped and isinstance(report.longrepr, tuple) and item.get_closest_marker("frameworks") is None:
        reason = report.longrepr[2]
        if _NAMED.search(reason):
            report.outcome = "failed"
            report.longrepr = f"{reason}: mark it with pytest.mark.frameworks, or it runs nowhere"
