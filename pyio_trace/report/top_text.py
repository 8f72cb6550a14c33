"""`pyio-trace top` as text: the lines of --once, and the parts of a screen."""

from __future__ import annotations

import os
from collections.abc import Iterator

from pyio_trace.errors import printable
from pyio_trace.report.why_text import short_site
from pyio_trace.running.activity import NO_FILE, NO_LINE, OTHERS, Activity, Amounts, InFlightRow, Row
from pyio_trace.units import counted, number, percent, seconds, shortened, size

_WIDTH = 80
#: Rows of a table, and calls in flight, of --once.
_ROWS = 5
_BARS = " ▁▂▃▄▅▆▇█"
#: Columns of the tables: name, width; those that a narrow screen has not stand last.
_COLUMNS = (("time", 6), ("calls/s", 9), ("read/s", 9), ("written/s", 9), ("total", 8))
_NARROW = 76


def columns(width: int) -> tuple[tuple[str, int], ...]:
    """The columns of numbers for which a screen has room."""
    return _COLUMNS if width >= _NARROW else _COLUMNS[:-1]


def width_of_numbers(width: int) -> int:
    """How much of a screen the columns of numbers take."""
    return sum(each + 1 for _, each in columns(width))


def once_lines(activity: Activity) -> Iterator[str]:
    """The lines of --once."""
    room = _WIDTH - width_of_numbers(_WIDTH)
    yield from banner(activity, _WIDTH)
    yield ""
    yield f"IN FLIGHT  {counted(activity.in_flight_count, 'call')}"
    for call in activity.in_flight[:_ROWS]:
        yield from ("  " + line for line in in_flight_lines(call, _WIDTH - 2))
    if activity.in_flight_count > _ROWS:
        yield f"  and {activity.in_flight_count - _ROWS} more: --json"
    for name in ("lines", "files", "processes", "layers"):
        rows: list[Row] = getattr(activity, name)
        shown = [row for row in rows if row.now.calls or row.now.time_ns or row.total.calls][:_ROWS]
        if shown:
            yield ""
            yield f"{name.upper():<{room}}" + header_cells(_WIDTH)
        for row in shown:
            yield f"{key_text(name, row.key, room - 1):<{room}}" + cells(row, activity, _WIDTH)
    notes = list(unseen(activity))
    if notes:
        yield ""
        yield "NOT SEEN  " + "; ".join(notes)


def banner(activity: Activity, width: int) -> Iterator[str]:
    """Which run this is, and whether it goes on: two lines, the second no longer than the screen is wide."""
    name = f"{activity.name} (pid {activity.pid})"
    if activity.state == "ended":
        read = f"pyio-trace summary {short_path(activity.summary_of)}"
        yield printable(f"{name} ended after {seconds(activity.elapsed_ns)}: {read}")
    else:
        where = "" if activity.state == "running" else "  on another machine"
        yield printable(f"{name}  {seconds(activity.elapsed_ns)}{where}  {activity.mode}  {short_path(activity.log)}")
    now, total = rates(activity.now, activity.interval_ns), f"in all {amounts(activity.total)}"
    if activity.state == "ended":
        yield printable(total + ("" if activity.ended in ("", "exit 0") else f"   {activity.ended}"))
    else:
        yield f"{now}   {total}" if len(now) + len(total) + 3 <= width else now


def rates(now: Amounts, interval_ns: int) -> str:
    """ "1,204 calls/s  read 12 MiB/s  written 0 B/s"."""
    amounts_now = (now.calls, now.bytes_read, now.bytes_written)
    calls, read, written = (per_second(amount, interval_ns) for amount in amounts_now)
    return f"{number(calls)} calls/s  read {size(read)}/s  written {size(written)}/s"


def amounts(total: Amounts) -> str:
    """Calls and bytes."""
    return f"{counted(total.calls, 'call')}, {size(total.bytes_read + total.bytes_written)}"


def per_second(amount: int, interval_ns: int) -> int:
    """An amount of an interval as a rate."""
    return round(amount * 1e9 / max(interval_ns, 1))


def header_cells(screen: int) -> str:
    """The names of the columns."""
    return "".join(f" {name:>{width}}" for name, width in columns(screen))


def cells(row: Row, activity: Activity, screen: int) -> str:
    """The columns of a row: share of the time in calls (of one thread), rates, time since the first look."""
    interval = activity.interval_ns
    values = (
        percent(row.now.time_ns / interval).replace(" ", ""), _short(per_second(row.now.calls, interval)),
        _bytes(per_second(row.now.bytes_read, interval)), _bytes(per_second(row.now.bytes_written, interval)),
        seconds(row.total.time_ns),
    )  # fmt: skip
    return "".join(f" {value:>{width}}" for value, (_, width) in zip(values, columns(screen), strict=False))


def _short(count: int) -> str:
    return number(count) if count < 10_000_000 else f"{count // 1_000_000:,}M"


def _bytes(count: int) -> str:
    return size(count) if count else "-"


def key_text(table: str, key: str, width: int) -> str:
    """A row's key, so short that it fits."""
    if key in (OTHERS, NO_LINE, NO_FILE):
        return key[:width]
    if table == "lines":
        site = printable(short_site(key))
        text = f"{site}  {printable(key.rsplit(':', 1)[-1])}"
        return text if len(text) <= width else shortened(site, width)
    return shortened(printable(short_path(key) if table == "files" else key), width)


def short_path(path: str) -> str:
    """A path, from the current folder if it is below it."""
    here = os.getcwd() if os.path.isabs(path) else ""
    return path[len(here) + 1 :] if here and path.startswith(here + "/") else path


def in_flight_lines(call: InFlightRow, width: int) -> list[str]:
    """A call in flight, in two lines: since when, what, on which path; at which line, in which thread."""
    age = ("" if call.age_is_known else "up to ") + seconds(call.age_ns)
    first = printable(f"{age:>8}  {call.op}")
    if call.path:
        first += " " + shortened(printable(short_path(call.path)), max(width - len(first) - 1, 8))
    parts = [short_site(call.site)] if call.site else []
    parts += [f"in {call.operation}"] if call.operation not in ("", call.op) else []
    second = printable(f"{'':>8}  {', '.join(parts)}{'  ' if parts else ''}{call.process}")
    second += f" thread {call.tid}" if call.tid != call.pid else ""
    return [first[:width], second[:width]]


def unseen(activity: Activity) -> Iterator[str]:
    """What is not in the sums."""
    if activity.left_out:
        yield f"{counted(activity.left_out, 'call')} left out (pipes, sockets, ...)"
    if activity.counted_only:
        yield f"{counted(activity.counted_only, 'call')} only counted: the log is full"
    if activity.missed_chunks:
        yield f"up to {counted(activity.missed_chunks, 'chunk')} of the ring overwritten unread"
    if activity.unwatched:
        yield f"{counted(activity.unwatched, 'call or chunk', 'calls and chunks')} not watched"


def sparkline(values: list[int], width: int) -> str:
    """The latest values as bars, the newest last."""
    shown = values[-width:]
    most = max(shown, default=0)
    if not most:
        return " " * width
    bars = (_BARS[0 if not value else 1 + min(value * 7 // most, 7)] for value in shown)
    return "".join(bars).rjust(width)
