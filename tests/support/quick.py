"""`pytest --quick`: what one runs before each commit, in some two minutes.

What is neither `slow` nor `once`; of a test with parameters, the first set of
them alone.  CI runs everything.
"""

from __future__ import annotations

import pytest


def choose(items: list[pytest.Item]) -> tuple[list[pytest.Item], list[pytest.Item]]:
    """Those that are run and those that are left out, each in their order."""
    chosen: list[pytest.Item] = []
    rest: list[pytest.Item] = []
    seen = set()
    for item in items:
        function = item.nodeid.partition("[")[0]
        left_out = function in seen or any(item.get_closest_marker(name) for name in ("slow", "once"))
        (rest if left_out else chosen).append(item)
        if not left_out:
            seen.add(function)
    return chosen, rest
