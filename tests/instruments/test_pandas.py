"""pandas' readers and writers in the log, compared with what the program and strace know."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.programs import LEAVE, Outcome, Row, Runner, alike, succeeded
from tests.support.transfers import moved_by_posix, straced

pytest.importorskip("pandas", reason="pandas is what is traced here")

FRAME = """
import json, os, sys
import numpy as np, pandas as pd
os.chdir(sys.argv[1])
numbers = np.random.default_rng(0)
frame = pd.DataFrame({"a": np.arange(5000), "b": numbers.random(5000), "c": [f"x{i}" for i in range(5000)]})
"""


def folder(program: Runner) -> Path:
    data = program.folder / "data"
    data.mkdir()
    return data


def detail(row: Row) -> dict[str, Any]:
    return dict(json.loads(row["detail"] or "{}"))


def rows_of(outcome: Outcome, op: str, path: Path) -> list[Row]:
    return [row for row in outcome.select(op=op, path=path) if row["layer"] == "app"]


#: What file objects' methods are called that read, and that write.
READS, WRITES = ("read", "next"), ("write",)


def application_bytes(outcome: Outcome, top: Row, verbs: tuple[str, ...]) -> int:
    """What outermost calls that move bytes moved within one of pandas'."""
    found = 0
    for row in outcome.select(layer="app"):
        above = outcome.parents(row)
        moves = row["bytes_moved"] and any(verb in row["op"] for verb in verbs)
        if moves and top["id"] in (one["id"] for one in above) and not any(one["bytes_moved"] for one in above):
            found += row["bytes_moved"]
    return found


CSV = (
    FRAME
    + """
frame.to_csv("t.csv", index=False)
whole = pd.read_csv("t.csv")
part = pd.read_csv(filepath_or_buffer="t.csv", usecols=["a", "c"], nrows=5000, engine="python")
chunks = [len(chunk) for chunk in pd.read_csv("t.csv", chunksize=2000)]
print(json.dumps([whole.shape, part.shape, chunks, os.path.getsize("t.csv")]))
"""
)


def test_csv(program: Runner) -> None:
    # GIVEN a frame written as text, read whole, in part, and in chunks WHEN traced, under strace
    data = folder(program)
    path = data / "t.csv"
    outcome, truth = straced(program, CSV, data)
    whole, part, chunks, size = json.loads(outcome.stdout)
    # THEN POSIX bytes are strace's: the file was written once, and read three times
    assert moved_by_posix(outcome, lambda name: name == str(path)) == {str(path): truth[str(path)]}
    assert truth[str(path)] == (3 * size, size)
    # AND the calls say what of it
    (written,) = rows_of(outcome, "DataFrame.to_csv", path)
    assert detail(written) == {"rows": 5000, "columns": 3, "index": False}
    one, two, three = rows_of(outcome, "pandas.read_csv", path)
    assert detail(one) == {"rows": whole[0], "columns": whole[1]}
    assert detail(two) == {
        "usecols": ["a", "c"], "nrows": 5000, "engine": "python", "rows": part[0], "columns": part[1]
    }  # fmt: skip
    assert detail(three) == {"chunksize": 2000, "chunks": True}
    got = rows_of(outcome, "TextFileReader.get_chunk", path)
    assert [detail(row).get("rows") for row in got] == [*chunks, None]  # the last: there is no more
    # AND the application's bytes beneath them are the file's
    assert [row["bytes_moved"] for row in (written, one, two, three)] == [None] * 4
    assert application_bytes(outcome, written, WRITES) == size
    assert application_bytes(outcome, one, READS) == application_bytes(outcome, two, READS) == size
    within = sum(application_bytes(outcome, row, READS) for row in (three, *got))
    assert within == size


