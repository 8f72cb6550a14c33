"""The program looks for files that are not there, over and over.

A search along a list of folders fails in all but one of them for every name. Find
the folder once and keep it, or list the folders and look the name up in memory. Where
a loop asks until a file is there, let the one who makes it say so.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from pyio_trace.enums import Layer, OpClass
from pyio_trace.insights import sql
from pyio_trace.insights.finding import Evidence, Finding, Remedy
from pyio_trace.insights.rule import Limit, Rule
from pyio_trace.insights.rules.polling import WAIT
from pyio_trace.units import number, seconds

if TYPE_CHECKING:
    from pyio_trace.analysis.view_sums.call_table import Group
    from pyio_trace.insights.observed import Observed


_NOT_THERE = 2  # ENOENT
_WANTED = (OpClass.OPEN, OpClass.META)


def find(run: Observed, limits: Mapping[str, float]) -> Iterator[Finding]:
    failed = run.calls.where(own=True, layer=Layer.POSIX, errno=_NOT_THERE, kind=_WANTED)
    # a process that asks for a file before it makes it does not search for it, nor wait for it
    made = set(run.calls.where(kind=OpClass.WRITE, process=failed.codes("process")).codes("path"))
    wanted = (n for n in failed.codes("path") if n not in made and not run.is_database(run.calls.path(n) or ""))
    failed = failed.where(path=list(wanted))
    for place in failed.by("site"):
        if place.calls < limits["calls"]:
            continue
        tried = run.calls.where(own=True, layer=Layer.POSIX, site=place["site"], kind=_WANTED).total("calls")
        if place.calls < limits["share"] * tried:
            continue
        paths = place.rows.distinct("path")
        again = place.calls >= 2 * paths  # else most paths are asked for once, which may be needed
        gain = run.gain(run.times(place.rows), "the calls that failed", "estimate" if again else "upper")
        waits = again and _come_later(run, place)
        yield Finding(
            title=f"{number(place.calls)} calls look for paths that are not there{' yet' if waits else ''}",
            evidence=[
                Evidence(
                    f"They ask for {number(paths)} paths and took {seconds(place.time)}.",
                    {"calls": place.calls, "paths": paths, "time_ns": place.time},
                )
            ],
            remedy=WAIT
            if waits
            else Remedy(
                "Look once, and keep the answer.",
                "for name in names:\n    for folder in folders:\n        if os.path.exists(f'{folder}/{name}'): ...",
                "there = filter(os.path.isdir, reversed(folders))\n"
                "where = {name: folder for folder in there\n         for name in os.listdir(folder)}\n"
                "for name in names:\n    folder = where.get(name)",
            ),
            query=sql.rows({"errno": _NOT_THERE, "site": run.calls.site(place["site"])}),
            **run.about(place.rows, gain),
        )


def _come_later(run: Observed, place: Group) -> bool:
    """Whether a line asks for most of these paths until they are there, which others see to."""
    asked = run.calls.where(
        own=True, layer=Layer.POSIX, site=place["site"], kind=_WANTED, path=place.rows.codes("path")
    )
    return 2 * asked.where(errno=0).distinct("path") > place.rows.distinct("path")


RULE = Rule(
    "metadata",
    find,
    limits={
        "calls": Limit(500, "of one line that fail so, at least", few=50),
        "share": Limit(0.5, "of the line's calls by name, at least"),
    },
    topic="metadata",
    yields_to=("polling",),
)
