"""The summary that a packed log keeps: that of a scan, or, if it does not fit, none at all."""

from __future__ import annotations

import copy
import io
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pyio_trace.analysis.results.figures import Summary
from pyio_trace.analysis.scan.filters import Filter, restrict
from pyio_trace.analysis.summary import kept_summary
from pyio_trace.analysis.summary.summarize import summarize, summarize_with
from pyio_trace.cli.main import main
from pyio_trace.join.sources.facade import Log
from pyio_trace.join.sources.opening import open_log
from pyio_trace.report.text import print_summary
from tests.support.busy_run import busy_logs
from tests.support.programs import Runner, succeeded

pytestmark = pytest.mark.once

MANY = f"""
import os
f = os.open(__file__, os.O_RDONLY)
for n in range({kept_summary.WORTH_KEEPING}): os.pread(f, 1 + n % 9, n % 50)
"""


@pytest.fixture(scope="module")
def packed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A log of several processes and threads that keeps its summary."""
    folder = tmp_path_factory.mktemp("busy")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kept_summary, "WORTH_KEEPING", 1)
        assert main(["pack", str(busy_logs(folder)["live"]), str(folder / "kept.parquet")]) == 0
    return folder / "kept.parquet"


def attach(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setattr(Log, "attachment", lambda *_: text)


def scanned(log: Log, top: int = 10) -> Summary:
    return summarize_with((), log, top)[0]


def test_the_end_of_a_run_keeps_it(program: Runner) -> None:
    # GIVEN a run of many operations WHEN its log is packed at the end THEN that keeps the figures of a scan
    words = [sys.executable, "-m", "pyio_trace", "-o", "run.parquet", program.write(MANY)]
    succeeded(program.command(words))
    log = open_log(program.folder / "run.parquet")
    kept = kept_summary.kept_summary(log)
    assert kept is not None and kept == scanned(log) == summarize(log)


def test_a_small_log_keeps_none(program: Runner) -> None:
    words = [sys.executable, "-m", "pyio_trace", "-o", "run.parquet", "-c", "open('x', 'w').close()"]
    succeeded(program.command(words))
    assert open_log(program.folder / "run.parquet").attachment(kept_summary.NAME) is None


def test_pack_keeps_it(packed: Path) -> None:
    log = open_log(packed)
    kept = kept_summary.kept_summary(log)
    assert kept is not None and kept == scanned(log) == summarize(log)


def test_other_figures_are_scanned(packed: Path) -> None:
    # GIVEN a log that keeps its summary WHEN a selection, or more lines, are asked for THEN they are made
    log = open_log(packed)
    assert summarize(log, 3) == scanned(log, 3) != summarize(log)
    some = restrict(log, Filter(ops=("pread",)))
    assert summarize(some) == scanned(some) and summarize(some).run.records < log.rows()


def test_a_copy_names_itself(packed: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.parquet"
    other.write_bytes(packed.read_bytes())
    assert summarize(open_log(other)).run.path == str(other)


@pytest.mark.parametrize("name", ["run", "start", "records"])
def test_that_of_another_run(packed: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    # GIVEN a kept summary whose run is not that of the log, as a tool leaves it that drops rows THEN it is not used
    log = open_log(packed)
    kept = json.loads(log.attachment(kept_summary.NAME) or "")
    was = kept["summary"]["run"][name]
    kept["summary"]["run"][name] = was + (1 if isinstance(was, int) else "x")
    attach(monkeypatch, json.dumps(kept))
    assert kept_summary.kept_summary(log) is None and summarize(log) == scanned(log)


def test_other_definitions(packed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = open_log(packed)
    monkeypatch.setattr(kept_summary, "_definitions", lambda: "later ones")
    assert kept_summary.kept_summary(log) is None and summarize(log) == scanned(log)


@pytest.mark.parametrize("text", ["", "{", "[]", "null", "[" * 100_000, '{"definitions": 1}', "\ud800", "1e999"])
def test_no_summary_at_all(packed: Path, monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    attach(monkeypatch, text)
    assert kept_summary.kept_summary(open_log(packed)) is None


@pytest.mark.slow
def test_forged_values(packed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # GIVEN any value of the kept summary replaced by another WHEN it is used THEN it can be printed
    log = open_log(packed)
    kept = json.loads(log.attachment(kept_summary.NAME) or "")
    printed = 0
    for place, value in forgeries(kept["summary"]):
        forged = copy.deepcopy(kept)
        within = forged["summary"]
        for step in place[:-1]:
            within = within[step]
        within[place[-1]] = value
        attach(monkeypatch, json.dumps(forged))
        summary = kept_summary.kept_summary(log)
        if summary is not None:
            out = io.StringIO()
            print_summary(summary, out, None)
            assert "\x1b" not in out.getvalue(), place
            printed += 1
    assert printed > 200


@pytest.mark.parametrize(
    ("name", "value", "used"),
    [
        ("au_mean_percentage", 99.5, True), ("au_mean_percentage", 100.5, False), ("au_mean_percentage", -1, False),
        ("throughput_mean_samples_per_second", None, True), ("throughput_mean_samples_per_second", 1e308, False),
        ("measured", -1, False), ("line", "\x1b[31m\n", True), ("process", 2**63 - 1, True),
    ],
)  # fmt: skip
def test_forged_loops(packed: Path, monkeypatch: pytest.MonkeyPatch, name: str, value: Any, used: bool) -> None:
    # GIVEN a kept summary of two loops, of which one figure is another WHEN it makes no sense THEN it is not used
    log = open_log(packed)
    kept = json.loads(log.attachment(kept_summary.NAME) or "")
    loop = {
        "line": "/w/train.py:5:main", "process": 0, "epochs": 1, "measured": 1, "count": 2, "step_ns": 3, "wait_ns": 1,
        "au_mean_percentage": 75.0, "throughput_mean_samples_per_second": 8e9,
    }  # fmt: skip
    kept["summary"]["overview"]["loops"] = [{**loop, name: value}, {**loop, "process": 1, name: value}]
    attach(monkeypatch, json.dumps(kept))
    summary = kept_summary.kept_summary(log)
    assert (summary is not None) == used
    # AND else it can be printed
    if summary is not None:
        out = io.StringIO()
        print_summary(summary, out, None)
        assert "AU up to" in out.getvalue() and "\x1b" not in out.getvalue()


def forgeries(value: Any, place: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], Any]]:
    """(where, another value) for each part of the JSON, of lists for the first one."""
    if place:
        for other in (-1, 2**63 - 1, "\x1b[31m\n", None):
            yield place, other
    parts = value.items() if isinstance(value, dict) else enumerate(value[:1]) if isinstance(value, list) else ()
    for name, part in parts:
        yield from forgeries(part, (*place, name))
