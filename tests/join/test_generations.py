"""Files that had the same inode one after the other are distinguished."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from pyio_trace.join.references.inode_reuse import UNSEEN, generations
from tests.support.programs import Runner, succeeded

A, B, C, D = range(4)
GONE = -1


@pytest.mark.parametrize(
    ("changed", "linked", "second", "expected"),
    [
        ([], [], (B, 50), 0),  # another name of it
        ([(A, 20, GONE)], [], (B, 50), 1),
        ([(A, 20, GONE)], [], (A, 50), 1),  # made again
        ([(A, 60, GONE)], [], (B, 50), 0),  # removed afterwards
        ([(A, 5, GONE)], [], (B, 50), 0),  # what had the name before
        ([(C, 20, GONE)], [], (B, 50), 0),
        ([(A, 20, B)], [], (B, 50), 0),  # renamed
        ([(A, 20, B), (A, 30, GONE)], [], (B, 50), 0),  # another one of its old name was removed
        ([(A, 20, B), (B, 30, GONE)], [], (C, 50), 1),
        ([(A, 20, B), (B, 20, GONE)], [], (B, 50), 0),  # what had the new name is gone, not it
        ([(A, 20, B), (B, 30, C), (C, 40, GONE)], [], (D, 50), 1),
        ([(A, 20, GONE)], [A, B], (B, 50), 0),  # a link: B may be it
        ([(A, 20, GONE)], [], (B, UNSEEN), 0),  # inherited, perhaps from before
    ],
)
def test_two_openings(
    changed: list[tuple[int, int, int]], linked: list[int], second: tuple[int, int], expected: int
) -> None:
    # GIVEN an inode opened as A at 10, what became of names, and a second opening of the same inode
    path, ticks = second
    found = generations(
        np.array([1, 1, 2]), np.array([A, path, A]), np.array([10, ticks, 70]),
        np.array(changed, np.int64).reshape(-1, 3), np.array(linked, np.int64),
    )  # fmt: skip
    # THEN it is of another file or it is not; other inodes have nothing to do with it
    assert found.tolist() == [0, expected, 0]


def test_openings_in_any_order() -> None:
    found = generations(
        np.array([7, 7, 7, 7]), np.array([C, A, B, A]), np.array([30, 10, 20, 11]),
        np.array([[B, 25, GONE], [A, 15, GONE]]), np.zeros(0, np.int64),
    )  # fmt: skip
    assert found.tolist() == [2, 0, 1, 0]


def test_nothing_is_opened() -> None:
    empty = np.zeros(0, np.int64)
    assert generations(empty, empty, empty, np.array([[A, 1, GONE]]), empty).tolist() == []


def test_temporary_files_one_after_the_other(program: Runner, tmp_path: Path) -> None:
    # GIVEN files that are removed before the next is made, many with the same inode, and one that stays
    text = """\
    import os
    stays, inodes = open("stays", "wb"), set()
    for n in range(100):
        stays.write(b"x"); stays.flush()
        with open(f"new{n}", "wb") as file: file.write(b"y" * n)
        os.rename(f"new{n}", f"file{n}")
        inodes.add(os.stat(f"file{n}").st_ino)
        with open(f"file{n}", "rb") as file: file.read()
        os.remove(f"file{n}")
    print(len(inodes))
    """
    outcome = succeeded(program.traced(text))
    # WHEN they are looked at THEN each is a file of its own, under both its names
    files = [
        {row["file"] for name in (f"new{n}", f"file{n}") for row in outcome.select(path=tmp_path / name, layer="posix")}
        for n in range(100)
    ]
    assert [len(file) for file in files] == [1] * 100
    assert len(set.union(*files)) == 100
    assert len({row["file"] for row in outcome.select(path=tmp_path / "stays")}) == 1
    assert int(outcome.stdout) <= 100
