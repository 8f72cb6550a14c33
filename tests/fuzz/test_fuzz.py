"""Any bytes give a table or one clear error: in a process of bounded memory and time, through every way of reading.

A failure names FOLDER/log, the very bytes; python -m tests.fuzz.worker KIND
EXAMPLES FOLDER --seed N goes on from there, for as long as one likes.
"""

from __future__ import annotations

import json
import random
import subprocess
import sys
from pathlib import Path

import pytest

from tests.fuzz import readings, worker
from tests.support.soak import SOAK, rounds

pytestmark = pytest.mark.once  # reading logs is the same on every Python

ROOT = Path(__file__).parents[2]


def fuzz(kind: str, examples: int, folder: Path, seed: int) -> None:
    words = [sys.executable, "-m", "tests.fuzz.worker", kind, str(examples), str(folder), "--seed", str(seed)]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, f"{done.returncode}: see {folder}/log\n{done.stdout[-2000:]}\n{done.stderr[-8000:]}"
    outcomes = json.loads(done.stdout)
    assert sum(outcomes.values()) >= examples / 2


@pytest.mark.parametrize("kind", ["live", "parquet", "libraries"])
def test_some_mutated_logs_can_be_read(kind: str, tmp_path: Path) -> None:
    # GIVEN a log made by hand, which is changed in the same ways each time
    mutator = worker.mutators(kind, tmp_path)[0]
    numbers = random.Random(0)
    path = tmp_path / "log"
    outcomes = set()
    # WHEN each of these logs is read
    for _ in range(40):
        path.write_bytes(mutator.apply([tuple(numbers.getrandbits(32) for _ in range(4))]))
        outcomes.add(readings.tables(path, numbers.getrandbits(32)))
    # THEN some can be read and others are refused: fuzzing with only one kind would test little
    assert "table" in outcomes
    assert len(outcomes) > 1 or kind == "libraries"


@pytest.mark.parametrize(("kind", "examples"), [("live", 30), ("parquet", 40), ("libraries", 20)])
def test_quick(kind: str, examples: int, tmp_path: Path) -> None:
    fuzz(kind, examples, tmp_path, 0)


@pytest.mark.slow
@pytest.mark.soak
@pytest.mark.timeout(0 if SOAK else 900)
@pytest.mark.parametrize(
    ("kind", "examples"),
    [("live", rounds(20, 6000)), ("parquet", rounds(40, 12_000)), ("libraries", rounds(12, 4000))],
)
def test_longer_and_never_the_same(kind: str, examples: int, tmp_path: Path) -> None:
    fuzz(kind, examples, tmp_path, random.SystemRandom().randrange(1 << 32))
