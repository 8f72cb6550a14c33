"""Copies the logs of a run's workers into one folder, which `pyio_trace.open(folder)` reads as one log.

A log is on the host of the process that wrote it, in a folder that hosts may or
may not share.  Its writer may still live, or may have been killed.  This module
knows nothing of Dask or Ray: each plugin says which logs there are, and how a
function is called on their host (LogAt).  Logs that are visible from here are
copied, others are fetched in pieces.  A log that is being written is sparse,
with few bytes in gigabytes, so holes are neither read nor sent.

Nothing that a worker says is trusted.  A log's name must be the last part of a
path and have a log's suffix; its first bytes must be those of a log; its sizes
must fit.  Files, here and there, are opened only if they belong to this user.
"""

from __future__ import annotations

import errno
import os
import stat
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextlib import suppress as suppressed
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from pyio_trace import suppress
from pyio_trace.errors import printable
from pyio_trace.existing_files import LOG_MAGIC, is_packed_log
from pyio_trace.output import LIVE_SUFFIX, PACKED_SUFFIX, original_name, safe_name
from pyio_trace.values import MAXIMUM_LOG

#: Bytes fetched in one call.
PIECE = 8 << 20
#: Bytes at the start of a log that tell it from every other: magic, run and host.
_START = 256
#: Limits on what a worker says: bytes of a log's name and of its host's, extents with data, characters of an error.
_LONGEST_NAME, _LONGEST_HOST, _MOST_EXTENTS, _LONGEST_WORDS = 160, 64, 1 << 20, 300

Call = Callable[..., Any]


@dataclass(frozen=True)
class LogAt:
    """One log: its path on `host`, and how a function of this module is called there.

    call: ``call(function, *arguments)`` runs the function in a process of that
    host and returns its result; None: no such process is left.  also: a second
    path, for a log that is not at the first: a log that could not be mapped at
    its place stays in memory until its writer ends.
    """

    host: str
    path: str
    call: Call | None
    also: str | None = None


@dataclass(frozen=True)
class Survey:
    """A log as it was seen: its size, its extents with data as (first, end), and its first bytes."""

    size: int
    extents: tuple[tuple[int, int], ...]
    start: bytes


