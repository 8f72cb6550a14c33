"""What a live log is known not to have: Log.losses().

Each function below finds one kind of loss and returns the keys of those that
occurred, so that no loss at all is an empty dict.
"""

from __future__ import annotations

import errno
from collections.abc import Mapping
from typing import Any

import numpy as np

from pyio_trace import log_constants
from pyio_trace.join.processes.process_table import Process, int64
from pyio_trace.log import layout
from pyio_trace.log.live import LiveLog
from pyio_trace.log.sorting import distinct

#: Kinds of I/O of which a log only knows that a process used them (layout.BLIND) -> key under which the processes are
#: counted.  I/O through mapped files is measured, and has keys of its own.
BLIND_KEYS = {
    "io_uring": "io_uring", "syscall": "syscall", "unpatched": "unpatched", "fileobjects": "no_file_objects",
}  # fmt: skip

#: Losses that may be due to system calls made without libc.
BYPASSES = frozenset(("unseen_read", "unseen_written", "renames_unseen", "io_uring"))

#: How a process came into the run that does not trace itself, because it is older than the tracing.
FOUND = layout.STARTS[layout.START_FOUND]

#: Fields of the header that count: looks that found no room in the log; processes that could not be read; processes and
#: threads that were not looked at.
SAMPLER_COUNTS = ("samples_lost", "sampler_unread", "sampler_unseen")

#: ns that a process has to run for, if it is to have samples: a sampler that gets no processor looks later.
_SAMPLED_SURELY = 2_000_000_000
#: ns before its end within which a process surely has a last look: idle threads are looked at less often.
_LAST_LOOK = 5_000_000_000

#: The error of the kernel's account of a process, in bytes and in percent.
_ERROR_BYTES, _ERROR_PERCENT = 65536, 1


def read_losses(
    log: LiveLog, processes: list[Process], mappings: list[dict[str, Any]], renames: list[dict[str, Any]]
) -> dict[str, Any]:
    """What is known to be missing; empty if nothing.

    operations_counted_only, since (ns since the epoch; null: only some
    process got no more room), reason: the log was full, and files and lines
    first met after that may have no name;
    unfollowed_children: command lines of children that did not trace
    themselves; unfollowed: how many there were in all; older_processes: how
    many processes of the program were older than the tracing, or started by
    such; torn: bytes of the log
    that are not there or not readable; tracer_faults: of pyio_trace itself;
    samples_lost: looks of the sampler that found no room in the log.
    io_uring, syscall, unpatched, no_file_objects: how many processes used an
    io_uring, used syscall() on files, had code that could not be hooked (or
    whose slots another tool took over), or ran without rows of file objects.
    unseen_read, unseen_written: bytes moved by calls that bypassed the hooks
    (estimated; of the processes where they are more than 64 KiB and 1 %);
    raw_call_libraries: where some of these are there, paths of loaded libraries
    that have system-call instructions of their own (raw_syscalls.py).
    renames_unseen: files that have another name, by a call that bypassed the
    hooks (inferred; Log.renames() has them).
    mapped_touched, mapped_at_least, mapped_written: bytes of pages of mapped
    files (estimated); mappings_unmeasured: how many more mappings there were.
    sampler_refused: names of the errors for which there was no sampler, or not for all; see also unsampled()
    and SAMPLER_COUNTS.
    """
    counts = {
        "older_processes": sum(process.start == FOUND and not _is_helper(process) for process in processes),
        "torn": log.torn,
        "tracer_faults": int64(int(log.header["fault_count"])),
        "samples_lost": int64(int(log.header["samples_lost"])) if log.header["sampling_hz"] else 0,
        "renames_unseen": len(renames),
    }
    return (
        _counted_only(log)
        | _unfollowed(log, processes)
        | _not_zero(counts)
        | _blind_spots(processes)
        | bypassed(processes)
        | _mapped(mappings)
        | _refused(int(log.header["sampler_refused"]))
        | sampler_counts(log.header)
    )


def _not_zero(counts: dict[str, int]) -> dict[str, int]:
    return {name: count for name, count in counts.items() if count}


