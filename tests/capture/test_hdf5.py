"""The HDF5 C library beneath h5py, PyTables and netCDF4: wheels as they are, each with a copy of its own.

What a call moves beneath it is held against the layout of the file and against strace; outcomes against untraced ones.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from pyio_trace.analysis.summary.summarize import summarize
from tests.support.programs import Outcome, Row, Runner, alike, clean_environment, succeeded

h5py = pytest.importorskip("h5py", reason="h5py is not installed")

SOURCE = Path(__file__).parent.parent / "csrc" / "hdf5.c"

#: 64 rows of a megabyte each, contiguous: farther apart than what HDF5 reads ahead.
ROWS, ROW = 64, 131072
MAKE = f"""\
import h5py, numpy as np
with h5py.File("data.h5", "w") as file:
    table = file.create_dataset("group/table", ({ROWS}, {ROW}), "f8")
    for row in range({ROWS}):
        table[row] = row
"""
COLUMN = """\
import h5py
with h5py.File("data.h5") as file:
    print(file["group/table"][:, 5].sum())
"""


def of_hdf5(outcome: Outcome, **wanted: object) -> list[Row]:
    return outcome.select(layer="hdf5", **wanted)


def beneath(outcome: Outcome, row: Row, op: str) -> list[Row]:
    return outcome.select(parent=lambda parent: parent == row["id"], op=op)


def detail(row: Row) -> dict[str, object]:
    found: dict[str, object] = json.loads(row["detail"]) if row["detail"] else {}
    return found


@pytest.fixture
def made(program: Runner) -> Runner:
    """data.h5, made untraced."""
    succeeded(program.bare(MAKE))
    return program


# ---- reading and writing


def test_a_column_is_one_read_with_a_pread_for_each_row(made: Runner, tmp_path: Path) -> None:
    # GIVEN a contiguous data set whose rows are far apart WHEN a column of it is read
    outcome = succeeded(made.traced(COLUMN))
    # THEN there is one H5Dread, of the column's elements and bytes
    [read] = of_hdf5(outcome, op="H5Dread")
    assert detail(read) == {"dataset": "/group/table", "elements": ROWS}
    assert (read["path"], read["bytes_requested"], read["bytes_moved"]) == (
        str(tmp_path / "data.h5"),
        ROWS * 8,
        ROWS * 8,
    )
    # AND beneath it one pread for each row, where the layout has it, and as surely as can be
    with h5py.File(tmp_path / "data.h5") as file:
        start = file["group/table"].id.get_offset()
    preads = beneath(outcome, read, "pread")
    assert len(preads) == ROWS
    for number, row in enumerate(preads):
        assert row["file_offset"] <= start + number * ROW * 8 + 40 < row["file_offset"] + row["bytes_moved"]
    assert {row["link"] for row in preads} == {"thread"}
    assert all(read["time"] <= row["time"] <= read["time"] + read["duration"] for row in preads)


@pytest.mark.skipif(shutil.which("strace") is None, reason="there is no strace")
def test_preads_are_those_that_strace_sees(made: Runner, tmp_path: Path) -> None:
    # GIVEN the calls on the file in an untraced run, as strace has them
    told = tmp_path / "told"
    words = ["strace", "-f", "-y", "-e", "trace=pread64", "-o", told, sys.executable, made.write(COLUMN)]
    done = subprocess.run(list(map(str, words)), cwd=tmp_path, env=clean_environment(), capture_output=True, text=True)
    if done.returncode and "ptrace" in done.stderr.lower():
        pytest.skip("strace may not trace here")
    assert done.returncode == 0, done.stderr
    seen = re.findall(r"pread64\(\d+<[^>]*data\.h5>.*, (\d+), (\d+)\) = (\d+)", told.read_text())
    # WHEN it is run traced THEN the preads on it are the same, and all of them have an HDF5 call for a parent
    outcome = succeeded(made.traced(COLUMN))
    rows = outcome.select(op="pread", path=tmp_path / "data.h5")
    assert [(row["bytes_requested"], row["file_offset"], row["bytes_moved"]) for row in rows] == [
        tuple(map(int, call)) for call in seen
    ]
    assert all(outcome.parents(row)[0]["layer"] == "hdf5" for row in rows)


def test_chunks_and_filters(program: Runner, tmp_path: Path) -> None:
    # GIVEN a data set in ten compressed chunks
    text = """\
    import h5py, numpy as np
    with h5py.File("c.h5", "w") as file:
        file.create_dataset("z", data=np.arange(1000.0), chunks=(100,), compression="gzip")
    with h5py.File("c.h5") as file:
        z = file["z"]
        assert z[250:450].sum() == sum(range(250, 450))
        print(*(z.id.get_chunk_info(n).size for n in range(10)))
        print(len(z.id.read_direct_chunk((300,))[1]))
    with h5py.File("c.h5", "r+") as file:
        file["z"].id.write_direct_chunk((0,), b"raw" * 5)
    """
    # WHEN a part of three of them is read
    outcome = succeeded(program.traced(text))
    stored = list(map(int, outcome.stdout.split()))
    [read] = of_hdf5(outcome, op="H5Dread")
    # THEN the call has the bytes that the program got, and beneath it are those that the file has
    assert read["bytes_moved"] == 1600
    assert detail(read) == {"dataset": "/z", "chunks": [100], "elements": 200}
    sizes = [row["bytes_moved"] for row in beneath(outcome, read, "pread")]
    assert sorted(stored[2:5]) == sorted(size for size in sizes if size in stored[2:5])
    # AND chunks that are read and written as they are have their own sizes
    [raw] = of_hdf5(outcome, op="H5Dread_chunk")
    [written] = of_hdf5(outcome, op="H5Dwrite_chunk")
    assert raw["bytes_moved"] == stored[10] == stored[3] == beneath(outcome, raw, "pread")[-1]["bytes_moved"]
    assert (written["bytes_requested"], written["bytes_moved"]) == (15, 15)
    assert detail(raw) == detail(written) == {"dataset": "/z"}
    # AND what was written when the data set was closed is beneath its closing
    [write] = of_hdf5(outcome, op="H5Dwrite")
    flushed = next(row for row in of_hdf5(outcome, op="H5Idec_ref") if detail(row) == {"dataset": "/z"})
    inside = beneath(outcome, write, "pwrite") + beneath(outcome, flushed, "pwrite")
    assert sum(row["bytes_moved"] for row in inside) >= sum(stored[:10])


def test_attributes(program: Runner, tmp_path: Path) -> None:
    # GIVEN attributes of a file, a group and a data set, one with a name that JSON has to escape
    text = """\
    import h5py, numpy as np
    with h5py.File("a.h5", "w") as file:
        file.attrs["title"] = 1.5
        file.create_group("g").attrs["n"] = np.arange(5, dtype="i4")
        file.create_dataset("g/d", data=[1, 2]).attrs['a "name"\\\\\\n\\u00fc'] = np.int16(3)
    with h5py.File("a.h5") as file:
        assert file.attrs["title"] == 1.5 and file["g"].attrs["n"][4] == 4
        assert file["g/d"].attrs['a "name"\\\\\\n\\u00fc'] == 3
    """
    # WHEN they are written and read THEN each is a row with its object, its name, its size
    outcome = succeeded(program.traced(text))
    expected = [("/", "title", 1, 8), ("/g", "n", 5, 20), ("/g/d", 'a "name"\\\n\u00fc', 1, 2)]
    for op in ("H5Awrite", "H5Aread"):
        rows = of_hdf5(outcome, op=op, path=tmp_path / "a.h5")
        found = [(*detail(row).values(), row["bytes_moved"]) for row in rows]
        assert found == expected, op
    for op in ("H5Acreate", "H5Aopen"):
        assert [tuple(detail(row).values()) for row in of_hdf5(outcome, op=op)] == [one[:2] for one in expected], op


def test_two_files_of_one_path_and_files_within_files(program: Runner, tmp_path: Path) -> None:
    # GIVEN two File objects of one path, which share a descriptor, a link to another file, and a change of folder
    text = """\
    import h5py, os
    os.mkdir("sub")
    with h5py.File("sub/other.h5", "w") as file:
        file.create_dataset("x", data=list(range(10)))
    with h5py.File("one.h5", "w") as file:
        file.create_dataset("d", data=list(range(20)))
        file["far"] = h5py.ExternalLink("sub/other.h5", "/x")
    first, second = h5py.File("one.h5"), h5py.File("one.h5")
    assert first["d"][3] == 3
    first.close()
    far = second["far"]
    os.chdir("sub")
    assert second["d"][4] == 4 and far[5] == 5
    with h5py.File("other.h5") as file:
        assert file["x"][6] == 6
    """
    # WHEN the data is read THEN each read has the path of the file that the data is in
    outcome = succeeded(program.traced(text))
    one, other = str(tmp_path / "one.h5"), str(tmp_path / "sub" / "other.h5")
    reads = of_hdf5(outcome, op="H5Dread")
    assert [row["path"] for row in reads] == [one, one, other, other]
    assert [detail(row)["dataset"] for row in reads] == ["/d", "/d", "/x", "/x"]
    assert len(of_hdf5(outcome, op="H5Fopen", path=one)) == 2


def test_references_are_not_searched_for(program: Runner) -> None:
    # GIVEN a data set opened by a reference: to tell its name, HDF5 would read through the file
    text = """\
    import h5py
    with h5py.File("r.h5", "w") as file:
        for n in range(50):
            file.create_dataset(f"g{n}/d", data=[n])
        file.attrs["to"] = file["g49/d"].ref
    with h5py.File("r.h5") as file:
        reference = file.attrs["to"]
        assert file[reference][0] == 49
    """
    # WHEN it is read THEN its row has no name, and no more is read from the file than untraced
    outcome = succeeded(program.traced(text))
    [read] = of_hdf5(outcome, op="H5Dread")
    assert detail(read) == {"elements": 1}
    assert len(of_hdf5(outcome, op="H5Rdereference")) == 1
    assert outcome.log.losses().get("paused") is None
    last = [row for row in outcome.rows if row["op"] == "pread"]
    assert all(outcome.parents(row)[0]["layer"] == "hdf5" for row in last)
    assert sum(row["op"] == "pread" for row in outcome.rows) < 30


# ---- several copies of the library


THREE = """\
import h5py, netCDF4, numpy, tables
with h5py.File("h.h5", "w") as file:
    file.create_dataset("g/x", data=numpy.arange(100, dtype="i8"))
