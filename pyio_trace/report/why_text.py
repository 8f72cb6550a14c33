"""`pyio-trace why` as text: the verdict in one line, then each process and thread, those that have waited longest
first."""

from __future__ import annotations

import os
import textwrap
from collections.abc import Iterator

from pyio_trace.errors import printable
from pyio_trace.running.waits import Neighbour, ProcessWaits, ThreadWait, Waits
from pyio_trace.units import counted, seconds

_WIDTH = 80
#: Kinds of waits that something outside of the process has to end, or a file.
_OUTSIDE = ("file", "fifo", "pipe", "socket", "file lock", "child", "process", "fault", "shared lock")
_ONLY_INSIDE = ("lock",)


def why_lines(waits: Waits) -> Iterator[str]:
    """The lines of the text."""
    yield printable(verdict(waits)) + "."
    for at, process in enumerate(waits.processes):
        yield ""
        yield from _process_lines(process, at == 0)
    notes = list(_notes(waits))
    if notes:
        yield ""
    yield from notes


def verdict(waits: Waits) -> str:
    """What the process waits for, in a sentence without its full stop."""
    process = waits.processes[0]
    who = f"{process.name} (pid {process.pid})"
    main = next((one for one in process.threads if one.main), None)
    if main is None:
        return f"{who} has ended"
    if _deadlocked(process):
        locked = f"all {len(process.threads)} threads wait" if len(process.threads) > 1 else "its only thread waits"
        return f"{who} is deadlocked: {locked} for a lock that only a thread of it can release{_place(main)}"
    subject = main
    if main.kind in _ONLY_INSIDE:
        outside = [one for one in process.threads if one.kind in _OUTSIDE and (one.site or not process.traced)]
        subject = next(iter(outside), main)  # what the main thread waits for may wait for that
    text = f"{who}{'' if subject.main else f', thread {subject.tid},'} {_has(subject)}{_place(subject)}"
    if not subject.main:
        text += f"; its main thread waits for a lock{_place(main)}"
    below = [one for one in waits.processes[1:] if subject.kind == "child" and subject.child in (0, one.pid)]
    if below and below[0].threads:
        inner = next((one for one in below[0].threads if one.main), below[0].threads[0])
        text += f"; {below[0].name} (pid {below[0].pid}) {_has(inner)}{_place(inner)}"
    return text


def _deadlocked(process: ProcessWaits) -> bool:
    """Whether each thread waits for a lock between the threads of this process, without end."""
    return not process.threads_left_out and all(one.kind == "lock" and not one.timed for one in process.threads)


def _has(wait: ThreadWait) -> str:
    """What a thread does, as the predicate of a sentence."""
    if wait.kind == "running":
        return "is running"
    if wait.kind == "stopped":
        return "is stopped, by a signal or a debugger"
    if wait.kind == "ended":
        return "has ended, and its parent has not waited for it"
    age = "" if wait.age_ns is None else f" {seconds(wait.age_ns)}"
    if wait.kind == "sleep":
        left = "" if wait.left_ns is None else f", {seconds(wait.left_ns)} to go"
        return ("has been asleep" + age if age else "is asleep") + left
    return ("has been waiting" + age if age else "is waiting") + " " + _for(wait)


def _for(wait: ThreadWait) -> str:
    """What a thread waits for, with those who could end it."""
    if wait.kind == "lock":
        return "for a lock between its threads" + (", for a limited time" if wait.timed else "")
    if wait.kind == "shared lock":
        return "for a lock between processes"
    if wait.kind == "fault":
        return "for a page of a mapped file or of swap"
    if wait.kind in ("child", "process"):
        child = next(iter(wait.others), None)
        named = "any child" if child is None else f"process {child.pid}{f' ({child.name})' if child.name else ''}"
        return f"for {named} to end"
    if wait.kind == "file lock":
        return f"for a lock on {wait.target} ({wait.call})" + _held(wait.others)
    call = wait.call or "the kernel"
    text = (
        f"in {call} {'to' if wait.way == 'write' and call != 'open' else 'of'} {wait.target}"
        if wait.target
        else f"in {call}"
    )
    if wait.kind in ("pipe", "fifo") or (wait.kind == "poll" and wait.others):
        return text + _ends(wait)
    if wait.file_system:
        text += f" (on {wait.file_system}, which has not answered)"
        if wait.others:
            text += f", for which {_named(wait.others[0])} may answer"
    elif wait.others and wait.kind == "socket":
        text += f" with {_named(wait.others[0])}" + _does(wait.others[0])
    return text + (", for a limited time" if wait.timed else "")


