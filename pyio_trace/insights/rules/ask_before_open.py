"""The program asks whether a file exists, and then opens it.

The open gives the same answer: FileNotFoundError. Asking first costs a second
call for each file, and the file may be gone in between. Lines that ask for a size, a
time or the whole status (`os.path.getsize`, `os.stat`) are left out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from pyio_trace.enums import Layer, OpClass
from pyio_trace.insights import sql
from pyio_trace.insights.finding import Confidence, Evidence, Finding, Remedy
from pyio_trace.insights.observed import began_before
from pyio_trace.insights.questions import ASKED_WHAT
from pyio_trace.insights.rule import Limit, Rule
from pyio_trace.units import number, seconds

if TYPE_CHECKING:
    from pyio_trace.insights.observed import Observed


_ASKING = ("stat", "statx", "access", "faccessat", "fstatat")


def find(run: Observed, limits: Mapping[str, float]) -> Iterator[Finding]:
    calls = run.calls.where(own=True, layer=Layer.POSIX)
    opened = calls.where(kind=OpClass.OPEN, errno=0)
    asking = calls.where(op=_ASKING, inside=0, path=opened.codes("path"))
    asking = asking.where(site=set(asking.codes("site")) - run.of(ASKED_WHAT))
    asking = asking.rows(began_before(asking, opened))
    sums = asking.sums("path")
    once = sums["path"][sums["calls"] <= limits["per_path"]]  # more of them are another finding
    asking = asking.where(path=once.tolist())
    files = asking.distinct("path")
    if not files or files < limits["files"]:
        return
    gain = run.gain(run.times(asking), "the calls before the opens")
    yield Finding(
        title=f"{number(files)} files are asked for before they are opened",
        evidence=[
            Evidence(
                f"Asking took {seconds(asking.total('time'))}.",
                {"files": files, "calls": asking.total("calls"), "time_ns": asking.total("time")},
            )
        ],
        remedy=Remedy(
            "Open, and handle the exception.",
            "if os.path.exists(path):\n    with open(path) as f:\n        ...",
            "try:\n    with open(path) as f:\n        ...\nexcept FileNotFoundError:\n    ...",
        ),
        confidence=Confidence(0.7, "whether the answer serves for more, such as a size, is not in the log"),
        query=sql.rows({"op": _ASKING, "site": asking.lines()}),
        **run.about(asking, gain),
    )


RULE = Rule(
    "metadata",
    find,
    limits={
        "files": Limit(500, "asked for and opened, at least", few=50),
        "per_path": Limit(2, "calls that ask for one of them, at most"),
    },
    needs=(ASKED_WHAT,),
    topic="metadata",
)