with tables.open_file("p.h5", "w") as file:
    file.create_array("/", "array", numpy.arange(50, dtype="i4"))
    file.create_table("/", "table", {"a": tables.Int32Col()}).append([(n,) for n in range(1000)])
with netCDF4.Dataset("c.nc", "w") as file:
    file.createDimension("x", 20)
    file.createVariable("v", "f4", ("x",))[:] = numpy.arange(20)
with netCDF4.Dataset("c.nc") as c, h5py.File("h.h5") as h, tables.open_file("p.h5") as p:
    print(h["g/x"][10:20].sum(), p.root.array[5:10].sum(), p.root.table[:]["a"].sum(), c["v"][3:5].sum())
print(len({line.split()[-1] for line in open("/proc/self/maps") if "/libhdf5-" in line}))
"""


def test_three_libraries_in_one_process(program: Runner, tmp_path: Path) -> None:
    # GIVEN h5py, PyTables and netCDF4 in one process, each with its copy of HDF5
    pytest.importorskip("tables", reason="PyTables is not installed")
    pytest.importorskip("netCDF4", reason="netCDF4 is not installed")
    # WHEN they use files in turns THEN the program gets what it gets untraced
    outcome = alike(succeeded(program.traced(THREE)), program.bare(THREE))
    # AND the calls of each are there
    reads = {
        (Path(row["path"]).name, detail(row)["dataset"], row["bytes_moved"]) for row in of_hdf5(outcome, op="H5Dread")
    }
    assert {("h.h5", "/g/x", 80), ("p.h5", "/array", 20), ("p.h5", "/table", 4000), ("c.nc", "/v", 8)} <= reads
    writes = {(Path(row["path"]).name, row["bytes_moved"]) for row in of_hdf5(outcome, op="H5Dwrite")}
    assert {("h.h5", 800), ("p.h5", 200), ("p.h5", 4000), ("c.nc", 80)} <= writes
    # AND so are the system calls of each beneath them
    for name in ("h.h5", "p.h5", "c.nc"):
        for op in ("pread", "pwrite"):
            rows = outcome.select(op=op, path=tmp_path / name)
            assert rows
            assert all(outcome.parents(row)[0]["layer"] == "hdf5" for row in rows)


def test_through_dlsym(program: Runner) -> None:
    # GIVEN a binding that looks its functions up at run time
    text = """\
    import ctypes, glob, h5py, os
    folder = os.path.dirname(os.path.dirname(h5py.__file__))
    [path] = glob.glob(folder + "/h5py.libs/libhdf5-*")
    with h5py.File("d.h5", "w"):
        pass
    library = ctypes.CDLL(path)
    library.H5Fopen.restype = ctypes.c_int64
    library.H5Fclose.argtypes = [ctypes.c_int64]
    file = library.H5Fopen(b"d.h5", 0, ctypes.c_int64(0))
    print(file > 0, library.H5Fclose(file))
    """
    # WHEN it opens a file THEN that is seen
    outcome = alike(succeeded(program.traced(text)), program.bare(text))
    assert len(of_hdf5(outcome, op="H5Fopen")) == 1
    assert len(of_hdf5(outcome, op="H5Fclose")) == 1


#: use(path): a copy of the library by itself, which makes a file; the copy stays loaded, or not.
COPIES = """\
import ctypes, glob, h5py, os, shutil, sys
[original] = glob.glob(os.path.dirname(os.path.dirname(h5py.__file__)) + "/h5py.libs/libhdf5-*")
def use(number, unload):
    path = os.path.abspath(f"libcopy{number}.so")
    shutil.copy(original, path)
    library = ctypes.CDLL(path)
    library.H5Fcreate.restype = ctypes.c_int64
    file = library.H5Fcreate(f"{number}.h5".encode(), 2, ctypes.c_int64(0), ctypes.c_int64(0))
    assert file > 0 and library.H5Fclose(ctypes.c_int64(file)) == 0
    if unload:
        import _ctypes
        _ctypes.dlclose(library._handle)
