"""What each thread of a process and of its children waits for now, since when, and who could end that.

Facts come from /proc; the lines of Python, and exact begins, from the live log of
a traced process.  Nothing is stopped, signalled or attached to.  All names are
untrusted, and shown escaped.
"""

from __future__ import annotations

import os
import time
from dataclasses import field

from pyio_trace.light_dataclass import dataclass
from pyio_trace.running.blocked_since import Clocks
from pyio_trace.running.calls import Waiting, waiting, waiting_in
from pyio_trace.running.descriptors import Descriptors, OtherEnd, other_end
from pyio_trace.running.file_locks import holders_of
from pyio_trace.running.holders import Holders
from pyio_trace.running.kernel_process import KernelProcess, ProcessError, gone, refused
from pyio_trace.running.python_lines import InFlight, Logs, TracedLog, is_system_call
from pyio_trace.values import program_of

#: Most processes, and threads of each, that are looked at; seconds after which no other process is.
_MOST_PROCESSES, _MOST_THREADS, _LONGEST = 64, 256, 1.2
#: A helper of ours beside a run; the kernel keeps 15 bytes of a name.
_SAMPLER = "pyio-trace-samp"
_DEV_FUSE = "/dev/fuse"


@dataclass(frozen=True)
class Neighbour:
    """Another process that a thread waits for.  does: what it does, in a few words; "" if that is not known."""

    pid: int
    name: str
    does: str


@dataclass(frozen=True)
class ThreadWait:
    """What one thread does now.

    kind: "running", "stopped", "ended", or what it waits for: "file", "pipe",
    "fifo", "socket", "file lock", "lock" (between threads), "shared lock" (between
    processes), "poll", "sleep", "child", "process", "fault" (a page fault), "call"
    (another system call).  call: the system call; target: what it is on;
    file_system: its type, where it is not the kernel's own answer; way: "read" or
    "write".  age_ns: for how long already, null: not known; age_from: "record"
    (exact), "kernel" (since the thread last ran) or "samples".  timed: whether it
    ends by itself.  left_ns: of a sleep.  others: who has the other end, or the
    lock; nobody: true if it is certain that no other process has.  site: the
    program's line, "" if not known; within: the library's function that it
    calls; operation: the outermost operation of the log that it is in; stack:
    outermost frame first.  kernel: the kernel's function; kernel_stack.
    """

    tid: int
    name: str
    main: bool
    kind: str
    call: str = ""
    target: str = ""
    file_system: str = ""
    way: str = ""
    age_ns: int | None = None
    age_from: str = ""
    timed: bool = False
    left_ns: int | None = None
    child: int = 0
    others: list[Neighbour] = field(default_factory=list)
    nobody: bool = False
    site: str = ""
    within: str = ""
    operation: str = ""
    stack: str = ""
    kernel: str = ""
    kernel_stack: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class ProcessWaits:
    """One process.  parent: its number; traced: whether it writes into a live log, `log`; why_not: why some or all
    lines of Python are not known; threads: those that have waited longest first; threads_left_out: beyond the first
    256."""

    pid: int
    name: str
    command: list[str]
    parent: int
    traced: bool
    why_not: str
    log: str
    threads: list[ThreadWait]
    threads_left_out: int


@dataclass(frozen=True)
class Waits:
    """The process that was asked for, and its descendants.  processes_left_out: those that were not looked at;
    everybody_seen: whether all processes of the machine could be asked what they have open."""

    processes: list[ProcessWaits]
    processes_left_out: int
    everybody_seen: bool


def waits_of(pid: int) -> Waits:
    """What a process and its descendants wait for.  Raises ProcessError no-such-process, process-not-readable."""
    with KernelProcess(pid) as process:
        if not process.may_be_read():
            raise refused(pid)
        found = _Looks().at(process)
        if not process.exists():
            raise gone(pid)
        return found


@dataclass
class _Raw:
    """A thread before it is known who has the other ends."""

    wait: ThreadWait
    waiting: Waiting | None