#: By format: how it is written, how it is read, what the log calls that, what it needs.
FORMATS: dict[str, tuple[str, str, str, str, str]] = {
    "csv.gz": ("frame.to_csv(p)", "pd.read_csv(p)", "DataFrame.to_csv", "pandas.read_csv", ""),
    "json": ("frame.to_json(p, orient='records', lines=True)", "pd.read_json(p, lines=True)", "DataFrame.to_json",
             "pandas.read_json", ""),
    "pickle": ("frame.to_pickle(p)", "pd.read_pickle(p)", "pandas.to_pickle", "pandas.read_pickle", ""),
    "parquet": ("frame.to_parquet(p)", "pd.read_parquet(p)", "DataFrame.to_parquet", "pandas.read_parquet", "pyarrow"),
    "feather": ("frame.to_feather(p)", "pd.read_feather(p)", "DataFrame.to_feather", "pandas.read_feather", "pyarrow"),
    "orc": ("frame.to_orc(p)", "pd.read_orc(p)", "DataFrame.to_orc", "pandas.read_orc", "pyarrow"),
    "dta": ("frame.to_stata(p)", "pd.read_stata(p)", "DataFrame.to_stata", "pandas.read_stata", ""),
    "h5": ("frame.to_hdf(p, key='k')", "pd.read_hdf(p, 'k')", "DataFrame.to_hdf", "pandas.read_hdf", "tables"),
    "xlsx": ("frame.to_excel(p)", "pd.read_excel(p)", "DataFrame.to_excel", "pandas.read_excel", "openpyxl"),
    "xml": ("frame.to_xml(p)", "pd.read_xml(p)", "DataFrame.to_xml", "pandas.read_xml", "lxml"),
    "html": ("frame.to_html(p)", "pd.read_html(p)[0]", "DataFrame.to_html", "pandas.read_html", "lxml"),
    "txt": ("frame.to_csv(p, sep='\\t')", "pd.read_table(p)", "DataFrame.to_csv", "pandas.read_table", ""),
    "fwf": ("frame.to_string(p)", "pd.read_fwf(p)", "DataFrame.to_string", "pandas.read_fwf", ""),
}  # fmt: skip


@pytest.mark.parametrize("kind", FORMATS)
def test_formats(program: Runner, kind: str) -> None:
    # GIVEN a frame written and read in some format
    write, read, write_op, read_op, needs = FORMATS[kind]
    if needs:
        pytest.importorskip(needs, reason=f"pandas needs {needs} for this format")
    data = folder(program)
    path = data / f"t.{kind}"
    text = (
        FRAME
        + f"""
frame = frame.head(200)
p = "t.{kind}"
{write}
back = {read}
print(json.dumps([back.shape, os.path.getsize(p)]))
"""
        + (LEAVE if needs == "pyarrow" else "")
    )
    # WHEN it is traced, under strace
    outcome, truth = straced(program, text, data)
    shape, size = json.loads(outcome.stdout)
    # THEN one outermost call wrote, one read, with the frame's shape
    (written,), (found,) = rows_of(outcome, write_op, path), rows_of(outcome, read_op, path)
    assert detail(written).items() >= {"rows": 200, "columns": 3}.items()
    assert detail(found).get("rows", detail(found).get("tables")) in (shape[0], 1)
    # AND POSIX bytes are strace's; all of the file was written and read, by calls within those two
    assert moved_by_posix(outcome, lambda name: name == str(path)) == {str(path): truth[str(path)]}
    assert truth[str(path)][1] >= 0.99 * size  # HDF5's have holes
    chains = [outcome.parents(row) for row in outcome.select(layer="posix", path=path, bytes_moved=bool)]
    tops = {chain[-1]["id"] if chain else None for chain in chains}
    if needs == "pyarrow":  # whose own threads read, and call Python's file objects
        assert tops & {written["id"], found["id"]}
    else:
        assert tops == {written["id"], found["id"]}


def test_series_and_stores_and_workbooks(program: Runner) -> None:
    pytest.importorskip("tables", reason="pandas needs tables for HDF5")
    pytest.importorskip("openpyxl", reason="pandas needs openpyxl for workbooks")
    data = folder(program)
    text = (
        FRAME
        + """
frame["a"].to_csv("s.csv", compression={"method": "gzip"})
with pd.HDFStore("s.h5", "w") as store:
    store.put("x", frame, format="table")
    assert len(store["x"]) == len(store.select("x", columns=["a"])) == 5000
with pd.ExcelWriter("u.xlsx") as writer:
    frame.head(5).to_excel(writer, sheet_name="one")
with pd.ExcelFile("u.xlsx") as book:
    book.parse("one")
"""
    )
    outcome = succeeded(program.traced(text, data))
    (series,) = rows_of(outcome, "DataFrame.to_csv", data / "s.csv")
    assert detail(series) == {"rows": 5000, "columns": 1, "object": "Series", "compression": "gzip"}
    (put,) = rows_of(outcome, "HDFStore.put", data / "s.h5")
    assert detail(put) == {"key": "x", "rows": 5000, "columns": 3, "format": "table"}
    (select,) = rows_of(outcome, "HDFStore.select", data / "s.h5")
    assert detail(select) == {"key": "x", "names": ["a"], "rows": 5000, "columns": 1}
    assert [detail(row)["rows"] for row in rows_of(outcome, "HDFStore.get", data / "s.h5")] == [5000]
    (sheet,) = rows_of(outcome, "DataFrame.to_excel", data / "u.xlsx")
    assert detail(sheet) == {"rows": 5, "columns": 3, "sheet_name": "one"}
    (parsed,) = rows_of(outcome, "ExcelFile.parse", data / "u.xlsx")
    assert detail(parsed) == {"key": "one", "rows": 5, "columns": 4}
    for op in ("pandas.HDFStore", "HDFStore.close", "pandas.ExcelFile"):
        assert {row["path"] for row in outcome.select(op=op)} <= {str(data / "s.h5"), str(data / "u.xlsx")}