"""


def test_more_copies_than_there_are_places_for(program: Runner) -> None:
    # GIVEN nine copies of the library in one process, h5py's among them WHEN each makes a file
    outcome = succeeded(program.traced(COPIES + "for number in range(8):\n    use(number, False)\n"))
    # THEN eight are seen; of the ninth only the system calls are, and the process says that something is not
    assert len(of_hdf5(outcome, op="H5Fcreate")) == len(of_hdf5(outcome, op="H5Fclose")) == 7
    assert len([row for row in outcome.select(op="close") if str(row["path"]).endswith("7.h5")]) == 1
    assert "unpatched" in outcome.processes[0]["blind"]


def test_copies_that_come_and_go(program: Runner) -> None:
    # GIVEN twenty copies of the library, one after the other WHEN each makes a file THEN all are seen
    outcome = succeeded(program.traced(COPIES + "for number in range(20):\n    use(number, True)\n"))
    assert len(of_hdf5(outcome, op="H5Fcreate")) == 20
    assert "unpatched" not in outcome.processes[0]["blind"]


def test_the_doctor_knows_the_slots(program: Runner) -> None:
    # GIVEN h5py loaded WHEN the doctor looks THEN h5py's one object with HDF5 slots has them hooked
    text = "import h5py"
    words = [Path(sys.executable).with_name("pyio-trace"), "doctor", "--format", "json", program.write(text)]
    report = json.loads(succeeded(program.command(words)).stdout)
    found = json.dumps(report)
    defs = [one for one in _objects(report) if "/h5py/defs." in one["path"]]
    assert [one["state"] for one in defs] == ["hooked"], found[:2000]
    assert defs[0]["patched"] > 20


def _objects(report: object) -> list[dict[str, Any]]:
    """Every loaded object of the doctor's report, wherever it is in it."""
    if isinstance(report, dict):
        inside = [one for value in report.values() for one in _objects(value)]
        return [report, *inside] if "patched" in report and "path" in report else inside
    return [one for value in report for one in _objects(value)] if isinstance(report, list) else []


