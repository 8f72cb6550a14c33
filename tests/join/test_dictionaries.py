"""No dictionary column of what a log hands out, or is packed into, has a string twice: pandas rejects such tables."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pyio_trace import events
from pyio_trace.analysis.scan.filters import Filter, restrict
from pyio_trace.analysis.tables.ordering import select
from pyio_trace.analysis.tables.sums_tables import by_file, by_stack
from pyio_trace.join.base.dictionaries import without_repeats
from pyio_trace.join.pack.packer import pack
from pyio_trace.join.sources.facade import Log
from pyio_trace.join.sources.opening import open_log
from pyio_trace.log import layout
from tests.support.logwriter import LogWriter
from tests.support.programs import Runner, succeeded

try:
    import pandas
except ImportError:  # there are no wheels of it
    pandas = None

ALL = tuple(column.name for column in events.OPERATIONS + events.INTERNAL)
#: Whole tables that Log gives without being told anything.
METHODS = [
    name
    for name, method in inspect.getmembers(Log, inspect.isfunction)
    if "pa.Table" in str(inspect.signature(method).return_annotation) and name != "sql"
]


def tables(log: Log) -> Iterator[tuple[str, pa.Table]]:
    """Every table that a log is handed out as, with its name."""
    for name in METHODS:
        yield name, getattr(log, name)()
    yield "operations, all columns", log.operations(ALL)
    yield "batches", pa.Table.from_batches(log.batches(ALL, rows=7), schema=events.arrow_schema(ALL))
    some = restrict(log, Filter(layers=["posix", "app"]))
    yield "a selection", some.operations()
    for chosen, sort in ((some, None), (log, "duration")):
        yield f"sorted by {sort}", pa.Table.from_batches(select(chosen, ALL, sort), schema=events.arrow_schema(ALL))
    yield "files", by_file(log, imports=True)
    yield "stacks", by_stack(log, imports=True)


def check(log: Log, packed: Path) -> None:
    """All tables of a log, of the log packed from it, and of that file as others read it."""
    rows = [row["detail"] for row in log.operations(["detail"]).to_pylist()]
    pack(log.path, packed)
    assert [row["detail"] for row in open_log(packed).operations(["detail"]).to_pylist()] == rows
    for one in (log, open_log(packed)):
        for name, table in tables(one):
            assert_distinct(table, name)
        for column in events.columns_of(ALL):
            if column.type == "dictionary":
                values = one.dictionary(column.name).to_pylist()
                assert len(values) == len({*values}), column.name
    assert_distinct(pq.ParquetFile(packed, read_dictionary=list(ALL)).read(), "the file")


def assert_distinct(table: pa.Table, name: str) -> None:
    for column, field in zip(table.columns, table.schema, strict=True):
        for chunk in column.chunks if pa.types.is_dictionary(field.type) else ():
            values = chunk.dictionary.to_pylist()
            assert len(values) == len({*values}), (name, field.name)
    if pandas is not None:
        table.to_pandas()


@pytest.mark.once  # reading logs is the same on every Python
@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    rate=st.sampled_from([0.3, 0.5, 1.0]),
    runs=st.lists(st.integers(1, 12), max_size=30),
    spans=st.lists(st.sampled_from(['{"span_ns": 2}', '{"span_ns":2}', '{"to": "/b"}', "{}", '{ "a": 1}', "x"])),
    names=st.lists(st.sampled_from(["/a", "/./a", "//a", "b", "/b"]), min_size=1, max_size=4),
)  # fmt: skip
def test_any_log(tmp_path: Path, rate: float, runs: list[int], spans: list[str], names: list[str]) -> None:
    # GIVEN coalesced calls of other ticks and the same nanoseconds, spans that say the same or what is said of such
    # calls, renames to such names, and a call that may be of either of two spans
    writer = LogWriter(tick_kind=layout.TICKS_TSC, rate=rate)
    process = writer.process(100, argv=["python"], begin=2_000)
    main, pool = writer.thread(process, 100), writer.thread(process, 101)
    paths = [writer.string(name) for name in names]
    desc = writer.desc(3, paths[0], dev=1, ino=2)
    for at, span in enumerate(spans):
        main.record("SPAN_APP", begin=3_000 + at, aux=writer.string("load"), offset=writer.string(span))
    for at, ticks in enumerate(runs):
        coalesced = {"flags": layout.COALESCED, "desc": desc, "aux": 9, "offset": ticks, "size": 5, "result": 5}
        main.record("A_TEXT_NEXT", begin=4_000 + at, **coalesced)
    for at, path in enumerate(paths):
        main.record("RENAME", begin=5_000 + at, desc=path, aux=paths[0])
    for _ in range(2):
        main.record("A_BUF_READ", begin=6_000, duration=500, desc=desc, aux=3, size=9, result=9)
    pool.record("READ", begin=6_100, desc=desc, aux=3, size=9, result=9)
    # WHEN it is read in every way, and packed THEN no dictionary has a string twice, and the rows are the same
    check(open_log(writer.save(tmp_path / "log.pyio")), tmp_path / "log.parquet")


PROGRAM = """
import os, sys
from pyio_trace import span
for n in range(60):
    with open(f"{n % 20}", "w") as file:
        for line in range(n % 7):
            file.write("x" * 100)
    with open(f"{n % 20}") as file:
        for line in file:
            pass
    with span("step", span_ns=n):
        os.rename(f"{n % 20}", "b")
