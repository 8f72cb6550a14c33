"""What `insights --verify` says of remedies that change nothing: never that they help."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from time import perf_counter_ns

import pytest

from pyio_trace.insights.finding import Verified
from pyio_trace.insights.trials.replay import Replay
from pyio_trace.insights.trials.rounds import ROUNDS, is_gain, measured, outcome_of
from pyio_trace.report.findings_text import verified_text

pytestmark = pytest.mark.once
KINDS = ("read", "write", "stat", "open")


@pytest.fixture
def busy_machine() -> Iterator[None]:
    """As many processes as there are cores, and one more, that compute for as long as the test runs."""
    loop = [sys.executable, "-c", "while True: sum(range(10000))"]
    others = [subprocess.Popen(loop) for _ in range((os.cpu_count() or 1) + 1)]
    yield
    for other in others:
        other.kill()
        other.wait()


def repeated(kind: str, file: Path) -> Callable[[int], int]:
    """Does the first n of many calls of a kind, and returns the ns that they took."""
    descriptor = os.open(file, os.O_RDWR)
    once = {
        "read": lambda n: os.pread(descriptor, 4096, n % 256 * 4096),
        "write": lambda n: os.pwrite(descriptor, bytes(4096), n % 256 * 4096),
        "stat": lambda n: os.stat(file),
        "open": lambda n: os.close(os.open(file, os.O_RDONLY)),
    }[kind]

    def run(count: int) -> int:
        begin = perf_counter_ns()
        for number in range(count):
            once(number)
        return perf_counter_ns() - begin

    return run


@pytest.mark.slow
@pytest.mark.usefixtures("busy_machine")
@pytest.mark.parametrize("kind", KINDS)
def test_remedies_that_change_nothing(kind: str, tmp_path: Path) -> None:
    # GIVEN a machine with other work to do, and five remedies that do what the program did
    file = tmp_path / "data"
    file.write_bytes(bytes(1 << 20))
    work = repeated(kind, file)
    for _ in range(5):
        # WHEN each is tried THEN it is rejected
        found = measured(Replay(work, work, 2000, 2000), seconds=2, cold=False, own_folder=lambda _: None)
        assert found.rounds >= ROUNDS and 0 < found.operations <= 2000
        assert not is_gain(found.plain_range, found.remedy_range, found.saved), found


@pytest.mark.parametrize(
    ("plain", "remedy", "gain"),
    [
        ((100, 120), (50, 60), True),
        ((100, 120), (50, 99), True),
        ((100, 120), (50, 100), False),  # one round contradicts
        ((100, 120), (96, 98), False),  # less than a twentieth
        ((100, 120), (130, 140), False),
    ],
)
def test_a_gain_is_one_only_where_ranges_are_apart(plain: tuple[int, int], remedy: tuple[int, int], gain: bool) -> None:
    saved = (sum(plain) - sum(remedy)) // 2 if remedy != (96, 98) else 4
    assert is_gain(plain, remedy, saved) is gain


@pytest.mark.parametrize(
    ("plain", "remedy", "estimate", "whole", "outcome"),
    [
        ((100, 120), (50, 60), 60, True, "gain"),
        ((100, 120), (50, 60), 60, False, "gain"),
        ((100, 120), (130, 140), 60, True, "harm"),
        ((100, 120), (130, 140), 60, False, "not known"),  # the part that was left out may save more
        ((100, 120), (100, 120), 60, True, "no gain"),  # at most 20 of 60
        ((100, 120), (100, 120), 30, True, "not known"),  # 20 of 30 are not excluded
        ((100, 900), (100, 900), 60, True, "not known"),  # a busy machine
        ((10, 12), (10, 12), 60, True, "not known"),  # what took the time in the run was not in the rounds
        ((100, 120), (100, 120), 60, False, "not known"),
    ],
)
def test_that_nothing_is_saved_has_to_be_shown(
    plain: tuple[int, int], remedy: tuple[int, int], estimate: int, whole: bool, outcome: str
) -> None:
    saved = (sum(plain) - sum(remedy)) // 2
    assert outcome_of(plain, remedy, saved, estimate, whole) == outcome


@pytest.mark.parametrize(
    ("remedy", "said"),
    [
        ((9_000_000, 11_000_000), "no difference seen in 7 rounds: 10 ms to 12 ms and 9 ms to 11 ms overlap"),
        ((13_000_000, 14_000_000), "takes longer with the remedy, 7 rounds"),
        ((9_700_000, 9_800_000), "saves too little to count, 7 rounds"),
    ],
)
def test_what_was_rejected_is_said(remedy: tuple[int, int], said: str) -> None:
    shown = Verified(
        "no gain", plain_ns=11_000_000, remedy_ns=sum(remedy) // 2, rounds=7, plain_range_ns=(10_000_000, 12_000_000),
        remedy_range_ns=remedy, cache="cached",
    )  # fmt: skip
    assert said in verified_text(shown)
