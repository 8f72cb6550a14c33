"""sqlite3: what a program asks of a database, by statement.

A connection does not say where its database is, and asking SQLite would be a
statement of ours in the program's transaction.  So the path is kept when it is
opened, by the connection's address; a weak reference to the cache of statements
that each connection has tells whose address that still is (connections have
none themselves).  Of a statement only the first words are kept: no values.

Rows that are fetched one by one are left alone: a program fetches millions of
them, and the reads beneath carry the line that asked.
"""

from __future__ import annotations

import os
import sys
from _weakref import ref

from pyio_trace.capture.instrument import Instrument, Target
from pyio_trace.capture.instruments._files import path_of
from pyio_trace.capture.remembered import address

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

#: Statements after whose first word more names follow than say what is done.
_ALONE = frozenset(("SELECT", "VALUES", "WITH", "EXPLAIN", "COMMIT", "END", "ROLLBACK", "VACUUM"))
#: What stands between the verb and the name.
_BETWEEN = frozenset(("IF", "NOT", "EXISTS", "OR", "REPLACE", "IGNORE", "ABORT", "FAIL", "TEMP", "TEMPORARY", "UNIQUE"))
_WORDS = 3

#: By a connection's address: what tells whether it is still that one, and the database's path.
_paths: dict[int, tuple[Any, str]] = {}
_room = 1024
_said: dict[str, str | None] = {}  # of short statements, what is said of them
_SAID_MOST, _SHORT = 256, 400
_get_referents: Any = None  # gc's


def _disarm() -> None:
    _paths.clear()
    _said.clear()


def _referents(thing: object) -> list[object]:
    """What it refers to.  A module that the program has not imported is not left imported."""
    global _get_referents
    if _get_referents is None:
        there = "gc" in sys.modules
        import gc

        if not there:
            sys.modules.pop("gc", None)
        _get_referents = gc.get_referents
    return list(_get_referents(thing))


# ---- paths -----------------------------------------------------------------------------


def _path(database: Any = None, *args: Any, **kwargs: Any) -> object:
    """As the program gave it; None: no file."""
    if isinstance(database, bytes):
        database = os.fsdecode(database)
    if not isinstance(database, str):
        return database
    if database.startswith("file:") and (kwargs.get("uri") or args[6:7] == (True,)):
        database, _, options = database[len("file:") :].partition("#")[0].partition("?")
        if database.startswith("//"):
            database = "/" + database[2:].partition("/")[2]
        if "mode=memory" in options.split("&") or "%" in database:
            return None
    return None if database in ("", ":memory:") else database


def _connected(connection: Any, *args: Any, **kwargs: Any) -> None:
    global _room
    path = path_of(_path(*args, **kwargs))
    if path is None:
        return
    caches = [each for each in _referents(connection) if getattr(each, "__wrapped__", None) is connection]
    if len(caches) != 1:
        return
    if len(_paths) >= _room:
        for key, (alive, _) in list(_paths.items()):
            if alive() is None:
                _paths.pop(key, None)
        _room = max(1024, 2 * len(_paths))
    _paths[address(connection)] = ref(caches[0]), os.path.abspath(os.fsdecode(path))


def _of_connection(connection: Any, *args: Any, **kwargs: Any) -> str | None:
    known = _paths.get(address(connection))
    if known is None:
        return None
    cache = known[0]()
    return known[1] if cache is not None and cache.__wrapped__ is connection else None


def _of_cursor(cursor: Any, *args: Any, **kwargs: Any) -> str | None:
    return _of_connection(cursor.connection)


# ---- statements ------------------------------------------------------------------------


def _statement(sql: str) -> str | None:
    """Its verb and the names that follow: `INSERT INTO measurements`."""
    kept: list[str] = []
    for word in sql[:200].split():
        name, bracket, _ = word.partition("(")
        name = name.rstrip(";")
        if kept and name.upper() in _BETWEEN:
            continue
        if not name.replace(".", "").isidentifier():
            break
        kept.append(name if kept else name.upper())
        if len(kept) == _WORDS or bracket or kept[0] in _ALONE or word.endswith(";"):
            break
    if len(_said) >= _SAID_MOST:
        _said.clear()
    said = " ".join(kept) or None
    if len(sql) <= _SHORT:
        _said[sql] = said
    return said


def _details(sql: Any) -> dict[str, object]:
    if type(sql) is not str:
        return {}
    said = _said[sql] if sql in _said else _statement(sql)
    return {} if said is None else {"statement": said}


def _by_connection(connection: Any, sql: Any, *args: Any, **kwargs: Any) -> tuple[str | None, dict[str, object]]:
    return _of_connection(connection), _details(sql)


def _by_cursor(cursor: Any, sql: Any, *args: Any, **kwargs: Any) -> tuple[str | None, dict[str, object]]:
    return _of_connection(cursor.connection), _details(sql)


def _script(owner: Any, sql: Any, *args: Any, **kwargs: Any) -> dict[str, object]:
    return {"script": len(sql)}


def _many(result: Any, *args: Any, **kwargs: Any) -> dict[str, object] | None:
    return {"rows": result.rowcount} if result.rowcount >= 0 else None


def _fetched(result: list[object], *args: Any, **kwargs: Any) -> dict[str, object]:
    return {"rows": len(result)}


def _backed_up(connection: Any, target: Any, *args: Any, **kwargs: Any) -> dict[str, object] | None:
    path = _of_connection(target)
    return None if path is None else {"target": path}


def _bytes_written(result: None, blob: Any, data: Any) -> int:
    return memoryview(data).nbytes


instrument = Instrument(
    "sqlite3",
    version=lambda module: None,
    disarm=_disarm,
    targets=(
        Target("connect", path=_path, after=_connected),
        Target("Connection.execute", path=_by_connection),
        Target("Connection.executemany", path=_by_connection, after=_many),
        Target("Connection.executescript", path=_by_connection, details=_script),
        Target("Connection.commit", path=_of_connection),
        Target("Connection.rollback", path=_of_connection),
        Target("Connection.backup", path=_of_connection, details=_backed_up),
        Target("Connection.close", path=_of_connection),
        Target("Cursor.execute", path=_by_cursor),
        Target("Cursor.executemany", path=_by_cursor, after=_many),
        Target("Cursor.executescript", path=_by_cursor, details=_script),
        Target("Cursor.fetchall", path=_of_cursor, after=_fetched),
        Target("Cursor.fetchmany", path=_of_cursor, after=_fetched),
        Target("Blob.read", kind="read", moved="len", optional=True),
        Target("Blob.write", kind="write", moved=_bytes_written, optional=True),
    ),
)
