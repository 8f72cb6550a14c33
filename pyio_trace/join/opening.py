"""Opening a log, whatever kind it is: by what is in it, not by its name."""

from __future__ import annotations

import os
from pathlib import Path

from pyio_trace.errors import LogError
from pyio_trace.join.facade import Log
from pyio_trace.join.live_source import LiveSource
from pyio_trace.join.merged_source import MergedSource
from pyio_trace.join.parquet_source import ParquetSource
from pyio_trace.join.source import Source
from pyio_trace.log.live import is_live_log
from pyio_trace.log.parquet import is_parquet


def open_log(path: str | os.PathLike[str]) -> Log:
    """The log at path: a live log, a Parquet log, or a folder of them.

    In a folder, files that are no logs are passed over, and of a live log and
    the Parquet log packed from it only the latter is read.  Logs that cannot
    be read are among the losses, unless it is all of them.
    Raises LogError: no-such-log, not-a-log, log-unreadable, log-truncated,
    log-version, log-damaged.
    """
    name = os.fsdecode(path)
    if not name:  # a shell's variable that is not set: not the current folder
        raise LogError("no-such-log", "the name of the log is empty; name a log or a folder of logs")
    path = Path(name)
    return Log(path, open_source(path))


def open_source(path: Path) -> Source:
    """The rows behind a path; see open_log."""
    try:
        if path.is_dir():
            return _folder(path)
        if path.is_file() and is_parquet(path):
            return ParquetSource(path)
    except OSError as error:
        raise LogError("log-unreadable", f"{path}: cannot be read: {error.strerror}") from None
    return LiveSource(path)


def _folder(folder: Path) -> Source:
    # Parquet first, so that the live log it was packed from is known when it comes.
    files = [path for path in sorted(folder.iterdir()) if path.is_file()]
    found: dict[tuple[str, str], Source] = {}
    refused: list[LogError] = []
    for kind, source in ((is_parquet, ParquetSource), (is_live_log, LiveSource)):
        for path in files:
            try:
                if kind(path):
                    _add(found, source(path))
            except LogError as error:
                if error.slug != "not-a-log":  # somebody's own Parquet file
                    refused.append(error)
            except OSError as error:
                refused.append(LogError("log-unreadable", f"{path}: cannot be read: {error.strerror}"))
    if not found and refused:
        raise refused[0]
    if not found:
        raise LogError("not-a-log", f"{folder}: a folder without a log in it; name a log or a folder of logs")
    if len(found) == 1 and not refused:
        return next(iter(found.values()))
    return MergedSource(list(found.values()), [str(error) for error in refused])


def _add(found: dict[tuple[str, str], Source], source: Source) -> None:
    info = source.info()
    found.setdefault((info["run"], info["host"]), source)
