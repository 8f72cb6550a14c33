"""LINES of the first screen where a run was sampled: the lines that held the wall time, and what they did.

What the operations say of a line (what was read, what was waited for) is said
if they explain most of its time; else what the samples found.
"""

from __future__ import annotations

from collections.abc import Callable

from pyio_trace.analysis.results.line_time import IDLE, NOWHERE, LineTime
from pyio_trace.report.wording import short_line
from pyio_trace.units import counted, percent, seconds

#: Part of a line's time -> what it says of the line; if it computes or could compute for longer, that is said.
_STATES = {
    "gil_ns": "waits for the GIL",
    "lock_ns": "waits for a lock", "sleep_ns": "asleep", "poll_ns": "waits (poll)",
    "wait_ns": "waits for a child process", "system_call_ns": "in a system call", "fault_ns": "in page faults",
    "unseen_ns": "waits, each too short to be seen",
}  # fmt: skip
#: The least share of a line's time that a function or a part must have to be named.
_MOST_OF = 0.5
#: The least share of the largest line, and of the run of time at no line.
_WORTH, _RESIDUAL = 0.01, 0.05


def wall_lines(lines: list[LineTime], wall: int, said: Callable[[str, int], str | None], rows: int) -> list[str]:
    """The section: wall: of the run, ns; said: what operations say of a line, if they took that long; rows: at most."""
    found = wall_rows(lines, wall, said)
    if not found:
        return []
    texts = [f"LINES {'wall':>9} {'':>5}  {'I/O':>8}  what"]
    for held, part, what, _ in found[:rows]:
        share = percent(held / wall) if 0 < held <= wall else ""
        texts.append(f"  {seconds(held):>13} {share:>5}  {seconds(part) if part else '-':>8}  {what}")
    return texts


def wall_rows(
    lines: list[LineTime], wall: int, said: Callable[[str, int], str | None]
) -> list[tuple[int, int, str, str]]:
    """(time held, of it I/O, what, the line) of the lines that are worth a row, the longest first."""
    ranked = sorted(((_held(line), line) for line in lines if line.line != IDLE), key=lambda one: -one[0])
    most = ranked[0][0] if ranked else 0
    return [
        (
            held,
            min(line.io_ns + line.sync_ns, held),
            f"{said(line.line, held) or _found(line)}{_others(line)}",
            line.line,
        )
        for held, line in ranked
        if held and held >= _WORTH * most and (line.line != NOWHERE or held >= _RESIDUAL * wall)
    ]


def _held(line: LineTime) -> int:
    """The time that a line held something up, as far as is known: further threads wait all the time."""
    return line.here_ns - line.aside_ns


def _found(line: LineTime) -> str:
    """What samples say of a line."""
    place = short_line(line.line)
    called = [one for one in line.called if one.time_ns >= _MOST_OF * line.here_ns]
    what = f"{place} {called[0].function}" if called else place
    if line.io_ns + line.sync_ns >= _MOST_OF * line.here_ns:
        return f"{place}: {counted(line.calls, 'call')} on files"
    state = max(_STATES, key=lambda name: getattr(line, name))
    computing, said = line.cpu_ns + line.delay_ns, _STATES[state]
    if computing >= getattr(line, state):
        said = "computing" + (
            f", {percent(line.delay_ns / computing)} without a processor" if line.delay_ns * 2 > computing else ""
        )
    return f"{what}: {said}" + (f"; {counted(line.calls, 'call')}" if line.calls else "")


def _others(line: LineTime) -> str:
    """Where others worked while the line waited for them, or slept or waited themselves."""
    waited = line.lock_ns + line.poll_ns + line.wait_ns + line.system_call_ns
    if waited * 2 < line.here_ns or not line.meanwhile:
        return ""
    other = line.meanwhile[0]
    if other.time_ns + other.waited_ns < _MOST_OF * waited:
        return ""
    return f", in {short_line(other.line)}" + (", which waits" if other.waited_ns > other.time_ns else "")
