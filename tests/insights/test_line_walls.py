"""What a line's samples add to the price of a finding."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from pyio_trace.analysis.results.line_time import CalledTime, LineTime
from pyio_trace.insights.finding import Recoverable, Site
from pyio_trace.insights.line_walls import with_libraries
from pyio_trace.insights.observed import Gain, Observed

pytestmark = pytest.mark.once
LINE, S = "/home/u/run.py:3:main", 1_000_000_000


def row(longest: int, others: int, *called: CalledTime, io: int = 0) -> LineTime:
    """A line at which one thread was for so many ns, and others for as many together."""
    times = {name: 0 for name in LineTime.__annotations__ if name.endswith("_ns")}
    times |= {"time_ns": longest + others, "here_ns": longest + others, "longest_ns": longest, "io_ns": io}
    rest = {"called": list(called), "meanwhile": [], "calls": 10, "samples": 10_000}
    return LineTime(line=LINE, **cast("Any", times | rest))


def run(line: LineTime) -> Observed:
    """A run whose calls on files at the line go through zarr."""
    frames = SimpleNamespace(between=lambda lines: ("zarr", "numcodecs"))
    return cast(
        "Observed",
        SimpleNamespace(
            of=lambda reducer: frames,
            walls=lambda sites: [line],
            is_own=lambda text: True,
            is_loader_worker=lambda process: False,
            wall_ns=20 * S,
        ),
    )


@pytest.mark.parametrize(
    ("called", "moved", "saved"),
    [
        # a thread waits in the library for as long as its threads work, which are elsewhere for half of the time
        (CalledTime("zarr.core.array.Array.__setitem__", 4 * S, 0), 1 << 40, 2 * S),
        (CalledTime("zarr.core.array.Array.__setitem__", 4 * S, 0), None, 2 * S),
        # what a library does with so few bytes has other reasons
        (CalledTime("zarr.core.array.Array.__setitem__", 4 * S, 0), 1 << 20, 200 * (1 << 20) // 2),
        # a function that ran in several threads is no sign that any of them was in it all the time
        (CalledTime("zarr.storage._local._put", 6 * S, 0), None, int(6 / 9 * 4 * S / 2)),
        # another library's time is not about these files
        (CalledTime("numpy.linalg.solve", 4 * S, 0), None, S // 10),
    ],
)
def test_a_line_that_waits_for_the_threads_of_a_library(called: CalledTime, moved: int | None, saved: int) -> None:
    # GIVEN a line that held the program up for 4 s, while threads of a library took 5 s WHEN half of that is saved
    one = run(row(4 * S, 5 * S, called))
    gain = Gain(S // 10, Recoverable("calls", "estimate", 20 * S))
    found = with_libraries(one, gain, [Site("/home/u/run.py", 3, "main")], 0.5, [0], moved)
    # THEN it is half of what the line held it up in these calls, at least
    assert found.ns == pytest.approx(saved, rel=0.06)
