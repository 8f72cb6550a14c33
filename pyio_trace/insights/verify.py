"""`insights --verify`: tries the remedies of findings on this machine, without the program.

Recorded operations are issued again, with and without the remedy in turn.  The
original files are only read.  Writes go to a scratch folder on the same file
system, which is removed at the end, also after Ctrl-C or SIGTERM.
"""

from __future__ import annotations

import errno
import importlib
import os
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from pyio_trace.insights.finding import Finding, Verified
from pyio_trace.insights.insights import Insights
from pyio_trace.insights.judgement import measured as judged_again
from pyio_trace.insights.judgement import order, within_the_run
from pyio_trace.insights.trials import rounds
from pyio_trace.insights.trials.attempt import Attempt
from pyio_trace.insights.trials.interruptions import ended_by_signals, limited
from pyio_trace.insights.trials.memory import bounded
from pyio_trace.insights.trials.readers import Readings
from pyio_trace.insights.trials.recorded import Rows, rows_of
from pyio_trace.insights.trials.replay import NotTried, Replay
from pyio_trace.units import seconds as seconds_text

if TYPE_CHECKING:
    from pyio_trace.analysis.results.figures import Summary
    from pyio_trace.insights.rule import Rule
    from pyio_trace.insights.settings import Settings
    from pyio_trace.join.sources.facade import Log

#: Findings that are tried: the first ones.
MOST_FINDINGS = 20
#: Bytes from storage, as a share of what was read, from which on a run is tried without the page cache.
_COLD = 0.5
#: What a forked process fetched, as a share of what it read, up to which it fetched nothing else: readahead adds some.
_NOTHING_ELSE = 1.25
#: A trial covers a finding if the recorded operations took at least this share of the time that it says can be saved.
_COVERED = 0.9
#: Time of slow reads, as a share of that of all reads, from which on storage was waited for.
_SLOW = 0.25


def verify(
    log: Log,
    summary: Summary,
    insights: Insights,
    rules: Mapping[str, Rule],
    settings: Settings,
    seconds: float,
    progress: Callable[[str], None] | None = None,
) -> Insights:
    """The findings, each with the result of its trial.

    seconds: about how long each trial may take; progress: called with the slug of each finding before its trial.
    Raises LogError.
    """
    found = insights.findings
    tried = [
        (at, rule.trial)
        for at, one in enumerate(found[:MOST_FINDINGS])
        if one.severity != "ok" and (rule := rules[one.slug]).trial is not None
    ]
    was_cold = _was_cold(summary, _forked(log))
    with ended_by_signals():
        rows = rows_of(log, [(found[at], trial.rows) for at, trial in tried if trial is not None])
        verified = [_not_tried(one, at, rules[one.slug].untried) for at, one in enumerate(found)]
        for (at, trial), own in zip(tried, rows, strict=True):
            assert trial is not None
            if progress is not None:
                progress(found[at].slug)
            verified[at] = _tried(found[at], trial.replay, own, summary, was_cold, settings, seconds)
    return replace(insights, findings=within_the_run(sorted(verified, key=order), settings.of_severity()))


def _not_tried(finding: Finding, at: int, why: str) -> Finding:
    """The finding without a trial.  why: the reason that its rule gives, which counts if there is no other."""
    if finding.severity == "ok":
        why = "it costs nothing"
    elif at >= MOST_FINDINGS:
        why = f"only the first {MOST_FINDINGS} findings are"
    return replace(finding, verified=Verified("not tried", why))


