"""sqlite3: statements with their database, without their values, and the file's reads and writes beneath them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from pyio_trace.capture.instruments import sqlite3 as instrument
from tests.support.programs import Outcome, Row, Runner, alike, succeeded

pytest.importorskip("sqlite3", reason="this Python has no sqlite3")


def detail(row: Row) -> dict[str, Any]:
    return dict(json.loads(row["detail"])) if row["detail"] else {}


def statements(outcome: Outcome) -> list[Row]:
    return [row for row in outcome.select(layer="app") if row["op"].startswith(("Connection.", "Cursor.", "sqlite3."))]


def test_a_database_written_and_read(program: Runner) -> None:
    # GIVEN a program that fills a table of 4 MB and reads it, which its page cache (2 MB) cannot hold
    text = """
    import sqlite3
    connection = sqlite3.connect("data.db", isolation_level=None)
    connection.execute("PRAGMA page_size = 4096")
    connection.execute("CREATE TABLE measured (id INTEGER PRIMARY KEY, data BLOB)")
    connection.execute("BEGIN")
    connection.executemany("INSERT INTO measured (data) VALUES (?)", ((bytes(4000),) for _ in range(1000)))
    connection.commit()
    connection.close()
    connection = sqlite3.connect("data.db")
    cursor = connection.cursor()
    cursor.execute("SELECT id, data FROM measured WHERE data <> 'secret'")
    first = cursor.fetchone()
    rest = cursor.fetchall()
    print(len(first[1]), len(rest), connection.execute("PRAGMA page_count").fetchone()[0])
    connection.close()
    """
    outcome = alike(succeeded(program.traced(text)), program.bare(text.replace("data.db", "bare.db")))
    path = str(program.folder / "data.db")
    # THEN each statement is a call with the database's path, and the log has none of its values
    told = [(row["op"], detail(row).get("statement"), detail(row).get("rows")) for row in statements(outcome)]
    assert told == [
        ("sqlite3.connect", None, None), ("Connection.execute", "PRAGMA page_size", None),
        ("Connection.execute", "CREATE TABLE measured", None), ("Connection.execute", "BEGIN", None),
        ("Connection.executemany", "INSERT INTO measured", 1000), ("Connection.commit", None, None),
        ("Connection.close", None, None), ("sqlite3.connect", None, None), ("Cursor.execute", "SELECT", None),
        ("Cursor.fetchall", None, 999), ("Connection.execute", "PRAGMA page_count", None),
        ("Connection.close", None, None),
    ]  # fmt: skip
    assert {row["path"] for row in statements(outcome)} == {path}
    assert b"secret" not in outcome.path.read_bytes().replace(text.encode(), b"")
    # AND the pages that were written and read are beneath them: every page once, each of 4096 bytes
    pages = int(outcome.stdout.split()[-1])
    wrote = outcome.select(layer="posix", op="pwrite", path=path)
    assert {row["file_offset"] // 4096 for row in wrote} == set(range(pages))
    assert {row["bytes_moved"] for row in wrote} == {4096}
    ops = {outcome.parents(row)[0]["op"] for row in wrote}
    assert ops <= {"Connection.executemany", "Connection.commit", "Connection.execute"} and "Connection.commit" in ops
    [fetched] = outcome.select(layer="app", op="Cursor.fetchall")
    read = [row for row in outcome.select(layer="posix", op="pread", path=path) if row["parent"] == fetched["id"]]
    assert len({row["file_offset"] for row in read}) > 900
    assert {row["link"] for row in read} == {"thread"}


def test_what_is_said_of_a_statement(program: Runner) -> None:
    # GIVEN statements of many kinds, some with values in them
    text = """
    import sqlite3
    connection = sqlite3.connect(":memory:")
    for statement in ("create table t(a)", "INSERT INTO t VALUES ('secret')", "insert into t(a) values (1)",
                      "SELECT 'secret'", "UPDATE t SET a = 'secret'", "DELETE FROM main.t WHERE a = 'secret'",
                      "/* secret */ SELECT 1", "-- secret", "", "PRAGMA user_version=77", "REPLACE INTO t VALUES (3)",
                      'SELECT "secret"',
                      "VALUES (1)", "with secret as (select 1) select 1",
                      "insert or ignore into t values (2)", "create table if not exists t(a)"):
        connection.execute(statement)
    for wrong in (5, "no such"):
        try:
            connection.execute(wrong)
        except Exception as problem:
            print(type(problem).__name__, problem)
    connection.executescript("begin; delete from t; commit;")
    """
    outcome = alike(succeeded(program.traced(text)), program.bare(text))
    # THEN the verb and what follows of names is kept
    told = [detail(row).get("statement") for row in statements(outcome) if row["op"] == "Connection.execute"]
    assert told == [
        "CREATE table t", "INSERT INTO t", "INSERT into t", "SELECT", "UPDATE t SET", "DELETE FROM main.t", None, None,
        None, "PRAGMA", "REPLACE INTO t", "SELECT", "VALUES", "WITH", "INSERT into t", "CREATE table t", None,
        "NO such",
    ]  # fmt: skip
    [script] = outcome.select(op="Connection.executescript")
    assert detail(script) == {"statement": "BEGIN", "script": 29}
    assert {row["path"] for row in statements(outcome)} == {None}


def test_connections_that_come_and_go(program: Runner) -> None:
    # GIVEN connections whose addresses come back, some made without connect, of a class of the program's, and by URI
    text = """
    import gc, sqlite3, sys
    class Mine(sqlite3.Connection):
        pass
    seen = set()
    for i in range(60):
        name = f"data{i % 5}.db"
        if i % 4 == 0:
            connection = sqlite3.connect(f"file:{name}?mode=rwc", uri=True)
        elif i % 4 == 1:
            connection = sqlite3.connect(name, factory=Mine)
        elif i % 4 == 2:
            connection = sqlite3.Connection(name)
        else:
            connection = sqlite3.connect(name)
        seen.add(id(connection))
        connection.cursor().execute("SELECT 1")
        if i % 3:
            connection.close()
        del connection
        gc.collect()
    print(len(seen) < 60)
    """
    outcome = alike(succeeded(program.traced(text)), program.bare(text))
    assert outcome.stdout == "True\n", "no address came back: this tests nothing"
    # THEN each statement has its own database; where nobody saw it being opened, none
    told = [row["path"] for row in statements(outcome) if row["op"] == "Cursor.execute"]
    assert told == [None if i % 4 == 2 else str(program.folder / f"data{i % 5}.db") for i in range(60)]


def test_a_backup_and_a_module_that_stays_unimported(program: Runner) -> None:
    # GIVEN a program that copies a database, and looks at what is imported
    text = """
    import sqlite3, sys
    source, target = sqlite3.connect("a.db"), sqlite3.connect("b.db")
    print("gc" in sys.modules)
    source.execute("CREATE TABLE IF NOT EXISTS t(a)")
    source.backup(target)
    """
    outcome = alike(succeeded(program.traced(text)), program.bare(text))
    [row] = outcome.select(op="Connection.backup")
    assert (row["path"], detail(row)["target"]) == (str(program.folder / "a.db"), str(program.folder / "b.db"))
    # THEN what is read of the one and written to the other is beneath it
    wrote = [each for each in outcome.select(layer="posix", op="pwrite") if each["parent"] == row["id"]]
    assert {each["path"] for each in wrote} >= {str(program.folder / "b.db")}


def test_statements_that_another_thread_forgets(monkeypatch: pytest.MonkeyPatch) -> None:
    # GIVEN statements that are known, and cleared by another thread just after one was looked for
    class Vanishing(dict[str, Any]):
        def __contains__(self, key: object) -> bool:
            found = super().__contains__(key)
            self.clear()
            return found

    monkeypatch.setattr(instrument, "_summaries", Vanishing({"SELECT 1": "SELECT"}))
    # WHEN one is described THEN it is as ever
    assert instrument._details("SELECT 1") == {"statement": "SELECT"}