@pytest.fixture
def in_c(tmp_path: Path) -> Path:
    """tests/csrc/hdf5.c with h5py's library; its slots are bound at the first call."""
    folder = Path(h5py.__file__).parent.parent / "h5py.libs"
    libraries = sorted(folder.glob("libhdf5-*"))
    if not libraries or shutil.which("cc") is None:
        pytest.skip("no compiler, or an h5py without a library of its own")
    binary = tmp_path / "hdf5"
    words = ["cc", "-o", binary, SOURCE, libraries[0], "-Wl,-z,lazy", f"-Wl,-rpath,{folder}"]
    words += [f"-Wl,-rpath-link,{folder}"]
    done = subprocess.run(list(map(str, words)), capture_output=True, text=True)
    if done.returncode:
        pytest.skip(f"h5py's library cannot be linked with: {done.stderr}")
    return binary


def test_a_program_in_c_that_binds_late(program: Runner, in_c: Path) -> None:
    # GIVEN a C program WHEN a Python program starts it with --follow=all
    text = f"import subprocess; print(subprocess.check_output([{str(in_c)!r}, 'c.h5'], text=True))"
    outcome = succeeded(program.traced(text, env={"PYIO_TRACE_FOLLOW": "all"}))
    # THEN its calls are there, and none of them changed errno
    assert outcome.stdout.split() == program.bare(text).stdout.split() == ["7", "0", "77"]
    ops = [row["op"] for row in of_hdf5(outcome)]
    writing = ["H5Fcreate", "H5Dcreate", "H5Dwrite", "H5Dclose", "H5Fclose"]
    assert ops == writing + ["H5Fopen", "H5Dopen", "H5Dread", "H5Dclose", "H5Fclose"]
    [read] = of_hdf5(outcome, op="H5Dread")
    assert (read["bytes_moved"], detail(read)) == (4000, {"dataset": "/numbers", "elements": 1000})


