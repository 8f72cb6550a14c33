"""Parents found by the reader: cases made by hand, and a comparison with a slow, obvious algorithm."""

from __future__ import annotations

import itertools
import json
import os
import random
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pyio_trace.events import OPERATION_COLUMNS
from pyio_trace.join.pack.packer import pack
from pyio_trace.join.sources import live_source
from pyio_trace.join.sources.facade import Log
from pyio_trace.join.sources.opening import open_log
from pyio_trace.join.tables import log_tables
from pyio_trace.log import layout
from pyio_trace.log.heap import Heap
from pyio_trace.log.live import LiveLog
from pyio_trace.values import STACK_STATES
from tests.support.logwriter import LogWriter, Thread

ALL = (*OPERATION_COLUMNS, "imported")
Step = tuple[int, str, int, int]
Answer = tuple[str, int | None, list[int] | None]


@pytest.fixture
def writer() -> LogWriter:
    return LogWriter()


def span(thread: Thread, begin: int, end: int | None, path: int = 0, parent: int = 0, op: str = "SPAN_APP") -> int:
    """A span open from begin to end (None: it never ended)."""
    name = thread.writer.string("named")
    state = layout.BEGUN if end is None else layout.DONE
    return thread.record(op, begin=begin, duration=(end or begin) - begin, state=state, aux=name, offset=0, desc=path,
                         parent=parent, link=1 if parent else 0)  # fmt: skip


def opened(thread: Thread, begin: int, desc: int, path: int, parent: int = 0, op: str = "OPEN", **fields: int) -> int:
    return thread.record(op, begin=begin, duration=1, desc=path, aux=0, offset=desc, result=3, parent=parent,
                         link=1 if parent else 0, **fields)  # fmt: skip


def read(thread: Thread, begin: int, desc: int, **fields: int) -> int:
    return thread.record("PREAD", begin=begin, desc=desc, aux=3, offset=0, size=10, result=10, **fields)


def answer(row: dict[str, Any]) -> Answer:
    detail = json.loads(row["detail"] or "{}")
    return row["link"], row["parent"], detail.get("candidate_parents")


def answers(writer: LogWriter, folder: Path) -> dict[int, Answer]:
    """What the log says of each row, live and packed and packed again alike."""
    log = open_log(writer.save(folder / "run.pyio"))
    table = log.operations(ALL)
    table.validate(full=True)
    pack(folder / "run.pyio", folder / "once.parquet")
    pack(folder / "once.parquet", folder / "twice.parquet")
    for packed in ("once.parquet", "twice.parquet"):
        assert open_log(folder / packed).operations(ALL).equals(table)
    narrow = log.operations(["parent"]), log.operations(["link"]), log.operations(["detail"])
    assert all(column.column(0).equals(table[column.column_names[0]]) for column in narrow)
    return {row["id"]: answer(row) for row in table.to_pylist()}


def test_the_span_that_opened_the_descriptor(writer: LogWriter, tmp_path: Path) -> None:
    # GIVEN a span in which a file is opened through a file object, and reads of it on a thread of a pool: before the
    # span is over, through a copy of the descriptor, by a thread of another process, and after it is over
    process, other = writer.process(100), writer.process(200, start=layout.START_FORK)
    main, pool, child = writer.thread(process, 100), writer.thread(process, 101), writer.thread(other, 200)
    path = writer.string("/data")
    desc = writer.desc(3, path, dev=1, ino=2)
    copy = writer.desc(4, path, root=desc, dev=1, ino=2)
    outer = span(main, 1_900, 5_000, op="SPAN_USER")
    inner = span(main, 2_000, 3_000, parent=outer)
    call = opened(main, 2_010, desc, path, inner, op="A_OPEN")
    opened(main, 2_010, desc, path, call)
    within, at_end = read(pool, 2_500, desc), read(pool, 3_000, desc)
    copied, after = read(pool, 2_999, copy), read(pool, 5_000, desc)
    forked = read(child, 2_500, desc)
    stream = pool.record("FREAD", begin=2_600, desc=desc, aux=3, size=5, result=5)
    own = read(main, 2_700, desc, parent=inner, link=1)
    # WHEN the log is read
    found = answers(writer, tmp_path)
    # THEN those within a span are the innermost one's that is still open, the others nobody's
    assert found[within] == found[copied] == found[stream] == ("descriptor", inner, None)
    assert found[at_end] == ("descriptor", outer, None)
    assert found[after] == found[forked] == ("none", None, None)
    assert found[own] == ("thread", inner, None)


