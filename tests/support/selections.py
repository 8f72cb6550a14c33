"""Which tests are run: `pytest --quick` before each commit, and `pytest --this-python` on each Python that CI has.

CI runs every function on the oldest Python, each with a share of its parameters
that the commit draws (`pytest --drawn`), and on the others nothing that is `slow`
or `once`, and one test of each function.  Of what a Python can hardly change the
newest runs one test of each file, and those between run none.
"""

from __future__ import annotations

import importlib
import sys
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest

OLDEST, NEWEST = (3, 11), (3, 15)
#: A text draws one in so many sets of parameters, and at least one of each function.
SHARE = 4
#: What a Python can hardly change: the half that reads logs, and what the core does to files, limits and other
#: processes.  Folders and files, from tests/.
_HARDLY = (
    "analysis/", "cli/", "docs/", "export/", "insights/", "join/", "log/", "notebook/", "page/", "pictures/", "report/",
    "tools/",
    "fidelity/test_harness.py",
    *(f"capture/test_{name}.py" for name in (
        "blind_spots", "build", "child_endings", "csrc", "descriptors", "doctor", "forged_log", "full", "joining",
        "mapped_writers", "memory", "one_packer", "packed_files", "places", "places_of_appends", "privilege",
        "secret_forms", "secrets", "selection", "sums_of_files", "surface", "unseen_code",
    )),
)  # fmt: skip


def quick(items: list[pytest.Item]) -> list[pytest.Item]:
    """One set of parameters of each function that is neither slow nor once: some two minutes in all."""
    return _one_of_each([item for item in items if not _marked(item)], _function)


def of_python(items: list[pytest.Item], version: tuple[int, int] = sys.version_info[:2]) -> list[pytest.Item]:
    """What CI runs on this Python."""
    if version <= OLDEST:
        return items
    rest = [item for item in items if not _marked(item)]
    hardly = _one_of_each([item for item in rest if _hardly(item.nodeid)], _file) if version >= NEWEST else []
    others = _one_of_each([item for item in rest if not _hardly(item.nodeid)], _function)
    chosen = {*hardly, *others}
    return [item for item in rest if item in chosen]


def drawn(items: list[pytest.Item], text: str) -> list[pytest.Item]:
    """The share of each function's sets of parameters that a text draws: the same for the same text."""
    places = {item: zlib.crc32(f"{text} {item.nodeid}".encode()) for item in items}
    first: dict[str, pytest.Item] = {}
    for item in sorted(items, key=lambda item: (places[item] % SHARE, places[item])):
        first.setdefault(_function(item), item)
    return [item for item in items if places[item] % SHARE == 0 or first[_function(item)] is item]


def none_in(
    file: Path, config: pytest.Config, this_python: bool, version: tuple[int, int] = sys.version_info[:2]
) -> bool:
    """Whether no test of this file will be chosen, which is known before the file is imported.

    this_python: of_python() will choose.
    """
    mark = config.option.markexpr
    if mark.isidentifier() and mark not in file.read_text():
        return True  # a mark stands in the file, or in the name of what sets it
    between = this_python and OLDEST < version < NEWEST
    return between and file.is_relative_to(config.rootpath) and _hardly(file.relative_to(config.rootpath).as_posix())


def import_share(config: pytest.Config, number: int, workers: int) -> None:
    """Imports every n-th file of tests, as one of that many workers of pytest-xdist, before all files are collected.

    In a fresh clone, pytest rewrites the assertions of each file that is imported, and keeps
    the result on disk.  Workers that go through the files in the same order would all do the same work.
    """
    hook = config.hook.pytest_ignore_collect
    files = [file for file in sorted(config.rootpath.glob("tests/**/test_*.py"))
             if not hook(collection_path=file, config=config)]  # fmt: skip
    for file in files[number::workers]:
        try:
            importlib.import_module(".".join(file.relative_to(config.rootpath).with_suffix("").parts))
        except (Exception, pytest.skip.Exception):
            pass  # collecting it tells


def long_first(items: list[pytest.Item]) -> list[pytest.Item]:
    """Files with long searches first, then files with slow tests, so that no long file is left for the end."""
    soak, slow = ({item.path for item in items if item.get_closest_marker(name)} for name in ("soak", "slow"))
    return sorted(items, key=lambda item: (item.path not in soak, item.path not in slow))


def _hardly(test: str) -> bool:
    return test.removeprefix("tests/").startswith(_HARDLY)


def _marked(item: pytest.Item) -> bool:
    return any(item.get_closest_marker(name) for name in ("slow", "once"))


def _one_of_each(items: list[pytest.Item], name: Callable[[pytest.Item], str]) -> list[pytest.Item]:
    first: dict[str, pytest.Item] = {}
    for item in items:
        first.setdefault(name(item), item)
    return list(first.values())


def _function(item: pytest.Item) -> str:
    return item.nodeid.partition("[")[0]


def _file(item: pytest.Item) -> str:
    return item.nodeid.partition("::")[0]
