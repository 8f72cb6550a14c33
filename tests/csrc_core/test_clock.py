"""Pairs of clock readings, where the thread loses the processor between two of them (tests/csrc/clock.c)."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.csrc_core.test_names import CSRC, FLAGS, compile_

READS = 12  # clocks in a run in which nothing is interrupted: three pairs, at least


@pytest.mark.parametrize("interrupted", ["", "0", "1", "2", "0 1", "1 2", "0 1 2 3", "1 2 3 4 5 6", "5 7 9"])
def test_the_rate_of_interrupted_readings(tmp_path: Path, interrupted: str) -> None:
    # GIVEN a clock of two ticks a nanosecond, and pairs that are torn apart by three milliseconds
    program = compile_(tmp_path, CSRC / "clock.c", "clock", *FLAGS)
    # WHEN the rate is found
    told = subprocess.run([program, *interrupted.split()], capture_output=True, text=True, check=True).stdout
    ticks, off, readings, torn = map(int, told.split())
    # THEN a millisecond has two million ticks, a pair's ticks are those of its time, and few clocks were read for that
    assert abs(ticks - 2_000_000) <= 20_000, told
    assert abs(off) <= 200, told
    assert readings <= READS + 2 * torn, told
