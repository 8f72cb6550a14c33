"""Offsets of plain reads and writes, compared with a model that takes one operation after the other."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyio_trace.join.offsets.positions import grouped_by_root, sorted_by_time
from pyio_trace.join.sources.opening import open_log
from pyio_trace.log import layout
from tests.support.logwriter import LogWriter, Thread


def offsets_of(writer: LogWriter, tmp_path: Path) -> list[int | None]:
    log = open_log(writer.save(tmp_path / "run.pyio"))
    rows = sorted(log.operations(["time", "id", "file_offset"]).to_pylist(), key=lambda row: (row["time"], row["id"]))
    return [row["file_offset"] for row in rows]


def io(thread: Thread, op: str, begin: int, desc: int, moved: int, **fields: int) -> None:
    thread.record(op, begin=begin, desc=desc, aux=3, size=moved, result=moved, **fields)


@pytest.fixture
def writer() -> LogWriter:
    return LogWriter()


def test_reads_follow_each_other_and_seeks(writer: LogWriter, tmp_path: Path) -> None:
    thread = writer.thread(writer.process(100), 100)
    desc = writer.desc(3, "/x")
    io(thread, "READ", 2_000, desc, 10)
    io(thread, "READV", 2_001, desc, 5)
    io(thread, "PREAD", 2_002, desc, 100, offset=7)
    thread.record("LSEEK", begin=2_003, desc=desc, aux=3, offset=1_000, size=os.SEEK_SET)
    thread.record("READ", begin=2_004, desc=desc, aux=3, size=50, errno=5)
    thread.record("LSEEK", begin=2_005, desc=desc, aux=3, offset=-9, size=os.SEEK_SET, errno=22)
    io(thread, "PREADV2", 2_006, desc, 20, offset=-1)
    io(thread, "WRITE", 2_007, desc, 1)
    assert offsets_of(writer, tmp_path) == [0, 10, 7, 1_000, 1_000, -9, 1_000, 1_020]


def test_found_open_and_unknown(writer: LogWriter, tmp_path: Path) -> None:
    thread = writer.thread(writer.process(100), 100)
    found, unknown = writer.desc(3, "/x", position=500), writer.desc(4, "/y", position=-1)
    io(thread, "READ", 2_000, found, 10)
    io(thread, "READ", 2_001, found, 10)
    io(thread, "READ", 2_002, unknown, 10)
    thread.record("LSEEK", begin=2_003, desc=unknown, aux=4, offset=70, size=os.SEEK_CUR)
    io(thread, "READ", 2_004, unknown, 10)
    assert offsets_of(writer, tmp_path) == [500, 510, None, 70, 70]


def test_streams_have_a_position_of_their_own(writer: LogWriter, tmp_path: Path) -> None:
    # GIVEN streams made by fopen, by fdopen after reads, of which a part is in the stream's buffer, and for appending
    thread = writer.thread(writer.process(100), 100)
    fresh, made, append = writer.desc(3, "/x"), writer.desc(4, "/y"), writer.desc(5, "/z", open_flags=os.O_APPEND)
    copy = writer.desc(6, "/y", root=made)
    io(thread, "FREAD", 2_000, fresh, 10)
    io(thread, "FREAD", 2_001, fresh, 5)
    io(thread, "READ", 2_002, made, 4096)
    io(thread, "FREAD", 2_003, copy, 7)  # nobody has said yet where it is
    thread.record("FSEEK", begin=2_004, desc=copy, aux=6, offset=128, size=os.SEEK_SET, result=0)
    io(thread, "FREAD", 2_005, copy, 50)
    thread.record("FTELL", begin=2_006, desc=copy, aux=6, offset=200, size=os.SEEK_CUR, result=0)
    io(thread, "FWRITE", 2_007, copy, 50)
    io(thread, "READ", 2_008, made, 4096)
    io(thread, "FWRITE", 2_009, append, 10)
    # WHEN the log is read THEN each transfer is where its stream was, and where the descriptor is then is not known
    assert offsets_of(writer, tmp_path) == [0, 10, 0, None, 128, 128, 200, 200, None, None]


def test_a_stream_moves_the_position_beneath_it(writer: LogWriter, tmp_path: Path) -> None:
    # GIVEN plain reads of a description, calls on a stream over a copy of it, and seeks
    thread = writer.thread(writer.process(100), 100)
    desc = writer.desc(3, "/x")
    copy = writer.desc(4, "/x", root=desc)
    steps = [
        ("READ", 0), ("LSEEK", 50), ("READ", 50), ("FREAD", None), ("READ", None), ("READ", None),
        ("LSEEK", 60), ("READ", 60), ("FCLOSE", None), ("READ", None),  # closing moves it to where the stream was
        ("LSEEK", 70), ("READ", 70), ("FWRITE", None), ("LSEEK", 80), ("READ", None),  # still in the buffer
        ("FFLUSH", None), ("READ", None), ("LSEEK", 90), ("READ", 90), ("FDOPEN", None), ("READ", None),
        ("LSEEK", 95), ("SERIES", None), ("LSEEK", 10), ("READ", None),  # the series goes on until 2,030
    ]  # fmt: skip
    steps = [(2_000 + number, *step) for number, step in enumerate(steps)]
    steps += [(2_040, "READ", None), (2_041, "LSEEK", 20), (2_042, "READ", 20), (2_043, "READ", 27)]
    for begin, op, value in steps:
        if op == "LSEEK":
            thread.record(op, begin=begin, desc=desc, aux=3, offset=value, size=os.SEEK_SET)
        elif op == "SERIES":
            thread.record("FGETC", begin=begin, desc=copy, aux=100, offset=2_030 - begin, result=100,
                          flags=layout.DONE | layout.COALESCED)  # fmt: skip
        else:
            io(thread, op, begin, desc if op == "READ" else copy, 7)
    # WHEN the log is read THEN there are offsets up to the stream's next call, and from a seek on after its last
    found = offsets_of(writer, tmp_path)
    plain = [number for number, (_, op, _) in enumerate(steps) if op in ("READ", "LSEEK")]
    assert [found[number] for number in plain] == [steps[number][2] for number in plain]


def test_what_waits_in_a_stream_is_of_its_own_file(writer: LogWriter, tmp_path: Path) -> None:
    # GIVEN two files, each used through a descriptor and a C stream; the first stream has unwritten bytes in its buffer
    thread = writer.thread(writer.process(100), 100)
    written, other = writer.desc(3, "/x"), writer.desc(4, "/y")
    io(thread, "READ", 2_000, written, 5)
    io(thread, "FWRITE", 2_001, written, 5)
    thread.record("LSEEK", begin=2_002, desc=other, aux=4, offset=70, size=os.SEEK_SET)
    io(thread, "READ", 2_003, other, 5)
    io(thread, "FREAD", 2_004, other, 5)
    # WHEN the log is read THEN the read of the second file starts where the seek left it
    assert offsets_of(writer, tmp_path)[:4] == [0, None, 70, 70]


def test_a_stream_makes_a_file_longer(writer: LogWriter, tmp_path: Path) -> None:
    # GIVEN a file of known size that is appended to by a descriptor, and by a stream of its own
    thread = writer.thread(writer.process(100), 100)
    path = writer.string("/log")
    end = writer.desc(3, path, dev=1, ino=1, open_flags=os.O_APPEND | os.O_WRONLY)
    other = writer.desc(4, path, dev=1, ino=1, open_flags=os.O_APPEND | os.O_WRONLY)
    thread.record("OPEN", begin=2_000, desc=path, aux=os.O_TRUNC | os.O_APPEND | os.O_WRONLY, offset=end, result=3)
    io(thread, "WRITE", 2_001, end, 3)
    io(thread, "FPUTS", 2_002, other, 5)
    io(thread, "WRITE", 2_003, end, 7)
    thread.record("LSEEK", begin=2_004, desc=end, aux=3, offset=15, size=os.SEEK_END)
    io(thread, "WRITE", 2_005, end, 7)
    thread.record("FCLOSE", begin=2_006, desc=other, aux=4)
    io(thread, "WRITE", 2_007, end, 7)
    # WHEN the log is read THEN offsets end with what the stream may have written, until the size is known again
    assert offsets_of(writer, tmp_path)[1::2] == [0, None, 15, None]


def test_dup_and_fork_share_the_position_in_the_order_of_time(writer: LogWriter, tmp_path: Path) -> None:
    parent, child = writer.process(100), writer.process(200, start=layout.START_FORK)
    desc = writer.desc(3, "/x")
    other = writer.desc(9, "/x", root=desc, process=child)
    ours, theirs = writer.thread(parent, 100), writer.thread(child, 200)
    for step in range(0, 10, 2):
        io(ours, "READ", 2_000 + step, desc, 10)
    for step in range(1, 10, 2):
        io(theirs, "READ", 2_000 + step, other, 10)
    assert offsets_of(writer, tmp_path) == list(range(0, 100, 10))


def test_copies_advance_both_sides(writer: LogWriter, tmp_path: Path) -> None:
    thread = writer.thread(writer.process(100), 100)
    source, target = writer.desc(3, "/in"), writer.desc(4, "/out")
    for begin, offset in ((2_000, -1), (2_001, -1), (2_002, 5)):
        thread.record("SENDFILE", begin=begin, desc=source, aux=target, offset=offset, size=30, result=30)
    io(thread, "READ", 2_003, source, 1)
    io(thread, "WRITE", 2_004, target, 1)
    assert offsets_of(writer, tmp_path) == [0, 30, 5, 60, 90]


def test_layers_above_have_no_positions(writer: LogWriter, tmp_path: Path) -> None:
    thread = writer.thread(writer.process(100), 100)
    desc = writer.desc(3, "/x")
    io(thread, "A_BUF_READ", 2_000, desc, 10)
    io(thread, "READ", 2_001, desc, 10)
    assert offsets_of(writer, tmp_path) == [None, 0]


def test_appends_go_to_the_end_of_the_file(writer: LogWriter, tmp_path: Path) -> None:
    thread = writer.thread(writer.process(100), 100)
    path = writer.string("/log")
    plain = writer.desc(3, path, dev=1, ino=1)
    one = writer.desc(4, path, dev=1, ino=1, open_flags=os.O_APPEND | os.O_RDWR)
    two = writer.desc(5, path, dev=1, ino=1, open_flags=os.O_APPEND | os.O_WRONLY)
    steps = [
        ("WRITE", one, 10, None),  # nothing is known of the size yet
        ("OPEN", plain, 0, None),
        ("WRITE", plain, 100, 0),
        ("WRITE", one, 10, 100),
        ("WRITE", two, 5, 110),
        ("PWRITE", plain, 10, 1_000),
        ("WRITE", two, 1, 1_010),
        ("READ", one, 10, 110),
        ("FTRUNCATE", plain, 50, 50),
        ("WRITE", one, 2, 50),
        ("LSEEK", one, 3, 3),
        ("READ", one, 4, 3),
        ("WRITE", one, 2, 52),
    ]
    for number, (op, desc, value, offset) in enumerate(steps):
        begin = 2_000 + number
        if op == "OPEN":
            thread.record(op, begin=begin, desc=path, aux=os.O_CREAT | os.O_TRUNC, offset=desc, result=3)
        elif op in ("FTRUNCATE", "LSEEK"):
            thread.record(op, begin=begin, desc=desc, aux=3, offset=value, size=os.SEEK_SET)
        else:
            io(thread, op, begin, desc, value, **({"offset": offset or 0} if op == "PWRITE" else {}))
    assert offsets_of(writer, tmp_path) == [offset for *_, offset in steps]


def test_appends_where_the_place_given_does_not_count(writer: LogWriter, tmp_path: Path) -> None:
    # GIVEN a descriptor opened with O_APPEND, a pwrite() on it (which Linux appends), and a write that fails
    thread = writer.thread(writer.process(100), 100)
    path = writer.string("/log")
    end = writer.desc(3, path, dev=1, ino=1, open_flags=os.O_APPEND | os.O_RDWR)
    thread.record("OPEN", begin=2_000, desc=path, aux=os.O_CREAT | os.O_TRUNC | os.O_APPEND, offset=end, result=3)
    io(thread, "PWRITE", 2_001, end, 10, offset=1_000)
    io(thread, "WRITE", 2_002, end, 5)
    thread.record("LSEEK", begin=2_003, desc=end, aux=3, offset=3, size=os.SEEK_SET)
    thread.record("WRITE", begin=2_004, desc=end, aux=3, size=5, errno=28)
    io(thread, "READ", 2_005, end, 5)
    # WHEN the log is read THEN both writes are at the end, and the failed one is not
    assert offsets_of(writer, tmp_path) == [None, 0, 10, 3, 3, 3]


def test_appends_that_flags_of_the_call_ask_for(writer: LogWriter, tmp_path: Path) -> None:
    # GIVEN a new file with and without O_APPEND, and calls of pwritev2 with RWF_APPEND and RWF_NOAPPEND
    thread = writer.thread(writer.process(100), 100)
    path = writer.string("/log")
    plain = writer.desc(3, path, dev=1, ino=1, open_flags=os.O_RDWR)
    copy = writer.desc(5, path, dev=1, ino=1, root=plain, open_flags=os.O_RDWR)
    end = writer.desc(4, path, dev=1, ino=1, open_flags=os.O_APPEND | os.O_RDWR)
    steps = [
        ("OPEN", plain, 0, 0, None), ("WRITE", plain, 1_000, -1, 0), ("LSEEK", plain, 0, 100, 100),
        ("PWRITEV2", plain, 10, layout.AT_END, 1_000), ("READ", copy, 1, -1, 100),
        ("PWRITEV2", copy, 4, layout.TO_END, 1_010), ("WRITE", plain, 3, -1, 1_014),
        ("PWRITEV2", plain, 0, layout.TO_END, 1_017), ("PWRITEV2", end, 5, layout.AT_PLACE - 7, 7),
        ("PWRITEV2", end, 5, 7, 1_017), ("PWRITEV2", end, 3, layout.AT_POSITION, 0), ("READ", end, 2, -1, 3),
        ("WRITE", end, 1, -1, None),
    ]  # fmt: skip
    for number, (op, desc, moved, place, _) in enumerate(steps):
        if op == "OPEN":
            thread.record(op, begin=2_000, desc=path, aux=os.O_CREAT | os.O_TRUNC, offset=desc, result=3)
        else:
            io(thread, op, 2_000 + number, desc, moved, offset=place)
    thread.record("PWRITEV2", begin=2_100, desc=plain, aux=3, offset=layout.AT_PLACE - 7, size=5, errno=28)
    # WHEN the log is read THEN offsets and positions are as the flags have it; after a write of unknown reach, none is
    assert offsets_of(writer, tmp_path) == [offset for *_, offset in steps] + [None]


def test_a_truncation_by_a_name_that_may_be_any_files(writer: LogWriter, tmp_path: Path) -> None:
    # GIVEN appends, a truncation by the file's own name, and one by a name that was never opened
    thread = writer.thread(writer.process(100), 100)
    path = writer.string("/log")
    end = writer.desc(3, path, dev=1, ino=1, open_flags=os.O_APPEND | os.O_WRONLY)
    thread.record("OPEN", begin=2_000, desc=path, aux=os.O_CREAT | os.O_TRUNC | os.O_APPEND, offset=end, result=3)
    io(thread, "WRITE", 2_001, end, 10)
    thread.record("TRUNCATE", begin=2_002, desc=path, offset=50)
    io(thread, "WRITE", 2_003, end, 10)
    thread.record("TRUNCATE", begin=2_004, desc=writer.string("/link"), offset=70)
    io(thread, "WRITE", 2_005, end, 10)
    # WHEN the log is read THEN the first sets the file's size, and after the second it is unknown
    assert offsets_of(writer, tmp_path)[1::2] == [0, 50, None]


def test_a_read_of_a_descriptor_that_is_missing(writer: LogWriter, tmp_path: Path) -> None:
    # GIVEN reads of one descriptor, and among them a read whose descriptor is missing from the log
    thread = writer.thread(writer.process(100), 100)
    desc = writer.desc(3, "/x")
    for number, one in enumerate((desc, 0, desc)):
        io(thread, "READ", 2_000 + number, one, 10)
    # WHEN the log is read THEN only the read without a descriptor has no offset
    assert offsets_of(writer, tmp_path) == [0, None, 10]


@given(st.data())
def test_like_a_loop_over_operations(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    """Any interleaving of threads on shared descriptions gives what doing it one by one gives."""
    writer = LogWriter()
    process = writer.process(100)
    threads = [writer.thread(process, 100 + number) for number in range(3)]
    starts = data.draw(st.lists(st.integers(-1, 100), min_size=1, max_size=3))
    descs = [writer.desc(3 + n, f"/{n}", position=start, dev=1, ino=n + 1) for n, start in enumerate(starts)]
    append = data.draw(st.booleans())
    appender = writer.desc(50, "/0", dev=1, ino=1, open_flags=os.O_APPEND)
    position: dict[int, int | None] = {d: None if s < 0 else s for d, s in zip(descs, starts, strict=True)}
    position[appender] = 0
    size: dict[int, int | None] = {}
    file = {desc: number for number, desc in enumerate(descs)} | {appender: 0}
    expected: list[int | None] = []
    script = st.tuples(
        st.integers(0, 2),
        st.sampled_from(descs + [appender] if append else descs),
        st.sampled_from(["READ", "WRITE", "PWRITE", "LSEEK", "END", "FAIL", "FTRUNCATE"]),
        st.integers(0, 50),
    )
    for number, (which, desc, op, value) in enumerate(data.draw(st.lists(script, max_size=40))):
        thread, begin, known = threads[which], 2_000 + number, size.get(file[desc])
        if op in ("READ", "WRITE"):
            io(thread, op, begin, desc, value)
            at = known if op == "WRITE" and desc == appender and value else position[desc]
            expected.append(at)
            position[desc] = None if at is None else at + value
            if op == "WRITE" and value and at is None:
                size.pop(file[desc], None)  # it may have ended beyond what is known
            elif op == "WRITE" and value and known is not None and at is not None:
                size[file[desc]] = max(known, at + value)
        elif op == "PWRITE":
            io(thread, op, begin, desc, 3, offset=value)
            expected.append(known if desc == appender else value)
            if known is not None:  # Linux: O_APPEND wins over the place given
                size[file[desc]] = known + 3 if desc == appender else max(known, value + 3)
        elif op in ("LSEEK", "END"):
            whence = os.SEEK_END if op == "END" else os.SEEK_SET
            thread.record("LSEEK", begin=begin, desc=desc, aux=3, offset=value, size=whence)
            expected.append(value)
            position[desc] = value
            if op == "END":
                size[file[desc]] = value
        elif op == "FTRUNCATE":
            thread.record(op, begin=begin, desc=desc, aux=3, offset=value)
            expected.append(value)
            size[file[desc]] = value
        else:
            thread.record("READ", begin=begin, desc=desc, aux=3, size=value, errno=5)
            expected.append(position[desc])
    assert offsets_of(writer, tmp_path_factory.mktemp("log")) == expected


@given(
    st.lists(st.tuples(st.integers(0, 3), st.integers(0, 9) | st.integers(0, 2**63)), max_size=50), st.integers(1, 60)
)
def test_sorting_by_root_and_time_is_lexsort(pairs: list[tuple[int, int]], most: int) -> None:
    root = np.array([pair[0] for pair in pairs], np.int32)
    ticks = np.array([pair[1] for pair in pairs], np.uint64)
    parts = [sorted_by_time(events, root, ticks)[0] for events in grouped_by_root(root, most)]
    assert [at for part in parts for at in part.tolist()] == np.lexsort((ticks, root)).tolist()
