"""A line spends a good part of the run in a library function that computes on what is read or written.

The function unpacks, decodes, parses, formats or compresses. Calls on files do not
show that time; samples do (`--sample`, on by default). Where a cheaper way is
known, the finding names it: a lower level, a faster library, a smaller size, fewer
columns, another order.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from pyio_trace.insights import sql
from pyio_trace.insights.finding import Confidence, Evidence, Finding, Recoverable
from pyio_trace.insights.function_words import Costly, costly
from pyio_trace.insights.line_walls import held_ns
from pyio_trace.insights.observed import site_of
from pyio_trace.insights.rule import Limit, Rule
from pyio_trace.insights.source_files import content
from pyio_trace.units import seconds

if TYPE_CHECKING:
    from pyio_trace.analysis.results.line_time import LineTime
    from pyio_trace.insights.observed import Observed


def find(run: Observed, limits: Mapping[str, float]) -> Iterator[Finding]:
    for line, row in run.wall.items():
        if not run.is_own(line) or held_ns(row) < limits["share"] * run.wall_ns:
            continue
        for what, time in _known(row):
            part = int(min(time, row.here_ns) * held_ns(row) / max(row.here_ns, 1))
            if part >= limits["share"] * run.wall_ns:
                yield _finding(run, line, what, part, row)


def _known(row: LineTime) -> list[tuple[Costly, int]]:
    """The entries for what a line calls, with the time of their functions."""
    times: dict[Costly, int] = defaultdict(int)
    for one in row.called:
        if (what := costly(one.function)) is not None:
            times[what] += one.time_ns
    return list(times.items())


def _finding(run: Observed, line: str, what: Costly, time: int, row: LineTime) -> Finding:
    names = [one.function for one in row.called if costly(one.function) is what]
    site = site_of(line)
    text = f"{', '.join(names[:3])} computed for {seconds(time)} there; "
    text += f"the line took {seconds(row.time_ns)}, {seconds(row.io_ns)} of it in I/O."
    return Finding(
        title=f"{what.does} takes {time / max(run.wall_ns, 1):.0%} of the run",
        recoverable_ns=time,
        recoverable=Recoverable("the time in these functions, from samples; a cheaper way takes some of it", "upper",
                                run.wall_ns),
        evidence=[Evidence(text, {"time_ns": time, "line_ns": row.time_ns, "io_ns": row.io_ns})],
        query=sql.samples_of(line),
        remedy=what.remedy_for(
            content(site.file) if site is not None else b"",
            run.calls.where_line(line).paths(),
            row.io_ns / max(row.time_ns, 1),
        ),
        sites=[] if site is None else [site],
        confidence=Confidence(0.7, "samples say where the time is; how much a cheaper way takes is not known"),
        severity="warning",
    )  # fmt: skip


RULE = Rule(
    "computing",
    find,
    limits={"share": Limit(0.05, "of the wall time, at least")},
    general=True,
    untried="needs the program: only its own data show what another way takes",
)
