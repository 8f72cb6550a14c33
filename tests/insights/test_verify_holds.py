"""`insights --verify` holds what it tries and its scratch folder, so that nobody can put something in their place."""

from __future__ import annotations

import os
import resource
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pyio_trace.insights.trials.originals import Originals
from pyio_trace.insights.trials.replay import NotTried
from pyio_trace.insights.trials.scratch import Scratch
from tests.insights.test_verify_safety import left, make_fifo, make_link

pytestmark = pytest.mark.once


@pytest.mark.parametrize("become", [make_fifo, make_link, lambda path: path.symlink_to("/dev/zero"), Path.mkdir])
def test_a_file_is_held(tmp_path: Path, become: Any) -> None:
    # GIVEN a file that is tried WHEN its folder is swapped for one where something else has its name
    path = tmp_path / "in" / "data"
    path.parent.mkdir()
    path.write_bytes(b"data")
    files = Originals(0)
    opened = files.open(str(path))
    path.parent.rename(tmp_path / "was")
    path.parent.mkdir()
    become(path)
    # THEN the file is opened again, and the other is not
    again = [files.again(str(path)), files.open_anew(str(path))]
    assert [os.pread(one, 9, 0) for one in (opened, *again)] == [b"data"] * 3
    for one in again:
        os.close(one)
    with pytest.raises(NotTried):
        Originals(0).open(str(path))
    files.close()


def test_a_folder_is_held(tmp_path: Path) -> None:
    (tmp_path / "in" / "name").mkdir(parents=True)
    files = Originals(0)
    files.hold(str(tmp_path / "in"), folder=True)
    (tmp_path / "in").rename(tmp_path / "was")
    make_fifo(tmp_path / "in")
    assert files.listed(str(tmp_path / "in")) == ["name"]
    files.close()


def test_more_files_than_descriptors(tmp_path: Path) -> None:
    # GIVEN a limit of descriptors WHEN more files are held than it allows THEN it is raised, and put back
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    files = Originals(0)
    resource.setrlimit(resource.RLIMIT_NOFILE, (400, limits[1]))
    try:
        files = Originals(0)
        for number in range(500):
            (tmp_path / str(number)).write_bytes(b"x")
            os.close(files.open_anew(str(tmp_path / str(number))))
        files.close()
        assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] == 400
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder away")
def test_no_scratch_below_another_users_folder(tmp_path: Path) -> None:
    # GIVEN a folder of root's in one of another user, who may rename it WHEN a scratch folder is wanted there
    (tmp_path / "theirs" / "roots").mkdir(parents=True)
    os.chown(tmp_path / "theirs", 65534, 65534)
    with Scratch(str(tmp_path / "theirs" / "roots" / "file")):
        # THEN it is made above
        (made,) = left(tmp_path)
        assert made.parent == tmp_path


def swapping(monkeypatch: pytest.MonkeyPatch, swap: Callable[[str, int], object]) -> None:
    """Lets somebody act each time a folder has been made."""
    mkdir = os.mkdir

    def made(name: str, mode: int = 0o777, dir_fd: int | None = None) -> None:
        mkdir(name, mode, dir_fd=dir_fd)
        if dir_fd is not None:
            swap(name, dir_fd)

    monkeypatch.setattr("pyio_trace.insights.trials.scratch.os.mkdir", made)


def test_a_folder_that_is_swapped_while_scratch_is_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # GIVEN somebody who swaps the folder for one that has a folder of the scratch folder's name, with files in it
    sub = tmp_path / "sub"
    sub.mkdir()

    def swap(name: str, _: int) -> None:
        sub.rename(tmp_path / "was")
        (sub / name).mkdir(parents=True, mode=0o700)
        (sub / name / "precious").write_text("x")

    swapping(monkeypatch, swap)
    # WHEN a trial makes, empties and removes its folder
    with Scratch(str(sub / "file")) as scratch:
        os.close(scratch.create("own"))
        scratch.clear()
    # THEN it was the one that it made
    assert [path.read_text() for path in sub.rglob("precious")] == ["x"] and not list((tmp_path / "was").iterdir())


def test_scratch_that_is_not_empty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # GIVEN a folder that has something in it as soon as it is made WHEN it is to be scratch THEN nothing is removed
    swapping(monkeypatch, lambda name, _: (tmp_path / name / "precious").write_text("x"))
    monkeypatch.setattr("pyio_trace.insights.trials.scratch._folders", lambda _: [str(tmp_path)])
    with pytest.raises(NotTried):
        Scratch(str(tmp_path / "file"))
    assert list(tmp_path.rglob("precious"))
