"""A new file replaces nothing but an earlier log of ours, whatever happens to its folder meanwhile."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pyio_trace.errors import LogError
from pyio_trace.join.pack.end_of_run import EndedLog, Identity, finish_log
from pyio_trace.join.pack.new_file import Folder, NewFile
from pyio_trace.join.pack.packer import pack
from pyio_trace.join.sources.opening import open_log
from tests.support.logwriter import LogWriter

ROOT = Path(__file__).resolve().parents[2]


def placed(folder: Path, name: str = "a.parquet", **how: object) -> str:
    """The name that a file with one byte in it gets."""
    with NewFile(Folder(str(folder))) as new:
        new.file.write(b"x")
        return new.place(name, **how)  # type: ignore[arg-type]


def listed(folder: Path) -> list[str]:
    return sorted(os.listdir(folder))


def no_links(monkeypatch: pytest.MonkeyPatch, number: int = errno.EPERM) -> None:
    """As on FAT and on many FUSE file systems."""

    def refuse(*_: object, **__: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "link", refuse)


def no_renameat2(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(NewFile, "_rename", lambda *_: False)


def no_nameless(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on NFS."""
    usual = os.open

    def refuse(path: str, flags: int, *more: Any, **options: Any) -> int:
        if flags & os.O_TMPFILE == os.O_TMPFILE:
            raise OSError(errno.EOPNOTSUPP, os.strerror(errno.EOPNOTSUPP))
        return usual(path, flags, *more, **options)

    monkeypatch.setattr(os, "open", refuse)


#: What a file system can do -> how to make this one as poor.
POWERS = {
    "all": lambda monkeypatch: None,
    "no links": no_links,
    "no links, no renameat2": lambda monkeypatch: (no_links(monkeypatch), no_renameat2(monkeypatch)),
    "no renameat2": no_renameat2,
    "no nameless files": no_nameless,
    "no nameless files, no links": lambda monkeypatch: (no_nameless(monkeypatch), no_links(monkeypatch)),
}


@pytest.mark.parametrize("powers", POWERS)
def test_a_free_name(tmp_path: Path, powers: str, monkeypatch: pytest.MonkeyPatch) -> None:
    POWERS[powers](monkeypatch)
    assert placed(tmp_path) == "a.parquet"
    assert (tmp_path / "a.parquet").read_bytes() == b"x" and listed(tmp_path) == ["a.parquet"]


def test_nothing_is_left_of_a_writer_that_is_killed(tmp_path: Path) -> None:
    # GIVEN a process that writes a file WHEN it is killed
    text = f"""\
import os, signal
from pyio_trace.join.pack.new_file import Folder, NewFile
with NewFile(Folder({str(tmp_path)!r})) as new:
    new.file.write(bytes(1 << 20))
    os.kill(os.getpid(), signal.SIGKILL)
"""
    assert subprocess.run([sys.executable, "-c", text], cwd=ROOT).returncode == -9
    # THEN nothing of it is left
    assert listed(tmp_path) == []


@pytest.mark.parametrize("powers", POWERS)
def test_names_that_are_taken_stay(tmp_path: Path, powers: str, monkeypatch: pytest.MonkeyPatch) -> None:
    # GIVEN somebody's data, a link to it, a link to nothing, a folder, a FIFO
    (tmp_path / "data.parquet").write_bytes(b"mine")
    (tmp_path / "link.parquet").symlink_to("data.parquet")
    (tmp_path / "dangling.parquet").symlink_to("nothing")
    (tmp_path / "folder.parquet").mkdir()
    os.mkfifo(tmp_path / "pipe.parquet")
    before = {name: os.lstat(tmp_path / name) for name in listed(tmp_path)}
    POWERS[powers](monkeypatch)
    # WHEN a log is placed under a name that is taken THEN it gets another name and the old file is unchanged
    for name in before:
        assert placed(tmp_path, name) == name.replace(".", "-2.")
        with pytest.raises(LogError) as caught:
            placed(tmp_path, name, beside=False)
        assert caught.value.slug == "log-exists"
        (tmp_path / name.replace(".", "-2.")).unlink()
    assert listed(tmp_path) == sorted(before)
    assert all(os.lstat(tmp_path / name).st_ino == status.st_ino for name, status in before.items())
    assert (tmp_path / "data.parquet").read_bytes() == b"mine"


