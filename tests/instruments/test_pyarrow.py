"""Arrow's reading and writing in the log, compared with what the program and strace know."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.programs import Outcome, Row, Runner, alike, succeeded
from tests.support.transfers import moved_by_posix, straced

pytest.importorskip("pyarrow", reason="pyarrow is what is traced here")

#: 20000 rows of four columns that do not compress, in four row groups.
TABLE = """
import json, os, sys
import numpy as np, pyarrow as pa
os.chdir(sys.argv[1])
numbers = np.random.default_rng(0)
table = pa.table({f"c{i}": numbers.integers(0, 1 << 62, 20000) for i in range(4)})
facts = {}
"""
SAY = "\nprint(json.dumps(facts))\n"

PARQUET = (
    TABLE
    + """
import pyarrow.parquet as pq
pq.write_table(table=table, where="t.parquet", row_group_size=5000, compression="zstd")
def stored(groups, columns):
    meta = pq.read_metadata("t.parquet")
    return sum(meta.row_group(g).column(c).total_compressed_size for g in groups for c in columns)
facts["every"], facts["c1"] = stored(range(4), range(4)), stored(range(4), [1])
facts["group"], facts["part"] = stored([2], range(4)), stored([0, 3], [0, 2])
facts["size"] = os.path.getsize("t.parquet")
file = pq.ParquetFile("t.parquet", pre_buffer=False)
facts["read"] = file.read(columns=["c1"]).nbytes
facts["read_row_group"] = file.read_row_group(2).nbytes
facts["read_row_groups"] = file.read_row_groups([0, 3], columns=["c0", "c2"]).nbytes
file.close()
facts["read_table"] = pq.read_table("t.parquet").nbytes
with pq.ParquetWriter("w.parquet", table.schema) as writer:
    writer.write_table(table)
    writer.write_batch(table.to_batches()[0])
