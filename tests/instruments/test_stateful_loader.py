"""torchdata's StatefulDataLoader: as PyTorch's own, though its iterators and workers are others."""

from __future__ import annotations

import json

import pytest

from pyio_trace.analysis.summary.summarize import summarize
from tests.instruments.torch_loaders import LOADERS, SIZES, by_batch, items, printed, reconciled, rows_of
from tests.support.programs import Outcome, Runner, succeeded

__all__ = ["items"]
pytestmark = [pytest.mark.frameworks("torch"), pytest.mark.slow]
STATEFUL = LOADERS.replace(
    "from torch.utils.data import DataLoader, Dataset,",
    "from torchdata.stateful_dataloader import StatefulDataLoader as DataLoader\nfrom torch.utils.data import Dataset,",
)
#: An epoch that is broken off after two batches, and goes on from its state in another loader.
RESUMED = STATEFUL.replace(
    "main(*sys.argv[1:])",
    """
    make = lambda: DataLoader(Items(), batch_size=3, num_workers=int(sys.argv[1]))
    first = make()
    for place, batch in zip(range(2), first):
        print(json.dumps([0, 0, batch.tolist()]))
    second = make()
    second.load_state_dict(first.state_dict())
    for batch in second:
        print(json.dumps([1, 0, batch.tolist()]))
""",
)


def traced(items: Runner, text: str, *args: str) -> Outcome:
    pytest.importorskip("torchdata")
    return succeeded(items.traced(text, *args, flags=["-W", "ignore"]))


@pytest.mark.parametrize(("method", "case"), [("spawn", "map"), ("fork", "persistent"), ("fork", "alone")])
def test_every_batch_of_an_epoch(items: Runner, method: str, case: str) -> None:
    # GIVEN epochs of this loader WHEN they are traced THEN every batch has its wait, its fetch and its bytes
    outcome = traced(items, STATEFUL, method, case)
    found, given = reconciled(outcome), [(epoch, sorted(batch)) for _, epoch, batch in printed(outcome)]
    assert sorted((epoch, batch) for (_, epoch, _), batch in found.items()) == sorted(given)
    # AND the summary has each epoch with its workers, and the time of all its fetches
    overview = summarize(outcome.log).overview
    assert overview is not None
    assert {one.workers for one in overview.loaders} == {0 if case == "alone" else 2}
    fetches = [row["duration"] for row, told in rows_of(outcome, "DataLoader.fetch") if "raised" not in told]
    assert sum(one.batches for one in overview.loaders) == len(given) == len(fetches)
    begun = [told for _, told in rows_of(outcome, "DataLoader.__iter__")]
    assert len(begun) == len(overview.loaders)
    if case != "alone":
        for row, told in by_batch(outcome, "DataLoader.fetch").values():
            process = outcome.processes[row["process"]]
            assert process["process_name"] == f"DataLoader {told['loader'].partition('.')[2]}, worker {told['worker']}"


def test_an_epoch_that_goes_on_from_its_state(items: Runner) -> None:
    # GIVEN a loader that goes on where another one was broken off WHEN it is traced
    outcome = traced(items, RESUMED, "2", "resumed")
    given = [sorted(one[0] for one in json.loads(line)[2]) for line in outcome.stdout.splitlines()]
    assert sorted(number for batch in given for number in batch) == list(range(len(SIZES)))
    # THEN each wait of either is for the batch that was fetched for it
    found = reconciled(outcome)
    assert sorted(found.values()) == sorted(given)
