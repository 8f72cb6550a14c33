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
#: Later than any moment.
_NEVER = np.int64(np.iinfo(np.int64).max)


class Stretches:
    """The stretches of all paths, and which are of one file.  Paths are indexes below `paths`; ticks are int64."""

    def __init__(self, paths: int, changed: Ints, linked: Ints) -> None:
        """changed: (path that lost its file, ticks, path that got it or -1); linked: (path, ticks, new path, 1: a
        symbolic link).  Paths below 0 are unknown."""
        changed = changed[changed[:, 0] >= 0]
        got = linked[linked[:, 2] >= 0]
        moved = changed[changed[:, 2] >= 0]
        links = got[(got[:, 0] >= 0) & (got[:, 3] == 0), :3]
        self.paths = paths
        self.cuts = np.concatenate([changed[:, :2], moved[:, [2, 1]], got[:, [2, 1]]])
        self._moments = distinct(self.cuts[:, 1])
        self._span = len(self._moments) + 1
        self._keys = distinct(self.cuts[:, 0] * self._span + np.searchsorted(self._moments, self.cuts[:, 1]))
        self.first = self._followed(np.concatenate([moved, links]))  # of each stretch: the one that its file began in
        self._ends = self._last_ends(moved, got)

    def at(self, path: Ints, ticks: Ints, side: str) -> Ints:
        """The number of the stretch of a path at these ticks; of a cut: "left" the one before it, "right" after it."""
        moment = np.searchsorted(self._moments, ticks, side=side)  # type: ignore[call-overload]
        found: Ints = np.searchsorted(self._keys, path * self._span + moment) + path
        return found

    def nameless_since(self, path: Ints, ticks: Ints) -> Ints:
        """When the file that a path named at these ticks had lost its last name; _NEVER: it kept one."""
        found: Ints = self._ends[self.first[self.at(path, ticks, "left")]]
        return found

    def _followed(self, moves: Ints) -> Ints:
        stretches = np.arange(len(self._keys) + self.paths)
        stretches[self.at(moves[:, 2], moves[:, 1], "right")] = self.at(moves[:, 0], moves[:, 1], "left")
        for _ in range(_ROUNDS):
            further = stretches[stretches]
            if np.array_equal(further, stretches):
                break
            stretches = further
        return stretches

    def _last_ends(self, moved: Ints, got: Ints) -> Ints:
        """By first stretch of a file: the end of the last of its names."""
        path, moment = np.divmod(self._keys, self._span)
        ends = np.full(len(self.first), _NEVER)
        ends[np.arange(len(path)) + path] = self._moments[moment]
        result = np.zeros(len(ends), np.int64)
        np.maximum.at(result, self.first, ends)
        # What is opened by a symbolic link has other names; a rename between two names of one file does nothing.
        pointers = got[got[:, 3] != 0]
        old, new = (self.first[self.at(moved[:, name], moved[:, 1], "left")] for name in (0, 2))
        result[self.first[self.at(pointers[:, 2], pointers[:, 1], "right")]] = _NEVER
        result[old[old == new]] = _NEVER
        return result


class NamesOverTime:
    """Which file a path named at a moment."""

    def __init__(self, stretches: Stretches, opened: Ints) -> None:
        """opened: (path, ticks or 0, identity of the file, not 0); 0: at a time that the log does not have."""
        self._stretches = stretches
        paths = stretches.paths
        self._times = distinct(opened[:, 1])
        self._most = len(self._times) + 1
        begun = self._begun(opened[:, 0], opened[:, 1])
        keys = begun * self._most + np.searchsorted(self._times, opened[:, 1])
        order = np.argsort(keys, kind="stable")
        self._opened, self._files = keys[order], opened[order, 2]
        #: by path: whether it may have named several files
        self.varies = np.zeros(paths, np.bool_)
        self.varies[stretches.cuts[:, 0]] = True
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
        return np.where(self._latest != 0, self._latest, self.at(every, np.full(len(every), _NEVER)))

    def _begun(self, path: Ints, ticks: Ints) -> Ints:
        found: Ints = self._stretches.first[self._stretches.at(path, ticks, "left")]
        return found

    def at(self, path: Ints, ticks: Ints) -> Ints:
        """The identity of the file that a path named just before these ticks; negative: it was never looked at."""
        begun = self._begun(path, ticks)
        after = np.searchsorted(self._opened, begun * self._most + np.searchsorted(self._times, ticks, side="right"))
        result = np.where(self._sometime[path] != 0, self._sometime[path], -1 - begun)
        if not len(self._opened):
            return result
        for place in (np.minimum(after, len(self._opened) - 1), np.maximum(after - 1, 0)):  # the latter counts
            there = self._opened[place] // self._most == begun
            result[there] = self._files[place[there]]
        return result
