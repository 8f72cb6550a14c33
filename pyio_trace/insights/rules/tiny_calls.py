"""A line calls a file object for a few bytes at a time.

The buffer saves system calls, but not calls in Python, and a call for few bytes
costs as much as one for many. Read a block and take it apart with
`struct.iter_unpack`, `memoryview` or numpy; write joined parts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from pyio_trace.enums import Layer, OpClass, Role
from pyio_trace.insights import sql, words
from pyio_trace.insights.data_flow import uses
from pyio_trace.insights.finding import Confidence, Evidence, Finding, Remedy, Site
from pyio_trace.insights.libraries import FILE_OBJECTS, readers
from pyio_trace.insights.line_walls import with_own_code
from pyio_trace.insights.observed import MOST_NAMED
from pyio_trace.insights.rule import Limit, Rule
from pyio_trace.insights.words import mechanisms as m
from pyio_trace.units import number, seconds

if TYPE_CHECKING:
    from pyio_trace.analysis.view_sums.call_table import CallTable
    from pyio_trace.insights.observed import Observed


#: Opens at the line, from which on these are the reason for what a library does.
_OPENS = 20
#: A file with fewer calls than this is small; its calls are not.
_OF_A_FILE = 10
_MOVING = (OpClass.READ, OpClass.WRITE)
_LINES = (".__next__", ".readline")


def find(run: Observed, limits: Mapping[str, float]) -> Iterator[Finding]:
    objects = run.calls.where(layer=Layer.APP, kind=_MOVING, role=Role.REQUEST, own=True)
    for place in objects.rows(_is_file_object(objects)).by("site"):
        each = place.moved / max(place.calls, 1)
        if place.calls < limits["calls"] or each > limits["bytes"]:
            continue
        if place.calls < _OF_A_FILE * place.rows.distinct("path"):
            continue
        beneath = run.calls.where(site=place["site"], inside=1, layer=Layer.POSIX)
        own = max(place.outer - beneath.total("time"), 0)
        share = own / max(place.time, 1)
        gain = run.gain(run.times(place.rows, share), "the calls without the system calls beneath them")
        sites, names = run.sites(place.rows), readers(run, place.rows)
        reads = all(one["kind"] == OpClass.READ for one in place.rows.by("kind"))
        if reads and (not names or names[0] in FILE_OBJECTS):  # the program itself takes apart what it reads
            users = [Site(one.file, line, one.function) for one in sites for line in sorted(uses(one.file, one.line))]
            whole = with_own_code(run, gain, [*sites, *users], 1, place.moved)
            sites, gain = (sites if whole is gain else [*sites, *(one for one in users if run.walls([one]))]), whole
        if gain.ns < limits["share"] * run.wall_ns:
            continue
        yield Finding(
            title=f"{number(place.calls)} calls of a file object for {each:.3g} bytes each",
            evidence=[
                Evidence(
                    f"They took {seconds(place.time)}; {number(beneath.total('calls'))} system calls beneath them, "
                    f"{seconds(beneath.total('time'))}.",
                    {"calls": place.calls, "bytes": place.moved, "time_ns": place.time, "io_ns": beneath.total("time")},
                )
            ],
            remedy=_remedy(run, place.rows),
            severity="warning",
            confidence=Confidence(0.7, "what handling the parts costs otherwise is not known"),
            query=sql.rows({"site": run.calls.site(place["site"]), "layer": "app"}),
            **{**run.about(place.rows, gain), "sites": sites[:MOST_NAMED]},
        )


def _remedy(run: Observed, calls: CallTable) -> Remedy:
    """Calls that a library makes are many because it is called often, or opens its file often."""
    read, names = calls.by("kind")[0]["kind"] == OpClass.READ, readers(run, calls)
    opens = run.calls.where(site=calls.codes("site"), kind=OpClass.OPEN, errno=0, layer=Layer.POSIX).total("calls")
    if opens >= _OPENS and names and names[0] not in FILE_OBJECTS:
        return words.remedy(m.OPENED_TO_READ if read else m.OPENED_TO_ADD, names)
    return words.remedy(m.TINY_READS if read else m.TINY_WRITES, names)


def _is_file_object(calls: CallTable) -> NDArray[np.bool_]:
    """Which rows are calls of Python's own file objects.  Not those for a line: taking a block apart is no faster."""
    prefixes = ("Buffered", "FileIO.", "TextIOWrapper.", "mmap.")
    found, where = np.unique(calls.columns["op"], return_inverse=True)
    names = [calls.op(int(code)) for code in found]
    kinds = np.array([name.startswith(prefixes) and not name.endswith(_LINES) for name in names], np.bool_)
    chosen: NDArray[np.bool_] = kinds[where.ravel()]
    return chosen


RULE = Rule(
    "accesses",
    find,
    limits={
        "calls": Limit(100_000, "of one line, at least", few=1000),
        "bytes": Limit(64, "of one of them on average, at most"),
        "share": Limit(0.02, "of the wall time that they take, at least"),
    },
    yields_to=("reopen-per-item",),
)
