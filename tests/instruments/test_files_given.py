"""Files and paths of the program's own classes: no instrument calls their methods."""

from __future__ import annotations

import pytest

from tests.support.programs import Runner, alike, succeeded

#: Whatever asks them is told of on standard output: what a traced program prints more, an instrument has asked.
KINDS = """
import io, os, sys
class Path:
    def __init__(self, path): self.path = path
    def __fspath__(self):
        print("__fspath__")
        return self.path
class Raw(io.FileIO):
    name = property(lambda self: print("Raw.name") or "raw", lambda self, name: None)
class Memory(io.RawIOBase):
    def __init__(self, data=b""): self.data = io.BytesIO(data)
    name = property(lambda self: print("Memory.name") or "memory")
    def readable(self): return True
    def writable(self): return True
    def seekable(self): return True
    def readinto(self, buffer): return self.data.readinto(buffer)
    def write(self, data): return self.data.write(data)
    def seek(self, *args): return self.data.seek(*args)
    def tell(self): return self.data.tell()
    def truncate(self, size=None): return self.data.truncate(size)
class Text(str):
    def startswith(self, *args):
        print("Text.startswith")
        return str.startswith(self, *args)
class Asked:
    def __getattr__(self, name):
        print("Asked", name)
        raise AttributeError(name)
class Proxy:  # one that finds out what it is when it is first asked
    def __init__(self, file): self.__dict__["file"] = file
    def __getattr__(self, name):
        print("Proxy", name)
        return getattr(self.__dict__["file"], name)
"""


def unnoticed(program: Runner, text: str) -> None:
    succeeded(alike(program.traced(KINDS + text), program.bare(KINDS + text)))


def test_the_standard_librarys(program: Runner) -> None:
    # GIVEN files and paths of the program's own WHEN modules of the standard library get them THEN it prints the same
    unnoticed(
        program,
        """
import json, pickle, sqlite3
for number in range(3):
    json.dump([1], io.TextIOWrapper(io.BufferedWriter(Memory())))
    print(json.load(io.TextIOWrapper(io.BufferedReader(Memory(b"[1]")))), json.load(Proxy(io.StringIO("[2]"))))
    pickle.dump([1], io.BufferedWriter(Memory()))
    pickle.dump([1], Proxy(io.BytesIO()))
    with Raw("raw.pickle", "w") as file:
        pickle.dump([1], file)
    for path in (Path("data.db"), Text("data.db")):
        connection = sqlite3.connect(path)
        connection.execute("CREATE TABLE IF NOT EXISTS t (a)")
        connection.close()
""",
    )


def test_numpys(program: Runner) -> None:
    pytest.importorskip("numpy")
    unnoticed(
        program,
        """
import numpy
numpy.save(Path("a.npy"), numpy.arange(3))
numpy.save(Proxy(io.BytesIO()), numpy.arange(3))
file = io.BufferedRandom(Memory())
numpy.save(file, numpy.arange(3))
file.seek(0)
import pickle
with open("a.pickle", "wb") as pickled:
    pickle.dump(Asked(), pickled)
print(type(numpy.load("a.pickle", allow_pickle=True)).__name__)
print(numpy.load(Path("a.npy")), numpy.load(file), numpy.fromfile(Path("a.npy"), "u1", 4))
""",
    )


def test_pandas(program: Runner) -> None:
    pytest.importorskip("pandas")
    unnoticed(
        program,
        """
import pandas
frame = pandas.DataFrame({"a": [1, 2, 3]})
frame.to_csv(Path("a.csv"))
frame.to_pickle(Proxy(io.BytesIO()))
print(pandas.read_csv(Text("a.csv")).shape, next(pandas.read_csv(Text("a.csv"), chunksize=2)).shape)
print(pandas.read_csv(Path("a.csv")), pandas.read_csv(io.BufferedReader(Memory(b"a,b\\n1,2\\n"))))
for chunk in pandas.read_csv(Path("a.csv"), chunksize=2):
    print(chunk)
for chunk in pandas.read_csv(io.TextIOWrapper(io.BufferedReader(Memory(b"a,b\\n1,2\\n3,4\\n"))), chunksize=1):
    print(chunk)
""",
    )


def test_pyarrows(program: Runner) -> None:
    pytest.importorskip("pyarrow")
    unnoticed(
        program,
        """
import pyarrow, pyarrow.csv, pyarrow.feather, pyarrow.ipc, pyarrow.parquet
table = pyarrow.table({"a": [1, 2, 3]})
pyarrow.parquet.write_table(table, Path("a.parquet"))
pyarrow.parquet.write_table(table, Proxy(io.BytesIO()))
pyarrow.feather.write_feather(table, Path("a.feather"))
print(pyarrow.parquet.read_table(Path("a.parquet")), pyarrow.parquet.ParquetFile(Path("a.parquet")).num_row_groups)
pyarrow.csv.write_csv(table, Path("a.csv"))
print(pyarrow.csv.read_csv(Path("a.csv")))
with pyarrow.ipc.open_file(Path("a.feather")) as reader:
    print(reader.read_all())
""",
    )


def test_h5pys(program: Runner) -> None:
    pytest.importorskip("h5py")
    unnoticed(
        program,
        """
import h5py
with h5py.File(Path("a.h5"), "w") as file:
    file["data"] = [1, 2, 3]
with h5py.File(Path("a.h5")) as file:
    print(file["data"][:])
with h5py.File(Proxy(io.BytesIO()), "w") as file:
    file["data"] = [1, 2, 3]
with h5py.File(io.BufferedRandom(Memory()), "w") as file:
    file["data"] = [1, 2, 3]
""",
    )


def test_fsspecs(program: Runner) -> None:
    pytest.importorskip("fsspec")
    unnoticed(
        program,
        """
import fsspec, json
from fsspec.implementations.local import LocalFileOpener
LocalFileOpener.__fspath__ = lambda self: print("LocalFileOpener.__fspath__") or self.path
with fsspec.open("file://" + os.path.abspath("a.json"), "w") as file:
    json.dump([1], file)
with fsspec.open("file://" + os.path.abspath("a.json"), "rb") as file:
    print(json.load(file))
""",
    )


def test_pythons_own_have_their_paths(program: Runner) -> None:
    # GIVEN files and paths of the standard library's own kinds
    text = """
    import json, pathlib, os, pickle
    path = pathlib.Path("file.json").absolute()
    with open(path, "w") as text:
        json.dump([1], text)
    with open(path) as text, open(path, "rb") as buffered, open(path, "rb", 0) as raw:
        json.load(text), json.load(buffered), json.load(raw)
    import sqlite3
    sqlite3.connect(path).close()
    sqlite3.connect(next(entry for entry in os.scandir(path.parent) if entry.name == "file.json")).close()
    """
    # WHEN libraries get them THEN the rows have their paths
    outcome = succeeded(program.traced(text))
    for op, number in (("json.dump", 1), ("json.load", 3), ("sqlite3.connect", 2), ("Connection.close", 1)):
        rows = outcome.select(op=op)
        assert sum(row["path"] == str(program.folder / "file.json") for row in rows) == number, op
