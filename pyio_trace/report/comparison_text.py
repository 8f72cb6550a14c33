"""A comparison of two runs as text of 80 columns: the answer first, then totals, files, lines and operations."""

from __future__ import annotations

import os
import textwrap
from collections.abc import Iterator, Sequence

from pyio_trace.analysis.compare.comparison import (
    Comparison,
    FileChange,
    LineChange,
    OperationChange,
    Run,
    differs,
    time_differs,
)
from pyio_trace.analysis.compare.conditions import Outcome
from pyio_trace.analysis.compare.io_counts import COUNTS, FIGURES, SIZES, Counts
from pyio_trace.errors import printable
from pyio_trace.units import counted, number, seconds, shortened, significant, size

WIDTH = 80
#: Points of a percentage that are more than noise.
_POINTS = 5
_NAMES = {"bytes_read": "bytes read", "bytes_written": "bytes written", "time": "time in calls", "wall": "wall time"}
_ONE = {"opens": "open", "reads": "read", "writes": "write", "metadata": "metadata call", "errors": "failed call",
        "files": "file"}  # fmt: skip


def comparison_lines(found: Comparison, top: int) -> Iterator[str]:
    """The lines; top: how many files, lines and operations to show."""
    before, after = found.runs
    yield from _run_lines(before, after)
    yield ""
    yield from answer(found)
    yield ""
    yield from _totals(found)
    yield from _changes("FILES", [(_file_name(one), one) for one in found.files], top)
    yield from _changes("LINES", [(_line_name(one, found.lines), one) for one in found.lines], top)
    yield from _operations(found.operations, top)


def answer(found: Comparison) -> list[str]:
    """What a person wants to know, in a few lines."""
    before, after = found.before, found.after
    calls = [_more(name, getattr(before, name), getattr(after, name)) for name in _ONE]
    moved = [
        _times("read", before.bytes_read, after.bytes_read),
        _times("wrote", before.bytes_written, after.bytes_written),
    ]
    sentences = []
    if any(calls):
        sentences.append(f"B made {_listed([text for text in calls if text])}.")
    if any(moved):
        sentences.append(f"B {' and '.join(text for text in moved if text)}.")
    if not sentences:
        sentences.append("B did the same: as many opens, reads, writes, other calls, errors, files and bytes.")
    times = f"Calls took {seconds(after.time)}, was {seconds(before.time)}; "
    times += f"the run took {seconds(found.runs[1].wall)}, was {seconds(found.runs[0].wall)}."
    lines = [line for text in sentences for line in textwrap.wrap(text, WIDTH)]
    lines += _waiting(*found.runs)
    return [*lines, *textwrap.wrap(times, WIDTH), *_where(found)]


def _waiting(before: Run, after: Run) -> Iterator[str]:
    """Which of two training loops waits more for its batches."""
    if before.training is None or after.training is None:
        return
    shares = [100 - run.training.au_percentage for run in (before, after) if run.training is not None]
    if abs(shares[1] - shares[0]) >= _POINTS:
        word = "more" if shares[1] > shares[0] else "less"
        values = [f"{significant(one)} %" for one in shares]
        yield f"B's training loop waits {word} for batches: {values[1]} of its time, not {values[0]}."


def _where(found: Comparison) -> Iterator[str]:
    """The files and the line that changed most."""
    file = next((_file_name(one, 76) for one in found.files if differs(one.before, one.after)), None)
    line = next((_line_name(one, found.lines, 76) for one in found.lines if differs(one.before, one.after)), None)
    if file is not None:
        yield printable(f"  in {file}")
    if line is not None:
        yield printable(f"  at {line}")


def _more(name: str, before: int, after: int) -> str:
    """ "3,000 opens more (4,000, not 1,000)"; "" if equal."""
    if before == after:
        return ""
    word = "more" if after > before else "fewer"
    return f"{counted(abs(after - before), _ONE[name])} {word} ({number(after)}, not {number(before)})"


def _times(verb: str, before: int, after: int) -> str:
    """ "read 2.1 times the bytes (25 MiB, not 12 MiB)"; "" if equal."""
    if before == after:
        return ""
    values = f"{size(after)}, not {size(before)}"
    if not before or not after:
        return f"{verb} {values}"
    ratio = after / before
    if 0.5 <= ratio <= 1.2:
        return f"{verb} {size(abs(after - before))} {'more' if after > before else 'less'} ({values})"
    return f"{verb} {f'{ratio:.2g}' if ratio < 10 else f'{ratio:,.0f}'} times the bytes ({values})"


def _listed(parts: Sequence[str]) -> str:
    return parts[0] if len(parts) == 1 else ", ".join(parts[:-1]) + " and " + parts[-1]


# ---- tables


def _run_lines(before: Run, after: Run) -> Iterator[str]:
    for name, run in (("A", before), ("B", after)):
        processes = counted(run.processes, "process", "processes")
        text = printable(" ".join(os.path.basename(run.command[0]).split() + run.command[1:])) if run.command else ""
        log = shortened(printable(run.log), 32)
        yield f"{name}  {log}  {seconds(run.wall)}, {processes}  {text}"[:WIDTH].rstrip()
        if run.incomplete:
            yield f"   incomplete: {run.incomplete}"


def _heading(title: str) -> str:
    return f"{title:<20}{'A':>15}{'B':>15}{'difference':>17}"


def figure(name: str, value: int) -> str:
    """The value of a figure: a size, a time or a number."""
    if name in SIZES:
        return size(value)
    return seconds(value) if name in ("time", "wall") else number(value)


