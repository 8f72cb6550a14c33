"""The rules themselves: a line for each, and the page of one."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping

from pyio_trace.errors import printable
from pyio_trace.insights.rule import Rule
from pyio_trace.insights.settings import Settings

_WIDTH = 80


def list_lines(rules: Mapping[str, Rule], width: int | None) -> Iterator[str]:
    """Slug and first sentence of each; width: at which lines are cut, None: nowhere."""
    longest = max(map(len, rules), default=0)
    for slug, rule in rules.items():
        first = (rule.doc or "").partition("\n")[0]
        line = printable(f"{slug:<{longest}} {'*' if rule.each_call else ' '} {first}".rstrip())
        yield line if width is None or len(line) <= width else f"{line[: width - 3]}..."
    if any(rule.each_call for rule in rules.values()):
        yield "* asks for each operation: mode profile has no answer.  More: insights --explain SLUG"


def rule_lines(rule: Rule, settings: Settings) -> Iterator[str]:
    """What a rule finds and what to do, its thresholds as they are set here, whether its remedy can be tried."""
    yield f"{rule.slug}  ({rule.group})"
    yield ""
    yield from map(printable, rule.doc.split("\n") if rule.doc else ["Not documented."])
    if rule.limits:
        values = settings.of(rule)
        yield from ("", f"Thresholds, [tool.pyio_trace.insights.{rule.slug}] of pyproject.toml:")
        for name, limit in rule.limits.items():
            default = "" if values[name] == limit.default else f" (default {limit.default:,.15g})"
            start = f"  {name} = {values[name]:,.15g}{default}"
            yield from textwrap.wrap(printable(f"{start}  {limit.meaning}"), _WIDTH, subsequent_indent="    ")
    yield ""
    tried = (
        "--verify tries the remedy." if rule.trial is not None else f"--verify does not try the remedy: {rule.untried}."
    )
    yield printable(tried)
    if rule.each_call:
        yield "It asks for each operation: mode profile has no answer."
    yield f"To leave it out: --ignore {rule.slug}, or on the line: # pyio_trace: ignore[{rule.slug}]"
