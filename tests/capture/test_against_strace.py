"""What we see of a program is what strace sees of it: calls, sizes, results and errors, in order, in each thread."""

from __future__ import annotations

import shutil
import sys
from collections import Counter
from itertools import zip_longest
from pathlib import Path

import pytest

from tests.support import strace
from tests.support.programs import Runner, succeeded

SCRIPTS = {
    "shutil": """\
        import os, pathlib, shutil
        tree = pathlib.Path("tree")
        (tree / "deep" / "er").mkdir(parents=True)
        for n in range(5):
            (tree / f"f{n}").write_bytes(b"x" * (n * 3000))
            (tree / "deep" / f"g{n}").write_text("y" * n)
        os.symlink("f1", tree / "link")
        shutil.copytree(tree, "copy", symlinks=True)
        shutil.copy2("tree/f4", "one")
        shutil.move("one", "two")
        shutil.make_archive("packed", "tar", "tree")
        shutil.unpack_archive("packed.tar", "unpacked")
        shutil.rmtree("copy")
        shutil.rmtree("missing", ignore_errors=True)
        """,
    "tempfile": """\
        import os, tempfile
        with tempfile.NamedTemporaryFile(dir=".") as file:
            file.write(b"x" * 20000)
            file.seek(5)
            file.read(10)
        with tempfile.TemporaryDirectory(dir=".") as folder:
            with open(os.path.join(folder, "inside"), "w+") as file:
                file.write("text")
        fd, name = tempfile.mkstemp(dir=".")
        os.write(fd, b"abc")
        os.fsync(fd)
        os.close(fd)
        os.remove(name)
        with tempfile.SpooledTemporaryFile(max_size=10, dir=".") as file:
            file.write(b"x" * 100)
        """,
    "zipfile": """\
        import zipfile
        open("text", "w").write("line\\n" * 5000)
        with zipfile.ZipFile("a.zip", "w", zipfile.ZIP_DEFLATED) as pack:
            pack.write("text")
            pack.writestr("made", b"x" * 70000)
        with zipfile.ZipFile("a.zip", "a") as pack:
            pack.writestr("more", "y")
        with zipfile.ZipFile("a.zip") as pack:
            pack.testzip()
            pack.extractall("out")
        zipfile.is_zipfile("text")
        """,
    "tarfile and gzip": """\
        import gzip, io, tarfile
        with gzip.open("a.gz", "wt") as file:
            for n in range(1000):
                print(n, file=file)
        with gzip.open("a.gz", "rt") as file:
            assert sum(map(int, file)) == 499500
        with tarfile.open("a.tar", "w") as pack:
            pack.add("a.gz")
            info = tarfile.TarInfo("made")
            info.size = 5
            pack.addfile(info, io.BytesIO(b"bytes"))
        with tarfile.open("a.tar") as pack:
            pack.extractall("out")
        """,
    "pathlib": """\
        import pathlib
        here = pathlib.Path(".")
        (here / "a").mkdir()
        (here / "a" / "file").touch()
        (here / "a" / "file").touch()
        (here / "a" / "other").write_text("x")
        (here / "a" / "file").replace("b")
        (here / "c").symlink_to("b")
        (here / "d").hardlink_to("b")
        for path in (here / "b", here / "c", here / "missing", here / "a"):
            path.exists(), path.is_file(), path.is_symlink(), path.resolve()
        (here / "c").readlink()
        (here / "b").chmod(0o600)
        (here / "c").lstat()
        list(here.rglob("*"))
        (here / "a" / "other").unlink()
        (here / "a" / "other").unlink(missing_ok=True)
        (here / "a").rmdir()
        try:
            (here / "b").rmdir()
        except OSError:
            pass
        """,
    "sqlite3": """\
        import sqlite3
        base = sqlite3.connect("base.db")
        base.execute("create table t (n integer primary key, text)")
        with base:
            base.executemany("insert into t (text) values (?)", [("x" * n,) for n in range(2000)])
        with base:
            base.execute("update t set text = 'y' where n % 7 = 0")
        assert base.execute("select count(*) from t").fetchone() == (2000,)
        base.execute("vacuum")
        base.close()
        """,
    "walks": """\
        import os
        for n in range(4):
            os.makedirs(f"tree/{n}/below")
            for m in range(30):
                open(f"tree/{n}/{m}", "w").close()
        for folder, names, files in os.walk("tree"):
            for name in files:
                os.stat(os.path.join(folder, name))
        with os.scandir("tree/0") as entries:
            for entry in entries:
                entry.is_dir(), entry.stat(), entry.inode()
        os.listdir("tree")
        here = os.open("tree", os.O_RDONLY)
        os.listdir(here)
        os.stat("0", dir_fd=here)
        os.rename("0", "zero", src_dir_fd=here, dst_dir_fd=here)
        os.mkdir("new", dir_fd=here)
        os.rmdir("new", dir_fd=here)
        os.unlink("1/3", dir_fd=here)
        os.access("1", os.R_OK, dir_fd=here)
        for folder, names, files, fd in os.fwalk("tree"):
            pass
        os.close(here)
        try:
            os.listdir("tree/1/1")
        except NotADirectoryError:
            pass
        """,
    "copies": """\
        import os
        with open("from", "wb") as file:
            file.write(b"x" * 300000)
        a, b = os.open("from", os.O_RDONLY), os.open("to", os.O_CREAT | os.O_RDWR)
        os.copy_file_range(a, b, 100000)
        os.copy_file_range(a, b, 1000, 5, 7)
        os.sendfile(b, a, 10, 5000)
        os.lseek(a, 0, os.SEEK_END)
        os.copy_file_range(a, b, 100)
        os.preadv(a, [bytearray(10), bytearray(20)], 40)
        os.pwritev(b, [b"1", b"23"], 99)
        os.readv(a, [bytearray(5)])
        os.writev(b, [b"abc", b"de"])
        os.ftruncate(b, 50)
        os.truncate("from", 10)
        os.posix_fallocate(b, 0, 4096)
        os.fdatasync(b)
        os.lseek(b, 0, os.SEEK_DATA)
        for wrong in (lambda: os.read(b, 0), lambda: os.write(a, b"x"), lambda: os.lseek(b, -1, os.SEEK_SET)):
            try:
                wrong()
            except OSError:
                pass
        os.utime("from", (1, 2))
        os.utime(b)
        os.fchmod(b, 0o640)
        """,
    "file objects": """\
        with open("text", "w", encoding="utf-16") as file:
            for n in range(3000):
                print("line", n, "ä", file=file)
        with open("text", "r+", encoding="utf-16") as file:
            file.readline()
            place = file.tell()
            file.read(100)
            file.seek(place)
            file.readlines(1000)
        with open("bytes", "w+b", buffering=512) as file:
            for n in range(200):
                file.write(b"x" * n)
            file.seek(100)
            file.read(50)
            file.write(b"in between")
            file.peek(1)
            file.truncate(1000)
            file.seek(0, 2)
        with open("bytes", "rb", buffering=0) as file:
            while file.read(300):
                pass
            file.readall()
        for wrong in ("missing", ".", "text/below"):
            try:
                open(wrong)
            except OSError:
                pass
        try:
            open("text", "x")
        except FileExistsError:
            pass
        """,
    "threads": """\
        import threading
        def work(part):
            with open(f"part{part}", "w+b", buffering=0) as file:
                for n in range(50 + part):
                    file.write(b"x" * (part + 1))
                file.seek(0)
                file.read()
        threads = [threading.Thread(target=work, args=[part]) for part in range(4)]
        for thread in threads: thread.start()
        for thread in threads: thread.join()
        """,
    "children": """\
        import os, subprocess, sys
        fd = os.open("shared", os.O_CREAT | os.O_RDWR)
        for n in range(3):
            if os.fork() == 0:
                os.write(fd, b"x" * n)
                os.close(fd)
                os._exit(0)
            os.wait()
        code = "import os; os.mkdir('by child'); open('by child/file', 'w').write('xyz')"
        subprocess.run([sys.executable, "-c", code], check=True)
        """,
    "other libraries": """\
        import ctypes, dbm, json, pickle, shelve
        with shelve.open("shelf") as shelf:
            shelf["key"] = [1, 2, 3]
        with shelve.open("shelf") as shelf:
            shelf["key"]
        libc = ctypes.CDLL(None, use_errno=True)
        fd = libc.open(b"by-ctypes", 0o102, 0o600)
        libc.write(fd, b"12345", 5)
        libc.lseek(fd, 0, 0)
        libc.read(fd, ctypes.create_string_buffer(10), 10)
        libc.unlink(b"not there")
        libc.close(fd)
        """,
}  # fmt: skip


