"""What a run's figures do not have, in words."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from pyio_trace.analysis.facts import Mapped, Unseen
from pyio_trace.report.units import counted, number, size

_BLIND = {
    "io_uring": "used io_uring: what went through its rings is not in the log",
    "syscall": "made raw system calls, which are not in the log",
    "mapped": "mapped files into memory: traffic by page faults makes no call and has no rows",
    "unpatched": "has code that could not be hooked; its calls are not in the log",
    "fileobjects": "ran without file-object tracing: POSIX operations only",
}
_UNFOLLOWED_SHOWN = 5
_MAPPED_SHOWN = 3


def unseen_lines(unseen: Unseen) -> list[str]:
    """One line for each thing that is not in the figures, the losses first; empty: all was seen."""
    lines = _losses(unseen.losses, unseen.mapped)
    for name, processes in sorted(unseen.blind.items()):
        words = _BLIND.get(name, f"did I/O in a way that is not traced ({name})")
        lines.append(f"{counted(processes, 'process', 'processes')} {words}")
    lines += unseen.notes
    if unseen.excluded:
        kinds = sorted(unseen.excluded.items())
        parts = [f"{kind} {counted(calls, 'call')}, {size(moved)}" for kind, (calls, moved) in kinds]
        lines.append("counted only, by choice: " + "; ".join(parts))
    return lines


def _losses(losses: dict[str, Any], mapped: list[Mapped]) -> list[str]:
    lines = []
    left = dict(losses)
    counted_only = left.pop("operations_counted_only", None)
    since, reason = left.pop("since", None), left.pop("reason", "")
    if counted_only is not None:
        if since is not None:
            full = f"the log was full from {_moment(since)} on: {reason}"
            lines.append(f"{full}; files and lines first met after that may have no name")
        if counted_only:  # also where one process had no room, and the others had
            lines.append(f"{counted(counted_only, 'call')} only counted: see `pyio-trace counters`")
    children = left.pop("unfollowed_children", [])
    unfollowed = left.pop("unfollowed", 0)
    if unfollowed:
        lines.append(f"{counted(unfollowed, 'child was', 'children were')} not followed")
        lines += [f"  not followed: {' '.join(child)}" for child in children[:_UNFOLLOWED_SHOWN] if any(child)]
    lines += _estimates(left, mapped)
    unreadable = left.pop("unreadable_logs", [])
    if unreadable:
        lines.append(f"{counted(len(unreadable), 'log')} of the folder could not be read")
        lines += [f"  {reason}" for reason in unreadable]
    torn = left.pop("torn", 0)
    if torn:
        lines.append(f"the log is damaged or cut short: {size(torn)} of it could not be read")
    faults = left.pop("tracer_faults", 0)
    if faults:
        lines.append(f"pyio_trace itself failed {number(faults)} times and stepped aside; please report it")
    return lines + [f"{name.replace('_', ' ')}: {value}" for name, value in left.items()]


def _estimates(left: dict[str, Any], mapped: list[Mapped]) -> list[str]:
    """What was measured of the blind spots (docs/blind-spots.md); takes it out of left."""
    lines = []
    read, written = left.pop("unseen_read", 0), left.pop("unseen_written", 0)
    if read or written:
        lines.append(
            f"about {size(read)} read and {size(written)} written by system calls that passed us by: made "
            "without libc, or inside it (estimated)"
        )
    touched, least, dirty, unmeasured = (
        left.pop(name, 0) for name in ("mapped_touched", "mapped_at_least", "mapped_written", "mappings_unmeasured")
    )
    if touched or dirty:
        lines.append(
            f"up to {size(touched)} touched through mapped files, at least {size(least)}; {size(dirty)} written "
            "(estimated from page tables)"
        )
    lines += [
        f"  {one.path}: up to {size(one.touched)} touched, at least {size(one.at_least)}; {size(one.written)} written"
        f" (estimated; {counted(one.count, 'mapping')})"
        for one in mapped[:_MAPPED_SHOWN]
    ]
    if unmeasured:
        lines.append(f"{counted(unmeasured, 'file mapping')} not measured: nothing is known of what went through")
    return lines


def _moment(epoch_ns: int) -> str:
    try:
        return datetime.fromtimestamp(epoch_ns / 1e9).strftime("%H:%M:%S")
    except (ValueError, OverflowError, OSError):
        return "a time that cannot be"
