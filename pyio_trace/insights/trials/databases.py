"""SQLite databases in scratch: a commit for each row, and one for many."""

from __future__ import annotations

import os
import sqlite3
from time import perf_counter_ns

from pyio_trace.insights.trials.attempt import Attempt
from pyio_trace.insights.trials.replay import NotTried, Replay

_COMMITS = ("Connection.commit", "Connection.__exit__")
#: What a row of the trial has besides its number.
_ROW = bytes(100)


def one_commit(attempt: Attempt) -> Replay:
    """As many commits as were recorded, each after a row of a table of our own: no statement of the log is run."""
    rows = attempt.rows.where(op=_COMMITS).heaviest()
    if not len(rows):
        raise NotTried("the log has no commits of it that could be issued again")
    path = rows.texts("path")[0]
    scratch = attempt.scratch(path)
    name = scratch.name()
    with_log = len(attempt.rows.where(path=path + "-wal")) or os.path.exists(path + "-wal")

    def run(count: int, every: bool) -> int:
        database = sqlite3.connect(scratch.path(name), isolation_level=None)
        try:
            database.execute(f"PRAGMA journal_mode={'WAL' if with_log else 'DELETE'}")
            database.execute("CREATE TABLE t (n INTEGER PRIMARY KEY, content BLOB)")
            begin = perf_counter_ns()
            if not every:
                database.execute("BEGIN")
            for number in range(count):
                if every:
                    database.execute("BEGIN")
                database.execute("INSERT INTO t VALUES (?, ?)", (number, _ROW))
                if every:
                    database.execute("COMMIT")
            if not every:
                database.execute("COMMIT")
            return perf_counter_ns() - begin
        finally:
            database.close()

    return Replay(
        lambda count: run(count, True), lambda count: run(count, False), len(rows), rows.recorded(attempt.rows),
        before=scratch.clear,
    )  # fmt: skip
