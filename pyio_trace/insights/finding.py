"""One finding as data: what rules make, and what every format prints.

Times are int ns.  `pyio-trace schema insights` is made from these classes: what a field says beside its type, and
the words and limits that it allows.
"""

from __future__ import annotations

from dataclasses import asdict, field
from typing import Annotated, Any

from pyio_trace.light_dataclass import dataclass
from pyio_trace.schema_keys import Keys

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

#: How to read a recoverable time.  "upper": at most so much.  "estimate": the log shows work that is done again, and a
#: remedy saves about this.  "measured": a remedy was tried.  "none": it is not about time, but about results that may
#: be wrong (critical), or data that may be lost.  "failed": it ended the run.
BOUNDS = ("upper", "estimate", "measured", "none", "failed")
#: What trying a remedy showed.  "harm": it takes longer.  "not known": the rounds show neither.  "bound": nothing was
#: run, and the recorded times say what it saves at most.
OUTCOMES = ("gain", "no gain", "harm", "not known", "bound", "not tried")
#: Where the bytes of the original files came from.
CACHES = ("", "cached", "cold", "partly cached", "cache not known", "new files")

Count = Annotated[int, Keys(minimum=0)]
Share = Annotated[float, Keys(minimum=0, maximum=1)]
Range = Annotated[tuple[Count, Count], Keys(minItems=2)]
Slug = Annotated[str, Keys(pattern="^[a-z][a-z0-9]*(-[a-z0-9]+)*$")]
Severity = Annotated[str, Keys(enum=SEVERITIES)]
Bound = Annotated[str, Keys(enum=BOUNDS)]
Outcome = Annotated[str, Keys(enum=OUTCOMES)]
Cache = Annotated[str, Keys(enum=CACHES)]
Language = Annotated[str, Keys(enum=("sql", "python"))]
Motif = Annotated[str | None, Keys(enum=(*MOTIFS, None))]


@dataclass(frozen=True)
class Site:
    """A source line."""

    file: Annotated[str, "as the log has it"]
    line: Count
    function: Annotated[str, "empty: not known"] = ""

    def __str__(self) -> str:
        return f"{self.file.rpartition('/')[2]}:{self.line}"


@dataclass(frozen=True)
class Term:
    """A part of a recoverable time."""

    what: str
    ns: Count


@dataclass(frozen=True)
class Recoverable:
    """How a recoverable time was estimated."""

    how: Annotated[str, "in words"]
    bound: Bound = "upper"
    of_wall_ns: Annotated[Count, "the wall time of the run"] = 0
    terms: Annotated[list[Term], "its parts"] = field(default_factory=list)

    @property
    def is_time(self) -> bool:
        """Whether there is time to save."""
        return self.bound not in ("none", "failed")


@dataclass(frozen=True)
class Confidence:
    """How sure a finding is."""

    value: Share
    why: Annotated[str, "what it rests on"] = ""
    lowered_by: Annotated[list[str], "what is not known"] = field(default_factory=list)

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
    """What to change."""

    text: str
    before: Annotated[str, "code of the library in use"] = ""
    after: Annotated[str, "what to write instead"] = ""
    library: Annotated[str, "python: the standard library"] = "python"


@dataclass(frozen=True)
class Query:
    """What gives the rows of the evidence again."""

    text: Annotated[str, "for pyio_trace.open(LOG).sql(), or an expression in which `log` is pyio_trace.open(LOG)"]
    language: Language = "sql"


@dataclass(frozen=True)
class Readers:
    """The recorded reads issued again from so many processes at once."""

    processes: Annotated[Count, "0: the trainer itself reads"]
    ns: Annotated[Count, "until the last of them had ended, median of the rounds"]
    low_ns: Annotated[Count, "lower quartile"]
    high_ns: Annotated[Count, "upper quartile"]
    laid_out_ns: Annotated[
        int | None, "a loader's epochs, laid out with so many workers; null: it is not about a loader"
    ] = None


@dataclass(frozen=True)
class Verified:
    """What trying the remedy showed.  Times are for all recorded operations, scaled from those issued again."""

    outcome: Outcome
    why: Annotated[str, "the reason, if it was not tried; else what to know of the figures"] = ""
    plain_ns: Annotated[Count, "without the remedy, median of the rounds"] = 0
    remedy_ns: Annotated[Count, "with the remedy, median of the rounds"] = 0
    saved_ns: Annotated[
        int, "median of the rounds' differences, at most recorded_ns; negative: the remedy takes longer"
    ] = 0
    low_ns: Annotated[int, "lower quartile of the differences"] = 0
    high_ns: Annotated[int, "upper quartile of the differences"] = 0
    rounds: Count = 0
    operations: Annotated[Count, "issued again in each round"] = 0
    of_operations: Annotated[Count, "recorded, to which times are scaled"] = 0
    cache: Annotated[Cache, "where the bytes of the original files came from"] = ""
    at_least: Annotated[bool, "what was tried is only a part of what the remedy saves"] = False
    recorded_ns: Annotated[
        Count,
        "what the recorded operations took in the run, with Python's part of calls like os.stat(); 0: not known",
    ] = 0
    readers: Annotated[list[Readers], "the same reads from other numbers of processes"] = field(default_factory=list)
    from_memory_ns: Annotated[
        int | None, "a loader's epochs with all batches from memory; null: it is not about a loader"
    ] = None
    plain_range_ns: Annotated[Range, "the fastest and the slowest round without the remedy"] = (0, 0)
    remedy_range_ns: Annotated[Range, "and with it; in a gain, the two ranges do not overlap"] = (0, 0)


@dataclass(frozen=True)
class Finding:
    """One problem.

    A rule leaves out slug, and severity unless it is "ok" or the worst that it
    can be; insights.judgement fills them in.
    """

    title: Annotated[str, "one line"]
    recoverable_ns: Annotated[Count, "what the wall clock would lose, at most"]
    recoverable: Recoverable
    evidence: Annotated[list[Evidence], Keys(minItems=1)]
    query: Query
    remedy: Remedy | None = None
    sites: Annotated[list[Site], "the line to change first"] = field(default_factory=list)
    files: Annotated[list[str], "paths, or patterns of paths"] = field(default_factory=list)
    processes: Annotated[list[Count], "indexes of the process table"] = field(default_factory=list)
    persistence: Annotated[
        Share | None, "share of the run between the first and the last operation; null: not known"
    ] = None
    motif: Annotated[Motif, "what the calls at its lines did over time; null: too little to tell, or none of these"] = (
        None
    )
    confidence: Confidence = Confidence(0.9)
    severity: Severity = "critical"
    slug: Slug = ""
    file_systems: Annotated[
        list[str], "types of the file systems that the files are on, such as ext4; empty: not known"
    ] = field(default_factory=list)
    verified: Annotated[Verified | None, "what `insights --verify` measured"] = None

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
