"""Which installed packages are the program of a run, because they were started: `python -m black`, a console script.

Each process that was started so has their names (capture/runtime/started_package.py).
They count as the run's program if

- a person started them, and not another Python program or one of its libraries
  (joblib's workers, PyTorch's compiler); and
- they do the work: a package that starts a script of the user's own (torchrun) is
  only its launcher.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pyio_trace.join.processes.process_names import helper_of
from pyio_trace.join.references.own_code import OWN, OwnCode
from pyio_trace.values import program_of

#: A row of the process table.
Row = Mapping[str, Any]

_NOBODYS = OwnCode()
#: The most names and commands that are looked at; only forged logs have more.
_MOST = 256


def own_code_of(rows: Sequence[Row]) -> OwnCode:
    """What tells the lines of a log apart; rows: of its process table."""
    started = [tuple(row["program_packages"] or ()) for row in rows]
    kinds = [program_of(list(row["argv"])[1:]) if _begins(row) else ("", "") for row in rows]
    users = [
        row for row, packages, (how, what) in zip(rows, started, kinds, strict=True)
        if not packages and _is_users(row, how, what)
    ]  # fmt: skip
    launchers = set(_above(users, rows))
    inner = _inner(rows)
    packages = {
        name for row, names in zip(rows, started, strict=True)
        if row["index"] not in launchers and row["index"] not in inner for name in names
    }  # fmt: skip
    scripts = [
        _path(row, what) for row, names, (how, what) in zip(rows, started, kinds, strict=True) if names and not how
    ]
    commands = dict.fromkeys(what for how, what in kinds if how == "c")
    return OwnCode(sorted(packages)[:_MOST], scripts, list(commands)[:_MOST])


def _begins(row: Row) -> bool:
    """Whether the process is a Python program of its own, no worker or helper of one."""
    return bool(row["version"]) and row["start"] in ("top", "joined") and helper_of(row) is None


def _is_users(row: Row, how: str, what: str) -> bool:
    """Whether a process runs a script or a module of the user's own."""
    return how == "m" or (not how and what not in ("", "-") and _NOBODYS.kind(_path(row, what)) == OWN)


def _path(row: Row, script: str) -> str:
    """A script's file, as frames name it."""
    return os.path.normpath(os.path.join(row["cwd"] or "/", script))


def _above(some: Sequence[Row], rows: Sequence[Row]) -> Iterator[int]:
    """The indexes of all processes above some; in forged logs, processes may have started each other."""
    visited: set[int] = set()
    for row in some:
        at = row["parent"]
        while at is not None and at not in visited:
            visited.add(at)
            yield at
            at = rows[at]["parent"]


def _inner(rows: Sequence[Row]) -> set[int]:
    """The indexes of the processes that a program of Python started, directly or not.  A program that became another
    one by exec did not start it."""
    known: dict[int, bool] = {}
    for row in rows:
        way: list[Row] = []
        at: Row | None = row
        while at is not None and at["index"] not in known:
            known[at["index"]] = False  # until the way is known; stays so if it is a circle
            way.append(at)
            at = None if at["parent"] is None else rows[at["parent"]]
        for below in reversed(way):
            if at is not None:
                known[below["index"]] = known[at["index"]] or (bool(at["version"]) and at["pid"] != below["pid"])
            at = below
    return {index for index, inside in known.items() if inside}