def test_a_library_that_begins_again(program: Runner, in_c: Path) -> None:
    # GIVEN a C program that shuts HDF5 down with a data set open, and then opens another that gets the same id
    text = f"import subprocess; subprocess.run([{str(in_c)!r}, 'c.h5', 'other.h5'], check=True)"
    # WHEN it is traced THEN each data set has its own name
    outcome = succeeded(program.traced(text, env={"PYIO_TRACE_FOLLOW": "all"}))
    written = [(Path(row["path"]).name, detail(row)["dataset"]) for row in of_hdf5(outcome, op="H5Dwrite")]
    assert written == [("c.h5", "/numbers"), ("other.h5", "/others")]


# ---- nothing is noticed


FAILING = """\
import ctypes, glob, h5py, os
def told(call):
    try:
        call()
    except Exception as error:
        print(type(error), getattr(error, "errno", None), error)
told(lambda: h5py.File("missing.h5"))
open("text", "w").write("not HDF5" * 100)
told(lambda: h5py.File("text"))
told(lambda: h5py.File("."))
with h5py.File("f.h5", "w") as file:
    told(lambda: file["none"])
    told(lambda: file.create_dataset("a/b", data=[1]) and file.create_dataset("a/b", data=[1]))
    told(lambda: file.attrs["none"])
    told(lambda: file["a/b"].read_direct(None))
    told(lambda: h5py.h5d.open(file.id, b"a"))
told(lambda: h5py.File("f.h5", "x"))
told(lambda: file["a/b"])
# the library's own account of what was wrong, of calls with ids that are none
h5py._errors.unsilence_errors()
[path] = glob.glob(os.path.dirname(os.path.dirname(h5py.__file__)) + "/h5py.libs/libhdf5-*")
library, word = ctypes.CDLL(path, use_errno=True), ctypes.c_int64
for number in (-1, 0, 77, 5 << 56 | 9999, 1 << 56 | 9999, 3 << 56, (1 << 63) - 1):
    id = word(number)
    print(number, library.H5Dread(id, id, id, id, word(0), None), library.H5Aread(id, id, None), library.H5Dclose(id),
          library.H5Fclose(id), library.H5Idec_ref(id), library.H5Oclose(id), library.H5Dopen2(id, b"x", word(0)),
          library.H5Fflush(id, 0), library.H5Dread_chunk1(id, word(0), None, None, None), ctypes.get_errno())
print(library.H5Fopen(None, 0, word(0)), library.H5Dopen2(word(1), None, word(0)))
"""


