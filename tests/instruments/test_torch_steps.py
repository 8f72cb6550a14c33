"""PyTorch: the steps of loops over DataLoaders, compared with what the program itself counted and timed.

The program's times are only compared with those that contain them, or that they
contain: a busy machine makes all of them longer.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from pyio_trace.analysis.results.overview_figures import LoaderEpoch, LoaderLoop
from pyio_trace.analysis.summary.summarize import summarize
from pyio_trace.join.sources.opening import open_log
from pyio_trace.report.bars import Letters
from pyio_trace.report.overview_text import overview_lines
from tests.instruments.torch_loaders import rows_of
from tests.support.programs import Outcome, Runner, succeeded

pytestmark = [pytest.mark.frameworks("torch"), pytest.mark.slow, pytest.mark.once]

#: Loops that say of each batch how many samples it has, and how long it was waited for and worked on.
#: argv: keywords of the loader as JSON, kind of the dataset, epochs, after how many batches each is left (0: never).
LOOPS = """
import json, sys, time
import torch
from torch.utils.data import DataLoader, Dataset, IterableDataset, get_worker_info

class Items(Dataset):
    def __len__(self):
        return 22
    def __getitem__(self, number):
        return torch.tensor([number] * 9)

class Stream(IterableDataset):
    def __iter__(self):
        info = get_worker_info()
        first, step = (info.id, info.num_workers) if info else (0, 1)
        for number in range(first, 22, step):
            yield torch.tensor([number] * 9)

def main(keywords, kind, epochs, left):
    loader = DataLoader({"map": Items, "stream": Stream}[kind](), **json.loads(keywords))
    for epoch in range(int(epochs)):
        told = []
        asked = time.perf_counter_ns()
        for batch in loader:
            arrived = time.perf_counter_ns()
            samples = len(batch)
            del batch
            told.append([samples, arrived - asked, 0])
            if len(told) == int(left):
                break
            asked = time.perf_counter_ns()
            told[-1][2] = asked - arrived
        print(json.dumps(told))

if __name__ == "__main__":
    main(*sys.argv[1:])
"""
#: Of a batch: samples, ns waited for it, ns worked on it.
Told = tuple[int, int, int]


def seen(program: Runner, kind: str = "map", epochs: int = 1, left: int = 0, **keywords: Any) -> tuple[
    list[LoaderEpoch], list[LoaderLoop], list[list[Told]], Outcome
]:  # fmt: skip
    """(the epochs and loops of the summary, what the program said of the batches of each epoch, the run)."""
    outcome = succeeded(program.traced(LOOPS, json.dumps(keywords), kind, str(epochs), str(left)))
    overview = summarize(outcome.log).overview
    assert overview is not None
    told = [json.loads(line) for line in outcome.stdout.splitlines()]
    assert [one.batches for one in overview.loaders] == [len(one) for one in told]
    return overview.loaders, overview.loops, told, outcome


def agree(epoch: LoaderEpoch, told: list[Told], samples: bool = True) -> None:
    """The steps are the program's: without the first and the last one, with the samples that it counted."""
    steps, counted = epoch.steps, told[1:-1]
    assert steps is not None
    assert steps.count == len(counted)
    assert steps.samples == (sum(one[0] for one in counted) if samples else None)
    # A wait is within what the program took around it, and its work is within the step.
    assert 0 < steps.wait_ns <= sum(one[1] for one in counted)
    assert 0 < sum(one[2] for one in counted) <= steps.step_ns
    whole = steps.step_ns + steps.wait_ns
    assert steps.au_percentage == pytest.approx(100 * steps.step_ns / whole)
    rate = steps.throughput_samples_per_second
    assert rate == (None if steps.samples is None else pytest.approx(steps.samples * 1e9 / whole))


