"""The programs compared with strace: those that the harness can run, and those that the tests always run."""

from __future__ import annotations

import textwrap
from dataclasses import dataclass, replace
from pathlib import Path

ROOT = Path(__file__).parents[2]
#: --include: all files, also those that are left out by default; and what is no file, too.
FILES = "imports,proc,sys,dev"
ALL = f"{FILES},pipes,sockets,anonymous,terminals"


@dataclass(frozen=True)
class Program:
    """words: what comes after `python`; text: of the script to be run, where it is one of ours.

    needs: modules without which it cannot run.  live: the tests run it each time, quickly or marked slow.
    """

    name: str
    group: str
    words: tuple[str, ...] = ()
    text: str = ""
    needs: tuple[str, ...] = ()
    live: str = ""
    include: str = FILES

    def command(self, folder: Path) -> list[str]:
        """The words after `python`, the script being written to the folder."""
        if not self.text:
            return list(self.words)
        script = folder / "program.py"
        script.write_text(textwrap.dedent(self.text))
        return [str(script), *self.words]


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
        def work(part, file):
            with file:
                for n in range(50 + part):
                    file.write(b"x" * (part + 1))
                file.seek(0)
                file.read()
        files = [open(f"part{part}", "w+b", buffering=0) for part in range(4)]
        threads = [threading.Thread(target=work, args=pair) for pair in enumerate(files)]
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

LIBRARIES = {
    "numpy": """\
        import numpy as np
        a = np.arange(100_000)
        np.save("a.npy", a)
        assert (np.load("a.npy") == a).all()
        mapped = np.load("a.npy", mmap_mode="r+")
        mapped[0] = 5
        mapped.flush()
        del mapped
        a.tofile("raw")
        assert len(np.fromfile("raw", dtype=a.dtype)) == 100_000
        np.savez("a.npz", a=a)
        np.load("a.npz")["a"]
        np.savetxt("a.txt", a[:2000])
        np.loadtxt("a.txt")
        """,
    "pyarrow": """\
        import pyarrow as pa
        import pyarrow.csv, pyarrow.dataset, pyarrow.feather, pyarrow.parquet
        table = pa.table({"n": range(100_000), "text": [str(n) for n in range(100_000)]})
        pa.parquet.write_table(table, "t.parquet", row_group_size=10_000)
        assert pa.parquet.read_table("t.parquet", columns=["n"]).num_rows == 100_000
        pa.dataset.write_dataset(table, "set", format="parquet", max_rows_per_file=20_000, max_rows_per_group=20_000)
        assert pa.dataset.dataset("set").count_rows() == 100_000
        pa.feather.write_feather(table, "t.feather")
        pa.feather.read_table("t.feather", memory_map=True)
        pa.csv.write_csv(table, "t.csv")
        assert pa.csv.read_csv("t.csv").num_rows == 100_000
        """,
    "h5py": """\
        import h5py
        with h5py.File("a.h5", "w") as file:
            data = file.create_dataset("data", (1000, 100), chunks=(100, 10), compression="gzip")
            for n in range(0, 1000, 50):
                data[n : n + 50] = n
            file.create_group("group").attrs["name"] = "text"
        with h5py.File("a.h5", "r+") as file:
            file["data"][::7, 3]
            file["more"] = list(range(5000))
        with h5py.File("a.h5") as file:
            assert file["more"][4999] == 4999
        """,
}  # fmt: skip

POOL = """\
    import multiprocessing, sys

    def work(n):
        with open(f"out{n}", "wb") as file:
            file.write(b"x" * n * 1000)
        with open(f"out{n}", "rb") as file:
            return len(file.read())

    if __name__ == "__main__":
        with multiprocessing.get_context(sys.argv[1]).Pool(3) as pool:
            assert sum(pool.map(work, range(12))) == 66000
    """