def test_failures_are_told_alike(program: Runner, tmp_path: Path) -> None:
    # GIVEN calls that fail, some with ids that are none, while HDF5 prints its errors
    bare = succeeded(program.bare(FAILING))
    (tmp_path / "f.h5").unlink()
    # WHEN they are made traced THEN exceptions, error stacks and errno are those of an untraced run
    outcome = succeeded(program.traced(FAILING))
    own = re.compile(r"thread \d+|time = [^,]*|0x[0-9a-f]{6,}")
    assert own.sub("", outcome.stdout) == own.sub("", bare.stdout)
    assert own.sub("", outcome.stderr) == own.sub("", bare.stderr)
    assert "HDF5-DIAG" in outcome.stderr
    # AND the rows say that they failed
    missing = of_hdf5(outcome, op="H5Fopen", path=tmp_path / "missing.h5")
    assert [row["errno"] for row in missing] == [2]
    assert all(row["errno"] for row in of_hdf5(outcome, op="H5Aread"))


def test_every_slot_is_restored(program: Runner, tmp_path: Path) -> None:
    # GIVEN an open data set WHEN tracing starts and stops in the middle, twice, and files come and go between
    text = """\
    import h5py, pyio_trace
    from pyio_trace.native import core
    with h5py.File("s.h5", "w") as file:
        file.create_dataset("g/d", data=list(range(100)))
    before = core.got_snapshot()
    file = h5py.File("s.h5")
    d = file["g/d"]
    for n in range(2):
        assert d[1] == 1
        with pyio_trace.trace(f"part{n}.pyio"):
            assert d[2 + n] == 2 + n
        assert d[3] == 3
    file.close()
    after = core.got_snapshot()
    print(all(after[slot] == value for slot, value in before.items()), len(before) > 100)
    """
    # (bound at once: else slots are bound to their functions in between)
    outcome = succeeded(program.command([sys.executable, program.write(text)], {"LD_BIND_NOW": "1"}))
    # THEN every slot is as before, and each log has its one read, with its name
    assert outcome.stdout == "True True\n"
    for n in range(2):
        log = Outcome(0, "", "", tmp_path / f"part{n}.pyio")
        [read] = of_hdf5(log, op="H5Dread")
        assert (read["path"], detail(read)) == (str(tmp_path / "s.h5"), {"dataset": "/g/d", "elements": 1})