"""


@pytest.mark.parametrize("mode", ["trace", "profile", "ring"])
def test_a_run(program: Runner, mode: str) -> None:
    # GIVEN a program with many short runs of like calls, and files that get one name
    run = succeeded(program.traced(PROGRAM, env={"PYIO_TRACE_MODE": mode}))
    # WHEN its log is handed out THEN no dictionary has a string twice
    check(run.log, program.folder / "packed.parquet")


def test_a_folder(tmp_path: Path) -> None:
    # GIVEN two logs that say the same in other words
    for name in ("a", "b"):
        writer = LogWriter(tick_kind=layout.TICKS_TSC, rate=0.5)
        writer.header["run_id"] = ord(name)
        thread = writer.thread(writer.process(100, begin=2_000), 100)
        for ticks in (4, 5, 6) if name == "a" else (9, 5, 8):
            thread.record("A_TEXT_NEXT", begin=3_000 + ticks, flags=layout.COALESCED, aux=9, offset=ticks, size=5)
        writer.save(tmp_path / name)
    # WHEN the folder is read and packed THEN no dictionary has a string twice
    check(open_log(tmp_path), tmp_path.parent / f"{tmp_path.name}.parquet")


def test_a_packed_log_with_repeats(tmp_path: Path) -> None:
    # GIVEN a Parquet log whose dictionaries have strings twice, as earlier versions wrote them
    writer = LogWriter()
    thread = writer.thread(writer.process(100, begin=2_000), 100)
    for text in ('{"a": 1}', '{"a": 2}'):
        thread.record("SPAN_APP", begin=3_000, aux=writer.string("load"), offset=writer.string(text))
    pack(writer.save(tmp_path / "log.pyio"), tmp_path / "log.parquet")
    table = pq.ParquetFile(tmp_path / "log.parquet", read_dictionary=["detail"]).read()
    twice = pa.DictionaryArray.from_arrays(pa.array([0, 2], pa.int32()), ['{"a": 1}', '{"a": 1}', '{"a": 1}', "x"])
    at = table.schema.get_field_index("detail")
    table = table.set_column(at, table.schema.field(at), twice)
    with pq.ParquetWriter(tmp_path / "twice.parquet", table.schema, write_page_checksum=True) as file:
        file.write_table(table)
    # WHEN it is read THEN each row has its text, which is there once
    check(open_log(tmp_path / "twice.parquet"), tmp_path / "again.parquet")
    assert open_log(tmp_path / "twice.parquet").dictionary("detail").to_pylist()[0] == '{"a": 1}'


@pytest.mark.parametrize("size", [0, 3, 1 << 15])
def test_without_repeats(size: int) -> None:
    # GIVEN strings, a third of which are there twice WHEN the distinct ones are asked for
    texts = [str(number % max(size * 2 // 3, 1)) for number in range(size)]
    values, place = without_repeats(pa.array(texts, pa.string()))
    # THEN they are in their order, and each place leads to the same string
    assert values.to_pylist() == list(dict.fromkeys(texts))
    assert place is None if size == 0 else place is not None and values.take(pa.array(place)).to_pylist() == texts
    assert without_repeats(values)[1] is None