facts["written"] = table.nbytes
"""
    + SAY
)


def folder(program: Runner) -> Path:
    data = program.folder / "data"
    data.mkdir()
    return data


def detail(row: Row) -> dict[str, Any]:
    return dict(json.loads(row["detail"] or "{}"))


def one(outcome: Outcome, op: str, path: Path) -> Row:
    """The outermost row of that operation on that file; there is only one."""
    rows = [row for row in outcome.select(op=op, path=path) if row["layer"] == "app"]
    outer = [row for row in rows if op not in (above["op"] for above in outcome.parents(row))]
    assert len(outer) == 1, f"{op}: {rows}"
    return outer[0]


def read_during(outcome: Outcome, span: Row, path: Path) -> int:
    """Bytes that POSIX calls, on whatever thread, read from a file while a span was open; the program does no more."""
    end = span["time"] + span["duration"]
    rows = [row for row in outcome.select(layer="posix", path=path) if span["time"] <= row["time"] < end]
    return sum(row["bytes_moved"] for row in rows if row["op"] in ("read", "pread"))


def test_parquet(program: Runner) -> None:
    # GIVEN a program that writes Parquet and reads columns and row groups of it WHEN traced, under strace
    data = folder(program)
    path = data / "t.parquet"
    outcome, truth = straced(program, PARQUET, data)
    facts = json.loads(outcome.stdout)
    # THEN POSIX bytes are strace's, and what was written is the file
    ours = moved_by_posix(outcome, lambda name: name.startswith(str(data)))
    assert ours == {name: both for name, both in truth.items() if name.startswith(str(data))}
    assert ours[str(path)][1] == facts["size"]
    # AND each call has the table's bytes, and the file's in its details
    written = one(outcome, "pyarrow.parquet.write_table", path)
    assert written["bytes_moved"] == facts["written"]
    assert detail(written) == {"rows": 20000, "columns": 4, "compression": "zstd", "row_group_size": 5000}
    closed = one(outcome, "ParquetWriter.close", path)
    assert detail(closed)["stored"] == facts["every"] and detail(closed)["row_groups"] == 4
    wanted = {
        "read": {"row_groups": 4, "columns": 1, "stored": facts["c1"], "names": ["c1"], "rows": 20000},
        "read_row_group": {"row_groups": 1, "columns": 4, "stored": facts["group"], "groups": [2], "rows": 5000},
        "read_row_groups": {"row_groups": 2, "columns": 2, "stored": facts["part"], "names": ["c0", "c2"],
                            "groups": [0, 3], "rows": 10000},
    }  # fmt: skip
    for name, details in wanted.items():
        row = one(outcome, f"ParquetFile.{name}", path)
        assert detail(row) == details and row["bytes_moved"] == facts[name]
        # AND `stored` is what POSIX read for it
        assert read_during(outcome, row, path) == details["stored"]
    whole = one(outcome, "pyarrow.parquet.read_table", path)
    assert whole["bytes_moved"] == facts["read_table"] and detail(whole)["rows"] == 20000


def test_what_is_written_has_the_call_that_wrote_it(program: Runner) -> None:
    data = folder(program)
    outcome = succeeded(program.traced(PARQUET, data))
    # Arrow writes on the calling thread
    for name, top in (("t", "pyarrow.parquet.write_table"), ("w", None)):
        writes = outcome.select(op="write", path=data / f"{name}.parquet")
        assert writes and all(row["link"] == "thread" for row in writes)
        tops = {outcome.parents(row)[-1]["op"] for row in writes}
        every = {"pyarrow.parquet.ParquetWriter", "ParquetWriter.write_table", "ParquetWriter.write_batch"}
        assert tops == {top} if top else tops <= {*every, "ParquetWriter.close"}
    rows = outcome.select(op=("ParquetWriter.write_table", "ParquetWriter.write_batch"))
    facts = json.loads(outcome.stdout)
    direct = [row["op"] for row in rows if not outcome.parents(row)]
    assert direct == ["ParquetWriter.write_table", "ParquetWriter.write_batch"]
    assert {row["bytes_moved"] for row in rows} == {facts["written"]}


#: Of each format: how it is written, how it is read, and what the log calls that.
FORMATS = {
    "csv": ("import pyarrow.csv as m; m.write_csv(table, p)", "m.read_csv(p)", "pyarrow.csv.write_csv",
            "pyarrow.csv.read_csv"),
    "feather": ("import pyarrow.feather as m; m.write_feather(table, p)", "m.read_table(p)",
                "pyarrow.feather.write_feather", "pyarrow.feather.read_table"),
    "orc": ("import pyarrow.orc as m; m.write_table(table, p)", "m.read_table(p)", "pyarrow.orc.write_table",
            "pyarrow.orc.read_table"),
    "json": ("import pyarrow.json as m; open(p, 'w').write('{\"a\": 1}\\n' * 20000); table = m.read_json(p)",
             "m.read_json(p)", None, "pyarrow.json.read_json"),
    "ipc": ("w = pa.ipc.new_file(p, table.schema); w.write_table(table); w.close()",
            "pa.ipc.open_file(p).read_all()", "RecordBatchWriter.write_table", "RecordBatchFileReader.read_all"),
    "stream": ("w = pa.ipc.new_stream(p, table.schema); w.write_table(table); w.close()",
               "pa.ipc.open_stream(pa.OSFile(p)).read_all()", "RecordBatchWriter.write_table",
               "RecordBatchReader.read_all"),
}  # fmt: skip


@pytest.mark.parametrize("kind", FORMATS)
def test_formats(program: Runner, kind: str) -> None:
    # GIVEN a table that is written and read whole
    write, read, write_op, read_op = FORMATS[kind]
    data = folder(program)
    path = data / f"t.{kind}"
    text = (
        TABLE
        + f"""
p = "t.{kind}"
{write}
facts["written"], facts["size"] = table.nbytes, os.path.getsize(p)
begin = pa.total_allocated_bytes()
facts["read"] = ({read}).nbytes
"""
        + SAY
    )
    # WHEN it is traced, under strace
    outcome, truth = straced(program, text, data)
    facts = json.loads(outcome.stdout)
    # THEN both calls have the table's bytes, its shape, and the file
    if write_op is not None:
        row = one(outcome, write_op, path)
        assert row["bytes_moved"] == facts["written"] and detail(row)["rows"] == 20000
    row = [row for row in outcome.select(op=read_op, path=path) if row["layer"] == "app"][-1]
    assert row["bytes_moved"] == facts["read"] and detail(row)["rows"] == 20000
    # AND POSIX bytes are strace's: the file written once, and all of it read, some of it twice (headers)
    assert moved_by_posix(outcome, lambda name: name == str(path))[str(path)] == truth[str(path)]
    assert truth[str(path)][1] == facts["size"]
    assert truth[str(path)][0] >= facts["size"] * 0.99


def test_what_is_mapped_was_not_read(program: Runner) -> None:
    # GIVEN tables in Arrow's own format, whose files are mapped: of 640,000 B only the metadata is looked at
    data = folder(program)
    text = (
        TABLE
        + """
