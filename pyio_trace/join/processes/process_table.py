"""The process table: which process started which, and how each one ended.

One row for each entry of the log.  A process has two entries if it called exec,
or if its parent made an entry for it and it then joined the log itself.  The
later entry continues the earlier one: that is its parent, and the later one has
what is known of the end.
"""

from __future__ import annotations

import bisect
import os
import signal
from dataclasses import field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from pyio_trace import log_constants
from pyio_trace.elf import is_static
from pyio_trace.join.base.arrow_arrays import table_of_rows
from pyio_trace.join.processes.liveness import Liveness
from pyio_trace.light_dataclass import dataclass
from pyio_trace.log import layout
from pyio_trace.log.heap import Heap
from pyio_trace.log.live import LiveLog
from pyio_trace.values import STACK_STATES

if TYPE_CHECKING:
    import pyarrow as pa

#: Earlier processes with the same pid that are considered as a parent: the latest ones.
_MOST_REUSES = 1000

#: Fields of an entry, and of a process, that say which job it is in.
_JOB = ("node", "job", "step", "job_run")

#: A pid namespace, and a process number in it.
_Number = tuple[int, int]


@dataclass
class Process:
    """One row of the process table; index, parent: rows; begin, end: ns since the epoch.

    kernel_read to unseen_written: see kernel_io.KernelIO; cpu_user to
    watch_time: see usage.Cpu, usage.Imports and usage.Watching; mapped_touched,
    mapped_written: sums over its file mappings (mapped_files.Mapping;
    estimated).  started_by: the operation; site, call_stack: the line of Python that
    led to it (start_lines.py).  end_by: who reported the end: "itself" or "parent"
    (its wait returned then, so the end was then or earlier).  None: not seen, and
    when a reader finds the process gone says nothing.  program_packages:
    names of installed packages that are its program (started_packages.py).  process_kind,
    process_name: what a person calls it (process_names.py).  global_rank,
    local_rank, world_size: of a parallel job; None: it is in none, or its
    launcher does not say.  node, job, step: as the batch system calls them, or a
    launcher without one (values.job_in); None: neither does.  job_run: the same for all
    processes of one launch, on all hosts (capture.runtime.job_run).  mpi_init_begin,
    mpi_init_end: when MPI_Init was called and when it returned, ns since the epoch;
    None: not seen.
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
    cpu_user: int | None = None
    cpu_system: int | None = None
    imports: int | None = None
    import_time: int | None = None
    early_import_time: int | None = None
    script_begin: int | None = None
    import_packages: list[str] = field(default_factory=list)
    import_package_times: list[int] = field(default_factory=list)
    watch_time: int | None = None
    program_packages: list[str] = field(default_factory=list)
    unseen_read: int | None = None
    unseen_written: int | None = None
    mapped_touched: int | None = None
    mapped_written: int | None = None
    started_by: int | None = None
    site: str | None = None
    call_stack: str | None = None
    end_by: str | None = None
    process_kind: str | None = None
    process_name: str | None = None
    global_rank: int | None = None
    local_rank: int | None = None
    world_size: int | None = None
    node: str | None = None
    job: str | None = None
    step: str | None = None
    job_run: str | None = None
    mpi_init_begin: int | None = None
    mpi_init_end: int | None = None


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
            "storage_written": big, "major_faults": big, "cpu_user": big, "cpu_system": big, "imports": big,
            "import_time": big, "early_import_time": big, "script_begin": big,
            "import_packages": pa.list_(text), "import_package_times": pa.list_(big), "watch_time": big,
            "program_packages": pa.list_(text),
            "unseen_read": big, "unseen_written": big,
            "mapped_touched": big, "mapped_written": big,
            "started_by": big, "site": text, "call_stack": text, "end_by": text,
            "process_kind": text, "process_name": text, "global_rank": integer, "local_rank": integer,
            "world_size": integer, "node": text, "job": text, "step": text, "job_run": text,
            "mpi_init_begin": big, "mpi_init_end": big,
        }
    )  # fmt: skip


def table_of(processes: list[dict[str, Any]]) -> pa.Table:
    """Process rows (as dicts of Process's fields) as a table."""
    return table_of_rows(processes, arrow_schema())


@dataclass
class _Entry:
    """A process entry while its relations are worked out."""

    id: int
    raw: np.void
    pid: int
    begin: int
    end: int
    end_kind: int
    end_status: int
    end_by: int
    namespace: int  # where its number counts; 0: the log's
    continues: int | None = None  # position of the entry it continues


def read_processes(log: LiveLog, heap: Heap) -> list[Process]:
    """The process table of a live log, in the order the entries were made."""
    pairs = zip(log.process_ids.tolist(), log.processes(), strict=True)
    entries = [_entry(identity, raw) for identity, raw in pairs]
    _link_continuations(entries)
    index = {entry.id: position for position, entry in enumerate(entries)}
    by_pid: dict[_Number, list[int]] = {}
    for position, entry in enumerate(entries):
        by_pid.setdefault((entry.namespace, entry.pid), []).append(position)
    this_boot = is_this_boot(log.header)
    liveness = Liveness(log.header) if this_boot else None
    host = _text(log.header["host"])
    continued = {entry.continues for entry in entries if entry.continues is not None}
    begins, ends = (
        log.clock.epoch(np.array([getattr(entry, name) for entry in entries], np.uint64)).tolist()
        for name in ("begin", "end")
    )
    init_begins, init_ends = (_moments(log, name) for name in ("init_begun", "init_ended"))
    processes = [
        Process(
            index=position,
            host=host,
            parent=_parent(entry, entries, index, by_pid),
            started_by=_started_by(entry, entries),
            followed=_is_followed(entry, position in continued),
            **_identity(entry, heap),
            mpi_init_begin=init_begins[position],
            mpi_init_end=init_ends[position],
            **_end(entry, begins[position], ends[position] if entry.end else None, liveness),
            note=_note(entry, heap, this_boot and not _is_followed(entry, position in continued)),
        )
        for position, entry in enumerate(entries)
    ]
    _inherit_ranks(processes)
    return processes


def _moments(log: LiveLog, name: str) -> list[int | None]:
    """A field in ticks of all entries as ns since the epoch; None: 0."""
    ticks = log.processes()[name]
    times = log.clock.epoch(ticks).tolist()
    return [time if known else None for time, known in zip(times, ticks > 0, strict=True)]


def _entry(identity: int, raw: np.void) -> _Entry:
    return _Entry(
        identity, raw, int(raw["pid"]), int(raw["begin"]), int(raw["end"]),
        int(raw["end_kind"]), int(raw["end_status"]), int(raw["end_by"]), int(raw["namespace_inode"]),
    )  # fmt: skip


def _link_continuations(entries: list[_Entry]) -> None:
    """Finds the entries that continue an earlier one of the same process, and moves its end to them."""
    latest: dict[_Number, int] = {}
    # A spawned program may make its own entry before the one that spawned it makes its entry for it.
    order = sorted(range(len(entries)), key=lambda position: entries[position].begin)
    for position in order:
        entry = entries[position]
        earlier = latest.get((entry.namespace, entry.pid))
        if earlier is not None and _continues(entries[earlier], entry):
            entry.continues = earlier
        latest[entry.namespace, entry.pid] = position
    for entry in (entries[position] for position in order):  # oldest first: an end moves along the whole chain
        if entry.continues is None:
            continue
        former = entries[entry.continues]
        if former.end_kind in (layout.END_EXIT, layout.END_SIGNAL) and entry.end_kind == layout.END_UNKNOWN:
            entry.end_kind, entry.end_status, entry.end = former.end_kind, former.end_status, former.end
            entry.end_by = former.end_by
        if former.end_kind != layout.END_STOPPED:
            former.end_kind, former.end_status, former.end, former.end_by = layout.END_EXEC, 0, entry.begin, 0


def _continues(former: _Entry, entry: _Entry) -> bool:
    if int(entry.raw["start"]) not in (layout.START_TOP, layout.START_JOINED):
        return False
    times = int(former.raw["start_time"]), int(entry.raw["start_time"])
    if all(times) and times[0] != times[1]:
        return False  # the pid was reused
    return not (former.end_kind in (layout.END_EXIT, layout.END_SIGNAL) and 0 < former.end < entry.begin)


def _parent(
    entry: _Entry, entries: list[_Entry], index: dict[int, int], by_pid: dict[_Number, list[int]]
) -> int | None:
    given = index.get(int(entry.raw["parent"]))
    own = index[entry.id]
    if entry.continues is not None:
        return entry.continues
    if given is not None and given != own:
        return given
    older = by_pid.get((entry.namespace, int(entry.raw["ppid"])), [])
    for position in reversed(older[: bisect.bisect_left(older, own)][-_MOST_REUSES:]):
        other = entries[position]
        if other.begin <= entry.begin and (other.end == 0 or other.end >= entry.begin):
            return position
    return None


def _identity(entry: _Entry, heap: Heap) -> dict[str, Any]:
    """The fields that the entry itself has."""
    raw = entry.raw
    start, state, blind = int(raw["start"]), int(raw["stack_state"]), int(raw["blind"])
    return {
        "pid": _int32(entry.pid),
        "ppid": _int32(int(raw["ppid"])),
        "start": layout.STARTS[start] if start < len(layout.STARTS) else "unknown",
        "argv": _argv(raw),
        "executable": _text(raw["executable"]),
        "version": _text(raw["version"]),
        "cwd": heap.text(int(raw["cwd"])),
        "lost": int64(int(raw["lost"])),
        "blind": [name for bit, name in enumerate(layout.BLIND) if blind >> bit & 1],
        "stack_state": STACK_STATES[state] if state < len(STACK_STATES) else "unknown",
        "program_packages": [name for name in (heap.text(int(raw["program"])) or "").split(",") if name],
        "process_kind": heap.text(int(raw["kind"])),
        "process_name": heap.text(int(raw["name"])),
        "global_rank": _or_none(int(raw["global_rank"]) - 1),
        "local_rank": _or_none(int(raw["local_rank"]) - 1),
        "world_size": _or_none(int(raw["world_size"]) or -1),
        **{name: heap.text(int(raw[name])) for name in _JOB},
    }


def _or_none(number: int) -> int | None:
    """A rank, or how many there are; None where the entry has none, or one that cannot be."""
    return number if 0 <= number < 1 << 31 else None


def _inherit_ranks(processes: list[Process]) -> None:
    """A process without a rank, or a job, of its own, such as a program that is not Python, belongs to its parent's.

    The entry that a parent makes for a program it starts has none either; the
    one that the program makes when it joins has.
    """
    for process in processes:
        first = processes[process.parent] if process.start == "joined" and process.parent is not None else None
        if first is not None and (first.pid, first.argv) == (process.pid, process.argv):
            _copy_rank_and_job(process, first)
    done: set[int] = set()
    for process in processes:
        way = []
        at: Process | None = process
        while at is not None and at.index not in done:  # in forged logs, processes may have started each other
            done.add(at.index)
            way.append(at)
            at = None if at.parent is None else processes[at.parent]
        for heir in reversed(way):
            if heir.parent is not None:
                _copy_rank_and_job(processes[heir.parent], heir)


def _copy_rank_and_job(one: Process, to: Process) -> None:
    """As far as it has none of its own."""
    if to.global_rank is None:
        to.global_rank, to.local_rank, to.world_size = one.global_rank, one.local_rank, one.world_size
    if to.job is None:
        to.node, to.job, to.step = to.node or one.node, one.job, one.step
    to.job_run = to.job_run or one.job_run


def _end(entry: _Entry, begin: int, end: int | None, liveness: Liveness | None) -> dict[str, Any]:
    """begin, end (ns since the epoch), end_by, ended and status.  liveness None: of another boot."""
    ended, status = _ended(entry, liveness)
    end_by = None
    if end is not None:
        end_by = "parent" if entry.end_by else "itself"
    return {"begin": begin, "end": end, "end_by": end_by, "ended": ended, "status": status}


def _is_followed(entry: _Entry, continued: bool) -> bool:
    return int(entry.raw["followed"]) == 1 or continued  # 2: it became (exec) a program that is not traced


def _note(entry: _Entry, heap: Heap, may_explain: bool) -> str:
    """The entry's own note; else, if may_explain, why the program could not be followed."""
    note = _text(entry.raw["note"])
    if note or not may_explain:
        return note
    return _unfollowable(_text(entry.raw["executable"]), heap.text(int(entry.raw["cwd"])))


def _unfollowable(executable: str, cwd: str | None) -> str:
    """Why this program could not be followed, as far as its file shows it, if that still exists."""
    if not executable:
        return ""
    import shutil

    path = os.path.join(cwd or "/", executable) if "/" in executable else shutil.which(executable)
    static = path is not None and os.path.isfile(path) and is_static(path)
    return f"{executable}: statically linked, cannot be followed" if static else ""


def _started_by(entry: _Entry, entries: list[_Entry]) -> int | None:
    """The operation.  Of a spawned program with two entries, the first one has it."""
    given = int(entry.raw["started_by"])
    if not given and entry.continues is not None and int(entries[entry.continues].raw["start"]) == layout.START_SPAWN:
        given = int(entries[entry.continues].raw["started_by"])
    return given or None


def _ended(entry: _Entry, liveness: Liveness | None) -> tuple[str, int | None]:
    if entry.end_kind == layout.END_EXIT:
        return f"exit {entry.end_status}", entry.end_status
    if entry.end_kind == layout.END_SIGNAL:
        return f"signal {entry.end_status}{_signal_name(entry.end_status)}", entry.end_status
    if entry.end_kind == layout.END_EXEC:
        return log_constants.REPLACED, None
    if entry.end_kind == layout.END_STOPPED:
        return log_constants.STOPPED, None
    if int(entry.raw["start"]) == layout.START_FOUND:
        return log_constants.NOT_FOLLOWED, None
    known = int(entry.raw["start_time"]), entry.namespace, int(entry.raw["outer_pid"])
    if liveness is not None and liveness.alive(entry.pid, *known):
        return log_constants.RUNNING, None
    return (log_constants.LOST if entry.raw["followed"] else log_constants.NOT_FOLLOWED), None


def _signal_name(number: int) -> str:
    try:
        return f" ({signal.Signals(number).name})"
    except ValueError:
        return ""


def is_this_boot(header: np.void) -> bool:
    """Whether the log was written on this machine since it was booted; only then its process ids mean anything."""
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


def int64(value: int) -> int:
    """A count that a damaged log may have made too large."""
    return min(value, np.iinfo(np.int64).max)
