"""All that a rule of another distribution needs: docs/how-to/write-a-rule.md.

These names stay.  What is behind them, such as the modules that they come from, may change in any version.
"""

from __future__ import annotations

from pyio_trace.enums import Layer, OpClass, Role
from pyio_trace.insights import libraries, sql, words
from pyio_trace.insights.finding import Confidence, Evidence, Finding, Query, Remedy, Site, Term
from pyio_trace.insights.observed import Gain, Observed
from pyio_trace.insights.rule import Limit, Rule, Trial, rule
from pyio_trace.units import counted, number, percent, seconds, size

__all__ = [
    "Confidence", "Evidence", "Finding", "Gain", "Layer", "Limit", "Observed", "OpClass", "Query", "Remedy", "Role",
    "Rule", "Site", "Term", "Trial", "counted", "libraries", "number", "percent", "rule", "seconds", "size", "sql",
    "words",
]  # fmt: skip
