"""Draws the conclusions, in at most three sentences: where the time went, and what was no bottleneck."""

from __future__ import annotations

from collections import defaultdict

from pyio_trace.analysis.results.figures import Summary
from pyio_trace.analysis.results.line_time import LineTime
from pyio_trace.analysis.results.overview_figures import KindTime, LoaderEpoch, Overview
from pyio_trace.errors import printable
from pyio_trace.report.wording import short_line, waited_for
from pyio_trace.units import counted, number, percent, seconds

#: Calls that may wait for locks of files.
_LOCKING = ("flock", "lockf", "fcntl")
#: The least share of the wall time that is worth a sentence.
_WORTH = 0.05
_MOST = 3
#: A part of the calls, or of the time, this small may be missing.
_PART = 100
#: Characters of a sentence.
_LONGEST = 80
#: ns of imports that are worth a sentence.
_LONG = 50_000_000
#: The share of all imports that a package has that is named.
_WORTH_NAMING = 0.1


def conclusions(summary: Summary) -> list[str]:
    """Sentences of at most _LONGEST characters, the largest cost first."""
    overview, wall = summary.overview, summary.run.wall
    if overview is None or not overview.kinds or wall <= 0 or is_part(summary):
        return []
    found = [*_loaders(overview.loaders, wall), *_waits(overview), *_work(overview, wall), *_metadata(overview)]
    found += _sampled(overview, wall)
    found += _imports(overview, wall)
    found.sort(key=lambda one: -one[0])
    sentences = [text for time, text in found if time >= _WORTH * wall][:_MOST]
    if len(sentences) < _MOST:
        processes = any(one.is_a_process for one in summary.weaknesses)
        more = bool(sentences) or any(one.hides_io for one in summary.weaknesses)
        sentences += _no_limits(overview, wall, more, processes)
    return sentences[:_MOST]


def is_part(summary: Summary) -> bool:
    """Whether so many calls were only counted that what is known of the others says little of the run."""
    run, counted_only = summary.run, summary.unseen.counted.values()
    calls, time = sum(one.calls for one in counted_only), sum(one.time for one in counted_only)
    return not run.selection and (calls * _PART > run.calls or time * _PART > run.wall)


def _loaders(epochs: list[LoaderEpoch], wall: int) -> list[tuple[int, str]]:
    workers = [one for one in epochs if one.workers]
    if not workers:
        return []
    found = []
    not_ready = sum(one.not_ready_ns - one.first_ns for one in workers)
    after = sum(one.hand_over_ns for one in workers)
    if not_ready:
        found.append((not_ready, f"The trainer waited {seconds(not_ready)} for batches that were not ready."))
    if after:
        found.append((after, f"Taking over batches that were ready took the trainer {seconds(after)}."))
    anew = _started_anew(workers)
    starts, stops = sum(map(_start, anew or workers)), sum(one.stop_ns for one in anew)
    if anew:
        text = f"Workers start anew for each epoch: {seconds(starts)}, and {seconds(stops)} to end."
        found.append((starts + stops, text))
    else:
        found.append((starts, f"Starting the workers took {seconds(starts)}."))
    return found


def _start(epoch: LoaderEpoch) -> int:
    return epoch.start_ns + epoch.first_ns


def _started_anew(epochs: list[LoaderEpoch]) -> list[LoaderEpoch]:
    """The epochs of loops in which workers were started more than once.  A loop may make a loader for each epoch, so it
    is known by its line.  Where workers persist, only the first start takes long."""
    loops: dict[str | None, list[LoaderEpoch]] = defaultdict(list)
    for one in epochs:
        loops[one.line].append(one)
    return [
        one for own in loops.values() if sum(_start(one) * 5 >= max(map(_start, own)) for one in own) > 1 for one in own
    ]


def _waits(overview: Overview) -> list[tuple[int, str]]:
    """Waits other than those of data loaders.  Threads other than the main one hold nothing up when they wait, so no
    wait counts as longer than the processes waited."""
    waits = [one for one in overview.lines if one.kind == "wait" and one.own and not one.op.startswith("DataLoader.")]
    waiting = sum(kind.split.waiting_ns for kind in overview.kinds)
    times = [min(one.time_ns, waiting) for one in waits]
    return [
        (time, f"Waiting for {waited_for(one.op)} took {seconds(time)}, at {short_line(one.line)}.")
        for time, one in zip(times, waits, strict=True)
    ]


def _work(overview: Overview, wall: int) -> list[tuple[int, str]]:
    """I/O, syncs, locks and libraries, over all processes."""
    kinds = overview.kinds[:1] if any(one.workers for one in overview.loaders) else overview.kinds
    splits = [kind.split for kind in kinds]  # what workers of a loader do is hidden, as far as it is not waited for
    found = []
    inputs = sum(one.io_ns for one in splits)
    library = sum(one.library_ns for one in splits)
    requests = [line for line in overview.lines if line.kind == "request"]
    top = max(requests, key=lambda line: line.time_ns - line.leaf_ns, default=None)
    if top is not None and library:
        found.append((library, f"Libraries took {seconds(library)} besides the I/O, most in {top.op}."))
    if inputs:
        share = _beside(kinds) or f"{seconds(inputs)}{_share(inputs, wall, kinds)}"
        found.append((inputs, f"Reading and writing took {share}."))
    slow = overview.storage.slow
    if slow.time_ns:
        found.append((slow.time_ns, f"{counted(slow.calls, 'read')} went to storage: {seconds(slow.time_ns)}."))
    sync = sum(one.sync_ns for one in splits), sum(one.beside_sync_ns for one in splits)
    found += _one_or_others("Waiting for storage (fsync)", "Syncs", *sync)
    locks = [line for line in overview.lines if line.op in _LOCKING]
    line = max(locks, key=lambda line: line.time_ns, default=None)
    place = f", {'most ' if len(locks) > 1 else ''}at {short_line(line.line)}" if line is not None else ""
    lock = sum(one.lock_ns for one in splits), sum(one.beside_lock_ns for one in splits)
    return [*found, *_one_or_others("Locks", "Locks", *lock, place)]


