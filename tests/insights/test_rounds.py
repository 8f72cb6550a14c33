"""How many operations a trial does before it says what a remedy saves, and what it says of those it left out."""

from __future__ import annotations

import numpy as np
import pytest

from pyio_trace.insights.trials.datasets_read import Selection, _Reads
from pyio_trace.insights.trials.replay import SEVERAL, NotTried, Replay
from pyio_trace.insights.trials.rounds import Measurement, is_gain, measured

pytestmark = pytest.mark.once
#: ns; longer than a round of a trial may take.
LONG = 10**9


def found_of(replay: Replay) -> Measurement:
    return measured(replay, seconds=3, cold=False, own_folder=lambda number: None)


@pytest.mark.parametrize("operations", [40, SEVERAL, 3])
def test_what_is_done_once_for_many(operations: int) -> None:
    # GIVEN loads that take a second each, so that there is time for one, and a remedy that loads once
    replay = Replay(lambda count: count * LONG, lambda count: LONG, operations, operations)
    # WHEN it is tried THEN so many are done that it shows
    found = found_of(replay)
    done = min(operations, SEVERAL)
    assert found.operations == done
    assert found.plain == operations * LONG and found.remedy == operations * LONG // done
    assert is_gain(found.plain_range, found.remedy_range, found.saved)


def test_what_each_operation_shows() -> None:
    # GIVEN long operations, each of which the remedy makes shorter WHEN they are tried THEN one is enough
    replay = Replay(lambda count: count * LONG, lambda count: count * LONG // 2, 40, 40, together=1, share=0.75)
    found = found_of(replay)
    assert (found.operations, found.plain, found.remedy) == (1, 30 * LONG, 15 * LONG)


def reads_of(boxes: list[tuple[str, slice, slice]], chunks: tuple[int, int] | None = (8, 16)) -> _Reads:
    """Reads of datasets of 64 x 64 numbers, which have 8 x 4 chunks."""
    reads: _Reads = object.__new__(_Reads)
    reads.boxes = [(("f.h5", name), (rows, columns)) for name, rows, columns in boxes]
    reads.shapes = {name: ((64, 64), chunks, np.dtype("f8")) for name, _ in reads.boxes}
    return reads


ALL = slice(0, 64)
COLUMNS = [("a", ALL, slice(n, n + 1)) for n in range(64)]


@pytest.mark.parametrize(
    ("boxes", "first", "share"),
    [
        (COLUMNS, [0, 16, 32, 48], 15 / 16),
        ([("a", slice(n, n + 1), ALL) for n in range(64)], list(range(0, 64, 8)), 7 / 8),
        ([("a", slice(n, n + 8), ALL) for n in range(0, 64, 8)], list(range(8)), 0),  # each chunk once
        ([("a", ALL, ALL)] * 5, [0], 4 / 5),
        ([*COLUMNS[:4], ("b", ALL, ALL), *COLUMNS[:4], ("b", ALL, ALL)], [0, 4], 1 - 40 / 128),
        ([("a", slice(0, 5), slice(0, 5)), ("a", slice(4, 12), slice(0, 5))], [0, 1], 1 / 3),  # half of it is new
        ([("a", slice(60, 90), ALL), ("a", slice(70, 90), ALL)], [0], 0),  # the file has become smaller
    ],
)
def test_what_fills_a_cache(boxes: list[tuple[str, slice, slice]], first: list[int], share: float) -> None:
    # GIVEN reads of chunks WHEN asked THEN these fill a cache, and this share of all uses of chunks finds it full
    reads = reads_of(boxes)
    wanted: list[Selection] = [reads.boxes[at] for at in first]
    found, again = reads.first_uses()
    assert found == wanted and again == pytest.approx(share)


def test_chunks_without_number() -> None:
    # GIVEN a dataset with more chunks than are marked one by one WHEN asked THEN the trial is refused
    reads = reads_of(COLUMNS)
    reads.shapes = {name: ((1 << 40, 64), (8, 16), np.dtype("f8")) for name in reads.shapes}
    with pytest.raises(NotTried, match="more than 4,194,304 chunks"):
        reads.first_uses()


def test_a_dataset_without_chunks() -> None:
    assert reads_of(COLUMNS, chunks=None).first_uses() == ([], 1)