def test_threads_that_outlive_the_span_they_were_started_in(writer: LogWriter, tmp_path: Path) -> None:
    # GIVEN reads of threads that were started in a span within another, of a task that was made there, and of another
    # process: while both spans are open, when the inner one has ended, and after both
    process, other = writer.process(100), writer.process(200, start=layout.START_FORK)
    main, pool, child = writer.thread(process, 100), writer.thread(process, 101), writer.thread(other, 200)
    desc = writer.desc(3, writer.string("/data"), dev=1, ino=2)
    outer = span(main, 1_000, 5_000, op="SPAN_USER")
    inner = span(main, 2_000, 3_000, parent=outer, op="SPAN_USER")
    times, started, handed = (2_500, 3_000, 5_000), layout.LINK_STARTED, 2
    threads = [read(pool, time, desc, parent=inner, link=started) for time in times]
    tasks = [read(pool, time, desc, parent=inner, link=handed) for time in times]
    children = [read(child, time, desc, parent=inner, link=started) for time in times]
    name = writer.string("own")
    own = pool.record("SPAN_USER", begin=5_100, duration=100, aux=name, offset=0, parent=inner, link=started)
    within = read(pool, 5_150, desc, parent=own, link=1)
    # WHEN the log is read
    found = answers(writer, tmp_path)
    # THEN threads and the process are in what is still open, and what was handed over is in the span that did so
    in_inner, in_outer, in_none = ("context", inner, None), ("context", outer, None), ("none", None, None)
    assert [found[row] for row in threads] == [found[row] for row in children] == [in_inner, in_outer, in_none]
    assert [found[row] for row in tasks] == [in_inner] * 3
    assert (found[own], found[within]) == (in_none, ("thread", own, None))
    # THEN what encloses a row is what its parents are
    rows = {row["id"]: row["task_id"] for row in open_log(tmp_path / "run.pyio").operations(ALL).to_pylist()}
    assert [rows[row] for row in (*threads, within)] == [inner, outer, None, own]


def test_what_was_inferred_leads_no_further(writer: LogWriter, tmp_path: Path) -> None:
    # GIVEN an open on a pool thread that only its file leads to a span, and a read after another declared it too
    process = writer.process(100)
    main, second, pool = (writer.thread(process, 100 + n) for n in range(3))
    path = writer.string("/data")
    desc = writer.desc(3, path, dev=1, ino=2)
    one = span(main, 2_000, 3_000, path)
    two = span(second, 2_500, 3_000, path)
    first, then, last = opened(pool, 2_100, desc, path), read(pool, 2_200, desc), read(pool, 2_600, desc)
    # WHEN the log is read THEN the last read is not held for the first one's
    found = answers(writer, tmp_path)
    assert found[first] == found[then] == ("inferred", one, None)
    assert found[last] == ("none", None, [one, two])


def test_files_are_told_by_identity_not_by_name(writer: LogWriter, tmp_path: Path) -> None:
    # GIVEN spans that declared a file by two names, one that nobody opened, and one whose name means another file
    process = writer.process(100)
    main, pool = writer.thread(process, 100), writer.thread(process, 101)
    name, link, unseen = writer.string("/data"), writer.string("/link"), writer.string("/un/../unseen")
    by_name, by_link = writer.desc(3, name, dev=1, ino=2), writer.desc(4, link, dev=1, ino=2)
    other = writer.desc(5, "/other", dev=2, ino=2)
    one, two = span(main, 2_000, 2_100, link), span(main, 2_100, 2_200, unseen)
    rows = [read(pool, 2_050, by_name), read(pool, 2_050, by_link), read(pool, 2_050, other)]
    stat = pool.record("STAT", begin=2_150, desc=writer.string("/unseen"))
    renamed = pool.record("RENAME", begin=2_160, desc=writer.string("/tmp"), aux=writer.string("/unseen"))
    # WHEN the log is read
    found = answers(writer, tmp_path)
    # THEN
    assert [found[row] for row in rows] == [("inferred", one, None)] * 2 + [("none", None, None)]
    assert found[stat] == found[renamed] == ("inferred", two, None)