PROCESSES = {
    "subprocess": """\
        import os, subprocess, sys
        code = "import sys; open(sys.argv[1], 'w').write('x' * 5000); print(open(sys.argv[1]).read(3))"
        for n in range(3):
            assert subprocess.run([sys.executable, "-c", code, f"f{n}"], capture_output=True).stdout == b"xxx\\n"
        subprocess.run(["cp", "f0", "copy"], check=True)
        try:
            subprocess.run(["./not there"])
        except FileNotFoundError:
            pass
        with open("out", "w") as out:
            subprocess.run([sys.executable, "-c", "print('hello')"], stdout=out, check=True)
        assert open("out").read() == "hello\\n"
        """,
    "forks": """\
        import os
        file = os.open("shared", os.O_CREAT | os.O_RDWR)
        os.write(file, b"parent")
        for n in range(5):
            pid = os.fork()
            if pid == 0:
                os.write(file, b"child")
                other = os.dup(file)
                os.lseek(other, n, os.SEEK_SET)
                os.read(file, 3)
                os._exit(n)
            assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == n
            os.write(file, b"again")
        """,
    "pool of threads": """\
        import concurrent.futures, os
        def work(n):
            with open(f"t{n}", "w") as file:
                for line in range(300):
                    print(line, file=file)
            os.stat(f"t{n}")
            with open(f"t{n}") as file:
                return sum(map(int, file))
        with concurrent.futures.ThreadPoolExecutor(6) as pool:
            assert set(pool.map(work, range(30))) == {44850}
        """,
    "signals": """\
        import os, signal, threading
        os.mkfifo("fifo")
        seen = []
        signal.signal(signal.SIGALRM, lambda *_: seen.append(os.stat(".").st_ino))
        def write():
            with open("fifo", "wb", buffering=0) as out:
                for n in range(30):
                    out.write(b"x" * 100)
                    threading.Event().wait(0.01)
        writer = threading.Thread(target=write)
        writer.start()
        signal.setitimer(signal.ITIMER_REAL, 0.004, 0.004)
        with open("fifo", "rb", buffering=0) as file:
            while file.read(64):
                pass
        signal.setitimer(signal.ITIMER_REAL, 0)
        writer.join()
        assert seen
        """,
}  # fmt: skip

#: Run at each test run, quickly and marked slow; and in the long searches.
QUICK = {"copies", "forks", "shutil", "walks", "pathlib", "tempfile", "file objects", "signals"}
SLOW = {"pool of threads", "subprocess", "h5py", "Pool (fork)"}
SOAK = {"numpy", "test_gzip", "test_sqlite3"}
STDLIB = ["gzip", "mmap", "pathlib", "shutil", "sqlite3", "tarfile", "tempfile", "zipfile"]


def _programs() -> list[Program]:
    found = [Program(name, "scripts", text=text, live="slow") for name, text in SCRIPTS.items()]
    found += [Program(name, "libraries", text=text, needs=(name,)) for name, text in LIBRARIES.items()]
    found += [Program(name, "processes", text=text) for name, text in PROCESSES.items()]
    found += [Program(f"Pool ({way})", "processes", (way,), POOL) for way in ("fork", "spawn", "forkserver")]
    found += [
        Program("Pool (fork), pipes too", "processes", ("fork",), POOL, include=ALL),
        Program("subprocess, pipes too", "processes", text=PROCESSES["subprocess"], include=ALL),
    ]
    found += [Program("quickstart.py", "examples", (str(ROOT / "examples" / "quickstart.py"),))]
    found += [
        Program(f"test_{name}", "standard library", ("-m", "unittest", "-q", f"test.test_{name}"), needs=("test",))
        for name in STDLIB
    ]
    return [_with_live(program) for program in found]


def _with_live(program: Program) -> Program:
    lists = {"quick": QUICK, "slow": SLOW, "soak": SOAK}
    return replace(program, live=next((live for live, names in lists.items() if program.name in names), program.live))


PROGRAMS = {program.name: program for program in _programs()}
