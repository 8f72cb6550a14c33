"""sqlite3: connections and statements.

A connection does not tell the path of its database, and asking SQLite would run
a statement of ours in the program's transaction.  So the path is stored when
the connection is opened, by the connection's address.  Connections cannot be
weakly referenced; a weak reference to the connection's statement cache tells
whether the address still belongs to it.  Only the first words of a statement
are recorded, and no values.

Fetching one row at a time is not watched: a program fetches millions of rows,
and the reads below carry the line of code.
"""

from __future__ import annotations

import os
import sys
from _weakref import ref

from pyio_trace.capture.instrumentation.instrument import Instrument, Target
from pyio_trace.capture.instrumentation.weak_id_map import address
from pyio_trace.capture.instruments._files import path_of, plain

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

#: Statements whose first word is enough: the names that follow do not say what is done.
_ALONE = frozenset(("SELECT", "VALUES", "WITH", "EXPLAIN", "COMMIT", "END", "ROLLBACK", "VACUUM"))
#: Words between the verb and the name.
_BETWEEN = frozenset(("IF", "NOT", "EXISTS", "OR", "REPLACE", "IGNORE", "ABORT", "FAIL", "TEMP", "TEMPORARY", "UNIQUE"))
_WORDS = 3

#: By a connection's address: a weak reference to its statement cache, and the database's path.
_paths: dict[int, tuple[Any, str]] = {}
_room = 1024
_summaries: dict[str, str | None] = {}  # by the text of short statements
_MOST_SUMMARIES, _SHORT = 256, 400
_get_referents: Any = None  # gc's


def _disarm() -> None:
    _paths.clear()
    _summaries.clear()


def _referents(thing: object) -> list[object]:
    """The objects that it refers to.  If the program has not imported gc, gc does not stay in sys.modules."""
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
    """The path that the program has given; None: the database is not a file."""
    if isinstance(database, bytes):
        database = os.fsdecode(database)
    if not isinstance(database, str):
        return database
    database = plain(database)
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
    """The verb and the names after it: `INSERT INTO measurements`."""
    names: list[str] = []
    for word in sql[:200].split():
        name, bracket, _ = word.partition("(")
        name = name.rstrip(";")
        if names and name.upper() in _BETWEEN:
            continue
        if not name.replace(".", "").isidentifier():
            break
        names.append(name if names else name.upper())
        if len(names) == _WORDS or bracket or names[0] in _ALONE or word.endswith(";"):
            break
    if len(_summaries) >= _MOST_SUMMARIES:
        _summaries.clear()
    summary = " ".join(names) or None
    if len(sql) <= _SHORT:
        _summaries[sql] = summary
    return summary


def _details(sql: Any) -> dict[str, object]:
    if type(sql) is not str:
        return {}
    summary = _summaries.get(sql, "")  # another thread may clear them at any time
    if summary == "":
        summary = _statement(sql)
    return {} if summary is None else {"statement": summary}


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
        Target("Connection.__exit__", path=_of_connection),
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
