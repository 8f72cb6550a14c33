"""Which processes of a run may still write to its live log: while there are any, it is not packed and removed."""

from __future__ import annotations

import os

from pyio_trace import log_constants
from pyio_trace.config import LOG_VARIABLE
from pyio_trace.join.processes.liveness import Liveness
from pyio_trace.join.processes.process_table import Process
from pyio_trace.log.live import LiveLog

#: Helpers of multiprocessing, multiprocess and loky that live as long as the program.  They do no I/O for the program;
#: processes that a fork server forks have rows of their own.
_HELPERS = (".resource_tracker import main", ".forkserver import main")


def writers(log: LiveLog, processes: list[Process]) -> list[int]:
    """The ids of these processes.  processes: the table of the log."""
    starting = _starting(log, processes)
    return [
        process.pid
        for process in processes
        if (process.ended == log_constants.RUNNING or process.index in starting)
        and (process.start == "fork" or not _is_helper(process))
    ]


def _is_helper(process: Process) -> bool:
    return any(helper in word for word in process.argv for helper in _HELPERS)


def _starting(log: LiveLog, processes: list[Process]) -> set[int]:
    """Indexes of programs that have been started and have yet to join the run."""
    continued = {process.parent for process in processes}
    replaced = [one for one in processes if one.ended == log_constants.REPLACED and one.index not in continued]
    if not replaced:
        return set()
    liveness, raw = Liveness(log.header), log.processes()
    return {
        one.index
        for one in replaced
        if liveness.alive(
            one.pid, *(int(raw[one.index][name]) for name in ("start_time", "namespace_inode", "outer_pid"))
        )
        and (raw[one.index]["awaited"] or _is_python_of_run(one.pid))
    }


def _is_python_of_run(pid: int) -> bool:
    try:
        if not os.path.basename(os.readlink(f"/proc/{pid}/exe")).startswith("python"):
            return False
        with open(f"/proc/{pid}/environ", "rb") as file:
            return any(word.startswith(LOG_VARIABLE.encode() + b"=") for word in file.read().split(b"\0"))
    except OSError:
        return False
