"""A line reads a file from its end to its beginning.

Nothing reads ahead in this direction: each read waits for storage, and a
compressed file has to be unpacked from the start each time. Read forward and turn
the items around in memory, or read large blocks from the end.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from pyio_trace.insights import libraries
from pyio_trace.insights.access_lines import ACCESSES, from_memory, lines, query, time_by_process
from pyio_trace.insights.finding import Confidence, Evidence, Finding, Remedy
from pyio_trace.insights.rule import Limit, Rule, Trial
from pyio_trace.units import number, seconds, size

if TYPE_CHECKING:
    from pyio_trace.insights.observed import Observed


def find(run: Observed, limits: Mapping[str, float]) -> Iterator[Finding]:
    cached = from_memory(run)
    for one in lines(run, "read"):
        if one.calls < limits["calls"] or not one.backward or one.backward < limits["share"] * one.placed:
            continue
        accesses = run.calls.where_line(one.line or "").transfers("read")
        if libraries.library_of(run, accesses) in libraries.OWN_PLACES:
            continue
        gain = run.gain(time_by_process(run, one), "all these reads; forward they take some of it")
        yield Finding(
            title=f"{number(one.backward)} of {number(one.placed)} reads go backward",
            evidence=[
                Evidence(
                    f"They read {size(one.moved_bytes)} in {seconds(one.time_ns)}."
                    + (" All of it came from memory." if cached else ""),
                    {"reads": one.placed, "backward": one.backward, "time_ns": one.time_ns},
                )
            ],
            remedy=Remedy(
                "Read forward, and reverse in memory.",
                "for n in reversed(range(count)):\n    f.seek(n * size); items.append(f.read(size))",
                "items = [f.read(size) for n in range(count)][::-1]",
            ),
            severity="ok" if cached else "warning",
            confidence=Confidence(0.6, "what reading ahead would have saved is not known"),
            query=query(one),
            **run.about(accesses, gain),
        )


RULE = Rule(
    "accesses",
    find,
    limits={
        "calls": Limit(100, "reads of one line, at least"),
        "share": Limit(0.9, "of them that begin before the one before, at least"),
    },
    needs=(ACCESSES,),
    topic="order",
    trial=Trial("pyio_trace.insights.trials.reads:in_order"),
)
