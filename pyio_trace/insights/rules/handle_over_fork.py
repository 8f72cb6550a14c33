"""A file is opened before a fork, and several processes use it afterwards: parent and child, or siblings.

They share one position in the file: when one seeks or reads, it moves the others. The
handle of a library (h5py.File, an sqlite3 connection) also has caches and locks, which
get out of step. Results may be wrong without an error. Open the file after the fork, in
each process: in `__getitem__` of a Dataset, in a `worker_init_fn`, or in a pool's
`initializer`. `os.pread` reads through a shared descriptor without using its position.

The finding needs two such processes that were alive at the same time. Named pipes have
no position and are left out; so are files that are only written, because each write then
lands after the one before. The log does not show locks in memory (multiprocessing.Lock),
which may let one process at a time seek and read. Nor does it show reads through a
mapping, so LMDB is found only by its writes.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

import numpy as np

from pyio_trace.enums import Layer, OpClass, Role
from pyio_trace.insights import sql
from pyio_trace.insights.file_events import FILE_EVENTS
from pyio_trace.insights.finding import Confidence, Evidence, Finding, Recoverable, Remedy
from pyio_trace.insights.observed import MOST_NAMED
from pyio_trace.insights.rule import Rule
from pyio_trace.light_dataclass import dataclass
from pyio_trace.log.sorting import distinct
from pyio_trace.units import counted

if TYPE_CHECKING:
    from pyio_trace.analysis.view_sums.call_table import CallTable
    from pyio_trace.insights.observed import Observed


#: They use the position of a descriptor and, without the last two, mind what others make of it.
_AT_POSITION = ("read", "readv", "lseek", "write", "writev")
_USING = (OpClass.READ, OpClass.WRITE, OpClass.SEEK)
#: Generations of forks between who opened a file and who uses it, at most; users of a file that are compared.
_DEEPEST, _MOST_USERS = 50, 64
_NEVER = 1 << 62
#: Library of a handle -> how it opens one.
_OPENERS = {"": "open({}, 'rb')", "h5py": "h5py.File({})", "sqlite3": "sqlite3.connect({})"}


@dataclass(frozen=True)
class _User:
    """A process that uses a file which another one had opened, or that one.  since, until: ns since the epoch between
    which it may have; calls: on that file."""

    process: int
    since: int
    until: int
    calls: CallTable

    def meets(self, other: _User) -> bool:
        """Whether each of two was there before the other had ended."""
        return self.since < other.until and other.since < self.until


def find(run: Observed, limits: Mapping[str, float]) -> Iterator[Finding]:
    found: dict[tuple[int, str], list[_User]] = defaultdict(list)
    for (owner, path), users in _inherited(run).items():
        library = _library(run, path)
        if library is None:
            continue
        chosen = [user for user in _meeting(users) if library or _uses_position(user)]
        if {user.process for user in chosen} - {owner} and len(chosen) > 1:
            found[owner, library] += chosen
    for (owner, library), users in list(found.items())[:MOST_NAMED]:
        yield _finding(run, owner, library, users)


def _inherited(run: Observed) -> dict[tuple[int, int], list[_User]]:
    """(process that opened a file, code of its path) -> who uses it after a fork, without opening it there."""
    calls = run.calls.where(role=Role.IO)
    files = {group["process"]: group.rows for group in calls.by("process")}
    opened: dict[int, dict[int, int]] = {
        process: {one["path"]: one.first for one in rows.where(kind=OpClass.OPEN, errno=0).by("path")}
        for process, rows in files.items()
    }
    found: dict[tuple[int, int], list[_User]] = defaultdict(list)
    for child in run.processes:
        if child["start"] != "fork" or child["index"] not in files:
            continue
        used = files[child["index"]].where(kind=_USING)
        paths = set(used.codes("path")) - set(opened[child["index"]])
        until = _NEVER if child["end"] is None else child["end"]
        for owner, forked in _ancestors(run, child["index"]):
            own = {path for path in paths if opened.get(owner, {}).get(path, forked) < forked}
            for path in own:
                found[owner, path].append(_User(child["index"], child["begin"], until, used.where(path=path)))
            paths -= own
    regular, more = set(distinct(run.of(FILE_EVENTS).events["path"]).tolist()), run.of(FILE_EVENTS).more
    for (owner, path), users in list(found.items()):
        if path not in regular and not more:
            del found[owner, path]
            continue
        own_calls = files[owner].where(kind=_USING, path=path)
        own_calls = own_calls.rows(own_calls.columns["last"] > min(user.since for user in users))
        if len(own_calls):
            users.append(_User(owner, 0, int(own_calls.columns["last"].max()), own_calls))
    return found


def _ancestors(run: Observed, process: int) -> Iterator[tuple[int, int]]:
    """The processes that a process is a copy of, and when each made the fork that led to it, ns since the epoch."""
    for _ in range(_DEEPEST):
        row = run.processes[process]
        if row["start"] != "fork" or row["parent"] is None:
            return
        process = row["parent"]
        yield process, row["begin"]


def _library(run: Observed, path: int) -> str | None:
    """The library whose handle is shared, "": a descriptor's position is; None: neither.  path: a code."""
    if run.is_database(run.calls.path(path) or ""):
        return "sqlite3"
    requests = run.calls.where(layer=(Layer.APP, Layer.HDF5), role=Role.REQUEST, path=path)
    ops = map(requests.op, requests.codes("op"))
    if any(op.startswith(("Dataset.", "DatasetID.", "H5D")) for op in ops):
        return "h5py"
    return "" if len(_minding(run.calls.where(role=Role.IO, path=path))) else None


