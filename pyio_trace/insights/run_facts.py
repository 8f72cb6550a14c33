"""A run in a few figures, as a fleet of thousands needs them; kept in a Parquet log when it is packed at its end.

A log comes from anywhere: what does not have the types below is not believed, and
the log is summed up again.
"""

from __future__ import annotations

import json
import os
from dataclasses import asdict, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyio_trace.errors import LogError
from pyio_trace.light_dataclass import dataclass

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyio_trace.analysis.results.figures import Summary
    from pyio_trace.insights.finding import Finding
    from pyio_trace.insights.insights import Insights
    from pyio_trace.join.sources.facade import Log

#: The name of the attachment.
NAME = "facts"
#: To be raised when a figure comes to mean something else.
_VERSION = 1
_LARGEST = 1 << 16
#: Findings that are kept, the most time first, and characters of a text.
_MOST, _LONGEST = 10, 300
#: Rows of a log from which on no findings are looked for: it would take minutes.
SEARCHED = 2_000_000


@dataclass(frozen=True)
class FoundFact:
    """A finding: slug, title, line (file:line, "" for none) and ns that could be saved."""

    slug: str
    title: str
    line: str
    ns: int


@dataclass(frozen=True)
class RunFacts:
    """One log.  Times in ns, start since the epoch; sizes in bytes.

    job: of the batch system, or the id of the launch, "" without either; program: what a person calls the first
    process; wall_ns: of the run; process_ns: of its processes, summed; io_ns: of that, in
    reading, writing, metadata and sync; searched: whether findings were looked for.
    """

    run: str
    host: str
    job: str
    program: str
    start: int
    rows: int
    processes: int
    wall_ns: int
    process_ns: int
    io_ns: int
    read: int
    written: int
    searched: bool
    findings: list[FoundFact]


def facts_of(summary: Summary, insights: Insights | None, rows: Sequence[dict[str, Any]]) -> RunFacts:
    """rows: of the process table."""
    overview = summary.overview
    splits = [one.split for one in overview.processes] if overview is not None else []
    first = next((row for row in rows if row["parent"] is None), None)
    moved = [(layer.read, layer.written) for layer in summary.layers if layer.layer in ("posix", "stdio")]
    return RunFacts(
        run=summary.run.run[:_LONGEST], host=summary.run.host[:_LONGEST],
        job=next((name[:_LONGEST] for row in rows if (name := row["job"] or row["job_run"])), ""),
        program="" if first is None else _program(first)[:_LONGEST], start=summary.run.start, rows=summary.run.records,
        processes=len(splits), wall_ns=max(summary.run.wall, 0), process_ns=sum(split.wall_ns for split in splits),
        io_ns=sum(split.io_ns + split.sync_ns for split in splits), read=sum(read for read, _ in moved),
        written=sum(written for _, written in moved), searched=insights is not None,
        findings=[_found(one) for one in insights.findings[:_MOST]] if insights is not None else [],
    )  # fmt: skip


def _program(row: dict[str, Any]) -> str:
    """What a process runs; the name of a rank is only its number."""
    from pyio_trace.join.processes.process_names import RANK
    from pyio_trace.values import program_of

    name = str(row["process_name"] or "")
    if row["process_kind"] != RANK:
        return name
    words = list(row["argv"])
    ran = program_of(words[1:])[1] if row["version"] else (words or [""])[0]
    return os.path.basename(ran) or name


def _found(finding: Finding) -> FoundFact:
    site = finding.sites[0] if finding.sites else None
    line = "" if site is None else f"{site.file}:{site.line}"
    time = finding.recoverable_ns if finding.recoverable.is_time else 0
    return FoundFact(finding.slug, finding.title[:_LONGEST], line[-_LONGEST:], max(time, 0))


def attachments_of(summary: Summary, insights: Insights | None, rows: Sequence[dict[str, Any]]) -> dict[str, str]:
    """What to attach to the log of a run that has ended."""
    if summary.run.selection or summary.run.running:
        return {}
    return {NAME: json.dumps({"version": _VERSION, **asdict(facts_of(summary, insights, rows))})}


def facts_in(path: Path) -> RunFacts | None:
    """The facts that a Parquet log keeps, from its footer alone; None: none that can be used.

    Raises LogError: log-truncated, log-unreadable.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    from pyio_trace.log.parquet_log import ATTACHMENT, for_arrow

    try:
        footer = pq.read_metadata(for_arrow(path, "rb"))
        text = (footer.metadata or {}).get(ATTACHMENT + NAME.encode())
    except ValueError:
        raise LogError("log-truncated", f"{path}: cut off or damaged; copy or pack the log again") from None
    except (pa.ArrowException, OSError) as error:
        raise LogError("log-unreadable", f"{path}: cannot be read: {str(error).partition(chr(10))[0]}") from None
    if text is None or len(text) > _LARGEST:
        return None
    try:
        found = _made(json.loads(text))
    except (ValueError, TypeError, KeyError, RecursionError):
        return None
    return found if found.rows == footer.num_rows else None


def _made(kept: Any) -> RunFacts:
    """Raises ValueError, TypeError, KeyError."""
    if kept["version"] != _VERSION or len(kept["findings"]) > _MOST:
        raise ValueError
    findings = [_checked(FoundFact, one) for one in kept["findings"]]
    found: RunFacts = _checked(RunFacts, kept | {"findings": findings})
    return found


def _checked(kind: Any, values: dict[str, Any]) -> Any:
    given = {field.name: values[field.name] for field in fields(kind)}
    wanted = {field.name: str(field.type) for field in fields(kind)}
    for name, value in given.items():
        if type(value).__name__ != wanted[name].partition("[")[0]:
            raise ValueError(name)
        if isinstance(value, str) and len(value) > _LONGEST:
            raise ValueError(name)
        if isinstance(value, int) and not 0 <= value < 1 << 62:
            raise ValueError(name)
    return kind(**given)


def facts_from(log: Log) -> RunFacts:
    """The facts of a log whose rows have to be read.  Raises what reading it raises."""
    from pyio_trace.insights import registry
    from pyio_trace.insights.insights import find
    from pyio_trace.insights.settings import Settings

    rows = log.processes().to_pylist()
    if log.rows() > SEARCHED:
        from pyio_trace.analysis.summary.kept_summary import kept_summary
        from pyio_trace.analysis.summary.summarize import summarize

        return facts_of(kept_summary(log) or summarize(log), None, rows)
    summary, insights = find(log, registry.found(third_party=False), Settings())
    return facts_of(summary, insights, rows)
