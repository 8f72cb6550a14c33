"""Makes the page of a log."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from pyio_trace.insights.finding import Site
from pyio_trace.page.document import document
from pyio_trace.page.html import page
from pyio_trace.page.levels import Levels
from pyio_trace.page.parts import timeline_of_part
from pyio_trace.page.rows import Rows, lanes_of, longest, rows_of
from pyio_trace.page.shown import all_shown
from pyio_trace.page.source_lines import SourceLines
from pyio_trace.page.thread_names import names
from pyio_trace.page.timeline import Timeline, flows_of, timeline_of
from pyio_trace.pictures import pictures_of

if TYPE_CHECKING:
    from pyio_trace.analysis.results.figures import Summary
    from pyio_trace.insights.insights import Insights
    from pyio_trace.join.sources.facade import Log

#: Operations in a page: a browser opens so many in a second or two.
MOST_OPERATIONS = 1_000_000
#: Bytes of the timeline, deflated; a third more in the file.
MOST_BYTES = 10_500_000
#: Lines of source that go with the timeline.
_MOST_SOURCES = 300


class Served(NamedTuple):
    """page: the HTML file; levels: the parts of the run that it asks for, None: there is nothing to ask for; of:
    operations."""

    page: str
    levels: Levels | None
    of: int


class Report(NamedTuple):
    """parts: of the HTML file, in order; shown: operations on its timeline; of: so many that there are."""

    parts: Iterator[str]
    shown: int
    of: int


def report(
    log: Log,
    summary: Summary,
    insights: Insights | None,
    most: int = MOST_OPERATIONS,
    with_sources: bool = True,
    progress: Callable[[int], None] | None = None,
) -> Report:
    """most: operations in its timeline; progress: called with a number of rows read.  Raises what reading raises."""
    run = summary.run
    sources = SourceLines(run.start) if with_sources else None
    facts = document(log, summary, insights, sources)
    has_rows = run.mode != "profile"
    rows = rows_of(log, most if has_rows else 0, progress)
    rows, timeline = _encoded(rows, run.start, log)
    while timeline.size > MOST_BYTES and len(rows):
        fewer = longest(rows, int(len(rows) * 0.9 * MOST_BYTES / timeline.size))
        rows, timeline = _encoded(fewer, run.start, log)
    facts["operations"] = _about(rows, timeline, has_rows)
    facts["sources"] = _sources(rows, sources)
    pictures = pictures_of(log, progress)
    parts = page(f"{facts['run']['command']} · pyio_trace", facts, timeline, pictures)
    return Report(parts, len(rows), rows.of if has_rows else 0)


def _encoded(rows: Rows, start: int, log: Log) -> tuple[Rows, Timeline]:
    """(the rows that have lanes, their timeline)."""
    rows, lanes = lanes_of(rows)
    lane = np.repeat(np.arange(len(lanes)), [one.rows for one in lanes])
    lanes = [one._replace(name=name) for one, name in zip(lanes, names(rows, lane, len(lanes)), strict=True)]
    return rows, timeline_of(rows, lanes, start, flows_of(rows, lanes, log))


def served(
    log: Log,
    summary: Summary,
    insights: Insights | None,
    with_sources: bool = True,
    progress: Callable[[int], None] | None = None,
) -> Served:
    """The page for a server; see report()."""
    run = summary.run
    sources = SourceLines(run.start) if with_sources else None
    facts = document(log, summary, insights, sources)
    if run.mode == "profile" or not log.rows():
        return Served("".join(report(log, summary, insights, 0, with_sources, progress).parts), None, 0)
    levels = Levels(log, run.start, facts["span"], progress)
    part = levels.part(0, 0)
    timeline = timeline_of_part(part, run.start, log)
    of = sum(lane.of for lane in part.lanes)
    facts["operations"] = {"of": of, "shown": of, "longest_left_out": 0, "rest": [], "left_out": {}, "orphans": 0}
    facts["served"] = True
    facts["sources"] = _sources(part.rows, sources)
    parts = page(f"{facts['run']['command']} · pyio_trace", facts, timeline, pictures_of(log, progress), connects=True)
    return Served("".join(parts), levels, of)


def _about(rows: Rows, timeline: Timeline, has_rows: bool) -> dict[str, Any]:
    """What of the operations is in the page, and what is not."""
    return all_shown({
        "of": rows.of if has_rows else 0, "shown": len(rows), "longest_left_out": rows.longest_left_out,
        "rest": [asdict(one) for one in rows.rest[:100]] if has_rows else [], "left_out": timeline.left_out,
        "orphans": timeline.orphans,
    })  # fmt: skip


def _sources(rows: Rows, sources: SourceLines | None) -> dict[str, str]:
    """file:line:function -> the line, of the first lines of the program."""
    found: dict[str, str] = {}
    if sources is None or not rows.of:
        return found
    for text in rows.texts["site"][:_MOST_SOURCES].to_pylist():
        place, _, function = (text or "").rpartition(":")
        file, _, line = place.rpartition(":")
        if line.isdigit() and len(line) < 9:
            for _, source in sources.around(Site(file, int(line), function), 0):
                found[text] = source
    return all_shown(found)
