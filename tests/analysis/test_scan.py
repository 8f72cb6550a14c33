"""Reducers: one scan feeds all, and parts combine to the same result however the log is divided."""

from __future__ import annotations

import pickle
from functools import reduce
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from pyio_trace.analysis.reducer import Reducer, found, scan
from pyio_trace.analysis.scan.decoding import DERIVED, decoded
from pyio_trace.events import ALL_COLUMNS
from pyio_trace.join.pack.packer import pack
from pyio_trace.join.sources.facade import Log
from pyio_trace.join.sources.opening import open_log
from tests.support.programs import Outcome, Runner, succeeded
from tests.support.results import plain
from tests.support.smallrun import small_run

pytestmark = pytest.mark.once

BUSY = """\
import os, threading
def work(name):
    for n in range(4):
        with open(name, "ab") as file: file.write(bytes(100 + n))
        with open(name, "rb") as file: file.read()
        fd = os.open("shared", os.O_RDWR | os.O_CREAT)
        os.pwrite(fd, bytes(50 + n % 3), 1000 * n)
        os.pread(fd, 60, 900 * n)
        os.close(fd)
threads = [threading.Thread(target=work, args=[f"file{n}"]) for n in range(3)]
for thread in threads: thread.start()
for thread in threads: thread.join()
if os.fork() == 0:
    work("file0")
    os._exit(0)
os.wait()
"""
REDUCERS = sorted(found())


@pytest.fixture(scope="module")
def busy(tmp_path_factory: pytest.TempPathFactory) -> Outcome:
    return succeeded(Runner(tmp_path_factory.mktemp("busy")).traced(BUSY))


@pytest.fixture(scope="module")
def packed_log(busy: Outcome) -> Log:
    pack(busy.path, busy.path.with_suffix(".parquet"))
    return open_log(busy.path.with_suffix(".parquet"))


def parts_of(log: Log, reducer: Reducer[Any, Any], rows: int) -> list[Any]:
    return [reducer.partial(batch) for batch in decoded(log, reducer.columns, rows)]


def as_tree(reducer: Reducer[Any, Any], parts: list[Any]) -> Any:
    """Combines neighbours, then neighbours of those: as several workers would."""
    while len(parts) > 1:
        pairs = [parts[n : n + 2] for n in range(0, len(parts), 2)]
        parts = [reduce(reducer.combine, pair) for pair in pairs]
    return parts[0]


@pytest.mark.parametrize("name", REDUCERS)
def test_a_reducer_declares_known_columns(name: str) -> None:
    assert set(found()[name].columns) <= {*ALL_COLUMNS, *DERIVED}


@pytest.mark.parametrize("name", REDUCERS)
def test_results_do_not_depend_on_how_the_log_is_divided(busy: Outcome, name: str) -> None:
    # GIVEN a run of several threads and processes, and its result from one scan
    log = busy.log
    reducer = found()[name]()
    (whole,) = scan(log, [reducer])
    # WHEN parts of any number of rows are combined from left to right, or as a tree THEN the result is the same
    for rows in (1, 7, 64, 1 << 20):
        one = reduce(reducer.combine, parts_of(log, reducer, rows))
        assert plain(reducer.finish(one, log)) == plain(whole), rows
        assert plain(reducer.finish(as_tree(reducer, parts_of(log, reducer, rows)), log)) == plain(whole), rows
    # ... also where the parts come from other processes
    sent = [pickle.loads(pickle.dumps(part)) for part in parts_of(log, pickle.loads(pickle.dumps(reducer)), 64)]
    assert plain(reducer.finish(reduce(reducer.combine, sent), log)) == plain(whole)


@pytest.mark.parametrize("name", REDUCERS)
def test_a_packed_log_gives_the_same(busy: Outcome, packed_log: Log, name: str) -> None:
    (live,) = scan(busy.log, [found()[name]()])
    (packed,) = scan(packed_log, [found()[name]()])
    assert plain(packed) == plain(live)


class Seen:
    """A reducer that keeps what it is given."""

    def __init__(self, *columns: str) -> None:
        self.columns: Any = columns

    def partial(self, batch: pa.RecordBatch) -> list[pa.RecordBatch]:
        return [batch]

    def combine(self, part: list[pa.RecordBatch], later: list[pa.RecordBatch]) -> list[pa.RecordBatch]:
        return part + later

    def finish(self, part: list[pa.RecordBatch] | None, log: Log) -> pa.Table:
        return pa.Table.from_batches(part or [])


def test_one_scan_feeds_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # GIVEN a log of which each reading is noted
    log = open_log(small_run(tmp_path / "run.pyio"))
    readings, batches = [], log.batches

    def noting(columns: tuple[str, ...]) -> Any:
        readings.append(columns)
        return batches(columns)

    monkeypatch.setattr(log, "batches", noting)
    rows: list[int] = []
    # WHEN two reducers are scanned that share a column
    one, other = scan(log, [Seen("id", "op"), Seen("op", "time")], rows.append)
    # THEN the log was read once with the columns of both, each got its own, and the progress is all rows
    assert readings == [("id", "op", "time")]
    assert (one.column_names, other.column_names) == (["id", "op"], ["op", "time"])
    assert (
        other.equals(log.operations(["op", "time"])) or other.to_pydict() == log.operations(["op", "time"]).to_pydict()
    )
    assert sum(rows) == log.rows() == one.num_rows