def _tried(
    finding: Finding, replay: str, rows: Rows, summary: Summary, was_cold: bool, settings: Settings, seconds: float
) -> Finding:
    try:
        with bounded(), Attempt(finding, rows, summary.run.start + summary.run.wall) as attempt:
            with limited(2 * seconds, rounds.late(seconds)):
                made = loaded(replay)(attempt)
            if isinstance(made, Readings):
                shown = made.verified(seconds, was_cold, finding.recoverable_ns)
                remedy = None if shown.outcome == "harm" else finding.remedy
                shown = _bounded(shown, 0 if made.loader else attempt.recorded_ns(1))
                return replace(finding, remedy=remedy, verified=shown)
            made = replace(made, workers=attempt.workers())
            found = rounds.measured(made, seconds, was_cold, attempt.own_folder)
            notes = ["files were changed after the run"] if attempt.originals.changed else []
    except NotTried as error:
        return replace(finding, verified=Verified("not tried", str(error)))
    except MemoryError:
        return replace(finding, verified=Verified("not tried", "it needs more memory than a trial may take"))
    except OSError as error:
        why = "the disk is full" if error.errno in (errno.ENOSPC, errno.EDQUOT) else f"the trial failed ({error})"
        return replace(finding, verified=Verified("not tried", why.split("\n", 1)[0]))
    except Exception as error:  # an unforeseen file, library or log
        what = f"{type(error).__name__}: {error}".split("\n", 1)[0]
        return replace(finding, verified=Verified("not tried", f"the trial failed ({what})"))
    estimate, recorded = finding.recoverable_ns, attempt.recorded_ns(made.threads)
    beyond = 0 < recorded < _COVERED * estimate
    quicker = not beyond and 2 * found.plain_range[1] < estimate
    part, warm = made.least or beyond or quicker, was_cold and bool(made.originals) and found.cache != "cold"
    outcome = rounds.outcome_of(
        found.plain_range, found.remedy_range, found.saved, estimate, not (made.least or beyond or warm)
    )
    if outcome == "not known":
        notes.append(f"load {os.getloadavg()[0]:.1f}")
    if warm:
        notes.append("the run read from storage, the trial from memory")
    if beyond:
        notes.append("without what libraries do between the calls")
    if quicker and not made.least:
        notes.append("what took the time in the run was not all issued again, or is quicker now")
    if made.workers > 1:
        notes.append(f"in {made.workers} processes side by side")
    if made.threads > 1:
        notes.append(f"in {made.threads} threads")
    if made.note:
        notes.append(made.note)
    verified = Verified(
        outcome, "; ".join(notes), found.plain, found.remedy, found.saved, found.low, found.high,
        found.rounds, found.operations, made.recorded, found.cache, part,
        plain_range_ns=found.plain_range, remedy_range_ns=found.remedy_range,
    )  # fmt: skip
    verified = _bounded(verified, recorded)
    if part and outcome != "harm" and verified.saved_ns < estimate:
        return replace(finding, verified=verified)
    most = None
    if _is_worker(summary, rows):
        most = still_waited(finding.recoverable_ns, verified)
        if outcome == "gain" and most < verified.saved_ns:
            notes = [verified.why] if verified.why else []
            notes.append(f"its trainer would wait for no more than {seconds_text(most)} of that")
            verified = replace(verified, why="; ".join(notes))
    return judged_again(finding, verified, most, settings.of_severity())


def still_waited(waited: int, verified: Verified) -> int:
    """How long (ns) a trainer would wait for its worker if the operations took as long as in the trial.

    waited: in the run (ns).  Tracing, or a slower machine, made the operations take longer there, and the trainer
    waited longer by as much.
    """
    return max(waited - max(verified.recorded_ns - verified.plain_ns, 0), 0)


def _bounded(verified: Verified, recorded: int) -> Verified:
    """The result with a gain of no more than what the recorded operations took in the run (ns; 0: not known).

    They take longer now if the machine is busier, or if Python's own part of a call is not in the log.
    """
    if not recorded:
        return verified
    low, saved, high = (min(time, recorded) for time in (verified.low_ns, verified.saved_ns, verified.high_ns))
    why = [verified.why] if verified.why else []
    if saved < verified.saved_ns:
        why.append(f"no more than the {seconds_text(recorded)} that the recorded operations took")
    return replace(
        verified, low_ns=low, saved_ns=saved, high_ns=high, recorded_ns=recorded, why="; ".join(why)
    )  # fmt: skip


def loaded(name: str) -> Callable[[Attempt], Replay | Readings]:
    """The function of a rule.Trial."""
    module, _, function = name.partition(":")
    made: Callable[[Attempt], Replay | Readings] = getattr(importlib.import_module(module), function)
    return made


def _forked(log: Log) -> set[int]:
    """The processes (indexes) that were forked."""
    return {process["index"] for process in log.processes().to_pylist() if process["start"] == "fork"}


def _was_cold(summary: Summary, forked: Collection[int]) -> bool:
    """Whether most of what the run read came from storage.  forked: processes that had their libraries from the start.

    The kernel's account includes what imports and mappings fetched.  So slow reads must have taken much of the time of
    all reads as well, if the log has single reads: one or two that waited for a processor are no proof.  A fast disk
    has no slow reads.  There the account counts of forked processes that fetched no more than they read.
    """
    assert summary.overview is not None
    storage = summary.overview.storage
    moved = summary.bytes.posix_read + summary.bytes.stream_read
    known = [(one.storage_read, one.read) for one in summary.processes if one.index in forked]
    if 0 < _COLD * moved <= sum(fetched for fetched, read in known if fetched and fetched <= _NOTHING_ELSE * read):
        return True
    if storage.slow.compared and storage.slow.time_ns <= _SLOW * storage.slow.compared_ns:
        return False
    return bool(storage.read and moved and storage.read >= _COLD * moved)


def _is_worker(summary: Summary, rows: Rows) -> bool:
    """Whether the busiest process is a worker.  Its trainer saves no more than it waited, which the finding has."""
    assert summary.overview is not None
    process = rows.heaviest().process
    return any(one.index == process and one.split.idle_ns is not None for one in summary.overview.processes)
