"""h5py: requests by dataset, compared with the bytes and offsets that follow from the file's layout."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.programs import Outcome, Row, Runner, alike, succeeded

pytest.importorskip("h5py", reason="h5py is not installed")

BEGIN = """
import os, sys
import h5py
import numpy as np
"""


def rows(outcome: Outcome, op: str, **wanted: Any) -> list[Row]:
    return outcome.select(layer="app", op=op, **wanted)


def detail(row: Row) -> dict[str, Any]:
    return dict(json.loads(row["detail"])) if row["detail"] else {}


def beneath(outcome: Outcome, span: Row, *ops: str) -> list[Row]:
    """POSIX operations in a span, however deep: there may be HDF5's own layer between."""
    return [
        row
        for row in outcome.select(layer="posix", op=ops)
        if span["id"] in [parent["id"] for parent in outcome.parents(row)]
    ]


def test_a_column_of_a_contiguous_dataset_is_one_call_and_a_read_for_each_row(program: Runner) -> None:
    # GIVEN a matrix whose rows are longer than HDF5's sieve buffer (64 KiB) WHEN one column of it is read
    text = (
        BEGIN
        + """
with h5py.File("matrix.h5", "w") as file:
    file.create_dataset("m", data=np.arange(20 * 16384, dtype="f8").reshape(20, 16384))
with h5py.File("matrix.h5") as file:
    matrix = file["m"]
    column = matrix[:, 3]
    print(matrix.id.get_offset(), column.sum())
"""
    )
    outcome = alike(succeeded(program.traced(text)), program.bare(text))
    begins = int(outcome.stdout.split()[0])
    # THEN there is one call for 160 bytes, and beneath it one read a row, each where that row has the column
    [read] = rows(outcome, "Dataset.__getitem__")
    assert (read["bytes_moved"], read["path"]) == (160, str(program.folder / "matrix.h5"))
    assert detail(read) == {
        "dataset": "/m", "shape": [20, 16384], "dtype": "float64", "layout": "contiguous", "driver": "sec2",
        "selection": [":", 3],
    }  # fmt: skip
    reads = beneath(outcome, read, "pread")
    assert [row["file_offset"] for row in reads] == [begins + row * 16384 * 8 + 3 * 8 for row in range(20)]
    assert {row["bytes_moved"] for row in reads} == {65536}
    assert {row["link"] for row in reads} == {"thread"}
    # AND where HDF5's layer is recorded, it is one H5Dread between the two
    between = {parent["op"] for row in reads for parent in outcome.parents(row) if parent["layer"] == "hdf5"}
    hdf5 = outcome.select(layer="hdf5", op="H5Dread")
    assert between == ({"H5Dread"} if hdf5 else set())
    assert len(hdf5) <= 1


def test_bytes_asked_and_bytes_moved_reconcile(program: Runner) -> None:
    # GIVEN a program that writes 8 MB and reads them back, each in one call
    text = (
        BEGIN
        + """
data = np.arange(1_000_000, dtype="f8")
with h5py.File("file.h5", "w") as file:
    empty = file.create_dataset("empty", data.shape, "f8")
    empty[...] = data
    file["given"] = data
with h5py.File("file.h5") as file:
    assert (file["given"][:] == data).all()
    into = np.empty(1000)
    file["empty"].read_direct(into, np.s_[500:1500])
    assert (into == data[500:1500]).all()
"""
    )
    outcome = alike(succeeded(program.traced(text)), program.bare(text))
    # THEN the calls have the bytes of the data, and so have the transfers beneath them
    [written] = rows(outcome, "Dataset.__setitem__")
    assert written["bytes_moved"] == sum(row["bytes_moved"] for row in beneath(outcome, written, "pwrite")) == 8_000_000
    named, anonymous = rows(outcome, "Group.create_dataset")
    assert (named["bytes_moved"], anonymous["bytes_moved"]) == (None, 8_000_000)
    assert sum(row["bytes_moved"] for row in beneath(outcome, anonymous, "pwrite")) == 8_000_000
    [setting] = rows(outcome, "Group.__setitem__")
    assert (detail(setting)["name"], setting["id"]) == ("given", anonymous["parent"])
    [read] = rows(outcome, "Dataset.__getitem__")
    assert read["bytes_moved"] == sum(row["bytes_moved"] for row in beneath(outcome, read, "pread")) == 8_000_000
    [direct] = rows(outcome, "Dataset.read_direct")
    assert (direct["bytes_moved"], detail(direct)["selection"]) == (8000, "500:1500")
    # AND all transfers of the file are in some call, except the metadata that HDF5 reads and writes by itself
    transfers = outcome.select(layer="posix", op=("pread", "pwrite"), path=program.folder / "file.h5")
    apart = [row for row in transfers if not outcome.parents(row)]
    assert {row["link"] for row in transfers} - {"none"} == {"thread"}
    assert sum(row["bytes_moved"] for row in apart) < 8192


