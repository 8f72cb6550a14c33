"""Reading a text file takes longer to decode than to read.

A text file finds line ends and decodes each byte. Where only bytes are needed
(counting, hashing, splitting at a separator, numbers), open it with "rb"; where
many numbers are needed, let a library read them (numpy, pyarrow.csv), or store
them in a binary format.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from pyio_trace.enums import Layer, OpClass
from pyio_trace.insights import sql
from pyio_trace.insights.finding import Confidence, Evidence, Finding, Remedy
from pyio_trace.insights.rule import Limit, Rule
from pyio_trace.units import seconds, size

if TYPE_CHECKING:
    from pyio_trace.insights.observed import Observed


def find(run: Observed, limits: Mapping[str, float]) -> Iterator[Finding]:
    reading = run.calls.where(op=_READING, own=True)
    for place in reading.by("site"):
        if place.moved < limits["bytes"]:
            continue
        beneath = run.calls.where(site=place["site"], inside=1, layer=Layer.POSIX, kind=OpClass.READ)
        io = beneath.total("time")
        decoding = max(place.time - io, 0)
        if decoding < limits["ratio"] * io:
            continue
        gain = run.gain(
            run.times(place.rows, decoding / max(place.time, 1)), "the calls without the reads beneath them"
        )
        if gain.ns < limits["share"] * run.wall_ns:
            continue
        yield Finding(
            title=f"Decoding {size(place.moved)} of text takes {seconds(decoding)}, reading it {seconds(io)}",
            evidence=[
                Evidence(
                    f"{place.calls:,} calls of the text file took {seconds(place.time)}.",
                    {"calls": place.calls, "bytes": place.moved, "time_ns": place.time, "io_ns": io},
                )
            ],
            remedy=Remedy(
                "Read bytes where bytes will do.",
                "with open(path) as f:\n    count = sum(line.count(',') for line in f)",
                "with open(path, 'rb') as f:\n    count = sum(line.count(b',') for line in f)",
            ),
            severity="warning",
            confidence=Confidence(0.7, "making lines takes part of the time, and is needed for bytes too"),
            query=sql.rows({"site": run.calls.site(place["site"]), "layer": ["app", "posix"]}),
            **run.about(place.rows, gain),
        )


_READING = ("TextIOWrapper.read", "TextIOWrapper.readline", "TextIOWrapper.readlines", "TextIOWrapper.__next__")
RULE = Rule(
    "accesses",
    find,
    limits={
        "bytes": Limit(1 << 22, "of text read by one line, at least"),
        "ratio": Limit(2, "times the time of the reads, at least"),
        "share": Limit(0.05, "of the wall time, at least"),
    },
)
