"""What weakens the figures of a run: its losses, what was left out by choice, and notes on single processes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from pyio_trace.analysis.results.figures import Mapped, Unseen, Weakness
from pyio_trace.units import counted, number, size

#: What lowers the confidence of findings, and by how much: operations of the program are missing.
_LOWERS = 0.85
#: Key of Log.losses() that counts processes -> slug, words, confidence.
_BLIND = {
    "io_uring": (
        "io-uring",
        "used io_uring or loaded liburing: what went through its rings is not in the log",
        _LOWERS,
    ),
    "syscall": ("raw-system-calls", "made raw system calls, which are not in the log", 1.0),
    "unpatched": ("unpatched-code", "has code that could not be hooked; its calls are not in the log", _LOWERS),
    "no_file_objects": ("no-file-objects", "ran without file-object tracing: POSIX operations only", 1.0),
}
#: Why there was no sampler, or not for all processes: the error -> what it means, and what to do.
_NO_SAMPLER = {
    "ECHILD": "not sampled: none could stay beside it; if process 1, `docker run --init`",
    "EPERM": "not sampled: reading processes is forbidden; `pyio-trace doctor` says why",
    "ENOSYS": "not sampled: the kernel or a filter lacks the calls; see `pyio-trace doctor`",
    "EACCES": "not sampled: a process of another user, or undumpable; run all as one user",
    "EMFILE": "not all sampled: over 1,024 processes or threads at once; trace fewer",
    "EAGAIN": "not sampled: no process number was left; raise `ulimit -u` or pids.max",
    "ENOMEM": "not sampled: no memory was left for the sampler; raise its limit",
}
#: What a sampler counts -> (one, several), and the rest of the sentence.
_SAMPLER_COUNTS = {
    "samples_lost": (("sample",), "lost: no room in the log; raise --max-log-size"),
    "sampler_unread": (("process", "processes"), "could not be read by the sampler: processor time only"),
    "sampler_unseen": (("process or thread", "processes and threads"), "not sampled: too many at once"),
}
_UNFOLLOWED_SHOWN = 5
_MAPPED_SHOWN = 3
_LIBRARIES_SHOWN = 3
#: Commands that the first screen names; most often libraries run uname.
_COMMANDS_NAMED = 2


def weaknesses(unseen: Unseen, calls: int = 0, processes: int = 0, moved: int = 0) -> list[Weakness]:
    """One for each thing that is missing from the figures, losses first.

    calls, processes (followed ones), moved (bytes): of the run, in the figures, 0:
    not known; a weakness's share is a part of these and what is missing.
    """
    left = dict(unseen.losses)
    found = [
        *_only_counted(left, calls),
        *_unfollowed(left, processes),
        *_older(left, processes),
        *_bypassed(left, moved),
        *_mapped(left, unseen.mapped),
        *_blind_spots(left, processes),
        *_not_sampled(left, processes),
        *_of_the_log(left),
        *(_weakness("not-in-log", text) for text in left.pop("not_in_log", [])),
    ]
    found += [_weakness(name.replace("_", "-"), f"{name.replace('_', ' ')}: {value}") for name, value in left.items()]
    return [*found, *_by_choice(unseen.excluded), *(_weakness("note", note) for note in unseen.notes)]


def _weakness(
    slug: str, text: str, brief: str | None = "", details: Sequence[str] = (), *, confidence: float = 1.0,
    share: float | None = None,
) -> Weakness:  # fmt: skip
    """brief: "" if the text is brief."""
    return Weakness(slug, text, text if brief == "" else brief, [*details], share, confidence)


def _share(missing: int, seen: int) -> float | None:
    """The part of a figure that is missing; seen: what there is of it, 0: not known."""
    return missing / (missing + seen) if missing > 0 and seen > 0 else None


def _only_counted(left: dict[str, Any], calls: int) -> Iterator[Weakness]:
    missing, since, reason = left.pop("operations_counted_only", None), left.pop("since", None), left.pop("reason", "")
    if missing is None:
        return
    if since is not None:
        full = f"the log was full from {_moment(since)} on: {reason}"
        yield _weakness("log-full", f"{full}; files and lines first met after that may have no name")
    elif reason:
        yield _weakness("no-more-room", f"some processes got no more room in the log: {reason}")
    if missing:  # whether the whole log was full or one process had no room
        text = f"{counted(missing, 'call')} only counted: see `pyio-trace counters --unrecorded`"
        yield _weakness("only-counted", text, confidence=_LOWERS, share=_share(missing, calls))


def _unfollowed(left: dict[str, Any], processes: int) -> Iterator[Weakness]:
    children = left.pop("unfollowed_children", [])
    missing = left.pop("unfollowed", 0)
    if missing:
        text = f"{counted(missing, 'child was', 'children were')} not followed"
        named = [f"not followed: {' '.join(child)}" for child in children[:_UNFOLLOWED_SHOWN] if any(child)]
        commands = list(dict.fromkeys(" ".join(child) for child in children if any(child)))
        brief = f"{text}: {', '.join(commands[:_COMMANDS_NAMED])}" if commands else text
        yield _weakness("unfollowed-children", text, brief, named, share=_share(missing, processes))


def _older(left: dict[str, Any], processes: int) -> Iterator[Weakness]:
    missing = left.pop("older_processes", 0)
    if missing:
        who = counted(missing, "process of the program is", "processes of the program are")
        text = f"{who} older than the tracing, and not in the log"
        yield _weakness("older-processes", text, confidence=_LOWERS, share=_share(missing, processes))


def _bypassed(left: dict[str, Any], moved: int) -> Iterator[Weakness]:
    """Estimates for calls that bypassed the hooks (docs/explanation/blind-spots.md)."""
    read, written = left.pop("unseen_read", 0), left.pop("unseen_written", 0)
    if read or written:
        text = f"about {size(read)} read, {size(written)} written by system calls inside libc or without it"
        yield _weakness("bypassed-bytes", text, share=_share(read + written, moved))


def _mapped(left: dict[str, Any], mapped: list[Mapped]) -> Iterator[Weakness]:
    """Estimates for mapped files (docs/explanation/blind-spots.md)."""
    touched, least, dirty, unmeasured = (
        left.pop(name, 0) for name in ("mapped_touched", "mapped_at_least", "mapped_written", "mappings_unmeasured")
    )
    if touched or dirty:
        text = (
            f"up to {size(touched)} touched through mapped files, at least {size(least)}; {size(dirty)} written "
            "(estimated from page tables)"
        )
        brief = f"up to {size(touched)} that went through mapped files (estimated)" if touched else None
        files = [
            f"{one.path}: up to {size(one.touched)} touched, at least {size(one.at_least)}; {size(one.written)} written"
            f" (estimated; {counted(one.count, 'mapping')})"
            for one in mapped[:_MAPPED_SHOWN]
        ]
        yield _weakness("mapped-files", text, brief, files)
    if unmeasured:
        text = f"{counted(unmeasured, 'file mapping')} not measured: nothing is known of what went through"
        brief = f"{counted(unmeasured, 'file mapping was', 'file mappings were')} not measured"
        yield _weakness("mappings-unmeasured", text, brief)


def _blind_spots(left: dict[str, Any], processes: int) -> Iterator[Weakness]:
    for name, (slug, words, confidence) in _BLIND.items():
        blind = left.pop(name, 0)
        if blind:
            text = f"{counted(blind, 'process', 'processes')} {words}"
            yield _weakness(slug, text, confidence=confidence, share=min(blind / processes, 1) if processes else None)


def _not_sampled(left: dict[str, Any], processes: int) -> Iterator[Weakness]:
    for name in left.pop("sampler_refused", []):
        failed = f"not sampled: the sampler failed ({name}); see `pyio-trace doctor`"
        yield _weakness("sampler-refused", _NO_SAMPLER.get(name, failed))
    for name, (words, text) in _SAMPLER_COUNTS.items():
        count = left.pop(name, 0)
        if count:
            yield _weakness(name.replace("_", "-"), f"{counted(count, *words)} {text}")
    missing = left.pop("unsampled", 0)
    if missing:
        text = f"{counted(missing, 'process has', 'processes have')} no samples: between their calls nothing is known"
        yield _weakness("unsampled-processes", text, share=min(missing / processes, 1) if processes else None)
    ended = left.pop("sampled_in_part", 0)
    if ended:
        text = f"the sampler ended early: the last part of {counted(ended, 'process', 'processes')} has calls only"
        yield _weakness("sampler-ended", text, share=min(ended / processes, 1) if processes else None)


def _of_the_log(left: dict[str, Any]) -> Iterator[Weakness]:
    renames = left.pop("renames_unseen", 0)
    if renames:
        text = f"{counted(renames, 'file was', 'files were')} renamed by calls that were not seen (inferred)"
        yield _weakness("renames-inferred", text)
    libraries = left.pop("raw_call_libraries", [])
    if libraries:
        shown = ", ".join(libraries[:_LIBRARIES_SHOWN]) + (" ..." if len(libraries) > _LIBRARIES_SHOWN else "")
        text = f"{counted(len(libraries), 'library has', 'libraries have')} system-call instructions: {shown}"
        yield _weakness("raw-call-libraries", text, None)
    unreadable = left.pop("unreadable_logs", [])
    if unreadable:
        text = f"{counted(len(unreadable), 'log')} of the folder could not be read"
        yield _weakness("unreadable-logs", text, details=unreadable)
    torn = left.pop("torn", 0)
    if torn:
        text = f"the log is damaged or cut short: {size(torn)} of it could not be read"
        yield _weakness("log-damaged", text, confidence=_LOWERS)
    faults = left.pop("tracer_faults", 0)
    if faults:
        text = f"pyio_trace itself failed {number(faults)} times and stepped aside; please report it"
        yield _weakness("tracer-faults", text)


def _by_choice(excluded: Mapping[str, tuple[int, int]]) -> Iterator[Weakness]:
    """What is only counted, because nobody asked for more; the first screen says what processes sent each other."""
    if not excluded:
        return
    parts = [f"{kind} {counted(calls, 'call')}, {size(moved)}" for kind, (calls, moved) in sorted(excluded.items())]
    sent = sum(excluded.get(kind, (0, 0))[0] for kind in ("pipe", "socket"))
    brief = f"{counted(sent, 'call')} on pipes and sockets (counted only)" if sent else None
    yield _weakness("by-choice", "counted only, by choice: " + "; ".join(parts), brief)


def _moment(epoch_ns: int) -> str:
    try:
        return datetime.fromtimestamp(epoch_ns / 1e9).strftime("%H:%M:%S")
    except (ValueError, OverflowError, OSError):
        return "an impossible time"