def test_of_several_spans_none_is_picked_but_the_innermost(writer: LogWriter, tmp_path: Path) -> None:
    # GIVEN a span in a span of one file on one thread, and one on another thread for a while, that never ends
    process = writer.process(100)
    main, second, pool = (writer.thread(process, 100 + n) for n in range(3))
    path = writer.string("/data")
    desc = writer.desc(3, path, dev=1, ino=2)
    outer = span(main, 2_000, 9_000, path)
    inner = span(main, 3_000, 8_000, path, parent=span(main, 2_500, 8_500, parent=outer))
    third = span(second, 5_000, None, path)
    rows = [read(pool, begin, desc) for begin in (2_900, 3_100, 6_000, 8_000, 9_000)]
    copied = pool.record("RENAME", begin=5_500, desc=path, aux=writer.string("/else"))
    # WHEN the log is read THEN
    found = answers(writer, tmp_path)
    assert [found[row] for row in rows] == [
        ("inferred", outer, None), ("inferred", inner, None), ("none", None, sorted([outer, inner, third])),
        ("none", None, [outer, third]), ("inferred", third, None),
    ]  # fmt: skip
    assert found[copied] == ("none", None, sorted([outer, inner, third]))
    details = {row["id"]: row["detail"] for row in open_log(tmp_path / "run.pyio").operations().to_pylist()}
    assert json.loads(details[copied]) == {"to": "/else", "candidate_parents": sorted([outer, inner, third])}


def test_spans_within_each_other_on_two_threads_are_two(writer: LogWriter, tmp_path: Path) -> None:
    # GIVEN a span whose thread hands work to another one, which opens a span of the same file
    process = writer.process(100)
    main, second, pool = (writer.thread(process, 100 + n) for n in range(3))
    path = writer.string("/data")
    outer = span(main, 2_000, 9_000, path)
    inner = span(second, 3_000, 8_000, path, parent=outer)
    # WHEN a third one reads the file THEN it may be for either
    row = read(pool, 5_000, writer.desc(3, path, dev=1, ino=2))
    assert answers(writer, tmp_path)[row] == ("none", None, [outer, inner])


def test_a_copy_between_files_of_two_spans(writer: LogWriter, tmp_path: Path) -> None:
    # GIVEN files that two spans of two threads opened, two that declared files, and copies between them by a third
    process = writer.process(100)
    main, second, pool = (writer.thread(process, 100 + n) for n in range(3))
    a, b, c = (writer.desc(3 + n, f"/{n}", dev=1, ino=n + 1) for n in range(3))
    one, two = span(main, 2_000, 3_000), span(second, 2_000, 3_000)
    opened(main, 2_001, a, writer.string("/0"), one)
    opened(second, 2_001, b, writer.string("/1"), two)
    rows = [pool.record("SENDFILE", begin=2_500, desc=source, aux=target, offset=0, size=30, result=30)
            for source, target in ((a, b), (a, c), (c, b), (c, c))]  # fmt: skip
    three, four = span(main, 4_000, 5_000, writer.string("/0")), span(second, 4_000, 5_000, writer.string("/1"))
    rows += [pool.record("SENDFILE", begin=4_500, desc=source, aux=target, offset=0, size=30, result=30)
             for source, target in ((a, b), (a, c), (c, b), (a, a))]  # fmt: skip
    # WHEN the log is read THEN
    found = answers(writer, tmp_path)
    assert [found[row] for row in rows] == [
        ("none", None, [one, two]), ("descriptor", one, None), ("descriptor", two, None), ("none", None, None),
        ("none", None, [three, four]), ("inferred", three, None), ("inferred", four, None), ("inferred", three, None),
    ]  # fmt: skip


