"""The summary in words and figures, before anyone has decided how it is drawn.

A section is a title with lines or with a table; plain.py and terminal.py draw
them.  Sections without anything to say are left out.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from pyio_trace.analysis import facts
from pyio_trace.errors import printable
from pyio_trace.report.losses import unseen_lines
from pyio_trace.report.units import counted, number, percent, seconds, size


@dataclass(frozen=True)
class Table:
    """Columns ("<" left, ">" right before the heading) and rows of texts; `wide` is the column that may be cut, to
    its end (of a path it says more) or its "start" (of a command)."""

    columns: tuple[str, ...]
    rows: Sequence[tuple[str, ...]]
    wide: int
    keep: str = "end"


@dataclass(frozen=True)
class Section:
    """One part of the summary; bad: it says that something is missing or went wrong."""

    title: str
    lines: list[str] = field(default_factory=list)
    table: Table | None = None
    bad: bool = False


def sections(summary: facts.Summary) -> Iterator[Section]:
    """All that there is to say, the run first, then the largest costs, then the fine print; fit for a terminal."""
    return map(_printable, _sections(summary))


def _printable(section: Section) -> Section:
    table = section.table
    if table is not None:
        table = replace(table, rows=[tuple(printable(cell) for cell in row) for row in table.rows])
    return replace(section, title=printable(section.title), lines=[*map(printable, section.lines)], table=table)


def _sections(summary: facts.Summary) -> Iterator[Section]:
    yield _run(summary)
    if summary.run.calls:
        yield from _layers(summary)
        yield from _parents(summary)
        yield _bytes(summary)
        yield from _files(summary)
        yield from _sites(summary)
        yield from _operations(summary)
        yield from _sizes(summary)
    yield from _errors(summary)
    yield from _in_flight(summary)
    yield from _processes(summary)
    lines = unseen_lines(summary.unseen)
    if lines:
        yield Section("Not seen", lines, bad=True)
    yield _cost(summary)


def _run(summary: facts.Summary) -> Section:
    run, time = summary.run, summary.time
    processes = len(summary.processes)
    share = f"{seconds(time.busy)} in I/O, {percent(time.share)} of "
    share += "the wall time" if processes <= 1 else f"the {seconds(time.wall)} that {processes} processes lived"
    state = " so far; still running" if run.running else ""
    log = f"log {run.path}, {size(run.log_bytes)}"
    if run.mode != "trace":
        log += f", mode {run.mode}"
    elif run.bytes_per_operation is not None:
        log += f", {run.bytes_per_operation:.1f} B an operation"
    lines = [
        f"{seconds(run.wall)} wall time{state}, {share}",
        f"{counted(run.calls, 'call')} in {counted(max(processes, 1), 'process', 'processes')} on {run.host}; {log}",
    ]
    if run.ring_since is not None:
        since = seconds(max(run.ring_since - run.start, 0))
        lines.append(f"The ring wrote over earlier operations; it is whole from {since} after the start on.")
    if not run.calls:
        lines.append("No operation was recorded.")
    return Section("pyio_trace: " + command(run.command), lines)


def _layers(summary: facts.Summary) -> Iterator[Section]:
    rows = [
        (one.layer, number(one.count), seconds(one.busy), seconds(one.time), size(one.read), size(one.written))
        for one in summary.layers
    ]
    columns = ("<layer", ">calls", ">busy", ">summed", ">read", ">written")
    if rows:  # none: all it did was to start programs
        yield Section("Layers", table=Table(columns, rows, 0))


def _parents(summary: facts.Summary) -> Iterator[Section]:
    """How sure it is in which span a POSIX call happened."""
    known = [f"{100 * one.share:.1f} % {one.link}" for one in summary.links if one.share is not None]
    lines = [f"parents known: {', '.join(known)}"] if known else []
    lines += [
        f"outside any span: {counted(one.count, 'call')}, {size(one.bytes)}"
        for one in summary.links
        if one.share is None
    ]
    if lines:
        yield Section("Spans", ["; ".join(lines)])


def _bytes(summary: facts.Summary) -> Section:
    figures = summary.bytes
    lines = []
    if figures.asked_read or figures.asked_written:
        lines.append(f"application asked for  {size(figures.asked_read)} read, {size(figures.asked_written)} written")
    moved = f"POSIX moved            {size(figures.posix_read)} read, {size(figures.posix_written)} written"
    lines.append(moved + (f", {size(figures.copied)} copied" if figures.copied else ""))
    if figures.stream_read or figures.stream_written:
        lines.append(f"C streams moved        {size(figures.stream_read)} read, {size(figures.stream_written)} written")
    distinct = f"distinct bytes touched {size(figures.distinct)}"
    if figures.distinct_read and figures.distinct_written:
        distinct += f" ({size(figures.distinct_read)} read, {size(figures.distinct_written)} written)"
    lines.append(distinct)
    ratios = [
        f"{ratio:.2f} x for {what}"
        for ratio, what in ((figures.read_amplification, "reads"), (figures.write_amplification, "writes"))
        if ratio is not None
    ]
    if ratios:
        lines.append(f"amplification          {', '.join(ratios)} (bytes moved below a call / bytes it asked for)")
    metadata = summary.metadata
    lines.append(
        f"metadata               {counted(metadata.count, 'call')}, {seconds(metadata.time)}, "
        f"{percent(metadata.share)} of POSIX time"
    )
    imports = summary.imports
    if imports.count:
        figures_of = f"{counted(imports.count, 'call')}, {seconds(imports.time)}, {size(imports.bytes)} read"
        lines.append(f"imports, kept apart    {figures_of}")
    return Section("Bytes", lines)


def _files(summary: facts.Summary) -> Iterator[Section]:
    rows = [
        (seconds(f.time), number(f.opens), number(f.reads), size(f.read), number(f.writes), size(f.written), f.path)
        for f in summary.files
    ]
    if rows:
        columns = (">time", ">opens", ">reads", ">read", ">writes", ">written", "<file")
        yield Section(_top("Files", len(rows), summary.files_count), table=Table(columns, rows, 6))


def _sites(summary: facts.Summary) -> Iterator[Section]:
    rows = [(seconds(s.time), number(s.count), size(s.read), size(s.written), s.site) for s in summary.sites]
    if rows:
        columns = (">time", ">calls", ">read", ">written", "<line")
        yield Section(_top("Source lines", len(rows), summary.sites_count), table=Table(columns, rows, 4))


def _operations(summary: facts.Summary) -> Iterator[Section]:
    rows = [
        (
            seconds(o.time),
            number(o.count),
            seconds(o.time // o.count),
            size(o.moved),
            number(o.errors),
            o.layer,
            o.op,
        )
        for o in summary.operations
    ]
    if rows:
        columns = (">time", ">calls", ">mean", ">bytes", ">errors", "<layer", "<operation")
        yield Section("Operations by time", table=Table(columns, rows, 6))


def _sizes(summary: facts.Summary) -> Iterator[Section]:
    rows = [
        (label, number(reads), number(writes))
        for (label, reads), (_, writes) in zip(summary.reads.bins, summary.writes.bins, strict=True)
        if reads or writes
    ]
    if not rows:
        return
    lines = [
        f"most common {what}: " + ", ".join(f"{number(one)} B x {number(count)}" for one, count in sizes.common)
        for what, sizes in (("reads", summary.reads), ("writes", summary.writes))
        if sizes.common
    ]
    yield Section("Access sizes (POSIX)", lines, Table(("<bytes", ">reads", ">writes"), rows, 0))


def _errors(summary: facts.Summary) -> Iterator[Section]:
    rows = [(number(e.count), e.name, e.layer, e.op) for e in summary.errors]
    if rows:
        title = f"Failed calls ({number(summary.failed_count)})"
        yield Section(title, table=Table((">calls", "<error", "<layer", "<operation"), rows, 3))


def _in_flight(summary: facts.Summary) -> Iterator[Section]:
    rows = [
        (str(one.pid if one.pid is not None else "?"), one.op, one.path or "", one.site or "")
        for one in summary.in_flight
    ]
    if rows:
        what = "In flight" if summary.run.running else "In flight when their process ended"
        title = f"{what} ({number(summary.in_flight_count)})"
        yield Section(title, table=Table((">pid", "<operation", "<file", "<line"), rows, 2), bad=True)


def _processes(summary: facts.Summary) -> Iterator[Section]:
    if len(summary.processes) < 2:
        return
    shown = sorted(summary.processes, key=lambda p: -p.busy)[:20]
    rows = [
        (
            str(p.pid),
            seconds(p.wall),
            seconds(p.busy),
            percent(p.share),
            number(p.calls),
            size(p.read),
            size(p.written),
            p.ended,
            _line(p.site),
            command(p.command),
        )
        for p in shown
    ]
    columns = (">pid", ">wall", ">I/O", ">share", ">calls", ">read", ">written", "<ended", "<from", "<command")
    yield Section(_top("Processes", len(rows), len(summary.processes)), table=Table(columns, rows, 9, "start"))


def _line(site: str | None) -> str:
    """FILE:LINE of a site, short enough to stand beside something."""
    if site is None:
        return ""
    place = site.rpartition(":")[0]
    return place.rpartition("/")[2] or site


def _cost(summary: facts.Summary) -> Section:
    cost = summary.cost
    return Section(
        "Cost of tracing", [f"about {seconds(cost.time)}, {percent(cost.share)} of the wall time (estimated)"]
    )


def _top(what: str, shown: int, there: int) -> str:
    return f"{what} by time" if shown >= there else f"{what} by time (top {shown} of {number(there)})"


def command(argv: list[str]) -> str:
    """A command line in one line, for the eye: without quoting."""
    return " ".join(" ".join(argv).split()) or "(command not known)"