def test_the_next_number_that_is_free(tmp_path: Path) -> None:
    for name in ("a.parquet", "a-2.parquet", "a-3.parquet"):
        (tmp_path / name).write_bytes(b"mine")
    assert placed(tmp_path) == "a-4.parquet"


@pytest.mark.parametrize("powers", POWERS)
@pytest.mark.parametrize("kind", ["live", "packed", "empty"])
def test_an_earlier_log_is_replaced(tmp_path: Path, kind: str, powers: str, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.parquet"
    path.touch() if kind == "empty" else LogWriter().save(path)
    if kind == "packed":
        os.rename(path, tmp_path / "live")
        pack(tmp_path / "live", path)
        os.unlink(tmp_path / "live")
    POWERS[powers](monkeypatch)
    # one that is as new as the run is none
    assert placed(tmp_path, before=path.stat().st_ctime_ns) == "a-2.parquet"
    # an earlier one is
    assert placed(tmp_path, before=path.stat().st_ctime_ns + 1) == "a.parquet"
    assert path.read_bytes() == b"x" and listed(tmp_path) == ["a-2.parquet", "a.parquet"]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file to another user")
def test_a_log_of_another_user_stays(tmp_path: Path) -> None:
    path = LogWriter().save(tmp_path / "a.parquet")
    os.chown(path, 65534, 65534)
    assert placed(tmp_path) == "a-2.parquet"


def test_a_parquet_file_with_a_column_of_our_name_is_no_log(tmp_path: Path) -> None:
    pq.write_table(pa.table({"pyio_trace": [1]}), tmp_path / "a.parquet")
    with pytest.raises(LogError) as caught:
        pack(LogWriter().save(tmp_path / "run.pyio"), tmp_path / "a.parquet")
    assert caught.value.slug == "log-exists"
    assert pq.read_table(tmp_path / "a.parquet").column_names == ["pyio_trace"]


@pytest.mark.parametrize("powers", ["all", "no renameat2"])
def test_a_file_that_comes_in_the_last_moment(tmp_path: Path, powers: str, monkeypatch: pytest.MonkeyPatch) -> None:
    # GIVEN an earlier log that somebody exchanges for data after it was checked
    LogWriter().save(tmp_path / "a.parquet")
    look = NewFile._earlier_log

    def looked(self: NewFile, name: str, before: int | None) -> tuple[int, int] | None:
        found = look(self, name, before)
        (tmp_path / "other").write_bytes(b"mine")
        os.replace(tmp_path / "other", tmp_path / name)
        return found

    monkeypatch.setattr(NewFile, "_earlier_log", looked)
    POWERS[powers](monkeypatch)
    # WHEN the file is to take its place THEN the data are there afterwards
    assert placed(tmp_path) == "a-2.parquet"
    assert (tmp_path / "a.parquet").read_bytes() == b"mine" and listed(tmp_path) == ["a-2.parquet", "a.parquet"]


def test_the_folder_is_the_one_that_was_opened(tmp_path: Path) -> None:
    # GIVEN a file in the making, whose folder's name becomes a link to another folder
    (tmp_path / "here").mkdir()
    (tmp_path / "victim").mkdir()
    with NewFile(Folder(str(tmp_path / "here"))) as new:
        os.rename(tmp_path / "here", tmp_path / "moved")
        (tmp_path / "here").symlink_to("victim")
        # WHEN it gets its name THEN it is where it was begun
        new.place("a.parquet")
    assert listed(tmp_path / "moved") == ["a.parquet"] and listed(tmp_path / "victim") == []


def test_nobody_else_may_read_it_meanwhile_and_nothing_is_left_of_a_failure(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        with pytest.raises(ValueError, match="no"), NewFile(Folder(str(tmp_path))) as new:
            (name,) = listed(tmp_path)
            assert os.stat(tmp_path / name).st_mode & 0o777 == 0o600
            assert os.fstat(new.file.fileno()).st_mode & 0o777 == 0o600
            raise ValueError("no")
    finally:
        os.umask(before)
    assert listed(tmp_path) == []


@pytest.mark.parametrize("mask", [0, 0o777])
def test_its_mode_is_the_one_asked_for(tmp_path: Path, mask: int) -> None:
    before = os.umask(mask)
    try:
        for mode in (0o600, 0o640, 0o644):
            with NewFile(Folder(str(tmp_path)), mode) as new:
                name = new.place("a.parquet")
            assert os.stat(tmp_path / name).st_mode & 0o777 == mode
    finally:
        os.umask(before)


def test_two_runs_that_end_at_once(tmp_path: Path) -> None:
    # GIVEN two logs of runs that went on at the same time, and are to get the same name
    code = "import sys; input(); from pyio_trace.cli.main import main; main(sys.argv[1:])"
    enders = []
    for run in (1, 2):
        writer = LogWriter(real=time.time_ns())
        writer.header["run_id"] = run
        log = writer.save(tmp_path / f"run{run}.pyio")
        words = [sys.executable, "-c", code, "finish", str(log), "--final", str(tmp_path / "a.parquet"), "--quiet"]
        enders.append(subprocess.Popen(words, stdin=subprocess.PIPE, env={**os.environ, "PYTHONPATH": str(ROOT)}))
    # WHEN they end at once THEN both are there
    for ender in enders:
        assert ender.stdin is not None
        ender.stdin.write(b"\n")
        ender.stdin.close()
    assert [ender.wait(100) for ender in enders] == [0, 0]
    assert listed(tmp_path) == ["a-2.parquet", "a.parquet"]
    assert len({open_log(tmp_path / name).info()["run"] for name in listed(tmp_path)}) == 2


@pytest.mark.parametrize("name", ["run.parquet", "kept.pyio"])
def test_a_log_goes_when_it_is_finished(tmp_path: Path, name: str) -> None:
    path = LogWriter().save(tmp_path / "run.pyio")
    whole, status = path.read_bytes(), path.stat()
    result = finish_log(
        EndedLog(str(path), Identity(status.st_dev, status.st_ino, 0x1234)), str(tmp_path / name), 0o640
    )
    assert listed(tmp_path) == [name] and result.removed and result.path == str(tmp_path / name)
    assert (tmp_path / name).stat().st_mode & 0o777 == 0o640
    assert name.endswith(".parquet") or (tmp_path / name).read_bytes() == whole


def test_a_log_that_is_another_by_then_is_not_removed(tmp_path: Path) -> None:
    path = LogWriter().save(tmp_path / "run.pyio")
    live = EndedLog(str(path), None)
    os.rename(path, tmp_path / "moved")
    path.write_bytes(b"mine")
    result = finish_log(live, str(tmp_path / "run.parquet"), 0o600)
    assert not result.removed and path.read_bytes() == b"mine"
    assert open_log(tmp_path / "run.parquet").info()["run"] == open_log(tmp_path / "moved").info()["run"]


@pytest.mark.parametrize("wrong", ["device", "inode", "run"])
def test_another_file_is_not_the_runs_log(tmp_path: Path, wrong: str) -> None:
    path = LogWriter().save(tmp_path / "run.pyio")
    status = path.stat()
    right = Identity(status.st_dev, status.st_ino, 0x1234)
    EndedLog(str(path), right)
    with pytest.raises(LogError) as caught:
        EndedLog(str(path), right._replace(**{wrong: 7}))
    assert caught.value.slug == "log-lost" and "is not this run's any more" in str(caught.value)
