"""Bars: each state by its share, in block characters or in ASCII."""

from __future__ import annotations

import random

import pytest

from pyio_trace.analysis.results.overview_figures import PARTS_OF_OTHER, STATES, Split
from pyio_trace.report.bars import LOOKS, Letters, bar, legend, letters_for


def test_a_bar_shows_shares() -> None:
    split = Split(io_ns=10, library_ns=25, waiting_ns=5, other_ns=40, starting_ns=20, wall_ns=100)
    assert bar(split, 20, Letters()) == "██▒▒▒▒▒░········┄┄┄┄"
    assert bar(split, 20, Letters(False)) == "##+++++-........::::"


def test_a_bar_is_always_full() -> None:
    # GIVEN any states that add up
    for seed in range(200):
        dice = random.Random(seed)
        times = {state: dice.choice((0, 1, dice.randrange(10**9))) for state in STATES}
        split = Split(**{f"{state}_ns": time for state, time in times.items()}, wall_ns=sum(times.values()))
        # THEN the bar has its width, and each state its share to within one character
        drawn = bar(split, 45, Letters(False))
        assert len(drawn) == (45 if split.wall_ns else 0)
        for state, time in times.items():
            assert abs(drawn.count(LOOKS[state][2]) - 45 * time / max(split.wall_ns, 1)) < 1


def test_a_process_without_time_has_no_bar() -> None:
    assert bar(Split(), 45, Letters()) == ""


@pytest.mark.parametrize(
    ("encoding", "blocks"),
    [("utf-8", True), (None, True), ("ascii", False), ("latin-1", False), ("cp437", False), ("no-such", False)],
)
def test_what_an_encoding_can_show(encoding: str | None, blocks: bool) -> None:
    assert letters_for(encoding) == Letters(blocks)


def test_the_legend_has_what_is_shown() -> None:
    assert legend(["#..", "::"], Letters(False)) == "# I/O  . other  : starting"
    assert len({looks[1] for looks in LOOKS.values()}) == len({looks[2] for looks in LOOKS.values()}) == len(LOOKS)
    assert set(LOOKS) == {*STATES, *PARTS_OF_OTHER, "blocked"}
