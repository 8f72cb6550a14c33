"""A fleet of logs as text of 80 columns."""

from __future__ import annotations

from collections.abc import Sequence

from pyio_trace.errors import printable
from pyio_trace.insights.fleet import FindingSums, Fleet, Sums, ranked
from pyio_trace.units import counted, percent, seconds, shortened, size

_WIDTH = 80


def fleet_lines(fleet: Fleet, top: int) -> list[str]:
    """top: rows of each section.  Safe to print on a terminal."""
    total = fleet.total
    heads = ((len(fleet.jobs), "job"), (len(fleet.users), "user"), (len(fleet.programs), "program"))
    lines = [
        f"{counted(total.logs, 'log')} of {', '.join(counted(*one) for one in heads)}",
        f"wall {seconds(total.wall_ns)}, of processes {seconds(total.process_ns)}; I/O {seconds(total.io_ns)}"
        f" ({_share(total)}), read {size(total.read)}, written {size(total.written)}",
    ]
    for name, sums in (("jobs", fleet.jobs), ("users", fleet.users), ("programs", fleet.programs)):
        lines += ["", *_section(name, list(sums.values()), top)]
    lines += ["", *_findings(fleet, top)]
    if fleet.dropped:
        lines += ["", f"There was no room for {fleet.dropped} jobs or programs, those with the least time."]
    if fleet.refused:
        lines += ["", f"UNREADABLE {counted(fleet.refused, 'log')}"]
        lines += [f"  {one}" for one in fleet.unreadable[:top]]
    return [printable(line) for line in lines]


def _share(sums: Sums) -> str:
    return percent(sums.io_ns / sums.process_ns if sums.process_ns else None)


def _section(name: str, sums: Sequence[Sums], top: int) -> list[str]:
    rows = ranked(sums)
    lines = [f"{name.upper():8} {'I/O':>9} {'of time':>8} {'logs':>6} {'read':>10} {'written':>10}  name"]
    for one in rows[:top]:
        figures = f"{'':8} {seconds(one.io_ns):>9} {_share(one):>8} {one.logs:>6} {size(one.read):>10}"
        head = f"{figures} {size(one.written):>10}  "
        lines.append(head + shortened(one.name, _WIDTH - len(head)))
    if len(rows) > top:
        lines.append(f"{'':8} and {len(rows) - top} more")
    return lines


def _findings(fleet: Fleet, top: int) -> list[str]:
    rows = by_seconds(fleet)
    unsearched = fleet.total.logs - fleet.searched
    lines = [f"{'FINDINGS':8} {'saves':>9} {'logs':>6}  finding, and where it is worst"]
    if not rows:
        lines = ["FINDINGS none"]
    for one in rows[:top]:
        head = f"{'':8} {seconds(one.ns):>9} {one.logs:>6}  "
        lines.append(head + shortened(f"{one.name}: {one.title}", _WIDTH - len(head)))
        lines.append(f"{'':26}{shortened(' in '.join(filter(None, (one.line, one.worst))), _WIDTH - 26)}")
    if len(rows) > top:
        lines.append(f"{'':8} and {len(rows) - top} more")
    if unsearched:
        lines.append(f"{'':8} not looked for in {counted(unsearched, 'log')}: pyio-trace insights LOG")
    return lines


def by_seconds(fleet: Fleet) -> list[FindingSums]:
    """The findings, the most time first."""
    return sorted(fleet.findings.values(), key=lambda one: (-one.ns, -one.logs, one.name))
