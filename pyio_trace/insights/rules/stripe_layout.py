"""A file on Lustre is spread over too few servers for its users, or over more than it fills.

A file on one server is no faster than that server, however many ranks write it.
A small file on many servers asks all of them whenever it is opened, looked at or
removed. The stripes are those that the file had when the run ended; new ones
hold for new files only.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from pyio_trace.enums import OpClass, Role
from pyio_trace.insights import sql
from pyio_trace.insights.finding import Confidence, Evidence, Finding, Remedy
from pyio_trace.insights.observed import OVERHEAD
from pyio_trace.insights.rule import Limit, Rule
from pyio_trace.log.stripes import Component, of_text
from pyio_trace.units import counted, number, seconds, size

if TYPE_CHECKING:
    from pyio_trace.analysis.view_sums.call_table import CallTable
    from pyio_trace.insights.observed import Gain, Observed

_MOVING = (OpClass.READ, OpClass.WRITE)


def find(run: Observed, limits: Mapping[str, float]) -> Iterator[Finding]:
    for path, text in run.stripes.items():
        calls = run.calls.where(role=Role.IO).where_paths([path])
        parts = [part for part in of_text(text) if part.servers]
        if not parts or not len(calls):
            continue
        moves = calls.where(kind=_MOVING)
        moved, users = moves.total("moved"), moves.distinct("process")
        widest = max(parts, key=lambda part: (part.servers < 0, part.servers))
        if widest.servers > 0 and users >= limits["users"] * widest.servers and moved >= limits["bytes"]:
            yield _too_few(run, path, moves, widest, users)
        elif widest.servers >= limits["stripes"] and 0 < moved <= widest.size * widest.servers // 2:
            yield _too_many(run, path, calls, widest, moved)


def _too_few(run: Observed, path: str, calls: CallTable, part: Component, users: int) -> Finding:
    times = run.times(calls, 1 - part.servers / users)
    gain = run.gain(times, "its reads and writes beyond what as many servers as users would need")
    return _finding(
        run, path, calls, gain, part,
        f"{number(users)} processes use {path.rpartition('/')[2]}, which is on {counted(part.servers, 'server')}",
        f"They moved {size(calls.total('moved'))} in {seconds(calls.total('time'))}, each at a stripe of "
        f"{size(part.size)}.",
        Remedy(f"Spread it over more servers, before it is made: lfs setstripe -c {min(users, 64)} FOLDER."),
        "how fast one server is, and who else uses it, is not in the log",
    )  # fmt: skip


def _too_many(run: Observed, path: str, calls: CallTable, part: Component, moved: int) -> Finding:
    gain = run.gain(run.times(calls.where(kind=OVERHEAD)), "opens, closes and other metadata calls on it")
    return _finding(
        run, path, calls, gain, part,
        f"{path.rpartition('/')[2]} is on {number(part.servers)} servers, and does not fill half of them",
        f"{size(moved)} moved; its {number(part.servers)} stripes of {size(part.size)} have "
        f"{size(part.servers * part.size)}.",
        Remedy("Keep small files on one server: lfs setstripe -c 1 FOLDER, before they are made."),
        "the file may be larger than what this run moved",
    )  # fmt: skip


def _finding(
    run: Observed, path: str, calls: CallTable, gain: Gain, part: Component, title: str, text: str, remedy: Remedy,
    unsure: str,
) -> Finding:  # fmt: skip
    values = {"count": part.servers, "stripe": part.size, "bytes": calls.total("moved")}
    return Finding(
        title=title,
        evidence=[Evidence(text, {**values, "processes": calls.distinct("process"), "time_ns": calls.total("time")})],
        remedy=remedy,
        severity="warning",
        confidence=Confidence(0.5, unsure),
        query=sql.rows({"path": path, "op_role": "io"}, select="process, op, " + sql.SUMS, group="process, op"),
        **run.about(calls, gain),
    )


RULE = Rule(
    "accesses",
    find,
    limits={
        "users": Limit(4, "processes for each server, at least"),
        "bytes": Limit(1 << 26, "moved by them, at least"),
        "stripes": Limit(4, "servers, at least, to be too many for a small file"),
    },
)
