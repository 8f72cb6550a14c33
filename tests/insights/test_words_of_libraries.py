"""Remedies are in the words of the library in use, and rules that fit one library only leave the others alone."""

from __future__ import annotations

import sys
from dataclasses import replace

import pytest

from pyio_trace.analysis.summary.summarize import summarize
from pyio_trace.insights.finding import Finding
from tests.support.findings import evidence_of, findings_of, none, only, without_times
from tests.support.programs import Outcome, Runner, succeeded

pytestmark = pytest.mark.once

#: Little is read again, and decoding a text is not what these tests are about.
ANY = without_times({"read-again": {"bytes": 1000}, "text-decoding": {"share": 2}})


def remedy(found: list[Finding], slug: str) -> str:
    """The code that a finding advises."""
    advised = only(found, slug).remedy
    assert advised is not None
    return str(advised.after)


# ---- sizes of accesses


def test_a_text_file_gets_no_buffer_that_would_not_help(program: Runner) -> None:
    # GIVEN a text file read line by line, 8 KiB at a time whatever its buffer
    text = """
with open("x.txt", "w") as f: f.writelines(f"line number {n}\\n" for n in range(600_000))
with open("x.txt") as f:
    for line in f: pass
"""
    outcome = program.traced(text)
    reads = outcome.select(op="read", site=lambda site: ":4:" in (site or ""))
    (finding,) = [one for one in findings_of(outcome, ANY) if one.sites[:1] and one.sites[0].line == 4]
    # WHEN its remedy is followed THEN it makes fewer than a tenth of the reads
    assert finding.slug == "small-accesses" and finding.remedy is not None
    assert "'rb', buffering=1 << 20" in finding.remedy.after
    followed = program.traced(text.replace('open("x.txt") as', 'open("x.txt", "rb", buffering=1 << 20) as'))
    fewer = followed.select(op="read", site=lambda site: ":4:" in (site or ""))
    assert len(fewer) * 10 < len(reads)


def test_pages_of_parquet_are_no_small_writes(program: Runner) -> None:
    # GIVEN a table that is written well: row groups of 50,000 rows, in pages of some 40 KiB
    pytest.importorskip("pyarrow")
    text = """
import numpy, pyarrow, pyarrow.parquet
for n in range(10):
    table = pyarrow.table({f"c{i}": numpy.random.default_rng(i).random(100_000) for i in range(8)})
    pyarrow.parquet.write_table(table, f"t{n}.parquet", row_group_size=50_000)
"""
    outcome = succeeded(program.traced(text))
    assert len(outcome.select(op="write", layer="posix")) > 1000
    # THEN nobody is told to buffer them, nor to pad them
    found = findings_of(outcome, ANY)
    assert none(found, "small-accesses") and none(found, "unaligned-accesses")


def of_ranks(program: Runner, text: str, ranks: int) -> Outcome:
    """A program run once for each rank of a parallel job, with a log each."""
    script = program.write(text)
    (program.folder / "logs").mkdir()
    for rank in map(str, range(ranks)):
        command = [sys.executable, "-P", "-m", "pyio_trace", "-q", "-o", f"logs/{rank}.pyio", script]
        outcome = succeeded(program.command(command, env={"PMI_RANK": rank, "PMI_SIZE": str(ranks)}))
    return replace(outcome, path=program.folder / "logs")


@pytest.mark.parametrize(
    ("work", "advice"),
    [("numpy.save('x.npy', numpy.zeros(3 << 20))", "Write_at_all"), ("numpy.load(input)", "part = f['x']")],
)
def test_one_rank_that_does_all(program: Runner, work: str, advice: str) -> None:
    # GIVEN a job in which rank 0 writes everything, or reads it WHEN findings are made THEN the remedy is for that
    numpy = pytest.importorskip("numpy")
    numpy.save(program.folder / "input.npy", numpy.zeros(3 << 20))
    text = f"import numpy, os\ninput = 'input.npy'\nif os.environ['PMI_RANK'] == '0': {work}\n"
    assert advice in remedy(findings_of(of_ranks(program, text, 3), ANY), "one-does-all")


def test_small_writes_of_ranks(program: Runner) -> None:
    # GIVEN two processes of a parallel job that write 1 KiB of one file by turns, without Python's file objects
    text = """
import os
rank = int(os.environ["PMI_RANK"])
f = os.open("shared.bin", os.O_CREAT | os.O_WRONLY)
for n in range(1500): os.pwrite(f, bytes(1024), (2 * n + rank) * 1024)
"""
    both = of_ranks(program, text, 2)
    found = findings_of(both, ANY)
    # THEN they are told of collective calls, AND it is one file, although each rank's log numbers it anew
    assert "Write_at_all" in remedy(found, "shared-file")
    overview = summarize(both.log).overview
    assert overview is not None
    (shared,) = [one for one in overview.files if one.pattern.endswith("/shared.bin")]
    assert (shared.files, shared.opens, shared.written) == (1, 2, 3000 * 1024)