class _Looks:
    def __init__(self) -> None:
        self._logs = Logs()
        self._until = time.monotonic() + _LONGEST
        self._left_out = 0

    def at(self, top: KernelProcess) -> Waits:
        with Clocks() as clocks:
            found: list[tuple[ProcessWaits, list[_Raw]]] = []
            self._add(top, clocks, found, set())
        wanted = {one.waiting.target.link for _, raws in found for one in raws if one.waiting and one.waiting.target}
        if any(one.wait.file_system.startswith("fuse") for _, raws in found for one in raws):
            wanted.add(_DEV_FUSE)
        holders = Holders(wanted - {""})
        names = {process.pid: (process.name, raws) for process, raws in found}
        done = []
        for process, raws in found:
            threads = [_finished(process.pid, raw, holders, names) for raw in raws]
            threads.sort(key=lambda one: (one.age_ns is None, -(one.age_ns or 0), not one.main))
            done.append(_with_threads(process, threads))
        return Waits(done, self._left_out, holders.complete)

    def _add(
        self, process: KernelProcess, clocks: Clocks, found: list[tuple[ProcessWaits, list[_Raw]]], seen: set[int]
    ) -> None:
        seen.add(process.pid)
        found.append(self._look(process, clocks))
        for pid in process.children():
            if pid in seen:
                continue
            if len(found) >= _MOST_PROCESSES or time.monotonic() > self._until:
                self._left_out += 1
                continue
            try:
                with KernelProcess(pid) as child:
                    stat = child.stat()
                    if stat is not None and stat.name != _SAMPLER and stat.parent == process.pid:
                        self._add(child, clocks, found, seen)
            except ProcessError:  # it has ended meanwhile
                continue

    def _look(self, process: KernelProcess, clocks: Clocks) -> tuple[ProcessWaits, list[_Raw]]:
        stat = process.stat()
        log, why = self._logs.of(process)
        entries = log.entries_of(process) if log is not None else []
        if log is not None and not log.log.header["sampling_hz"]:
            why = "its run has no sampler, so only calls in flight have a line"
        descriptors = Descriptors(process)
        tids = process.threads()
        raws = [_thread(process, descriptors, tid, log, entries, clocks) for tid in tids[:_MOST_THREADS]]
        name = name_of(process)
        whole = ProcessWaits(
            process.pid, name, process.command(), 0 if stat is None else stat.parent, log is not None, why,
            "" if log is None else log.path, [], max(len(tids) - _MOST_THREADS, 0),
        )  # fmt: skip
        return whole, [raw for raw in raws if raw is not None]


def name_of(process: KernelProcess) -> str:
    """What a person calls a process: its script, or its program."""
    words = process.command()
    stat = process.stat()
    if not words:
        return stat.name if stat is not None else f"process {process.pid}"
    program = os.path.basename(words[0])
    if not program.startswith("python"):
        return program
    how, what = program_of(words[1:])
    if how == "c":
        return "python -c"
    return what if how == "m" else os.path.basename(what.rstrip("/")) or "python"


def _thread(
    process: KernelProcess, descriptors: Descriptors, tid: int, log: TracedLog | None, entries: list[int],
    clocks: Clocks,
) -> _Raw | None:  # fmt: skip
    stat = process.stat(tid)
    if stat is None:
        return None
    kernel = process.read(f"task/{tid}/wchan", 256).decode("ascii", "replace").strip("\0\n")
    kernel = "" if kernel == "0" else kernel
    call = process.call(tid)
    blocked = clocks.blocked(process, tid, stat.cpu) if stat.state in "SDI" else None
    if stat.state in "ZX":
        waits, kind = None, "ended"
    elif stat.state in "Tt":
        waits, kind = None, "stopped"
    elif call is None and stat.state == "R":
        waits, kind = None, "running"
    elif call is None:
        waits = waiting_in(kernel)
        kind = waits.kind
    else:
        waits = waiting(process, descriptors, call, kernel)
        kind = waits.kind
    own = process.numbers(tid)[-1]
    began = log.in_flight(entries, own) if log is not None else []
    sampled = log.sampled(entries, own, blocked) if log is not None else None
    age, age_from = _age(waits, began, blocked, log)
    if age is None and sampled is not None and waits is not None and log is not None:
        age, age_from = max(log.log.now() - sampled.since, 0), "samples"
    line = next((one.line for one in reversed(began) if one.line.stack), None)
    if line is None and sampled is not None:
        line = sampled.line
    target, recorded = waits.target if waits else None, _path_of(began)
    mount = target.mount if target else None
    name = waits.call if waits else ""
    if waits and not name and began and is_system_call(began[-1]):
        name = began[-1].op
    stack = [
        text.partition("]")[2].strip().partition("+")[0] for text in process.text(f"task/{tid}/stack").splitlines()
    ]
    return _Raw(
        ThreadWait(
            tid, stat.name, tid == process.pid, kind, name,
            (target.text if target and target.text else recorded) or "",
            mount.kind if mount is not None and mount.is_remote else "", waits.way if waits else "",
            age, age_from, bool(waits and waits.timed), waits.left_ns if waits else None, waits.child if waits else 0,
            [], False, line.site if line else "", line.within if line else "",
            began[0].op if began and not is_system_call(began[0]) else "", line.stack if line else "", kernel,
            [one for one in stack if one][:32],
        ),
        waits,
    )  # fmt: skip


