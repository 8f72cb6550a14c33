"""The summary as sections of text, independent of how they are drawn.

A section is a title with lines or a table; plain.py and terminal.py draw it.
Empty sections are left out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import field, replace

from pyio_trace.analysis.results import figures
from pyio_trace.errors import printable
from pyio_trace.light_dataclass import dataclass
from pyio_trace.report.wording import none_recorded
from pyio_trace.units import counted, number, percent, seconds, size


@dataclass(frozen=True)
class Table:
    """Headings, each with its alignment in front ("<" left, ">" right), and rows of texts.

    wide: the column that may be cut.
    keep: which part of a cut text stays: "end" for a path, "start" for a command.
    """

    columns: tuple[str, ...]
    rows: Sequence[tuple[str, ...]]
    wide: int
    keep: str = "end"


@dataclass(frozen=True)
class Section:
    """One part of the summary.  bad: it reports that something is missing or went wrong."""

    title: str
    lines: list[str] = field(default_factory=list)
    table: Table | None = None
    bad: bool = False


def sections(summary: figures.Summary, names: Sequence[str] | None = None) -> Iterator[Section]:
    """The sections of these names (of NAMES; None: all): the run, then the largest costs, then the fine print.  Safe to
    print on a terminal."""
    for name, make in _MAKERS.items():
        if (names is None or name in names) and (summary.run.calls or name not in _OF_CALLS):
            yield from map(_printable, make(summary))


def _printable(section: Section) -> Section:
    table = section.table
    if table is not None:
        table = replace(table, rows=[tuple(printable(cell) for cell in row) for row in table.rows])
    return replace(section, title=printable(section.title), lines=[*map(printable, section.lines)], table=table)


def _run(summary: figures.Summary) -> Iterator[Section]:
    run, time = summary.run, summary.time
    processes = len(summary.processes)
    lived = _bounded(time.wall_is, seconds(time.wall))
    share = f"{seconds(time.busy)} in calls, {_bounded(_INVERSE[time.wall_is], percent(time.share))} of "
    share += "the wall time" if processes <= 1 else f"the {lived} that {processes} processes lived"
    state = " so far; still running" if run.running else ""
    log = f"log {run.path}, {size(run.log_bytes)}"
    if run.mode != "trace":
        log += f", mode {run.mode}"
    elif run.bytes_per_operation is not None:
        log += f", {run.bytes_per_operation:.1f} B an operation"
    lines = [
        f"{_bounded(run.wall_is, seconds(run.wall))} wall time{state}, {share}",
        f"{counted(run.calls, 'call')} in {counted(max(processes, 1), 'process', 'processes')} on {run.host}; {log}",
    ]
    if run.selection:
        lines.insert(0, f"Selected {number(run.records)} of {counted(run.records_in_log, 'row')}: {run.selection}")
    if run.ring_since is not None:
        since = seconds(max(run.ring_since - run.start, 0))
        lines.append(f"The ring has overwritten earlier operations; the log is complete from {since} after the start.")
    if not run.calls:
        missing = any(one.is_a_process for one in summary.weaknesses)
        lines.append(none_recorded(bool(run.selection), missing))
    yield Section("pyio_trace: " + command(run.command), lines)


#: How a share is bounded if the time that it is a share of is bounded in this way.
_INVERSE = {"": "", "at most": "at least", "at least": "at most"}
_SIGNS = {"": "", "at most": "<=", "at least": ">="}


def _bounded(word: str, text: str) -> str:
    return f"{word} {text}" if word else text


def _layers(summary: figures.Summary) -> Iterator[Section]:
    rows = [
        (one.layer, number(one.count), seconds(one.busy), seconds(one.time), size(one.read), size(one.written))
        for one in summary.layers
    ]
    columns = ("<layer", ">calls", ">busy", ">summed", ">read", ">written")
    if rows:  # empty if the run only started programs
        yield Section("Layers", table=Table(columns, rows, 0))


def _parents(summary: figures.Summary) -> Iterator[Section]:
    """How sure the parents of POSIX calls are."""
    known = [f"{100 * one.share:.1f} % {one.link}" for one in summary.links if one.share is not None]
    lines = [f"parents known: {', '.join(known)}"] if known else []
    lines += [
        f"outside any span: {counted(one.count, 'call')}, {size(one.bytes)}"
        for one in summary.links
        if one.share is None
    ]
    if lines:
        yield Section("Spans", ["; ".join(lines)])


def _bytes(summary: figures.Summary) -> Iterator[Section]:
    volume = summary.bytes
    lines = []
    if volume.asked_read or volume.asked_written:
        lines.append(f"application asked for  {size(volume.asked_read)} read, {size(volume.asked_written)} written")
    moved = f"POSIX moved            {size(volume.posix_read)} read, {size(volume.posix_written)} written"
    lines.append(moved + (f", {size(volume.copied)} copied" if volume.copied else ""))
    if volume.stream_read or volume.stream_written:
        lines.append(f"C streams moved        {size(volume.stream_read)} read, {size(volume.stream_written)} written")
    at_most = "at most " if volume.distinct_filled else ""
    distinct = f"distinct bytes touched {at_most}{size(volume.distinct)}"
    if volume.distinct_read and volume.distinct_written:
        distinct += f" ({size(volume.distinct_read)} read, {size(volume.distinct_written)} written)"
    lines.append(distinct)
    overview = summary.overview
    unplaced = overview.read.unplaced + overview.written.unplaced if overview else 0
    if unplaced:
        lines.append(f"not in these           {size(unplaced)} moved at offsets that are not known")
    ratios = [
        f"{ratio:.2f} x for {what}"
        for ratio, what in ((volume.read_amplification, "reads"), (volume.write_amplification, "writes"))
        if ratio is not None
    ]
    if ratios:
        lines.append(f"amplification          {', '.join(ratios)} (moved / asked for)")
    metadata = summary.metadata
    lines.append(
        f"metadata               {counted(metadata.count, 'call')}, {seconds(metadata.time)}, "
        f"{percent(metadata.share)} of POSIX time"
    )
    imports = summary.imports
    if imports.count:
        figures_of = f"{counted(imports.count, 'call')}, {seconds(imports.time)}, {size(imports.bytes)} read"
        lines.append(f"imports (not above)    {figures_of}")
    yield Section("Bytes", lines)


def _files(summary: figures.Summary) -> Iterator[Section]:
    rows = [
        (seconds(f.time), number(f.opens), number(f.reads), size(f.read), number(f.writes), size(f.written), _name(f))
        for f in summary.files
    ]
    if rows:
        columns = (">time", ">opens", ">reads", ">read", ">writes", ">written", "<file")
        yield Section(_top("Files", len(rows), summary.files_count), table=Table(columns, rows, 6))


def _name(file: figures.File) -> str:
    if file.renamed_from is None:
        return file.path
    return f"{file.path} (inferred: written as {file.renamed_from.rpartition('/')[2]})"


def _sites(summary: figures.Summary) -> Iterator[Section]:
    rows = [(seconds(s.time), number(s.count), size(s.read), size(s.written), _submitted(s)) for s in summary.sites]
    if rows:
        columns = (">time", ">calls", ">read", ">written", "<line")
        yield Section(_top("Source lines", len(rows), summary.sites_count), table=Table(columns, rows, 4))


def _submitted(site: figures.Site) -> str:
    """The line, marked if other threads made calls on its behalf."""
    if not site.submitted:
        return site.site
    return f"{site.site} (submitted)" if site.submitted >= site.count else f"{site.site} (partly submitted)"


def _tasks(summary: figures.Summary) -> Iterator[Section]:
    tasks = summary.overview.tasks if summary.overview is not None else []
    rows = [
        (
            seconds(one.time_ns),
            number(one.count),
            seconds(one.time_ns // one.count),
            seconds(one.cpu_ns) if one.cpu_ns else "-",
            seconds(one.io_ns) if one.io_ns else "-",
            number(one.processes),
            one.name,
        )
        for one in tasks
    ]
    if rows:
        columns = (">time", ">tasks", ">mean", ">CPU", ">I/O", ">processes", "<task")
        yield Section("Tasks by time", table=Table(columns, rows, 6))


def _operations(summary: figures.Summary) -> Iterator[Section]:
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


def _sizes(summary: figures.Summary) -> Iterator[Section]:
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


def _errors(summary: figures.Summary) -> Iterator[Section]:
    rows = [(number(e.count), e.name, e.layer, e.op) for e in summary.errors]
    if rows:
        title = f"Failed calls ({number(summary.failed_count)})"
        yield Section(title, table=Table((">calls", "<error", "<layer", "<operation"), rows, 3))


def _in_flight(summary: figures.Summary) -> Iterator[Section]:
    rows = [(_process(one.name, one.pid), one.op, one.path or "", one.site or "") for one in summary.in_flight]
    if rows:
        what = "In flight" if summary.run.running else "In flight when their process ended"
        title = f"{what} ({number(summary.in_flight_count)})"
        yield Section(title, table=Table(("<process", "<operation", "<file", "<line"), rows, 2), bad=True)


def _processes(summary: figures.Summary) -> Iterator[Section]:
    if len(summary.processes) < 2:
        return
    shown = sorted(summary.processes, key=lambda p: -p.busy)[:20]
    rows = [
        (
            _SIGNS[p.wall_is] + seconds(p.wall),
            seconds(p.busy),
            number(p.calls),
            size(p.read),
            "?" if p.storage_read is None else size(p.storage_read),
            size(p.written),
            _process(p.name, p.pid)
            + (f" from {_line(p.site)}" if p.site else "")
            + (f", {p.ended}" if p.ended != "exit 0" else ""),
        )
        for p in shown
    ]
    columns = (">wall", ">I/O", ">calls", ">read", ">storage", ">written", "<process")
    yield Section(_top("Processes", len(rows), len(summary.processes)), table=Table(columns, rows, 6, "start"))


def _process(name: str | None, pid: int | None) -> str:
    """ "DataLoader 0, worker 1 (4711)"; "?" if the log does not know it."""
    return f"{name or 'process'} ({pid})" if pid is not None else "?"


def _line(site: str) -> str:
    """FILE:LINE of a site, without folder and function."""
    place = site.rpartition(":")[0]
    return place.rpartition("/")[2] or site


def _unseen(summary: figures.Summary) -> Iterator[Section]:
    lines = [line for one in summary.weaknesses for line in (one.text, *(f"  {detail}" for detail in one.details))]
    if lines:
        yield Section("Not seen", lines, bad=True)


def _cost(summary: figures.Summary) -> Iterator[Section]:
    cost = summary.cost
    told = f"about {seconds(cost.time)}, {percent(cost.share)} of the wall time (estimated)"
    tool = summary.run.tool
    yield Section("Cost of tracing", [f"by {tool}: its cost is not in its log" if tool else told])


def _top(what: str, shown: int, there: int) -> str:
    return f"{what} by time" if shown >= there else f"{what} by time (top {shown} of {number(there)})"


def command(argv: list[str]) -> str:
    """A command as one line, unquoted, for display."""
    return " ".join(" ".join(argv).split()) or "(command not known)"


_MAKERS: dict[str, Callable[[figures.Summary], Iterator[Section]]] = {
    "run": _run, "layers": _layers, "spans": _parents, "bytes": _bytes, "files": _files, "lines": _sites,
    "tasks": _tasks,
    "operations": _operations, "sizes": _sizes, "errors": _errors, "in-flight": _in_flight, "processes": _processes,
    "unseen": _unseen, "cost": _cost,
}  # fmt: skip
#: What the sections are called on the command line, in their order.
NAMES = tuple(_MAKERS)
#: Sections that say nothing where no call was recorded.
_OF_CALLS = ("layers", "spans", "bytes", "files", "lines", "tasks", "operations", "sizes")