def test_runs_of_calls_have_to_lie_within(writer: LogWriter, tmp_path: Path) -> None:
    # GIVEN runs of like calls of a file object, within a span, and beyond its end
    process = writer.process(100)
    main, pool = writer.thread(process, 100), writer.thread(process, 101)
    path = writer.string("/data")
    desc, declared = writer.desc(3, "/opened", dev=1, ino=2), writer.desc(4, path, dev=1, ino=3)
    one = span(main, 2_000, 3_000, path)
    opened(main, 2_001, desc, writer.string("/opened"), one)
    rows = [
        pool.record("A_BUF_READ", begin=2_500, duration=9, flags=layout.COALESCED, desc=which, aux=5, offset=length)
        for which in (desc, declared) for length in (100, 600)
    ]  # fmt: skip
    # WHEN the log is read THEN
    found = answers(writer, tmp_path)
    assert [found[row] for row in rows] == [
        ("descriptor", one, None), ("none", None, None), ("inferred", one, None), ("none", None, None),
    ]  # fmt: skip


def test_a_log_that_has_lost_spans_infers_nothing_after_that(writer: LogWriter, tmp_path: Path) -> None:
    # GIVEN a log that was full at some time
    process = writer.process(100)
    main, pool = writer.thread(process, 100), writer.thread(process, 101)
    path = writer.string("/data")
    desc = writer.desc(3, path, dev=1, ino=3)
    one = span(main, 2_000, 9_000, path)
    rows = [read(pool, 2_500, desc), read(pool, 3_500, desc)]
    writer.header["full_since"], writer.header["full_reason"], writer.header["lost"] = 3_000, layout.FULL_DISK, 9
    # WHEN it is read THEN what came later may be of a span that has no record
    found = answers(writer, tmp_path)
    assert [found[row] for row in rows] == [("inferred", one, None), ("none", None, None)]


def test_where_a_process_had_no_room_nothing_is_inferred(writer: LogWriter, tmp_path: Path) -> None:
    # GIVEN a log with room left, in which one process could still not record some calls
    process = writer.process(100)
    path = writer.string("/data")
    span(writer.thread(process, 100), 2_000, 9_000, path)
    row = read(writer.thread(process, 101), 2_500, writer.desc(3, path, dev=1, ino=3))
    writer.header["lost"] = 9
    # WHEN it is read THEN the call gets no parent, since the right one may be missing
    assert answers(writer, tmp_path)[row] == ("none", None, None)


def test_parents_in_a_ring_are_those_that_the_calls_began_in(writer: LogWriter, tmp_path: Path) -> None:
    # GIVEN a ring, where another record may have replaced a call's parent: a single call, and a row of many calls
    thread = writer.thread(writer.process(100), 100)
    desc = writer.desc(3, "/data")
    one = thread.record("A_BUF_READ", begin=2_000, duration=100, desc=desc, aux=3, size=10, result=10)
    run = thread.record("A_BUF_READ", begin=3_000, duration=9, flags=layout.COALESCED, desc=desc, aux=5, offset=500)
    rows = [read(thread, begin, desc, parent=parent, link=1)
            for parent, begin in ((one, 1_990), (one, 2_050), (one, 2_200), (run, 3_400), (run, 3_600))]  # fmt: skip
    writer.header["ring_slots"] = 1
    # WHEN the log is read THEN a record is the parent only of calls that began while it ran
    log = open_log(writer.save(tmp_path / "run.pyio"))
    parents = {row["id"]: row["parent"] for row in log.operations().to_pylist()}
    assert [parents[row] for row in rows] == [None, one, None, run, None]


