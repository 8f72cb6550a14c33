"""The columns op_role, request_id, task_id and in_transfer, of logs made by hand."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from pyio_trace import enums, events
from pyio_trace.enums import Link, Role
from pyio_trace.join.pack.packer import pack
from pyio_trace.join.parents.enclosures import NESTED, EnclosingRecords, Enclosures
from pyio_trace.join.sources.facade import Log
from pyio_trace.join.sources.opening import open_log
from pyio_trace.log import layout
from tests.support.logwriter import OP, LogWriter, Thread

THREAD = Link.THREAD
NAMES = {
    "SPAN_APP": "pandas.read_csv", "SPAN_APP_WAIT": "DataLoader.__next__", "SPAN_APP_CONTAINER": "DataLoader.fetch",
    "SPAN_APP_STARTING": "DataLoader.__iter__", "SPAN_APP_READ": "numpy.load", "SPAN_USER": "epoch",
    "SPAN_HDF5": "H5Dread",
}  # fmt: skip


@pytest.fixture
def writer() -> LogWriter:
    return LogWriter()


def span(thread: Thread, begin: int, op: str, parent: int = 0, link: int = THREAD, **fields: int) -> int:
    """A named span of 1000 ticks."""
    name = thread.writer.string(NAMES[op])
    return thread.record(op, begin=begin, duration=1000, aux=name, offset=0, parent=parent,
                         link=link if parent else 0, **fields)  # fmt: skip


def read(thread: Thread, begin: int, parent: int = 0, op: str = "READ", link: int = THREAD, **fields: int) -> int:
    fields = {"desc": 0, "aux": 3, "size": 10, "result": 10} | fields
    return thread.record(op, begin=begin, parent=parent, link=link if parent else 0, **fields)


def columns(log: Log) -> dict[int, dict[str, Any]]:
    """By id: the columns that say what encloses the row."""
    return {row.pop("id"): row for row in log.operations(("id", *events.ENCLOSING)).to_pylist()}


def around(writer: LogWriter, folder: Path) -> dict[int, tuple[str, int | None, int | None]]:
    """(role, request, task) by id; the log, packed, says the same, also when it is packed without these columns."""
    live = columns(open_log(writer.save(folder / "run.pyio")))
    pack(folder / "run.pyio", folder / "run.parquet")
    assert columns(open_log(folder / "run.parquet")) == live
    table = pq.read_table(folder / "run.parquet").drop_columns(list(events.ENCLOSING))
    pq.write_table(table, folder / "earlier.parquet")
    assert columns(open_log(folder / "earlier.parquet")) == live
    return {identity: (row["op_role"], row["request_id"], row["task_id"]) for identity, row in live.items()}


def test_requests_containers_and_what_is_in_them(writer: LogWriter, tmp_path: Path) -> None:
    # GIVEN a read in a file object's read in numpy.load in a fetch in a user span, and a read in nothing
    thread = writer.thread(writer.process(100), 1)
    epoch = span(thread, 2000, "SPAN_USER")
    fetch = span(thread, 2010, "SPAN_APP_CONTAINER", epoch)
    load = span(thread, 2020, "SPAN_APP_READ", fetch, result=5)
    buffered = read(thread, 2030, load, "A_BUF_READ")
    system = read(thread, 2031, buffered)
    beside = read(thread, 2040, fetch)
    outside = read(thread, 4000)
    # WHEN the log is read
    found = around(writer, tmp_path)
    # THEN the request is the outermost one, the task the innermost container, and a container is never in itself
    assert found == {
        epoch: ("container", None, None), fetch: ("container", None, epoch), load: ("request", load, fetch),
        buffered: ("request", load, fetch), system: ("io", load, fetch), beside: ("io", None, fetch),
        outside: ("io", None, None),
    }  # fmt: skip


def test_bytes_are_asked_for_once(writer: LogWriter, tmp_path: Path) -> None:
    # GIVEN read_csv, whose bytes nobody tells, with numpy.load in it, and a read of a file object in that
    thread = writer.thread(writer.process(100), 1)
    csv = span(thread, 2000, "SPAN_APP")
    load = span(thread, 2010, "SPAN_APP_READ", csv, result=5)
    buffered = read(thread, 2020, load, "A_BUF_READ")
    system = read(thread, 2030, buffered)
    alone = read(thread, 2040, csv)
    # THEN what is in numpy.load is in a transfer, and numpy.load itself is not
    rows = columns(open_log(writer.save(tmp_path / "run.pyio")))
    assert [identity for identity, row in rows.items() if row["in_transfer"]] == [buffered, system]
    assert {rows[identity]["request_id"] for identity in (csv, load, buffered, system, alone)} == {csv}


def test_waits_swallow_nothing(writer: LogWriter, tmp_path: Path) -> None:
    # GIVEN a wait with a fetch in it, as without workers, one with reads in it alone, and the start of workers
    thread = writer.thread(writer.process(100), 1)
    start = span(thread, 1500, "SPAN_APP_STARTING")
    in_start = read(thread, 1600, start)
    working = span(thread, 3000, "SPAN_APP_WAIT")
    fetch = span(thread, 3010, "SPAN_APP_CONTAINER", working)
    in_fetch = read(thread, 3020, fetch)
    waiting = span(thread, 5000, "SPAN_APP_WAIT")
    in_wait = read(thread, 5010, waiting)
    found = around(writer, tmp_path)
    # THEN the first is a container, and no read has a request
    assert found == {
        start: ("starting", None, None), in_start: ("io", None, None),
        working: ("container", None, None), fetch: ("container", None, working), in_fetch: ("io", None, fetch),
        waiting: ("wait", None, None), in_wait: ("io", None, None),
    }  # fmt: skip


def test_a_parent_in_another_process_encloses_nothing(writer: LogWriter, tmp_path: Path) -> None:
    # GIVEN a process that was forked in a container, in a request, and in a file object's call
    trainer, worker = writer.process(100), writer.process(200, start=layout.START_FORK)
    thread, forked = writer.thread(trainer, 1), writer.thread(worker, 2)
    fetch = span(thread, 2000, "SPAN_APP_CONTAINER")
    load = span(thread, 2010, "SPAN_APP_READ", fetch)
    call = read(thread, 2020, op="A_BUF_READ")
    rows = [read(forked, 2100 + step, parent) for step, parent in enumerate((fetch, load, call))]
    own = span(forked, 2200, "SPAN_APP", load)
    below = read(forked, 2210, own)
    found = around(writer, tmp_path)
    # THEN it keeps them as parents, as what caused its calls, and is in none of them
    assert [found[row] for row in rows] == [("io", None, None)] * 3
    assert found[own] == ("request", own, None) and found[below] == ("io", own, None)
    parents = open_log(tmp_path / "run.pyio").operations(["id", "parent"]).to_pylist()
    assert {row["id"]: row["parent"] for row in parents}[rows[1]] == load


def test_parents_that_come_later_in_the_log(writer: LogWriter, tmp_path: Path) -> None:
    # GIVEN a thread whose chunk is before that of the thread that gave it work
    process = writer.process(100)
    pool, main = writer.thread(process, 2), writer.thread(process, 1)
    first = read(pool, 1000)
    task = span(main, 1500, "SPAN_APP_CONTAINER")
    load = span(main, 1510, "SPAN_APP", task)
    late = read(pool, 1600, load, link=Link.CONTEXT)
    inner = read(pool, 1700, task, "A_BUF_READ", link=Link.CONTEXT)
    assert late < task
    found = around(writer, tmp_path)
    assert found[first] == ("io", None, None)
    assert found[late] == ("io", load, task) and found[inner] == ("request", inner, task)


def test_calls_below_one_whose_parent_was_found_afterwards(writer: LogWriter, tmp_path: Path) -> None:
    # GIVEN a span that declared a file, and a library's thread that reads it through a file object
    process = writer.process(100)
    main, pool = writer.thread(process, 1), writer.thread(process, 2)
    path = writer.string("/data/x")
    load = span(main, 2000, "SPAN_APP", desc=path)
    file = writer.desc(3, path, dev=1, ino=5)
    buffered = read(pool, 2100, op="A_BUF_READ", desc=file)
    system = read(pool, 2101, buffered, desc=file)
    found = columns(open_log(writer.save(tmp_path / "run.pyio")))
    assert found[buffered]["request_id"] == found[system]["request_id"] == load


def test_roles_of_calls(writer: LogWriter, tmp_path: Path) -> None:
    # GIVEN calls of every sort
    thread = writer.thread(writer.process(100), 1)
    file, shared = writer.desc(3, "/data/x", kind=1), writer.desc(4, "/dev/shm/torch_1 (deleted)", kind=1)
    fifo, path = writer.desc(5, "/run/fifo", kind=layout.DESC_KINDS.index("fifo")), writer.string("/run/fifo")
    calls = {
        "READ": "io", "FSYNC": "sync", "FFLUSH": "io", "FLOCK": "lock", "LOCKF": "lock", "MMAP": "map", "STAT": "io",
        "MSYNC": "sync", "SYNC": "sync", "FORK": "process", "SYSTEM": "wait", "PCLOSE": "wait", "FREAD": "io",
    }  # fmt: skip
    made = {thread.record(op, begin=2000 + n, desc=file): role for n, (op, role) in enumerate(calls.items())}
    for command, role in ((6, "lock"), (7, "lock"), (38, "lock"), (3, "io")):  # the last: F_GETFL
        made[thread.record("FCNTL", begin=3000, desc=file, size=command)] = role
    for op, role in (("MMAP", "transport"), ("FTRUNCATE", "transport"), ("READ", "io"), ("FORK", "process")):
        made[thread.record(op, begin=3000, desc=shared)] = role
    made |= {thread.record(op, begin=3000, desc=fifo): "wait" for op in ("READ", "WRITE")}
    made[thread.record("CLOSE", begin=3000, desc=fifo)] = "io"
    made[thread.record("OPEN", begin=3000, desc=path, offset=fifo, result=5)] = "wait"
    # WHEN the log is read THEN each has its role
    log = open_log(writer.save(tmp_path / "run.pyio"))
    assert {identity: row["op_role"] for identity, row in columns(log).items()} == made


def test_every_operation_of_the_table_has_a_role(writer: LogWriter, tmp_path: Path) -> None:
    # GIVEN one record of each operation WHEN the log is read THEN each row has a role, and hidden ones have no row
    thread = writer.thread(writer.process(100), 1, 1 << 16)
    for number in range(1, len(OP)):
        thread.record(number, begin=2000 + number)
    roles = open_log(writer.save(tmp_path / "run.pyio")).operations(["op_role"])["op_role"].to_pylist()
    assert set(roles) == set(enums.ROLES) - {"none", "transport"}


@pytest.mark.parametrize("seed", range(20))
def test_against_a_plain_loop(writer: LogWriter, tmp_path: Path, seed: int) -> None:
    # GIVEN spans and calls in two processes, nested at random, also across them
    rng = random.Random(seed)
    processes = [writer.process(100), writer.process(200, start=layout.START_FORK)]
    threads = [writer.thread(process, tid) for tid, process in enumerate(processes * 2)]
    made: dict[int, tuple[int, str, int]] = {}
    for step in range(60):
        number = rng.randrange(4)
        parent = rng.choice([0, *(one for one, (_, op, _) in made.items() if op != "READ")])  # which has none inside
        op = rng.choice([*NAMES, "A_BUF_READ", "READ", "FREAD"])
        make = span if op in NAMES else read
        moved = {"result": 5} if op == "SPAN_APP_READ" else {}
        made[make(threads[number], 2000 + step, op=op, parent=parent, **moved)] = (parent, op, number % 2)
    # WHEN the log is read THEN it says what a walk along the parents says
    found = around(writer, tmp_path)
    in_transfer = {one for one, row in columns(open_log(tmp_path / "run.pyio")).items() if row["in_transfer"]}
    for identity, (_, op, process) in made.items():
        chain = [identity]
        while (parent := made[chain[-1]][0]) and made[parent][2] == process:
            chain.append(parent)
        requests = [one for one in chain if found[one][0] == "request"]
        tasks = [one for one in chain[1:] if found[one][0] == "container"]
        assert found[identity][1:] == (requests[-1] if requests else None, tasks[0] if tasks else None), (identity, op)
        transfers = [one for one in chain[1:] if made[one][1] in ("SPAN_APP_READ", "A_BUF_READ")]
        assert (identity in in_transfer) == bool(transfers), (identity, op)


# ---- logs that no tracer wrote


def test_parents_that_are_in_no_log_or_in_a_circle(writer: LogWriter, tmp_path: Path) -> None:
    # GIVEN spans that enclose one another, and calls whose parents are not there, or far away
    thread = writer.thread(writer.process(100), 1)
    first = span(thread, 2000, "SPAN_APP", 1)
    span(thread, 2001, "SPAN_APP_CONTAINER", first)
    row = (first << layout.ID_SHIFT) + layout.RECORD.fields["parent"][1]  # type: ignore[index]
    writer.put(row, np.array(first + 3, "<u4"))
    absent = [read(thread, 2010 + n, parent) for n, parent in enumerate((5, first + 1 << 10, 0xFFFFFFFF))]
    # WHEN the log is read THEN they are in nothing
    found = columns(open_log(writer.save(tmp_path / "run.pyio")))
    assert [(found[row]["request_id"], found[row]["task_id"]) for row in absent] == [(None, None)] * 3
    assert found[first]["task_id"] is None


def test_ids_far_apart_take_no_table() -> None:
    # GIVEN a log of a few records with ids up to 2**62 WHEN its table is made THEN it is small, and they are found
    from pyio_trace.join.base.vocabulary import Vocabulary
    from pyio_trace.log.blocks import Block
    from tests.support.logwriter import OP_ROWS

    far = 1 << 62
    collected = EnclosingRecords(Vocabulary(OP_ROWS), 3, far)
    assert len(collected.table) < 1 << 25
    records = np.zeros(3, layout.RECORD)
    records["op"], records["flags"] = OP["SPAN_APP"], layout.DONE
    ids = np.array([9, far - 9, far], np.int64)
    nested = collected.look_at(Block(records, ids, np.zeros(3, np.int64), np.zeros(3, np.int32)))
    assert nested is not None and nested["id"].tolist() == [far - 9, far]
    found = Enclosures(collected.table, [nested], None).above(np.array([9, far, far + 3, 0]), np.zeros(4, np.int64))
    assert found.request.tolist() == [9, far, 0, 0]


def test_deep_and_wide_nesting_ends() -> None:
    # GIVEN a chain of 10,000 containers, and as many spans in one circle WHEN it is resolved THEN that ends
    count = 10_000
    nested = np.zeros(2 * count, NESTED)
    nested["id"], nested["role"] = 3 * np.arange(1, 2 * count + 1), Role.CONTAINER
    nested["parent"][1:count] = nested["id"][: count - 1]
    nested["parent"][count:] = np.roll(nested["id"][count:], 1)
    found = Enclosures(np.full(1, 2, np.uint8), [nested], None)
    assert found.above(np.array([3, 6, 3 * 60]), np.zeros(3, np.int64)).task.tolist() == [3, 6, 180]
