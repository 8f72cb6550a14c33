"""Which live log is meant: by a name, the number of a process, a folder, or by nothing at all."""

from __future__ import annotations

import glob
import os
from typing import NamedTuple

from pyio_trace.errors import LogError
from pyio_trace.existing_files import begins_with
from pyio_trace.join.processes.liveness import Liveness
from pyio_trace.log import layout
from pyio_trace.log.live import fixed_region, header_of
from pyio_trace.log.log_file import LogFile
from pyio_trace.output import LIVE_SUFFIX, memory_pattern
from pyio_trace.running.foreign_files import open_inside
from pyio_trace.running.kernel_process import KernelProcess, ProcessError, refused
from pyio_trace.running.python_lines import live_logs_of

#: Names of logs in an error.
_NAMED = 4


class FoundLog(NamedTuple):
    """A live log.  opened: a descriptor of it, where it is named in a process's own root; None: open it by its path."""

    path: str
    opened: int | None = None


def find_log(what: str | None) -> FoundLog:
    """The live log that is meant.  what: its name, the number of a process, a folder; None: the current folder.

    Raises LogError (no-such-log, several-logs, ...), ProcessError.
    """
    if what is not None and not os.path.exists(what) and what.isascii() and what.isdecimal():
        return _of_process(int(what))
    if what is not None and not os.path.isdir(what):
        if os.path.isfile(what) and begins_with(what, b"PAR1"):
            raise LogError("not-a-log", f"{what}: no live log; its run is over: pyio-trace summary {what}")
        return FoundLog(what)
    folder = what if what is not None else os.curdir
    found = running_logs(folder)
    if len(found) == 1:
        return FoundLog(found[0])
    where = "the current folder" if what is None else what
    if not found:
        raise LogError("no-such-log", f"no program writes a live log in {where}; name a log (*.pyio) or a process")
    names = ", ".join(found[:_NAMED]) + (f" and {len(found) - _NAMED} more" if len(found) > _NAMED else "")
    raise LogError("several-logs", f"programs write {len(found)} live logs in {where}: {names}; name one")


def running_logs(folder: str) -> list[str]:
    """The live logs of this user in a folder that a program writes, the newest first; also those that are in memory
    until their run ends, as the folder's file system cannot map files."""
    pattern = os.path.join(glob.escape(folder), f"*{LIVE_SUFFIX}")
    names = glob.glob(pattern) + (glob.glob(memory_pattern(pattern)) if folder == os.curdir else [])
    found = []
    for path in names:
        try:
            status = os.stat(path)
            if status.st_uid == os.geteuid() and begins_with(path, layout.MAGIC) and _is_written(path):
                found.append((-status.st_mtime_ns, os.path.normpath(path)))
        except (OSError, LogError):
            continue
    return [path for _, path in sorted(found)]


def _is_written(path: str) -> bool:
    """Whether the run's first process is running, or was not seen to end."""
    from pathlib import Path

    file = LogFile(Path(path))
    header = header_of(Path(path), fixed_region(file))
    return Liveness(header).alive(int(header["owner_pid"]), int(header["owner_start"]))


def _of_process(pid: int) -> FoundLog:
    with KernelProcess(pid) as process:
        if not process.may_be_read():
            raise refused(pid)
        for path in live_logs_of(process):
            try:
                descriptor = open_inside(pid, path)
            except OSError:
                continue
            if os.pread(descriptor, len(layout.MAGIC), 0) == layout.MAGIC:
                return FoundLog(path, descriptor)
            os.close(descriptor)
    raise ProcessError(
        "process-not-traced",
        f"process {pid} writes no live log; pyio-trace why {pid} says what it waits for, traced or not",
    )
