"""Opens a log of any kind.  The kind is known by the contents, not by the name."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from pyio_trace.errors import LogError, PyioTraceError
from pyio_trace.join.processes.process_names import job_text
from pyio_trace.join.sources.facade import Log
from pyio_trace.join.sources.foreign_source import ForeignSource, format_of, formats
from pyio_trace.join.sources.live_source import LiveSource
from pyio_trace.join.sources.merged_source import MOST_OPEN, MergedSource
from pyio_trace.join.sources.parquet_source import ParquetSource
from pyio_trace.join.sources.source import Source
from pyio_trace.join.sources.spread_source import Spread
from pyio_trace.log.live import is_live_log
from pyio_trace.log.parquet_log import is_parquet
from pyio_trace.output import LIVE_SUFFIX, PACKED_SUFFIX, is_temporary

#: Jobs that an error names.
_LISTED = 5


def open_log(path: str | os.PathLike[str]) -> Log:
    """The log at path: a live log, a Parquet log, a log of another tool (pyio_trace/log/foreign), or a folder of them.

    In a folder, files that are not logs are skipped.  If there are a live log and
    the Parquet log packed from it, only the latter is read; the name
    of a Parquet log that a killed run never wrote finds the live log.  Logs that
    cannot be read are among the losses, unless none can be read.
    Raises LogError: no-such-log, not-a-log, log-unreadable, log-truncated,
    log-version, log-damaged.
    """
    source = open_source(path)
    return Log(Path(os.fsdecode(path)), source)


def open_source(path: str | os.PathLike[str]) -> Source:
    """The rows behind a path; see open_log."""
    name = os.fsdecode(path)
    if not name:  # perhaps an unset shell variable: it must not mean the current folder
        raise LogError("no-such-log", "the name of the log is empty; name a log or a folder of logs")
    path = Path(there(name))
    try:
        if path.is_dir():
            return _folder(path)
        if path.is_file() and is_parquet(path):
            return ParquetSource(path)
        if path.is_file() and (found := format_of(path)) is not None:
            return ForeignSource(found, [path])
    except OSError as error:
        raise LogError("log-unreadable", f"{path}: cannot be read: {error.strerror}") from None
    return LiveSource(path)


def there(name: str) -> str:
    """The name of a log; of the live log, if it stands for the Parquet log that a killed run never wrote."""
    live = name.removesuffix(PACKED_SUFFIX) + LIVE_SUFFIX
    missing = name.endswith(PACKED_SUFFIX) and not os.path.lexists(name)
    return live if missing and os.path.isfile(live) else name


def _folder(folder: Path) -> Source:
    found, refused, _ = _sources([path for path in sorted(folder.iterdir()) if path.is_file()])
    if not found and refused:
        raise refused[0]
    if not found:
        raise LogError("not-a-log", f"{folder}: a folder without a log in it; name a log or a folder of logs")
    if len(found) == 1 and not refused:
        return found[0]
    return MergedSource(found, [str(error) for error in refused])


def open_job(
    paths: Sequence[str | os.PathLike[str]], job: str | None = None, spread: Spread | None = None
) -> MergedSource:
    """The logs of one job as one: those at these paths, and in folders also those further below.

    job: only those of that job, by the id of its launch, its job id, or its job id and step; spread: has workers that
    read Parquet logs.

    Raises LogError: no-such-log, not-a-log, no-such-job, and the first error of a log if none can be read.
    """
    files: dict[str, Path] = {}
    for name in map(os.fsdecode, paths):
        if not os.path.lexists(name):
            raise LogError("no-such-log", f"{name}: there is no such file or folder")
        for path in logs_below(name) if os.path.isdir(name) else [Path(name)]:
            files.setdefault(os.path.realpath(path), path)
    found, refused, others = _sources(list(files.values()), spread)
    refused += [LogError("not-a-log", f"{path}: it is no log") for path in others if not _is_data(path)]
    if not found:
        raise refused[0] if refused else LogError("not-a-log", f"{os.fsdecode(paths[0])}: there is no log")
    if job is not None:
        found = _of_job(found, job)
    if spread is not None:
        spread.order(found)
    left_out = [path for path in others if _is_data(path)]
    return MergedSource(found, [str(error) for error in refused], one_job=True, left_out=list(map(str, left_out)))


def _of_job(sources: list[Source], job: str) -> list[Source]:
    """The logs of one job.  If a launcher used an id again, the later run is called ID#2 (see MergedSource)."""
    runs = MergedSource(sources).runs
    chosen = [
        source
        for source, run in zip(sources, runs, strict=True)
        if job == run or any(job in (row["job"], job_text(row)) for row in source.processes())
    ]
    if not chosen:
        known = sorted(set(filter(None, runs)))
        more = ", ..." if len(known) > _LISTED else ""
        there = f"there are {', '.join(known[:_LISTED])}{more}" if known else "no log names its job"
        raise LogError("no-such-job", f"--job {job}: no log is of that job; {there}")
    return chosen


