"""Findings of real traced programs, with what must hold for every finding checked."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.util import find_spec
from typing import Any
from unittest.mock import patch

import pyarrow as pa
import pytest

from pyio_trace.analysis.results.figures import Weakness
from pyio_trace.insights import insights, registry
from pyio_trace.insights.finding import LEVELS, SEVERITIES, Finding
from pyio_trace.insights.judgement import weaknesses
from pyio_trace.insights.observed import Observed
from pyio_trace.insights.settings import Settings
from pyio_trace.join.sources.facade import Log
from tests.support.programs import Outcome, succeeded

#: Rules that ask for a share of the wall time, and for nothing else that a time decides.
_OF_WALL = (
    "checkpoint-stall", "hdf5-item-per-call", "hdf5-many-objects", "hdf5-not-collective", "import-storm",
    "metadata-share",
    "parquet-all-columns", "small-accesses", "text-tell", "tiny-calls", "written-again",
)  # fmt: skip
#: Thresholds of time, such that they decide nothing: how long calls take is up to the machine, and what else it does.
NO_TIMES: Mapping[str, Mapping[str, float]] = {
    **{slug: {"share": 0} for slug in _OF_WALL},
    "blocking-call-in-event-loop": {"ms": 0, "longest_ms": 1e9},
    **{slug: {"share": 0, "ms": 0} for slug in ("decompression-bound", "format-bound", "parse-bound")},
    "costly-function": {"share": 2.0},  # never
    "import-storm": {"share": 0, "calls_share": 0},
    "loader-first-batch": {"share": 0, "ms": 0, "fewer": 1},
    "loader-starved": {"share": 0, "ms": 0.001, "fewer": 1},
    "loader-uneven": {"ms": 1e9},
    "loader-workers-restart": {"fewer": 1},
    "process-per-item": {"share": 0, "ms": 1e9},
    "severity": {"few_share": 2.0},  # never
    "small-partitions": {"ms": 1e9},
    "stragglers": {"ms": 1e9},
    "text-decoding": {"share": 0, "ratio": 0},
    "tiny-tasks": {"share": 2.0},  # never
    "worker-reimport": {"share": 0, "ms": 0},
}


def without_times(limits: Mapping[str, Mapping[str, float]] | None = None) -> Settings:
    """Settings with which counts, sizes and places decide what is found, and no time.  limits: go before NO_TIMES."""
    limits = limits or {}
    return Settings(limits={slug: {**NO_TIMES.get(slug, {}), **limits.get(slug, {})} for slug in {*NO_TIMES, *limits}})


#: Rules whose findings a busy machine can make, as no count decides, and never critical; and imports of libraries.
BY_TIMES = {"close-stall", "import-storm", "io-not-hidden", "lock-waits", "slow-first-operations", "threads-in-turns"}
#: Severities, if any time is long enough.
_ANY_TIME = {"severity": dict.fromkeys(("critical_ms", "critical_share", "warning_ms", "warning_share"), 0.0)}


def worst_of(outcome: Outcome) -> dict[str, str]:
    """Slug -> how bad its findings of a run are however long its calls take, without those of BY_TIMES."""
    found = [one for one in findings_of(outcome, without_times(_ANY_TIME)) if one.slug not in BY_TIMES]
    return {one.slug: one.severity for one in sorted(found, key=lambda one: SEVERITIES.index(one.severity))[::-1]}


def findings_of(outcome: Outcome, settings: Settings | None = None) -> list[Finding]:
    """All findings of a run; no rule failed.  settings: None: counts decide (see without_times).

    How much of the time has no line is left out of their confidence: in a run of milliseconds that is chance.
    """
    with patch.object(insights, "weaknesses", _without_shares_of_time):
        _, found = insights.find(succeeded(outcome).log, registry.found(), settings or without_times())
    assert found.failed == {}
    for finding in found.findings:
        check(finding, outcome.log)
    return found.findings


def _without_shares_of_time(observed: Observed) -> list[Weakness]:
    return [one for one in weaknesses(observed) if one.slug != "lines-missing"]


def check(finding: Finding, log: Log) -> None:
    """What holds for every finding: its figures make sense, and its query, if it can be run here, gives rows."""
    assert finding.severity in SEVERITIES and finding.confidence.level in dict(LEVELS)
    assert 0 <= finding.recoverable_ns <= finding.recoverable.of_wall_ns
    assert finding.persistence is None or 0 <= finding.persistence <= 1
    assert finding.title and finding.evidence and finding.recoverable.how
    assert "\n" not in finding.title and len(finding.title) <= 100
    for code in _code(finding):
        compile(code, finding.slug, "exec")
        assert max(map(len, code.split("\n"))) <= 69, code
    assert not _can_run(finding) or evidence_of(finding, log)


def _code(finding: Finding) -> list[str]:
    """The code of the remedy, whose lines are indented by 11 columns of 80."""
    return [] if finding.remedy is None else [finding.remedy.before, finding.remedy.after]


def _can_run(finding: Finding) -> bool:
    return finding.query.language != "sql" or find_spec("duckdb") is not None


def evidence_of(finding: Finding, log: Log) -> list[dict[str, Any]]:
    """The rows that a finding's query gives.  Skips the test if the query cannot be run here."""
    if not _can_run(finding):
        pytest.skip("duckdb is not installed")
    if finding.query.language == "python":
        table = eval(finding.query.text, {"log": log})
    else:
        table = log.sql(finding.query.text)
    assert isinstance(table, pa.Table)
    return list(table.to_pylist())


def only(found: list[Finding], slug: str) -> Finding:
    """The one finding with this slug."""
    (finding,) = [finding for finding in found if finding.slug == slug]
    return finding


def none(found: list[Finding], slug: str) -> bool:
    """Whether there is no finding with this slug."""
    return all(finding.slug != slug for finding in found)