def _counted_only(log: LiveLog) -> dict[str, Any]:
    """Operations that were only counted because there was no room for records, or for sums of them."""
    full = int(log.header["full_reason"])
    if not log.lost and not full:
        return {}
    since = int(log.header["full_since"])
    return {
        "operations_counted_only": int64(sum(log.counted.counters["count"].tolist())),
        "since": log.clock.epoch_of(since) if since else None,
        "reason": _reason(log, full),
    }


def _reason(log: LiveLog, full: int) -> str:
    """Why there was no room: in the log, then for single processes."""
    reasons = [full, *distinct(log.processes()["full_reason"]).tolist()]
    words = [layout.FULL_REASONS[reason] for reason in dict.fromkeys(reasons) if reason in layout.FULL_REASONS]
    return "; ".join(words) or "not known"


def _unfollowed(log: LiveLog, processes: list[Process]) -> dict[str, Any]:
    """Children that did not trace themselves, and processes that became (exec) a program that does not."""
    children = [
        process.argv or [process.executable]
        for process in processes
        if not process.followed and process.start != FOUND and not _is_helper(process)
    ]
    continued = {
        process.parent
        for process in processes
        if process.parent is not None and processes[process.parent].pid == process.pid
    }
    children += [
        process.argv
        for process in processes
        if process.followed and process.ended == log_constants.REPLACED and process.index not in continued
    ]
    unfollowed = int(log.header["unfollowed"])
    if not children and not unfollowed:
        return {}
    listed = {"unfollowed_children": children} if children else {}
    return listed | {"unfollowed": max(unfollowed, len(children))}


def _is_helper(process: Process) -> bool:
    """Standard-library helpers that are deliberately not traced (capture/runtime/__init__.py): they do no I/O for the
    program."""
    return any("multiprocessing.resource_tracker import" in word for word in process.argv)


def _blind_spots(processes: list[Process]) -> dict[str, int]:
    return _not_zero({key: sum(name in process.blind for process in processes) for name, key in BLIND_KEYS.items()})


def bypassed(processes: list[Process]) -> dict[str, int]:
    """Bytes that bypassed the hooks, summed over the processes where they exceed the error of the method."""
    sums = {}
    for unseen, kernel in (("unseen_read", "kernel_read"), ("unseen_written", "kernel_written")):
        figures = [(getattr(process, unseen) or 0, getattr(process, kernel) or 0) for process in processes]
        sums[unseen] = sum(
            size for size, moved in figures if size > _ERROR_BYTES and size * 100 > moved * _ERROR_PERCENT
        )
    return _not_zero(sums)


def _mapped(mappings: list[dict[str, Any]]) -> dict[str, int]:
    sums = {f"mapped_{name}": sum(row[name] for row in mappings) for name in ("touched", "at_least", "written")}
    sums["mappings_unmeasured"] = sum(row["unmeasured"] for row in mappings)
    return _not_zero(sums)


def _refused(number: int) -> dict[str, list[str]]:
    return {"sampler_refused": [errno.errorcode.get(number, f"error {number}")]} if number else {}


def sampler_counts(header: np.void) -> dict[str, int]:
    """What the sampler itself counts, as far as the log's version has it."""
    known = [name for name in SAMPLER_COUNTS if name in (header.dtype.names or ())]
    return _not_zero({name: int64(int(header[name])) for name in known})


def unsampled(processes: list[Process], until: Mapping[int, int]) -> dict[str, int]:
    """Of the processes that ran for long although a sampler was beside them: unsampled, how many have no samples;
    sampled_in_part, how many have none of their last seconds, because the sampler was killed or stopped.  until: ns
    since the epoch of the last look, by row, of those that have some."""
    lasting = [
        process for process in processes
        if process.followed and process.version != "" and process.end is not None
        and process.end - process.begin >= _SAMPLED_SURELY
    ]  # fmt: skip
    return _not_zero({
        "unsampled": sum(process.index not in until for process in lasting),
        "sampled_in_part": sum(
            (process.end or 0) - until[process.index] >= _LAST_LOOK for process in lasting if process.index in until
        ),
    })  # fmt: skip
