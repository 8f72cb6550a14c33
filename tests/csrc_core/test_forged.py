"""Another process that maps the log writes over it while a program works (tests/csrc/forger.c).

A child that has dropped its privileges still has its parent's log mapped: the log is untrusted input for its writers.
The program's own calls must go as untraced, and nothing may touch what lies around the log.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.csrc_core.conftest import BUILDS, Build
from tests.support.programs import clean_environment
from tests.support.soak import rounds

MODES = ("trace", "profile", "ring")
PER_PROCESS = 50  # rounds: forger.c has it too


def forge(build: Build, way: str, folder: Path, mode: str, times: int, *field: object) -> list[str]:
    """Runs that many rounds; returns the lines of ours on stderr."""
    work = folder / "work"
    work.mkdir()
    words = [build(way) / "forger", mode, 1, times, folder / "run.pyio", work, *field]
    environment = clean_environment(**BUILDS[way][1])
    done = subprocess.run(list(map(str, words)), env=environment, capture_output=True, text=True, timeout=280)
    said = done.stderr.splitlines()
    ours = [line for line in said if line.startswith("pyio-trace: another program wrote over the log's header; ")]
    assert (done.returncode, said, done.stdout) == (0, ours, f"{times}\n")
    return ours


@pytest.mark.slow
@pytest.mark.soak
@pytest.mark.parametrize("way", ["plain", "address and undefined"])
@pytest.mark.parametrize("mode", MODES)
def test_any_word_of_the_log(build: Build, tmp_path: Path, mode: str, way: str) -> None:
    # GIVEN whole-range values all over the log WHEN a program goes on THEN only its log is damaged, said once each
    count = rounds(300, 10_000)
    assert len(forge(build, way, tmp_path, mode, count)) <= count / PER_PROCESS


@pytest.mark.slow
@pytest.mark.parametrize(
    ("mode", "field", "value", "lines"),
    [
        ("trace", "next", 2**64 - 4096, 1),  # a claim that wraps: the chunk would begin before the log
        ("trace", "next", 2**63, 1),
        ("trace", "next", 8, 1),  # in the header
        ("profile", "root", 2**32 - 1, 0),  # a note of a gap, 64 GiB behind the log
        ("trace", "root", 2**32 - 1, 0),
        ("ring", "ring", 2**63 - 4096, None),  # none, where the ring was found before
        ("ring", "ring", 0xFFF, None),  # many slots, at no page
        ("trace", "chunk", 2**64 - 16, 0),  # sizes and cursors, read back
        ("trace", "offset", 2**64 - 4097, None),  # plus a chunk's size: the end of all that is to stay mapped
        ("trace", "list", 0, 0),  # entries that follow themselves, of process 0
        ("trace", "list", 2**32 - 1, 0),
        ("trace", "forks", 1, 0),  # somebody who never comes
    ],
)
def test_one_word_again_and_again(
    build: Build, tmp_path: Path, mode: str, field: str, value: int, lines: int | None
) -> None:
    # GIVEN one word that is forged while the program works WHEN it goes on THEN it ends as untraced
    said = forge(build, "plain", tmp_path, mode, PER_PROCESS, field, value)
    assert len(said) <= 1 if lines is None else len(said) == lines
