"""Files are created, and deleted soon after.

Each takes an open, a close and an unlink, all of which change a folder. What
only this program needs can stay in memory (io.BytesIO), in one file that is
used again, or on /dev/shm.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from pyio_trace.enums import OpClass, Role
from pyio_trace.insights import sql
from pyio_trace.insights.finding import Evidence, Finding, Remedy
from pyio_trace.insights.observed import OVERHEAD, began_before
from pyio_trace.insights.rule import Limit, Rule
from pyio_trace.units import number, seconds

if TYPE_CHECKING:
    from pyio_trace.analysis.view_sums.call_table import CallTable
    from pyio_trace.insights.observed import Observed


_DELETING = ("unlink", "unlinkat", "remove")


def find(run: Observed, limits: Mapping[str, float]) -> Iterator[Finding]:
    calls = run.calls.where(role=Role.IO, own=True, inside=0, errno=0)
    deleting = calls.where(op=_DELETING)
    written = run.calls.where(role=Role.IO, kind=OpClass.WRITE)
    gone = deleting.where(path=written.rows(began_before(written, deleting)).codes("path"))
    count = gone.total("calls")
    if not count or count < limits["files"]:
        return
    paths = gone.columns["path"].tolist()
    around = run.calls.where(role=Role.IO, path=paths, kind=OVERHEAD)
    gain = run.gain(run.times(around), "creating, closing and deleting")
    yield Finding(
        title=f"{number(count)} files written and deleted again",
        evidence=[
            Evidence(
                f"Creating, closing and deleting them took {seconds(around.total('time'))}.",
                {"files": count, "time_ns": around.total("time")},
            )
        ],
        remedy=Remedy(
            "Keep what is temporary in memory.",
            "with open(path, 'wb') as f:\n    f.write(data)\nprocess(path)\nos.remove(path)",
            "process(io.BytesIO(data))",
        ),
        query=sql.rows({"op": _DELETING, "site": gone.lines()}),
        **{**run.about(gone, gain), "sites": list(dict.fromkeys([*run.sites(gone), *run.sites(_made(run, paths))]))},
    )


def _made(run: Observed, paths: list[int]) -> CallTable:
    """The opens of some files (codes), on lines of the program."""
    return run.calls.where(role=Role.IO, kind=OpClass.OPEN, own=True, errno=0, path=paths)


RULE = Rule("metadata", find, limits={"files": Limit(100, "written and deleted, at least", few=10)}, topic="metadata")
