"""Loaders in a log by hand: the view of batches and the summary give the same, and each line has its own ends."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pyio_trace.analysis.reducer import scan
from pyio_trace.analysis.reducers.batches import Batches, BatchesOfLoaders
from pyio_trace.analysis.results.overview_figures import LoaderEpoch
from pyio_trace.analysis.summary.summarize import summarize
from pyio_trace.join.sources.facade import Log
from pyio_trace.join.sources.opening import open_log
from tests.support.logwriter import LogWriter

WAIT, FETCH = ("SPAN_APP_WAIT", "DataLoader.__next__"), ("SPAN_APP_CONTAINER", "DataLoader.fetch")


class Loaders:
    """A trainer with one worker; begins are ns since the start."""

    def __init__(self) -> None:
        self.writer = LogWriter()
        self.trainer = self.writer.process(100, argv=["python", "train.py"], begin=0, end=9_000, stack_state=1)
        worker = self.writer.process(101, argv=["python", "train.py"], begin=0, end=9_000, parent=self.trainer)
        self.threads = [self.writer.thread(process, pid) for process, pid in ((self.trainer, 100), (worker, 101))]
        code = self.writer.code("/w/train.py", "main")
        self.stacks = {line: self.writer.stack((code, line)) for line in (5, 7)}

    def call(self, what: tuple[str, str], process: int, begin: int, end: int, line: int = 5, **detail: Any) -> None:
        text = json.dumps({"loader": f"1.{line}", "epoch": 0, **detail})
        self.threads[process].record(
            what[0], begin=1_000 + begin, duration=end - begin, aux=self.writer.string(what[1]),
            offset=self.writer.string(text), stack=self.stacks[line],
        )  # fmt: skip

    def log(self, folder: Path) -> Log:
        return open_log(self.writer.save(folder / "run.pyio"))


def loaders_of(log: Log) -> list[LoaderEpoch]:
    overview = summarize(log).overview
    assert overview is not None
    return overview.loaders


def test_the_view_of_batches_says_what_the_summary_says(tmp_path: Path) -> None:
    # GIVEN a batch that is fetched until 30 and waited for from 20 to 90, while its worker fetches the next one from 35
    # to 80
    made = Loaders()
    made.call(FETCH, 1, 0, 30, batch=0)
    made.call(FETCH, 1, 35, 80, batch=1)
    made.call(WAIT, 0, 20, 90, batch=0)
    log = made.log(tmp_path)
    # WHEN it is looked at in both ways
    (batches,) = scan(log, [BatchesOfLoaders()])
    (epoch,) = loaders_of(log)
    # THEN the trainer waited for fetches from 20 to 30 and from 35 to 80
    assert isinstance(batches, Batches)
    assert (batches.not_ready_ns, batches.hand_over_ns) == (epoch.not_ready_ns, epoch.hand_over_ns) == (55, 15)
    first, second = batches.rows
    assert (first.batch, first.wait_ns, first.fetch_ns, first.ready_ns, first.begin_ns) == (0, 70, 30, -10, 20)
    assert (second.wait_ns, second.not_ready_ns, second.fetch_ns, second.begin_ns) == (None, None, 45, 35)
    assert "(101)" in first.worker


def test_an_end_of_an_epoch_has_its_line(tmp_path: Path) -> None:
    # GIVEN two loaders, each waited for at a line of its own WHEN the epochs are summed up
    made = Loaders()
    for line, stop in ((5, 40), (7, 3)):
        made.call(WAIT, 0, 100 * line, 100 * line + 10, line, batch=0)
        made.call(WAIT, 0, 100 * line + 20, 100 * line + 20 + stop, line, raised="StopIteration")
    found = {one.line: one.stop_ns for one in loaders_of(made.log(tmp_path))}
    # THEN each end is put down to its line
    assert found == {"/w/train.py:5:main": 40, "/w/train.py:7:main": 3}


@pytest.mark.parametrize("detail", [{}, {"batch": "0"}, {"batch": 0, "loader": 7}])
def test_batches_without_a_number_are_no_rows(tmp_path: Path, detail: dict[str, Any]) -> None:
    made = Loaders()
    made.call(WAIT, 0, 20, 90, **detail)
    (batches,) = scan(made.log(tmp_path), [BatchesOfLoaders()])
    assert (batches.count, batches.rows, batches.wait_ns) == (0, [], 0)
