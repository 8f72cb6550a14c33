"""One finding as data: what rules make, and what every format prints.

Times are int ns.  `pyio-trace schema insights` describes the JSON of to_dict().
"""

from __future__ import annotations

from dataclasses import asdict, field
from typing import Any

from pyio_trace.light_dataclass import dataclass

#: From the worst to the best.  "ok": it looks bad and costs nothing.
SEVERITIES = ("critical", "warning", "info", "ok")
#: What a confidence is called, with the lowest value of each.
LEVELS = (("high", 0.8), ("medium", 0.5), ("low", 0.0))
#: What the calls at a finding's lines did over time.
MOTIFS = {
    "steady": "calls took as long at the end as at the beginning",
    "warm-up": "each of the first third of the calls took more than twice as long as later ones",
    "worsening": "calls took longer and longer: each of the last third more than twice as long as at first",
}
#: The name of a value of an Evidence: the loaders that the finding is about, separated by blanks.
LOADER = "loader"


@dataclass(frozen=True)
class Site:
    """A source line.  file: as the log has it; function: "" if not known."""

    file: str
    line: int
    function: str = ""

    def __str__(self) -> str:
        return f"{self.file.rpartition('/')[2]}:{self.line}"


@dataclass(frozen=True)
class Term:
    """A part of a recoverable time."""

    what: str
    ns: int


@dataclass(frozen=True)
class Recoverable:
    """How a recoverable time was estimated.

    how: in words; of_wall_ns: the wall time of the run; bound: "upper": at most so much; "estimate": the log shows
    that the work is done again, so a remedy saves about this; "measured": a remedy was tried; "none": it is not about
    time, but about results that may be wrong (critical), or data that may be lost; "failed": it ended the run;
    terms: its parts.
    """

    how: str
    bound: str = "upper"
    of_wall_ns: int = 0
    terms: list[Term] = field(default_factory=list)

    @property
    def is_time(self) -> bool:
        """Whether there is time to save."""
        return self.bound not in ("none", "failed")


@dataclass(frozen=True)
class Confidence:
    """How sure a finding is.  value: 0 to 1; level: of LEVELS; why: what it rests on; lowered_by: what is not known."""

    value: float
    why: str = ""
    lowered_by: list[str] = field(default_factory=list)

    @property
    def level(self) -> str:
        """ "high", "medium" or "low" """
        return next(name for name, least in LEVELS if self.value >= least)


@dataclass(frozen=True)
class Evidence:
    """A sentence about the run, and its figures by name."""

    text: str
    values: dict[str, int | float | str] = field(default_factory=dict)


@dataclass(frozen=True)
class Remedy:
    """What to change.  before, after: code of the library in use; library: its name, "python" for the standard one."""

    text: str
    before: str = ""
    after: str = ""
    library: str = "python"


@dataclass(frozen=True)
class Query:
    """What gives the rows of the evidence again.

    language: "sql", for pyio_trace.open(LOG).sql(), or "python", an expression in which `log` is pyio_trace.open(LOG).
    """

    text: str
    language: str = "sql"


@dataclass(frozen=True)
class Readers:
    """The recorded reads issued again from so many processes at once.

    ns: until the last of them had ended, the median of the rounds, low_ns and
    high_ns the quartiles; laid_out_ns: of a loader's epochs with so many workers,
    laid out with these times; processes 0: the trainer itself reads; None: it is not about a loader.
    """

    processes: int
    ns: int
    low_ns: int
    high_ns: int
    laid_out_ns: int | None = None


@dataclass(frozen=True)
class Verified:
    """What trying the remedy showed.

    outcome: "gain"; "no gain"; "harm": the remedy takes longer; "not known": the
    rounds show neither; "bound": nothing was run, the recorded times say what it
    saves at most; or "not tried".  why: the reason, if it was not tried, or
    what to know of the figures.  plain_ns, remedy_ns: all recorded
    operations without and with it, medians; saved_ns: the median of the rounds'
    differences, low_ns and high_ns their quartiles; plain_range_ns, remedy_range_ns:
    the fastest and the slowest round of either, which do not overlap in a gain;
    operations: issued again in each round, of so many that were recorded; cache: of the original files,
    "cached", "cold", "partly cached", "cache not known", or "new files".
    at_least: what was tried is only a part of what the remedy saves;
    recorded_ns: what the recorded operations took in the run, with Python's part
    of calls like os.stat(), which saved_ns and its quartiles never exceed, 0: not known; readers: the same reads from
    other numbers of processes; from_memory_ns: a loader's epochs with all
    batches from memory, None: it is not about a loader.
    """

    outcome: str
    why: str = ""
    plain_ns: int = 0
    remedy_ns: int = 0
    saved_ns: int = 0
    low_ns: int = 0
    high_ns: int = 0
    rounds: int = 0
    operations: int = 0
    of_operations: int = 0
    cache: str = ""
    at_least: bool = False
    recorded_ns: int = 0
    readers: list[Readers] = field(default_factory=list)
    from_memory_ns: int | None = None
    plain_range_ns: tuple[int, int] = (0, 0)
    remedy_range_ns: tuple[int, int] = (0, 0)


@dataclass(frozen=True)
class Finding:
    """One problem.

    A rule leaves out slug, and severity unless it is "ok" or the worst that it
    can be; insights.judgement fills them in.  title: one line; processes:
    indexes; sites: the line to change first; files: paths or patterns of
    paths; file_systems: types, such as "ext4", empty if not known (filled in by
    insights.file_systems); persistence: the share of the run between the first and
    the last of its operations, None: not known; verified: what `insights --verify`
    measured.
    """

    title: str
    recoverable_ns: int
    recoverable: Recoverable
    evidence: list[Evidence]
    query: Query
    remedy: Remedy | None = None
    sites: list[Site] = field(default_factory=list)
    files: list[str] = field(default_factory=list)
    processes: list[int] = field(default_factory=list)
    persistence: float | None = None
    motif: str | None = None
    confidence: Confidence = Confidence(0.9)
    severity: str = "critical"
    slug: str = ""
    file_systems: list[str] = field(default_factory=list)
    verified: Verified | None = None

    @property
    def makes_wrong(self) -> bool:
        """Whether it is not about time, but about results that may be wrong, or that there are none."""
        return not self.recoverable.is_time and self.severity == "critical"

    def to_dict(self) -> dict[str, Any]:
        """The finding as dicts, lists, strings and numbers; without verified, if it was not asked for."""
        found = asdict(self)
        if self.verified is None:
            del found["verified"]
        found["confidence"]["level"] = self.confidence.level
        first = ("slug", "severity", "title", "recoverable_ns", "recoverable", "confidence", "persistence", "motif")
        return {**{name: found[name] for name in first}, **found}
