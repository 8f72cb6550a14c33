"""pyio-trace diff of training loops, from logs made by hand: which waits more, utilization and samples a second."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pyio_trace.cli.main import main
from tests.analysis.test_loader_views import FETCH, WAIT, Loaders

Capture = pytest.CaptureFixture[str]
#: ns of each step; of a loop that waits 100 ns for each batch, half of the time.
STEP = 100


def loop(folder: Path, wait: int, samples: int | None = 8, batches: int = 6) -> str:
    """The log of a loop with so many ns of waiting for each batch."""
    folder.mkdir()
    made = Loaders()
    known = {} if samples is None else {"samples": samples}
    for batch in range(batches):
        begin = batch * (wait + STEP)
        made.call(FETCH, 1, begin, begin + wait, batch=batch, **known)
        made.call(WAIT, 0, begin, begin + wait, batch=batch)
    return str(made.log(folder).path)


def said(capsys: Capture, *words: str) -> list[str]:
    assert main(["diff", *words]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 80
    return lines


def rows(lines: list[str]) -> list[list[str]]:
    return [line.split() for line in lines if line.startswith(("  AU", "  samples/s"))]


def verdict(lines: list[str]) -> list[str]:
    return [line for line in lines if "training loop" in line]


def test_two_loops(tmp_path: Path, capsys: Capture) -> None:
    # GIVEN loops that wait for three quarters and for half of their time WHEN they are compared
    slow, fast = loop(tmp_path / "a", 300), loop(tmp_path / "b", 100)
    lines = said(capsys, slow, fast)
    # THEN the answer says which waits less, and the table how much they do
    assert verdict(lines) == ["B's training loop waits less for batches: 50 % of its time, not 75 %."]
    assert rows(lines) == [
        ["AU", "(at", "most)", "25", "%", "50", "%", "+25.0", "points"],
        ["samples/s", "20,000,000", "40,000,000", "+20,000,000", "+100", "%"],
    ]
    turned = said(capsys, fast, slow)
    assert verdict(turned) == ["B's training loop waits more for batches: 75 % of its time, not 50 %."]
    assert [row[-2:] for row in rows(turned)] == [["-25.0", "points"], ["-50", "%"]]


def test_json(tmp_path: Path, capsys: Capture) -> None:
    paths = [loop(tmp_path / name, wait) for name, wait in (("a", 300), ("b", 100))]
    assert main(["diff", "--json", *paths]) == 0
    found: Any = [run["training"] for run in json.loads(capsys.readouterr().out)["runs"]]
    place = {"line": "/w/train.py:5:main", "ranks": 1}
    assert found == [
        {**place, "au_percentage": 25.0, "throughput_samples_per_second": 2e7},
        {**place, "au_percentage": 50.0, "throughput_samples_per_second": 4e7},
    ]


def test_what_one_of_them_does_not_have(tmp_path: Path, capsys: Capture) -> None:
    # GIVEN a loop whose samples are not known, and one of two batches
    whole, unknown = loop(tmp_path / "a", 100), loop(tmp_path / "b", 104, samples=None)
    short = loop(tmp_path / "c", 100, batches=2)
    # WHEN they are compared THEN rows that one lacks are not there, and a small difference is no answer
    lines = said(capsys, whole, unknown)
    assert [row[0] for row in rows(lines)] == ["AU"] and not verdict(lines)
    for pair in ((whole, short), (short, whole)):
        lines = said(capsys, *pair)
        assert not rows(lines) and not verdict(lines)


def test_a_selection_has_none(tmp_path: Path, capsys: Capture) -> None:
    paths = [loop(tmp_path / name, wait) for name, wait in (("a", 300), ("b", 100))]
    assert rows(said(capsys, *paths, "--process", "100"))
    assert not rows(said(capsys, *paths, "--op", "DataLoader.*"))
