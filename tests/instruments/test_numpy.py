"""numpy: the sizes of arrays, of files and of what the system moved agree, byte for byte."""

from __future__ import annotations

import json
from pathlib import Path

from tests.support.programs import Outcome, Row, Runner, alike, succeeded

HEADER = 128  # of a .npy file with a short dtype

WORK = """
import io, os, pathlib, pickle, sys, zipfile
import numpy as np

array = np.arange(30_000, dtype="float64").reshape(300, 100)
np.save("plain.npy", array)
np.save(pathlib.Path("fortran"), np.asfortranarray(array))  # adds .npy
with open("object.npy", "wb") as file:
    np.save(file, array)
    np.save(file, array[:10])
np.savez("both.npz", one=array, two=array[:5])
np.savez_compressed("small.npz", array)
np.savetxt("text.txt", array[:10])
array.tofile("raw.bin")
with open("opened.bin", "wb") as file:
    array[:7].tofile(file)
print(np.load("plain.npy").sum(), np.load("fortran.npy").sum())
with open("object.npy", "rb") as file:
    print(np.load(file).shape, np.load(file).shape)
with np.load("both.npz") as archive:
    print(archive["one"].sum(), archive["two"].shape)
print(np.fromfile("raw.bin").sum(), np.fromfile("raw.bin", count=10, offset=80).shape)
print(np.loadtxt("text.txt").shape, np.genfromtxt("text.txt").shape)
print(np.fromregex("text.txt", r"(\\d\\.\\d)", [("a", "f8")]).shape)
mapped = np.memmap("raw.bin", dtype="float64", mode="r+", shape=(300, 100))
mapped[3, 4] = 5
mapped.flush()
print(np.load("plain.npy", mmap_mode="r").shape, np.lib.format.open_memmap("plain.npy").shape)
memory = io.BytesIO()
np.save(memory, array)
memory.seek(0)
print(np.load(memory).shape, np.frombuffer(memory.getvalue()[:80]).shape)
try:
    np.load("absent.npy")
except OSError as problem:
    print(problem)
try:
    np.load("text.txt")
except ValueError as problem:
    print(problem)
print(pickle.loads(pickle.dumps([np.load, np.save, np.fromfile, np.memmap]))[0] is np.load)
"""


def beneath(outcome: Outcome, call: Row, classes: tuple[str, ...]) -> int:
    """Bytes that POSIX and libc's streams moved within a call."""
    rows = outcome.select(layer=("posix", "stdio"), op=classes)
    # a stream's calls stand above their own read and write, which are libc's inside
    return sum(
        row["bytes_moved"] or 0 for row in rows if call["id"] in {parent["id"] for parent in outcome.parents(row)}
    )


