"""Conditions on the difference of two runs, such as "opens>+0" or "bytes_read[*.h5]>+5%": what --fail-if takes."""

from __future__ import annotations

import operator
import re
from dataclasses import dataclass

import numpy as np

from pyio_trace.analysis.compare.comparison import whole
from pyio_trace.analysis.compare.io_counts import COUNTS, FIGURES, SIZES, counts_by
from pyio_trace.analysis.tables.run_sums import RunSums
from pyio_trace.errors import ConfigError
from pyio_trace.globs import path_matcher
from pyio_trace.values import did_you_mean, parse_bytes, parse_duration, parse_path_pattern

#: Stands for each of COUNTS.
ANY_COUNT = "counts"
WALL = "wall"
_TIMES = ("time", WALL)
_FORM = re.compile(r"(\w+)\s*(?:\[(.*)\])?\s*(>=|<=|==|!=|>|<)\s*([+-]?)\s*([^\s%]+)\s*(%?)", re.DOTALL)
_COMPARE = {">": operator.gt, ">=": operator.ge, "<": operator.lt, "<=": operator.le, "==": operator.eq,
            "!=": operator.ne}  # fmt: skip
_MOST_PERCENT = 1_000_000


@dataclass(frozen=True)
class Condition:
    """One condition.  pattern: of the paths that count, "" for all; limit: of the figure after, or, if relative, of its
    difference from the one before, in percent of that if percent."""

    text: str
    figure: str
    pattern: str
    comparison: str
    limit: int | float
    relative: bool
    percent: bool


@dataclass(frozen=True)
class Outcome:
    """Whether a condition holds, for one figure."""

    condition: str
    figure: str
    pattern: str
    before: int
    after: int
    holds: bool


def parse_condition(text: str) -> Condition:
    """A condition from FIGURE[PATTERN] COMPARISON LIMIT.  Raises ConfigError."""
    form = _FORM.fullmatch(text.strip())
    if form is None:
        raise ConfigError("bad-condition", f"--fail-if: {text!r} is not a condition; write such as 'opens>+0'")
    figure, pattern, comparison, sign, number, percent = form.groups()
    known = (ANY_COUNT, *FIGURES, WALL)
    if figure not in known:
        near = did_you_mean(figure, known)
        they = ", ".join(known)
        raise ConfigError("bad-condition", f"--fail-if: there is no figure {figure!r}{near}; there are {they}")
    if pattern is not None and (figure == WALL or not pattern):
        raise ConfigError("bad-condition", f"--fail-if: {text!r}: [PATTERN] is of paths, for any figure but {WALL}")
    if percent and not sign:
        raise ConfigError("bad-condition", f"--fail-if: {text!r}: a percentage is of a difference; write +{number}%")
    limit = _percentage(number, text) if percent else _limit(figure, number, text)
    pattern = parse_path_pattern(pattern, "--fail-if") if pattern else ""
    return Condition(text, figure, pattern, comparison, -limit if sign == "-" else limit, bool(sign), bool(percent))


def _percentage(number: str, text: str) -> float:
    try:
        value = float(number)
    except ValueError:
        value = -1.0
    if not 0 <= value <= _MOST_PERCENT:
        raise ConfigError("bad-condition", f"--fail-if: {text!r}: {number!r} is not a percentage")
    return value


def _limit(figure: str, number: str, text: str) -> int:
    if figure in SIZES:
        return parse_bytes(number, f"--fail-if {text!r}")
    if figure in _TIMES:
        return parse_duration(number, f"--fail-if {text!r}")
    if not (number.isascii() and number.isdigit() and len(number) <= 18):
        raise ConfigError("bad-condition", f"--fail-if: {text!r}: {number!r} is not a number")
    return int(number)


def evaluate(condition: Condition, before: RunSums, after: RunSums) -> list[Outcome]:
    """Whether the condition holds: one outcome, or one for each count if it is about any of them."""
    figures = COUNTS if condition.figure == ANY_COUNT else (condition.figure,)
    outcomes = []
    for figure in figures:
        old, new = (_value(run, figure, condition.pattern) for run in (before, after))
        holds = _holds(condition, old, new)
        outcomes.append(Outcome(condition.text, figure, condition.pattern, old, new, holds))
    return outcomes


def _holds(condition: Condition, before: int, after: int) -> bool:
    compare = _COMPARE[condition.comparison]
    if condition.percent:
        return bool(compare((after - before) * 100, before * condition.limit))
    return bool(compare(after - before if condition.relative else after, condition.limit))


def _value(run: RunSums, figure: str, pattern: str) -> int:
    if figure == WALL:
        return run.wall
    if not pattern:
        return int(getattr(whole(run), figure))
    matches = path_matcher(pattern)
    chosen = np.array([*(bool(path) and matches(path) for path in run.paths), False], np.bool_)
    labels = np.where(chosen[run.groups.path], 0, -1)
    return int(getattr(counts_by(run.groups, labels, 1, of_files=True)[0], figure))
