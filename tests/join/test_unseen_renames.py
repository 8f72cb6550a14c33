"""Renames that no hook saw, which the file system tells."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from pyio_trace.analysis.reducer import scan
from pyio_trace.analysis.reducers.file_counters import FileCounters
from pyio_trace.analysis.summary.summarize import summarize
from pyio_trace.analysis.tables.sums_tables import by_file
from pyio_trace.join.pack.packer import pack
from pyio_trace.join.processes.unseen_renames import find_renames
from pyio_trace.join.sources.opening import open_log
from tests.support.programs import Runner, succeeded


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


#: What Rust's standard library does, and so safetensors: libc's own functions are not asked.
RENAMES = """
import ctypes, os, sys
NUMBER = {"x86_64": (316, ()), "aarch64": (276, ())}[os.uname().machine][0]
syscall = ctypes.CDLL(None, use_errno=True).syscall
for step in range(3):
    with open("tmp", "wb") as file:
        file.write(b"x" * (1000 + step))
    if syscall(NUMBER, -100, b"tmp", -100, f"step{step}".encode(), 0):
        os.rename("tmp", f"step{step}")  # not allowed here
"""


def test_a_temporary_name_of_many_files(program: Runner) -> None:
    # GIVEN files that are written under one name, each of which gets its own by a call that no hook sees
    run = succeeded(program.traced(RENAMES))
    if not run.log.renames():
        pytest.skip("system calls without libc are not allowed here")
    steps = {str(program.folder / f"step{step}"): 1000 + step for step in range(3)}
    pack(run.path, program.folder / "packed.parquet")
    pack(program.folder / "packed.parquet", program.folder / "again.parquet")
    for name in (run.path, "packed.parquet", "again.parquet"):
        log = open_log(program.folder / name)
        # WHEN files are listed THEN each has the name that it got, which is marked by the one it was written under
        files = {row["path"]: row for row in by_file(log).to_pylist()}
        assert {path: files[path]["written"] for path in steps} == steps
        assert {files[path]["renamed_from"] for path in steps} == {str(program.folder / "tmp")}
        assert str(program.folder / "tmp") not in files
        # AND in the summary, in the views of files, and in Darshan's counters
        shown = {one.path: one for one in summarize(log).files}
        assert {path: (shown[path].written, shown[path].renamed_from) for path in steps} == {
            path: (size, str(program.folder / "tmp")) for path, size in steps.items()
        }
        (found,) = scan(log, [FileCounters()])
        counters = found.table.select(["path", "POSIX_BYTES_WRITTEN"]).to_pylist()
        assert {row["path"]: row["POSIX_BYTES_WRITTEN"] for row in counters if row["path"] in steps} == steps


@pytest.mark.parametrize("mode", ["trace", "profile"])
def test_renames_that_were_seen(program: Runner, mode: str) -> None:
    # GIVEN files that are renamed by os.rename WHEN the log is read THEN no rename is missing, also where it was summed
    text = """
    import os
    for step in range(3):
        with open("tmp", "wb") as file:
            file.write(b"x")
        os.rename("tmp", f"step{step}")
    """
    run = succeeded(program.traced(text, env={"PYIO_TRACE_MODE": mode}))
    assert run.log.renames() == [] and "renames_unseen" not in run.log.losses()