def test_arrays_files_and_system_calls_agree(program: Runner, tmp_path: Path) -> None:
    # GIVEN a program that saves and loads in each way WHEN it is traced THEN it does the same
    outcome = succeeded(alike(program.traced(WORK), program.bare(WORK)))
    ours = ("numpy.", "ndarray.", "memmap.", "NpzFile.")
    calls = [row for row in outcome.select(layer="app") if row["op"].startswith(ours)]
    tops = [row for row in calls if not any(up["op"].startswith(ours) for up in outcome.parents(row))]
    told = [
        (row["op"], Path(row["path"]).name if row["path"] else None, row["bytes_moved"],
         json.loads(row["detail"] or "{}").get("shape"))
        for row in tops
    ]  # fmt: skip
    whole = 240_000
    assert told == [
        ("numpy.save", "plain.npy", whole, [300, 100]), ("numpy.save", "fortran", whole, [300, 100]),
        ("numpy.save", "object.npy", whole, [300, 100]), ("numpy.save", "object.npy", 8000, [10, 100]),
        ("numpy.savez", "both.npz", whole + 4000, None), ("numpy.savez_compressed", "small.npz", whole, None),
        ("numpy.savetxt", "text.txt", None, None),
        ("ndarray.tofile", "raw.bin", whole, [300, 100]), ("ndarray.tofile", "opened.bin", 5600, [7, 100]),
        ("numpy.load", "plain.npy", whole, [300, 100]), ("numpy.load", "fortran.npy", whole, [300, 100]),
        ("numpy.load", "object.npy", whole, [300, 100]), ("numpy.load", "object.npy", 8000, [10, 100]),
        ("numpy.load", "both.npz", None, None),
        ("NpzFile.__getitem__", "both.npz", whole, [300, 100]), ("NpzFile.__getitem__", "both.npz", 4000, [5, 100]),
        ("numpy.fromfile", "raw.bin", whole, [30_000]), ("numpy.fromfile", "raw.bin", 80, [10]),
        ("numpy.loadtxt", "text.txt", 8000, [10, 100]), ("numpy.genfromtxt", "text.txt", 8000, [10, 100]),
        ("numpy.fromregex", "text.txt", 8000, [1000]),
        ("numpy.memmap", "raw.bin", None, [300, 100]), ("memmap.flush", "raw.bin", None, None),
        ("numpy.load", "plain.npy", None, [300, 100]), ("numpy.memmap", "plain.npy", None, [300, 100]),  # both mapped
        ("numpy.save", None, whole, [300, 100]), ("numpy.load", None, whole, [300, 100]),
        ("numpy.load", "absent.npy", 0, None), ("numpy.load", "text.txt", None, None),
    ]  # fmt: skip
    # AND what the system moved beneath is the array and its header
    writes = ("write", "fwrite")
    first = {(row["op"], Path(row["path"]).name): row for row in reversed(tops) if row["path"]}
    for name in ("plain.npy", "fortran"):
        assert beneath(outcome, first["numpy.save", name], writes) == whole + HEADER
    assert beneath(outcome, first["ndarray.tofile", "raw.bin"], writes) == whole
    again = 2 * (30 + len("one.npy") + 20)  # zipfile writes the header of each member once more when it is complete
    size = (tmp_path / "both.npz").stat().st_size
    assert beneath(outcome, first["numpy.savez", "both.npz"], writes) == size + again
    # ... where reading goes through a stream of C, which reads in blocks, at least what was asked for
    for name in ("plain.npy", "fortran.npy"):
        assert whole <= beneath(outcome, first["numpy.load", name], ("fread",)) <= whole + HEADER
    assert beneath(outcome, first["numpy.fromfile", "raw.bin"], ("fread",)) == whole
    failed = {row["path"]: json.loads(row["detail"])["raised"] for row in tops if "raised" in (row["detail"] or "")}
    assert failed == {str(tmp_path / "absent.npy"): "FileNotFoundError", str(tmp_path / "text.txt"): "ValueError"}


def test_every_operation_has_its_call(program: Runner, tmp_path: Path) -> None:
    # GIVEN the POSIX operations on arrays' files
    outcome = succeeded(program.traced(WORK))
    names = [str(path) for path in tmp_path.iterdir() if path.suffix in (".npy", ".npz", ".bin", ".txt")]
    rows = outcome.select(layer=("posix", "stdio"), path=names)
    assert len(rows) > 300
    # THEN all are in a call, except what the program does by itself: asking for a position, and unmapping
    outside = [row for row in rows if row["link"] == "none"]
    assert {row["link"] for row in rows} == {"thread", "none"}
    assert {row["op"] for row in outside} <= {"lseek", "close", "munmap"}
    own = str(program.folder / "program.py")
    assert all(row["site"] is None or row["site"].startswith(own) for row in outside)  # None: Python is ending
    assert len(outside) / len(rows) < 0.05


def test_what_is_no_array_is_not_asked(program: Runner) -> None:
    # GIVEN an object of the program's that can be made an array, and arrays that have methods of its own
    text = """
    import numpy as np
    class Like:
        def __array__(self, dtype=None, copy=None):
            print("made")
            return np.arange(3)
        def __getattr__(self, name):
            print("asked for", name)
            raise AttributeError(name)
    class Array(np.ndarray):
        @property
        def nbytes(self):
            print("asked for nbytes")
            return 1
        @property
        def shape(self):
            print("asked for shape")
            return (1,)
    np.save("like", Like())
    np.savez("likes", Like(), a=np.arange(4))
    np.arange(5).view(Array).tofile("array.bin")
    """
    # WHEN they are saved THEN only numpy calls their methods, and arrays are described as they are
    outcome = succeeded(alike(program.traced(text), program.bare(text)))
    moved = {
        row["op"]: row["bytes_moved"] for row in outcome.select(layer="app", op=lambda op: not op.startswith("_io"))
    }
    assert (moved["numpy.savez"], moved["ndarray.tofile"], moved["numpy.save"]) == (32, 40, None)
