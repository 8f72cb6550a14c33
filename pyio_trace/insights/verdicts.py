"""What took the time at lines whose findings say little of it, or that have none."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable

from pyio_trace.analysis.results.line_time import LineTime
from pyio_trace.insights.finding import Finding, Site
from pyio_trace.insights.line_walls import held_ns
from pyio_trace.insights.observed import Observed, site_of
from pyio_trace.insights.source_files import statement
from pyio_trace.light_dataclass import dataclass
from pyio_trace.units import number, size

#: Lines that take this share of the wall time get a verdict, at most so many of them.
_SHARE, _MOST = 0.05, 10
#: Findings are about a line if they say at least this share of its time.
_EXPLAINED = 0.3
#: A part of a line's time is named from this share on; with less I/O than that, there is nothing to gain from I/O.
_MOST_OF, _SOME = 0.5, 0.1
_NOTHING = ": nothing to gain from I/O"
_OWN = "its own code"
#: Calls of a socket, as a line may have them.
_SOCKETS = re.compile(rb"\.(send|sendall|sendto|sendmsg|recv|recv_into|recvfrom|recvmsg)\s*\(")
#: ns that a call on a pipe or a socket takes, about.
_CALL = 500
#: Bytes that a call on a pipe or a socket moves, at most, if the calls themselves are what takes the time.
_SMALL = 256
_IMPORT = "import "
_WAITS = {"sleep_ns": "sleeps", "lock_ns": "waits for a lock", "poll_ns": "waits for input",
          "wait_ns": "waits for a child process", "system_call_ns": "waits in a system call",
          "gil_ns": "waits for the GIL"}  # fmt: skip


@dataclass(frozen=True)
class Verdict:
    """A line without a finding.  held_ns: how long it kept a thread busy; text: doing what."""

    site: Site
    held_ns: int
    text: str


def verdicts(run: Observed, findings: Iterable[Finding]) -> list[Verdict]:
    """Verdicts on the lines that took at least _SHARE of the wall time, longest first; none without samples."""
    told: dict[tuple[str, int], int] = defaultdict(int)
    for one in findings:
        for place in one.sites:
            told[place.file, place.line] += run.wall_ns if not one.recoverable.is_time else one.recoverable_ns
    found = []
    counted = [row for row in run.counters if row["kind"] in ("pipe", "socket")]
    pipes, moved = (sum(row[name] or 0 for row in counted) for name in ("calls", "bytes"))
    for line, row in run.wall.items():
        site, held = site_of(line), held_ns(row)
        if site is None or not run.is_own(line) or held < _SHARE * run.wall_ns:
            continue
        if told[site.file, site.line] >= _EXPLAINED * held:
            continue
        text = _text(row)
        busy = min(row.cpu_ns + row.system_call_ns, held)
        is_own = text.endswith(_OWN + _NOTHING)
        if is_own and _SOCKETS.search(statement(site.file, site.line)):
            text = "computes, or sends and receives: sockets are not recorded"
        elif is_own and pipes * _CALL > _MOST_OF * busy and 0 < moved <= _SMALL * pipes:
            text = f"{number(pipes)} calls on pipes of {size(-(-moved // pipes))}: use blocks"
        if text.endswith(_NOTHING) and pipes * _CALL > _SOME * busy:
            text = f"{text.removesuffix(_NOTHING)}, or calls on pipes ({number(pipes)} were counted)"
        if told[site.file, site.line]:  # something is to be gained, though less than most of it
            text = text.removesuffix(_NOTHING)
        found.append(Verdict(site, held, text))
    return sorted(found, key=lambda one: -one.held_ns)[:_MOST]


def _text(row: LineTime) -> str:
    state, waiting = max(((name, getattr(row, name)) for name in _WAITS), key=lambda one: one[1])
    files = row.io_ns + row.sync_ns
    if files >= _MOST_OF * row.here_ns:
        return "reads and writes: no cheaper way is known"
    if waiting >= _MOST_OF * row.here_ns:
        other = row.meanwhile[0] if row.meanwhile and state != "sleep_ns" else None
        site = site_of(other.line) if other is not None and other.time_ns >= _MOST_OF * waiting else None
        if site is not None:
            return f"waits for work at {site}"
        inside = next((one for one in row.called if one.time_ns - one.cpu_ns >= _MOST_OF * waiting), None)
        return _WAITS[state] + (f", in {inside.function}" if inside is not None else "")
    called = row.called[0] if row.called and row.called[0].time_ns >= _MOST_OF * row.here_ns else None
    if called is not None and called.function.startswith(_IMPORT):
        return f"imports {called.function.removeprefix(_IMPORT)}"
    where = called.function if called is not None else _OWN
    return f"computes in {where}" + ("" if files > _SOME * row.here_ns else _NOTHING)
