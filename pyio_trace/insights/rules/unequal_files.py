"""One of many files that several processes work through is far larger than the others.

The process that gets it is still at work when the others have nothing left.
Divide the data into files of about equal size, hand out the largest ones first,
or let several processes take parts of a large file.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

import numpy as np

from pyio_trace.analysis.calls.name_patterns import role_of
from pyio_trace.enums import OpClass, Role
from pyio_trace.insights import sql
from pyio_trace.insights.finding import Confidence, Evidence, Finding, Remedy
from pyio_trace.insights.rule import Limit, Rule
from pyio_trace.units import number, seconds, size

if TYPE_CHECKING:
    from pyio_trace.analysis.view_sums.call_table import CallTable
    from pyio_trace.insights.observed import Observed

_MOVING = (OpClass.READ, OpClass.WRITE)
#: Patterns that are looked at, those with the largest files.
_MOST_PATTERNS = 100


def find(run: Observed, limits: Mapping[str, float]) -> Iterator[Finding]:
    moves = run.calls.where(role=Role.IO, kind=_MOVING)
    files = moves.sums("path")
    patterns: dict[str, list[tuple[int, int]]] = defaultdict(list)  # (bytes, path)
    for code, moved in zip(files["path"].tolist(), files["moved"].tolist(), strict=True):
        path = run.calls.path(code)
        if path is not None and role_of(path) == "data":
            patterns[run.pattern_of(path)].append((moved, code))
    for pattern, same in sorted(patterns.items(), key=lambda one: max(one[1]), reverse=True)[:_MOST_PATTERNS]:
        largest, code = max(same)
        usual = int(np.median([moved for moved, _ in same]))
        if not largest or len(same) < limits["files"] or largest < max(limits["bytes"], limits["ratio"] * usual):
            continue
        if moves.where(path=[path for _, path in same]).distinct("process") >= limits["processes"]:
            yield _finding(run, moves.where(path=code), pattern, len(same), largest, usual)


def _finding(run: Observed, calls: CallTable, pattern: str, files: int, largest: int, usual: int) -> Finding:
    gain = run.gain(run.times(calls, 1 - usual / largest), "the I/O on this file beyond that on a usual one")
    name = calls.paths()[0].rpartition("/")[2]
    return Finding(
        title=f"{name} is {largest / max(usual, 1):.0f} times as large as others like it",
        evidence=[
            Evidence(
                f"{size(largest)} of it were read and written, in {seconds(calls.total('time'))}; of {number(files)} "
                f"files {pattern.rpartition('/')[2]} half have {size(usual)} or less.",
                {"bytes": largest, "usual": usual, "files": files, "time_ns": calls.total("time")},
            )
        ],
        remedy=Remedy(
            "Hand out the largest files first, one at a time; or write files of equal size.",
            "pool.map(convert, paths)",
            "largest = sorted(paths, key=os.path.getsize, reverse=True)\npool.map(convert, largest, chunksize=1)",
        ),
        confidence=Confidence(0.6, "whether the others waited is not known; work besides I/O grows with the file, too"),
        query=sql.rows({"path": calls.paths(), "op_class": ["read", "write"], "op_role": "io"}),
        **run.about(calls, gain),
    )


RULE = Rule(
    "balance",
    find,
    limits={
        "files": Limit(6, "of one pattern, at least"),
        "processes": Limit(2, "that work on them, at least"),
        "ratio": Limit(4, "times the median of the bytes moved in each, at least"),
        "bytes": Limit(1 << 23, "moved in the largest, at least"),
    },
)