@pytest.mark.skipif(shutil.which("strace") is None, reason="strace is not installed")
@pytest.mark.parametrize("name", SCRIPTS)
def test_same_calls_as_strace(program: Runner, tmp_path: Path, name: str) -> None:
    # GIVEN a script that works in one folder
    script = program.write(SCRIPTS[name])
    folders = {side: tmp_path / side / "work" for side in ("bare", "traced")}
    for folder in folders.values():
        folder.mkdir(parents=True)
    # WHEN it is run under strace, untraced by us, and under us
    words = [sys.executable, script]
    succeeded(program.command([*strace.command(tmp_path / "strace.out"), *words], cwd=folders["bare"]))
    env = {"PYIO_TRACE": "1", "PYIO_TRACE_OUTPUT": str(tmp_path / "run.pyio"), "PYIO_TRACE_QUIET": "1"}
    outcome = succeeded(program.command(words, env, cwd=folders["traced"]))
    # THEN the calls on its files are the same, thread by thread
    theirs = strace.calls(tmp_path / "strace.out", folders["bare"])
    ours = strace.ours(outcome, folders["traced"])
    assert sum(map(len, theirs.values())) > 10
    if Counter(map(tuple, theirs.values())) != Counter(map(tuple, ours.values())):
        pytest.fail(_difference(theirs, ours))
    assert outcome.log.losses() == {}


def _difference(theirs: dict[int, list[strace.Call]], ours: dict[int, list[strace.Call]]) -> str:
    """The first calls of each thread that are not the same."""
    lines = [f"{len(theirs)} threads under strace, {len(ours)} under us"]
    for thread in sorted(theirs.keys() | ours.keys()):
        pairs = list(zip_longest(theirs.get(thread, []), ours.get(thread, [])))
        at = next((n for n, (a, b) in enumerate(pairs) if a != b), None)
        if at is not None:
            lines.append(f"thread {thread}, call {at} of {len(pairs)}:")
            lines += [f"  strace {a}\n  ours   {b}" for a, b in pairs[max(0, at - 2) : at + 5]]
    return "\n".join(lines)
