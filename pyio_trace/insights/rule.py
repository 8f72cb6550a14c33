"""Rules: from the results of reducers to findings.  docs/how-to/write-a-rule.md shows how to write one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import field
from typing import TYPE_CHECKING, Any

from pyio_trace.insights.finding import Finding
from pyio_trace.light_dataclass import dataclass

if TYPE_CHECKING:
    from pyio_trace.analysis.reducer import Reducer
    from pyio_trace.insights.observed import Observed


@dataclass(frozen=True)
class Limit:
    """A threshold of a rule.  meaning: a phrase for the documentation; few: the value for findings that save a notable
    share of the run (few_share of judgement.LIMITS), unless the user has set the threshold; None: the same."""

    default: float
    meaning: str
    few: float | None = None


@dataclass(frozen=True)
class Trial:
    """How the remedy of a rule is tried without the program, for `insights --verify`.

    replay: "module:function", imported only then; the function gets an Attempt
    and returns a Replay (pyio_trace.insights.trials).  rows: which operations
    of the log it gets: "line": those of the finding's lines; "files": those on
    its files; "loader": those of PyTorch's loaders and all in their fetches.
    """

    replay: str
    rows: str = "line"


@dataclass(frozen=True)
class Rule:
    """One rule.

    group: the heading it is documented under; find: yields the findings of a
    run; its second argument has the value of each of `limits`; needs: the
    reducers whose results it reads by Observed.of(); general: it sums up what
    other rules name, and gives way to a finding of theirs with at least half of
    its time at one of its lines; topic: which sentence about file systems its remedies get
    (file_systems.TOPICS), "": none; trial: how its remedy is tried, None: it is
    not; untried: why not; yields_to: slugs of more specific rules, to whose
    findings it gives way as a general one does; each_call: it asks for the order,
    the moments or the details of single calls, which the sums of mode profile do not
    have: without a finding, a profile says nothing about it.
    """

    group: str
    find: Callable[[Observed, Mapping[str, float]], Iterable[Finding]]
    limits: Mapping[str, Limit] = field(default_factory=dict)
    needs: tuple[Reducer[Any, Any], ...] = ()
    general: bool = False
    topic: str = ""
    trial: Trial | None = None
    untried: str = "needs the program"
    yields_to: tuple[str, ...] = ()
    each_call: bool = False
    #: Set by the registry: the rule's name, and the docstring of its module.
    slug: str = ""
    doc: str = ""


def rule(group: str, **options: Any) -> Callable[[Callable[[Observed, Mapping[str, float]], Iterable[Finding]]], Rule]:
    """Makes a Rule of the function that finds; group, options: as for Rule."""

    def make(find: Callable[[Observed, Mapping[str, float]], Iterable[Finding]]) -> Rule:
        return Rule(group, find, **options)

    return make
