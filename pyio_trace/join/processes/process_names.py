"""What a person calls each process: its kind and its name.

The best source counts: the name that an instrument or multiprocessing gave in the
process (csrc/core/process/lifecycle.c), then the launcher's rank, then the
command line.  Names have no pid and need not be unique: label() adds the pid, and
in a parallel job the rank.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from pyio_trace.values import program_of

#: A row of the process table.
Row = Mapping[str, Any]

RANK, SCRIPT, FORKED, PROGRAM = "rank", "script", "forked process", "program"
#: Kinds whose processes have little in common but the kind: these are shown by name.
_SHOWN_BY_NAME = frozenset((SCRIPT, FORKED, PROGRAM))

#: Modules of multiprocessing whose code Python runs with -c -> the name of the process, before it has one of its own.
_HELPERS = {
    "spawn": "multiprocessing spawn",
    "forkserver": "multiprocessing fork server",
    "resource_tracker": "multiprocessing resource tracker",
    "semaphore_tracker": "multiprocessing resource tracker",
}
_HELPER = re.compile(r"from multiprocess(?:ing)?\.(\w+) import ")
#: Servers whose workers are forked copies of the process that the command line started.
_SERVERS = ("gunicorn",)
#: Most characters of a name, and of a kind.
_LONGEST = 120


def add_names(rows: Sequence[dict[str, Any]]) -> None:
    """Fills in process_kind and process_name where a row of the process table has none."""
    for row in rows:
        if not row["process_name"]:
            row["process_kind"], row["process_name"] = _kind_and_name(row, rows)
        row["process_kind"] = (row["process_kind"] or PROGRAM)[:_LONGEST]
        row["process_name"] = row["process_name"][:_LONGEST]
    for row in rows:  # what a process is called does not depend on the entry of it that one looks at
        first = _entered_before(row, rows)
        if first is not None:
            first["process_kind"], first["process_name"] = row["process_kind"], row["process_name"]


def label(row: Row) -> str:
    """A process as text shows it: "rank 3, DataLoader 0, worker 1 (4711)"."""
    return f"{titled(row)} ({row['pid']})"


def titled(row: Row) -> str:
    """The same without the pid."""
    name = row["process_name"] or "process"
    if row["global_rank"] is None or row["world_size"] == 1 or row["process_kind"] == RANK:
        return str(name)
    return f"rank {row['global_rank']}, {name}"


def job_text(row: Row) -> str:
    """The job of a process and the step in it, "4711.0"; "" if it is in none."""
    return ".".join(filter(None, (row["job"], row["step"]))) if row["job"] else ""


def run_text(row: Row) -> str:
    """What all processes of one launch have in common, on all hosts: the id of the launch, or job and step; "" without
    either."""
    return row["job_run"] or job_text(row)


def run_of(rows: Sequence[Row]) -> str:
    """The same of a log: that of its first process that has one."""
    return next((name for row in rows if (name := run_text(row))), "")


def group(kind: str, name: str) -> tuple[str, bool]:
    """What a process is summed up under: its kind, or its name where the kind says little; whether it is the kind."""
    return (name, False) if kind in _SHOWN_BY_NAME else (kind, True)


def plural(kind: str) -> str:
    """ "DataLoader workers", "multiprocessing processes", "Dask nannies"."""
    if kind.endswith("y") and kind[-2:-1] not in "aeiou":
        return f"{kind[:-1]}ies"
    return f"{kind}es" if kind.endswith("s") else f"{kind}s"


def is_helper(row: Row) -> bool:
    """Whether its command line is what multiprocessing starts an interpreter with: none of the program's own code."""
    return helper_of(row) is not None


def helper_of(row: Row) -> str | None:
    """The module of multiprocessing that its command line starts, such as "spawn"; None: another program."""
    how, what = program_of(list(row["argv"][1:]))
    helper = _HELPER.match(what.lstrip()) if how == "c" else None
    return helper[1] if helper else None


def _kind_and_name(row: Row, rows: Sequence[Row]) -> tuple[str, str]:
    parent = _parent(_entered_before(row, rows) or row, rows)
    if row["global_rank"] is not None and row["world_size"] != 1 and _begins_rank(row, parent):
        return RANK, f"rank {row['global_rank']}"
    kind, name = _of_command(row["argv"], row["executable"], bool(row["version"]))
    if row["start"] != "fork" or parent is None or parent["argv"] != row["argv"]:
        return kind, name
    if name in _SERVERS:
        return f"{name} worker", f"{name} worker"
    return FORKED, f"{name} (forked)"


def _parent(row: Row, rows: Sequence[Any]) -> Any:
    """The row that this row names as its parent, or None."""
    return None if row["parent"] is None else rows[row["parent"]]


def _entered_before(row: Row, rows: Sequence[Any]) -> Any:
    """The entry that its parent made for this very process and program, before it joined the log itself, or None."""
    parent = _parent(row, rows)
    same = parent is not None and (row["pid"], row["argv"]) == (parent["pid"], parent["argv"])
    return parent if same and row["start"] == "joined" else None


def _begins_rank(row: Row, parent: Row | None) -> bool:
    """Whether the launcher started this process, rather than another process of the rank."""
    return parent is None or parent["global_rank"] != row["global_rank"]


def _of_command(argv: Sequence[str], executable: str, is_python: bool) -> tuple[str, str]:
    """The kind and name of a process that has only a command line.  is_python: it was Python at some time; it may have
    become another program since."""
    program, file = _base(argv[0] if argv else executable), _base(executable)
    if not program.startswith("python") and not (is_python and file.startswith("python")):
        return PROGRAM, program or "process"
    how, what = program_of(list(argv[1:]))
    if how == "c":
        helper = _HELPER.search(what)
        name = _HELPERS.get(helper[1]) if helper else None
        return (name, name) if name else (SCRIPT, "python -c")
    name = what if how == "m" else _base(what)
    framework = _of_framework(name, what, list(argv[argv.index(what) + 1 :]) if what in argv else [])
    return (framework, framework) if framework else (SCRIPT, "python" if name in ("", "-") else name)


def _of_framework(name: str, what: str, arguments: list[str]) -> str | None:
    """The name, and kind, of a framework's program; None: it is none.  name: of the script or module `what`."""
    if what.endswith("/ray/_private/workers/default_worker.py"):
        return "Ray worker"
    command = f"dask-{arguments[0]}" if name == "dask" and arguments else name.rpartition(".")[2].replace("_", "-")
    if command == "dask-worker":
        return "Dask worker" if "--no-nanny" in arguments else "Dask nanny"
    return "Dask scheduler" if command == "dask-scheduler" else None


def _base(path: str) -> str:
    return path.rstrip("/").rpartition("/")[2]