def test_many_candidates_are_cut_and_counted(writer: LogWriter, tmp_path: Path) -> None:
    # GIVEN fifty threads with a span each on one file WHEN one more reads it
    process = writer.process(100)
    path = writer.string("/data")
    spans = [span(writer.thread(process, 200 + n), 2_000 + n, 9_000, path) for n in range(50)]
    row = read(writer.thread(process, 101), 5_000, writer.desc(3, path, dev=1, ino=3))
    log = open_log(writer.save(tmp_path / "run.pyio"))
    # THEN the latest are listed, and how many more there are
    detail = {one["id"]: one["detail"] for one in log.operations().to_pylist()}[row]
    assert json.loads(detail) == {"candidate_parents": spans[-32:], "not_listed": 18}


def test_parts_of_a_dataset_by_its_folder(writer: LogWriter, tmp_path: Path) -> None:
    # GIVEN spans that declared folders, one in the other, and a thread without Python that opens parts in them
    process = writer.process(100, stack_state=STACK_STATES.index("full"))
    main, other, pool = (writer.thread(process, 100 + n) for n in range(3))
    outer = span(main, 2_000, 3_000, writer.string("/data"))
    inner = span(other, 2_000, 2_500, writer.string("/data/set"))
    python = writer.stack((writer.code("/p.py", "f"), 1))

    def part(begin: int, path: str, **fields: int) -> list[int]:
        desc = writer.desc(3, path, dev=1, ino=begin)
        return [opened(pool, begin, desc, writer.string(path), **fields), read(pool, begin + 1, desc, **fields)]

    wanted: dict[int, Answer] = {}
    for begin, path, fields, expected in (
        (2_100, "/data/set/year=1/0.parquet", {}, inner),
        (2_110, "/data/0.parquet", {}, outer),
        (2_120, "/data/settled/0.parquet", {}, outer),
        (2_130, "/data0/0.parquet", {}, None),
        (2_140, "/data.parquet", {}, None),
        (2_150, "/", {}, None),
        (2_160, "/data/set/1.parquet", {"stack": python}, None),  # the program's own doing
        (2_600, "/data/set/2.parquet", {}, outer),  # the inner one is over
    ):
        for row in part(begin, path, **fields):
            wanted[row] = ("none", None, None) if expected is None else ("inferred", expected, None)
    # THEN they are of the span that declared the innermost folder, of those that are open
    found = answers(writer, tmp_path)
    assert {row: found[row] for row in wanted} == wanted


def test_a_dataset_of_two_spans_is_given_to_neither(writer: LogWriter, tmp_path: Path) -> None:
    process = writer.process(100, stack_state=STACK_STATES.index("full"))
    threads = [writer.thread(process, 100 + n) for n in range(3)]
    folder = writer.string("/data")
    spans = [span(thread, 2_000, 3_000, folder) for thread in threads[:2]]
    row = read(threads[2], 2_500, writer.desc(3, "/data/0.parquet", dev=1, ino=3))
    assert answers(writer, tmp_path)[row] == ("none", None, spans)


def test_candidates_in_a_folder_of_logs(tmp_path: Path) -> None:
    # GIVEN two logs in which a read may be of two spans
    for number in range(2):
        writer = LogWriter()
        writer.header["run_id"] = number + 1
        process = writer.process(100)
        threads = [writer.thread(process, 100 + n) for n in range(3)]
        path = writer.string("/data")
        span(threads[0], 2_000, 3_000, path), span(threads[1], 2_000, 3_000, path)
        read(threads[2], 2_500, writer.desc(3, path, dev=1, ino=3))
        (tmp_path / "logs").mkdir(exist_ok=True)
        writer.save(tmp_path / "logs" / f"{number}.pyio")
    # WHEN they are read as one, and packed as one THEN the ids listed are those of the spans
    pack(tmp_path / "logs", tmp_path / "all.parquet")
    for log in (open_log(tmp_path / "logs"), open_log(tmp_path / "all.parquet")):
        rows = log.operations().to_pylist()
        for number in range(2):
            spans = [row["id"] for row in rows if row["layer"] == "app"][2 * number : 2 * number + 2]
            listed = [answer(row)[2] for row in rows if row["op"] == "pread"][number]
            assert listed == spans


