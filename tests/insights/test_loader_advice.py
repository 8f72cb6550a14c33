"""Advice about DataLoaders that is followed, and workers that share their work badly, in real runs."""

from __future__ import annotations

import re

import pytest

from pyio_trace.insights.finding import Finding
from pyio_trace.insights.settings import Settings
from tests.support.findings import findings_of, none, only, without_times
from tests.support.programs import Outcome, Runner, succeeded

pytestmark = [pytest.mark.frameworks("torch"), pytest.mark.once]

#: Rules that advise a number of workers.
NUMBERS = ("loader-in-trainer", "loader-starved", "loader-too-many-workers")
#: Each of 16 items takes so many seconds to come, for which nothing computes.  argv: the seconds, epochs, workers, and
#: whether they stay.  Prints what the epochs took.
ITEMS = """
import sys, time, torch
from torch.utils.data import DataLoader
class Items:
    def __len__(self): return 16
    def __getitem__(self, n):
        time.sleep(float(sys.argv[1]))
        return n
if __name__ == "__main__":
    torch.set_num_threads(1)
    loader = DataLoader(Items(), batch_size=1, num_workers=int(sys.argv[3]), persistent_workers=sys.argv[4] == "True")
    begin = time.monotonic()
    for epoch in range(int(sys.argv[2])):
        for batch in loader: pass
    print(time.monotonic() - begin)
"""


def advice(found: list[Finding]) -> list[tuple[str, int, bool]]:
    """Of each finding that advises workers: its slug, how many, and whether they stay."""
    codes = [(one.slug, one.remedy.after) for one in found if one.remedy is not None]
    return [
        (slug, int(number[1]), "persistent_workers=True" in code)
        for slug, code in codes
        if (number := re.search(r"num_workers=(\d+)", code)) and slug.startswith("loader-")
    ]


@pytest.mark.slow
@pytest.mark.parametrize(("seconds", "epochs", "workers"), [(0.2, 1, 0), (0.2, 2, 2), (0.0, 2, 4)])
def test_advice_that_is_followed(program: Runner, seconds: float, epochs: int, workers: int) -> None:
    # GIVEN a loader whose fetches wait, or take no time, and that has too few workers, or too many
    before = succeeded(program.traced(ITEMS, seconds, epochs, workers, False))
    settings = Settings(limits={"loader-too-many-workers": {"ms": 0}})
    # THEN one finding says how many, and no other says another number
    (first, *others) = advice(findings_of(before, settings))
    slug, number, kept = first
    assert slug in NUMBERS and all(own == number for _, own, _ in others)
    assert number > max(workers, 2) if seconds else number == 0
    # WHEN it is followed THEN nothing speaks against it, and what was to wait for is less
    after = succeeded(program.traced(ITEMS, seconds, epochs, number, kept, log="after.pyio"))
    found = findings_of(after, Settings())
    assert none(found, "loader-in-trainer" if not number else "loader-too-many-workers"), found
    assert none(found, "loader-workers-restart") and all(own >= number for _, own, _ in advice(found))
    assert float(after.stdout) < float(before.stdout)


#: argv: which dataset, workers.  Prints how many samples the trainer got.
STREAMS = """
import sys, time, torch
from torch.utils.data import DataLoader, IterableDataset, get_worker_info
def records():
    with open("a.bin", "rb") as file:
        while record := file.read(1000): yield record[0]
class Whole(IterableDataset):
    def __iter__(self): return records()
class Asking(IterableDataset):
    def __iter__(self):
        info = get_worker_info()
        for n, record in enumerate(records()):
            if n % info.num_workers == info.id: yield record
class Given(IterableDataset):
    part = None
    def __iter__(self):
        for n, record in enumerate(records()):
            if n % 2 == self.part: yield record
class Shards(IterableDataset):  # two of them
    def __iter__(self):
        for n in range(10 if get_worker_info().id < 2 else 0):
            time.sleep(0.02)
            yield n
class Slow(IterableDataset):
    def __iter__(self):
        for n in range(10):
            time.sleep(0.001 if get_worker_info().id else 0.05)
            yield n
def give(n): get_worker_info().dataset.part = n
if __name__ == "__main__":
    with open("a.bin", "wb") as file: file.write(bytes(100_000))
    kind, workers = sys.argv[1], int(sys.argv[2])
    init = give if kind == "Given" else None
    print(sum(map(len, DataLoader(globals()[kind](), batch_size=5, num_workers=workers, worker_init_fn=init))))
"""
#: Counts decide, and what equal work would save does not.
ANY = without_times({"loader-uneven": {"share": -1e9, "ms": -1e9}})


def stream(program: Runner, kind: str, workers: int) -> Outcome:
    return succeeded(program.traced(STREAMS, kind, workers, log=f"{kind}.pyio"))


def test_every_worker_reads_all(program: Runner) -> None:
    # GIVEN a dataset that does not ask which worker it is in
    outcome = stream(program, "Whole", 2)
    assert outcome.stdout == "200\n"  # of 100 samples
    finding = only(findings_of(outcome, ANY), "loader-duplicated")
    # THEN the results are said to be wrong, at the line that reads
    assert finding.makes_wrong and finding.severity == "critical" and finding.sites[0].line == 6
    assert (finding.evidence[0].values["workers"], finding.evidence[0].values["read"]) == (2, 100_000)
    assert finding.remedy is not None and "get_worker_info" in finding.remedy.after


@pytest.mark.parametrize("kind", ["Asking", "Given"])
def test_every_worker_takes_its_part(program: Runner, kind: str) -> None:
    # GIVEN datasets that ask, or that a function which asks gives their part THEN nothing is said to be wrong
    outcome = stream(program, kind, 2)
    assert outcome.stdout == "100\n" and none(findings_of(outcome, ANY), "loader-duplicated")


def test_workers_without_data(program: Runner) -> None:
    # GIVEN two shards for four workers THEN two of them are said to be idle
    finding = only(findings_of(stream(program, "Shards", 4), ANY), "loader-uneven")
    assert (finding.evidence[0].values["idle"], finding.evidence[0].values["workers"]) == (2, 4)
    assert finding.remedy is not None and "num_workers=2" in finding.remedy.after


def test_a_slow_worker(program: Runner) -> None:
    # GIVEN three workers of which one takes 50 times as long
    uneven = without_times({"loader-uneven": {"share": -1e9, "ms": -1e9, "times": 8}})  # a busy machine makes 2
    finding = only(findings_of(stream(program, "Slow", 3), uneven), "loader-uneven")
    values = finding.evidence[0].values
    assert int(values["slowest_ns"]) >= 10 * 50_000_000 and "worker 0" in finding.evidence[0].text
    # AND it is no finding that all took as long
    assert none(findings_of(stream(program, "Asking", 2), uneven), "loader-uneven")