def change_line(name: str, before: int, after: int, indent: str = "  ") -> str:
    """One figure before and after, with its difference."""
    difference = after - before
    sign = "+" if difference > 0 else "-" if difference else ""
    relative = f"{100 * difference / before:+.0f} %" if before and difference else ""
    values = figure(name, before), figure(name, after), sign + figure(name, abs(difference))
    return _row(_NAMES.get(name, name), *values, relative, indent)


def _totals(found: Comparison) -> Iterator[str]:
    yield _heading("TOTAL")
    yield change_line("wall", found.runs[0].wall, found.runs[1].wall)
    for name in ("time", *COUNTS):
        before, after = getattr(found.before, name), getattr(found.after, name)
        if before or after:
            yield change_line(name, before, after)
    yield from _training(*found.runs)


def _training(before: Run, after: Run) -> Iterator[str]:
    """The figures of their training loops that both have."""
    if before.training is None or after.training is None:
        return
    old, new = before.training.au_percentage, after.training.au_percentage
    yield _row("AU (at most)", f"{significant(old)} %", f"{significant(new)} %", f"{new - old:+.1f} points")
    rate, rate_after = before.training.throughput_samples_per_second, after.training.throughput_samples_per_second
    if rate is not None and rate_after is not None:
        more = rate_after - rate
        sign, relative = "+" if more >= 0 else "-", f"{100 * more / rate:+.0f} %" if rate else ""
        yield _row("samples/s", significant(rate), significant(rate_after), sign + significant(abs(more)), relative)


def _row(name: str, before: str, after: str, difference: str, relative: str = "", indent: str = "  ") -> str:
    relative = "" if len(relative) > 9 else relative
    return f"{indent + name:<20}{before:>15}{after:>15}{difference:>17}{relative:>10}".rstrip()


def _changes(title: str, named: Sequence[tuple[str, FileChange | LineChange]], top: int) -> Iterator[str]:
    """A heading for each file or line that changed, and its figures that differ."""
    changed = [(name, one) for name, one in named if differs(one.before, one.after)]
    if not changed:
        return
    yield ""
    yield _heading(title if len(changed) <= top else f"{title} ({top} of {len(changed):,})")
    for name, one in changed[:top]:
        yield printable(name)
        yield from _figures(one.before, one.after)


def _figures(before: Counts, after: Counts) -> Iterator[str]:
    for name in FIGURES:
        old, new = getattr(before, name), getattr(after, name)
        if name == "calls" or old == new:  # the sum of the four above it
            continue
        if name != "time" or time_differs(old, new):
            yield change_line(name, old, new)


def _file_name(change: FileChange, width: int = WIDTH) -> str:
    files = max(change.before.files, change.after.files)
    more = f" ({number(files)} files)" if files > 1 else ""
    note = _presence(change.before, change.after)
    return shortened(change.pattern, width - len(more) - len(note)) + more + note


def _line_name(change: LineChange, lines: Sequence[LineChange], width: int = WIDTH) -> str:
    """FILE:LINE:FUNCTION, the file with its folder only if lines of another file of that name are there too."""
    note = _presence(change.before, change.after)
    if change.before_site is not None and change.after and _number(change.before_site) != _number(change.site):
        note = f" (line {_number(change.before_site)} in A)"
    folder, name = os.path.split(change.site)
    ending = f"/{_file(name)}"
    alike = {_file(one.site) for one in lines if _file(one.site).endswith(ending)}
    return shortened(name if folder and len(alike) == 1 else change.site, width - len(note)) + note


def _file(site: str) -> str:
    return site.rsplit(":", 2)[0]


def _number(site: str) -> str:
    return site.rsplit(":", 2)[1] if site.count(":") >= 2 else ""


def _presence(before: Counts, after: Counts) -> str:
    return " (only in B)" if not before else " (only in A)" if not after else ""


def _operations(changes: Sequence[OperationChange], top: int) -> Iterator[str]:
    changed = [
        one for one in changes if one.calls_before != one.calls_after or one.bytes_before != one.bytes_after
        or time_differs(one.time_before, one.time_after)
    ]  # fmt: skip
    if not changed:
        return
    title = "OPERATIONS" if len(changed) <= top else f"OPERATIONS ({top} of {len(changed):,})"
    yield ""
    yield f"{title:<32}{'calls A':>11}{'calls B':>11}{'difference':>12}{'in time':>13}"
    for one in changed[:top]:
        difference = one.time_after - one.time_before
        sign = "+" if difference > 0 else "-" if difference else ""
        name = printable(f"  {one.layer} {one.op}")
        name = name if len(name) < 32 else name[:28] + "..."
        calls = f"{number(one.calls_before):>11}{number(one.calls_after):>11}"
        more = one.calls_after - one.calls_before
        yield f"{name:<32}{calls}{f'{more:+,}' if more else '0':>12}{sign + seconds(abs(difference)):>13}"


# ---- conditions


def outcome_lines(outcomes: Sequence[Outcome]) -> Iterator[str]:
    """One line for each condition that holds, and one that says how many do not."""
    held = [one for one in outcomes if one.holds]
    for one in held:
        pattern = f"[{one.pattern}]" if one.pattern else ""
        values = f"{figure(one.figure, one.before)} -> {figure(one.figure, one.after)}"
        yield printable(f"FAILED  {one.condition}: {one.figure}{pattern} {values}")
    if not held:
        yield f"passed  none of {counted(len({one.condition for one in outcomes}), 'condition')} holds"
