"""Threads wait for a lock that one of them holds while it reads, writes or syncs.

A lock (threading.Lock) is meant for what threads share in memory. If a block of `with lock:` also
calls on files, every other thread that needs the lock waits for the disk. Copy what is shared with
the lock held, and call on files without it. Found from samples, and from the program's source: the
line that waits, and the one that calls on files, are in blocks of locks with the same name.
"""

from __future__ import annotations

import ast
import itertools
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from pyio_trace.insights import sql
from pyio_trace.insights.finding import Confidence, Evidence, Finding, Recoverable, Remedy, Site
from pyio_trace.insights.libraries import library_of
from pyio_trace.insights.observed import site_of
from pyio_trace.insights.rule import Limit, Rule
from pyio_trace.insights.rules.threads_in_turns import in_turns
from pyio_trace.insights.source_files import content
from pyio_trace.units import seconds

if TYPE_CHECKING:
    from pyio_trace.analysis.results.line_time import LineTime
    from pyio_trace.insights.observed import Observed

#: Blocks of a file that are looked at.
_MOST = 1000
_COPY = Remedy(
    "Take the lock for what is shared only: copy it, and call on files without the lock.",
    "with lock:\n    with open(path, 'wb') as f:\n        pickle.dump(state, f)",
    "with lock:\n    data = pickle.dumps(state)\nwith open(path, 'wb') as f:\n    f.write(data)",
)
_READ = Remedy(
    "Take a lock for each item, or for what is shared only, and read without the one of all.",
    "with lock:\n    if key not in cache:\n        cache[key] = load(path)",
    "with lock:\n    own = locks.setdefault(key, threading.Lock())\nwith own:    # of this key\n"
    "    if key not in cache:\n        cache[key] = load(path)",
)


class _Lock(NamedTuple):
    """A lock, as a source file names it.  owner: the class whose instances have it; "": it is no attribute of one."""

    name: str
    owner: str


class _Block(NamedTuple):
    """A block of ``with LOCK:`` in a file.  first, last: its lines, that of the ``with`` included."""

    lock: _Lock
    first: int
    last: int


def find(run: Observed, limits: Mapping[str, float]) -> Iterator[Finding]:
    lines = [(site, row) for line, row in run.wall.items() if run.is_own(line) and (site := site_of(line)) is not None]
    least = limits["share"] * run.wall_ns
    found: dict[Site, tuple[int, Site, LineTime, LineTime, _Block]] = {}
    for waiting, row in lines:
        waited = min(row.lock_ns, row.longest_ns)
        if waited < least:
            continue
        blocks = _blocks(waiting.file)
        for here in (one for one in blocks if one.first == waiting.line):
            same = [one for one in blocks if one.lock == here.lock]
            held = [(site, other) for site, other in lines if site.file == waiting.file and _in(site.line, same)]
            for site, holder in sorted(held, key=lambda one: -_files_ns(one[1]))[:1]:
                time = min(waited, _files_ns(holder))
                if time >= least and (site not in found or time > found[site][0]):
                    found[site] = time, waiting, row, holder, here
    for site, (time, waiting, row, holder, here) in found.items():
        yield _finding(run, site, waiting, row, holder, here, time)


def _in(line: int, blocks: list[_Block]) -> bool:
    return any(one.first < line <= one.last for one in blocks)


def _files_ns(row: LineTime) -> int:
    """ns in calls on files at a line, and beneath it."""
    return row.io_ns + row.sync_ns


def _finding(
    run: Observed, site: Site, waiting: Site, row: LineTime, holder: LineTime, here: _Block, time: int
) -> Finding:
    text = f"Threads waited {seconds(row.lock_ns)} at line {waiting.line} for it; calls on files took "
    text += f"{seconds(_files_ns(holder))} while it was held."
    return Finding(
        title=f"{here.lock.name[:60]} is held during calls on files, and other threads wait for it",
        recoverable_ns=time,
        recoverable=Recoverable("the wait of the thread that waited longest, as far as calls on files took as long",
                                "upper", run.wall_ns),
        evidence=[Evidence(text, {"waited_ns": row.lock_ns, "files_ns": _files_ns(holder)})],
        remedy=_remedy(run, holder, _in(site.line, [here])),
        sites=[site, waiting],
        confidence=Confidence(0.6, "that it is one lock follows from its name; the wait is from samples"),
        severity="warning",
        query=sql.samples_of(f"{waiting.file}:{waiting.line}:"),
    )  # fmt: skip


def _remedy(run: Observed, holder: LineTime, of_each: bool) -> Remedy:
    """of_each: every thread that takes the lock calls on files with it."""
    calls = run.calls.where_line(holder.line)
    read, written = (calls.transfers(direction).total("moved") for direction in ("read", "write"))
    if library_of(run, calls) in ("h5py", "netCDF4"):
        return in_turns(run, calls)
    if not holder.sync_ns and read > written:
        return _READ
    return in_turns(run, calls) if of_each and len(calls) else _COPY


@lru_cache(maxsize=64)
def _blocks(path: str) -> list[_Block]:
    """The blocks of ``with`` in a source file whose expression is a name or an attribute, as that of a lock is."""
    try:
        tree = ast.parse(content(path))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return []
    return list(itertools.islice(_below(tree, ""), _MOST))


def _below(node: ast.AST, owner: str) -> Iterator[_Block]:
    """owner: the class that a node is in: self.lock of another one is another lock."""
    waiting = [(node, owner)]
    while waiting:
        node, owner = waiting.pop()
        if isinstance(node, ast.ClassDef):
            owner = node.name
        if isinstance(node, ast.With) and node.end_lineno is not None:
            for item in node.items:
                if isinstance(item.context_expr, (ast.Name, ast.Attribute)):
                    name = ast.unparse(item.context_expr)
                    lock = _Lock(name, owner if name.startswith(("self.", "cls.")) else "")
                    yield _Block(lock, node.lineno, node.end_lineno)
        waiting += [(child, owner) for child in ast.iter_child_nodes(node)]


RULE = Rule(
    "overlap",
    find,
    limits={"share": Limit(0.1, "of the wall time that a thread waited while the lock was held over files, at least")},
    yields_to=("threads-in-turns",),
)