# ---- any interleaving of spans and operations


@dataclass
class Model:
    """A log in the making, and what is known of it, to be looked through one by one."""

    writer: LogWriter = field(default_factory=LogWriter)
    spans: dict[int, dict[str, Any]] = field(default_factory=dict)
    parent_of: dict[int, int] = field(default_factory=dict)
    opened_in: dict[int, int] = field(default_factory=dict)
    asked: dict[int, dict[str, Any]] = field(default_factory=dict)

    def ancestors(self, identity: int) -> list[int]:
        chain = []
        while identity:
            chain.append(identity)
            identity = self.parent_of[identity]
        return chain

    def is_open(self, identity: int, row: dict[str, Any]) -> bool:
        one = self.spans.get(identity)
        if one is None or one["process"] != row["process"]:
            return False
        return one["begin"] <= row["begin"] and (one["end"] is None or row["begin"] < one["end"])

    def nested(self, outer: int, inner: int) -> bool:
        one, other = self.spans[outer], self.spans[inner]
        ends = [float("inf") if end is None else end for end in (one["end"], other["end"])]
        return (
            outer in self.ancestors(inner)
            and one["tid"] == other["tid"]
            and one["begin"] <= other["begin"]
            and ends[1] <= ends[0]
        )

    def expected(self, row: dict[str, Any]) -> Answer:
        if row["parent"]:
            return "thread", row["parent"], None  # how the capture knew it is not asked here
        if row["desc"] is not None:
            for identity in self.ancestors(self.opened_in.get(row["desc"], 0)):
                if self.is_open(identity, row):
                    return "descriptor", identity, None
        able = [i for i, one in self.spans.items() if one["file"] == row["file"] and self.is_open(i, row)]
        if not able and row["file"] == IN_FOLDER and row["strange"]:
            able = [i for i, one in self.spans.items() if one["file"] == FOLDER and self.is_open(i, row)]
        able.sort(key=lambda identity: (self.spans[identity]["begin"], identity))
        if not able:
            return "none", None, None
        if all(self.nested(outer, inner) for outer, inner in itertools.pairwise(able)):
            return "inferred", able[-1], None
        return "none", None, sorted(able)


FOLDER, IN_FOLDER = 1, 3
STEP_NAMES = ["begin", "begin", "end", "end", "end", "end_other", "open", "read", "read", "read", "stat"]
STEP = st.tuples(
    st.integers(0, 3),  # thread: two of each of two processes
    st.sampled_from(STEP_NAMES),
    st.integers(0, 3),  # file; no span declares 0
    st.integers(0, 3),  # 0: with no span known, 3: with one handed over by another thread, else in those of its own
)


