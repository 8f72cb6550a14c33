"""Any bytes give a table or a LogError: torn, cut, flipped, foreign."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pyio_trace.errors import LogError
from pyio_trace.events import OPERATION_COLUMNS
from pyio_trace.join.pack.packer import pack
from pyio_trace.join.sources.opening import open_log
from pyio_trace.log import layout, parquet_footer
from tests.support.logwriter import LogWriter

pytestmark = pytest.mark.once  # reading logs is the same on every Python

ALL = (*OPERATION_COLUMNS, "imported")


def small_log() -> LogWriter:
    """A log with one of everything."""
    writer = LogWriter(tick_kind=layout.TICKS_TSC, rate=0.5)
    process = writer.process(100, argv=["python", "x.py"], begin=2_000, cwd=writer.string("/home"))
    writer.process(101, start=layout.START_FORK, parent=process, end_kind=layout.END_SIGNAL, end_status=9, end=9_000)
    writer.count(process, "READ", 5, 50, 100, 1)
    writer.count(0, "WRITE", 1)
    thread = writer.thread(process, 100)
    path = writer.string("x/../y", base=writer.string("/home"))
    desc = writer.desc(3, path, dev=1, ino=2)
    append = writer.desc(4, path, dev=1, ino=2, open_flags=os.O_APPEND)
    stack = writer.stack((writer.code("/a.py", "f"), 1), (writer.code("<frozen importlib._bootstrap>", "g"), 2))
    span = thread.record("SPAN_APP", begin=2_000, aux=writer.string("load"), offset=writer.string('{"a": 1}'))
    thread.record("OPEN", begin=2_100, desc=path, aux=os.O_TRUNC, offset=desc, result=3, stack=stack, parent=span)
    for step in range(5):
        thread.record("READ", begin=2_200 + step, desc=desc, aux=3, size=10, result=10, stack=stack, parent=span)
        thread.record("WRITE", begin=2_300 + step, desc=append, aux=4, size=10, result=10)
    wide = thread.record("READ", begin=2_400, desc=desc, aux=3, flags=layout.WIDE)
    thread.record("EXT", begin=1 << 33, parent=wide, offset=1 << 33)
    thread.record("LSEEK", begin=2_500, desc=desc, aux=3, offset=0, size=2)
    thread.record("RENAME", begin=2_600, desc=path, aux=writer.string("/b"))
    thread.record("SENDFILE", begin=2_700, desc=desc, aux=append, size=10, result=10)
    thread.record("DUP", begin=2_800, desc=desc, aux=3, offset=append, result=4)
    thread.record("A_TEXT_NEXT", begin=2_900, flags=layout.COALESCED, desc=desc, aux=9, offset=77, size=5, result=5)
    thread.record("PREAD", begin=3_000, state=layout.BEGUN, desc=desc, aux=3, offset=0, size=5)
    for step in range(100):
        thread.record("PREAD", begin=3_100 + step, desc=desc, aux=3, offset=step, size=5, result=5, stack=stack)
    return writer


WHOLE = small_log().bytes()


def read_all(path: Path) -> int | str:
    """Rows, or the slug of the LogError; anything else is a failure."""
    try:
        log = open_log(path)
        table = log.operations(ALL)
        table.validate(full=True)
        assert table.num_rows == log.rows()
        for extra in (log.processes(), log.counters()):
            extra.validate(full=True)
        assert isinstance(log.losses(), dict) and isinstance(log.info(), dict)
    except LogError as error:
        assert "\n" not in str(error)
        return error.slug
    return int(table.num_rows)


def test_whole(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(WHOLE)
    assert read_all(tmp_path / "x") == 119
    assert open_log(tmp_path / "x").losses() == {}


@settings(max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(st.integers(0, len(WHOLE) - 1), st.integers(0, 255)), min_size=1, max_size=20))
def test_flipped_bytes(tmp_path: Path, flips: list[tuple[int, int]]) -> None:
    data = bytearray(WHOLE)
    for at, value in flips:
        data[at] = value
    (tmp_path / "x").write_bytes(data)
    read_all(tmp_path / "x")


def _hot_spots() -> list[int]:
    """Offsets of bytes that are not zero: where a flip means something."""
    return [at for at, byte in enumerate(WHOLE) if byte]


HOT = _hot_spots()


@pytest.mark.slow
@settings(max_examples=600, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(st.sampled_from(HOT), st.integers(-1, 8), st.binary(min_size=1, max_size=8)), max_size=6))
def test_flipped_fields(tmp_path: Path, flips: list[tuple[int, int, bytes]]) -> None:
    data = bytearray(WHOLE)
    for at, shift, value in flips:
        start = max(0, min(at + shift, len(data) - len(value)))
        data[start : start + len(value)] = value
    (tmp_path / "x").write_bytes(data)
    read_all(tmp_path / "x")


@settings(max_examples=200, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.integers(0, len(WHOLE)))
def test_cut_anywhere(tmp_path: Path, length: int) -> None:
    (tmp_path / "x").write_bytes(WHOLE[:length])
    got = read_all(tmp_path / "x")
    if length < layout.FIRST_CHUNK:
        assert got in ("not-a-log", "log-truncated")
    else:
        assert isinstance(got, int)
        if length < len(WHOLE):
            torn = open_log(tmp_path / "x").losses()["torn"]  # with what is there of a header that was cut
            assert len(WHOLE) - length <= torn < len(WHOLE) - length + layout.CHUNK.itemsize


def test_a_chunk_that_was_never_begun_is_passed_over(tmp_path: Path) -> None:
    writer = LogWriter()
    thread = writer.thread(writer.process(100), 100)
    path = writer.string("/x")
    thread.record("STAT", begin=2_000, desc=path)
    writer.gap(3)
    other = writer.thread(writer.process(101), 101)
    other.record("STAT", begin=2_001, desc=path)
    log = open_log(writer.save(tmp_path / "x"))
    assert log.operations(["pid", "path"]).to_pylist() == [{"pid": 100, "path": "/x"}, {"pid": 101, "path": "/x"}]
    assert log.losses() == {}  # its claimer was killed before it could write anything


def test_a_chunk_whose_header_was_not_done_is_nothing_lost_and_one_with_records_is(tmp_path: Path) -> None:
    for written, torn in ((64, None), (200, 3 * layout.PAGE)):
        writer = LogWriter()
        gap = writer.gap(3)
        writer.thread(writer.process(100), 100).record("STAT", begin=2_000, desc=writer.string("/x"))
        path = writer.save(tmp_path / f"{written}")
        with open(path, "r+b") as file:
            file.seek(gap + 8)  # where its magic would have been is before that
            file.write(b"\1" * written)
        assert open_log(path).losses().get("torn") == torn


def test_a_magic_that_is_data_is_no_chunk(tmp_path: Path) -> None:
    writer = LogWriter()
    gap = writer.gap(2)
    fake = writer.chunk(layout.CHUNK_OPS, layout.PAGE)
    writer.put(gap + layout.PAGE, bytes(writer.data[fake : fake + layout.PAGE]))  # right magic, wrong offset
    assert open_log(writer.save(tmp_path / "x")).losses()["torn"] == 2 * layout.PAGE


def test_a_string_that_starts_from_itself(tmp_path: Path) -> None:
    writer = LogWriter()
    thread = writer.thread(writer.process(100), 100)
    at = writer.allocate(32)
    raw = layout.HEAP_STRING.to_bytes(4, "little") + (32).to_bytes(4, "little") + (at >> 4).to_bytes(4, "little")
    writer.put(at, raw + (1).to_bytes(4, "little") + b"x")
    thread.record("STAT", begin=2_000, desc=at >> 4)
    assert len(open_log(writer.save(tmp_path / "x")).operations()) == 1


def refusal(path: Path) -> LogError:
    with pytest.raises(LogError) as caught:
        open_log(path)
    return caught.value


def test_what_is_no_log_is_refused_with_a_reason(tmp_path: Path) -> None:
    assert refusal(tmp_path / "none").slug == "no-such-log"
    assert refusal(tmp_path).slug == "not-a-log"
    for name, content in {"empty": b"", "text": b"hello", "almost": layout.MAGIC[:-1], "par": b"PAR1"}.items():
        (tmp_path / name).write_bytes(content)
        assert refusal(tmp_path / name).slug == ("log-truncated" if name == "par" else "not-a-log")
    os.mkfifo(tmp_path / "fifo")
    assert refusal(tmp_path / "fifo").slug == "not-a-log"
    (tmp_path / "short").write_bytes(layout.MAGIC)
    assert refusal(tmp_path / "short").slug == "log-truncated"


@pytest.mark.parametrize(
    ("version", "remedy"),
    [(layout.VERSION + 6, "use a newer pyio_trace"), (layout.VERSION - 1, "pack it with the pyio_trace that wrote it")],
)
def test_a_log_of_another_version_says_which(tmp_path: Path, version: int, remedy: str) -> None:
    # GIVEN a log that a later or an earlier pyio_trace wrote: operations of version 2 have no traits
    writer = LogWriter()
    writer.header["version"] = version
    # WHEN it is opened THEN it is refused, and the error says what reads it
    error = refusal(writer.save(tmp_path / "x"))
    assert error.slug == "log-version"
    assert f"version {version}," in str(error) and f"version {layout.VERSION}; {remedy}" in str(error)


@settings(max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(st.floats(0, 1, exclude_max=True), st.integers(0, 255)), min_size=1, max_size=10))
def test_a_damaged_parquet_log(tmp_path: Path, flips: list[tuple[float, int]]) -> None:
    packed = tmp_path / "whole.parquet"
    if not packed.exists():
        (tmp_path / "x").write_bytes(WHOLE)
        pack(tmp_path / "x", packed)
    data = bytearray(packed.read_bytes())
    for at, value in flips:
        data[int(at * len(data))] = value
    (tmp_path / "damaged.parquet").write_bytes(data)
    read_all(tmp_path / "damaged.parquet")


#: A byte that is the header of a list or of a field (Thrift's compact protocol): a list of one number becomes one of
#: two, and fields that hold lists or structs become numbers.
@pytest.mark.parametrize(("found", "forged"), [(0x16, 0x26), (0x19, 0x16), (0x29, 0x16), (0x1C, 0x16)])
def test_sizes_that_contradict_the_schema(tmp_path: Path, found: int, forged: int) -> None:
    """pyarrow aborts the process if a column chunk's statistics of sizes contradict the schema."""
    # GIVEN packed logs in which one byte of the footer, wherever it has this value, was changed into that one
    (tmp_path / "x").write_bytes(WHOLE)
    pack(tmp_path / "x", tmp_path / "whole.parquet")
    data = (tmp_path / "whole.parquet").read_bytes()
    footer = len(data) - 8 - int.from_bytes(data[-8:-4], "little")
    places = [at for at in range(footer, len(data) - 8) if data[at] == found]
    assert places
    # WHEN each is read THEN it is read, or refused as damaged
    for at in places[:: max(len(places) // 25, 1)]:
        (tmp_path / "damaged.parquet").write_bytes(data[:at] + bytes([forged]) + data[at + 1 :])
        read_all(tmp_path / "damaged.parquet")


@pytest.mark.parametrize(("depth", "byte"), [(12000, 0x19), (12000, 0x1C)])
def test_a_footer_that_is_nested_without_end(tmp_path: Path, depth: int, byte: int) -> None:
    (tmp_path / "file").write_bytes(bytes([byte]) * depth + depth.to_bytes(4, "little") + b"PAR1")
    with (tmp_path / "file").open("rb") as file, pytest.raises(ValueError, match=r"deep|end"):
        parquet_footer.check(file.fileno(), [])


@pytest.mark.parametrize(("column", "optional"), [("pid", True), ("errno", False)])
def test_a_schema_that_contradicts_its_row_groups(tmp_path: Path, column: str, optional: bool) -> None:
    # GIVEN a packed log in whose schema a column that may have nulls may not, or the other way round
    (tmp_path / "run.pyio").write_bytes(small_log().bytes())
    path = tmp_path / "run.parquet"
    pack(tmp_path / "run.pyio", path)
    data = path.read_bytes()
    # the field repetition_type of a SchemaElement, and the name behind it, in Thrift's compact protocol
    old, new = (b"%\x02\x18", b"%\x00\x18") if optional else (b"%\x00\x18", b"%\x02\x18")
    name = bytes([len(column)]) + column.encode()
    assert data.count(old + name) == 1
    path.write_bytes(data.replace(old + name, new + name))
    # WHEN it is opened THEN it is refused: pyarrow would end the process when asked for the column's pages
    assert refusal(path).slug == "log-damaged"
