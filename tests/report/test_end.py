"""The end of a run, from figures made by hand: 24 lines at most, the verdict last, no text that a terminal heeds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from pyio_trace.analysis.results import figures
from pyio_trace.analysis.results.overview_figures import KindTime, ProcessTime, Split, Storage
from pyio_trace.analysis.summary.weaknesses import weaknesses
from pyio_trace.insights.finding import Finding, Recoverable, Remedy, Site
from pyio_trace.insights.insights import Insights
from pyio_trace.report.bars import Letters
from pyio_trace.report.end_text import HEIGHT, WIDTH, end_lines
from tests.insights.test_formats import HOSTILE
from tests.report.test_overview import MS, anything, overview
from tests.support.summaries import NO_BYTES, summary

pytestmark = pytest.mark.once

SLOW = replace(
    HOSTILE, title="Each chunk of /x is unpacked 10 times", sites=[Site("/w/train.py", 9, "read")],
    remedy=Remedy("A larger cache.\nIt holds 1 MiB.", "h5py.File(path)", "h5py.File(path, rdcc_nbytes=1 << 26)"),
)  # fmt: skip
WRONG = replace(
    SLOW, title="Two processes share a position", severity="critical", recoverable=Recoverable("x", "none"),
    remedy=Remedy("Open the file in each process.", "a\nb", "c\nd"),
)  # fmt: skip
SMALL = replace(SLOW, severity="info", recoverable_ns=1000)


def end(
    *findings: Finding, bars: bool = True, ranks: int = 0, unanswered: Sequence[str] = (), **parts: Any
) -> list[str]:
    run = {"command": ["/usr/bin/python3", "/w/train.py", "fork"], "wall": 4180 * MS, "calls": 199_025, "folder": "/w",
           "path": "/w/my log.parquet", **parts.pop("run", {})}  # fmt: skip
    given = summary(overview=parts.pop("given", None) or overview(), run=run, **parts)
    return end_lines(given, Letters(), Insights([*findings], unanswered=[*unanswered]), bars, ranks)


def test_a_training_loop() -> None:
    moved = replace(NO_BYTES, posix_read=123 << 20, posix_written=1 << 20)
    unseen = figures.Unseen({}, {"pipe": (7_000, 1), "import": (9, 4096)}, [])
    assert end(
        SLOW, SMALL, replace(SLOW, severity="ok"), bytes=moved, unseen=unseen, weaknesses=weaknesses(unseen)
    ) == [
        "pyio_trace: train.py fork  4.18 s, 5 processes, 2 cores            199,025 calls",
        "",
        "TIME  █ I/O ▒ library ▚ hand-over ░ waiting ▄ task · other ┄ starting _ idle",
        "  train.py                 4.18 s  ▚▚▚▚▚░···················┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄",
        "  4 DataLoader workers        3 s  ███▒▒▒▒▒▒▒▚▚▚▚▄▄▄▄▄▄▄▄▄▄▄▄▄▄_________________",
        "",
        "LINES      time  of it I/O  what",
        "         667 ms     210 ms  train.py:9: 4,000 numpy.load of d/img*.npy",
        "         416 ms          -  train.py:25: 126 waits for a batch",
        "          38 ms          -  train.py:22: 2 starts of its workers",
        "",
        "DATA  read 123 MiB (5.71 MiB from storage), written 1 MiB, imports 4 KiB",
        "NOT SEEN  7,000 calls on pipes and sockets (counted only)",
        "",
        "Taking over batches that were ready took the trainer 388 ms.",
        "124 of 126 batches were ready when asked for: fetching is not the bottleneck.",
        "  train.py:9  each chunk of /x is unpacked 10 times                 up to 1.50 s",
        "  → h5py.File(path, rdcc_nbytes=1 << 26)",
        "next: pyio-trace insights 'my log.parquet'  (1 more finding; log 2 KiB)",
    ]


def test_in_a_pipe_the_time_is_in_words() -> None:
    lines = end(bars=False)
    at = lines.index("TIME")
    assert lines[at + 1] == "  train.py                 4.18 s  starting 1.90 s, other 1.77 s"
    assert lines[at + 2] == "  4 DataLoader workers        3 s  idle 1.15 s, task 933 ms, library 453 ms"


def test_a_wrong_result_comes_before_any_seconds() -> None:
    lines = end(WRONG, SLOW)
    at = lines.index(f"{'  train.py:9  two processes share a position':<67}wrong results")
    # code of several lines is not cut out: the remedy's words stand for it
    assert lines[at - 1] == "" and lines[at + 1] == "  → Open the file in each process."
    assert lines[at + 2].startswith("Taking over batches") and lines[-1].startswith("next: ")


@pytest.mark.parametrize("state", ["computing", "other", "starting"])
def test_without_a_finding_it_says_what_the_program_does(state: str) -> None:
    parts = {"io_ns": 10 * MS, "other_ns": 90 * MS, "computing_ns": 90 * MS if state == "computing" else None}
    if state == "starting":
        parts |= {"other_ns": 0, "starting_ns": 90 * MS}
    kinds = [KindTime("script", 1, Split(**parts, wall_ns=100 * MS))]
    processes = [ProcessTime(0, 100, "script", "load.py", kinds[0].split, 0, 0)]
    lines = end(SMALL, given=overview(kinds=kinds, processes=processes, loaders=[], lines=[], files=[]))
    does = {"computing": "computes", "other": "computes, or waits unseen,", "starting": "starts and imports"}[state]
    # one that costs next to nothing is counted, not shown
    assert lines[-2] == f"No finding: load.py {does} for 90 % of its time."
    assert "(1 small finding; log 2 KiB)" in lines[-1]


@pytest.mark.parametrize("records", [10, 1_000_000])
def test_where_nobody_looked_it_says_so(records: int) -> None:
    lines = end_lines(summary(run={"records_in_log": records}), Letters(), None)
    assert lines[-1] == "next: pyio-trace insights /l/run.pyio  (not looked for yet; log 2 KiB)"
    assert not any("No finding" in line for line in lines)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("r", "(not looked for yet; log 2 KiB; mode ring)"),
        ("run-of-a", "(not looked for yet; mode ring)"),
        ("longer-name-of-a-log-of-some-run-somewhere", ""),
    ],
)
def test_the_last_line_says_what_fits(name: str, said: str) -> None:
    lines = end_lines(summary(run={"path": f"/l/{name}.pyio", "mode": "ring"}), Letters(), None)
    assert lines[-1].strip() == f"next: pyio-trace insights /l/{name}.pyio  {said}".strip() and len(lines[-1]) <= 80


def test_what_profile_cannot_say_is_one_line() -> None:
    slugs = [f"rule-number-{n}" for n in range(9)]
    (line,) = (line for line in end(SLOW, unanswered=slugs) if "rule-number" in line)
    assert line == "Mode profile cannot answer 9 rules: rule-number-0, ...  (insights --list)"


@pytest.mark.parametrize("loss", ["mapped_touched", "mappings_unmeasured", "syscall", "unseen_read", "unfollowed"])
def test_it_is_never_no_bottleneck_where_io_went_unseen(loss: str) -> None:
    quiet = overview(
        kinds=[KindTime("script", 1, Split(io_ns=MS, other_ns=999 * MS, wall_ns=1000 * MS))], loaders=[], lines=[]
    )
    said = "I/O is not the bottleneck: reading and writing took 1 ms, <0.1 % of the run."
    assert said in end(given=quiet)
    missing = weaknesses(figures.Unseen({loss: 5 << 20}, {}, []))
    lines = end(given=quiet, weaknesses=missing)
    assert not any("bottleneck" in line for line in lines)
    assert any("eading and writing took 1 ms" in line for line in lines)


def test_what_is_cached_and_further_ranks() -> None:
    moved = replace(NO_BYTES, posix_read=9 << 20)
    lines = end(bytes=moved, given=overview(storage=Storage(0, 0, 0)), ranks=3)
    assert "DATA  read 9 MiB (cached)" in lines
    assert lines[-1].endswith("'my log.parquet'  (and 3 more ranks; no more findings)")


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("bars", [True, False])
def test_any_figures_fit_the_screen(seed: int, bars: bool) -> None:
    # GIVEN any figures, a run of several bad ends, hostile findings, and a name of three lines
    given, missing = anything(seed)
    killed = figures.Process(0, 100, "n", ["python"], 1, 0, None, 0, 0, 0, "signal 9 (SIGKILL)")
    run = {"ring_since": 1_001_000, "path": "/w/" + "long" * 40, "selection": "--path /x", "records_in_log": 12}
    lines = end(
        HOSTILE, replace(HOSTILE, title="t" * 300, severity="critical"), bars=bars, given=given, weaknesses=missing,
        processes=[killed, replace(killed, ended="lost")], in_flight_count=3, run=run,
    )  # fmt: skip
    # THEN all of it is to be seen at 80 x 24 above the prompt, and the verdict is last
    assert sum(-(-len(line) // WIDTH) for line in lines) <= HEIGHT == 23
    assert all(len(line) <= WIDTH for line in lines[:-1])
    assert all(line.isprintable() for line in lines)
    assert lines[-3].endswith("up to 1.50 s") and lines[-1].startswith("next: pyio-trace insights ")
