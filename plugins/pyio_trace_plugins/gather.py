"""Logs of a run's workers brought together in one folder, so that `pyio_trace.open(folder)` reads them as one.

A log is on the host of the process that wrote it, maybe in a folder that all
hosts share, maybe not; its writer may still live, or have been killed.  So
this half knows nothing of Dask or Ray.  Each plugin says which logs there are
and how a function is called on their host (LogAt); what can be seen from here
is copied here, what cannot is fetched in pieces.  Logs that are being written
have a size of gigabytes and few bytes in them: holes are neither read nor sent.
"""

from __future__ import annotations

import errno
import os
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from pyio_trace import suppress
from pyio_trace.output import own_name

#: Bytes fetched in one call.
PIECE = 8 << 20
#: Of a log's start, this much tells it from every other: magic, run and host are in it.
_START = 256

Call = Callable[..., Any]


@dataclass(frozen=True)
class LogAt:
    """One log: its path on `host`, and how a function of this module is called there.

    call: ``call(function, *arguments)`` runs it in some process of that host
    and returns its answer; None: there is no such process any more.  also:
    another path, where it is when it is not at the first: a log that could not
    be mapped where it was to be is in memory until its writer's end.
    """

    host: str
    path: str
    call: Call | None
    also: str | None = None


@dataclass(frozen=True)
class Survey:
    """What a log looked like: size, stretches with data as (first, end), and its first bytes."""

    size: int
    stretches: tuple[tuple[int, int], ...]
    start: bytes


def gather(logs: Iterable[LogAt], folder: str | os.PathLike[str], *, progress: bool | None = None) -> list[Path]:
    """Bring the logs into `folder` (made if need be) and return where they are.

    Logs that stand in it already stay as they are.  A log that cannot be had
    costs a warning that names it, not the others.  progress: a bar on stderr;
    None: if that is a terminal.  Raises OSError if the folder cannot be written.
    """
    target = Path(folder)
    target.mkdir(parents=True, exist_ok=True)
    distinct = list({(log.host, log.path): log for log in logs}.values())
    gathered: list[Path] = []
    with _bar(progress) as bar:
        for n, log in enumerate(distinct, 1):
            try:
                gathered.append(_gather_one(log, target, partial(bar, n, len(distinct))))
            except Exception as problem:
                why = f"{type(problem).__name__}: {problem}"
                warnings.warn(f"the log {log.path} of {log.host} is not gathered: {why}", stacklevel=2)
    return gathered


@suppress()  # in a worker that is traced, into this very log
def survey(path: str) -> Survey:
    """Of the log at path, on this host.  Raises OSError."""
    with open(path, "rb") as file:
        size = os.fstat(file.fileno()).st_size
        start = file.read(_START)
        return Survey(size, tuple(_stretches(file.fileno(), size)), start)


@suppress()
def first_there(paths: list[str]) -> str:
    """The first of the paths at which there is something, on this host; the first of all, if there is nothing."""
    return next((path for path in paths if os.path.exists(path)), paths[0])


@suppress()
def piece(path: str, offset: int, size: int) -> bytes:
    """Bytes of the log at path, on this host; fewer where it ends.  Raises OSError."""
    with open(path, "rb") as file:
        return os.pread(file.fileno(), size, offset)


# ---- one log -------------------------------------------------------------------------------


def _gather_one(log: LogAt, target: Path, told: Callable[[int, int], object]) -> Path:
    if log.also is not None:
        log = replace(log, path=(log.call or _here)(first_there, [log.path, log.also]), also=None)
    call = _here
    if not _seen_from_here(log):
        assert log.call is not None  # else it has raised
        call = log.call
    elif Path(log.path).parent.resolve() == target.resolve():
        return Path(log.path)
    found: Survey = call(survey, log.path)
    path = _free_name(target, log, found.start)
    unfinished = path.with_name(f".{path.name}.part")  # it has its name when it is whole
    try:
        with open(unfinished, "wb") as file:
            # In the file's order: what the header tells of was there before the header was read.
            for offset, size, done, total in _pieces(found):
                file.seek(offset)
                file.write(call(piece, log.path, offset, size))
                told(done, total)
        os.replace(unfinished, path)
    finally:
        unfinished.unlink(missing_ok=True)
    return path


def _here(function: Callable[..., Any], *arguments: Any) -> Any:
    return function(*arguments)


def _seen_from_here(log: LogAt) -> bool:
    """Whether this machine has the very log at that path, and not just one of that name.

    Raises FileNotFoundError if it has not, and nobody on the log's host can be asked for it.
    """
    try:
        here: Survey | None = survey(log.path)
    except OSError:
        here = None
    if log.call is not None:
        there: Survey = log.call(survey, log.path)
        return here is not None and _identity(here.start) == _identity(there.start)
    if here is None or (log.host != os.uname().nodename and log.host not in os.path.basename(log.path)):
        raise FileNotFoundError(errno.ENOENT, "not seen from here, and no process is left on its host", log.path)
    return True


def _identity(start: bytes) -> bytes:
    """What a log's first bytes say of which log it is; the rest of them changes while it is written."""
    if start.startswith(b"PYIOLOG\n"):  # struct pt_header in csrc/core/log_format.h
        return start[:12] + start[32:44]  # magic, version; run, its first process
    return start


def _free_name(target: Path, log: LogAt, start: bytes) -> Path:
    """The log's own name; with its host where another log has that.  An earlier copy of the same log is replaced."""
    name = Path(own_name(log.path))
    words = ["", f"-{log.host}", *(f"-{log.host}-{n}" for n in range(2, 10_000))]
    for path in (target / f"{name.stem}{word}{name.suffix}" for word in words):
        try:
            with open(path, "rb") as file:
                if _identity(file.read(_START)) == _identity(start):
                    return path
        except FileNotFoundError:
            return path
    raise FileExistsError(errno.EEXIST, "the name is taken", str(target / name.name))


# ---- holes ---------------------------------------------------------------------------------


def _stretches(fd: int, size: int) -> Iterator[tuple[int, int]]:
    """Where there is data: (first, end) in order."""
    at = 0
    while at < size:
        try:
            first = os.lseek(fd, at, os.SEEK_DATA)
            at = os.lseek(fd, first, os.SEEK_HOLE)
        except OSError as problem:
            if problem.errno == errno.ENXIO:  # nothing but a hole to the end
                return
            yield at, size  # a file system that does not tell
            return
        yield first, min(at, size)


def _pieces(found: Survey) -> Iterator[tuple[int, int, int, int]]:
    """(offset, size, done with it, all) of each piece to fetch."""
    total, done = sum(end - first for first, end in found.stretches), 0
    for first, end in found.stretches:
        for offset in range(first, end, PIECE):
            size = min(PIECE, end - offset)
            done += size
            yield offset, size, done, total


# ---- the bar -------------------------------------------------------------------------------


@contextmanager
def _bar(wanted: bool | None) -> Iterator[Callable[[int, int, int, int], object]]:
    """A function (log, of logs, bytes done, of bytes) that shows how far it is; on a terminal only, unless wanted."""
    if not (sys.stderr.isatty() if wanted is None else wanted):
        yield lambda log, logs, done, size: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn

    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn())
    with Progress(*columns, console=Console(stderr=True)) as shown:
        task = shown.add_task("gathering logs")

        def update(log: int, logs: int, done: int, size: int) -> None:
            shown.update(task, description=f"gathering log {log} of {logs}", completed=done, total=size)

        yield update
