"""The operations table of live logs made by hand: every shape, and what is null when."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from pyio_trace import events
from pyio_trace.join.pack.packer import pack
from pyio_trace.join.references.call_stacks import is_in_import
from pyio_trace.join.references.own_code import OwnCode
from pyio_trace.join.sources.opening import open_log
from pyio_trace.log import layout
from tests.support.logwriter import LogWriter

REAL = 1_700_000_000_000_000_000


def rows_of(writer: LogWriter, tmp_path: Path, *columns: str) -> list[dict[str, Any]]:
    log = open_log(writer.save(tmp_path / "run.pyio"))
    table = log.operations(columns or None)
    table.validate(full=True)
    return table.to_pylist()


@pytest.fixture
def writer() -> LogWriter:
    return LogWriter()


def test_columns_and_types_are_those_of_the_vocabulary(writer: LogWriter, tmp_path: Path) -> None:
    table = open_log(writer.save(tmp_path / "run.pyio")).operations()
    assert table.num_rows == 0
    assert table.schema == events.arrow_schema()
    assert tuple(table.column_names) == events.OPERATION_COLUMNS


def test_a_pread_has_every_column(writer: LogWriter, tmp_path: Path) -> None:
    process = writer.process(100, begin=1_500)
    thread = writer.thread(process, 101)
    stack = writer.stack((writer.code("/usr/lib/python3.11/os.py", "pread"), 7), (writer.code("/home/a.py", "main"), 3))
    desc = writer.desc(5, "/data/x", dev=8, ino=9)
    span = thread.record("SPAN_USER", begin=1_900, aux=writer.string("epoch"))
    one = thread.record(
        "PREAD", begin=2_000, duration=50, desc=desc, aux=5, offset=4096, size=100, result=90, stack=stack,
        parent=span, link=1,
    )  # fmt: skip
    row = rows_of(writer, tmp_path)[1]
    file = row.pop("file")
    assert file > 0
    assert row == {
        "id": one, "parent": span, "link": "thread", "time": REAL + 1_000, "duration": 50, "layer": "posix",
        "op": "pread", "op_class": "read", "host": "testhost", "pid": 100, "tid": 101, "process": 0,
        "path": "/data/x", "fd": 5, "file_offset": 4096, "bytes_requested": 100, "bytes_moved": 90, "errno": 0,
        "site": "/home/a.py:3:main",
        "call_stack": "/home/a.py:3:main;/usr/lib/python3.11/os.py:7:pread", "calls": 1, "detail": None,
        "submitted": False, "to_file": None, "to_file_offset": None, "op_role": "io",
        "request_id": None, "task_id": span, "global_rank": None, "file_kind": None, "command": None, "cpu_time": None,
    }  # fmt: skip


def test_states(writer: LogWriter, tmp_path: Path) -> None:
    thread = writer.thread(writer.process(100), 100)
    desc = writer.desc(3, "/x")
    thread.record("PREAD", begin=2_000, state=layout.BEGUN, desc=desc, aux=3, offset=0, size=10, result=0)
    thread.skip()
    thread.record("PREAD", begin=2_001, desc=desc, aux=3, offset=0, size=10, errno=5)
    thread.record("PREAD", begin=2_002, state=layout.EMPTY, desc=desc)
    thread.record("FSYNC", begin=2_003, desc=desc, aux=3, errno=30)
    flight, failed, synced = rows_of(writer, tmp_path, "duration", "bytes_moved", "bytes_requested", "errno")
    assert flight == {"duration": None, "bytes_moved": None, "bytes_requested": 10, "errno": 0}
    assert failed == {"duration": 10, "bytes_moved": 0, "bytes_requested": 10, "errno": 5}
    assert synced == {"duration": 10, "bytes_moved": None, "bytes_requested": None, "errno": 30}


def test_open_dup_and_stat_meet_in_one_file(writer: LogWriter, tmp_path: Path) -> None:
    thread = writer.thread(writer.process(100), 100)
    cwd = writer.string("/home/me/")
    path = writer.string("../me/./x", base=cwd)
    desc = writer.desc(3, path, dev=1, ino=2)
    copy = writer.desc(7, path, root=desc, dev=1, ino=2)
    thread.record("OPEN", begin=2_000, desc=path, aux=os.O_RDONLY, offset=desc, result=3)
    thread.record("DUP", begin=2_001, desc=desc, aux=3, offset=copy, result=7)
    thread.record("STAT", begin=2_002, desc=writer.string("/home/me/x"))
    thread.record("OPEN", begin=2_003, desc=writer.string("/none"), errno=2)
    rows = rows_of(writer, tmp_path, "path", "file", "fd", "bytes_requested", "bytes_moved", "file_offset", "errno")
    assert [row["path"] for row in rows] == ["/home/me/x"] * 3 + ["/none"]
    assert len({row["file"] for row in rows[:3]}) == 1 and rows[0]["file"] > 0 > rows[3]["file"]
    assert [row["fd"] for row in rows] == [3, 3, None, None]
    assert all(
        row["bytes_requested"] is None and row["bytes_moved"] is None and row["file_offset"] is None for row in rows
    )


def test_two_paths(writer: LogWriter, tmp_path: Path) -> None:
    thread = writer.thread(writer.process(100), 100)
    source, target = writer.desc(3, "/in"), writer.desc(4, "/out")
    thread.record("RENAME", begin=2_000, desc=writer.string("/a"), aux=writer.string('/b "q"'))
    thread.record("SENDFILE", begin=2_001, desc=source, aux=target, size=10, result=10, offset=5)
    rename, copy = rows_of(writer, tmp_path, "path", "detail", "fd", "file_offset", "bytes_moved")
    assert json.loads(rename.pop("detail")) == {"to": '/b "q"'}
    assert rename == {"path": "/a", "fd": None, "file_offset": None, "bytes_moved": None}
    assert json.loads(copy.pop("detail")) == {"to": "/out"}
    assert copy == {"path": "/in", "fd": 3, "file_offset": 5, "bytes_moved": 10}


def test_spans(writer: LogWriter, tmp_path: Path) -> None:
    thread = writer.thread(writer.process(100), 100)
    detail = writer.string('{"dataset": "/d"}')
    name = writer.string("Dataset.__getitem__")
    thread.record("SPAN_HDF5", begin=2_000, aux=name, offset=detail, desc=writer.string("/f.h5"), result=800)
    thread.record("SPAN_USER", begin=2_001, aux=writer.string("epoch"), offset=0)
    thread.record("SPAN_APP", begin=2_002, aux=writer.string("torn"), offset=writer.string("{no"))
    columns = ("layer", "op", "path", "bytes_moved", "file_offset", "detail", "fd", "op_class")
    first, second, third = rows_of(writer, tmp_path, *columns)
    assert first == {
        "layer": "hdf5", "op": "Dataset.__getitem__", "path": "/f.h5", "bytes_moved": 800, "file_offset": None,
        "detail": '{"dataset": "/d"}', "fd": None, "op_class": "span",
    }  # fmt: skip
    assert (second["layer"], second["op"], second["detail"]) == ("user", "epoch", None)
    assert json.loads(third["detail"]) == {"text": "{no"}


def test_wide_values_come_from_their_ext_record(writer: LogWriter, tmp_path: Path) -> None:
    thread = writer.thread(writer.process(100), 100)
    desc = writer.desc(3, "/x")
    wide = thread.record("READ", begin=2_000, flags=layout.WIDE, desc=desc, aux=3)
    thread.record("EXT", begin=5 << 32, parent=wide, offset=6 << 32)
    thread.record("READ", begin=2_002, desc=desc, aux=3, size=10, result=10)
    thread.record("READ", begin=2_003, flags=layout.WIDE, desc=desc, aux=3)
    assert rows_of(writer, tmp_path, "bytes_requested", "bytes_moved", "file_offset") == [
        {"bytes_requested": 6 << 32, "bytes_moved": 5 << 32, "file_offset": 0},
        {"bytes_requested": 10, "bytes_moved": 10, "file_offset": 5 << 32},
        {"bytes_requested": None, "bytes_moved": None, "file_offset": (5 << 32) + 10},
    ]


def test_coalesced_rows(writer: LogWriter, tmp_path: Path) -> None:
    thread = writer.thread(writer.process(100), 100)
    desc = writer.desc(3, "/x")
    thread.record("A_TEXT_NEXT", begin=2_000, duration=70, flags=layout.COALESCED, desc=desc, aux=5, offset=500,
                  size=50, result=50)  # fmt: skip
    assert rows_of(writer, tmp_path, "calls", "duration", "file_offset", "fd", "detail", "bytes_moved") == [
        {"calls": 5, "duration": 70, "file_offset": None, "fd": 3, "detail": '{"span_ns": 500}', "bytes_moved": 50}
    ]


def test_unknown_operations_have_a_name(writer: LogWriter, tmp_path: Path) -> None:
    thread = writer.thread(writer.process(100), 100)
    thread.record(layout.MAX_OPS - 1, begin=2_000, desc=writer.string("/x"), aux=3, size=1, result=1)
    assert rows_of(writer, tmp_path, "op", "layer", "fd", "bytes_requested", "bytes_moved", "file_offset") == [
        {
            "op": "op-255",
            "layer": "posix",
            "fd": None,
            "bytes_requested": None,
            "bytes_moved": None,
            "file_offset": None,
        }
    ]


def test_missing_objects_are_null(writer: LogWriter, tmp_path: Path) -> None:
    thread = writer.thread(0, 100)
    for desc in (0, 5, 1 << 31, 0xFFFFFFFF, writer.allocate(16) >> 4):
        thread.record("READ", begin=2_000, desc=desc, aux=3, size=1, result=1, stack=desc)
    thread.record("STAT", begin=2_000, desc=writer.desc(4, 0))
    for row in rows_of(writer, tmp_path):
        nulls = ("path", "file", "file_offset", "site", "call_stack", "pid", "process")
        assert all(row[name] is None for name in nulls)


def test_names_that_are_no_utf8(writer: LogWriter, tmp_path: Path) -> None:
    thread = writer.thread(writer.process(100), 100)
    thread.record("STAT", begin=2_000, desc=writer.string(b"/a\xff\nb;"))
    thread.record("STAT", begin=2_001, desc=writer.string(b""))
    rows = rows_of(writer, tmp_path, "path")
    assert [row["path"] for row in rows] == ["/a\\xff\nb;", ""]


def test_sites_and_imports(writer: LogWriter, tmp_path: Path) -> None:
    thread = writer.thread(writer.process(100), 100)
    frozen = writer.code("<frozen importlib._bootstrap_external>", "SourceLoader.exec_module")
    library = writer.code("/v/lib/python3.12/site-packages/np/io.py", "load")
    own, typed = writer.code("/home/a;b.py", "f"), writer.code("<string>", "<module>")
    for number, frames in enumerate([[(frozen, 1), (own, 2)], [(library, 3)], [(library, 4), (typed, 5)]]):
        thread.record("STAT", begin=2_000 + number, desc=writer.string("/x"), stack=writer.stack(*frames))
    first, second, third = rows_of(writer, tmp_path, "site", "imported", "call_stack")
    assert first["site"] == "/home/a\\x3bb.py:2:f" and first["imported"]
    assert second["site"] == "/v/lib/python3.12/site-packages/np/io.py:3:load" and not second["imported"]
    assert third["site"] == "<string>:5:<module>"
    assert third["call_stack"] == "<string>:5:<module>;/v/lib/python3.12/site-packages/np/io.py:4:load"


@pytest.mark.parametrize(
    ("frames", "expected"),
    [
        (["<frozen importlib._bootstrap_external>", "/home/a.py"], True),
        (["/v/lib/python3.12/site-packages/np/x.py", "<frozen importlib._bootstrap>", "/home/a.py"], True),
        (["/home/b.py", "<frozen importlib._bootstrap>", "/home/a.py"], False),
        (["/v/lib/python3.12/json/x.py", "/home/b.py", "<frozen importlib._bootstrap>"], False),
        (["/v/lib/python3.12/json/x.py", "/home/a.py"], False),
        (["/usr/lib64/python3.12/json/x.py", "<frozen importlib._bootstrap>", "/home/a.py"], True),
        (["<frozen importlib._bootstrap>"], True),
    ],
)
def test_in_import(writer: LogWriter, tmp_path: Path, frames: list[str], expected: bool) -> None:
    # GIVEN an operation with a stack, innermost file first
    name = {True: "_find_and_load", False: "f"}
    codes = [(writer.code(file, name[file.startswith("<frozen")]), line) for line, file in enumerate(frames)]
    thread = writer.thread(writer.process(100), 100)
    thread.record("STAT", begin=2_000, desc=writer.string("/x"), stack=writer.stack(*codes))
    # WHEN it is read THEN it belongs to an import if nothing of the program's own is within the innermost one
    live = writer.save(tmp_path / "run.pyio")
    pack(live, tmp_path / "run.parquet")
    for log in (live, tmp_path / "run.parquet"):
        assert open_log(log).operations(["in_import"])["in_import"].to_pylist() == [expected]


LOADER, BOOTSTRAP = "<frozen importlib._bootstrap_external>", "<frozen importlib._bootstrap>"


@pytest.mark.parametrize(
    ("frames", "imported", "in_import"),
    [
        ([(LOADER, "FileLoader.get_data"), ("/home/a.py", "f")], False, False),
        ([("<frozen os>", "f"), (LOADER, "SourceFileLoader.set_data"), ("/home/a.py", "f")], False, False),
        ([(LOADER, "FileLoader.get_data"), (BOOTSTRAP, "_find_and_load"), ("/home/a.py", "f")], True, True),
        ([(LOADER, "SourceLoader.get_code"), ("<frozen runpy>", "_get_module_details")], True, False),
        ([("/usr/lib/python3.12/importlib/metadata/__init__.py", "read_text"), ("/home/a.py", "f")], False, False),
        ([(LOADER, "FileLoader.get_data"), ("/usr/lib/python3.12/json/x.py", "f"), (BOOTSTRAP, "_find_and_load")],
         False, True),
        ([("<frozen site>", "main"), (BOOTSTRAP, "_find_and_load")], True, True),
    ],
)  # fmt: skip
def test_machinery_that_works_for_its_caller(
    writer: LogWriter, tmp_path: Path, frames: list[tuple[str, str]], imported: bool, in_import: bool
) -> None:
    # GIVEN an operation of the import machinery, innermost frame first
    codes = [(writer.code(*frame), line) for line, frame in enumerate(frames)]
    thread = writer.thread(writer.process(100), 100)
    thread.record("STAT", begin=2_000, desc=writer.string("/x"), stack=writer.stack(*codes))
    # WHEN it is read THEN it is an import only if the machinery was called to import
    [row] = rows_of(writer, tmp_path, "imported", "in_import", "call_stack")
    assert (row["imported"], row["in_import"]) == (imported, in_import)
    assert is_in_import(row["call_stack"], OwnCode()) == in_import


def test_ticks_of_a_counter_become_nanoseconds(tmp_path: Path) -> None:
    writer = LogWriter(ticks=7_000_000, rate=0.4, tick_kind=layout.TICKS_TSC)
    thread = writer.thread(writer.process(100, begin=7_000_000), 100)
    for second in range(100):
        thread.record("STAT", begin=7_000_000 + second * 2_500_000_000, duration=2_500, desc=writer.string("/x"))
    rows = rows_of(writer, tmp_path, "time", "duration")
    assert all(abs(row["time"] - REAL - second * 10**9) < 100 for second, row in enumerate(rows))
    assert {row["duration"] for row in rows} == {1_000}


def test_batches_share_their_dictionaries(writer: LogWriter, tmp_path: Path) -> None:
    thread = writer.thread(writer.process(100), 100)
    for number in range(500):
        thread.record("STAT", begin=2_000 + number, desc=writer.string(f"/x{number % 7}"))
    log = open_log(writer.save(tmp_path / "run.pyio"))
    batches = list(log.batches(["path", "op", "op_class", "imported"], rows=64))
    assert sum(len(batch) for batch in batches) == 500 and max(len(batch) for batch in batches) <= 64
    for batch in batches:
        assert batch.column(0).dictionary.equals(log.dictionary("path"))
    with pytest.raises(KeyError):
        log.batches(["no such column"])
    with pytest.raises(ValueError):
        log.batches(rows=0)
