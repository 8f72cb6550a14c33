"""Small reads or writes of a file that was opened with O_DIRECT.

The flag bypasses the page cache: nothing is read ahead, nothing is written
later, and bytes that are read again come from the device again. It pays for
blocks of a megabyte and more that are used once.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from pyio_trace.enums import Layer, OpClass
from pyio_trace.insights import sql
from pyio_trace.insights.finding import Confidence, Evidence, Finding, Remedy
from pyio_trace.insights.open_flags import OPENS
from pyio_trace.insights.rule import Limit, Rule
from pyio_trace.units import number, seconds, size

if TYPE_CHECKING:
    from pyio_trace.insights.observed import Observed


def find(run: Observed, limits: Mapping[str, float]) -> Iterator[Finding]:
    direct = {one.path for one in run.of(OPENS) if "O_DIRECT" in one.flags}
    moves = run.calls.where(layer=Layer.POSIX, kind=(OpClass.READ, OpClass.WRITE), path=direct, errno=0)
    for place in moves.by("site", "kind"):
        each = place.moved // max(place.calls, 1)
        if place.calls < limits["calls"] or each > limits["bytes"]:
            continue
        what = "reads" if place["kind"] == OpClass.READ else "writes"
        gain = run.gain(run.times(place.rows), "all these calls; through the page cache they take some of it")
        yield Finding(
            title=f"{number(place.calls)} {what} of {size(each)} past the page cache (O_DIRECT)",
            evidence=[
                Evidence(
                    f"{size(place.moved)} took {seconds(place.time)}, {seconds(place.time // place.calls)} a call.",
                    {"calls": place.calls, "bytes": place.moved, "time_ns": place.time},
                )
            ],
            remedy=Remedy(
                "Leave the flag out, or move 1 MiB and more at a time.",
                "fd = os.open(path, os.O_RDONLY | os.O_DIRECT)",
                "fd = os.open(path, os.O_RDONLY)",
            ),
            confidence=Confidence(0.7, "the flags of each open are in the log"),
            query=sql.rows({"path": place.rows.paths(), "op_class": ["read", "write"], "layer": "posix"}),
            **run.about(place.rows, gain),
        )


RULE = Rule(
    "accesses",
    find,
    limits={
        "calls": Limit(50, "of one line on such files, at least", few=10),
        "bytes": Limit(131_072, "of one of them on average, at most"),
    },
    needs=(OPENS,),
    topic="size",
    each_call=True,
)
