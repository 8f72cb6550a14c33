"""What tracing itself cost, estimated from what was recorded.

Nobody can measure a run with and without tracing at once; but the cost of one
operation is known from benchmarks/ (bare against traced in turn, medians), and
the log says how many there were of each kind.
"""

from __future__ import annotations

#: ns for one recorded operation: entry, stack, record, exit.  docs/benchmarks.md, "Python, os.pread 4 KiB".
RECORDED = 65
#: ns for a call folded into a run of like calls.  docs/benchmarks.md, "Python, f.read(16)".
COALESCED = 20
#: ns for a call that was only counted.  Reasoned, not measured: two clock readings and five atomic adds.
COUNTED = 40


def estimate(records: int, coalesced: int, counted: int) -> int:
    """ns spent on tracing: rows of the log, calls that rows stand for beyond themselves, calls without a row."""
    return RECORDED * records + COALESCED * coalesced + COUNTED * counted
