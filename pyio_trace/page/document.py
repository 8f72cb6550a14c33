"""What the page says in words and figures: the facts of the summary and the findings, as JSON for web/src.

Sentences and the choice of rows are those of the end of a run and of `summary`
(pyio_trace/report).  Times are ns, sizes bytes, moments ns since the run began.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from pyio_trace.analysis.results.figures import Summary
from pyio_trace.analysis.results.overview_figures import FileGroup
from pyio_trace.insights.finding import MOTIFS, Finding, Site
from pyio_trace.page.shown import all_shown
from pyio_trace.page.source_lines import SourceLines
from pyio_trace.report.bars import LOOKS, states_of
from pyio_trace.report.end_text import answer, best_of, nothing_found
from pyio_trace.report.findings_text import cost_of, is_notable, notes, place_of
from pyio_trace.report.overview_text import data_rows, kind_name, line_rows, moved_by, state_lines
from pyio_trace.report.step_lines import step_lines
from pyio_trace.report.wording import relative, short_line
from pyio_trace.units import counted, seconds

if TYPE_CHECKING:
    from pyio_trace.insights.insights import Insights
    from pyio_trace.join.sources.facade import Log

#: Rows of a table in the page.
MOST_ROWS, MOST_PROCESSES = 500, 2000
#: Findings in the page.
MOST_FINDINGS = 300
#: A step line is cut where it is longer.
_STEP = 200


def document(log: Log, summary: Summary, insights: Insights | None, sources: SourceLines | None) -> dict[str, Any]:
    """All of it; insights: None: nobody looked for findings; sources: None: no source lines are to be in the page."""
    run, overview = summary.run, summary.overview
    known = overview is not None and bool(run.calls or overview.wall)
    lines = line_rows(overview, run.folder, run.wall) if overview is not None and known else []
    files = overview.files if overview is not None else []
    found: dict[str, Any] = {
        "run": _run(summary),
        "answer": _answer(summary, insights),
        "kinds": _kinds(summary) if known else [],
        "steps": step_lines(summary, _STEP),
        "data": data_rows(summary) if run.calls else [],
        "storage": _storage(summary),
        "sampled": bool(overview is not None and overview.wall),
        "lines": [_line(*row) for row in lines[:MOST_ROWS]],
        "files": [_file(one, run.folder) for one in files[:MOST_ROWS]],
        "more": {"lines": max(len(lines) - MOST_ROWS, 0), "files": max(len(files) - MOST_ROWS, 0)},
        "findings": [*_findings(insights, run.folder, sources)] if insights is not None else None,
        "notes": [*_notes(insights)] if insights is not None else [],
        "not_seen": [
            {"brief": one.brief or "", "text": one.text, "details": one.details[:100]} for one in summary.weaknesses
        ],
        "processes": [*_processes(log, summary)],
        "processes_more": max(len(log.processes()) - MOST_PROCESSES, 0),
        "cost": {"time": summary.cost.time, "share": summary.cost.share},
    }
    found["span"] = _span(summary.run.wall, found["processes"])
    return all_shown(found)


def _span(wall: int, processes: list[dict[str, Any]]) -> tuple[int, int]:
    """From where to where the timeline reaches.  A log may lie about times: what is far outside of the run can be
    reached in a file, but is not what one sees first."""
    last = max([wall, 1, *(one["end"] for one in processes if one["end"] is not None)])
    first = min([0, *(one["begin"] for one in processes)])
    return max(first, -last), min(last, 10 * max(wall, 1))


def _run(summary: Summary) -> dict[str, Any]:
    run, overview = summary.run, summary.overview
    words = run.command
    if len(words) > 1 and os.path.basename(words[0]).startswith(("python", "pypy")):
        words = [os.path.basename(words[1]), *words[2:]]
    processes = max(len(overview.processes) if overview is not None else 0, 1)
    calls = run.calls + (0 if run.selection else summary.unseen.counted_calls)
    return {
        "command": " ".join(words)[:400] or "(command not known)", "argv": " ".join(run.command), "host": run.host,
        "start": run.start // 1_000_000, "wall": run.wall, "wall_is": run.wall_is, "running": run.running,
        "mode": run.mode, "processes": processes, "cores": overview.cores if overview is not None else None,
        "calls": calls, "records": run.records, "log": os.path.basename(run.path), "log_bytes": run.log_bytes,
        "tool": run.tool, "folder": run.folder, "run": run.run, "states": state_lines(summary),
    }  # fmt: skip


def _answer(summary: Summary, insights: Insights | None) -> list[str]:
    """The verdict, as the end of a run has it."""
    run, best = summary.run, best_of(insights)
    found = answer(summary)
    if best is not None and not best.recoverable.is_time:
        found = [f"{best.title}.", *found]
    if insights is not None and best is None:
        found += nothing_found(summary) if run.calls else []
    return found or state_lines(summary)[:1] or [f"{counted(run.calls, 'call')} in {seconds(run.wall)}."]


def _kinds(summary: Summary) -> list[dict[str, Any]]:
    """The bars: states by name, ns, and what stands below."""
    overview = summary.overview
    assert overview is not None
    names = {one.kind: one.name for one in overview.processes}
    found = []
    for kind in overview.kinds:
        split = kind.split
        states = [(state, LOOKS[state][0], time) for state, time in states_of(split).items() if time]
        beside = (("I/O", split.beside_ns), ("sync", split.beside_sync_ns), ("locks", split.beside_lock_ns))
        found.append(
            {
                "name": kind_name(kind, names.get(kind.kind, kind.kind)),
                "wall": split.wall_ns,
                "states": states,
                "beside": [(f"{what} in other threads", time) for what, time in beside if time],
                "cpu": split.cpu_ns,
            }
        )
    return found


def _storage(summary: Summary) -> dict[str, int] | None:
    """Of the bytes that were read, how many came from storage at most; None: not known, or next to nothing."""
    overview, read = summary.overview, moved_by(summary).read
    if overview is None or overview.storage.read is None or overview.storage.processes or not read:
        return None
    if overview.storage.read * 100 < read:
        return None
    return {"read": read, "storage": min(overview.storage.read, read)}


def _line(time: int, leaf: int, what: str, line: str) -> dict[str, Any]:
    place = short_line(line)
    text = what.removeprefix(place).lstrip(": ")
    return {"time": time, "io": leaf, "place": place, "what": text, "find": find(line)}


def _file(one: FileGroup, folder: str) -> dict[str, Any]:
    name = relative(one.pattern, folder)
    if one.renamed_to is not None:
        name += f" → {os.path.basename(one.renamed_to)}"
    return {
        "time": one.time_ns, "files": one.files, "opens": one.opens, "read": one.read, "written": one.written,
        "metadata": one.metadata_calls, "slow": one.slow_calls, "name": name, "role": one.role, "find": one.pattern,
    }  # fmt: skip


def find(line: str) -> str:
    """What finds the operations of a line in the page: FILE:LINE, with the folder above it."""
    place, colon, _ = line.rpartition(":")
    if not colon or not place.rpartition(":")[2].isdigit():
        return ""
    return "/".join(place.split("/")[-2:])


def _notes(insights: Insights) -> Iterator[str]:
    more = len(insights.findings) - MOST_FINDINGS
    if more > 0:
        yield f"{counted(more, 'further finding')} with less time each: pyio-trace insights has all of them."
    yield from notes(insights)


def _findings(insights: Insights, folder: str, sources: SourceLines | None) -> Iterator[dict[str, Any]]:
    for one in insights.findings[:MOST_FINDINGS]:
        yield {
            "slug": one.slug, "severity": one.severity, "title": one.title, "notable": is_notable(one),
            "time": one.recoverable_ns if one.recoverable.is_time and one.severity != "ok" else None,
            "bound": one.recoverable.bound, "cost": cost_of(one), "how": one.recoverable.how,
            "of_wall": one.recoverable.of_wall_ns, "place": place_of(one),
            "sites": [_site(site, sources) for site in one.sites[:5]],
            "files": [relative(name, folder) for name in one.files[:20]],
            "evidence": [evidence.text for evidence in one.evidence],
            "confidence": _confidence(one), "motif": MOTIFS.get(one.motif or "", "") if one.motif != "steady" else "",
            **_remedy(one),
        }  # fmt: skip


def _site(site: Site, sources: SourceLines | None) -> dict[str, Any]:
    text = f"{site.file}:{site.line}:{site.function}"
    lines = sources.around(site) if sources is not None else []
    return {"text": text, "place": str(site), "line": site.line, "find": find(text), "source": lines}


def _confidence(one: Finding) -> str:
    reasons = [reason for reason in (one.confidence.why, *one.confidence.lowered_by) if reason]
    return f"{one.confidence.level}: {'; '.join(reasons)}" if reasons else one.confidence.level


def _remedy(one: Finding) -> dict[str, Any]:
    if one.remedy is None:
        return {"remedy": "", "before": [], "after": []}
    return {
        "remedy": " ".join(one.remedy.text.split()),
        "before": one.remedy.before.split("\n") if one.remedy.before else [],
        "after": one.remedy.after.split("\n") if one.remedy.after else [],
    }


def _processes(log: Log, summary: Summary) -> Iterator[dict[str, Any]]:
    """The process table, with the figures of the summary."""
    start = summary.run.start
    by_index = {one.index: one for one in summary.processes}
    of_kind = {one.index: one for one in summary.overview.processes} if summary.overview is not None else {}
    columns = [
        "index", "pid", "parent", "host", "begin", "end", "script_begin", "ended", "argv", "process_name", "site",
        "global_rank", "followed",
    ]  # fmt: skip
    for row in log.processes().select(columns).slice(0, MOST_PROCESSES).to_pylist():
        index = row["index"]
        figures, named = by_index.get(index), of_kind.get(index)
        began = row["begin"] - start
        yield {
            "index": index, "pid": row["pid"], "parent": row["parent"], "host": row["host"], "rank": row["global_rank"],
            "begin": began, "end": None if row["end"] is None else row["end"] - start,
            "script": None if row["script_begin"] is None else row["script_begin"] - start,
            "name": (named.name if named else "") or row["process_name"] or " ".join(row["argv"])[:200] or "process",
            "argv": " ".join(row["argv"])[:1000], "ended": row["ended"], "site": short_line(row["site"] or ""),
            "find": find(row["site"] or ""), "followed": row["followed"],
            **({} if figures is None else {
                "wall": figures.wall, "busy": figures.busy, "calls": figures.calls, "read": figures.read,
                "written": figures.written, "storage": figures.storage_read,
            }),
        }  # fmt: skip