def _held(others: list[Neighbour]) -> str:
    if not others:
        return ", whose holder is not known on this machine"
    return f", held by {_named(others[0])}" + _does(others[0])


def _ends(wait: ThreadWait) -> str:
    """Who has the other end of a pipe or a FIFO."""
    reader = "reader" if wait.way == "write" else "writer"
    kind = {"fifo": ", a FIFO", "poll": ","}.get(wait.kind, "")
    if wait.nobody:
        doing = "reading" if wait.way == "write" else "writing"
        does = "read from" if wait.way == "write" else "write to"
        return f"{kind} that nobody has open for {doing}" if kind else f" that no other process can {does}"
    if not wait.others:
        return kind
    if len(wait.others) > 1:
        more = counted(len(wait.others) - 1, "other process", "other processes")
        return f"{kind} whose {reader}s are {_named(wait.others[0])} and {more}"
    return f"{kind} whose {reader} is {_named(wait.others[0])}" + _does(wait.others[0])


def _named(one: Neighbour) -> str:
    return f"{one.name} (pid {one.pid})" if one.name else f"process {one.pid}"


def _does(one: Neighbour) -> str:
    return f", which {one.does}" if one.does else ""


def _place(wait: ThreadWait) -> str:
    """The line of Python, ", at train.py:13 in queue.Queue.get"."""
    if not wait.site:
        return ""
    return f", at {short_site(wait.site)}" + (f" in {wait.within}" if wait.within else "")


def short_site(site: str) -> str:
    """ "data.py:13" of "/home/u/data.py:13:load"; with its folder where many files have that name."""
    file, _, rest = site.partition(":") if site.startswith("<") else (site.rsplit(":", 2)[0], "", "")
    line = rest.partition(":")[0] if rest else site.rsplit(":", 2)[-2] if site.count(":") >= 2 else ""
    folder, name = os.path.split(file)
    if name in ("__init__.py", "__main__.py"):
        name = f"{os.path.basename(folder)}/{name}"
    return f"{name}:{line}"


def _process_lines(process: ProcessWaits, first: bool) -> Iterator[str]:
    if not first:
        command = " ".join(process.command) or process.name
        yield _cut(printable(f"child {process.pid} of {process.parent}: {command}"))
    for one in process.threads:
        who = "main thread" if one.main else f"thread {one.tid}"
        age = "" if one.age_ns is None else seconds(one.age_ns)
        text = _row_text(one) + _place(one) + (f", within {one.operation}" if one.operation else "")
        lead = f"  {who:<15} {age:>10}  "
        yield from _wrapped(printable(text), lead)
        if not one.site and one.kernel:
            yield _cut(f"{'':<{len(lead)}}in the kernel: {printable(one.kernel)}")
    if process.threads_left_out:
        yield f"  {counted(process.threads_left_out, 'more thread')} not looked at"


def _row_text(wait: ThreadWait) -> str:
    if wait.kind in ("running", "stopped", "ended"):
        return {"running": "runs", "stopped": "stopped", "ended": "ended, not waited for"}[wait.kind]
    if wait.kind == "sleep":
        return "asleep" + ("" if wait.left_ns is None else f", {seconds(wait.left_ns)} to go")
    return "waits " + _for(wait)


def _wrapped(text: str, lead: str) -> Iterator[str]:
    yield from textwrap.wrap(
        text, _WIDTH, initial_indent=lead, subsequent_indent=" " * len(lead), break_long_words=False,
        break_on_hyphens=False,
    ) or [lead.rstrip()]  # fmt: skip


def _cut(text: str) -> str:
    return text if len(text) <= _WIDTH else text[: _WIDTH - 3] + "..."


def _notes(waits: Waits) -> Iterator[str]:
    reasons: dict[str, list[int]] = {}
    for process in waits.processes:
        if process.why_not and any(one.kind != "ended" and not one.site for one in process.threads):
            reasons.setdefault(process.why_not, []).append(process.pid)
    for why, pids in reasons.items():
        many = ", ".join(map(str, pids[:4])) + (f" and {len(pids) - 4} more" if len(pids) > 4 else "")
        remedy = "; to know, trace it from its start: pyio-trace SCRIPT" if why == "not traced" else ""
        yield from textwrap.wrap(printable(f"No lines of Python of {many}: {why}{remedy}."), _WIDTH)
    for process in waits.processes[:1]:
        if process.log:
            yield from textwrap.wrap(printable(f"What it does all the time: pyio-trace top {process.pid}"), _WIDTH)
    if waits.processes_left_out:
        yield f"{counted(waits.processes_left_out, 'more process', 'more processes')} not looked at."
    if not waits.everybody_seen:
        yield "Not everybody's descriptors could be looked at: others may have the other ends."