SELECTIONS = """
with h5py.File("file.h5", "w") as file:
    file.create_dataset("g/x", data=np.arange(1000.0), chunks=(100,), shuffle=True,
                        compression="gzip", compression_opts=5)
    file.create_dataset("t", data=np.zeros(10, [("a", "i4"), ("b", "f8")]))
    file.create_dataset("s", data=["one", "three"], dtype=h5py.string_dtype())
    file.create_dataset("z", (4, 5), "f4", maxshape=(None, 5))
with h5py.File("file.h5") as file:
    x, t, s = file["g/x"], file["t"], file["s"]
    x[10:20], x[5], x[...], x[()], x[-3:], x[np.arange(1000) % 2 == 0], x[[1, 5, 7]], x[list(range(20))], x[np.int64(3)]
    x[h5py.MultiBlockSlice(start=1, count=3, stride=10, block=2)]
    t["a"], t.fields(["a"])[2:4], s[:], x.astype("f4")[:10]
with h5py.File("file.h5", "r+") as file:
    z = file["z"]
    z[1:3] = 1
    z.resize((8, 5))
    z[:, 1:3] = np.ones((8, 2))
    z[...] = 0
    z[7] = [1, 2, 3, 4, 5]
    z.attrs["unit"] = "m"
    z.attrs["scale"] = np.arange(3.0)
    assert z.attrs["unit"] == "m" and z.attrs["scale"].nbytes == 24
"""


def test_selections_layouts_and_bytes(program: Runner) -> None:
    # GIVEN a program that selects in many ways
    text = BEGIN + SELECTIONS
    outcome = alike(succeeded(program.traced(text)), program.bare(text))
    reads = [(row, detail(row)) for row in rows(outcome, "Dataset.__getitem__")]
    # THEN each read has the selection as given and the bytes of its result
    of_x = [(what["selection"], row["bytes_moved"]) for row, what in reads if what["dataset"] == "/g/x"]
    assert of_x == [
        ("10:20", 80), (5, 8), ("...", 8000), ([], 8000), ("-3:", 24), ("<ndarray bool (1000,)>", 4000),
        ([1, 5, 7], 24), ("<list (20,)>", 160), (3, 8),
        ("MultiBlockSlice(start=1, stride=10, count=3, block=2)", 48), (":10", 40),
    ]  # fmt: skip
    assert {key: reads[0][1][key] for key in ("shape", "dtype", "chunks", "filters")} == {
        "shape": [1000], "dtype": "float64", "chunks": [100], "filters": ["shuffle", "gzip(5)"],
    }  # fmt: skip
    # AND fields are named; strings have no bytes, since the result holds only pointers to them
    outer, inner, some = [(row, what) for row, what in reads if what["dataset"] == "/t"]
    assert (outer[0]["id"], outer[1]["selection"], outer[0]["bytes_moved"]) == (inner[0]["parent"], "a", 40)
    assert (some[1]["fields"], some[1]["selection"], some[0]["bytes_moved"]) == (["a"], "2:4", 8)
    assert [row["bytes_moved"] for row, what in reads if what["dataset"] == "/s"] == [None]
    assert [what["read_as"] for row, what in reads if "read_as" in what] == ["float32"]
    # AND writes have the elements that were selected, also of a dataset that has grown
    writes = [
        (detail(row)["selection"], detail(row)["shape"], row["bytes_moved"])
        for row in rows(outcome, "Dataset.__setitem__")
    ]
    assert writes == [("1:3", [4, 5], 40), ([":", "1:3"], [8, 5], 64), ("...", [8, 5], 160), (7, [8, 5], 20)]
    [resized] = rows(outcome, "Dataset.resize")
    assert (detail(resized)["shape"], detail(resized)["size"]) == ([4, 5], [8, 5])
    made = [
        (detail(row)["object"], detail(row)["attribute"], row["bytes_moved"])
        for row in rows(outcome, "AttributeManager.create")
    ]
    assert made == [("/z", "unit", None), ("/z", "scale", 24)]
    got = [(detail(row)["attribute"], row["bytes_moved"]) for row in rows(outcome, "AttributeManager.__getitem__")]
    assert got == [("unit", None), ("scale", 24)]


