"""Renames that no hook saw, which the file system tells."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from pyio_trace.join.processes.unseen_renames import find_renames


def written(name: str, inode_of: Path) -> Any:
    """The files of a log in which one was written under a name, with the inode of another one."""
    found = inode_of.stat()
    columns = (np.array([value]) for value in (1, found.st_dev, found.st_ino, 0))
    return SimpleNamespace(written=tuple(columns), paths=SimpleNamespace(texts=[name]), changed=set())


@pytest.mark.parametrize(("name", "renamed"), [("tmp1", True), ("#7 (deleted)", False)])
def test_a_file_without_a_name_is_not_renamed(tmp_path: Path, name: str, renamed: bool) -> None:
    # GIVEN a file that was written under a name that is gone, and another one in its folder that has its inode
    (tmp_path / "model.pt").touch()
    # WHEN renames are looked for THEN that is one, unless the file had no name: its inode was free soon
    found = find_renames(written(f"{tmp_path}/{name}", tmp_path / "model.pt"), 0)
    assert [one["to"] for one in found] == [f"{tmp_path}/model.pt"] * renamed


def test_a_file_that_was_not_written_during_the_run_is_another_one(tmp_path: Path) -> None:
    # GIVEN a file that has the inode of one written earlier under a name that no longer exists
    (tmp_path / "model.pt").touch()
    changed = (tmp_path / "model.pt").stat().st_mtime_ns
    files = written(f"{tmp_path}/tmp1", tmp_path / "model.pt")
    # WHEN renames are looked for THEN it is taken for that file only if it was changed after the run began
    assert [len(find_renames(files, since)) for since in (changed, changed + 1)] == [1, 0]
