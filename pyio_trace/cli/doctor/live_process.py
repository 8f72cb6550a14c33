"""Examines a live traced process: its log, the log's entry for it, and the objects loaded in it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from pyio_trace.cli.doctor.diagnosis import Instrument, Report
from pyio_trace.cli.doctor.loaded_objects import CORE, Inspection
from pyio_trace.cli.doctor.process_memory import Area, DoctorError, Memory, areas_of
from pyio_trace.errors import LogError
from pyio_trace.log import layout
from pyio_trace.log.live import LiveLog
from pyio_trace.running.foreign_files import open_inside
from pyio_trace.units import counted, percent, size
from pyio_trace.values import MODES, STACK_STATES

_CLOCKS = ("CLOCK_MONOTONIC", "the time-stamp counter", "the counter of aarch64")
_NO_FILES = "file objects are not instrumented"


def examine(pid: int, instruments: list[Instrument] | None = None) -> Report:
    """What is traced in a process, and how.  Raises DoctorError, LogError.

    instruments: as reported by the process itself; None: derive them from outside.
    """
    areas = areas_of(pid)
    core = next((area.path for area in areas if os.path.basename(area.path) == CORE), None)
    if core is None:
        raise DoctorError(
            "process-not-traced",
            f"process {pid} is not traced: pyio_trace is not loaded in it; trace it from its start (pyio-trace run)",
        )
    report = Report()
    with Memory(pid) as memory:
        found = _log_of(pid, areas, memory)
        tracing = found is not None and int(found.entry["end_kind"]) != layout.END_STOPPED
        if found is None:
            report.facts.append(("tracing", "off: the core is loaded, but no log of this process is mapped"))
        else:
            entry = found.entry
            report.facts += [*_process(entry, tracing), *_log_facts(found), *_capture(found.log, entry)]
            report.instruments = instruments if instruments is not None else _instruments(entry)
        report.facts.append(("core", _core(core)))
        report.works = tracing
        report.objects = Inspection(pid, areas, memory, hooked_names(), tracing).objects()
    return report


def hooked_names() -> set[str]:
    """The names of the functions that this installation's core hooks.  Raises DoctorError without a core."""
    from pyio_trace import native

    if native.core is None:
        raise DoctorError("no-core", f"a process cannot be examined without the compiled core: {native.reason}")
    return set(native.core.hook_names())


def _core(path: str) -> str:
    from pyio_trace import native

    own = os.path.join(os.path.dirname(os.path.abspath(native.__file__)), CORE)
    if os.path.realpath(path) == os.path.realpath(own):
        return path
    return f"{path}, another than that of this pyio_trace ({own}): what is said of functions may not fit"


@dataclass(frozen=True)
class _Found:
    """The log of a process.  path: in the process's root; entry: the process's own; free: bytes free on its disk."""

    log: LiveLog
    path: str
    entry: np.void
    free: int


def _log_of(pid: int, areas: list[Area], memory: Memory) -> _Found | None:
    """The newest log that the process has mapped; those of earlier pyio_trace.trace() blocks may be mapped too."""
    for area in areas:
        if area.offset or "s" not in area.rights or not area.path.startswith("/"):
            continue
        if memory.read(area.start, len(layout.MAGIC)) == layout.MAGIC:
            if area.path.endswith(" (deleted)"):
                raise DoctorError("log-removed", f"{area.path}: the log was removed while it is written")
            log, free = _opened(pid, area.path)
            entry = _entry(log, pid)
            if entry is not None:
                return _Found(log, area.path, entry, free)
    return None


def _opened(pid: int, path: str) -> tuple[LiveLog, int]:
    """The log at this path in the process's root, and the bytes free on its disk.  Raises LogError."""
    try:
        descriptor = open_inside(pid, path)
    except OSError as error:
        raise LogError("log-unreadable", f"{path}: cannot be read: {error.strerror}") from None
    own = f"/proc/self/fd/{descriptor}"
    try:
        disk = os.fstatvfs(descriptor)
        return LiveLog(own), disk.f_bavail * disk.f_frsize
    except LogError as error:
        raise LogError(error.slug, str(error.args[0]).replace(own, path)) from None
    finally:
        os.close(descriptor)


def _entry(log: LiveLog, pid: int) -> np.void | None:
    entries = log.processes()
    mine = np.flatnonzero(entries["pid"] == pid)
    return entries[mine[-1]] if len(mine) else None


def _text(value: bytes) -> str:
    return bytes(value).partition(b"\0")[0].decode("utf-8", "backslashreplace")


def _process(entry: np.void, tracing: bool) -> Iterator[tuple[str, str]]:
    argv = entry["argv"].tobytes()[: int(entry["argv_length"])].rstrip(b"\0").replace(b"\0", b" ")
    version = _text(entry["version"])
    yield "process", f"{int(entry['pid'])}, {argv.decode('utf-8', 'backslashreplace')}"
    yield "python", f"{version or 'not Python'}, {_text(entry['executable'])}"
    yield "tracing", "on" if tracing else "stopped"


def _log_facts(found: _Found) -> Iterator[tuple[str, str]]:
    header, entry = found.log.header, found.entry
    used, budget = int(header["next"]), int(header["budget"])
    words = f"{size(min(used, budget))} of {size(budget)} used ({percent(min(used / budget, 1.0) if budget else None)})"
    full = int(header["full_reason"]) or int(entry["full_reason"])
    if full:
        words += f"; only counters are kept: {layout.FULL_REASONS.get(full, 'not known why')}"
    yield "log", found.path
    yield "log budget", words
    yield "log disk", f"{size(found.free)} free"
    mode, kind = int(header["mode"]), int(header["tick_kind"])
    yield "log version", str(int(header["version"]))
    yield "mode", MODES[mode] if mode < len(MODES) else "unknown"
    yield "clock", _CLOCKS[kind] if kind < len(_CLOCKS) else "unknown"


def _capture(log: LiveLog, entry: np.void) -> Iterator[tuple[str, str]]:
    state, blind = int(entry["stack_state"]), int(entry["blind"])
    note = _text(entry["note"])
    yield "stacks", STACK_STATES[state] if state < len(STACK_STATES) else "unknown"
    yield "blind spots used", ", ".join(n for bit, n in enumerate(layout.BLIND) if blind >> bit & 1) or "none"
    excluded = int(entry["excluded_ops"].sum())
    if excluded:
        yield (
            "left out",
            f"{counted(excluded, 'call')}, {size(int(entry['excluded_bytes'].sum()))} (pipes, sockets, ...)",
        )
    if int(entry["lost"]):
        yield "counted only", counted(int(entry["lost"]), "call")
    if int(log.header["fault_count"]):
        yield "faults of ours", str(int(log.header["fault_count"]))
    if note:
        yield "note", note


def _instruments(entry: np.void) -> list[Instrument]:
    """As far as they can be seen from outside."""
    note, python = _text(entry["note"]), bool(_text(entry["version"]))
    if not python:
        return []
    if note.startswith(_NO_FILES):
        files = Instrument("file objects", "off", note.removeprefix(_NO_FILES).lstrip(": "))
    else:
        files = Instrument("file objects", "active")
    inside = "not visible from outside; use pyio-trace doctor SCRIPT"
    return [files, Instrument("mmap objects", "unknown", inside), Instrument("ThreadPoolExecutor", "unknown", inside)]