def test_an_address_that_comes_back_is_another_dataset(program: Runner) -> None:
    # GIVEN a program that opens, reads, drops and deletes datasets of many files in turn, so that addresses come back
    text = (
        BEGIN
        + """
seen = set()
for i in range(300):
    with h5py.File(f"file{i % 7}.h5", "w") as file:
        data = file.create_dataset(f"d{i}", data=np.zeros(i + 1, "i4"), chunks=(i + 1,) if i % 2 else None)
        data[0]
    with h5py.File(f"file{i % 7}.h5") as file:
        data = file[f"d{i}"]
        again = id(data.id) in seen
        seen.add(id(data.id))
        data[...]
print(len(seen) < 300)
"""
    )
    outcome = alike(succeeded(program.traced(text)), program.bare(text))
    assert outcome.stdout == "True\n", "no address came back: this tests nothing"
    # THEN each call has the dataset, file and layout of its own
    reads = rows(outcome, "Dataset.__getitem__")
    assert len(reads) == 600
    for at, row in enumerate(reads):
        i, what = at // 2, detail(row)
        assert (row["path"], what["dataset"]) == (str(program.folder / f"file{i % 7}.h5"), f"/d{i}")
        assert (what["shape"], what.get("chunks")) == ([i + 1], [i + 1] if i % 2 else None)


def test_a_name_that_comes_back_is_another_dataset(program: Runner) -> None:
    # GIVEN a file that is read, written anew with other datasets of the same names, and read again; one that is moved
    text = (
        BEGIN
        + """
def write(size, how):
    with h5py.File("file.h5", how) as file:
        if "d" in file:
            del file["d"]
        file.create_dataset("d", data=np.zeros(size))
def read():
    with h5py.File("file.h5") as file:
        file["d"][0]
        file["d"][0]
write(10, "w"); read(); write(20, "w"); read(); write(30, "r+"); read()
with h5py.File("file.h5", "r+") as file:
    data = file["d"]
    data[0]
    file.move("d", "e")
    data[1]
"""
    )
    outcome = alike(succeeded(program.traced(text)), program.bare(text))
    # THEN each call has the shape and the name that held then
    reads = [detail(row) for row in rows(outcome, "Dataset.__getitem__")]
    assert [what["shape"] for what in reads] == [[10]] * 2 + [[20]] * 2 + [[30]] * 4
    assert [what["dataset"] for what in reads] == ["/d"] * 7 + ["/e"]


def test_nothing_is_kept_open_and_nothing_is_set(program: Runner) -> None:
    # GIVEN a program that looks at what its objects have, and at what is open once it has let go of them
    text = (
        BEGIN
        + """
import weakref
with h5py.File("file.h5", "w") as file:
    file["d"] = np.arange(100)
file = h5py.File("file.h5")
data = file["d"]
data[0:10], data.attrs.get("none"), data.file.filename
print(sorted(vars(data)), sorted(data._cache_props), sys.getrefcount(data.id), sys.getrefcount(file.id))
gone = weakref.ref(data.id), weakref.ref(file.id)
del data, file
print([each() for each in gone], [os.readlink(f"/proc/self/fd/{fd}") for fd in os.listdir("/proc/self/fd")
                                  if os.path.exists(f"/proc/self/fd/{fd}")].count(os.path.abspath("file.h5")))
"""
    )
    outcome = alike(succeeded(program.traced(text)), program.bare(text))
    assert outcome.stdout.splitlines()[1] == "[None, None] 0"
    assert len(rows(outcome, "Dataset.__getitem__")) == 1


