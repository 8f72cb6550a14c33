"""What the figures of a summary do not include: losses, what was left out by choice, and figures that are bounds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyio_trace.analysis.results.figures import Counted, Mapped, Unseen
from pyio_trace.analysis.scan.batch_rows import int64
from pyio_trace.analysis.summary.summary_sums import Sums
from pyio_trace.join.processes.process_names import label
from pyio_trace.units import counted

if TYPE_CHECKING:
    from pyio_trace.join.sources.facade import Log

#: The kind under which operations of imports are counted.
IMPORT = "import"


def unseen_of(log: Log, table: list[dict[str, Any]], sums: Sums, tasks_left_out: int, top: int) -> Unseen:
    """table: of processes; tasks_left_out: how many tasks were too many to look at; top: how many mapped files to
    name."""
    excluded: dict[str, tuple[int, int]] = {}
    counted_only: dict[str, Counted] = {}
    counted_calls = 0
    for row in log.counters().to_pylist():
        counted_calls += (row["calls"] or 0) * (row["why"] == "counted")
        if row["why"] == "counted" and row["layer"] in ("posix", "stdio"):
            known = counted_only.get(row["op_class"], Counted())
            counted_only[row["op_class"]] = Counted(
                int64(known.calls + (row["calls"] or 0)), int64(known.bytes + (row["bytes"] or 0)),
                int64(known.time + max(row["duration"] or 0, 0)),
            )  # fmt: skip
        if row["why"] == "excluded" and row["kind"] != IMPORT:
            calls, size = excluded.get(row["kind"], (0, 0))
            excluded[row["kind"]] = (calls + (row["calls"] or 0), size + (row["bytes"] or 0))
    notes = _notes(table)
    if sums.summed:
        notes.append(f"{sums.summed:,} transfers are in sums of like ones: which bytes they touched is not kept")
    notes += _bounds(sums, tasks_left_out)
    return Unseen(log.losses(), excluded, notes, _mapped(log, top), counted_only, int64(counted_calls))


def _bounds(sums: Sums, tasks_left_out: int) -> list[str]:
    """What is only a bound, since the log has too much of something to keep all of it in memory."""
    found = []
    if sums.read_ranges.may_exceed() or sums.write_ranges.may_exceed():
        found.append("distinct bytes are an upper bound: too many separate ranges to keep")
    if sums.places.paths_given_up:
        found.append("lines may have used more files than shown: too many to keep")
    if tasks_left_out:
        tasks = counted(tasks_left_out, "task is", "tasks are")
        found.append(f"{tasks} missing from tasks and from lines of tasks: too many to keep")
    return found


def _notes(table: list[dict[str, Any]]) -> list[str]:
    """What the processes say of themselves; of a run with several, which one says it, or how many do."""
    by_note: dict[str, list[dict[str, Any]]] = {}
    for process in table:
        if process["note"]:
            by_note.setdefault(process["note"], []).append(process)
    if len({(process["host"], process["pid"]) for process in table}) < 2:
        return sorted(by_note)
    return sorted(
        f"{label(own[0])}: {note}" if len(own) == 1 else f"{note} ({len(own):,} processes)"
        for note, own in by_note.items()
    )


def _mapped(log: Log, top: int) -> list[Mapped]:
    """The mapped files that were touched most."""
    files: dict[str, list[int]] = {}
    for row in log.mappings().to_pylist():
        if row["path"] is not None and (row["touched"] or row["written"]):
            sums = files.setdefault(row["path"], [0, 0, 0, 0])
            for at, name in enumerate(("mappings", "touched", "at_least", "written")):
                sums[at] += row[name] or 0
    largest = sorted(files.items(), key=lambda one: -one[1][1])[:top]
    return [Mapped(path, *sums) for path, sums in largest]
