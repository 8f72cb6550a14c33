"""The process table: who started whom, and how each one ended.

One row an entry of the log.  A process that went on under exec, or that its
parent entered and that then joined by itself, has two entries: the later one's
parent is the earlier one, and what is known of the end stands in the later.
"""

from __future__ import annotations

import bisect
import os
import signal
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from pyio_trace.elf import is_static
from pyio_trace.join.arrays import table_of_rows
from pyio_trace.log import layout
from pyio_trace.log.heap import Heap
from pyio_trace.log.live import LiveLog

if TYPE_CHECKING:
    import pyarrow as pa

#: Processes of one number that may be asked whether they were a parent: the latest.
_MOST_REUSES = 1000
_STARTS = ("top", "fork", "joined", "vfork", "spawn")


@dataclass
class Process:
    """One row of the process table; index, parent: rows; begin, end: ns since the epoch.

    kernel_read to unseen_written: see accounts.Account; mapped_touched,
    mapped_written: sums over its file mappings (mappings.Mapping; estimated).
    started_by: the operation; site, stack: the line of Python that led to it
    (starts.py).  None: not known.
    """

    index: int
    host: str
    pid: int
    ppid: int
    parent: int | None
    start: str
    begin: int
    end: int | None
    ended: str
    status: int | None
    argv: list[str]
    executable: str
    version: str
    followed: bool
    cwd: str | None
    lost: int
    blind: list[str] = field(default_factory=list)
    stack_state: str = "none"
    note: str = ""
    kernel_read: int | None = None
    kernel_written: int | None = None
    storage_read: int | None = None
    storage_written: int | None = None
    major_faults: int | None = None
    unseen_read: int | None = None
    unseen_written: int | None = None
    mapped_touched: int | None = None
    mapped_written: int | None = None
    started_by: int | None = None
    site: str | None = None
    stack: str | None = None


def arrow_schema() -> pa.Schema:
    """The process table's columns."""
    import pyarrow as pa

    text, integer, big = pa.string(), pa.int32(), pa.int64()
    return pa.schema(
        {
            "index": integer, "host": text, "pid": integer, "ppid": integer, "parent": integer, "start": text,
            "begin": big, "end": big, "ended": text, "status": integer, "argv": pa.list_(text), "executable": text,
            "version": text, "followed": pa.bool_(), "cwd": text, "lost": big, "blind": pa.list_(text),
            "stack_state": text, "note": text, "kernel_read": big, "kernel_written": big, "storage_read": big,
            "storage_written": big, "major_faults": big, "unseen_read": big, "unseen_written": big,
            "mapped_touched": big, "mapped_written": big,
            "started_by": big, "site": text, "stack": text,
        }
    )  # fmt: skip


def table_of(processes: list[dict[str, Any]]) -> pa.Table:
    """Process rows (as dicts of Process's fields) as a table."""
    return table_of_rows(processes, arrow_schema())


@dataclass
class _Entry:
    """A process entry while its relations are worked out; ids of process chunks."""

    id: int
    raw: np.void
    pid: int
    begin: int
    end: int
    end_kind: int
    end_status: int
    before: int | None = None  # position of the entry it continues


def read_processes(log: LiveLog, heap: Heap) -> list[Process]:
    """The process table of a live log, in the order the entries were made."""
    entries = [_entry(raw) for raw in log.processes()]
    _continue(entries)
    index = {entry.id: position for position, entry in enumerate(entries)}
    by_pid: dict[int, list[int]] = {}
    for position, entry in enumerate(entries):
        by_pid.setdefault(entry.pid, []).append(position)
    here = _this_machine(log.header)
    host = _text(log.header["host"])
    continued = {entry.before for entry in entries if entry.before is not None}
    begins, ends = (
        log.clock.epoch(np.array([getattr(entry, name) for entry in entries], np.uint64)).tolist()
        for name in ("begin", "end")
    )
    return [
        _process(
            position,
            entry,
            _parent(entry, entries, index, by_pid),
            _started_by(entry, entries),
            host,
            (begins[position], ends[position] if entry.end else None),
            heap,
            here,
            position in continued,
        )
        for position, entry in enumerate(entries)
    ]


def process_ids(log: LiveLog) -> NDArray[np.int64]:
    """The ids of the process entries, in the order of the table."""
    return log.processes()["chunk"]["offset"].astype(np.int64) >> layout.ID_SHIFT


def _entry(raw: np.void) -> _Entry:
    return _Entry(
        int(raw["chunk"]["offset"]) >> layout.ID_SHIFT, raw, int(raw["pid"]), int(raw["begin"]), int(raw["end"]),
        int(raw["end_kind"]), int(raw["end_status"]),
    )  # fmt: skip


def _continue(entries: list[_Entry]) -> None:
    """Finds which entries go on from an earlier one of the same process, and hands them its end."""
    latest: dict[int, int] = {}
    # A spawned program may have entered itself before the one that spawned it came to do so.
    order = sorted(range(len(entries)), key=lambda position: entries[position].begin)
    for position in order:
        entry = entries[position]
        earlier = latest.get(entry.pid)
        if earlier is not None and _goes_on(entries[earlier], entry):
            entry.before = earlier
        latest[entry.pid] = position
    for entry in (entries[position] for position in order):  # oldest first: an end moves along the whole chain
        if entry.before is None:
            continue
        former = entries[entry.before]
        if former.end_kind in (layout.END_EXIT, layout.END_SIGNAL) and entry.end_kind == layout.END_UNKNOWN:
            entry.end_kind, entry.end_status, entry.end = former.end_kind, former.end_status, former.end
        if former.end_kind != layout.END_STOPPED:
            former.end_kind, former.end_status, former.end = layout.END_EXEC, 0, entry.begin


