"""A line reads a part, skips a part, reads a part: a column out of rows.

Each part is a call, and storage reads whole pages all the same. Read the rows and
take the column in memory (one numpy slice), or store what is read together side
by side: by columns, or in chunks.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from pyio_trace.insights import libraries
from pyio_trace.insights.access_lines import ACCESSES, lines, query, time_by_process
from pyio_trace.insights.finding import Confidence, Evidence, Finding, Remedy
from pyio_trace.insights.rule import Limit, Rule, Trial
from pyio_trace.units import number, seconds, size

if TYPE_CHECKING:
    from pyio_trace.insights.observed import Observed


def find(run: Observed, limits: Mapping[str, float]) -> Iterator[Finding]:
    for one in lines(run, "read"):
        stride, count = max(one.strides, key=lambda pair: pair[1], default=(0, 0))
        regular = count and count >= limits["share"] * one.placed  # without known offsets both are 0
        if one.calls < limits["calls"] or not regular or stride > limits["skipped"]:
            continue
        accesses = run.calls.where_line(one.line or "").transfers("read")
        if libraries.library_of(run, accesses) in libraries.OWN_PLACES:
            continue
        each = one.moved_bytes // max(one.calls, 1)
        gain = run.gain(time_by_process(run, one), "all these reads; a few large ones take some of it")
        yield Finding(
            title=f"{number(count)} reads of {size(each)}, each after skipping {size(stride)}",
            evidence=[
                Evidence(
                    f"{number(one.calls)} reads of {size(one.moved_bytes)} took {seconds(one.time_ns)}; with what they "
                    f"skip they cover {size(one.moved_bytes + count * stride)}.",
                    {"reads": one.calls, "strided": count, "stride": stride, "time_ns": one.time_ns},
                )
            ],
            remedy=Remedy(
                "Read all of it, and take the part in memory.",
                "for row in range(rows):\n    f.seek(row * width); column[row] = f.read(8)",
                "column = numpy.fromfile(f, 'f8').reshape(rows, -1)[:, 0]",
                "numpy",
            ),
            confidence=Confidence(0.6, "how long a few large reads take is not known"),
            query=query(one),
            **run.about(accesses, gain),
        )


RULE = Rule(
    "accesses",
    find,
    limits={
        "calls": Limit(500, "reads of one line, at least", few=50),
        "share": Limit(0.8, "of them that skip the same number of bytes, at least"),
        "skipped": Limit(1 << 20, "bytes between two of them, at most"),
    },
    needs=(ACCESSES,),
    topic="order",
    yields_to=("read-again",),
    trial=Trial("pyio_trace.insights.trials.reads:larger"),
    each_call=True,
)