def play(model: Model, steps: list[Step]) -> None:
    """Makes the log: spans as stacks of their threads, which sometimes end in another order."""
    writer = model.writer
    processes = [writer.process(100, stack_state=1), writer.process(200, start=layout.START_FORK)]  # FULL, NONE
    threads = [writer.thread(processes[n // 2], 100 + n) for n in range(4)]
    python = writer.stack((writer.code("/p.py", "f"), 1))
    paths = [writer.string(path) for path in ("/0", "/1", "/2", "/1/and/3")]
    descs: dict[int, list[int]] = {n: [writer.desc(9, paths[n], dev=1, ino=n + 1)] for n in range(4)}
    stacks: list[list[int]] = [[] for _ in threads]
    places: dict[int, int] = {}
    for number, (which, what, file, how) in enumerate(steps):
        begin, thread, stack = 2_000 + number // 2, threads[which], stacks[which]
        around = stacks[which ^ 1] if how == 3 else stack
        parent = around[-1] if around and how else 0
        process = which // 2
        fields = {"stack": python if number % 3 == 0 else 0}
        strange = process == 0 and not fields["stack"]
        if what == "begin":
            identity = span(thread, begin, None, paths[file] if file else 0, parent)
            own = {"process": process, "tid": which, "begin": begin, "end": None, "file": file or None}
            model.spans[identity] = own
            model.parent_of[identity] = parent
            places[identity] = begin
            stack.append(identity)
        elif what in ("end", "end_other") and stack:
            identity = stack.pop(-1 if what == "end" else 0)
            row = writer.data[identity << 4 : (identity << 4) + layout.RECORD.itemsize]
            record = bytearray(row)
            record[1] = record[1] & ~layout.STATE_MASK | layout.DONE
            record[16:20] = (begin - places[identity]).to_bytes(4, "little")
            writer.put(identity << 4, bytes(record))
            model.spans[identity]["end"] = begin
        elif what == "open":
            desc = writer.desc(10 + number, paths[file], dev=1, ino=file + 1)
            descs[file].append(desc)
            asked = {"process": process, "begin": begin, "desc": None, "file": file, "strange": strange}
            call = parent
            if file == 2:
                call = opened(thread, begin, desc, paths[file], parent, op="A_OPEN", **fields)
                model.parent_of[call] = parent
                model.asked[call] = {**asked, "parent": parent}
            identity = opened(thread, begin, desc, paths[file], call, **fields)
            model.opened_in[desc] = call
            model.asked[identity] = {**asked, "parent": call}
        elif what in ("read", "stat"):
            desc = descs[file][number % len(descs[file])]
            link = 1 if parent else 0
            if what == "read":
                identity = read(thread, begin, desc, parent=parent, link=link, **fields)
            else:
                identity = thread.record("STAT", begin=begin, desc=paths[file], parent=parent, link=link, **fields)
            model.asked[identity] = {
                "process": process, "begin": begin, "parent": parent, "desc": desc if what == "read" else None,
                "file": file, "strange": strange,
            }  # fmt: skip


@settings(max_examples=200)
@given(st.lists(STEP, max_size=60))
def test_like_looking_at_all_spans_for_each_operation(
    tmp_path_factory: pytest.TempPathFactory, steps: list[Step]
) -> None:
    """Any interleaving of spans and operations on the threads of two processes."""
    model = Model()
    play(model, steps)
    path = model.writer.save(tmp_path_factory.getbasetemp() / f"any-{os.getpid()}.pyio")
    rows = {row["id"]: answer(row) for row in open_log(path).operations(["id", "link", "parent", "detail"]).to_pylist()}
    assert {identity: rows[identity] for identity in model.asked} == {
        identity: model.expected(row) for identity, row in model.asked.items()
    }


def test_blocks_are_like_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # GIVEN a log with every kind of link, read in blocks of a few rows
    model = Model()
    steps, draw = STEP_NAMES, random.Random(2)
    play(
        model,
        [(draw.randrange(4), draw.choice(steps), draw.randrange(4), draw.choice([0, 0, 1, 3])) for _ in range(900)],
    )
    path = model.writer.save(tmp_path / "run.pyio")
    monkeypatch.setattr(live_source, "BLOCK_ROWS", 7)
    monkeypatch.setattr(log_tables, "BLOCK_ROWS", 7)
    rows = {row["id"]: answer(row) for row in open_log(path).operations().to_pylist()}
    # THEN it is what the slow way finds, and there is something of each
    found = {identity: rows[identity] for identity in model.asked}
    assert found == {identity: model.expected(row) for identity, row in model.asked.items()}
    assert {link for link, _, _ in found.values()} == {"none", "thread", "descriptor", "inferred"}
    assert any(candidates for _, _, candidates in found.values())


def test_a_log_without_spans_is_not_looked_through(writer: LogWriter, tmp_path: Path) -> None:
    thread = writer.thread(writer.process(100), 100)
    desc = writer.desc(3, "/data", dev=1, ino=2)
    opened(
        thread, 2_000, desc, writer.string("/data"), opened(thread, 2_000, desc, writer.string("/data"), op="A_OPEN")
    )
    read(thread, 2_500, desc)
    log = LiveLog(writer.save(tmp_path / "run.pyio"))
    assert log_tables.LogTables(log, Heap(log)).parent_finder is None
    assert isinstance(open_log(tmp_path / "run.pyio"), Log)
