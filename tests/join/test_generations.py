"""Files that had the same inode one after the other are distinguished."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from pyio_trace.join.references.inode_reuse import UNSEEN, generations
from pyio_trace.join.references.names_over_time import Stretches
from pyio_trace.join.sources.opening import open_log
from tests.support.logwriter import LogWriter
from tests.support.programs import Runner, succeeded

A, B, C, D = range(4)
GONE = -1
HARD, SYMBOLIC = 0, 1


def names(changed: list[tuple[int, int, int]], linked: list[tuple[int, int, int, int]]) -> Stretches:
    """What became of the names of four paths."""
    return Stretches(4, np.array(changed, np.int64).reshape(-1, 3), np.array(linked, np.int64).reshape(-1, 4))


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
        ([(A, 20, GONE)], [(A, 15, B, HARD)], (B, 50), 0),  # its other name
        ([(A, 20, GONE)], [(A, 15, B, HARD)], (A, 50), 0),  # the inode is in use, so A was linked to it outside the run
        ([(A, 20, GONE), (B, 30, GONE)], [(A, 15, B, HARD)], (C, 50), 1),  # it has lost both
        ([(A, 20, GONE), (B, 30, GONE)], [(A, 15, B, HARD)], (B, 50), 1),
        ([(B, 20, GONE), (A, 30, GONE)], [(A, 15, B, HARD)], (A, 50), 1),
        ([(A, 20, C), (B, 30, GONE)], [(A, 15, B, HARD)], (D, 50), 0),
        ([(A, 20, C), (B, 30, GONE), (C, 40, GONE)], [(A, 15, B, HARD)], (D, 50), 1),
        ([(B, 20, GONE), (A, 20, B), (B, 30, GONE)], [(A, 15, B, HARD)], (A, 50), 0),  # a rename that did nothing
        ([(A, 30, GONE)], [(A, 5, B, HARD)], (C, 50), 0),  # a link of before it was opened
        ([(A, 20, GONE)], [(B, 5, A, SYMBOLIC)], (B, 50), 0),  # it was opened by a symbolic link
        ([(A, 20, C), (C, 30, GONE)], [(B, 5, A, SYMBOLIC)], (B, 50), 0),
        ([(A, 20, GONE)], [(A, 15, B, SYMBOLIC)], (C, 50), 1),  # its name is gone, however many point to it
        ([(A, 20, GONE)], [], (B, UNSEEN), 0),  # inherited, perhaps from before
    ],
)
def test_two_openings(
    changed: list[tuple[int, int, int]], linked: list[tuple[int, int, int, int]], second: tuple[int, int], expected: int
) -> None:
    # GIVEN an inode opened as A at 10, what became of names, and a second opening of the same inode
    path, ticks = second
    found = generations(
        np.array([1, 1, 2]), np.array([A, path, A]), np.array([10, ticks, 70]), np.zeros(3, np.bool_),
        names(changed, linked),
    )  # fmt: skip
    # THEN it is of another file or it is not; other inodes have nothing to do with it
    assert found.tolist() == [0, expected, 0]


def test_openings_in_any_order() -> None:
    found = generations(
        np.array([7, 7, 7, 7]), np.array([C, A, B, A]), np.array([30, 10, 20, 11]), np.zeros(4, np.bool_),
        names([(B, 25, GONE), (A, 15, GONE)], []),
    )  # fmt: skip
    assert found.tolist() == [2, 0, 1, 0]


def test_nothing_is_opened() -> None:
    empty = np.zeros(0, np.int64)
    assert generations(empty, empty, empty, empty != 0, names([(A, 1, GONE)], [])).tolist() == []


def test_an_opening_that_made_its_file() -> None:
    # GIVEN an inode that was opened three times, the last two with O_EXCL, each with a copy of its descriptor
    found = generations(
        np.array([7, 7, 7, 7, 7, 7]), np.array([A, A, B, B, A, A]), np.array([10, 10, 20, 20, 30, 30]),
        np.array([False, False, True, True, True, True]), names([], []),
    )  # fmt: skip
    # THEN a file begins at each of these, not at the copies
    assert found.tolist() == [0, 0, 1, 1, 2, 2]


def test_files_without_a_name_one_after_the_other(program: Runner, tmp_path: Path) -> None:
    # GIVEN files that never have a name, each with a copy of its descriptor, closed before the next is made; and files
    # that are made anew under a name that another program removed
    text = """\
    import ctypes, os, subprocess, sys, tempfile
    c = ctypes.CDLL(None)
    c.tmpfile.restype = ctypes.c_void_p
    c.fwrite.argtypes = [ctypes.c_char_p, ctypes.c_size_t, ctypes.c_size_t, ctypes.c_void_p]
    c.fclose.argtypes = [ctypes.c_void_p]
    for n in range(1, 6):
        with tempfile.TemporaryFile(dir=".") as file:
            file.write(b"x" * 1000 * n)
            file.flush()
            again = os.dup(file.fileno())
            os.pwrite(again, b"y" * 100 * n, 0)
            os.close(again)
    for n in range(1, 4):
        stream = c.tmpfile()
        c.fwrite(b"z" * 1000 * n, 1000, n, stream)
        c.fclose(stream)
    for n in range(1, 4):
        file = os.open("named", os.O_CREAT | os.O_EXCL | os.O_WRONLY)
        os.write(file, b"w" * n)
        os.close(file)
        subprocess.run([sys.executable, "-c", "import os; os.unlink('named')"], env={}, check=True)
    """
    outcome = succeeded(program.traced(text))
    # WHEN they are looked at THEN each is a file of its own
    written = {}
    for row in outcome.select(op=("write", "pwrite", "fwrite"), layer=("posix", "stdio")):
        if row["bytes_moved"] and (str(tmp_path) in row["path"] or row["op"] == "fwrite"):
            written[row["file"]] = written.get(row["file"], 0) + row["bytes_moved"]
    assert sorted(written.values()) == [1, 2, 3, 1000, 1100, 2000, 2200, 3000, 3300, 4400, 5500]


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


ROTATES = """
import os
for size in (100, 200, 300):
    if os.path.exists("log"):
        if os.path.exists("log.1"): os.rename("log.1", "log.2")
        os.rename("log", "log.1")
    fd = os.open("log", os.O_CREAT | os.O_WRONLY, 0o600); os.write(fd, b"x" * size); os.close(fd)
