"""One look at a run: what is in flight, and sums by line, file, process, thread and layer."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import field

from pyio_trace.light_dataclass import dataclass

#: Intervals of a sparkline.
INTERVALS = 30
OTHERS, NO_LINE, NO_FILE = "(others)", "(no line of Python)", "(no path)"
#: The tables, in the order in which they are shown.
TABLES = ("lines", "files", "processes", "threads", "layers")


@dataclass
class Amounts:
    """calls; bytes_read, bytes_written: moved; time_ns: in calls, which may overlap."""

    calls: int = 0
    bytes_read: int = 0
    bytes_written: int = 0
    time_ns: int = 0

    def add(self, other: Amounts) -> None:
        """Adds another one to this."""
        self.calls += other.calls
        self.bytes_read += other.bytes_read
        self.bytes_written += other.bytes_written
        self.time_ns += other.time_ns


@dataclass(frozen=True)
class Row:
    """One key of a table.  now: since the last look; total: since the first; history: time_ns of the latest intervals,
    the newest last."""

    key: str
    now: Amounts
    total: Amounts
    history: list[int] = field(default_factory=list)


@dataclass(frozen=True)
class InFlightRow:
    """A call that has not returned.  age_ns: for how long already, at least where age_is_known is false; operation: the
    library's operation that it is a part of, "" for none; file_kind: "" if not known."""

    op: str
    path: str
    file_kind: str
    site: str
    process: str
    pid: int
    tid: int
    age_ns: int
    age_is_known: bool
    operation: str


@dataclass(frozen=True)
class Activity:
    """One look at a run.

    state: "running", "ended" or "unknown" (on another machine); ended: how its
    first process ended; summary_of: the log to summarise then.  elapsed_ns: since
    the run began; interval_ns: that `now` is about.  left_out: calls on pipes,
    sockets and the like, which have no record; counted_only: calls that were only
    counted, because the log is full; missed_chunks: of a ring, at most so many
    chunks of records were overwritten unread; unwatched: calls beyond what is
    watched.  in_flight_count: of which in_flight lists the first.
    """

    log: str
    run: str
    mode: str
    name: str
    pid: int
    state: str
    ended: str
    summary_of: str
    elapsed_ns: int
    interval_ns: int
    now: Amounts
    total: Amounts
    in_flight: list[InFlightRow]
    in_flight_count: int
    lines: list[Row]
    files: list[Row]
    processes: list[Row]
    threads: list[Row]
    layers: list[Row]
    left_out: int
    counted_only: int
    missed_chunks: int
    unwatched: int


def renamed(activity: Activity, summary_of: str) -> Activity:
    """The same look, of a run whose log has another name by now."""
    return Activity(**{**vars(activity), "summary_of": summary_of})


def shown_first(rows: Iterable[Row], by: str) -> list[Row]:
    """Rows in another order.  by: "time", "calls", "bytes" or "total" (time since the first look)."""

    def amount(row: Row) -> int:
        if by == "bytes":
            return row.now.bytes_read + row.now.bytes_written
        if by == "total":
            return row.total.time_ns
        return row.now.calls if by == "calls" else row.now.time_ns

    return sorted(rows, key=lambda row: (-amount(row), -row.total.time_ns, row.key))
