"""Prices findings by the wall clock of their lines, from samples (analysis/results/line_time.py)."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import replace

from pyio_trace.analysis.results.line_time import LineTime
from pyio_trace.insights.data_flow import uses
from pyio_trace.insights.finding import Finding, Site
from pyio_trace.insights.function_words import puts_together, takes_apart
from pyio_trace.insights.library_frames import FramesOfLines
from pyio_trace.insights.observed import Gain, Observed
from pyio_trace.units import seconds

#: ns that a program's own code may take to unpack or parse a byte.
_SLOWEST = 200
#: ns per byte that a library needs at most for a file that it reads or writes: parsing YAML in Python is that slow.
_SLOWEST_LIBRARY = 10_000
#: What the line itself computes counts if it is at least as much as the rest.
_TWICE = 2


def held_ns(row: LineTime) -> int:
    """How long a line kept a thread busy: the thread that spent most time there, without waits while others worked."""
    return max(min(row.here_ns - row.aside_ns, row.longest_ns), 0)


def no_more_than_the_lines(run: Observed, finding: Finding) -> Finding:
    """Limits a finding's time to what its lines took.

    Without samples it stays as it is, and also if one of the lines is a library's: samples give that time to the
    program's line that called the library.
    """
    lines = {f"{site.file}:{site.line}:{site.function}" for site in finding.sites}
    if not run.wall or not lines or not finding.recoverable.is_time or not all(map(run.is_own, lines)):
        return finding
    most = sum(row.time_ns for row in run.walls(finding.sites))
    if finding.recoverable_ns <= most or not most:
        return finding
    how = f"{finding.recoverable.how}; its {'lines' if len(lines) > 1 else 'line'} took {seconds(most)} in all"
    return replace(finding, recoverable_ns=most, recoverable=replace(finding.recoverable, how=how, terms=[]))


def with_libraries(
    run: Observed,
    gain: Gain,
    sites: Collection[Site],
    share: float,
    processes: Iterable[int],
    moved: int | None = None,
) -> Gain:
    """Raises a gain to the same share of all the time that these lines spent in library functions which call on files.

    What such a function does between the calls, such as unpacking, is repeated with them.  A gain that samples exceed
    by no more than their error stays: it is of exact times.  processes: those that make the calls; if one is a worker
    of a DataLoader, the gain stays as it is, because its trainer may not wait for it.  moved: bytes, None: not known;
    each accounts for at most _SLOWEST_LIBRARY ns, and for _SLOWEST in functions that make no calls.  Time beyond that
    has other reasons than these files.
    """
    lines = {f"{site.file}:{site.line}:{site.function}" for site in sites}
    if not lines or not all(map(run.is_own, lines)) or any(map(run.is_loader_worker, processes)):
        return gain
    libraries = run.of(FramesOfLines()).between(lines)
    rows = run.walls(sites)
    whole = int(share * sum(_in_files(row, libraries, moved) for row in rows))
    error = max(sum(row.samples for row in rows), 1) ** -0.5
    if whole * (1 - error) <= gain.ns:
        return gain
    how = f"{gain.recoverable.how}, and the same share of what libraries do between them"
    return Gain(min(whole, run.wall_ns), replace(gain.recoverable, how=how, terms=[]))


def with_parsers(run: Observed, gain: Gain, sites: Collection[Site], share: float) -> Gain:
    """Raises a gain to the same share of the time in functions that take apart what these lines read."""
    return _with_functions(run, gain, sites, share, takes_apart, "take it apart")


def with_formatters(run: Observed, gain: Gain, sites: Collection[Site], share: float) -> Gain:
    """Raises a gain to the same share of the time in functions that make what these lines write."""
    return _with_functions(run, gain, sites, share, puts_together, "make it")


def parsed_at(run: Observed, sites: Collection[Site]) -> list[Site]:
    """The other lines that take apart what these lines read, by the names in the source: ``for line in f:`` and then
    ``json.loads(line)``."""
    places = {(site.file, site.line): site.function for site in sites}
    users = {(file, use): name for (file, line), name in places.items() for use in uses(file, line)}
    lines = [Site(file, use, name) for (file, use), name in sorted(users.items()) if (file, use) not in places]
    return [one for one in lines if any(takes_apart(f.function) for row in run.walls([one]) for f in row.called)]


def _with_functions(
    run: Observed, gain: Gain, sites: Collection[Site], share: float, known: Callable[[str], bool], do: str
) -> Gain:
    rows = run.walls(sites)
    whole = int(share * sum(_in_functions(row, known) for row in rows))
    if whole <= gain.ns or not all(map(run.is_own, (row.line for row in rows))):
        return gain
    how = f"{gain.recoverable.how}, and of the functions that {do}"
    return Gain(min(whole, run.wall_ns), replace(gain.recoverable, how=how, terms=[]))


def parser_of(run: Observed, sites: Collection[Site]) -> str:
    """The module whose function takes apart what these lines read, by the time that it takes; "": none is known."""
    return _module_of(run, sites, takes_apart)


def formatter_of(run: Observed, sites: Collection[Site]) -> str:
    """The module whose function makes what these lines write, by the time that it takes; "": none is known."""
    return _module_of(run, sites, puts_together)


def _module_of(run: Observed, sites: Collection[Site], known: Callable[[str], bool]) -> str:
    times = {one.function: one.time_ns for row in run.walls(sites) for one in row.called if known(one.function)}
    return max(times, key=lambda name: times[name], default="").partition(".")[0]


def _in_functions(row: LineTime, known: Callable[[str], bool]) -> int:
    """ns that a line kept a thread busy in calls on files, and in the functions that are known."""
    called = sum(one.time_ns for one in row.called if known(one.function))
    whole = max(row.here_ns - row.aside_ns, 1)
    return int(min(row.io_ns + called, whole) * held_ns(row) / whole)


def with_own_code(run: Observed, gain: Gain, sites: Collection[Site], share: float, read: int) -> Gain:
    """Raises a gain to what these lines compute themselves, at most: they may unpack or parse what they read.

    read: bytes; computing that takes longer than _SLOWEST for each of them is not about them.
    """
    lines = {f"{site.file}:{site.line}:{site.function}" for site in sites}
    rows = run.walls(sites)
    if not all(map(run.is_own, lines)):
        return gain
    libraries = run.of(FramesOfLines()).between(lines)
    own = min(sum(row.own_ns * held_ns(row) // max(row.here_ns - row.aside_ns, 1) for row in rows), _SLOWEST * read)
    whole = int(share * min(own + sum(_in_files(row, libraries, read) for row in rows), sum(map(held_ns, rows))))
    if whole <= _TWICE * gain.ns:
        return gain
    how = f"{gain.recoverable.how}, and of what the line itself computes, which may be about it"
    return Gain(min(whole, run.wall_ns), replace(gain.recoverable, how=how, bound="upper", terms=[]))


def _in_files(row: LineTime, libraries: Collection[str], moved: int | None) -> int:
    """ns that a line kept a thread busy in calls on files, and in functions of libraries that make them, be it in
    threads of their own.  moved: as for with_libraries().

    A thread that waits in such a function, for other threads of the library, counts for as long as it waits.
    """
    called = sum(one.time_ns for one in row.called if one.calls)
    called = called if moved is None else min(called, _SLOWEST_LIBRARY * moved)
    beside = sum(one.time_ns for one in row.called if not one.calls and one.function.partition(".")[0] in libraries)
    called += beside if moved is None else min(beside, _SLOWEST * moved)
    whole = max(row.here_ns - row.aside_ns, 1)
    share = int(min(row.io_ns + row.sync_ns + called, whole) * held_ns(row) / whole)
    waited = _of_one_thread(row, libraries)
    return max(share, min(waited if moved is None else min(waited, _SLOWEST * moved), held_ns(row)))


def _of_one_thread(row: LineTime, libraries: Collection[str]) -> int:
    """ns of the longest function of these libraries, among those that one thread alone can have been in."""
    times = (one.time_ns for one in row.called if one.function.partition(".")[0] in libraries)
    return max((time for time in times if time <= row.longest_ns), default=0)