def _path_of(began: list[InFlight]) -> str:
    return next((one.path for one in reversed(began) if one.path), "")


#: Calls that a thread makes around an operation, and not for it: then the record's begin is not that of the wait.
_BESIDE = ("lock", "sleep", "poll")


def _age(
    waits: Waiting | None, began: list[InFlight], blocked: int | None, log: TracedLog | None
) -> tuple[int | None, str]:
    """(for how long a thread has waited, ns; how that is known)."""
    if waits is None:
        return None, ""
    inner = began[-1] if began else None
    if inner and log and inner.since_is_known and is_system_call(inner) and waits.kind not in _BESIDE:
        return max(log.log.now() - inner.begin, 0), "record"
    return (blocked, "kernel") if blocked is not None else (None, "")


def _finished(pid: int, raw: _Raw, holders: Holders, names: dict[int, tuple[str, list[_Raw]]]) -> ThreadWait:
    """The thread with those who could end its wait."""
    waits, target = raw.waiting, raw.waiting.target if raw.waiting else None
    pids: list[int] = []
    nobody = False
    if waits is not None and waits.kind == "file lock":
        found = holders_of(pid, waits.lock, target.inode if target else 0)
        pids = [one.pid for one in found if one.pid and one.pid != pid]
    elif waits is not None and waits.kind in ("child", "process"):
        pids = [waits.child or (target.pid if target else 0)]
    elif waits is not None and waits.kind == "fifo" and waits.call in ("open", ""):
        nobody = True  # else the open would have returned
    elif waits is not None and target is not None:
        end: OtherEnd | None = other_end(target, holders, pid, waits.way)
        if end is not None:
            pids, nobody = end.pids, end.known and not end.pids and target.kind != "descriptors"
        elif raw.wait.file_system.startswith("fuse"):
            pids = sorted({one.pid for one in holders.of(_DEV_FUSE)})
    others = [one for one in (_neighbour(each, names) for each in pids[:8] if each > 0) if one is not None]
    known = {name: getattr(raw.wait, name) for name in ThreadWait.__dataclass_fields__}
    return ThreadWait(**{**known, "others": others, "nobody": nobody})


def _neighbour(pid: int, names: dict[int, tuple[str, list[_Raw]]]) -> Neighbour | None:
    if pid in names:
        name, raws = names[pid]
        main = next((one.wait for one in raws if one.wait.main), None)
        return Neighbour(pid, name, "" if main is None else does(main))
    try:
        with KernelProcess(pid) as process:
            name = name_of(process)
            if not process.may_be_read():
                return Neighbour(pid, name, "")
            with Clocks() as clocks:
                raw = _thread(process, Descriptors(process), pid, None, [], clocks)
            return Neighbour(pid, name, "" if raw is None else does(raw.wait))
    except ProcessError:
        return Neighbour(pid, "", "has ended")


def does(wait: ThreadWait) -> str:
    """What a thread does, in a few words, for a sentence whose subject is its process."""
    words = {
        "running": "runs", "stopped": "is stopped", "ended": "has ended", "sleep": "is asleep",
        "lock": "waits for a lock between its threads", "shared lock": "waits for a lock between processes",
        "child": "waits for a child", "fault": "waits for a page", "poll": "waits in poll",
    }  # fmt: skip
    if wait.kind in words:
        return words[wait.kind]
    on = f" of {wait.target}" if wait.target else ""
    return f"waits in {wait.call or 'the kernel'}{on}"


def _with_threads(process: ProcessWaits, threads: list[ThreadWait]) -> ProcessWaits:
    known = {name: getattr(process, name) for name in ProcessWaits.__dataclass_fields__}
    return ProcessWaits(**{**known, "threads": threads})