def _one_or_others(wait: str, calls: str, main: int, others: int, place: str = "") -> list[tuple[int, str]]:
    """Time in calls of the threads that decide, or of others if that is more: the program may wait for them."""
    if others > main:
        more = place or (f", {seconds(main)} in the main one" if main else "")
        return [(others, f"{calls} took {seconds(others)} in other threads{more}.")]
    return [(main, f"{wait} took {seconds(main)}{place}.")] if main else []


def _sampled(overview: Overview, wall: int) -> list[tuple[int, str]]:
    """What samples say of the first process beside its operations: that it computes, or sleeps, and where."""
    split, found = overview.kinds[0].split, []
    for name, time, part in (("Computing", split.computing_ns, "cpu_ns"), ("Sleeping", split.asleep_ns, "sleep_ns")):
        lines = [line for line in overview.wall if line.here_ns > line.aside_ns and getattr(line, part)]
        if not time or not lines:
            continue
        most = max(lines, key=lambda line: min(getattr(line, part), line.here_ns))
        place = f", most {'' if most.line.startswith('(') else 'at '}{short_line(most.line)}"
        share = _share(time, wall, overview.kinds[:1])
        if part == "cpu_ns":
            share = _delayed(lines) or share
        found.append((time, f"{name} took {seconds(time)}{share}{place}."))
    return found


def _delayed(lines: list[LineTime]) -> str:
    """Says so if these lines waited for a processor rather than used one: then no change to them helps."""
    delay, ready = sum(line.delay_ns for line in lines), sum(line.delay_ns + line.cpu_ns for line in lines)
    return f", {percent(delay / ready)} of it waiting for a processor" if delay * 2 > ready else ""


def _share(part: int, wall: int, kinds: list[KindTime]) -> str:
    one = sum(kind.processes for kind in kinds) == 1
    return f", {percent(part / wall)} of the run" if one else " in all processes"


def _beside(kinds: list[KindTime]) -> str:
    """The I/O of threads other than those that decide, if it is more than theirs: the program may wait for it."""
    beside, inputs = sum(kind.split.beside_ns for kind in kinds), sum(kind.split.io_ns for kind in kinds)
    return f"{seconds(beside)} in other threads, {seconds(inputs)} in the main one" if beside > inputs else ""


def _metadata(overview: Overview) -> list[tuple[int, str]]:
    """The folder with the most metadata time, if the calls on it cost more than moving bytes."""
    data = [one for one in overview.files if one.role == "data"]
    metadata, whole = sum(one.metadata_ns for one in data), sum(one.time_ns for one in data)
    calls = sum(one.metadata_calls for one in data)
    if not whole or metadata * 2 < whole:
        return []
    return [(metadata, f"Most of the I/O time went to metadata: {counted(calls, 'call')}, {seconds(metadata)}.")]


def _imports(overview: Overview, wall: int) -> list[tuple[int, str]]:
    """What the first process imported, if it took long, and the packages that took most of it."""
    spent = min((overview.processes[0].imports_ns if overview.processes else None) or 0, wall)
    if spent < _LONG:
        return []
    text = f"Importing took {seconds(spent)}, {percent(spent / wall)} of the run"
    packages = [one for one in overview.processes[0].packages if one.time_ns >= _WORTH_NAMING * spent]
    for place, one in enumerate(packages[:_MOST]):
        more = f"{',' if place else ':'} {printable(one.package)} {seconds(one.time_ns)}"
        if len(text) + len(more) >= _LONGEST:
            break
        text += more
    return [(spent, f"{text}.")]


def _no_limits(overview: Overview, wall: int, more: bool, missing: bool) -> list[str]:
    """What does not limit the run.  more: there are other sentences, or I/O that nobody saw; missing: processes are."""
    batches = sum(one.batches for one in overview.loaders if one.workers)
    ready = sum(one.ready or 0 for one in overview.loaders if one.workers)
    if batches and ready * 10 >= batches * 9:
        asked = f"{number(ready)} of {number(batches)} batches were ready when asked for"
        return [f"{asked}." if missing else f"{asked}: fetching is not the bottleneck."]
    inputs = sum(kind.split.io_ns + kind.split.sync_ns + kind.split.lock_ns for kind in overview.kinds)
    if inputs < _WORTH * wall:
        beside = _beside(overview.kinds)
        share = beside or f"{seconds(inputs)}, {percent(inputs / wall)} of the run"
        return [f"{'Reading' if more or beside else 'I/O is not the bottleneck: reading'} and writing took {share}."]
    return []
