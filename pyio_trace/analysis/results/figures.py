"""The summary of a run as data: analysis/summary/summarize.py computes it, report/ puts it into words.

Times are ns, sizes bytes.  Summary.to_dict() gives a JSON-able dict.  None means
"not known" or "does not apply".
"""

from __future__ import annotations

from dataclasses import asdict, field
from typing import Any

from pyio_trace.analysis.results.overview_figures import PARTS_OF_OTHER, Overview
from pyio_trace.light_dataclass import dataclass


@dataclass(frozen=True)
class Run:
    """The run and its log.  start: epoch ns; wall: ns from its start to its last known activity; ring_since: epoch
    ns, if a ring has overwritten operations: all that began later are in the log; folder: that the program began in;
    selection: the options that chose the operations, "" for all of them; records_in_log: of how many they were chosen;
    tool: that wrote the log, "": pyio_trace; jobs: of a batch system or launcher, such as "4711.0" for step 0 of job
    4711; job_runs: ids of the launches, each the same for all ranks of it; nodes: those that it names, or hosts.
    """

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
    wall_is: str = ""
    folder: str = ""
    selection: str = ""
    records_in_log: int = 0
    tool: str = ""
    jobs: list[str] = field(default_factory=list)
    job_runs: list[str] = field(default_factory=list)
    nodes: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Time:
    """I/O compared with elapsed time.  busy: ns in which a process had an operation open, summed over processes; wall:
    how long the processes lived, likewise summed (wall_is: "at least" if the end of some was not
    seen); share: busy / wall."""

    busy: int
    wall: int
    share: float | None
    wall_is: str = ""


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
    """Bytes requested and moved.

    asked_*: by outermost calls of the application's file objects and libraries;
    below_*: moved by calls of POSIX and C streams within such calls; posix_*: by all
    POSIX calls; stream_*: by all calls of C streams (libc's own calls beneath them
    are in no figure); copied: by sendfile and the like; distinct_*: distinct bytes
    of files touched, where offsets are known; *_amplification: below / asked;
    distinct_filled: by how many bytes distinct may exceed what was touched, since
    there were too many ranges to keep.
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
    distinct_filled: int = 0


@dataclass(frozen=True)
class Metadata:
    """Opens, closes, seeks, stats, directories.  share: of the time of all POSIX calls."""

    count: int
    time: int
    share: float | None


@dataclass(frozen=True)
class Link:
    """POSIX and stdio calls whose parents have one kind of link.  link: of pyio_trace.enums.LINKS, or "outside": no
    span was open in their process; share: of all calls that are not outside, None for those."""

    link: str
    count: int
    bytes: int
    share: float | None


@dataclass(frozen=True)
class Imports:
    """The I/O of Python's imports, which is in no other figure.  time: in import statements, computing included; in
    logs of earlier versions, of the operations that have rows."""

    count: int
    time: int
    bytes: int


@dataclass(frozen=True)
class File:
    """One file.  time: of outermost calls; the rest: calls of POSIX and C streams, and the bytes they moved.
    renamed_from: the name it was written under, where path is inferred (Log.renames())."""

    path: str
    time: int
    opens: int
    reads: int
    writes: int
    read: int
    written: int
    renamed_from: str | None = None


@dataclass(frozen=True)
class Site:
    """The outermost calls of one source line, ``file:line:function``.  submitted: those made by another thread, which
    ran no line of the program's own, for work that this line submitted."""

    site: str
    count: int
    time: int
    read: int
    written: int
    submitted: int = 0


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
    """An operation that had not returned when its process ended, or that is still running.  name: of its process."""

    process: int
    pid: int | None
    layer: str
    op: str
    path: str | None
    site: str | None
    time: int
    name: str | None = None


@dataclass(frozen=True)
class Process:
    """One process. read, written: bytes moved by calls of POSIX and C streams, copies included; calls: at all layers;
    site: the line of Python that started it; wall_is: "" (exact), "at most" or "at least" (its end was not seen);
    kind, name: what a person calls it; rank: in its parallel job, None: it is in none; storage_read: bytes that the
    kernel fetched from storage for it, None: not known."""

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
    wall_is: str = ""
    kind: str = ""
    name: str = ""
    rank: int | None = None
    storage_read: int | None = None


@dataclass(frozen=True)
class Mapped:
    """Mappings of one file, over all processes; bytes, estimated (docs/explanation/blind-spots.md)."""

    path: str
    count: int
    touched: int
    at_least: int
    written: int


@dataclass(frozen=True)
class Counted:
    """Calls that were counted only: their bytes and ns, added up over all threads."""

    calls: int = 0
    bytes: int = 0
    time: int = 0


@dataclass(frozen=True)
class Unseen:
    """What the figures do not include.

    losses: as Log.losses(); excluded: kind of descriptor -> (calls, bytes) left out by choice; notes: on
    single processes; mapped: the mapped files that were touched most; counted: op_class -> the calls of POSIX and C
    streams that the log had no room for, exact; counted_calls: how many such calls there are on all layers.
    """

    losses: dict[str, Any]
    excluded: dict[str, tuple[int, int]]
    notes: list[str]
    mapped: list[Mapped] = field(default_factory=list)
    counted: dict[str, Counted] = field(default_factory=dict)
    counted_calls: int = 0


#: Slugs of weaknesses by which I/O goes unseen in a process that is traced.
_HIDE_IO = {"bypassed-bytes", "io-uring", "mapped-files", "mappings-unmeasured", "raw-system-calls", "unpatched-code"}


@dataclass(frozen=True)
class Weakness:
    """Something that is missing from the figures, or makes findings less sure.

    slug: which kind; text: in one line; brief: the line of the first screen, None: it is not shown there; details: what
    it concerns, such as files; share: of the calls, processes or bytes concerned that is missing, 0 to 1, None: not
    known; confidence: what it multiplies the confidence of every finding by, 1: it lowers none.
    """

    slug: str
    text: str
    brief: str | None = None
    details: list[str] = field(default_factory=list)
    share: float | None = None
    confidence: float = 1.0

    @property
    def is_a_process(self) -> bool:
        """Whether it is a process that is missing."""
        return self.slug in {"unfollowed-children", "older-processes"}

    @property
    def hides_io(self) -> bool:
        """Whether I/O may be missing of which nobody knows how long it took."""
        return self.is_a_process or self.slug in _HIDE_IO


@dataclass(frozen=True)
class Cost:
    """The estimated cost of tracing.  time: ns over all processes; share: of their wall time."""

    time: int
    share: float | None


@dataclass(frozen=True)
class Summary:
    """The figures that a person wants after a run; lists have the worst first."""

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
    #: empty if there are no spans
    links: list[Link] = field(default_factory=list)
    overview: Overview | None = None
    #: what weakens the answer, losses first: `unseen` in words
    weaknesses: list[Weakness] = field(default_factory=list)

    def to_dict(self) -> dict[str, Any]:
        """The summary as dicts, lists, strings and numbers; what only samples say is not there without samples."""
        found = asdict(self)
        overview = found["overview"] or {"wall": None, "kinds": [], "processes": []}
        if not overview["wall"]:
            del overview["wall"]
        for one in (*overview["kinds"], *overview["processes"]):
            for name in PARTS_OF_OTHER:
                if one["split"][f"{name}_ns"] is None:
                    del one["split"][f"{name}_ns"]
        return found
