"""The lines of the first screen about the steps of training loops, from figures made by hand."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import pytest

from pyio_trace.analysis.results.overview_figures import (
    KindTime,
    LoaderEpoch,
    LoaderLoop,
    Overview,
    Split,
    Storage,
    Tracing,
)
from pyio_trace.report.bars import Letters
from pyio_trace.report.overview_text import WIDTH, overview_lines
from pyio_trace.report.step_lines import step_lines
from tests.support.summaries import PROCESS, summary

MS = 1_000_000
PLACE = "/w/train.py:31:main"
LOOP = LoaderLoop(PLACE, 0, 2, 2, 60, 930 * MS, 70 * MS, 93.04, 71.23)


def lines(
    *loops: LoaderLoop, ranks: dict[int, int | None] | None = None, batches: int = 32, width: int = 78
) -> list[str]:
    """ranks: by process."""
    epochs = [LoaderEpoch("1.0", 0, 2, batches, 0, *([0] * 7), loop.line) for loop in loops]
    kinds = [KindTime("train.py", 1, Split(wall_ns=2000 * MS))]
    overview = Overview(2, kinds, [], Storage(0, 0, 0), [], [], [], epochs, Tracing(1, 1), loops=list(loops))
    processes = [replace(PROCESS, index=index, rank=rank) for index, rank in (ranks or {0: None}).items()]
    given = summary(overview=overview, processes=processes)
    screen = overview_lines(given, Letters())
    found = step_lines(given, WIDTH - 2)
    end = screen.index("", next(number for number, line in enumerate(screen) if line.startswith("TIME")))
    assert screen[end - len(found) : end] == [f"  {line}" for line in found]
    return found


def test_a_loop_has_a_line() -> None:
    assert lines(LOOP) == ["AU up to 93.0 %, 71.2 samples/s at train.py:31; a step counts as compute"]


def test_a_long_name_of_a_file() -> None:
    # GIVEN names that are longer and longer THEN the meaning is shortened, and then the name
    (line,) = lines(replace(LOOP, line="/w/" + "x" * 11 + ".py:31:main"))
    assert line == f"AU up to 93.0 %, 71.2 samples/s at {'x' * 11}.py:31; a step counts as compute"
    (line,) = lines(replace(LOOP, line="/w/" + "x" * 20 + ".py:31:main"))
    assert line == f"AU up to 93.0 %, 71.2 samples/s at {'x' * 20}.py:31; step = compute"
    (line,) = lines(replace(LOOP, line="/w/" + "x" * 100 + ".py:31:main"))
    assert line == f"AU up to 93.0 %, 71.2 samples/s at ...{'x' * 18}.py:31; step = compute"


def test_samples_that_are_not_known() -> None:
    unknown = replace(LOOP, throughput_mean_samples_per_second=None)
    assert lines(unknown) == ["AU up to 93.0 %, samples/s n/a at train.py:31; a step counts as compute"]


@pytest.mark.parametrize(
    ("batches", "why"), [(2, "no epoch has three batches"), (3, "waits are missing, or not in turn")]
)
def test_a_loop_without_figures(batches: int, why: str) -> None:
    none = replace(LOOP, measured=0, count=0, step_ns=0, wait_ns=0, au_mean_percentage=None,
                   throughput_mean_samples_per_second=None)  # fmt: skip
    assert lines(none, batches=batches) == [f"AU n/a at train.py:31: {why}"]
    # WHEN another loop has figures THEN only this one is shown
    assert lines(LOOP, none, batches=batches) == lines(LOOP)


def test_no_loader_no_line() -> None:
    assert lines() == []


def test_a_second_loop_has_a_line_if_it_took_long() -> None:
    other = replace(LOOP, line="/w/train.py:50:main", step_ns=60 * MS, wait_ns=40 * MS, au_mean_percentage=60.0)
    first = lines(LOOP)[0]
    second = "AU up to 60 %, 71.2 samples/s at train.py:50; a step counts as compute"
    assert lines(other, LOOP) == [first, second]
    assert lines(LOOP, replace(other, step_ns=59 * MS)) == [first]
    assert lines(LOOP, other, replace(other, line="/w/train.py:60:main")) == [first, second]


def test_ranks_have_one_line() -> None:
    # GIVEN four ranks at one line THEN utilization is averaged and rates are added, as in DLIO
    loops = [replace(LOOP, process=n, au_mean_percentage=90.0 + n) for n in range(4)]
    ranks = {n: n for n in range(4)}
    assert lines(*loops, ranks=ranks) == [
        "4 ranks: AU up to 91.5 %, 285 samples/s at train.py:31; step = compute",
    ]
    # AND processes that have no rank are on their own
    alone = lines(*loops, ranks=dict.fromkeys(range(4)))
    assert len(alone) == 2 and not any("ranks" in line for line in alone)


@pytest.mark.parametrize(
    ("shares", "text"),
    [
        ((71.0, 95.0, 94.0, 96.0), "rank 10 waits longest for batches: AU up to 71 %; the other 3 ranks 95 %"),
        ((95.0, 60.0), "rank 11 waits longest for batches: AU up to 60 %; the other rank 95 %"),
        ((60.0, 75.0, 75.0), None),  # less than twice the wait
        ((95.0, 99.0, 99.0), None),  # five times the wait, four points
        ((90.0, 90.0), None),
    ],
)
def test_the_rank_that_waits_longest(shares: tuple[float, ...], text: str | None) -> None:
    loops = [replace(LOOP, process=n, au_mean_percentage=share) for n, share in enumerate(shares)]
    found = lines(*loops, ranks={n: n + 10 for n in range(len(shares))})
    assert found[1:] == ([text] if text else [])


def test_lines_fit_whatever_the_figures() -> None:
    chosen = random.Random(5)

    def figure() -> Any:
        return chosen.choice([None, 0.0, 1e-9, 99.999, 1e18, chosen.uniform(0, 100)])

    for _ in range(300):
        loops = [
            LoaderLoop(chosen.choice([None, "", PLACE, "/w/" + "x" * 100 + ".py:1:f"]), n, 1, chosen.choice([0, 1]), 1,
                       chosen.randrange(1 << 63), chosen.randrange(1 << 63), figure(), figure())
            for n in range(chosen.randrange(4))
        ]  # fmt: skip
        found = lines(*loops, ranks={n: chosen.choice([None, n]) for n in range(4)})
        assert len(found) <= 2 and all(len(line) <= WIDTH - 2 for line in found), found
