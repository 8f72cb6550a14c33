"""How evenly an amount is divided between processes."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pyio_trace.light_dataclass import dataclass

Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Balance:
    """An amount of each of several processes.  ratio: the largest over the mean of all, 1 if all are equal (None: all
    are 0); most: index of the process with the largest; total: the sum."""

    total: int
    largest: int
    mean: float
    ratio: float | None
    most: int


def balance(processes: Ints, amounts: Ints, among: list[int]) -> Balance:
    """The balance of amounts by process (a process may come several times) among these processes."""
    place = {process: number for number, process in enumerate(among)}
    sums = np.zeros(len(among), np.int64)
    at = [place.get(process, -1) for process in processes.tolist()]
    known = np.array(at, np.int64)
    np.add.at(sums, known[known >= 0], amounts[known >= 0])
    total, largest = int(sums.sum()), int(sums.max(initial=0))
    mean = total / max(len(among), 1)
    return Balance(
        total, largest, mean, largest / mean if mean > 0 else None, among[int(sums.argmax())] if among else -1
    )
