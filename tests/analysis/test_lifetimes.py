"""How long processes lived, and which entries of the process table are one program."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pyio_trace.analysis.calls import lifetimes

START = 1_000_000


def row(begin: int = 0, end: int | None = None, **fields: Any) -> dict[str, Any]:
    """A row of the process table; begin, end: ns since START."""
    given = {
        "ended": "exit 0",
        "end_by": "itself",
        "parent": None,
        "pid": 7,
        "host": "h",
        "argv": ["p"],
        "start": "top",
        "script_begin": None,
    }
    return given | {"begin": START + begin, "end": None if end is None else START + end} | fields


def test_until_the_end_or_the_last_operation() -> None:
    # GIVEN a process with an end, one without, one whose last operation is before its begin, and an element for none
    table = [row(10, 50), row(20), row(30)]
    last = np.array([40, 70, 5, 99])
    # THEN each has lived until what is known, and never less than nothing
    assert lifetimes.lifetimes(table, last, START, {}).tolist() == [40, 50, 0, 0]


def test_until_the_last_thing_that_was_seen() -> None:
    # GIVEN processes without an end: one began its own code after its last operation, one started a child, here and
    # on another host, of which the clock may differ
    table = [row(10, script_begin=START + 60), row(10), row(70, 75, parent=1), row(10), row(90, parent=3, host="other")]
    last = np.array([40, 40, 70, 40, 90])
    # THEN each has lived until then
    assert lifetimes.lifetimes(table, last, START, {}).tolist() == [50, 60, 5, 30, 0]


def test_until_the_last_sample() -> None:
    # GIVEN two processes without an end that waited after their last operation, one of them sampled, and one that ended
    # THEN the sampled one has lived until its last sample; samples without a process count for nobody
    table, last = [row(10), row(10), row(10, 50)], np.array([40, 40, 40])
    sampled = {-1: START + 900, 1: START + 300, 2: START + 60}
    assert lifetimes.lifetimes(table, last, START, sampled).tolist() == [30, 290, 40]


def test_times_of_a_damaged_log_fit() -> None:
    table = [row(0, 0) | {"begin": -(1 << 63), "end": (1 << 63) - 1}]
    assert lifetimes.lifetimes(table, np.zeros(1, np.int64), START, {}).tolist() == [(1 << 63) - 1]


@pytest.mark.parametrize(
    ("process", "words"),
    [
        (row(0, 9), ""),
        (row(0, 9, end_by="parent"), "at most"),
        (row(0, None, end_by=None), "at least"),
        (row(0, None, end_by=None, ended="running"), ""),
    ],
)
def test_what_a_lifetime_is(process: dict[str, Any], words: str) -> None:
    assert lifetimes.wall_is(process) == words


def test_what_their_sum_is() -> None:
    exact, least = row(0, 9), row(0, None, end_by=None)
    assert lifetimes.sum_is([exact, exact]) == ""
    assert lifetimes.sum_is([least, exact]) == "at least"
    # An end that the parent waited for is close enough.
    assert lifetimes.sum_is([row(0, 9, end_by="parent")]) == ""


def test_entries_of_one_program() -> None:
    # GIVEN a program, its fork that became another program by way of a spawn, and a child of its own
    table = [
        row(),
        row(parent=0, pid=8, start="spawn", argv=["q"]),
        row(parent=1, pid=8, start="joined", argv=["q"]),
        row(parent=2, pid=9, start="fork", argv=["q"]),
    ]
    # THEN the two entries of the spawned program belong together, and nothing else does
    assert [lifetimes.is_continuation(table, one) for one in table] == [False, False, True, False]
    assert [lifetimes.entries_of(table, index) for index in range(4)] == [[0], [1], [2, 1], [3]]


def test_processes_that_are_each_others_parents() -> None:
    # GIVEN a forged table
    table = [row(parent=1, start="spawn"), row(parent=0, start="spawn")]
    # THEN following them ends
    assert sorted(lifetimes.entries_of(table, 0)) == [0, 1]