import pyarrow.feather as feather
feather.write_feather(table, "t.feather", compression="uncompressed")
with pa.ipc.new_file("t.ipc", table.schema) as writer, pa.ipc.new_stream("t.stream", table.schema) as stream:
    writer.write_table(table); stream.write_table(table)
before = pa.total_allocated_bytes()
mapped = [feather.read_table("t.feather", memory_map=True), feather.read_table(pa.memory_map("t.feather")),
          pa.ipc.open_file(pa.memory_map("t.ipc")).read_all(), pa.ipc.open_stream(pa.memory_map("t.stream")).read_all()]
assert pa.total_allocated_bytes() - before < 100_000
"""
    )
    outcome = succeeded(program.traced(text, data))
    # THEN no call says that it moved the table, and all have its shape and file
    reads = ("pyarrow.feather.read_table", "RecordBatchFileReader.read_all", "RecordBatchReader.read_all")
    rows = [row for row in outcome.select(op=reads) if not any(up["op"] in reads for up in outcome.parents(row))]
    names = ["t.feather", "t.feather", "t.ipc", "t.stream"]
    assert [(Path(row["path"]).name, row["bytes_moved"], detail(row)["rows"]) for row in rows] == [
        (name, None, 20000) for name in names
    ]
    # AND neither is more read
    assert sum(row["bytes_moved"] for row in outcome.select(layer="posix", op=("read", "pread"))
               if Path(row["path"]).name in names) < 100_000  # fmt: skip


DATASET = (
    TABLE
    + """
import pyarrow.dataset as ds, pyarrow.parquet as pq
ds.write_dataset(table, "d", format="parquet", max_rows_per_file=5000, max_rows_per_group=5000)
found = ds.dataset("d")
facts["table"] = found.to_table(columns=["c1"]).nbytes
facts["head"] = found.head(10).num_rows
facts["count"] = found.count_rows()
facts["batches"] = sum(batch.num_rows for batch in found.scanner(columns=["c2"]).to_reader())
facts["fragment"] = next(found.get_fragments()).to_table().nbytes
facts["read_table"] = pq.read_table("d").nbytes
facts["written"] = table.nbytes
"""
    + SAY
)


def test_datasets(program: Runner) -> None:
    data = folder(program)
    outcome, truth = straced(program, DATASET, data)
    facts = json.loads(outcome.stdout)
    inside = str(data / "d")
    assert moved_by_posix(outcome, lambda name: name.startswith(inside)) == {
        name: both for name, both in truth.items() if name.startswith(inside)
    }
    written = one(outcome, "pyarrow.dataset.write_dataset", data / "d")
    assert written["bytes_moved"] == facts["written"] and detail(written)["format"] == "parquet"
    assert detail(outcome.select(op="pyarrow.dataset.dataset")[0]) == {"files": 4}
    first = [row for row in outcome.select(op="Dataset.to_table") if not outcome.parents(row)]
    assert [row["bytes_moved"] for row in first] == [facts["table"]]
    assert detail(first[0]) == {"names": ["c1"], "rows": 20000, "columns": 1}
    assert detail(outcome.select(op="Dataset.head")[0])["rows"] == facts["head"] == 10
    assert detail(outcome.select(op="Dataset.count_rows")[0])["rows"] == facts["count"] == 20000
    batches = outcome.select(op="RecordBatchReader.read_next_batch", path=data / "d")
    assert sum(detail(row).get("rows", 0) for row in batches) == facts["batches"] == 20000
    fragment = [row for row in outcome.select(op="Fragment.to_table") if not outcome.parents(row)]
    assert [(row["bytes_moved"], row["path"]) for row in fragment] == [(facts["fragment"], f"{inside}/part-0.parquet")]
    whole = outcome.select(op="pyarrow.parquet.read_table")
    assert [row["bytes_moved"] for row in whole] == [facts["read_table"]]
    # AND what Arrow's threads write is the call's that named the folder; of what they do ahead a little is nobody's
    parts = [row for row in outcome.select(layer="posix") if (row["path"] or "").startswith(f"{inside}/")]
    writes = [row for row in parts if row["op"] == "write"]
    assert writes and {row["parent"] for row in writes} == {written["id"]}
    assert sum(row["parent"] is not None for row in parts) >= 0.9 * len(parts)


ITERATION = (
    TABLE
    + """