def test_paths_hold_after_a_change_of_folder_and_a_handle_is_no_opening(program: Runner) -> None:
    # GIVEN a file opened by a relative name, and read from another folder; handles of it; one in memory
    text = (
        BEGIN
        + """
with h5py.File("file.h5", "w") as file:
    file["d"] = np.arange(10)
    os.makedirs("other", exist_ok=True)
    os.chdir("other")
    file["d"][:]
    file["d"].file.mode, file["d"].parent
    file.attrs["a"] = 1
    file.flush()
with h5py.File.in_memory() as file:
    file["d"] = 1
    file["d"][()]
try:
    file["d"]
except Exception as problem:
    print(type(problem).__name__, problem)
try:
    h5py.File("none.h5")
except FileNotFoundError as problem:
    print(problem.errno)
"""
    )
    outcome = alike(succeeded(program.traced(text)), program.bare(text))
    path = str(program.folder / "file.h5")
    # THEN the paths are where the file is, and one opening is one row
    opened, failed = rows(outcome, "File.__init__")
    assert (opened["path"], detail(opened)) == (path, {"mode": "w", "driver": "sec2"})
    assert (failed["path"], failed["errno"]) == (str(program.folder / "other" / "none.h5"), 2)
    first, second = rows(outcome, "Dataset.__getitem__")
    assert (first["path"], second["path"]) == (path, None)
    for op in ("AttributeManager.create", "File.flush"):
        assert [row["path"] for row in rows(outcome, op)] == [path]
    assert [row["path"] for row in rows(outcome, "File.close")] == [path, None]


def test_python_file_objects_are_beneath(program: Runner) -> None:
    # GIVEN an HDF5 file in a file object of Python's
    text = (
        BEGIN
        + """
with open("file.h5", "w+b") as raw, h5py.File(raw, "w") as file:
    file["d"] = np.arange(100_000)
    file["d"][:]
"""
    )
    outcome = alike(succeeded(program.traced(text)), program.bare(text))
    # THEN its calls are in h5py's, and its path is known
    [read] = rows(outcome, "Dataset.__getitem__")
    assert (read["path"], read["bytes_moved"], detail(read)["driver"]) == (
        str(program.folder / "file.h5"),
        800_000,
        "fileobj",
    )
    asked = rows(outcome, "BufferedReader.readinto") + rows(outcome, "BufferedRandom.readinto")
    assert any(read["id"] in [parent["id"] for parent in outcome.parents(row)] for row in asked)
    assert sum(row["bytes_moved"] for row in asked if row["parent"] is not None) >= 800_000


def test_threads_have_each_their_own(program: Runner) -> None:
    # GIVEN threads that read datasets of their own at once
    text = (
        BEGIN
        + """
from concurrent.futures import ThreadPoolExecutor
with h5py.File("file.h5", "w") as file:
    for i in range(4):
        file[f"d{i}"] = np.full(10_000, i)
with h5py.File("file.h5") as file:
    def read(i):
        data = file[f"d{i % 4}"]
        return int(data[i : i + 1000].sum())
    with ThreadPoolExecutor(4) as pool:
        print(sum(pool.map(read, range(200))))
"""
    )
    outcome = alike(succeeded(program.traced(text)), program.bare(text))
    # THEN each read is beneath the call of its own thread
    reads = rows(outcome, "Dataset.__getitem__")
    assert sorted(detail(row)["selection"] for row in reads) == sorted(f"{i}:{i + 1000}" for i in range(200))
    assert {row["bytes_moved"] for row in reads} == {8000}
    for row in outcome.select(layer="posix", op="pread", path=program.folder / "file.h5"):
        assert all(parent["tid"] == row["tid"] for parent in outcome.parents(row))


