"""What `insights --verify` says of a gain: never more than the log recorded, and what of it was not tried."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from pyio_trace.insights import insights, registry, verify
from pyio_trace.insights.finding import Finding, Query, Recoverable, Remedy, Verified
from pyio_trace.insights.judgement import measured
from pyio_trace.insights.settings import Settings
from pyio_trace.insights.trials import reads, recorded
from pyio_trace.insights.trials.attempt import PYTHON_PART, Attempt
from pyio_trace.insights.trials.recorded import Rows
from pyio_trace.report.findings_text import verified_line, verified_text
from tests.insights.test_verify import ANY, SMALL, check_gain, verified
from tests.support.findings import only
from tests.support.programs import Runner, succeeded

pytestmark = [pytest.mark.once, pytest.mark.usefixtures("own_time")]
#: The import of PyTorch is most of a short run.
SAVES = Settings(limits={"checkpoint-stall": {"share": 0}})
CHECKPOINTS = """
import os, time, torch
for step in range(4):
    for name in ("a", "b", "c"):
        with open(f"{name}.pt", "wb") as f:
            torch.save(torch.zeros(1000), f)
            f.flush()
            os.fsync(f.fileno())
    time.sleep(0.1)
"""


def forged(change: Callable[[Rows], dict[str, Any]]) -> Callable[..., list[Rows]]:
    """recorded.rows_of(), with other columns in what it returns."""

    def rows_of(*arguments: Any) -> list[Rows]:
        return [replace(rows, columns={**rows.columns, **change(rows)}) for rows in recorded.rows_of(*arguments)]

    return rows_of


def test_recorded_time_is_that_of_the_log(program: Runner) -> None:
    # GIVEN reads through Python's file objects WHEN their remedy is tried
    outcome = succeeded(program.traced(SMALL))
    finding, shown = verified(outcome, "small-accesses")
    # THEN the recorded time is that of the line's outermost calls, which have the system calls in them
    at = f"{finding.sites[0].file}:{finding.sites[0].line}:{finding.sites[0].function}"
    rows = outcome.log.operations(["site", "op_role", "request_id", "id", "duration"]).to_pylist()
    own = [row["duration"] for row in rows if row["site"] == at and row["request_id"] == row["id"]]
    assert own and shown.recorded_ns == sum(own)
    # THEN no gain is more than that
    assert 0 < shown.saved_ns <= shown.high_ns <= shown.recorded_ns


def test_recorded_time_has_a_part_of_pythons(program: Runner) -> None:
    # GIVEN calls of which only the system call is in the log WHEN their remedy is tried
    text = "import os\nfor n in range(3000): os.stat('program.py')"
    outcome = succeeded(program.traced(text))
    _, shown = verified(outcome, "stat-storm")
    # THEN what Python does for each is in the recorded time, up to a limit
    rows = outcome.log.operations(["op", "duration", "path"]).to_pylist()
    own = [row["duration"] for row in rows if row["op"] == "stat" and row["path"].endswith("/program.py")]
    own = own[-3000:]
    assert sum(own) < shown.recorded_ns <= sum(own) + 3000 * PYTHON_PART


def system_calls(durations: list[int], pause: int, processes: int = 1) -> Rows:
    """System calls that no request is around, by one thread of each process, each `pause` ns after the one before."""
    begins = 1_790_000_000_000_000_000 + np.cumsum([0, *(time + pause for time in durations[:-1])])
    count = len(durations)
    columns = {
        "time": np.repeat(begins, processes), "duration": np.repeat(durations, processes),
        "process": np.tile(np.arange(processes), count), "tid": np.zeros(count * processes, np.int64),
        "id": np.arange(count * processes), "request_id": np.full(count * processes, -1),
        "outer": np.ones(count * processes, np.int64), "leaf": np.ones(count * processes, np.int64),
    }  # fmt: skip
    return Rows(columns, {}, {(process, 0): count for process in range(processes)})


@pytest.mark.parametrize("threads", [1, 2])
def test_recorded_time_is_exact(threads: int) -> None:
    # GIVEN calls in a loop that Python goes on with after 10 ns
    finding = Finding("x", 0, Recoverable("x", "upper", 1), [], Query(""))
    attempt = Attempt(finding, system_calls([1000] * 2000, pause=10), until=0)
    # WHEN their time is added up THEN it is right to the ns, with the last call's rest where Python's part counts
    assert attempt.recorded_ns(threads) == (2000 * 1000 + 1999 * 10 + PYTHON_PART if threads == 1 else 2000 * 1000)


def test_no_more_processes_than_cores_that_may_be_used(monkeypatch: pytest.MonkeyPatch) -> None:
    # GIVEN work of four processes, and a process that may use two cores of a larger machine
    monkeypatch.setattr(os, "cpu_count", lambda: 64)
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0, 5})
    finding = Finding("x", 0, Recoverable("x", "upper", 1), [], Query(""))
    # WHEN it is tried THEN two processes try it side by side
    assert Attempt(finding, system_calls([1000] * 50, pause=10, processes=4), until=0).workers() == 2


def test_a_gain_is_never_more_than_what_was_recorded(program: Runner, monkeypatch: pytest.MonkeyPatch) -> None:
    # GIVEN a run in which all was a thousand times faster than it is now
    outcome = succeeded(program.traced(SMALL))
    monkeypatch.setattr(verify, "rows_of", forged(lambda rows: {"duration": rows.columns["duration"] // 1000 + 1}))
    # WHEN the remedy is tried THEN it saves what the run had, and says so
    finding, shown = verified(outcome, "small-accesses")
    assert shown.plain_ns > shown.recorded_ns > 0
    assert shown.outcome == "gain" and shown.saved_ns == shown.recorded_ns
    # THEN that is less than the finding promises, which stays as it is
    assert shown.at_least and finding.recoverable.bound != "measured" and finding.recoverable_ns > shown.saved_ns
    assert "that the recorded operations took" in shown.why and "no more than the" in verified_text(shown)


@pytest.mark.parametrize(("recorded", "now", "waits"), [(10, 7, 1), (10, 2, 0), (10, 13, 4), (0, 7, 4)])
def test_what_a_trainer_waits_for_is_less_if_its_worker_is_faster_now(recorded: int, now: int, waits: int) -> None:
    # GIVEN a trainer that waited 4 s for its worker WHEN the worker's operations are faster in the trial than in the
    # run THEN the wait is shorter by the difference; slower or unknown times do not change it
    shown = Verified("gain", plain_ns=now, saved_ns=now, recorded_ns=recorded)
    assert verify.still_waited(4, shown) == waits


@pytest.mark.parametrize("duration", [-(1 << 62), 0, (1 << 62) - 1])
def test_forged_durations(program: Runner, duration: int, monkeypatch: pytest.MonkeyPatch) -> None:
    # GIVEN a log whose durations make no sense WHEN its remedies are tried THEN it ends, and times are none or more
    outcome = succeeded(program.traced(SMALL))
    monkeypatch.setattr(
        verify, "rows_of", forged(lambda rows: {"duration": np.full(len(rows), duration, np.int64)})
    )  # fmt: skip
    finding, shown = verified(outcome, "small-accesses")
    assert shown.recorded_ns >= 0 and 0 <= finding.recoverable_ns <= finding.recoverable.of_wall_ns


def test_no_gain_is_no_time() -> None:
    # GIVEN a trial in which too few rounds show that something is saved WHEN it is judged THEN nothing is recoverable
    finding = Finding("x", 10**9, Recoverable("x", "upper", 2 * 10**9), [], Query(""))
    shown = Verified("no gain", plain_ns=10**9, remedy_ns=9 * 10**8, saved_ns=10**8, low_ns=-1, high_ns=2 * 10**8)
    judged = measured(finding, shown, None, Settings().of_severity())
    assert (judged.recoverable_ns, judged.severity) == (0, "info")


def test_what_is_not_known_changes_nothing() -> None:
    # GIVEN rounds that differ by more than the finding promises WHEN it is judged THEN it stays as it was
    finding = Finding("x", 10**9, Recoverable("x", "estimate", 2 * 10**9), [], Query(""))
    shown = Verified("not known", "load 4.2", plain_ns=10**9, remedy_ns=10**9, low_ns=-(10**9), high_ns=10**9)
    judged = measured(finding, shown, None, Settings().of_severity())
    assert judged == replace(finding, verified=shown)


def test_a_harmful_remedy_is_dropped() -> None:
    # GIVEN a trial in which the remedy took longer WHEN it is judged THEN nobody is told to follow it
    finding = Finding("x", 10**9, Recoverable("x", "estimate", 2 * 10**9), [], Query(""), remedy=Remedy("Do."))
    shown = Verified("harm", plain_ns=10**9, remedy_ns=3 * 10**9, saved_ns=-2 * 10**9, rounds=9, cache="cached")
    judged = measured(finding, shown, None, Settings().of_severity())
    assert (judged.recoverable_ns, judged.severity, judged.remedy) == (0, "info", None)
    assert verified_line(shown) == "tried here: the remedy takes 2 s longer, and is dropped (9 rounds, cached)"


@pytest.mark.frameworks("torch")
def test_checkpoints_beside_training(program: Runner) -> None:
    # GIVEN checkpoints of three files each, with training between them
    outcome = succeeded(program.traced(CHECKPOINTS))
    # WHEN the remedy is tried THEN all calls on the files were made again, and training hides most of them
    finding, shown = verified(outcome, "checkpoint-stall", SAVES)
    rows = outcome.log.operations(["layer", "op_class", "path"]).to_pylist()
    own = [row for row in rows if row["layer"] == "posix" and str(row["path"]).endswith(".pt")]
    calls = sum(row["op_class"] in ("open", "write", "sync", "close") for row in own)
    assert calls >= 4 * 3 * 4
    check_gain(finding, shown, calls)
    assert shown.cache == "new files" and "the library's own work" in shown.why
    # THEN the files are as they were
    assert sorted(path.name for path in program.folder.glob("*.pt")) == ["a.pt", "b.pt", "c.pt"]


@pytest.mark.frameworks("torch")
@pytest.mark.parametrize("change", [
    lambda rows: {"time": rows.columns["time"][::-1].copy()},
    lambda rows: {"request_id": rows.columns["id"], "id": np.zeros(len(rows), np.int64)},
    lambda rows: {"duration": np.full(len(rows), (1 << 62) - 1, np.int64)},
    lambda rows: {"bytes_moved": np.full(len(rows), 1 << 61, np.int64)},
])  # fmt: skip
def test_forged_checkpoints(program: Runner, change: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    # GIVEN a log whose checkpoints make no sense WHEN they are tried THEN it ends, and leaves nothing
    outcome = succeeded(program.traced(CHECKPOINTS))
    monkeypatch.setattr(verify, "rows_of", forged(change))
    _, shown = verified(outcome, "checkpoint-stall", SAVES)
    assert shown.outcome in ("gain", "no gain", "harm", "not known", "not tried")


def test_why_others_are_not_tried(program: Runner) -> None:
    # GIVEN rules whose remedies no replay can show WHEN their findings are verified THEN each says why
    rules = registry.found()
    outcome = succeeded(program.traced(SMALL))
    summary, found = insights.find(outcome.log, rules, ANY)
    first = replace(only(found.findings, "small-accesses"))
    for slug, word in (("parse-bound", "columns"), ("import-storm", "import"), ("handle-over-fork", "right")):
        (shown,) = verify.verify(
            outcome.log, summary, insights.Insights([replace(first, slug=slug)]), rules, ANY, seconds=0.2
        ).findings
        assert shown.verified is not None and shown.verified.outcome == "not tried" and word in shown.verified.why


def test_readers_have_positions_of_their_own(program: Runner) -> None:
    # GIVEN the trial of reads through file objects WHEN it is run, as by processes that have its descriptors in common
    outcome = succeeded(program.traced(SMALL))
    _, found = insights.find(outcome.log, registry.found(), ANY)
    finding = only(found.findings, "small-accesses")
    (rows,) = recorded.rows_of(outcome.log, [(finding, "line")])
    with Attempt(finding, rows, 0) as attempt:
        replay = reads.larger(attempt)
        for run in (replay.plain, replay.remedy):
            assert run(100) > 0
        # THEN it does not move the position that they share
        assert [os.lseek(one, 0, os.SEEK_CUR) for one in replay.originals] == [0]