import pyarrow.dataset as ds, pyarrow.parquet as pq
import pyio_trace
for name in ("t", "u"):
    pq.write_table(table, f"{name}.parquet", row_group_size=5000)
file = pq.ParquetFile("t.parquet", pre_buffer=False)
batches = file.iter_batches(batch_size=4000, columns=["c3"])
facts["type"] = type(batches).__name__
facts["rows"] = [next(batches).num_rows, *(batch.num_rows for batch in batches)]
facts["both"] = sum(batch.num_rows for batch in ds.dataset(["t.parquet", "u.parquet"]).to_batches(columns=["c1"]))
# many that are left in the middle, and their addresses taken by others
for _ in range(200):
    left = file.iter_batches(batch_size=10000)
    next(left)
facts["left"] = next(left).num_rows
def other():
    yield 1
facts["other"] = list(other())
gone = file.iter_batches(columns=["nothing"])
del file
facts["end"] = [batch.num_columns for batch in gone]
try:
    next(gone)
except StopIteration:
    facts["stopped"] = True
"""
    + SAY
)


def test_what_is_read_while_one_iterates(program: Runner) -> None:
    data = folder(program)
    outcome = alike(program.traced(ITERATION, data), program.bare(ITERATION, data))
    facts = json.loads(outcome.stdout)
    # THEN each step is a row, with its rows and bytes, of the file
    steps = outcome.select(op="ParquetFile.iter_batches.__next__", path=data / "t.parquet")
    assert [detail(row).get("rows") for row in steps[:6]] == [*facts["rows"], None]
    assert [row["bytes_moved"] for row in steps[:5]] == [32500] * 5 and steps[5]["bytes_moved"] is None
    assert [detail(row)["rows"] for row in steps[6:206]] == [10000] * 200
    # AND what was read for it, on this thread, is in it
    (call,) = outcome.select(op="ParquetFile.iter_batches", detail=lambda text: "4000" in text)
    assert call["bytes_moved"] is None
    reads = outcome.select(op="pread", path=data / "t.parquet", link="thread")
    within = [outcome.parents(row)[0]["id"] for row in reads if outcome.parents(row)]
    assert {row["id"] for row in steps[:6]} & set(within)
    both = outcome.select(op="Scanner.to_batches.__next__", path=data)
    assert sum(detail(row).get("rows", 0) for row in both) == facts["both"] == 40000


def test_steps_after_the_trace_has_ended(program: Runner) -> None:
    # GIVEN iterators that live longer than the trace in which they were made
    data = folder(program)
    text = (
        TABLE
        + """
import pyarrow.parquet as pq
import pyio_trace
pq.write_table(table, "t.parquet", row_group_size=5000)
file = pq.ParquetFile("t.parquet")
def rows(run):
    table = pyio_trace.open(run).operations().to_pylist()
    steps = [row for row in table if "__next__" in row["op"]]
    return [(row["path"] and os.path.basename(row["path"]), row["bytes_moved"]) for row in steps]
with pyio_trace.trace("one.pyio"):
    file = pq.ParquetFile("t.parquet")
    batches = file.iter_batches(batch_size=5000)
    next(batches)
next(batches)
with pyio_trace.trace("two.pyio"):
    next(batches)
    again = pq.ParquetFile("t.parquet")
    other = again.iter_batches(batch_size=5000)
    next(other)
