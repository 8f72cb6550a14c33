"""Which file a path named at each moment of a run.

A name may change hands: a log is rotated, a checkpoint is renamed over the one
before.  So the time of each path is cut at every change of its name that the
log has.  Between two cuts it names one file, which openings in that stretch
identify.  A rename or link continues the stretch of the one path in that of the
other, so that a file is known under all its names, also where it was opened by
one of them only.

Changes from outside the run are not in the log.  If one stretch has openings of
several files, the latest before the moment counts, else the first after it.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pyio_trace.log.sorting import distinct

Ints = NDArray[np.int64]

#: Names through which a file is followed: 2 to this power.
_ROUNDS = 40


class NamesOverTime:
    """Paths are indexes below `paths`; ticks are int64."""

    def __init__(self, paths: int, cuts: Ints, moves: Ints, opened: Ints) -> None:
        """cuts: (path, ticks) at which a path lost or got its file; moves: (path, ticks, other path) of renames and
        links; opened: (path, ticks or 0, identity of the file, not 0); 0: at a time that the log does not have."""
        self._moments = distinct(cuts[:, 1])
        self._span = len(self._moments) + 1
        self._cuts = np.sort(cuts[:, 0] * self._span + np.searchsorted(self._moments, cuts[:, 1]))
        stretches = np.arange(len(self._cuts) + paths)
        stretches[self._stretch(moves[:, 2], moves[:, 1], "right")] = self._stretch(moves[:, 0], moves[:, 1], "left")
        for _ in range(_ROUNDS):
            further = stretches[stretches]
            if np.array_equal(further, stretches):
                break
            stretches = further
        self._first = stretches  # of each stretch: the one that its file began in
        self._times = distinct(opened[:, 1])
        self._most = len(self._times) + 1
        begun = self._first[self._stretch(opened[:, 0], opened[:, 1], "left")]
        keys = begun * self._most + np.searchsorted(self._times, opened[:, 1])
        order = np.argsort(keys, kind="stable")
        self._opened, self._files = keys[order], opened[order, 2]
        #: by path: whether it may have named several files
        self.varies = np.zeros(paths, np.bool_)
        self.varies[cuts[:, 0]] = True
        opened = opened[np.argsort(opened[:, 1], kind="stable")]
        self._latest = np.zeros(paths, np.int64)
        self._latest[opened[:, 0]] = opened[:, 2]
        self._sometime = np.zeros(paths, np.int64)  # by path: of an opening at an unknown time
        unseen = opened[opened[:, 1] == 0]
        self._sometime[unseen[:, 0]] = unseen[:, 2]
        self.varies[opened[self._latest[opened[:, 0]] != opened[:, 2], 0]] = True

    def last(self) -> Ints:
        """By path: the identity of the file that was opened by it last, else of the one that had it in the end."""
        every = np.arange(len(self._latest))
        return np.where(self._latest != 0, self._latest, self.at(every, np.full(len(every), np.iinfo(np.int64).max)))

    def _stretch(self, path: Ints, ticks: Ints, side: str) -> Ints:
        """The number of the stretch of a path at these ticks; of a cut: "left" the one before it, "right" after it."""
        moment = np.searchsorted(self._moments, ticks, side=side)  # type: ignore[call-overload]
        found: Ints = np.searchsorted(self._cuts, path * self._span + moment) + path
        return found

    def at(self, path: Ints, ticks: Ints) -> Ints:
        """The identity of the file that a path named just before these ticks; negative: it was never looked at."""
        begun = self._first[self._stretch(path, ticks, "left")]
        after = np.searchsorted(self._opened, begun * self._most + np.searchsorted(self._times, ticks, side="right"))
        result = np.where(self._sometime[path] != 0, self._sometime[path], -1 - begun)
        if not len(self._opened):
            return result
        for place in (np.minimum(after, len(self._opened) - 1), np.maximum(after - 1, 0)):  # the latter counts
            there = self._opened[place] // self._most == begun
            result[there] = self._files[place[there]]
        return result