def _is_data(path: Path) -> bool:
    """Whether it is a Parquet file of another program."""
    try:
        return is_parquet(path)
    except OSError:
        return False


def logs_below(folder: str | os.PathLike[str]) -> Iterator[Path]:
    """The files that may be logs in a folder and in those below it, by name; links to folders are not followed."""
    for at, folders, names in os.walk(folder):
        folders.sort()
        for name in sorted(names):
            path = Path(at, name)
            if name.endswith((PACKED_SUFFIX, LIVE_SUFFIX)) and not is_temporary(name) and path.is_file():
                yield path


def _sources(paths: Sequence[Path], spread: Spread | None = None) -> tuple[list[Source], list[LogError], list[Path]]:
    """The logs among these files, why others that look like logs cannot be read, and those that have the name of a log
    and are none."""
    # Parquet logs first: a live log is left out if a Parquet log of the same run was found.
    files = [path for path in paths if not is_temporary(path.name)]
    found: dict[tuple[str, str, int], Source] = {}
    refused: list[LogError] = []
    logs: set[Path] = set()
    for kind, source in ((is_parquet, _parquet_opener(files, spread)), (is_live_log, LiveSource)):
        for path in files:
            try:
                if kind(path):
                    _add(found, source(path))
                    logs.add(path)
            except LogError as error:
                if error.slug != "not-a-log":  # a Parquet file of another program
                    refused.append(error)
                    logs.add(path)
            except OSError as error:
                logs.add(path)
                refused.append(LogError("log-unreadable", f"{path}: cannot be read: {error.strerror}"))
    logs |= _add_foreign(found, files, refused)
    others = [path for path in files if path not in logs and path.name.endswith((PACKED_SUFFIX, LIVE_SUFFIX))]
    return list(found.values()), refused, others


def _parquet_opener(files: list[Path], spread: Spread | None) -> Callable[[Path], Source]:
    if spread is None:
        return ParquetSource
    packed = [path for path in files if _is_data(path)]
    known = dict(zip(packed, spread.opened(packed), strict=True))

    def opened(path: Path) -> Source:
        source = known[path]
        if isinstance(source, PyioTraceError):
            raise source
        return source

    return opened


def _add_foreign(found: dict[tuple[str, str, int], Source], files: list[Path], refused: list[LogError]) -> set[Path]:
    """Adds the logs of other tools; returns their files."""
    of_format: dict[str, list[Path]] = {}
    for path in files:
        try:
            if (name := format_of(path)) is not None:
                of_format.setdefault(name, []).append(path)
        except OSError as error:
            refused.append(LogError("log-unreadable", f"{path}: cannot be read: {error.strerror}"))
    for name, paths in of_format.items():
        for together in formats()[name].together(paths):
            try:
                _add(found, ForeignSource(name, together))
            except LogError as error:
                refused.append(error)
    return {path for paths in of_format.values() for path in paths}


def _add(found: dict[tuple[str, str, int], Source], source: Source) -> None:
    """Adds a source, unless the same log was found before.  A run has a log for each host and container; those of one
    host differ in the moment they were begun."""
    info = source.info()
    found.setdefault((info["run"], info["host"], info["start"]), source)
    if len(found) > MOST_OPEN:
        source.release()
