"""Which tests run on which Pythons in CI.

On the oldest everything runs.  On every other one, what is neither `slow` nor
`once` runs; but between the oldest and the newest, `newest` is left out too.
That mark is given here, by file, to what a Python can hardly change: the half
that reads logs, and what the core does to files, limits and other processes.
"""

from __future__ import annotations

import pytest

#: Folders and files, from tests/.
_NEWEST = (
    "analysis/", "cli/", "docs/", "join/", "log/", "report/", "tools/", "fidelity/test_harness.py",
    *(f"capture/test_{name}.py" for name in (
        "blind_spots", "build", "child_endings", "csrc", "descriptors", "doctor", "forged_log", "full", "joining",
        "memory", "one_packer", "packed_files", "places", "privilege", "secrets", "selection", "surface",
    )),
)  # fmt: skip


def mark(item: pytest.Item) -> None:
    """Gives the mark `newest` to a test whose file is listed."""
    if item.nodeid.removeprefix("tests/").startswith(_NEWEST):
        item.add_marker(pytest.mark.newest)
