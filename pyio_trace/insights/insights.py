"""Finds what is slow: scans a log once for the summary and all rules, runs the rules, and applies the settings."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import field, replace
from typing import TYPE_CHECKING, Any

from pyio_trace.analysis.reducer import Reducer
from pyio_trace.analysis.reducers.line_calls import LineCalls
from pyio_trace.analysis.results.figures import Summary
from pyio_trace.analysis.summary.overview import of_samples
from pyio_trace.analysis.summary.summarize import TOP, summarize_with
from pyio_trace.analysis.summary.summary_rows import COLUMNS
from pyio_trace.insights.comments import Comments
from pyio_trace.insights.file_systems import FileSystems
from pyio_trace.insights.finding import SEVERITIES, Finding, Site
from pyio_trace.insights.judgement import judged, order, weaknesses, within_the_run
from pyio_trace.insights.library_frames import FramesOfLines
from pyio_trace.insights.line_times import CallTimes
from pyio_trace.insights.line_walls import no_more_than_the_lines
from pyio_trace.insights.machines import machines
from pyio_trace.insights.observed import Observed
from pyio_trace.insights.rule import Rule
from pyio_trace.insights.settings import Settings
from pyio_trace.insights.verdicts import Verdict, verdicts
from pyio_trace.light_dataclass import dataclass

if TYPE_CHECKING:
    import pyarrow as pa

    from pyio_trace.analysis.scan.workers import Workers
    from pyio_trace.join.sources.facade import Log


#: Findings of one rule that are listed.
MOST_OF_A_RULE = 100


@dataclass(frozen=True)
class Insights:
    """The findings of a run, the most recoverable time first.

    suppressed: how many were left out by a setting or a comment; failed: rules
    that did not work, and why; weak: what weakens all findings; more: slug ->
    how many further findings of the rule there are, with less time each; unanswered:
    rules without a finding that a profile says nothing about (Rule.each_call); verdicts: of lines that take a notable
    share of the run and have no finding.
    """

    findings: list[Finding]
    suppressed: int = 0
    failed: dict[str, str] = field(default_factory=dict)
    weak: list[str] = field(default_factory=list)
    more: dict[str, int] = field(default_factory=dict)
    unanswered: list[str] = field(default_factory=list)
    verdicts: list[Verdict] = field(default_factory=list)


def columns(rules: Mapping[str, Rule]) -> tuple[str, ...]:
    """The columns of the operations table that these rules and the summary need."""
    return tuple(dict.fromkeys([*COLUMNS, *(name for one in _reducers(rules) for name in one.columns)]))


def find(
    log: Log,
    rules: Mapping[str, Rule],
    settings: Settings,
    progress: Callable[[int], None] | None = None,
    batches: Iterator[pa.RecordBatch] | None = None,
    top: int = TOP,
    workers: Workers | None = None,
) -> tuple[Summary, Insights]:
    """The summary of a log and its findings.

    progress, top, workers: as for summarize(); batches: those of the log with at
    least columns(rules), if they are being read anyway.  Raises what reading the
    log raises.
    """
    sampled = of_samples(log)
    reducers = [*_reducers(rules), *sampled]
    summary, results = summarize_with(reducers, log, top, progress, batches, workers)
    processes = log.processes().to_pylist()
    info = log.info()
    mounts = FileSystems(info.get("file_systems"), info.get("lock_options"))
    counters = log.counters().to_pylist()
    known = dict(zip(reducers, results, strict=True))
    mappings = log.mappings().to_pylist()
    wall = known[sampled[0]].rows if sampled and not summary.unseen.losses.get("sampler_unread") else []
    system = log.seen_of_system()
    devices = log.devices() if len(system) else ()
    observed = Observed(
        summary,
        known,
        processes,
        mounts,
        counters,
        machines(info),
        mappings,
        wall,
        system=system,
        devices=devices,
        stripes=log.stripes(),
    )
    return summary, _insights(observed, rules, settings)


def _reducers(rules: Mapping[str, Rule]) -> list[Reducer[Any, Any]]:
    """Each reducer that a rule needs, once."""
    return list(
        dict.fromkeys(
            [LineCalls(), CallTimes(), FramesOfLines(), *(one for rule in rules.values() for one in rule.needs)]
        )
    )


def _specific(found: list[Finding], rules: Mapping[str, Rule]) -> list[Finding]:
    """The findings without those that repeat a more specific one, of the same severity or worse, at the same line; or
    about the same file, if their rule gives way to its rule."""
    specific: dict[tuple[tuple[str, int], str], int] = {}
    of_rule: dict[tuple[str, tuple[str, int] | str], int] = {}
    for finding in found:
        for file in finding.files:
            of_rule[finding.slug, file] = max(finding.recoverable_ns, of_rule.get((finding.slug, file), 0))
        for site in map(_line, finding.sites):
            of_rule[finding.slug, site] = max(finding.recoverable_ns, of_rule.get((finding.slug, site), 0))
            if not rules[finding.slug].general:
                for severity in SEVERITIES[SEVERITIES.index(finding.severity) :]:
                    specific[site, severity] = max(finding.recoverable_ns, specific.get((site, severity), 0))

    def says_more(finding: Finding) -> bool:
        if not finding.sites:
            return True
        rule, site = rules[finding.slug], _line(finding.sites[0])
        times = [of_rule.get((slug, site)) for slug in rule.yields_to]
        if len(finding.files) == 1:  # another line opens it than reads it
            times += [of_rule.get((slug, finding.files[0])) for slug in rule.yields_to]
        times += [specific.get((_line(one), finding.severity)) for one in finding.sites] if rule.general else []
        return all(time is None or 2 * time < finding.recoverable_ns for time in times)

    return [finding for finding in found if says_more(finding)]


def _line(site: Site) -> tuple[str, int]:
    """The line: before Python 3.12, a comprehension there is a function of its own."""
    return site.file, site.line


def _insights(observed: Observed, rules: Mapping[str, Rule], settings: Settings) -> Insights:
    known = weaknesses(observed)
    failed: dict[str, str] = {}
    found: list[Finding] = []
    for slug, rule in rules.items():
        try:
            made = [observed.mounts.worded(one, rule.topic) for one in _found(observed, rule, settings)]
            made = [no_more_than_the_lines(observed, one) for one in made]
            found += [judged(finding, slug, settings.of_severity(), known) for finding in made]
        except Exception as error:  # a third party's rule, or a log of a kind that no test has
            failed[slug] = f"{type(error).__name__}: {error}"
    comments = Comments()
    found = _specific(found, rules)
    wanted = [
        finding
        for finding in found
        if not any(one.covers(finding) for one in settings.ignored) and not comments.suppress(finding)
    ]
    weak = [weakness.text for weakness in known]
    listed, more = _first_of_each(within_the_run(sorted(wanted, key=order), settings.of_severity()))
    times = observed.of(CallTimes())
    listed = [replace(finding, motif=times.motif(finding.sites)) for finding in listed]
    seen = {finding.slug for finding in found}
    profile = observed.summary.run.mode == "profile"
    unanswered = [slug for slug, rule in rules.items() if profile and rule.each_call and slug not in seen]
    return Insights(listed, len(found) - len(wanted), failed, weak, more, unanswered, verdicts(observed, found))


def _found(observed: Observed, rule: Rule, settings: Settings) -> list[Finding]:
    """What a rule finds: much that is counted, and what takes a notable share of the run however few it is."""
    many, few = settings.of(rule), settings.of_few(rule)
    found = list(rule.find(observed, many))
    if few == many:
        return found
    sites, least = {tuple(one.sites) for one in found}, settings.of_severity()["few_share"] * observed.wall_ns
    costly = (one for one in rule.find(observed, few) if one.recoverable.is_time and one.recoverable_ns >= least)
    return found + [one for one in costly if one.severity != "ok" and tuple(one.sites) not in sites]


def _first_of_each(found: list[Finding]) -> tuple[list[Finding], dict[str, int]]:
    """(the first findings of each rule, slug -> how many more there are)."""
    count: Counter[str] = Counter()
    listed = []
    for finding in found:
        count[finding.slug] += 1
        if count[finding.slug] <= MOST_OF_A_RULE:
            listed.append(finding)
    return listed, {slug: most - MOST_OF_A_RULE for slug, most in count.items() if most > MOST_OF_A_RULE}
