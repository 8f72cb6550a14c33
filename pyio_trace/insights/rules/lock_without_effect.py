"""A lock on a file keeps nobody out.

Some mounts keep locks within the machine: NFS with `nolock` or `local_lock=`, Lustre
with `localflock`, CIFS with `nobrl`. Processes on other machines then hold the same
lock at the same time. Other file systems refuse locks, and a program that
ignores the error goes on without one. Either way writes may overlap, and
results may be wrong without an error. Whether a FUSE file system, 9p, virtiofs or BeeGFS
passes locks on is not in the mount's options, so nothing is said of these.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from errno import ENOLCK, ENOSYS, EOPNOTSUPP
from typing import TYPE_CHECKING, Any

from pyio_trace.enums import OpClass, Role
from pyio_trace.insights import sql
from pyio_trace.insights.finding import Confidence, Evidence, Finding, Recoverable, Remedy
from pyio_trace.insights.observed import MOST_NAMED
from pyio_trace.insights.rule import Rule
from pyio_trace.insights.side_by_side import at_once, on_several_machines
from pyio_trace.units import counted

if TYPE_CHECKING:
    from pyio_trace.analysis.view_sums.call_table import CallTable
    from pyio_trace.insights.observed import Observed

#: What a file system returns that has no locks.
_REFUSED = (ENOSYS, ENOLCK, EOPNOTSUPP)


def find(run: Observed, limits: Mapping[str, float]) -> Iterator[Finding]:
    locks = run.calls.where(role=Role.LOCK)
    kept = locks.where(errno=0)
    for (option, *ops), paths in _local(run, kept).items():
        yield _within_machines(run, option, kept.where(path=paths, op=ops))
    refused = locks.where(errno=_REFUSED)
    ignored = _ignored(run, refused, kept)
    if ignored:
        pairs = {path for path, _ in ignored}, {process for _, process in ignored}
        yield _without_lock(run, refused.where(path=pairs[0], process=pairs[1]))


def _local(run: Observed, kept: CallTable) -> dict[tuple[str, ...], list[int]]:
    """(mount option, operations that it keeps within the machine) -> paths (codes) that several machines lock so."""
    options: dict[tuple[str, ...], list[int]] = {}
    ops = [kept.op(code) for code in kept.codes("op")]
    for path in kept.codes("path"):
        name = kept.path(path) or ""
        found = {op: run.mounts.local_locks(name, op) for op in ops}
        local = [op for op, option in found.items() if option]
        if local and on_several_machines(run, kept.where(path=path, op=local).codes("process")):
            options.setdefault((found[local[0]], *local), []).append(path)
    return options


def _ignored(run: Observed, refused: CallTable, kept: CallTable) -> list[tuple[int, int]]:
    """Pairs of path and process (codes): each lock was refused, the process used the file afterwards, and so did
    another one that ran at the same time, and one of them wrote."""
    paths = refused.codes("path")
    using = run.calls.where(kind=(OpClass.READ, OpClass.WRITE), role=Role.IO, path=paths, errno=0)
    uses = {one["path"]: one.rows for one in using.by("path")}
    granted = {(one["path"], one["process"]) for one in kept.where(path=paths).by("path", "process")}
    found = []
    for one in refused.by("path", "process"):
        path, process = one["path"], one["process"]
        if (path, process) in granted or path not in uses or not uses[path].distinct("process") > 1:
            continue
        own = uses[path].where(process=process)
        others = [index for index in uses[path].codes("process") if index != process]
        beside = any(at_once(run, process, other) for other in others)
        if beside and (own.columns["last"] > one.first).any() and len(uses[path].where(kind=OpClass.WRITE)):
            found.append((path, process))
    return found


def _within_machines(run: Observed, option: str, calls: CallTable) -> Finding:
    machines = {run.machine(process) for process in calls.codes("process")} - {""}
    files = counted(calls.distinct("path"), "file")
    return Finding(
        title=f"Locks on {files} count only within each of {len(machines):,} machines ({option})",
        evidence=[
            Evidence(
                f"{counted(calls.distinct('process'), 'process', 'processes')} on {len(machines):,} machines locked "
                f"{files} in {counted(calls.total('calls'), 'call')}; {option} keeps locks within each machine.",
                {"processes": calls.distinct("process"), "machines": len(machines), "calls": calls.total("calls")},
            )
        ],
        remedy=Remedy(
            f"Mount without {option}, or take turns by a file that only one process can create.",
            "with open('results.lock', 'w') as f:\n    fcntl.flock(f, fcntl.LOCK_EX)\n    ...",
            "os.close(os.open('results.lock', os.O_CREAT | os.O_EXCL))\n...\nos.remove('results.lock')",
        ),
        confidence=Confidence(0.9, "the mount's option, when the log was packed", ["clocks of machines may differ"]),
        severity="critical",
        **_common(run, calls, "processes on different machines hold the same lock"),
    )


def _without_lock(run: Observed, calls: CallTable) -> Finding:
    files = counted(calls.distinct("path"), "file")
    return Finding(
        title=f"A lock on {files} is refused, and the program goes on without it",
        evidence=[
            Evidence(
                f"{counted(calls.total('calls'), 'call')} for a lock failed in "
                f"{counted(calls.distinct('process'), 'process', 'processes')}, as the file system has none; these "
                f"used {files} afterwards, which another process used as well.",
                {"calls": calls.total("calls"), "processes": calls.distinct("process")},
            )
        ],
        remedy=Remedy(
            "Let the error end the program, and take turns in another way.",
            "try:\n    fcntl.flock(f, fcntl.LOCK_EX)\nexcept OSError:\n    pass",
            "fcntl.flock(f, fcntl.LOCK_EX)",
        ),
        confidence=Confidence(0.6, "each lock failed", ["the program may keep others out in another way"]),
        severity="warning",
        **_common(run, calls, "processes use a file at the same time without a lock"),
    )


def _common(run: Observed, calls: CallTable, how: str) -> dict[str, Any]:
    return {
        "recoverable_ns": 0,
        "recoverable": Recoverable(how, "none", run.wall_ns),
        "sites": run.sites(calls),
        "files": run.files(calls),
        "processes": calls.codes("process")[:MOST_NAMED],
        "query": sql.rows(
            {"path": calls.paths()[:MOST_NAMED], "op_role": "lock"},
            select="process, errno, " + sql.SUMS,
            group="process, errno, op",
        ),
    }


RULE = Rule("synchronisation", find, untried="the remedy makes results right, and saves no time")