def _goes_on(former: _Entry, entry: _Entry) -> bool:
    if int(entry.raw["start"]) not in (layout.START_TOP, layout.START_JOINED):
        return False
    times = int(former.raw["start_time"]), int(entry.raw["start_time"])
    if all(times) and times[0] != times[1]:
        return False  # the number was used again
    return not (former.end_kind in (layout.END_EXIT, layout.END_SIGNAL) and 0 < former.end < entry.begin)


def _parent(entry: _Entry, entries: list[_Entry], index: dict[int, int], by_pid: dict[int, list[int]]) -> int | None:
    given = index.get(int(entry.raw["parent"]))
    own = index[entry.id]
    if entry.before is not None:
        return entry.before
    if given is not None and given != own:
        return given
    older = by_pid.get(int(entry.raw["ppid"]), [])
    for position in reversed(older[: bisect.bisect_left(older, own)][-_MOST_REUSES:]):
        other = entries[position]
        if other.begin <= entry.begin and (other.end == 0 or other.end >= entry.begin):
            return position
    return None


def _process(
    position: int,
    entry: _Entry,
    parent: int | None,
    started_by: int | None,
    host: str,
    times: tuple[int, int | None],
    heap: Heap,
    here: bool,
    continued: bool,
) -> Process:
    raw = entry.raw
    argv, executable = _argv(raw), _text(raw["executable"])
    start, state, blind = int(raw["start"]), int(raw["stack_state"]), int(raw["blind"])
    followed = int(raw["followed"]) == 1 or continued  # 2: it became a program that we are not in
    ended, status = _ended(entry, bool(raw["followed"]), here)
    cwd = heap.text(int(raw["cwd"]))
    return Process(
        index=position,
        host=host,
        pid=_int32(entry.pid),
        ppid=_int32(int(raw["ppid"])),
        parent=parent,
        start=_STARTS[start] if start < len(_STARTS) else "unknown",
        begin=times[0],
        end=times[1],
        ended=ended,
        status=status,
        argv=argv,
        executable=executable,
        version=_text(raw["version"]),
        followed=followed,
        cwd=cwd,
        lost=_int64(int(raw["lost"])),
        blind=[name for bit, name in enumerate(layout.BLIND) if blind >> bit & 1],
        stack_state=layout.STACK_STATES[state] if state < len(layout.STACK_STATES) else "unknown",
        note=_text(raw["note"]) or ("" if followed or not here else _unfollowable(executable, cwd)),
        started_by=started_by,
    )


def _unfollowable(executable: str, cwd: str | None) -> str:
    """Why nothing can follow into this program, as far as its file, if it is still there, says."""
    if not executable:
        return ""
    import shutil

    path = os.path.join(cwd or "/", executable) if "/" in executable else shutil.which(executable)
    static = path is not None and os.path.isfile(path) and is_static(path)
    return f"{executable}: statically linked, cannot be followed" if static else ""


def _started_by(entry: _Entry, entries: list[_Entry]) -> int | None:
    """The operation; a program that was spawned and joined by itself has two entries, and the first one knows."""
    given = int(entry.raw["started_by"])
    if not given and entry.before is not None and int(entries[entry.before].raw["start"]) == layout.START_SPAWN:
        given = int(entries[entry.before].raw["started_by"])
    return given or None


def _ended(entry: _Entry, followed: bool, here: bool) -> tuple[str, int | None]:
    if entry.end_kind == layout.END_EXIT:
        return f"exit {entry.end_status}", entry.end_status
    if entry.end_kind == layout.END_SIGNAL:
        return f"signal {entry.end_status}{_signal_name(entry.end_status)}", entry.end_status
    if entry.end_kind == layout.END_EXEC:
        return "exec", None
    if entry.end_kind == layout.END_STOPPED:
        return "stopped tracing", None
    if here and _alive(entry.pid, int(entry.raw["start_time"])):
        return "running", None
    return ("lost (killed or crashed; not seen)" if followed else "not followed"), None


def _signal_name(number: int) -> str:
    try:
        return f" ({signal.Signals(number).name})"
    except ValueError:
        return ""


def _alive(pid: int, start_time: int) -> bool:
    """Whether this very process runs (a zombie does not)."""
    try:
        status = Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:
        return False
    fields = status.rpartition(b")")[2].split()
    if len(fields) < 20 or fields[0] in (b"Z", b"X"):
        return False
    return start_time == 0 or int(fields[19]) == start_time


def _this_machine(header: np.void) -> bool:
    """Whether the log is of this machine since its last start: only then process numbers mean anything here."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return False
    return _text(header["boot_id"]) == boot and _text(header["host"]) == os.uname().nodename


def _argv(raw: np.void) -> list[str]:
    length = min(int(raw["argv_length"]), len(raw["argv"].tobytes()))
    data = raw["argv"].tobytes()[:length]
    if not data:
        return []
    return [part.decode("utf-8", "backslashreplace") for part in data.removesuffix(b"\0").split(b"\0")]


def _text(value: bytes) -> str:
    return bytes(value).partition(b"\0")[0].decode("utf-8", "backslashreplace")


def _int32(value: int) -> int:
    return int(np.uint32(value & 0xFFFFFFFF).view(np.int32))


def _int64(value: int) -> int:
    return min(value, np.iinfo(np.int64).max)