print(json.dumps([rows("one.pyio"), rows("two.pyio"), sum(batch.num_rows for batch in batches)]))
"""
    )
    outcome = succeeded(program.bare(text, data))
    # THEN each log has the steps of its own
    one = ["t.parquet", 162500]
    assert json.loads(outcome.stdout) == [[one], [one], 5000]


def test_files_and_filesystems(program: Runner) -> None:
    # GIVEN Arrow's own files, read and written a part at a time
    data = folder(program)
    text = """
    import os, sys
    import pyarrow as pa, pyarrow.fs as fs
    os.chdir(sys.argv[1])
    local = fs.LocalFileSystem()
    with local.open_output_stream("raw") as out:
        out.write(b"x" * 1000)
        out.write(b"y" * 24)
    with local.open_input_file("raw") as file:
        assert len(file.read(100)) == 100
        assert len(file.read_at(50, 20)) == 50
    with pa.OSFile("raw") as file:
        assert len(file.read()) == 1024
        assert file.readinto(bytearray(5)) == 0
    with pa.OSFile("other", "wb") as file:
        file.write(b"z" * 77)
    with pa.memory_map("raw") as file:
        assert file.read_buffer(10).size == 10
    with fs.SubTreeFileSystem(os.getcwd(), local).open_input_stream("raw") as file:
        assert len(file.read()) == 1024
    local.create_dir("folder")
    local.copy_file("raw", "folder/copy")
    local.move("folder/copy", "folder/moved")
    assert local.get_file_info("folder/moved").size == 1024
    local.delete_dir("folder")
    """
    outcome, truth = straced(program, text, data)
    # THEN each call has its bytes, on its file
    wanted = {
        "NativeFile.write": [("raw", 1000), ("raw", 24), ("other", 77)],
        "NativeFile.read": [("raw", 100), ("raw", 1024), ("raw", 1024)],
        "NativeFile.read_at": [("raw", 50)],
        "NativeFile.readinto": [("raw", 0)],
        "NativeFile.read_buffer": [("raw", None)],  # mapped
        "FileSystem.create_dir": [("folder", None)],
        "FileSystem.delete_dir": [("folder", None)],
        "FileSystem.copy_file": [("raw", None)],
        "FileSystem.move": [("folder/copy", None)],
    }
    for op, rows in wanted.items():
        outer = [row for row in outcome.select(op=op) if op not in (above["op"] for above in outcome.parents(row))]
        assert [(row["path"], row["bytes_moved"]) for row in outer] == [
            (str(data / name), moved) for name, moved in rows
        ]
    assert detail(outcome.select(op="FileSystem.move")[0]) == {"to": "folder/moved"}  # as given
    # AND what POSIX wrote is what the program did; it read ahead of nothing
    raw = str(data / "raw")
    assert moved_by_posix(outcome, lambda name: name == raw) == {raw: truth[raw]}
    assert truth[str(data / "other")] == (0, 77)


def test_memory_is_in_no_row_and_file_objects_have_their_own(program: Runner) -> None:
    # GIVEN tables written to and read from memory, and one through a Python file object
    data = folder(program)
    text = (
        TABLE
        + """
import io, pyarrow.parquet as pq, pyarrow.csv as csv
sink = pa.BufferOutputStream()
pq.write_table(table, sink)
assert pq.read_table(pa.BufferReader(sink.getvalue())).num_rows == 20000
assert pq.read_table(io.BytesIO(sink.getvalue().to_pybytes())).num_rows == 20000
for batch in pa.RecordBatchReader.from_batches(table.schema, table.to_batches()):
    assert batch.num_rows
print("between", file=sys.stderr)
with open("t.csv", "wb") as file:
    csv.write_csv(table, file)
with open("t.csv", "rb") as file:
    assert csv.read_csv(file).num_rows == 20000
"""
    )
    outcome = succeeded(program.traced(text, data))
    arrow = [row for row in outcome.rows if row["layer"] == "app" and "pyarrow" in row["op"]]
    # THEN only the file is in the log, with no bytes at the outer call: the file object has them
    size = (data / "t.csv").stat().st_size
    csv = [row for row in arrow if ".csv." in row["op"]]
    assert [(row["op"], row["path"], row["bytes_moved"]) for row in csv] == [
        ("pyarrow.csv.write_csv", str(data / "t.csv"), None), ("pyarrow.csv.read_csv", str(data / "t.csv"), None)
    ]  # fmt: skip
    assert not [row for row in arrow if row["bytes_moved"]]
    assert not outcome.select(op="RecordBatchReader.read_next_batch")
    inner = [
        row for row in outcome.select(path=data / "t.csv") if row["op"].startswith("Buffered") and row["bytes_moved"]
    ]
    assert sum(row["bytes_moved"] for row in inner if ".write" in row["op"]) == size
    assert sum(row["bytes_moved"] for row in inner if ".read" in row["op"]) == size


def test_readers_are_not_kept_alive_and_errors_are_theirs(program: Runner) -> None:
    data = folder(program)
    text = (
        TABLE
        + """