def test_paths_and_memory(program: Runner) -> None:
    # GIVEN the ways to name a file, and text in memory
    data = folder(program)
    text = (
        FRAME
        + """
import io, pathlib
os.environ["HOME"] = os.getcwd()
frame.to_csv(pathlib.Path("t.csv"))
pd.read_csv("~/t.csv")
pd.read_csv(f"file://{os.getcwd()}/t.csv")
with open("t.csv") as file:
    pd.read_csv(file)
pd.read_csv("t.csv", memory_map=True)
print("memory", flush=True)
pd.read_csv(io.StringIO(frame.to_csv()))
assert repr(frame)
"""
    )
    outcome = succeeded(program.traced(text, data))
    assert len(rows_of(outcome, "DataFrame.to_csv", data / "t.csv")) == 1
    assert len(rows_of(outcome, "pandas.read_csv", data / "t.csv")) == 4
    # THEN what is in memory is in no row
    assert len(outcome.select(op="pandas.read_csv")) == 4 and len(outcome.select(op="DataFrame.to_csv")) == 1
    assert not outcome.select(op="DataFrame.to_string")


def test_errors_warnings_and_lifetimes_are_as_before(program: Runner) -> None:
    data = folder(program)
    text = (
        FRAME
        + """
import gc, traceback, warnings, weakref, inspect, pickle
frame.to_csv("t.csv")
open("bad.csv", "w").write("a,b\\n1,2,3\\n1,2\\n" * 3)
for make in (lambda: pd.read_csv("absent.csv"), lambda: pd.read_csv(),
             lambda: pd.read_csv("t.csv", chunksize="x"),
             lambda: pd.read_csv("bad.csv"), lambda: frame.to_csv("no/such/folder.csv"), lambda: frame.to_parquet(3),
             lambda: pd.read_json("t.csv"), lambda: pd.read_pickle("t.csv"),
             lambda: pd.read_csv("t.csv", usecols=["z"]),
             lambda: pd.DataFrame.to_csv(), lambda: next(iter(pd.read_csv("t.csv", iterator=True, nrows=0)))):
    try:
        make()
    except BaseException:
        print(traceback.format_exc())
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    pd.read_csv("t.csv", sep="::|,", nrows=3)
print([(str(one.message), one.filename, one.lineno) for one in caught])
reader = pd.read_csv("t.csv", chunksize=10)
gone = weakref.ref(reader)
reader.close()
del reader
gc.collect()
assert gone() is None
again = pickle.loads(pickle.dumps(pd.read_csv))
print(again is pd.read_csv, inspect.signature(again), again.__name__)
"""
    )
    alike(program.traced(text, data), program.bare(text, data))


def test_share_of_operations_whose_span_is_known(program: Runner) -> None:
    # GIVEN the script of docs/reference/instruments.md
    data = folder(program)
    outcome = succeeded(program.traced(CSV, data))
    rows = [row for row in outcome.select(layer="posix") if row["path"] and row["path"].startswith(f"{data}/")]
    known = [row for row in rows if row["link"] in ("thread", "context", "descriptor")]
    # THEN nearly all operations on its files have a span for sure
    assert len(known) >= 0.95 * len(rows), [(row["op"], row["path"], row["link"]) for row in rows if row not in known]


def test_what_a_pickle_holds_is_not_asked(program: Runner) -> None:
    # GIVEN pickles of things that are no frames, one of a class that tells when it is asked something
    text = """
    import pandas as pd
    class Told:
        def __getattr__(self, name):
            if not name.startswith("__"):
                print("asked for", name)
            raise AttributeError(name)
        def __getstate__(self):
            return {}
        def __setstate__(self, state):
            pass
    for number, thing in enumerate([(1, 2), {3}, "text", 4, Told(), pd.DataFrame({"a": [1, 2]}), pd.Series([1])]):
        pd.to_pickle(thing, f"{number}.pkl")
        print(type(pd.read_pickle(f"{number}.pkl")).__name__)
    """
    # WHEN they are read THEN no method of theirs is called and nothing fails; the shape of frames is recorded
    outcome = succeeded(alike(program.traced(text), program.bare(text)))
    assert outcome.log.losses() == {}
    told = [detail(row) for row in outcome.select(op="pandas.read_pickle")]
    assert told == [{}] * 5 + [{"rows": 2, "columns": 1}, {"rows": 1, "columns": 1}]
