"""What a Darshan log says of the job: when and where it ran, its command, its file systems."""

from __future__ import annotations

import os
from importlib.metadata import version
from typing import TYPE_CHECKING

import numpy as np

from pyio_trace.analysis.scan.decoding import LATEST
from pyio_trace.darshan_format import JOB, JOB_BYTES
from pyio_trace.export.darshan.names import raw_name

if TYPE_CHECKING:
    from pyio_trace.join.sources.facade import Log

#: The version of Darshan whose logs these are like; its tools look at it.
LIB_VERSION = "3.5.0"
_NS = 1_000_000_000
#: Darshan's tools divide by the time that a job took.
_SHORTEST_NS = 1_000


def start_of(log: Log) -> int:
    """When the run began, ns since the epoch."""
    return min(max(int(log.info()["start"]), 0), LATEST)


def end_of(log: Log, last: int) -> int:
    """When the run ended, ns since the epoch; last: end of the last call."""
    ends = [one for one in log.processes()["end"].to_pylist() if one is not None]
    end = int(max(log.info()["end"] or 0, last, *ends))
    return max(min(end, LATEST), start_of(log) + _SHORTEST_NS)


def job_region(log: Log, end: int, nprocs: int) -> bytes:
    """The job's record, the command and the mounted file systems; end: ns since the epoch."""
    info = log.info()
    job = np.zeros((), JOB)
    job["start_sec"], job["start_nsec"] = divmod(start_of(log), _NS)
    job["end_sec"], job["end_nsec"] = divmod(end, _NS)
    job["nprocs"] = nprocs
    job["uid"] = _owner(log)
    job["jobid"] = info["owner_pid"] or 0
    job["metadata"] = f"lib_ver={LIB_VERSION}\nexported_by=pyio_trace {version('pyio_trace')}\n".encode()
    room = JOB_BYTES - JOB.itemsize - 1
    text = _command(log)[: room // 2].decode("utf-8", "ignore").encode()
    for path, kind in sorted((info["file_systems"] or {}).items(), key=lambda one: (-len(one[0]), one[0])):
        path = path or "/"
        line = f"\n{kind}\t{path}"
        if kind is None or any(blank in f"{kind}{path}" for blank in (" ", "\t", "\n")):
            continue  # Darshan's tables have no way to write these
        raw = line.encode("utf-8", "backslashreplace")
        if len(text) + len(raw) <= room:
            text += raw
    return job.tobytes() + text + b"\0"


def _command(log: Log) -> bytes:
    """The command of the first process."""
    for words in log.processes()["argv"].to_pylist():
        if words:
            return raw_name(" ".join(words))
    return b"unknown"


def _owner(log: Log) -> int:
    try:
        return os.stat(log.path).st_uid
    except OSError:
        return os.geteuid()
