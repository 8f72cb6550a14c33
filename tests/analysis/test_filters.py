"""Choosing and ordering operations: what a path pattern is about, ties, nulls and limits."""

from __future__ import annotations

from pathlib import Path

import pytest

from pyio_trace.analysis.scan.filters import Filter, line_matcher, restrict
from pyio_trace.analysis.tables.ordering import check_columns, select, since_start
from pyio_trace.analysis.tables.sums_tables import by_file
from pyio_trace.errors import ConfigError
from pyio_trace.join.sources.facade import Log
from pyio_trace.join.sources.opening import open_log
from pyio_trace.log import layout
from tests.support.logwriter import LogWriter

#: (pattern of --line, site) -> whether the site is chosen
LINES = [
    ("train.py:9", "/home/u/train.py:9:main", True),
    ("train.py:9", "/home/u/train.py:90:main", False),
    ("train.py:9", "/home/u/train.py:19:main", False),
    ("train.py:09", "/home/u/train.py:9:main", True),
    ("train.py", "/home/u/train.py:9:main", True),
    ("train*.py", "/home/u/train2.py:9:main", True),
    ("/home/u/train.py:9", "/home/u/train.py:9:main", True),
    ("/home/u", "/home/u/sub/train.py:9:main", True),
    ("/home/x/train.py:9", "/home/u/train.py:9:main", False),
    ("train", "/home/u/train.py:9:main", False),
    ("<string>:1", "<string>:1:<module>", True),
    ("a:b.py:3", "/d/a:b.py:3:run", True),
    ("odd", "odd", True),
    ("odd:1", "odd", False),
]


@pytest.mark.parametrize(("pattern", "site", "chosen"), LINES)
def test_which_lines_a_pattern_means(pattern: str, site: str, chosen: bool) -> None:
    assert line_matcher(pattern)(site) == chosen


@pytest.fixture
def log(tmp_path: Path) -> Log:
    """Five reads of one thread: 30, 10, 10 and 20 ns long, and one that never returned."""
    writer = LogWriter()
    process = writer.process(100, begin=1_000, end=9_000, end_kind=layout.END_EXIT)
    thread, desc = writer.thread(process, 100), writer.desc(3, "/d/x", dev=1, ino=1)
    for n, duration in enumerate((30, 10, 10, 20)):
        thread.record("PREAD", begin=2_000 + 100 * n, duration=duration, desc=desc, aux=3, offset=n, size=1, result=1)
    thread.record("PREAD", begin=2_400, state=layout.BEGUN, desc=desc, aux=3, offset=4, size=1)
    return open_log(writer.save(tmp_path / "run.pyio"))


def chosen(log: Log, *, reverse: bool = False, limit: int | None = None, least: int = 0) -> list[int | None]:
    batches = select(restrict(log, Filter(min_duration=least)), ("duration",), "duration", reverse, limit)
    return [row["duration"] for batch in batches for row in batch.to_pylist()]


def test_the_longest_come_first_and_those_in_flight_before_them(log: Log) -> None:
    assert chosen(log) == [None, 30, 20, 10, 10]
    assert chosen(log, limit=3) == [None, 30, 20]
    assert chosen(log, limit=0) == []
    assert chosen(log, limit=100) == [None, 30, 20, 10, 10]
    assert chosen(log, reverse=True)[1:] == [10, 10, 20, 30]


def test_a_least_duration_includes_itself_and_what_is_in_flight(log: Log) -> None:
    assert chosen(log, least=20) == [None, 30, 20]
    assert chosen(log, least=31) == chosen(log, least=6_600) == [None]
    assert chosen(log, least=6_601) == []  # as its process ended 6,600 ns after its begin


def test_times_since_the_start_of_the_run(log: Log) -> None:
    # the run starts at 1,000; its reads begin at 2,000, and the last one lasts to the end at 9,000
    table = since_start(by_file(log), log, ("first", "last"))
    assert [(row["first"], row["last"]) for row in table.to_pylist()] == [(1_000, 8_000)]


def test_columns_that_there_are_not() -> None:
    check_columns([])
    check_columns(["path", "duration"])
    with pytest.raises(ConfigError, match="no column 'durations'"):
        check_columns(["path", "durations"])


@pytest.mark.parametrize(("word", "pids"), [("1", {1}), ("0", {1}), ("100", {100}), ("2", {200})])
def test_a_number_is_a_pid_before_it_is_an_index(tmp_path: Path, word: str, pids: set[int]) -> None:
    # GIVEN a number that is one process's pid and another's index WHEN it is selected THEN only one process is chosen
    writer = LogWriter()
    desc = writer.desc(3, "/d/x", dev=1, ino=1)
    for pid in (1, 100, 200):
        thread = writer.thread(writer.process(pid, begin=1_000, end=9_000), pid)
        thread.record("PREAD", begin=2_000, desc=desc, aux=3, offset=0, size=1, result=1)
    log = restrict(open_log(writer.save(tmp_path / "run.pyio")), Filter(processes=[word]))
    assert set(log.operations(["pid"])["pid"].to_pylist()) == pids