def _minding(calls: CallTable) -> CallTable:
    """Those that read at a position, or move it."""
    streams = calls.columns["layer"] == Layer.STDIO
    streams &= np.isin(calls.columns["kind"], (OpClass.READ, OpClass.SEEK))
    named = np.isin(calls.columns["op"], [code for code in calls.codes("op") if calls.op(code) in _AT_POSITION[:3]])
    return calls.rows(streams | named)


def _uses_position(user: _User) -> bool:
    return len(_minding(user.calls)) > 0 or len(user.calls.where(op=_AT_POSITION)) > 0


def _meeting(users: list[_User]) -> list[_User]:
    """Those who lived while another one did."""
    users = users[-_MOST_USERS:]
    return [user for user in users if any(user.meets(other) for other in users if other is not user)]


def _finding(run: Observed, owner: int, library: str, users: list[_User]) -> Finding:
    codes = {code for user in users for code in user.calls.codes("path")}
    processes = sorted({user.process for user in users})
    calls = run.calls.where(role=Role.IO, kind=_USING, path=codes, process=processes)
    children = calls.where(process=[process for process in processes if process != owner])
    forked = min(user.since for user in users if user.process != owner)
    parents = calls.rows((calls.columns["process"] == owner) & (calls.columns["last"] > forked))
    what = "handle" if library else "position"
    alone = len(processes) - (owner in processes) == 1
    text = "The child" if alone else f"{len(processes) - (owner in processes):,} forked processes"
    text += f" made {counted(children.total('calls'), 'call')} on it without opening it"
    if len(parents):
        text += f", {'its' if alone else 'their'} parent {counted(parents.total('calls'), 'call')}, some of them later"
    return Finding(
        title=f"A {what} in a file is shared over a fork: {run.files(calls)[0].rpartition('/')[2][:40]}",
        evidence=[
            Evidence(
                f"{text}.",
                {
                    "child_calls": children.total("calls"),
                    "parent_calls": parents.total("calls"),
                    "processes": len(processes),
                },
            )
        ],
        recoverable_ns=0,
        recoverable=Recoverable("the processes share a position, or have caches that differ", "none", run.wall_ns),
        remedy=_remedy(library, any(run.is_loader_worker(process) for process in processes)),
        sites=[*dict.fromkeys([*run.sites(children), *run.sites(parents)])][:MOST_NAMED],
        files=run.files(calls),
        processes=processes[:MOST_NAMED],
        confidence=Confidence(0.9, "no open in the children, which live and use the file at the same time"),
        severity="critical",
        query=sql.rows(
            {"path": calls.paths()[:MOST_NAMED], "process": processes[:MOST_NAMED], "op_role": "io"},
            select="process, " + sql.SUMS,
            group="process, op",
        ),
    )


def _remedy(library: str, of_loader: bool) -> Remedy:
    """library: of _OPENERS; of_loader: whether a child is a worker of a DataLoader."""
    opened = _OPENERS[library]
    if of_loader:
        before = "class Images(Dataset):\n    def __init__(self, path):\n"
        after = f"{before}        self.path, self.file = path, None\n    def __getitem__(self, n):\n"
        after += f"        self.file = self.file or {opened.format('self.path')}\n        ..."
        before += f"        self.file = {opened.format('path')}"
    else:
        before = f"f = {opened.format('path')}\n"
        before += "with multiprocessing.Pool() as pool:\n    pool.map(work, items)    # uses f"
        after = f"def start():\n    global f\n    f = {opened.format('path')}\n"
        after += "with multiprocessing.Pool(initializer=start) as pool:\n    pool.map(work, items)"
    return Remedy("Open the file in each process.", before, after, library or "python")


RULE = Rule("fork trap", find, needs=(FILE_EVENTS,), untried="the remedy makes results right, and saves no time")
