"""[tool.pyio_trace.insights] of a pyproject.toml: thresholds, and findings to leave out.

The file may come from a stranger (project.py says more).  It can only change
numbers and leave findings out, and the number left out is shown.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import field

from pyio_trace.config import find_project, isolated
from pyio_trace.errors import ConfigError
from pyio_trace.globs import path_matcher
from pyio_trace.insights import judgement
from pyio_trace.insights.finding import Finding
from pyio_trace.insights.rule import Rule
from pyio_trace.light_dataclass import dataclass
from pyio_trace.project import check_text, table_of
from pyio_trace.values import did_you_mean

#: The table of the thresholds that are not of one rule.
SEVERITY = "severity"
_IGNORE = "ignore"
_MOST = 1e18


@dataclass(frozen=True)
class Ignored:
    """Findings that are not wanted.  slug: "*" for all; pattern: of their files or source files, "" for all."""

    slug: str
    pattern: str = ""

    def covers(self, finding: Finding) -> bool:
        """Whether it is one of them: with a pattern, if all its files match, or all its lines' files do."""
        if self.slug not in ("*", finding.slug):
            return False
        if not self.pattern:
            return True
        matches = path_matcher(self.pattern)
        lists = (finding.files, [site.file for site in finding.sites])
        return any(paths and all(map(matches, paths)) for paths in lists)


@dataclass(frozen=True)
class Settings:
    """ignored: findings left out; limits: slug, or SEVERITY -> threshold -> value."""

    ignored: list[Ignored] = field(default_factory=list)
    limits: Mapping[str, Mapping[str, float]] = field(default_factory=dict)

    def of(self, rule: Rule) -> dict[str, float]:
        """The value of each threshold of a rule."""
        given = self.limits.get(rule.slug, {})
        return {name: given.get(name, limit.default) for name, limit in rule.limits.items()}

    def of_few(self, rule: Rule) -> dict[str, float]:
        """The same, with Limit.few where the user has set nothing."""
        given = self.limits.get(rule.slug, {})
        few = {name: limit.few for name, limit in rule.limits.items() if limit.few is not None and name not in given}
        return {**self.of(rule), **few}

    def of_severity(self) -> dict[str, float]:
        """The value of each of judgement.LIMITS."""
        given = self.limits.get(SEVERITY, {})
        return {name: given.get(name, limit.default) for name, limit in judgement.LIMITS.items()}


def load(rules: Mapping[str, Rule], folder: str | None = None) -> Settings:
    """The settings of the nearest pyproject.toml at or above a folder (None: the current one).  Raises ConfigError.

    Under -E and -I there are none, as for the options of a run.
    """
    path, content = ("", b"") if isolated() else find_project(folder)
    if b"pyio_trace" not in content:
        return Settings()
    table = table_of(content, path).get("insights", {})
    blame = f"{path}: tool.pyio_trace.insights"
    if not isinstance(table, dict):
        raise ConfigError("bad-pyproject", f"{blame} is not a table; write [tool.pyio_trace.insights]")
    ignored: list[Ignored] = []
    limits: dict[str, dict[str, float]] = {}
    for key, value in table.items():
        name = key.replace("_", "-")
        if name == _IGNORE:
            ignored = parse_ignored(_texts(value, f"{blame}.{_IGNORE}"), rules, f"{blame}.{_IGNORE}")
        else:
            check_slug(name, {*rules, SEVERITY, _IGNORE}, blame)
            known = judgement.LIMITS if name == SEVERITY else rules[name].limits
            limits[name] = _thresholds(value, known, f"{blame}.{name}")
    return Settings(ignored, limits)


def check_slug(slug: str, known: Iterable[str], blame: str) -> None:
    """Raises ConfigError unless a rule has this slug."""
    known = sorted(known)
    if slug not in known:
        check_text(slug, blame)
        raise ConfigError("bad-value", f"{blame}: there is no finding {slug!r}{did_you_mean(slug, known)}")


def parse_ignored(texts: Iterable[str], rules: Mapping[str, Rule], blame: str) -> list[Ignored]:
    """``"small-accesses"``, ``"small-accesses:*/cache/*"`` or ``"*:/scratch/**"``.  Raises ConfigError."""
    found = []
    for text in texts:
        check_text(text, blame)
        slug, colon, pattern = text.strip().partition(":")
        check_slug(slug, {*rules, *(["*"] if pattern else [])}, blame)
        if colon and not pattern:
            raise ConfigError("bad-value", f"{blame}: {text!r} has no pattern after the colon")
        found.append(Ignored(slug, pattern))
    return found


def _texts(value: object, blame: str) -> list[str]:
    if not isinstance(value, list) or not all(isinstance(text, str) for text in value):
        raise ConfigError("bad-value", f'{blame} is {value!r}; write a list of texts, such as ["small-accesses"]')
    return value


def _thresholds(value: object, known: Mapping[str, object], blame: str) -> dict[str, float]:
    if not isinstance(value, dict):
        raise ConfigError("bad-value", f"{blame} is {value!r}; write a table of thresholds")
    found = {}
    for key, number in value.items():
        name = key.replace("-", "_")
        if name not in known:
            check_text(key, blame)
            raise ConfigError("unknown-option", f"{blame}: there is no threshold {key!r}{did_you_mean(name, known)}")
        if isinstance(number, bool) or not isinstance(number, (int, float)) or not _is_sane(number):
            raise ConfigError("bad-value", f"{blame}.{key} is {number!r}; write a number of 0 or more")
        found[name] = float(number)
    return found


def _is_sane(number: float) -> bool:
    return math.isfinite(number) and 0 <= number <= _MOST if isinstance(number, float) else 0 <= number <= int(_MOST)