for name in ("log", "log.1", "log.2"): os.stat(name)
os.unlink("log.2")
os.rename("log", "log.2")
os.link("log.2", "linked")
os.symlink("linked", "pointer")
os.truncate("linked", 1)
os.unlink("log.2")
"""


def test_a_name_that_changes_hands(program: Runner, tmp_path: Path) -> None:
    # GIVEN files of different sizes whose names change hands WHEN they are called by name
    outcome = succeeded(program.traced(ROTATES))
    rows = [row for row in outcome.select(layer="posix") if Path(row["path"] or "/").parent == tmp_path]
    size = {row["file"]: row["bytes_moved"] for row in rows if row["op"] == "write"}
    assert sorted(size.values()) == [100, 200, 300]
    done = [row for row in rows if row["errno"] == 0]
    other = {"linkat": "link"}  # what os.link() calls from Python 3.15 on
    calls = [(other.get(row["op"], row["op"]), Path(row["path"]).name, size.get(row["file"])) for row in done]
    # THEN each call is of the file that had the name then
    last = calls.index(("stat", "log", 300)) + 1 if ("stat", "log", 300) in calls else len(calls)
    assert [call for call in calls if call[0] == "rename"] == [
        ("rename", "log", 100), ("rename", "log.1", 100), ("rename", "log", 200), ("rename", "log", 300),
    ]  # fmt: skip
    assert calls[last:] == [
        ("stat", "log.1", 200), ("stat", "log.2", 100), ("unlink", "log.2", 100), ("rename", "log", 300),
        ("link", "log.2", 300), ("symlink", "pointer", None), ("truncate", "linked", 300), ("unlink", "log.2", 300),
    ]  # fmt: skip
    assert [call for call in calls if call[0] == "stat"][:3] == [
        ("stat", "log", 100),
        ("stat", "log", 200),
        ("stat", "log.1", 100),
    ]


def test_links_that_are_removed(program: Runner, tmp_path: Path) -> None:
    # GIVEN files of different sizes, each with a second name for a while, until both are gone
    text = """\
    import os
    inodes = set()
    for n in range(1, 5):
        with open(f"a{n}", "wb") as file: file.write(b"x" * n)
        inodes.add(os.stat(f"a{n}").st_ino)
        os.link(f"a{n}", f"b{n}")
        os.unlink(f"a{n}")
        with open(f"b{n}", "ab") as file: file.write(b"y" * 10 * n)
        os.unlink(f"b{n}")
    print(len(inodes))
    """
    # WHEN they are made one after the other THEN each is a file of its own, whether or not they had one inode
    outcome = succeeded(program.traced(text))
    written: dict[int, int] = {}
    for row in outcome.select(op="write", layer="posix", path=lambda path: str(path).startswith(str(tmp_path))):
        written[row["file"]] = written.get(row["file"], 0) + row["bytes_moved"]
    assert sorted(written.values()) == [11, 22, 33, 44], (written, outcome.stdout)


def test_a_rename_to_the_same_name_does_nothing(tmp_path: Path) -> None:
    # GIVEN a file that is opened, renamed to its own name, and opened again
    writer = LogWriter()
    thread = writer.thread(writer.process(100), 100)
    path = writer.string("/d/a")
    descs = [writer.desc(fd, path, dev=1, ino=7) for fd in (3, 4)]
    for number, desc in enumerate(descs):
        thread.record("OPEN", begin=2_000 + 100 * number, desc=path, aux=0, offset=desc, result=3 + number)
    thread.record("RENAME", begin=2_050, desc=path, aux=path)
    # WHEN the log is read THEN it is one file
    rows = open_log(writer.save(tmp_path / "run.pyio")).operations(["op", "file"]).to_pylist()
    assert len({row["file"] for row in rows if row["op"] == "open"}) == 1


@pytest.mark.parametrize("renames", [True, False])
def test_a_name_that_another_program_gave_to_another_file(tmp_path: Path, renames: bool) -> None:
    # GIVEN a name that is opened twice and stat()ed after each opening, where the second opening finds another file
    writer = LogWriter()
    thread = writer.thread(writer.process(100), 100)
    path = writer.string("/d/a")
    if renames:  # of other names
        thread.record("RENAME", begin=1_500, desc=writer.string("/d/x"), aux=writer.string("/d/y"))
    for number, inode in enumerate((7, 8)):
        desc = writer.desc(3 + number, path, dev=1, ino=inode)
        thread.record("OPEN", begin=2_000 + 100 * number, desc=path, aux=0, offset=desc, result=3 + number)
        thread.record("STAT", begin=2_050 + 100 * number, desc=path)
    # WHEN the log is read THEN each stat is of the file that was opened just before it
    rows = open_log(writer.save(tmp_path / "run.pyio")).operations(["op", "file"]).to_pylist()
    opened, looked = ([row["file"] for row in rows if row["op"] == op] for op in ("open", "stat"))
    assert opened == looked and opened[0] != opened[1]
