"""The steps of a training loop, on calls made by hand: which count, their figures, and when there are none."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pyio_trace.analysis.results.overview_figures import LoaderEpoch, LoaderLoop, Steps
from pyio_trace.analysis.scan.filters import Filter, restrict
from pyio_trace.analysis.summary.summarize import summarize
from pyio_trace.analysis.view_sums.loader_calls import FETCH, WAIT, Call
from pyio_trace.analysis.view_sums.loader_epochs import epochs
from pyio_trace.analysis.view_sums.loader_steps import loops_of
from tests.analysis.test_loader_epochs import TRAINER, WORKER, call
from tests.analysis.test_loader_views import WAIT as WAIT_OP
from tests.analysis.test_loader_views import Loaders

SECOND_TRAINER = 5


def waits(*times: tuple[int, int], **detail: Any) -> list[Call]:
    """The waits for batches 0, 1, ... by begin and end."""
    return [call(WAIT, TRAINER, *one, **{"batch": number, **detail}) for number, one in enumerate(times)]


def fetches(*samples: Any) -> list[Call]:
    """The fetches of batches 0, 1, ... of so many samples each."""
    return [call(FETCH, WORKER, n, n + 1, batch=n, samples=count) for n, count in enumerate(samples)]


#: Waits of 90, 10, 30, 20 ns, with steps of 40, 70, 90 ns between them.
FOUR = waits((0, 90), (130, 140), (210, 240), (330, 350))


def steps(calls: list[Call]) -> Steps | None:
    (found,), _ = epochs(calls)
    return found.steps


def test_the_first_and_the_last_step_do_not_count() -> None:
    # GIVEN four batches of which the second and third have 8 and 7 samples WHEN their epoch is joined
    for calls in (FOUR + fetches(100, 8, 7, 50), fetches(100, 8, 7, 50)[::-1] + FOUR[::-1]):
        found = steps(calls)
        # THEN the waits of 10 and 30 ns and the steps of 70 and 90 ns count, which are all from 130 to 330
        assert found == Steps(2, 160, 40, 80.0, 15, 15 * 1e9 / 200)


@pytest.mark.parametrize("end", [[], [call(WAIT, TRAINER, 400, 450, raised="StopIteration")]])
def test_an_epoch_that_is_left_early_has_the_same_steps(end: list[Call]) -> None:
    assert steps(FOUR + end) == Steps(2, 160, 40, 80.0)


@pytest.mark.parametrize("count", [1, 2])
def test_too_few_batches(count: int) -> None:
    assert steps(FOUR[:count] + fetches(1, 1)) is None
    assert steps(FOUR[: count + 1] + fetches(1, 1)) == (Steps(1, 70, 10, 87.5, 1, 1e9 / 80) if count == 2 else None)


@pytest.mark.parametrize("samples", [(1, 8), (1, 8, None), (1, 8, 0), (1, 8, -7), (1, 8, "7"), (1, 8, True)])
def test_samples_that_are_not_known(samples: tuple[Any, ...]) -> None:
    # GIVEN a counted batch whose fetch is missing, or says nothing of its samples, or nonsense
    found = steps(FOUR + fetches(*samples))
    # THEN the throughput is not known, and not 0
    assert found is not None
    assert (found.count, found.samples, found.throughput_samples_per_second) == (2, None, None)


def test_samples_of_batches_that_do_not_count() -> None:
    found = steps(FOUR + fetches(None, 8, 7, None))
    assert found is not None and found.samples == 15


@pytest.mark.parametrize(
    "calls",
    [
        pytest.param([FOUR[0], *FOUR[2:]], id="a wait is missing"),
        pytest.param([*FOUR[:3], replace(FOUR[3], detail={**FOUR[3].detail, "batch": None})], id="no number"),
        pytest.param([*FOUR[:3], replace(FOUR[3], detail={**FOUR[3].detail, "batch": 2})], id="a number twice"),
        pytest.param([*FOUR[:3], replace(FOUR[3], detail={**FOUR[3].detail, "batch": {"x": 1}})], id="no int"),
        pytest.param([*FOUR[:3], replace(FOUR[3], process=SECOND_TRAINER)], id="two processes"),
        pytest.param(waits((0, 90), (130, 215), (210, 240), (330, 350)), id="two waits at once"),
        pytest.param(waits((5, 5), (5, 5), (5, 5)), id="no time passes"),
    ],
)
def test_waits_that_do_not_make_a_loop(calls: list[Call]) -> None:
    (found,), _ = epochs(calls)
    assert found.steps is None and found.batches == len(calls)


def test_a_worker_that_met_the_end_of_its_data() -> None:
    # GIVEN an epoch without batch 2, whose worker had nothing left WHEN the log says so THEN the others are its steps
    calls = [FOUR[0], FOUR[1], *(replace(one, detail={**one.detail, "batch": n}) for n, one in enumerate(FOUR[2:], 3))]
    assert steps(calls) is None
    ended = steps([*calls, call(FETCH, WORKER, 1, 2, batch=2, raised="StopIteration")])
    assert ended is not None and (ended.count, ended.au_percentage) == (2, 80.0)


def test_loaders_of_the_same_name_on_two_hosts() -> None:
    # GIVEN two ranks whose process ids are equal, on different hosts THEN each has its own epoch
    other = [replace(one, process=1, time=one.time + 5) for one in FOUR]
    found, _ = epochs(FOUR + other, ["node1", "node2"].__getitem__)
    assert [(one.process, one.steps) for one in found] == [(0, Steps(2, 160, 40, 80.0)), (1, Steps(2, 160, 40, 80.0))]
    # AND without hosts they are taken for one, which has no figures
    (mixed,), _ = epochs(FOUR + other)
    assert (mixed.process, mixed.steps) == (None, None)


def epoch(number: int, line: str | None, process: int, found: Steps | None) -> LoaderEpoch:
    return LoaderEpoch("1.0", number, 2, 4, 4, *([0] * 7), line, process, found)


def test_epochs_of_a_loop_are_averaged() -> None:
    # GIVEN two epochs with figures and a short one at a line, and one of another line, whose samples are not known
    one, other = Steps(2, 60, 40, 60.0, 10, 100.0), Steps(2, 80, 20, 80.0, 20, 200.0)
    unknown = replace(other, samples=None, throughput_samples_per_second=None)
    given = [epoch(0, "a", 0, one), epoch(1, "a", 0, other), epoch(2, "a", 0, None), epoch(0, "b", 0, unknown)]
    # THEN the means are over the epochs that have figures, and a throughput that lacks one is not known
    assert loops_of([*given, replace(given[0], batches=0, line="c")]) == [
        LoaderLoop("a", 0, 3, 2, 4, 140, 60, 70.0, 150.0),
        LoaderLoop("b", 0, 1, 1, 2, 80, 20, 80.0, None),
    ]
    (mixed,) = loops_of([epoch(0, "a", 0, one), epoch(1, "a", 0, unknown)])
    assert (mixed.au_mean_percentage, mixed.throughput_mean_samples_per_second) == (70.0, None)
    (none,) = loops_of([epoch(0, "a", 0, None)])
    assert (none.measured, none.au_mean_percentage, none.throughput_mean_samples_per_second) == (0, None, None)


def test_a_selection_that_lacks_waits(tmp_path: Path) -> None:
    # GIVEN an iterable dataset's epoch WHEN only its long waits are selected THEN there are no figures; of all waits
    # before a moment, or of a process, there are
    made = Loaders()
    for number, (begin, end) in enumerate([(0, 90), (130, 140), (210, 240), (330, 350)]):
        made.call(WAIT_OP, 0, begin, end, batch=number)
    made.call(("SPAN_APP_CONTAINER", "DataLoader.fetch"), 1, 20, 90, batch=9, raised="StopIteration")
    log = made.log(tmp_path)
    long, until, trainer = Filter(min_duration=20), Filter(until=340), Filter(processes=["100"])
    found = {}
    for text, chosen in {"all": Filter(), "long": long, "until": until, "trainer": trainer}.items():
        overview = summarize(restrict(log, chosen)).overview
        assert overview is not None
        found[text] = [one.steps for one in overview.loaders]
        assert len(overview.loops) == 1 and overview.loops[0].process == 0
    assert found == {name: [Steps(2, 160, 40, 80.0)] if name != "long" else [None] for name in found}