# ---- reading again


@pytest.mark.parametrize(
    ("modules", "text", "advice"),
    [
        ("h5py", """
import h5py, numpy
with h5py.File("x.h5", "w") as f: f["x"] = numpy.arange(50_000.0)
for n in range(8):
    with h5py.File("x.h5") as f: f["x"][:]
""", "f['x'][:]"),
        ("netCDF4", """
import netCDF4, numpy
with netCDF4.Dataset("x.nc", "w") as f:
    f.createDimension("x", 50_000)
    f.createVariable("x", "f8", ("x",))[:] = numpy.arange(50_000.0)
for n in range(8):
    with netCDF4.Dataset("x.nc") as f: f["x"][:]
""", "dataset['x'][:]"),
        ("pyarrow", """
import numpy, pyarrow, pyarrow.parquet
pyarrow.parquet.write_table(pyarrow.table({"x": numpy.random.random(50_000)}), "x.parquet")
for n in range(8): pyarrow.parquet.read_table("x.parquet")
""", "pq.read_table(path, columns="),
        ("dask.dataframe", """
import dask, dask.dataframe
with open("x.csv", "w") as f: f.write("a,b\\n" + "1,2\\n" * 20_000)
frame = dask.dataframe.read_csv("x.csv")
def total(column): return column.sum().compute(scheduler="sync")
for n in range(8): total(frame.a)
""", "dask.compute("),
    ],
)  # fmt: skip
def test_what_is_read_again(program: Runner, modules: str, text: str, advice: str) -> None:
    # GIVEN a library with which a file is read eight times WHEN findings are made THEN they speak of this library
    pytest.importorskip(modules)
    outcome = succeeded(program.traced(text))
    finding = only(findings_of(outcome, ANY), "read-again")
    assert finding.remedy is not None and advice in finding.remedy.after
    assert "by another process" not in finding.evidence[0].text


def test_a_line_break_in_the_path_of_a_netcdf_file(program: Runner) -> None:
    pytest.importorskip("netCDF4")
    text = """
import netCDF4, numpy, os
os.mkdir("two\\nlines")
name = "two\\nlines/x.nc"
with netCDF4.Dataset(name, "w") as f:
    f.createDimension("x", 50_000)
    f.createVariable("x", "f8", ("x",))[:] = numpy.arange(50_000.0)
for n in range(8):
    with netCDF4.Dataset(name) as f: f["x"][:]
"""
    assert "dataset['x'][:]" in remedy(findings_of(program.traced(text), ANY), "read-again")


@pytest.mark.parametrize("library", ["h5py", "netCDF4"])
def test_a_netcdf_file_that_is_opened_for_each_item(program: Runner, library: str) -> None:
    netcdf = pytest.importorskip("netCDF4")
    with netcdf.Dataset(program.folder / "x.nc", "w") as file:
        file.createDimension("x", 100)
        file.createVariable("x", "f8", ("x",))[:] = 1
    # GIVEN a file of netCDF that is opened for each item, by netCDF4 or by h5py
    opened = {"h5py": "h5py.File('x.nc')", "netCDF4": "netCDF4.Dataset('x.nc')"}[library]
    text = f"import {library}\nfor n in range(100):\n    with {opened} as f: f['x'][n]\n"
    # THEN the remedy is code for the library that opens it
    assert f"{library}." in remedy(findings_of(program.traced(text)), "hdf5-reopen-per-item")


def test_the_line_of_a_library_that_reads_in_its_own_threads(program: Runner) -> None:
    # GIVEN a dataset of files, the first of which is opened at line 6, and all of which are read at line 7
    pytest.importorskip("pyarrow")
    text = """
import numpy, os, pyarrow, pyarrow.dataset, pyarrow.parquet
os.mkdir("d")
for n in range(4): pyarrow.parquet.write_table(pyarrow.table({"x": numpy.random.random(200_000)}), f"d/{n}.parquet")
for n in range(4):
    data = pyarrow.dataset.dataset("d")
    data.to_table()
"""
    outcome = succeeded(program.traced(text))
    reads = outcome.select(op=("pread", "read"), path=lambda path: (path or "").endswith(".parquet"))
    assert {row["site"] for row in reads if row["bytes_moved"] > 100_000} == {None}
    # THEN the finding is at the line that reads them
    assert only(findings_of(outcome, ANY), "read-again").sites[0].line == 7


def test_small_files_of_pandas(program: Runner) -> None:
    # GIVEN many small Parquet files that pandas writes, without Dask
    pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    outcome = program.traced("""
import pandas
frame = pandas.DataFrame({"x": range(10)})
for n in range(30): frame.to_parquet(f"{n}.parquet")
""")
    settings = without_times({"small-files": {"files": 20}})
    # THEN the remedy is code of pandas
    finding = only(findings_of(outcome, settings), "small-files")
    assert finding.remedy is not None and finding.remedy.library == "pandas"
    assert "repartition" not in finding.remedy.after


