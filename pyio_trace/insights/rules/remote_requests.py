"""Many requests to an object store or a web server, each for little.

Every request waits for the network, however little it asks for. Read large
ranges, many files at once in threads, or one file that holds them all.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from pyio_trace.enums import Layer, Role
from pyio_trace.insights import sql
from pyio_trace.insights.finding import Confidence, Evidence, Finding, Remedy
from pyio_trace.insights.rule import Limit, Rule
from pyio_trace.units import counted, number, seconds, size

if TYPE_CHECKING:
    from pyio_trace.insights.observed import Observed

#: Names of what is not on this machine.
_REMOTE = re.compile(r"(?!file:|memory:|local:)[a-z][a-z0-9+.-]{1,20}://")


def find(run: Observed, limits: Mapping[str, float]) -> Iterator[Finding]:
    requests = run.calls.where(layer=Layer.APP, role=Role.REQUEST, inside=0)
    requests = requests.matching(_REMOTE.pattern)
    for place in requests.by("site"):
        each = place.moved // max(place.calls, 1)
        if place.calls < limits["requests"] or each > limits["bytes"]:
            continue
        gain = run.gain(run.times(place.rows), "all these requests; fewer and larger ones take some of it")
        names = place.rows.distinct("path")
        yield Finding(
            title=f"{number(place.calls)} requests to {_server(place.rows.paths()[0])} for {size(each)} each",
            evidence=[
                Evidence(
                    f"They took {seconds(place.time)}, {seconds(place.time // place.calls)} each, for "
                    f"{counted(names, 'name')}.",
                    {"requests": place.calls, "names": names, "bytes": place.moved, "time_ns": place.time},
                )
            ],
            remedy=Remedy(
                "Ask for many at once, and for large ranges.",
                "for url in urls:\n    frames.append(pandas.read_csv(url))",
                "with ThreadPoolExecutor(16) as pool:\n    frames = list(pool.map(pandas.read_csv, urls))",
            ),
            confidence=Confidence(0.6, "that these calls went over the network follows from their names"),
            query=sql.rows({"site": run.calls.site(place["site"]), "layer": "app"}),
            **run.about(place.rows, gain),
        )


def _server(url: str) -> str:
    """``"s3://bucket"`` of ``"s3://bucket/key"``."""
    scheme, _, rest = url.partition("://")
    return f"{scheme}://{rest.partition('/')[0][:30]}"


RULE = Rule(
    "object stores",
    find,
    limits={
        "requests": Limit(100, "of one line, at least", few=10),
        "bytes": Limit(1 << 20, "of one of them on average, at most"),
    },
)