def gather(logs: Iterable[LogAt], folder: str | os.PathLike[str], *, progress: bool | None = None) -> list[Path]:
    """Copies the logs into `folder` (created if missing) and returns where they are.

    Logs that are in the folder already stay as they are.  A log that cannot be
    copied causes a warning that names it; the others are copied.  progress:
    show a bar on stderr; None: if that is a terminal.  Raises OSError if the
    folder cannot be written.
    """
    target = Path(folder)
    target.mkdir(parents=True, exist_ok=True)
    distinct = list({(log.host, log.path): log for log in logs}.values())
    gathered: list[Path] = []
    place = os.open(target, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        with _bar(progress) as bar:
            for n, log in enumerate(distinct, 1):
                try:
                    gathered.append(_gather_one(log, target, place, partial(bar, n, len(distinct))))
                except Exception as problem:
                    why = shown(f"{type(problem).__name__}: {problem}")
                    where = f"{shown(log.path)} of {shown(log.host)}"
                    warnings.warn(f"the log {where} is not gathered: {why}", stacklevel=2)
    finally:
        os.close(place)
    return gathered


def shown(words: object) -> str:
    """Text of a worker for a line of ours: without control characters, and not too long."""
    text = printable(str(words))
    return text if len(text) <= _LONGEST_WORDS else f"{text[:_LONGEST_WORDS]}..."


@suppress()  # a traced worker would record this in the very log
def survey(path: str) -> Survey:
    """Surveys the log at path, on this host.  Raises OSError."""
    fd = _open_own(path)
    try:
        size = os.fstat(fd).st_size
        return Survey(size, tuple(_extents(fd, size)), os.pread(fd, _START, 0))
    finally:
        os.close(fd)


@suppress()
def first_there(paths: list[str]) -> str:
    """The first of the paths that exists on this host; if none does, the first."""
    return next((path for path in paths if os.path.exists(path)), paths[0])


@suppress()
def piece(path: str, offset: int, size: int) -> bytes:
    """Reads bytes of the log at path, on this host; fewer at its end.  Raises OSError."""
    fd = _open_own(path)
    try:
        return os.pread(fd, size, offset)
    finally:
        os.close(fd)


def is_own(path: str) -> bool:
    """Whether path is a regular file of this user, and no link.  Shared folders have files of others."""
    try:
        return _belongs(os.lstat(path))
    except OSError:
        return False


def _belongs(there: os.stat_result) -> bool:
    return stat.S_ISREG(there.st_mode) and there.st_uid == os.geteuid()


def _open_own(path: str, place: int | None = None) -> int:
    """Opens a file that is_own(), without waiting or following a link.  Raises OSError."""
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
    # Checked before opening as well, because opening a device can have effects.
    if not _belongs(os.stat(path, dir_fd=place, follow_symlinks=False)):
        raise PermissionError(errno.EPERM, "not a regular file of this user's", path)
    fd = os.open(path, flags, dir_fd=place)
    if not _belongs(os.fstat(fd)):
        os.close(fd)
        raise PermissionError(errno.EPERM, "not a regular file of this user's", path)
    return fd


# ---- one log -------------------------------------------------------------------------------


def _gather_one(log: LogAt, target: Path, place: int, report: Callable[[int, int], object]) -> Path:
    """Copies one log into target, whose descriptor is place; returns its path there."""
    if log.also is not None:
        there = (log.call or _here)(first_there, [log.path, log.also])
        log = replace(log, path=log.also if there == log.also else log.path, also=None)
    checked_name(log.path)
    call = _here
    if not _seen_from_here(log):
        assert log.call is not None  # else it has raised
        call = log.call
    elif Path(log.path).parent.resolve() == target.resolve():
        return Path(log.path)
    found = _checked(call(survey, log.path), log.path)
    room = os.fstatvfs(place)
    if sum(end - first for first, end in found.extents) > room.f_bavail * room.f_frsize:
        raise OSError(errno.ENOSPC, "there is no room for it", str(target))
    unfinished = f".{os.urandom(8).hex()}.part"  # it gets its name when it is complete
    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        with open(os.open(unfinished, flags, 0o600, dir_fd=place), "w+b") as file:
            # In the order of the file: what the header refers to was written before the header was read.
            for offset, size, done, total in _pieces(found):
                data = call(piece, log.path, offset, size)
                if not isinstance(data, bytes) or len(data) > size:
                    raise ValueError("its worker sent other bytes than requested")
                file.seek(offset)
                file.write(data)
                report(done, total)
            if log.path.endswith(PACKED_SUFFIX) and not is_packed_log(file):
                raise ValueError("a Parquet file, but no log of pyio_trace's")
        name = _named(place, log, found.start, unfinished)
    except BaseException:
        with suppressed(FileNotFoundError):
            os.unlink(unfinished, dir_fd=place)
        raise
    return target / name


def checked_name(path: str) -> str:
    """The file name for a log, from the path that its worker gives.  Raises ValueError if that is no log's name."""
    name = original_name(path)
    if (
        not name.endswith((LIVE_SUFFIX, PACKED_SUFFIX))
        or name.startswith(".")
        or printable(name) != name
        or len(os.fsencode(name)) > _LONGEST_NAME
    ):
        raise ValueError("its name is not one of a log: it would have to end in .pyio or .parquet, without a dot first")
    return name


def _checked(found: Survey, path: str) -> Survey:
    """A worker's survey, if it is plausible: a log's first bytes, extents within a log's size.  Raises ValueError."""
    if not isinstance(found, Survey) or not isinstance(found.start, bytes):
        raise ValueError("its worker's answer has an unknown form")
    magic = LOG_MAGIC if path.endswith(LIVE_SUFFIX) else b"PAR1"
    if not found.start.startswith(magic) or len(found.start) > _START:
        raise ValueError("it does not begin as a log does")
    if not isinstance(found.extents, tuple) or len(found.extents) > _MOST_EXTENTS:
        raise ValueError("it has more extents than a log can")
    before = 0
    for first, end in found.extents:
        if not (type(first) is type(end) is int and before <= first < end <= MAXIMUM_LOG):
            raise ValueError("its extents are not those of a log")
        before = end
    return found


def _here(function: Callable[..., Any], *arguments: Any) -> Any:
    return function(*arguments)


def _seen_from_here(log: LogAt) -> bool:
    """Whether the file at that path on this machine is the very log, and not just one of that name.

    Raises FileNotFoundError if it is not, and no process on the log's host can send it.
    """
    try:
        here: Survey | None = survey(log.path)
    except OSError:
        here = None
    if log.call is not None:
        there = _checked(log.call(survey, log.path), log.path)
        return here is not None and _identity(here.start) == _identity(there.start)
    if here is None or (log.host != os.uname().nodename and log.host not in os.path.basename(log.path)):
        raise FileNotFoundError(errno.ENOENT, "not seen from here, and no process is left on its host", log.path)
    return True


def _identity(start: bytes) -> bytes:
    """The part of a log's first bytes that identifies it; the rest changes while it is written."""
    if start.startswith(LOG_MAGIC):  # struct pt_header in csrc/core/format/log_format.h
        return start[:12] + start[32:44]  # magic, version; run, its first process
    return start


def _named(place: int, log: LogAt, start: bytes, unfinished: str) -> str:
    """Gives a complete copy its name, and returns that.  Nothing is replaced but an earlier copy of the log."""
    while True:
        name, copied = _free_name(place, log, start)
        if not copied:
            try:
                os.link(unfinished, name, src_dir_fd=place, dst_dir_fd=place, follow_symlinks=False)
            except FileExistsError:  # something else has got it just now
                continue
            except OSError:  # a file system without links
                pass
            else:
                os.unlink(unfinished, dir_fd=place)
                return name
        os.replace(unfinished, name, src_dir_fd=place, dst_dir_fd=place)
        return name


def _free_name(place: int, log: LogAt, start: bytes) -> tuple[str, bool]:
    """The log's own name, or with its host where another log has that name; whether an earlier copy of it has it."""
    stem, suffix = os.path.splitext(checked_name(log.path))
    host = safe_name(log.host)[:_LONGEST_HOST]
    words = ["", f"-{host}", *(f"-{host}-{n}" for n in range(2, 10_000))]
    for name in (f"{stem}{word}{suffix}" for word in words):
        try:
            fd = _open_own(name, place)
        except FileNotFoundError:
            return name, False
        except PermissionError:  # another user's, or no regular file
            continue
        with open(fd, "rb") as file:
            if _identity(file.read(_START)) == _identity(start):
                return name, True
    raise FileExistsError(errno.EEXIST, "the name is taken", stem + suffix)


# ---- holes ---------------------------------------------------------------------------------


def _extents(fd: int, size: int) -> Iterator[tuple[int, int]]:
    """The extents with data, as (first, end), in order."""
    at = 0
    while at < size:
        try:
            first = os.lseek(fd, at, os.SEEK_DATA)
            at = os.lseek(fd, first, os.SEEK_HOLE)
        except OSError as problem:
            if problem.errno == errno.ENXIO:  # only a hole up to the end
                return
            yield at, size  # the file system does not report holes
            return
        yield first, min(at, size)


def _pieces(found: Survey) -> Iterator[tuple[int, int, int, int]]:
    """For each piece to fetch: offset, size, bytes done including it, bytes in all."""
    total, done = sum(end - first for first, end in found.extents), 0
    for first, end in found.extents:
        for offset in range(first, end, PIECE):
            size = min(PIECE, end - offset)
            done += size
            yield offset, size, done, total


# ---- the bar -------------------------------------------------------------------------------


@contextmanager
def _bar(wanted: bool | None) -> Iterator[Callable[[int, int, int, int], object]]:
    """Gives a function (log, of logs, bytes done, of bytes) that shows progress; on a terminal only, unless wanted."""
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
