"""The first screen of the summary: 80 columns, at most 40 lines.

What ran and what to conclude, time by kind of process, data, lines, files, what
weakens the answer, what tracing cost.  Everything else is in the sections of
sections.py.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import partial
from typing import NamedTuple, TypeVar

from pyio_trace.analysis.results.figures import Summary
from pyio_trace.analysis.results.overview_figures import BASE, PER_BYTE, FileGroup, KindTime, Line, Overview, SlowReads
from pyio_trace.errors import printable
from pyio_trace.join.references.own_code import library_of
from pyio_trace.report.bars import LOOKS, Letters, bar, legend, states_of
from pyio_trace.report.conclusions import conclusions, is_part
from pyio_trace.report.step_lines import step_lines
from pyio_trace.report.wall_lines import wall_lines, wall_rows
from pyio_trace.report.wording import fitting, none_recorded, relative, short_line, waits
from pyio_trace.units import counted, number, seconds, shortened, significant, size

T = TypeVar("T")

#: Files that have one line for all of them.
_IN_ONE_LINE = {"temporary": "temporary files", "shared-memory": "shared memory (/dev/shm)"}
_AMOUNTS = ("time_ns", "files", "opens", "read", "written")

WIDTH, HEIGHT = 80, 40
#: Most rows of LINES, and of the other sections: the first that fit.  A line of the program says more than a file.
_ROWS = ((5, 5), (5, 4), (5, 3), (4, 3), (4, 2), (3, 2), (3, 1), (2, 1), (1, 1))
_NAME, _BAR = 22, 45
_WHO = "pyio_trace: "  #: the summary follows what the program says
_WHAT = WIDTH - 28  #: of LINES
_FILE = WIDTH - 51  #: of FILES
KINDS = 3  #: of processes
_STATES, _LEAST_STATE = 5, 0.005
_LEAST_MORE = 1 << 20  #: bytes read beyond those asked for that are worth a line
_LEAST_FETCHED = 16 << 20  #: bytes fetched from storage that are more than imports and mapped libraries explain
_LEAST_NAME = 10  #: characters of a path that still say something
#: A ratio of bytes from which on it is worth a line.
_NOTABLE = 1.2


def overview_lines(summary: Summary, letters: Letters, findings: Sequence[str] = ()) -> list[str]:
    """The lines; findings: the section FINDINGS.  A heading is a first word in capitals.

    No line is wider than WIDTH but the last, which has the path of the log.
    Safe to print on a terminal.
    """
    for of_lines, of_others in _ROWS:
        parts = _parts(summary, letters, of_lines, of_others, findings)
        lines = [line for part in parts for line in (*part, "")][:-1]
        if len(lines) <= HEIGHT:
            break
    lines = [*lines[: HEIGHT - 1], lines[-1]] if len(lines) > HEIGHT else lines
    return [*(cut(printable(line), letters) for line in lines[:-1]), printable(lines[-1])]


def _parts(
    summary: Summary, letters: Letters, of_lines: int, rows: int, findings: Sequence[str]
) -> Iterable[Sequence[str]]:
    """of_lines, rows: most rows of LINES, and of the other sections."""
    overview, folder = summary.overview, summary.run.folder
    yield [run_line(summary), *state_lines(summary), *conclusions(summary)]
    if overview is not None and (summary.run.calls or overview.wall):
        yield [*time_lines(overview, letters, states=True), *(f"  {line}" for line in step_lines(summary, WIDTH - 2))]
        yield from filter(None, (
            _data(summary), lines_of(overview, folder, of_lines, summary.run.wall),
            _files(overview, letters, folder, rows), _folders(overview, folder, rows), findings,
        ))  # fmt: skip
    yield [*_not_seen(summary, letters, rows), *_tracing(summary)]


def run_line(summary: Summary) -> str:
    """What ran, how long, in how many processes, with how many calls."""
    run, overview = summary.run, summary.overview
    words = run.command
    if len(words) > 1 and os.path.basename(words[0]).startswith(("python", "pypy")):
        words = [os.path.basename(words[1]), *words[2:]]
    bound = {"at most": "at most ", "at least": "at least "}.get(run.wall_is, "")
    processes = counted(max(len(overview.processes) if overview else 0, 1), "process", "processes")
    facts = f"{bound}{seconds(run.wall)}{' so far' if run.running else ''}, {processes}"
    if overview is not None and overview.cores:
        facts += f", {counted(overview.cores, 'core')}"
    calls = counted(_calls(summary), "call")
    room = WIDTH - len(_WHO) - len(facts) - len(calls) - 4
    command = " ".join(" ".join(words).split()) or "(command not known)"
    command = command if len(command) <= room else command[: room - 3] + "..."
    return f"{_WHO}{command}  {facts}".ljust(WIDTH - len(calls)) + calls


def state_lines(summary: Summary) -> list[str]:
    """What is unusual about the run: its log is incomplete, or it did not end well."""
    run, lines = summary.run, _jobs(summary)
    if run.selection:
        lines.append(f"Selected {number(run.records)} of {counted(run.records_in_log, 'row')}: {run.selection}")
    if not run.calls:
        missing = any(one.is_a_process for one in summary.weaknesses)
        lines.append(none_recorded(bool(run.selection), missing))
    if run.ring_since is not None:
        since = seconds(max(run.ring_since - run.start, 0))
        lines.append(f"The ring has overwritten what began in the first {since}.")
        lines.append("All figures are of the rest.")
    lines += _full(summary)
    # Pools end their workers by SIGTERM.
    ends = [one for at, one in enumerate(summary.processes) if not at or not one.ended.startswith("signal 15 ")]
    endings = Counter(one.ended for one in ends if one.ended.startswith(("signal", "lost")))
    for how, count in endings.most_common(2):
        name = next(one.name for one in ends if one.ended == how)
        who = name if count == 1 and 0 < len(name) <= _NAME else counted(count, "process", "processes")
        lines.append(f"{who} ended by {how}.")
    if summary.in_flight_count:
        calls = counted(summary.in_flight_count, "call")
        lines.append(f"{calls} had not returned: pyio-trace summary --section in-flight")
    return lines


def _jobs(summary: Summary) -> list[str]:
    """What the batch system and the launcher call the run, and where it ran."""
    jobs, runs, nodes = summary.run.jobs, summary.run.job_runs, summary.run.nodes
    names = [_several("Job", jobs)] if jobs else []
    if runs and runs != jobs:
        names.append(_several("run", runs) if jobs else _several("Run", runs))
    return [f"{', '.join(names)} on {_several('node', nodes)}."] if names else []


def _several(what: str, names: list[str]) -> str:
    """ "node n17", "2 nodes (n17 to n18)"."""
    if len(names) == 1:
        return f"{what} {names[0]}"
    return f"{len(names):,} {what.lower()}s ({names[0]} to {names[-1]})"


def _full(summary: Summary) -> list[str]:
    """What is left out of the sections, where the log had no room for all calls."""
    counted_only = summary.unseen.counted
    calls, time = (sum(getattr(one, what) for one in counted_only.values()) for what in ("calls", "time"))
    if not calls or summary.run.selection:
        return []
    most = sorted(counted_only.items(), key=lambda one: -one[1].time)[:3]
    return [
        f"The log was full: {counted(calls, 'call')} have no row. They took {seconds(time)}:",
        f"{', '.join(f'{name} {seconds(one.time)}' for name, one in most)}, and are among the bytes of DATA.",
        "All other figures are of the part that was recorded.",
    ]


def _calls(summary: Summary) -> int:
    """All calls: those with a row, and those that were only counted."""
    return summary.run.calls + (0 if summary.run.selection else summary.unseen.counted_calls)


def time_lines(
    overview: Overview, letters: Letters, rows: int = KINDS, bars: bool = True, states: bool = False
) -> list[str]:
    """TIME: a row for each of the first kinds of process, with a bar or in words; states: in words too, below it."""
    kinds = overview.kinds[:rows]
    drawn = [bar(kind.split, _BAR, letters) for kind in kinds] if bars else []
    names = {one.kind: one.name for one in overview.processes}
    meaning = legend(drawn, letters)
    lines = [f"TIME  {meaning if len(meaning) <= WIDTH - 6 else meaning.replace('  ', ' ')}".rstrip()]
    for at, kind in enumerate(kinds):
        lines.append(
            f"  {kind_name(kind, names.get(kind.kind, kind.kind)):{_NAME}} {seconds(kind.split.wall_ns):>8}  "
            f"{drawn[at] if bars else _states(kind, _BAR)}"
        )
        if states:
            lines.append(f"    {_states(kind, WIDTH - 4)}")
    others = overview.kinds[rows:]
    if others:
        count, wall = sum(kind.processes for kind in others), sum(kind.split.wall_ns for kind in others)
        lines.append(f"  {counted(count, 'further process', 'further processes')}, {seconds(wall)}")
    return lines


def kind_name(kind: KindTime, only: str) -> str:
    """only: the name of its process, if it has one."""
    name = only if kind.processes == 1 else f"{kind.processes} {kind.kind}"
    name = name if len(name) <= _NAME else name.replace("multiprocessing ", "")  # "fork server"
    return name if len(name) <= _NAME else name[: _NAME - 3] + "..."


def _states(kind: KindTime, room: int) -> str:
    split = kind.split
    times = sorted(((time, state) for state, time in states_of(split).items()), reverse=True)
    shown = [(time, state) for time, state in times if time >= _LEAST_STATE * split.wall_ns and time][:_STATES]
    if split.io_ns and "io" not in (state for _, state in shown):
        shown = [*shown[: _STATES - 1], (split.io_ns, "io")]
    texts = [f"{LOOKS[state][0]} {seconds(time)}" for time, state in shown]
    beside = (split.beside_lock_ns, "locks"), (split.beside_sync_ns, "sync"), (split.beside_ns, "I/O")
    for time, name in sorted(beside):
        if time >= _LEAST_STATE * split.wall_ns and time:
            texts.insert(0, f"{name} in other threads {seconds(time)}")
    if split.cpu_ns is not None:
        texts.append(f"CPU {seconds(split.cpu_ns)}")
    while len(text := ", ".join(texts)) > room:
        del texts[-1]
    return text


class Moved(NamedTuple):
    """Bytes of a run, with what was only counted."""

    read: int
    written: int
    copied: int
    imports: int


def moved_by(summary: Summary) -> Moved:
    """The bytes of DATA."""
    moved, unseen = summary.bytes, summary.unseen
    more = {} if summary.run.selection else {kind: one.bytes for kind, one in unseen.counted.items()}
    return Moved(
        moved.posix_read + moved.stream_read + more.get("read", 0),
        moved.posix_written + moved.stream_written + more.get("write", 0),
        moved.copied + more.get("copy", 0),
        unseen.excluded.get("import", (0, 0))[1] + summary.imports.bytes,
    )


def _data(summary: Summary) -> list[str]:
    rows = data_rows(summary)
    return ["DATA", *(f"  {what:<7} {amount:>10}  {text}".rstrip() for what, amount, text in rows)] if rows else []


def data_rows(summary: Summary) -> list[tuple[str, str, str]]:
    """(what, bytes, what is to be said of them): what was read, written, copied and imported; a row without the first
    is about the one before."""
    moved, overview = summary.bytes, summary.overview
    whole = not is_part(summary)
    read, written, copied, imports = moved_by(summary)
    storage = overview.storage if overview is not None else None
    rows = []
    if read:
        text, little = "", True
        if storage is not None and storage.read is not None:
            little = storage.read * 100 < read and storage.read < _LEAST_FETCHED and not storage.slow.calls
            text = (
                "none of it from storage: cached"
                if little
                else f"{size(storage.read)} fetched from storage" + ("" if storage.processes else " (imports included)")
            )
            text += _without_account(storage.processes)
        rows.append(("read", size(read), text))
        if storage is not None and not little and whole:
            rows += _slow(storage.slow)
        unplaced = read if overview is None else overview.read.unplaced
        again = whole and read >= _NOTABLE * moved.distinct_read and read - moved.distinct_read >= _LEAST_MORE
        if moved.distinct_read and unplaced * 100 <= read and again:
            times = significant(read / moved.distinct_read)
            what = f"different bytes: each read {times} times"
            if moved.distinct_filled:
                what = f"different bytes at most: each read at least {times} times"
            rows.append(("", size(moved.distinct_read), what))
        ratio = moved.read_amplification
        if whole and ratio is not None and ratio >= _NOTABLE and moved.below_read - moved.asked_read >= _LEAST_MORE:
            rows.append(("", size(moved.asked_read), f"asked for: {significant(ratio)} times as much was read"))
    if written:
        rows.append(("written", size(written), "to the page cache"))
    if copied:
        rows.append(("copied", size(copied), "inside the kernel"))
    if imports:
        spent = f", {seconds(summary.imports.time)}" if summary.imports.time else ""
        rows.append(("imports", size(imports), f"by Python's imports{spent}; not in the figures above"))
    return rows


def _slow(slow: SlowReads) -> list[tuple[str, str, str]]:
    """Which reads went to storage, and by which rule."""
    if not slow.compared:
        return []
    rule = f"over {seconds(BASE)} + {PER_BYTE} ns a byte"
    if not slow.calls:
        return [("slow", size(0), f"none of {counted(slow.compared, 'read')} took {rule}: cached")]
    return [("slow", size(slow.bytes), f"in {counted(slow.calls, 'read')}, {seconds(slow.time_ns)}: {rule}")]


def _without_account(processes: int) -> str:
    return f"; {counted(processes, 'process', 'processes')} not known" if processes else ""


def lines_of(overview: Overview, folder: str, rows: int, wall: int) -> list[str]:
    """LINES: the lines of the program that held the time."""
    if overview.wall:
        return wall_lines(overview.wall, wall, partial(_said, overview, folder), rows)
    shown = line_rows(overview, folder, wall)[:rows]
    if not shown:
        return []
    heading = f"LINES {'time':>9}  {'of it I/O':>9}  what"
    texts = (f"{seconds(time):>13}  {seconds(leaf) if leaf else '-':>9}  {text}" for time, leaf, text, _ in shown)
    return [heading, *(f"  {text}" for text in texts)]


def line_rows(overview: Overview, folder: str, wall: int) -> list[tuple[int, int, str, str]]:
    """(ns, of it I/O, what, the line) of each row of LINES, the longest first: wall time where the run was sampled,
    else time in what the line asked for."""
    if overview.wall:
        return wall_rows(overview.wall, wall, partial(_said, overview, folder))
    found = [
        (*row, line.line) for line in overview.lines if _is_place(line) for row in _rows_of(line, overview, folder)
    ]
    return _leading(found, [row[0] for row in found], len(found))


def _said(overview: Overview, folder: str, place: str, held: int) -> str | None:
    """What the operations of a line say, if they took most of the time that it held."""
    rows = [row for line in overview.lines if line.line == place for row in _rows_of(line, overview, folder)]
    time, _, what = max(rows, default=(0, 0, ""), key=lambda row: row[0])
    return what if what and time * 2 >= held else None


def _is_place(line: Line) -> bool:
    """Whether a person can act on it.  Waits of libraries are left out: their threads wait for work all the time."""
    return line.own or not (line.kind == "wait" or line.line.startswith(("<", "(")))


def _rows_of(line: Line, overview: Overview, folder: str) -> list[tuple[int, int, str]]:
    """(time, of it I/O, what) of a line; waits that end epochs have a row of their own."""
    library = "" if line.own else library_of(line.line)
    place = short_line(line.line) + (f" in {library}" if library else "")
    if line.op == "DataLoader.__iter__" and (not overview.loaders or any(one.workers for one in overview.loaders)):
        return [(line.time_ns, 0, f"{place}: {counted(line.count, 'start')} of its workers")]
    if line.op == "DataLoader.__next__":
        stops = [one for one in overview.loaders if one.stop_ns and one.line in (None, line.line)]
        stop = sum(one.stop_ns for one in stops)
        if stop > line.time_ns or len(stops) >= line.count:
            return [(line.time_ns, 0, f"{place}: {waits(line.op, line.count)}")]
        batches = waits(line.op, line.count - len(stops))
        ends = f"{place}: {counted(len(stops), 'end')} of an epoch"
        ends += " (workers stop)" if any(one.workers for one in stops) else ""
        return [(line.time_ns - stop, 0, f"{place}: {batches}"), *([(stop, 0, ends)] if stops else [])]
    if line.kind == "wait":
        return [(line.time_ns, 0, f"{place}: {waits(line.op, line.count)}")]
    what = f"{place}: {number(line.count)} {line.op}"
    more = f" and {number(line.other_files)} more" if line.other_files else ""
    room = _WHAT - len(what) - len(more) - 4
    if line.pattern and room >= min(len(line.pattern.rpartition("/")[2]), _LEAST_NAME):
        what += f" of {fitting(relative(line.pattern, folder), room)}{more}"
    return [(line.time_ns, line.leaf_ns, what)]


def _files(overview: Overview, letters: Letters, folder: str, rows: int) -> list[str]:
    by_role = {role: [one for one in overview.files if one.role == role] for role in ("data", *_IN_ONE_LINE)}
    data = by_role["data"] or by_role.pop("temporary")
    lines = [_file(one, letters, folder) for one in _leading(data, [one.time_ns for one in data], rows)]
    for role, name in _IN_ONE_LINE.items():
        if same := by_role.get(role):
            time, files, opens, read, written = (sum(getattr(one, what) for one in same) for what in _AMOUNTS)
            lines.append(_row(time, files, opens, read, written, name))
    if not lines:
        return []
    return [f"FILES {'time':>7} {'files':>7} {'opens':>7} {'read':>9} {'written':>9}  name", *lines]


def _file(one: FileGroup, letters: Letters, folder: str) -> str:
    name = relative(one.pattern, folder)
    if one.renamed_to is not None:
        name += f" {letters.arrow} {os.path.basename(one.renamed_to)}"
    return _row(one.time_ns, one.files, one.opens, one.read, one.written, shortened(name, _FILE))


def _row(time: int, files: int, opens: int, read: int, written: int, name: str) -> str:
    return f"  {seconds(time):>11} {number(files):>7} {number(opens):>7} {size(read):>9} {size(written):>9}  {name}"


def _folders(overview: Overview, folder: str, rows: int) -> list[str]:
    """Metadata by folder, if it costs more than moving bytes does."""
    data = [one for one in overview.files if one.role == "data"]
    metadata, whole = sum(one.metadata_ns for one in data), sum(one.time_ns for one in data)
    shown = _leading(overview.folders, [one.time_ns for one in overview.folders], min(rows, 2))
    if not shown or metadata * 2 < whole or sum(one.calls for one in shown) < 1000:
        return []
    names = [shortened(relative(one.folder, folder), 53) for one in shown]
    lines = [
        f"  {seconds(one.time_ns):>11}  {number(one.calls):>9}  {name}" for one, name in zip(shown, names, strict=True)
    ]
    return [f"METADATA {'time':>4}  {'calls':>9}  folder", *lines]


def _leading(items: list[T], times: list[int], rows: int) -> list[T]:
    """The items with the largest times, as long as each has at least a hundredth of the largest."""
    order = sorted(range(len(items)), key=lambda at: -times[at])
    return [items[at] for at in order if times[at] * 100 >= times[order[0]]][:rows]


def _not_seen(summary: Summary, letters: Letters, rows: int) -> list[str]:
    lines = [cut(one.brief, letters, WIDTH - 2) for one in summary.weaknesses if one.brief is not None]
    if not lines:
        return []
    most = max(rows - 2, 1)
    shown = lines if len(lines) <= most + 1 else [*lines[:most], f"{len(lines) - most} more: pyio-trace summary --all"]
    return ["NOT SEEN", *(f"  {line}" for line in shown)]


def _tracing(summary: Summary) -> list[str]:
    run, cost = summary.run, f"about {seconds(summary.cost.time)} in the calls"
    if run.tool:
        cost = f"by {run.tool}, whose cost is not in its log"
    end = summary.overview.tracing.end_ns if summary.overview is not None else None
    if end is not None:
        cost += f", {seconds(end)} after the end"
    mode = "" if run.mode == "trace" else f", mode {run.mode}"
    return [f"TRACING  {counted(run.records, 'record')}; {cost}", f"LOG  {run.path}, {size(run.log_bytes)}{mode}"]


def cut(line: str, letters: Letters, width: int = WIDTH) -> str:
    """The line, cut where it is wider."""
    return line if len(line) <= width else line[: width - len(letters.dots)] + letters.dots