@pytest.mark.parametrize(
    "keywords",
    [
        {}, {"num_workers": 2}, {"num_workers": 2, "persistent_workers": True}, {"num_workers": 2, "drop_last": True}
    ],
    ids=["alone", "two workers", "persistent workers", "without the last"],
)  # fmt: skip
def test_steps_of_every_epoch(program: Runner, keywords: dict[str, Any]) -> None:
    # GIVEN 22 samples in batches of 4, twice WHEN the loop is traced THEN each epoch has the steps that it says
    epochs, (loop,), told, outcome = seen(program, epochs=2, batch_size=4, **keywords)
    assert [len(one) for one in told] == [5 if "drop_last" in keywords else 6] * 2
    for epoch, batches in zip(epochs, told, strict=True):
        agree(epoch, batches)
    # AND the loop has the means of both
    shares = [one.steps.au_percentage for one in epochs if one.steps is not None]
    assert (loop.epochs, loop.measured, loop.count) == (2, 2, sum(len(one) - 2 for one in told))
    assert loop.au_mean_percentage == pytest.approx(sum(shares) / 2)
    assert loop.throughput_mean_samples_per_second is not None
    assert outcome.processes[epochs[0].process or 0]["pid"] == outcome.pid
    # AND every fetch says how many samples it has: of the last batch two, if there is one
    samples = [told["samples"] for _, told in rows_of(outcome, "DataLoader.fetch")]
    assert sorted(samples) == sorted(one[0] for batches in told for one in batches)


@pytest.mark.parametrize(("left", "count"), [(1, None), (2, None), (3, 1), (5, 3)])
def test_loops_that_are_left_early(program: Runner, left: int, count: int | None) -> None:
    epochs, (loop,), told, _ = seen(program, epochs=2, left=left, batch_size=4, num_workers=2)
    assert [len(one) for one in told] == [left] * 2
    for epoch, batches in zip(epochs, told, strict=True):
        if count is None:
            assert epoch.steps is None
        else:
            agree(epoch, batches)
    assert (loop.measured, loop.count) == ((0, 0) if count is None else (2, 2 * count))


@pytest.mark.parametrize("workers", [0, 2])
def test_iterable_datasets(program: Runner, workers: int) -> None:
    # GIVEN a stream of 22 samples in batches of 4: of one process, the sixth is short; of two, the third of each
    (epoch,), _, (told,), _ = seen(program, "stream", batch_size=4, num_workers=workers)
    assert [one[0] for one in told] == ([4, 4, 4, 4, 4, 2] if not workers else [4, 4, 4, 4, 3, 3])
    # THEN the samples of a batch in which a worker's data ended are not known: of the last one it does not matter
    agree(epoch, told, samples=not workers)


def test_datasets_that_make_batches_themselves(program: Runner) -> None:
    # GIVEN no batch size: how many samples an item has is for the dataset to know
    (epoch,), (loop,), (told,), outcome = seen(program, batch_size=None)
    assert len(told) == 22
    agree(epoch, told, samples=False)
    assert loop.throughput_mean_samples_per_second is None
    assert not any("samples" in told for _, told in rows_of(outcome, "DataLoader.fetch"))


def test_ranks_of_one_job(program: Runner) -> None:
    # GIVEN two ranks of a job, with a log each, that say of their batches what they have
    told: list[list[Told]] = []
    (program.folder / "logs").mkdir()
    for rank in range(2):
        env = {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": "2"}
        words = json.dumps({"batch_size": 4}), "map", "1", "0"
        outcome = succeeded(program.traced(LOOPS, *words, log=f"logs/rank{rank}.pyio", env=env))
        told.append(json.loads(outcome.stdout))
    # WHEN the folder is summed up THEN each has its epoch and its loop
    summary = summarize(open_log(program.folder / "logs"))
    overview = summary.overview
    assert overview is not None
    for epoch, batches in zip(overview.loaders, told, strict=True):
        agree(epoch, batches)
    ranks = {one.index: one.rank for one in summary.processes}
    assert sorted(str(ranks[one.process or 0]) for one in overview.loops) == ["0", "1"]
    # AND the first screen has one line for both
    lines = [line for line in overview_lines(summary, Letters()) if " samples/s" in line]
    assert len(lines) == 1 and lines[0].startswith("  2 ranks: AU up to ")