def test_failures_are_the_same(program: Runner) -> None:
    # GIVEN calls that fail
    text = (
        BEGIN
        + """
import traceback
with h5py.File("file.h5", "w") as file:
    data = file.create_dataset("d", data=np.arange(10))
    other = h5py.Dataset.__new__(h5py.Dataset)
    for fails in (lambda: data[20], lambda: data["x"], lambda: data.__getitem__(), lambda: data.__setitem__(0),
                  lambda: other[0], lambda: h5py.Dataset.__getitem__(3, 0), lambda: h5py.File(),
                  lambda: file.create_dataset("d", (1,), "i4"), lambda: data.attrs["no"],
                  lambda: file["no"], lambda: h5py.File("x", "no")):
        try:
            fails()
        except Exception as problem:
            print(type(problem).__name__, problem,
                  [entry.name for entry in traceback.extract_tb(problem.__traceback__)])
try:
    data[0]
except Exception as problem:
    print(type(problem).__name__, problem)
file.close()
"""
    )
    # THEN they fail as untraced, with the same frames in their tracebacks
    outcome = alike(succeeded(program.traced(text)), program.bare(text))
    assert outcome.log.losses().get("tracer_faults") is None
    assert next(detail(row)["raised"] for row in rows(outcome, "Dataset.__getitem__")) == "IndexError"


@pytest.mark.parametrize("when", ["before", "after"])
def test_tracing_that_begins_late(program: Runner, when: str) -> None:
    # GIVEN a file that is open already when tracing begins, and one that stays open after
    text = (
        BEGIN
        + f"""
import pyio_trace
when = {when!r}
with h5py.File("file.h5", "w") as file:
    data = file.create_dataset("d", data=np.arange(10))
    if when == "before":
        data[0]
    with pyio_trace.trace("stretch.pyio"):
        data[0:5]
    data[0:7]
"""
    )
    outcome = succeeded(program.bare(text))
    found = Outcome(outcome.status, outcome.stdout, outcome.stderr, Path(program.folder / "stretch.pyio"))
    # THEN what was read during that time is there, with its file
    [read] = rows(found, "Dataset.__getitem__")
    assert (read["path"], read["bytes_moved"], detail(read)["dataset"]) == (str(program.folder / "file.h5"), 40, "/d")


def test_a_shape_that_changes_by_another_handle(program: Runner) -> None:
    # GIVEN a dataset that is open twice, and grows by one of the two, at each level of h5py
    text = (
        BEGIN
        + """
with h5py.File("file.h5", "w") as file:
    one, two = file.create_dataset("d", (10,), "i4", maxshape=(None,)), file["d"]
    two[0:5]
    one.resize((20,))
    two[0:15] = 1
    two.id.set_extent((30,))
    one[...]
    file["d"][5:] = np.arange(25)
"""
    )
    outcome = alike(succeeded(program.traced(text)), program.bare(text))
    # THEN each call has the shape of its moment
    calls = outcome.select(layer="app", op=("Dataset.__getitem__", "Dataset.__setitem__"))
    assert [(detail(row)["shape"], row["bytes_moved"]) for row in calls] == [
        ([10], 20),
        ([20], 60),
        ([30], 120),
        ([30], 100),
    ]
    assert [detail(row)["shape"] for row in rows(outcome, "DatasetID.set_extent")] == [[10], [20]]


def test_nothing_is_read_to_tell_a_name(program: Runner) -> None:
    # GIVEN datasets without a name: made by assignment, opened by a reference, in a file of many groups
    text = """
    import h5py
    with h5py.File("n.h5", "w") as file:
        for n in range(50):
            file.create_dataset(f"g{n}/d", data=[n])
        file.attrs["to"] = file["g49/d"].ref
    with h5py.File("n.h5") as file:
        reference = file.attrs["to"]
        print(file[reference][0])
    with h5py.File("n.h5", "r+") as file:
        file["more"] = list(range(1000))
        print(file["more"][999])
    """
    # WHEN they are used THEN the file is read as it is without the instrument: nothing for our sake
    outcomes = [
        succeeded(program.traced(text, env={"PYIO_TRACE_INSTRUMENTS": names}, log=f"{names}.pyio"))
        for names in ("all", "none")
    ]
    reads = [
        [(row["file_offset"], row["bytes_moved"]) for row in outcome.select(op="pread", path=program.folder / "n.h5")]
        for outcome in outcomes
    ]
    assert len(reads[0]) > 5
    assert reads[0] == reads[1]
