"""What thousands of logs say together: jobs, users, programs and findings, by seconds of I/O.

Logs are looked at one at a time, in this process, in several, or on a Dask cluster.
A packed log that keeps its facts (run_facts.py) costs a read of its footer.  Only
sums are kept of them, and where there are very many jobs or programs, the ones with
the most time.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import BrokenExecutor, Future
from dataclasses import field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from pyio_trace.errors import LogError, PyioTraceError
from pyio_trace.insights.run_facts import RunFacts, facts_from, facts_in
from pyio_trace.light_dataclass import dataclass

if TYPE_CHECKING:
    from pyio_trace.analysis.scan.workers import Workers

#: Logs of one task, and tasks that wait for each worker.
_EACH, _WAITING = 16, 3
#: Sums of each kind that are kept; of more, those with the least time are dropped, and counted.
MOST = 100_000
#: Logs that are named among those that cannot be read.
_NAMED = 1000


class Looked(NamedTuple):
    """One log: its facts, or why there are none.  user: who owns its file; folder: below the fleet's."""

    path: str
    user: str
    folder: str
    facts: RunFacts | None
    problem: str = ""


@dataclass
class Sums:
    """What some logs have in common.  Times in ns, sizes in bytes; worst: the log with the most time of I/O."""

    name: str
    logs: int = 0
    io_ns: int = 0
    process_ns: int = 0
    wall_ns: int = 0
    read: int = 0
    written: int = 0
    worst: str = ""
    worst_ns: int = -1

    def add(self, path: str, facts: RunFacts) -> None:
        """Adds a log."""
        self.logs += 1
        for name in ("io_ns", "process_ns", "wall_ns", "read", "written"):
            setattr(self, name, getattr(self, name) + getattr(facts, name))
        if facts.io_ns > self.worst_ns:
            self.worst, self.worst_ns = path, facts.io_ns


@dataclass
class FindingSums:
    """A finding in all logs that have it.

    ns: that could be saved; worst: the log where it is most; title, line: there.
    """

    name: str
    logs: int = 0
    ns: int = 0
    title: str = ""
    line: str = ""
    worst: str = ""
    worst_ns: int = -1


@dataclass
class Fleet:
    """unreadable: "path: why" of the first that cannot be read, `refused` in all; searched: logs in which findings were
    looked for; dropped: jobs, users and programs that there was no room for."""

    total: Sums = field(default_factory=lambda: Sums("all"))
    jobs: dict[str, Sums] = field(default_factory=dict)
    users: dict[str, Sums] = field(default_factory=dict)
    programs: dict[str, Sums] = field(default_factory=dict)
    findings: dict[str, FindingSums] = field(default_factory=dict)
    unreadable: list[str] = field(default_factory=list)
    refused: int = 0
    searched: int = 0
    dropped: int = 0

    def add(self, looked: Looked) -> None:
        """Adds a log."""
        facts = looked.facts
        if facts is None:
            self.refused += 1
            if len(self.unreadable) < _NAMED:
                self.unreadable.append(looked.problem)
            return
        self.total.add(looked.path, facts)
        self.searched += facts.searched
        job = facts.job or (looked.folder if looked.folder != "." else "(no job)")
        names = job, looked.user, facts.program or "(not known)"
        for sums, name in zip((self.jobs, self.users, self.programs), names, strict=True):
            sums.setdefault(name, Sums(name)).add(looked.path, facts)
            if len(sums) > 2 * MOST:
                self.dropped += _only_largest(sums)
        seen: set[str] = set()
        for one in facts.findings:
            known = self.findings.setdefault(one.slug, FindingSums(one.slug))
            known.logs += one.slug not in seen
            seen.add(one.slug)
            known.ns += one.ns
            if one.ns > known.worst_ns:
                known.title, known.line, known.worst, known.worst_ns = one.title, one.line, looked.path, one.ns


def _only_largest(sums: dict[str, Sums]) -> int:
    kept = ranked(sums.values())[:MOST]
    dropped = len(sums) - len(kept)
    sums.clear()
    sums.update({one.name: one for one in kept})
    return dropped


def ranked(sums: Iterable[Sums]) -> list[Sums]:
    """Most time of I/O first."""
    return sorted(sums, key=lambda one: (-one.io_ns, -one.process_ns, one.name))


def look_at(folder: str, paths: Sequence[str]) -> list[Looked]:
    """Each of these logs, one after the other; a log that cannot be read is one of them, too."""
    return [_look_at(folder, path) for path in paths]


def _look_at(folder: str, path: str) -> Looked:
    below = os.path.relpath(os.path.dirname(path), folder)
    user = "(not known)"
    try:
        user = _user(os.stat(path).st_uid)
        return Looked(path, user, below, _facts(Path(path)))
    except (PyioTraceError, OSError, MemoryError) as error:
        return Looked(path, user, below, None, _one_line(path, str(error) or type(error).__name__))
    except Exception as error:  # a forged log may find a fault of ours; the others are looked at all the same
        return Looked(path, user, below, None, _one_line(path, f"cannot be summed up ({type(error).__name__})"))


def _facts(path: Path) -> RunFacts:
    from pyio_trace.join.sources.opening import open_log
    from pyio_trace.log.parquet_log import is_parquet

    kept = facts_in(path) if is_parquet(path) else None
    return kept or facts_from(open_log(path))


def _one_line(path: str, why: str) -> str:
    text = " ".join(why.split())[:300]
    return text if text.startswith(path) else f"{path}: {text}"


def _user(number: int) -> str:
    import pwd

    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:
        return str(number)


def logs_in(folder: str) -> list[str]:
    """The logs in a folder tree; of a run that is packed, not the live log beside it.  Raises LogError no-such-log."""
    from pyio_trace.join.sources.opening import logs_below
    from pyio_trace.output import packed_name

    if not os.path.isdir(folder):
        raise LogError("no-such-log", f"{folder}: there is no such folder; name one with logs in it, or below it")
    paths = [os.fspath(path) for path in logs_below(folder)]
    known = set(paths)
    return [path for path in paths if packed_name(path) not in known]


def fleet_of(
    folder: str, paths: Sequence[str], workers: Workers | None, progress: Callable[[int], None] | None = None
) -> Iterator[Looked]:
    """Each log, in the order of the paths.  progress: called with the number of logs done.

    Raises LogError worker-lost.
    """
    tasks = [paths[first : first + _EACH] for first in range(0, len(paths), _EACH)]
    for done in _local(folder, tasks) if workers is None else _spread(folder, tasks, workers):
        if progress is not None:
            progress(len(done))
        yield from done


def _local(folder: str, tasks: Iterable[Sequence[str]]) -> Iterator[list[Looked]]:
    return (look_at(folder, task) for task in tasks)


def _spread(folder: str, tasks: Sequence[Sequence[str]], workers: Workers) -> Iterator[list[Looked]]:
    waiting: deque[Future[Any]] = deque()
    left = iter(tasks)
    try:
        while True:
            while len(waiting) < _WAITING * workers.count and (task := next(left, None)) is not None:
                waiting.append(workers.executor.submit(look_at, folder, task))
            if not waiting:
                return
            yield waiting.popleft().result()
    except BrokenExecutor as error:
        raise LogError("worker-lost", f"{workers.where}: a worker has ended ({error}); try fewer") from None
    finally:
        for future in waiting:
            future.cancel()