def test_forked_children(program: Runner, tmp_path: Path) -> None:
    # GIVEN a child that reads through what its parent has opened, and one that opens for itself
    text = """\
    import h5py, os
    with h5py.File("f.h5", "w") as file:
        file.create_dataset("d", data=list(range(100)))
    file = h5py.File("f.h5")
    d = file["d"]
    assert d[1] == 1
    for n in range(2):
        child = os.fork()
        if child == 0:
            if n:
                d = h5py.File("f.h5")["d"]
            assert d[5] == 5
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
    assert d[2] == 2
    """
    # WHEN they read THEN each process has its reads, all of them named
    outcome = succeeded(program.traced(text))
    reads = of_hdf5(outcome, op="H5Dread", path=tmp_path / "f.h5")
    assert len({row["pid"] for row in reads}) == 3
    assert {detail(row)["dataset"] for row in reads} == {"/d"}
    assert len(reads) == 4
    for row in reads:
        assert all(below["pid"] == row["pid"] for below in beneath(outcome, row, "pread"))


# ---- within spans; selection and modes


def test_spans_around_and_totals(made: Runner, tmp_path: Path) -> None:
    # GIVEN a read within a span of the user's WHEN it is traced
    text = """\
    import h5py, pyio_trace
    with h5py.File("data.h5") as file, pyio_trace.span("part"):
        file["group/table"][:, 7]
    """
    outcome = succeeded(made.traced(text))
    # THEN the chain goes from the system call through HDF5 to the span
    [read] = of_hdf5(outcome, op="H5Dread")
    chain = outcome.parents(beneath(outcome, read, "pread")[0])
    assert [row["op"] for row in chain] == ["H5Dread", "Dataset.__getitem__", "part"]
    # AND what HDF5 moved is not added to what the system calls did
    summary = summarize(outcome.log)
    own = [row for row in outcome.select(layer="posix") if row["op"] in ("read", "pread") and row["path"]]
    assert summary.bytes.posix_read == sum(row["bytes_moved"] for row in own if row["path"].endswith("data.h5"))


@pytest.mark.parametrize("rule", ["layer:hdf5", "op:H5Dread", "data.h5"])
def test_what_is_left_out(made: Runner, tmp_path: Path, rule: str) -> None:
    # GIVEN a rule that leaves out the layer, the call, or the file WHEN a column is read
    outcome = succeeded(made.traced(COLUMN, env={"PYIO_TRACE_EXCLUDE": rule}))
    # THEN it is left out, and nothing else is
    assert not of_hdf5(outcome, op="H5Dread")
    assert bool(of_hdf5(outcome, op="H5Fopen")) == (rule == "op:H5Dread")
    preads = outcome.select(op="pread", path=tmp_path / "data.h5")
    assert (len(preads) >= ROWS) == (rule != "data.h5")


@pytest.mark.parametrize("mode", ["profile", "ring"])
def test_modes(made: Runner, mode: str) -> None:
    # GIVEN the other modes WHEN columns are read THEN their reads are there with their bytes
    text = """\
    import h5py
    with h5py.File("data.h5") as file:
        table = file["group/table"]
        for n in range(10):
            table[:, n]
    """
    outcome = succeeded(made.traced(text, env={"PYIO_TRACE_MODE": mode}))
    reads = of_hdf5(outcome, op="H5Dread")
    assert sum(row["calls"] for row in reads) == 10
    assert sum(row["bytes_moved"] for row in reads) == 10 * ROWS * 8
    preads = [row for read in reads for row in beneath(outcome, read, "pread")]
    assert sum(row["calls"] for row in preads) == 10 * ROWS
