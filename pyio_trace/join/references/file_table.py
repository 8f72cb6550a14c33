"""Files: what each descriptor and path of a log identifies.

A file is identified by (device, inode, generation) if the log has looked at one
of its descriptors, else by its path.  Every path gets the better identity of
the two, so that a stat of a file and reads of it are about the same file.
"""

from __future__ import annotations

import os
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pyio_trace.join.base.identities import Identities
from pyio_trace.join.base.records import UNKNOWN, begin_ticks
from pyio_trace.join.references.inode_reuse import (
    UNSEEN,
    NameChanges,
    generations,
    one_file_each,
    opened_at,
    with_openings_of_sums,
)
from pyio_trace.join.references.names_over_time import NamesOverTime, Stretches
from pyio_trace.join.references.paths import Paths
from pyio_trace.log import layout
from pyio_trace.log.heap import Heap, ObjectNumbers
from pyio_trace.log.sorting import distinct, find


class WrittenFiles(NamedTuple):
    """Descriptors of files that were opened for writing, in the order of their ids; parallel arrays."""

    file: NDArray[np.int64]
    device: NDArray[np.uint64]
    inode: NDArray[np.uint64]
    path: NDArray[np.int32]  # index into Paths.texts


class Files:
    """Tables by object number: path (index, or -1), file (identity, or 0), kind (in layout.FILE_KINDS; 0: unknown), fd,
    root (number, or -1), first (its root was made with this descriptor).

    paths: the Paths; path_file: identity by path index, of the file that had this
    name last.  at() has the one that had it at a moment.

    The *root* of a descriptor is the one its open file description was made
    with; dup and fork copy descriptors of one root.  By root number: root_start
    (first position, or UNKNOWN), root_flags (flags of open), root_file,
    root_lost (unrecorded calls moved the position, so that it is unknown).

    identities: device and inode of the files that the log has looked at; written: the
    regular files that were opened for writing; changed: paths that
    the log has a removal or a rename of.
    """

    def __init__(
        self,
        heap: Heap,
        numbers: ObjectNumbers,
        objects: NDArray[np.int64],
        name_changes: NameChanges,
        summed: NDArray[np.int64],
    ) -> None:
        """objects: heap ids that records refer to, ascending; summed: see names_in_sums()."""
        self._heap = heap
        self.paths = Paths(heap)
        descs, rows = self._with_roots(objects[heap.kinds(objects) == layout.HEAP_DESC])
        strings = objects[heap.kinds(objects) == layout.HEAP_STRING]

        desc_path = self._indexes(rows["path"].astype(np.int64))
        string_path = self._indexes(strings)
        string_numbers, desc_numbers = numbers.of(strings.astype(np.uint32)), numbers.of(descs.astype(np.uint32))
        self.path = np.full(numbers.count, -1, np.int32)
        self.path[string_numbers] = string_path

        inode = _inodes(rows)
        name_changes = with_openings_of_sums(name_changes, descs, rows)
        steady = one_file_each(name_changes, desc_path, inode)
        #: None: each name led to one file
        self.over_time: NamesOverTime | None = None
        desc_file, looked_at = _shared_by_root(rows["root"], inode, inode != 0)
        if steady:
            self.path_file = _by_path(desc_file, looked_at, desc_path, len(self.paths.texts))
            rest = np.flatnonzero(~looked_at & (desc_path >= 0))
            desc_file[rest] = self.path_file[desc_path[rest]]
        else:
            desc_file = self._with_names(numbers, inode, descs, rows, desc_path, name_changes)
        self.file = np.zeros(numbers.count, np.int64)
        self.fd = np.full(numbers.count, -1, np.int32)
        self.root = np.full(numbers.count, -1, np.int32)
        self.path[desc_numbers], self.file[desc_numbers], self.fd[desc_numbers] = desc_path, desc_file, rows["fd"]
        self._number_roots(numbers, descs, rows, desc_file)
        self.first = np.zeros(numbers.count, np.bool_)
        self.first[desc_numbers] = rows["root"].astype(np.int64) == descs

        self.identities = _identities(rows, desc_file)
        self.written = _written(rows, desc_file, desc_path)
        self.changed = self._changed(numbers, name_changes, summed)
        known = string_path >= 0
        self.file[string_numbers[known]] = self.path_file[string_path[known]]
        self.varies = np.zeros(numbers.count, np.bool_)
        if self.over_time is not None:
            self.varies[string_numbers[known]] = self.over_time.varies[string_path[known]]
        self.kind = np.zeros(numbers.count, np.uint8)
        self.kind[desc_numbers], self.kind[string_numbers] = _kinds(rows, desc_file, self.file[string_numbers])
        # Number 0 stands for whatever is not in use, and must name nothing.
        nothing: dict[str, int] = {"path": -1, "file": 0, "kind": 0, "fd": -1, "root": -1, "first": 0, "varies": 0}
        for name, value in nothing.items():
            getattr(self, name)[0] = value

    def _with_roots(self, descs: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.void]]:
        """The descriptors that exist and their roots: ids, ascending, and layout.DESC."""
        rows, valid = self._heap.descriptors(descs)
        roots = rows["root"].astype(np.int64)
        others = roots[roots != descs]
        if len(others):
            descs = distinct(np.concatenate([descs, others]))
            rows, valid = self._heap.descriptors(descs)
        return (descs, rows) if valid.all() else (descs[valid], rows[valid])

    def _indexes(self, strings: NDArray[np.int64]) -> NDArray[np.int32]:
        """The path index of each string."""
        ids, inverse = np.unique(strings, return_inverse=True)
        found = [self.paths.index(identity) if identity else -1 for identity in ids.tolist()]
        return np.array(found, np.int32)[inverse]

    def _with_names(
        self, numbers: ObjectNumbers, inode: NDArray[np.int64], descs: NDArray[np.int64], rows: NDArray[np.void],
        desc_path: NDArray[np.int32], names: NameChanges,
    ) -> NDArray[np.int64]:  # fmt: skip
        """The identity of each descriptor's file, where names changed; makes over_time and path_file."""

        def index(strings: NDArray[np.int64]) -> NDArray[np.int64]:
            return self.path[numbers.of(np.maximum(strings, 0).astype(np.uint32))].astype(np.int64)

        changed = np.stack([index(names.changed[:, 0]), names.changed[:, 1], index(names.changed[:, 2])], axis=1)
        linked = np.stack(
            [index(names.linked[:, 0]), names.linked[:, 1], index(names.linked[:, 2]), names.linked[:, 3]], axis=1
        )
        stretches = Stretches(len(self.paths.texts), changed, linked)
        path = desc_path.astype(np.int64)
        ticks, made = opened_at(names, descs, rows["root"].astype(np.int64))
        inode = _split_by_generation(inode, path, ticks, made, stretches)
        file, looked_at = _shared_by_root(rows["root"], inode, inode != 0)

        opened = np.flatnonzero(looked_at & (path >= 0) & (rows["root"] == descs))
        since = np.where(ticks == UNSEEN, 0, ticks)  # inherited, or from before tracing
        self.over_time = NamesOverTime(stretches, np.stack([path[opened], since[opened], file[opened]], axis=1))
        self.path_file = self.over_time.last()
        rest = np.flatnonzero(~looked_at & (path >= 0))
        file[rest] = self.over_time.at(path[rest], ticks[rest])
        return file

    def at(self, numbers: NDArray[np.int64], begins: NDArray[np.uint64]) -> NDArray[np.int64]:
        """The file of each of these objects when a record began: what a path named then.  Numbers as in `file`."""
        file = self.file.take(numbers)
        if self.over_time is not None:
            rows = np.flatnonzero(self.varies.take(numbers))
            file[rows] = self.over_time.at(self.path[numbers[rows]].astype(np.int64), begin_ticks(begins[rows]))
        return file

    def appends(self, numbers: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Which of these descriptors were opened with O_APPEND.  Numbers as in `file`."""
        root = self.root.take(numbers)
        flags = np.append(self.root_flags, 0).take(root, mode="wrap")  # -1: the last
        found: NDArray[np.bool_] = (flags & os.O_APPEND) != 0
        return found

    def _number_roots(
        self, numbers: ObjectNumbers, descs: NDArray[np.int64], rows: NDArray[np.void], desc_file: NDArray[np.int64]
    ) -> None:
        own = rows["root"].astype(np.int64)
        known = find(descs, own)[1]
        own = np.where((own > 0) & known, own, descs)
        roots, number = np.unique(own, return_inverse=True)
        first = np.searchsorted(descs, roots)
        self.root[numbers.of(descs.astype(np.uint32))] = number.astype(np.int32)
        start = rows["position"][first]
        self.root_start = np.where(start < 0, UNKNOWN, start)
        self.root_flags = rows["open_flags"][first].astype(np.uint32)
        self.any_appends = bool((self.root_flags & os.O_APPEND).any())
        self.root_file = desc_file[first]
        # The kernel was asked for the position of one descriptor only; with several, others may have moved it.
        gap, descriptors = rows["gap"][first], np.bincount(number, minlength=len(roots))
        self.root_lost = (gap >= layout.GAP_LOST) | ((gap == layout.GAP_RESUMED) & (descriptors > 1))

    def _changed(self, numbers: ObjectNumbers, names: NameChanges, summed: NDArray[np.int64]) -> set[str]:
        strings = np.concatenate([summed, names.changed[:, [0, 2]].ravel(), names.linked[:, [0, 2]].ravel()])
        index = distinct(self.path[numbers.of(np.maximum(strings, 0).astype(np.uint32))]).tolist()
        return {self.paths.texts[at] for at in index if at >= 0}


def _kinds(
    rows: NDArray[np.void], desc_file: NDArray[np.int64], string_file: NDArray[np.int64]
) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """What descriptors and paths lead to: a descriptor that was not looked at, what others of the same file did."""
    own = np.where(rows["kind"] < len(layout.FILE_KINDS), rows["kind"], 0).astype(np.uint8)
    known = (own != 0) & (desc_file != 0)
    files, number = np.unique(desc_file[known], return_inverse=True)
    of_file = np.zeros(len(files) + 1, np.uint8)
    of_file[number] = own[known]

    def others(file: NDArray[np.int64]) -> NDArray[np.uint8]:
        at, there = find(files, file)
        return np.where(there, of_file[at], 0).astype(np.uint8)

    return np.where(own != 0, own, others(desc_file)), others(string_file)


def _identities(rows: NDArray[np.void], desc_file: NDArray[np.int64]) -> Identities:
    looked_at = np.flatnonzero((rows["ino"] != 0) & (desc_file > 0))
    file, first = np.unique(desc_file[looked_at], return_index=True)
    return Identities(file, *(rows[name][looked_at[first]].view(np.int64) for name in ("dev", "ino")))


def _written(rows: NDArray[np.void], desc_file: NDArray[np.int64], desc_path: NDArray[np.int32]) -> WrittenFiles:
    known = (rows["ino"] != 0) & (rows["kind"] <= layout.DESC_KINDS.index("regular")) & (desc_path >= 0)
    wrote = known & (rows["open_flags"] & os.O_ACCMODE != 0)
    known &= np.isin(desc_file, desc_file[wrote])
    return WrittenFiles(desc_file[known], rows["dev"][known], rows["ino"][known], desc_path[known])


def _inodes(rows: NDArray[np.void]) -> NDArray[np.int64]:
    """A number from 1 for each device and inode among these descriptors; 0 if the log did not look at the file."""
    looked_at = (rows["ino"] != 0) | (rows["dev"] != 0)
    _, device = np.unique(rows["dev"][looked_at], return_inverse=True)
    inodes, inode = np.unique(rows["ino"][looked_at], return_inverse=True)
    _, number = np.unique(device * len(inodes) + inode, return_inverse=True)
    result = np.zeros(len(rows), np.int64)
    result[looked_at] = number + 1
    return result


def _split_by_generation(
    inode: NDArray[np.int64], path: NDArray[np.int64], ticks: NDArray[np.int64], made: NDArray[np.bool_],
    stretches: Stretches,
) -> NDArray[np.int64]:  # fmt: skip
    """Inode numbers in which files that used the same inode one after another have different numbers."""
    known = np.flatnonzero(inode)
    generation = generations(inode[known], path[known], ticks[known], made[known], stretches)
    if not generation.any():
        return inode
    pairs = inode[known] * (int(generation.max()) + 1) + generation
    inode[known] = np.unique(pairs, return_inverse=True)[1] + 1
    return inode


def _by_path(
    file: NDArray[np.int64], looked_at: NDArray[np.bool_], path: NDArray[np.int32], paths: int
) -> NDArray[np.int64]:
    """The identity of each path, where no name changed; negative: its file was never looked at."""
    found = -1 - np.arange(paths, dtype=np.int64)
    both = looked_at & (path >= 0)
    found[path[both]] = file[both]  # if several files had this name, the latest
    return found


def _shared_by_root(
    root: NDArray[np.uint32], file: NDArray[np.int64], looked_at: NDArray[np.bool_]
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """The identities, and which are known, after each one found through a descriptor is given to its copies."""
    if looked_at.all():
        return file, looked_at
    roots, at = np.unique(root, return_inverse=True)
    of_root = np.zeros(len(roots), np.int64)
    of_root[at[looked_at]] = file[looked_at]
    of_root[roots == 0] = 0
    file = np.where(looked_at, file, of_root[at])
    return file, file != 0