# ---- HDF5


APPEND = """
import h5py, numpy
row = numpy.arange(8.0)
with h5py.File("log.h5", "w") as f:
    d = f.create_dataset("d", (0, 8), "f8", maxshape=(None, 8), chunks=(256, 8))
"""


def test_rows_that_are_appended_one_by_one(program: Runner) -> None:
    pytest.importorskip("h5py")
    one_by_one = """
    for n in range(1200):
        d.resize(n + 1, axis=0)
        d[n] = row
"""
    outcome = succeeded(program.traced(APPEND + one_by_one))
    finding = only(findings_of(outcome, ANY), "hdf5-item-per-call")
    assert (finding.evidence[0].values["calls"], finding.evidence[0].values["asked"]) == (1200, 1200 * 64)
    assert finding.sites[0].line == 9 and len(evidence_of(finding, outcome.log)) == 1200
    # AND the remedy as it is written leaves nothing to find
    assert finding.remedy is not None
    advised = finding.remedy.after.replace("dataset", "d")
    blocks = "    items = [row] * 1200\n" + "".join(f"    {line}\n" for line in advised.split("\n"))
    again = succeeded(program.traced(APPEND + blocks + "    assert d.shape == (1200, 8) and (d[-1] == row).all()\n"))
    assert none(findings_of(again, ANY), "hdf5-item-per-call")


def test_a_dataset_for_each_item(program: Runner) -> None:
    pytest.importorskip("h5py")
    outcome = succeeded(
        program.traced("""
import h5py, numpy
items = {f"item{n}": numpy.arange(n % 7 + 1.0) for n in range(1100)}
with h5py.File("x.h5", "w") as f:
    for name, item in items.items():
        f.create_dataset(name, data=item)
""")
    )
    found = findings_of(outcome, ANY)
    finding = only(found, "hdf5-many-objects")
    assert (finding.evidence[0].values["objects"], finding.sites[0].line) == (1100, 6)
    assert none(found, "hdf5-item-per-call")
    # AND the remedy runs as it is written, and leaves nothing to find
    assert finding.remedy is not None
    advised = "".join(f"    {line}\n" for line in finding.remedy.after.split("\n"))
    again = succeeded(
        program.traced(f"""
import h5py, numpy
items = {{f"item{{n}}": numpy.arange(n % 7 + 1.0) for n in range(1100)}}
with h5py.File("x.h5", "w") as f:
{advised}
    begin, end = f["starts"][6], f["starts"][7]
    assert (f["values"][begin:end] == items["item6"]).all()
""")
    )
    assert none(findings_of(again, ANY), "hdf5-many-objects")


# ---- text


def test_readers_that_cannot_leave_columns_out(program: Runner) -> None:
    # GIVEN the same table as CSV, which pandas maps into memory, and as JSON
    pytest.importorskip("pandas")
    outcome = succeeded(
        program.traced("""
import pandas
frame = pandas.DataFrame({"a": range(2000), "b": range(2000)})
frame.to_csv("x.csv", index=False); frame.to_json("x.json")
pandas.read_csv("x.csv", memory_map=True)
pandas.read_json("x.json")
""")
    )
    found = {one.sites[0].line: one for one in findings_of(outcome, ANY) if one.slug == "parse-bound"}
    # THEN usecols= is advised for CSV only, AND no rate is made of what went through the mapping
    assert "usecols" in str(found[5].remedy) and "usecols" not in str(found[6].remedy)
    assert "from the mapped file" in found[5].evidence[0].text and "/s" not in found[5].evidence[0].text
    assert "/s" in found[6].evidence[0].text


@pytest.mark.parametrize(
    ("modules", "text", "library"),
    [
        ("polars", """
import polars
polars.DataFrame({f"c{n}": range(200_000) for n in range(8)}).write_csv("x.csv")
for n in range(3): polars.read_csv("x.csv")
""", "polars"),
        ("dask.dataframe", """
import dask.dataframe, numpy, pandas
pandas.DataFrame({f"c{n}": numpy.random.random(100_000) for n in range(9)}).to_parquet("x.parquet")
print(dask.dataframe.read_parquet("x.parquet").persist(scheduler="sync").c3.sum().compute(scheduler="sync"))
""", "dask"),
        ("polars", """
import numpy, polars
polars.DataFrame({f"c{n}": numpy.random.random(100_000) for n in range(9)}).write_parquet("x.parquet")
print(polars.read_parquet("x.parquet")["c3"].sum())
""", "polars"),
    ],
)  # fmt: skip
def test_columns_that_nobody_chose(program: Runner, modules: str, text: str, library: str) -> None:
    # GIVEN a table of which all columns are parsed or read THEN the line is known, and the remedy is the library's
    pytest.importorskip(modules)
    found = findings_of(succeeded(program.traced(text)), without_times({"parquet-all-columns": {"bytes": 0}}))
    (finding,) = [one for one in found if one.slug in ("parquet-all-columns", "parse-bound")]
    assert finding.sites[0].line == 4 and finding.remedy is not None and finding.remedy.library == library
    # AND what is read in blocks has a rate, although polars maps the file as well
    assert finding.slug != "parse-bound" or "/s, " in finding.evidence[0].text


