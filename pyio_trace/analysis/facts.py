"""The summary of a run as data: what analysis/summary.py works out and report/ puts into words.

Times are ns, sizes bytes.  Every class is frozen and JSON-able through
Summary.to_dict(); a None says "not known" or "does not apply".
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any


@dataclass(frozen=True)
class Run:
    """The run and its log.  start: epoch ns; wall: ns from its start to its last sign of life; ring_since: epoch ns,
    where a ring wrote over operations: those that began later are all there."""

    path: str
    run: str
    host: str
    command: list[str]
    start: int
    wall: int
    running: bool
    mode: str
    format: str
    records: int
    calls: int
    log_bytes: int
    bytes_per_operation: float | None
    ring_since: int | None = None


@dataclass(frozen=True)
class Time:
    """I/O against the clock.  busy: ns in which a process had an operation open, added up over
    processes; wall: how long the processes lived, likewise added up; share: busy / wall."""

    busy: int
    wall: int
    share: float | None


@dataclass(frozen=True)
class Layer:
    """One layer.  busy: union per process; time: sum of durations; read, written: bytes moved there."""

    layer: str
    count: int
    busy: int
    time: int
    read: int
    written: int


@dataclass(frozen=True)
class Bytes:
    """Bytes on their way.

    asked_*: by outermost calls of the application's file objects and libraries;
    below_*: moved by calls of POSIX and C streams within such calls; posix_*: by all
    POSIX calls; stream_*: by all calls of C streams (libc's own calls beneath them
    are in no figure); copied: by sendfile and the like; distinct_*: bytes of files touched
    at all, where offsets are known; *_amplification: below / asked.
    """

    asked_read: int
    asked_written: int
    below_read: int
    below_written: int
    posix_read: int
    posix_written: int
    stream_read: int
    stream_written: int
    copied: int
    distinct_read: int
    distinct_written: int
    distinct: int
    read_amplification: float | None
    write_amplification: float | None


@dataclass(frozen=True)
class Metadata:
    """Opens, closes, seeks, stats, directories.  share: of the time of all POSIX calls."""

    count: int
    time: int
    share: float | None


@dataclass(frozen=True)
class Link:
    """POSIX and stdio calls whose parents are known in one way.  link: of pyio_trace.events.LINKS, or "outside": while
    no span was open in their process; share: of all calls that are not outside, None for those."""

    link: str
    count: int
    bytes: int
    share: float | None


@dataclass(frozen=True)
class Imports:
    """What Python's imports did, which is in no other figure."""

    count: int
    time: int
    bytes: int


@dataclass(frozen=True)
class File:
    """One file.  time: of outermost calls; the rest: calls of POSIX and C streams, and the bytes they moved."""

    path: str
    time: int
    opens: int
    reads: int
    writes: int
    read: int
    written: int


@dataclass(frozen=True)
class Site:
    """One source line, ``file:line:function``: its outermost calls."""

    site: str
    count: int
    time: int
    read: int
    written: int


@dataclass(frozen=True)
class Operation:
    """One kind of call.  time: sum of durations."""

    layer: str
    op: str
    op_class: str
    count: int
    time: int
    moved: int
    errors: int


@dataclass(frozen=True)
class Sizes:
    """POSIX transfers by size.  bins: (label, transfers), ten of them; common: (size, transfers), at most four."""

    bins: list[tuple[str, int]]
    common: list[tuple[int, int]]


@dataclass(frozen=True)
class Failure:
    """Calls of one kind that failed in one way."""

    layer: str
    op: str
    errno: int
    name: str
    count: int


@dataclass(frozen=True)
class InFlight:
    """An operation that had begun when its process ended (or, in a run that goes on, that is still under way)."""

    process: int
    pid: int | None
    layer: str
    op: str
    path: str | None
    site: str | None
    time: int


@dataclass(frozen=True)
class Process:
    """One process.  read, written: bytes moved by calls of POSIX and C streams; calls: at all layers; site: the line
    of Python that started it."""

    index: int
    pid: int
    host: str
    command: list[str]
    wall: int
    busy: int
    share: float | None
    calls: int
    read: int
    written: int
    ended: str
    site: str | None = None


@dataclass(frozen=True)
class Mapped:
    """Mappings of one file, over all processes; bytes, estimated (docs/blind-spots.md)."""

    path: str
    count: int
    touched: int
    at_least: int
    written: int


@dataclass(frozen=True)
class Unseen:
    """What the figures do not have.

    losses: as Log.losses(); blind: way of doing I/O that is not traced -> processes
    that used it; excluded: kind of descriptor -> (calls, bytes) left out by choice;
    notes: what is off in single processes; mapped: the mapped files that were touched most.
    """

    losses: dict[str, Any]
    blind: dict[str, int]
    excluded: dict[str, tuple[int, int]]
    notes: list[str]
    mapped: list[Mapped] = field(default_factory=list)


@dataclass(frozen=True)
class Cost:
    """The tracer's own cost, estimated.  time: ns over all processes; share: of their wall time."""

    time: int
    share: float | None


@dataclass(frozen=True)
class Summary:
    """Everything a person wants after a run; lists are worst first."""

    run: Run
    time: Time
    layers: list[Layer]
    bytes: Bytes
    metadata: Metadata
    imports: Imports
    files: list[File]
    sites: list[Site]
    operations: list[Operation]
    reads: Sizes
    writes: Sizes
    errors: list[Failure]
    in_flight: list[InFlight]
    in_flight_count: int
    processes: list[Process]
    unseen: Unseen
    cost: Cost
    files_count: int = 0
    sites_count: int = 0
    failed_count: int = 0
    #: empty: there are no spans
    links: list[Link] = field(default_factory=list)

    def to_dict(self) -> dict[str, Any]:
        """The whole as dicts, lists, strings and numbers."""
        return asdict(self)