import gc, weakref, traceback
import pyarrow.parquet as pq, pyarrow.fs as fs, pyarrow.dataset as ds
pq.write_table(table, "t.parquet")
file = pq.ParquetFile("t.parquet")
gone = weakref.ref(file)
del file
gc.collect()
assert gone() is None
handle = open("t.parquet", "rb")
file = pq.ParquetFile(handle)
gone = weakref.ref(handle)
del file, handle
gc.collect()
assert gone() is None
for make in (lambda: pq.read_table("absent"), lambda: pq.ParquetFile(b"nothing"), lambda: pq.write_table(3, "x"),
             lambda: pq.ParquetFile("t.parquet").read_row_group(7), lambda: fs.LocalFileSystem().open_input_file("no"),
             lambda: pa.ipc.open_file("t.parquet"), lambda: pq.read_table(), lambda: pa.OSFile("t.parquet").read("x"),
             lambda: pq.ParquetFile("t.parquet").read(colums=["c0"]), lambda: pq.ParquetFile("t.parquet").read(3),
             lambda: pq.ParquetWriter("y", 5), lambda: pq.ParquetFile.read(), lambda: ds.dataset(7),
             lambda: pa.OSFile("z", "wb").write(4), lambda: pa.ipc.new_file("y", None)):
    try:
        make()
    except BaseException:
        print(traceback.format_exc())
print(sorted(vars(pq.ParquetFile("t.parquet"))))
"""
    )
    alike(program.traced(text, data), program.bare(text, data))


ENCRYPTED = (
    TABLE
    + """
import datetime
import pyarrow.parquet as pq
try:
    import pyarrow.parquet.encryption as pe
except ImportError:
    sys.exit(77)
class Kms(pe.KmsClient):
    def __init__(self, config):
        super().__init__()
    def wrap_key(self, key_bytes, master_key_identifier):
        return key_bytes.hex()
    def unwrap_key(self, wrapped_key, master_key_identifier):
        return bytes.fromhex(wrapped_key.decode() if isinstance(wrapped_key, bytes) else wrapped_key)
factory, config = pe.CryptoFactory(lambda config: Kms(config)), pe.KmsConnectionConfig()
secret = pe.EncryptionConfiguration(footer_key="f", column_keys={"k": ["c0", "c1"]}, plaintext_footer=True)
with pq.ParquetWriter("t", table.schema, encryption_properties=factory.file_encryption_properties(config, secret)) as w:
    w.write_table(table)
keys = factory.file_decryption_properties(config, pe.DecryptionConfiguration())
print(pq.ParquetFile("t", decryption_properties=keys).read().num_rows)
file = pq.ParquetFile("t")
print(file.read(columns=["c2"]).num_rows)
try:
    file.read()
except Exception as problem:
    print(type(problem).__name__)
"""
)


def test_encrypted_columns(program: Runner) -> None:
    # GIVEN a file of which two columns are encrypted; pyarrow ends the process that asks for their metadata
    data = folder(program)
    bare = program.bare(ENCRYPTED, data)
    if bare.status == 77:
        pytest.skip("this pyarrow has no encryption")
    # WHEN it is written, read with the keys, and read without them as far as that goes
    outcome = alike(program.traced(ENCRYPTED, data), bare)
    # THEN the program goes on, and the bytes of what is plain are known
    reads = rows = outcome.select(op="ParquetFile.read", path=data / "t")
    assert len(reads) == 3 and ["stored" in detail(row) for row in rows] == [False, True, False]
    assert read_during(outcome, rows[1], data / "t") >= detail(rows[1])["stored"]


def test_share_of_operations_whose_span_is_known(program: Runner) -> None:
    # GIVEN the whole script of docs/reference/instruments.md: Parquet written and read, whole and in parts
    data = folder(program)
    outcome = succeeded(program.traced(PARQUET, data))
    rows = [row for row in outcome.select(layer="posix") if row["path"] and row["path"].startswith(f"{data}/")]
    known = [row for row in rows if row["link"] in ("thread", "context", "descriptor")]
    # THEN nearly all operations on its files have a span for sure, the rest by what the spans declared
    assert len(known) >= 0.95 * len(rows), [(row["op"], row["path"], row["link"]) for row in rows if row not in known]