# ---- metadata


def test_questions_between_reads_are_no_polling(program: Runner) -> None:
    # GIVEN a line that looks for files, and reads them, each time
    pytest.importorskip("duckdb")
    pytest.importorskip("pyarrow")
    outcome = succeeded(
        program.traced("""
import duckdb, pyarrow, pyarrow.parquet
for n in range(3): pyarrow.parquet.write_table(pyarrow.table({"x": range(100_000)}), f"{n}.parquet")
database = duckdb.connect()
for n in range(40): database.execute("SELECT avg(x) FROM '*.parquet' WHERE x % 40 = ?", [n]).fetchall()
""")
    )
    assert len(outcome.select(op=("stat", "fstatat", "statx", "opendir"), path=lambda path: path is not None)) >= 40
    assert none(findings_of(outcome), "polling")


def test_questions_after_the_last_open_are_not_before_it(program: Runner) -> None:
    # GIVEN 600 files that are written, and measured when all are WHEN findings are made THEN nobody asked first
    text = """
import os
for n in range(600):
    with open(f"{n}.bin", "wb") as f: f.write(b"x")
print(sum(os.path.getsize(f"{n}.bin") for n in range(600)))
"""
    assert none(findings_of(succeeded(program.traced(text))), "ask-before-open")


# ---- HDF5 in threads and tasks

NETCDF = """
import netCDF4, numpy
with netCDF4.Dataset("x.nc", "w") as f:
    for name, size in (("n", 120), ("m", 40_000)): f.createDimension(name, size)
    x = f.createVariable("x", "f8", ("n", "m"), zlib=True, chunksizes=(1, 40_000))
    x[:] = numpy.random.default_rng(1).random((120, 40_000))
x = netCDF4.Dataset("x.nc")["x"]
"""
IN_THREADS = """
import threading
lock = threading.Lock()
def read(first):
    for n in range(first, first + 60):
        with lock: x[n]
threads = [threading.Thread(target=read, args=(first,)) for first in (0, 60)]
for one in threads: one.start()
for one in threads: one.join()
"""
IN_TASKS = """
import dask.array, time
def later(block):    # leaves the lock to the other thread
    time.sleep(0.002)
    return block
array = dask.array.from_array(x, chunks=(1, 40_000), name="x", lock=True).map_blocks(later, dtype="f8")
array.sum().compute(scheduler="threads", num_workers=2)
"""
#: How often threads are switched is the machine's; with a lock, their calls are never at once.
IN_TURNS = replace(ANY, limits={**ANY.limits, "threads-in-turns": {"switches": 0, "share": 0, "at_once": 0}})


@pytest.mark.parametrize(("text", "advice"), [(IN_THREADS, "ProcessPoolExecutor("), (IN_TASKS, "threads_per_worker=1")])
def test_threads_that_read_hdf5_by_turns(program: Runner, text: str, advice: str) -> None:
    pytest.importorskip("netCDF4")
    pytest.importorskip("dask.array")
    # GIVEN two threads that read a file of HDF5 under the lock that its library needs WHEN findings are made
    found = findings_of(program.traced(NETCDF + text), IN_TURNS)
    # THEN they are not told to take it later, but to be processes
    assert advice in remedy(found, "threads-in-turns")


ARRAY = """
import dask.array, h5py, numpy
with h5py.File("x.EXT", "w") as f:
    f.create_dataset("x", data=numpy.random.default_rng(1).random((120, 4_000)), chunks=(1, 4_000))
f = h5py.File("x.EXT")
dask.array.from_array(f["x"], chunks=(1, 4_000), name="x").sum().compute(scheduler="threads", num_workers=2)
"""


@pytest.mark.parametrize(("ext", "advice"), [("h5", "da.from_array("), ("nc", "xr.open_mfdataset(")])
def test_small_tasks_of_arrays(program: Runner, ext: str, advice: str) -> None:
    pytest.importorskip("h5py")
    pytest.importorskip("dask.array")
    # GIVEN a task for each row of an array WHEN findings are made THEN the remedy is larger chunks, and no table's
    assert advice in remedy(findings_of(program.traced(ARRAY.replace("EXT", ext)), ANY), "small-partitions")
