"""What findings know of the wall clock by line, from samples (analysis/results/line_time.py)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from pyio_trace.analysis.results.line_time import LineTime
from pyio_trace.insights.finding import Finding, Site
from pyio_trace.insights.observed import Gain, Observed
from pyio_trace.units import seconds


def held_ns(row: LineTime) -> int:
    """How long a line held a thread up: in the one that spent most time there, without waits beside others' work."""
    return max(min(row.here_ns - row.aside_ns, row.longest_ns), 0)


def no_more_than_the_lines(run: Observed, finding: Finding) -> Finding:
    """The finding, which can win no more than its lines take.  Without samples, as it is; so too where one of its lines
    is a library's, since the time of those is at the lines that called them."""
    lines = {f"{site.file}:{site.line}:{site.function}" for site in finding.sites}
    if not run.wall or not lines or not finding.recoverable.is_time or not all(map(run.is_own, lines)):
        return finding
    most = sum(run.wall[line].time_ns for line in lines if line in run.wall)
    if finding.recoverable_ns <= most or not most:
        return finding
    how = f"{finding.recoverable.how}; its {'lines' if len(lines) > 1 else 'line'} took {seconds(most)} in all"
    return replace(finding, recoverable_ns=most, recoverable=replace(finding.recoverable, how=how, terms=[]))


def with_libraries(run: Observed, gain: Gain, sites: Iterable[Site], share: float, processes: Iterable[int]) -> Gain:
    """The gain, or if it is more, that share of all the time that the lines spent in library functions which make calls
    on files: what these do between the calls, such as unpacking, is done again with them.

    processes: of the calls; what workers fetch side by side is bounded otherwise.
    """
    lines = {f"{site.file}:{site.line}:{site.function}" for site in sites}
    if not lines or not all(map(run.is_own, lines)) or any(map(run.is_worker, processes)):
        return gain
    whole = int(share * sum(_in_files(run.wall[line]) for line in lines if line in run.wall))
    if whole <= gain.ns:
        return gain
    how = f"{gain.recoverable.how}, and the same share of what libraries do between them"
    return Gain(min(whole, run.wall_ns), replace(gain.recoverable, how=how, terms=[]))


def _in_files(row: LineTime) -> int:
    called = sum(one.time_ns for one in row.called if one.calls)
    part = min(row.io_ns + row.sync_ns + called, row.here_ns)
    return int(part * held_ns(row) / max(row.here_ns, 1))
