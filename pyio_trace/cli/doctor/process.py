"""A live traced process: its log, what it is told of the process, and the objects loaded in it."""

from __future__ import annotations

import os
from collections.abc import Iterator

import numpy as np

from pyio_trace.cli.doctor.memory import Area, DoctorError, Memory, areas_of
from pyio_trace.cli.doctor.objects import CORE, Inspection
from pyio_trace.cli.doctor.report import Instrument, Report
from pyio_trace.errors import LogError
from pyio_trace.log import layout
from pyio_trace.log.live import LiveLog
from pyio_trace.report.units import counted, percent, size

_CLOCKS = ("CLOCK_MONOTONIC", "the time-stamp counter", "the counter of aarch64")
_FULL = ("", "the log reached its size limit", "disk full", "file-size limit of the process")
_NO_FILES = "file objects are not instrumented"


def examine(pid: int, instruments: list[Instrument] | None = None) -> Report:
    """What is traced in a process, and how.  instruments: as the process itself has told, where it was asked.
    Raises DoctorError, LogError."""
    areas = areas_of(pid)
    core = next((area.path for area in areas if os.path.basename(area.path) == CORE), None)
    if core is None:
        raise DoctorError(
            "process-not-traced",
            f"process {pid} is not traced: pyio_trace is not loaded in it; trace it from its start (pyio-trace run)",
        )
    report = Report()
    with Memory(pid) as memory:
        log = _log_of(pid, areas, memory)
        entry = _entry(log, pid) if log is not None else None
        tracing = entry is not None and int(entry["end_kind"]) != layout.END_STOPPED
        if log is None or entry is None:
            report.facts.append(("tracing", "off: the core is loaded, and no log of this process is mapped"))
        else:
            report.facts += [*_process(entry, tracing), *_log_facts(log), *_capture(log, entry)]
            report.instruments = instruments if instruments is not None else _instruments(entry)
        report.facts.append(("core", _core(core)))
        report.works = tracing
        report.objects = Inspection(pid, areas, memory, hooked_names(), tracing).objects()
    return report


def hooked_names() -> set[str]:
    """Of the functions that this installation's core hooks.  Raises DoctorError without a core."""
    from pyio_trace import native

    if native.core is None:
        raise DoctorError("no-core", f"without the compiled core nothing can be told of a process: {native.reason}")
    return set(native.core.hook_names())


def _core(path: str) -> str:
    from pyio_trace import native

    own = os.path.join(os.path.dirname(os.path.abspath(native.__file__)), CORE)
    if os.path.realpath(path) == os.path.realpath(own):
        return path
    return f"{path}, another than that of this pyio_trace ({own}): what is said of functions may not fit"


def _log_of(pid: int, areas: list[Area], memory: Memory) -> LiveLog | None:
    """The newest of the logs that are mapped: an earlier stretch's may be there too."""
    for area in areas:
        if area.offset or "s" not in area.rights or not area.path.startswith("/"):
            continue
        if memory.read(area.start, len(layout.MAGIC)) == layout.MAGIC:
            inside = f"/proc/{pid}/root{area.path}"
            try:
                log = LiveLog(inside if os.access(inside, os.R_OK) else area.path)
            except LogError as error:
                if area.path.endswith(" (deleted)"):
                    raise DoctorError("log-removed", f"{area.path}: the log was removed while it is written") from None
                raise error
            if _entry(log, pid) is not None:
                return log
    return None


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


def _log_facts(log: LiveLog) -> Iterator[tuple[str, str]]:
    header = log.header
    used, budget = int(header["next"]), int(header["budget"])
    words = f"{size(min(used, budget))} of {size(budget)} used ({percent(min(used / budget, 1.0) if budget else None)})"
    full = int(header["full_reason"])
    if full:
        words += f"; only counters are kept: {_FULL[full] if full < len(_FULL) else 'not known why'}"
    path = str(log.path)
    yield "log", path[path.index("/root/") + 5 :] if path.startswith("/proc/") and "/root/" in path else path
    yield "log budget", words
    try:
        free = os.statvfs(log.path)
        yield "log disk", f"{size(free.f_bavail * free.f_frsize)} free"
    except OSError:
        yield "log disk", "not known"
    mode, kind = int(header["mode"]), int(header["tick_kind"])
    yield "log version", str(int(header["version"]))
    yield "mode", layout.MODES[mode] if mode < len(layout.MODES) else "unknown"
    yield "clock", _CLOCKS[kind] if kind < len(_CLOCKS) else "unknown"


def _capture(log: LiveLog, entry: np.void) -> Iterator[tuple[str, str]]:
    state, blind = int(entry["stack_state"]), int(entry["blind"])
    note = _text(entry["note"])
    yield "stacks", layout.STACK_STATES[state] if state < len(layout.STACK_STATES) else "unknown"
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
    """As far as it can be told from outside."""
    note, python = _text(entry["note"]), bool(_text(entry["version"]))
    if not python:
        return []
    if note.startswith(_NO_FILES):
        files = Instrument("file objects", "off", note.removeprefix(_NO_FILES).lstrip(": "))
    else:
        files = Instrument("file objects", "active")
    inside = "told only from inside: pyio-trace doctor SCRIPT"
    return [files, Instrument("mmap objects", "unknown", inside), Instrument("ThreadPoolExecutor", "unknown", inside)]
