"""tell() of a text file takes a good part of the run.

A text file decodes ahead of what has been read. To find the byte where a line
begins, tell() decodes the buffered bytes again, sometimes many times. A binary file
knows its position; or add up the lengths of the lines, in bytes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from pyio_trace.insights import sql
from pyio_trace.insights.finding import Confidence, Evidence, Finding, Remedy
from pyio_trace.insights.rule import Limit, Rule
from pyio_trace.units import number, seconds

if TYPE_CHECKING:
    from pyio_trace.insights.observed import Observed


def find(run: Observed, limits: Mapping[str, float]) -> Iterator[Finding]:
    for place in run.calls.where(op=["TextIOWrapper.tell"], own=True).by("site"):
        gain = run.gain(
            run.times(place.rows, value="outer"), "these calls; a binary file's take next to nothing", "estimate"
        )
        if gain.ns < limits["share"] * run.wall_ns:
            continue
        yield Finding(
            title=f"tell() of a text file is called {number(place.calls)} times",
            evidence=[Evidence(f"The calls took {seconds(place.outer)}.",
                               {"calls": place.calls, "time_ns": place.outer})],
            remedy=Remedy(
                "Open the file in binary mode, and decode lines; or count the bytes of the lines.",
                "with open(path) as f:\n    while line := f.readline():\n        starts.append(f.tell())",
                "with open(path, 'rb') as f:\n    while line := f.readline():    # decode() where needed\n"
                "        starts.append(f.tell())",
            ),
            confidence=Confidence(0.9, "the calls are in the log"),
            query=sql.rows({"site": run.calls.site(place["site"]), "op": "TextIOWrapper.tell"}),
            **run.about(place.rows, gain),
        )  # fmt: skip


RULE = Rule("computing", find, limits={"share": Limit(0.05, "of the wall time, at least")})
