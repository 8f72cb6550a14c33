"""Paths and files: what each descriptor and string of a log names.

Owns the path dictionary, the identity of files, and the descriptors' lineage.
A file is known by (device, inode, generation) where some descriptor of the log
was looked at, else by its path; every path of the log gets the better of the two, so that
a stat of a file and reads of it meet.
"""

from __future__ import annotations

import os

import numpy as np
from numpy.typing import NDArray

from pyio_trace.join.generations import Named, generations, opened_at
from pyio_trace.join.positions import UNKNOWN
from pyio_trace.log import layout
from pyio_trace.log.heap import Heap, HeapSlots
from pyio_trace.log.sorting import distinct

#: No path a kernel takes is longer by much; a forged chain of bases could make one that is.
_LONGEST = 1 << 15
_DEEPEST = 16


class Paths:
    """Absolute paths by string id, each worked out once; all distinct ones in `texts`."""

    def __init__(self, heap: Heap) -> None:
        self._heap = heap
        self._bytes: dict[int, bytes | None] = {}
        self._index: dict[str, int] = {}
        self.texts: list[str] = []

    def index(self, identity: int) -> int:
        """Where in texts the path of a string is; -1: missing."""
        raw = self._absolute(identity, 0)
        if raw is None:
            return -1
        text = raw.decode("utf-8", "backslashreplace")
        at = self._index.get(text, -1)
        if at < 0 and self._heap.room_for("paths", len(text)):
            at = self._index[text] = len(self.texts)
            self.texts.append(text)
        return at

    def _absolute(self, identity: int, depth: int) -> bytes | None:
        if identity in self._bytes:
            return self._bytes[identity]
        found = self._heap.string(identity)
        if found is None:
            result = None
        else:
            path, base = found
            if base and depth < _DEEPEST and not path.startswith(b"/"):
                start = self._absolute(base, depth + 1)
                path = path if start is None else start + b"/" + path
            result = normal(path[:_LONGEST])
        self._bytes[identity] = result
        return result


def normal(path: bytes) -> bytes:
    """A path without `//`, `.` and, lexically, `..`; symbolic links stay. What is not absolute stays as it is."""
    if not path.startswith(b"/") or (b"//" not in path and b"/." not in path and not path.endswith(b"/")):
        return path
    plain = os.path.normpath(path)
    return plain[1:] if plain.startswith(b"//") else plain


class Files:
    """Tables by heap slot for the objects in use: path (index or -1), file (identity or 0), fd, root.

    paths: the Paths; path_file: identity by path index.  By root number:
    root_start (first position or UNKNOWN), root_flags (how it was opened), root_file,
    root_lost (positions moved where nothing was recorded, and cannot be told).
    """

    def __init__(self, heap: Heap, slots: HeapSlots, objects: NDArray[np.int64], named: Named | None) -> None:
        self._heap = heap
        self.paths = Paths(heap)
        descs, rows = self._with_roots(objects[heap.kinds(objects) == layout.HEAP_DESC])
        strings = objects[heap.kinds(objects) == layout.HEAP_STRING]

        desc_path = self._indexes(rows["path"].astype(np.int64))
        string_path = self._indexes(strings)
        self.path = np.full(slots.count, -1, np.int32)
        self.path[slots.of(strings.astype(np.uint32))] = string_path
        inode = _inodes(rows)
        if named is not None:
            inode = self._told_apart(slots, inode, descs, rows, desc_path, named)
        desc_file, self.path_file = _identities(rows, inode, desc_path, len(self.paths.texts))
        self.file = np.zeros(slots.count, np.int64)
        self.fd = np.full(slots.count, -1, np.int32)
        self.root = np.full(slots.count, -1, np.int32)
        at = slots.of(descs.astype(np.uint32))
        self.path[at], self.file[at], self.fd[at] = desc_path, desc_file, rows["fd"]
        self._roots(slots, descs, rows, desc_file)
        at = slots.of(strings.astype(np.uint32))
        there = string_path >= 0
        self.file[at[there]] = self.path_file[string_path[there]]
        # ids that no heap chunk holds share the slots below NONE: they name nothing
        for table, nothing in ((self.path, -1), (self.file, 0), (self.fd, -1), (self.root, -1)):
            table[: HeapSlots.NONE] = nothing

    def _with_roots(self, descs: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.void]]:
        """Those of the descriptors that there are, and their roots, ascending; layout.DESC of each."""
        rows, valid = self._heap.descriptors(descs)
        roots = rows["root"].astype(np.int64)
        others = roots[roots != descs]
        if len(others):
            descs = distinct(np.concatenate([descs, others]))
            rows, valid = self._heap.descriptors(descs)
        return (descs, rows) if valid.all() else (descs[valid], rows[valid])

    def _indexes(self, strings: NDArray[np.int64]) -> NDArray[np.int32]:
        distinct, inverse = np.unique(strings, return_inverse=True)
        found = [self.paths.index(identity) if identity else -1 for identity in distinct.tolist()]
        return np.array(found, np.int32)[inverse]

    def _told_apart(
        self, slots: HeapSlots, inode: NDArray[np.int64], descs: NDArray[np.int64], rows: NDArray[np.void],
        path: NDArray[np.int32], named: Named,
    ) -> NDArray[np.int64]:  # fmt: skip
        """The numbers of inodes, those of files that followed one another under one inode made different."""

        def index(strings: NDArray[np.int64]) -> NDArray[np.int64]:
            return self.path[slots.of(np.maximum(strings, 0).astype(np.uint32))].astype(np.int64)

        changed = np.stack([index(named.changed[:, 0]), named.changed[:, 1], index(named.changed[:, 2])], axis=1)
        known = np.flatnonzero(inode)
        ticks = opened_at(named, descs, rows["root"].astype(np.int64))[known]
        generation = generations(
            inode[known], path[known].astype(np.int64), ticks, changed[changed[:, 0] >= 0], index(named.linked)
        )
        if not generation.any():
            return inode
        several = inode[known] * (int(generation.max()) + 1) + generation
        inode[known] = np.unique(several, return_inverse=True)[1] + 1
        return inode

    def _roots(
        self, slots: HeapSlots, descs: NDArray[np.int64], rows: NDArray[np.void], desc_file: NDArray[np.int64]
    ) -> None:
        own = rows["root"].astype(np.int64)
        known = descs[np.minimum(np.searchsorted(descs, own), len(descs) - 1)] == own
        own = np.where((own > 0) & known, own, descs)
        roots, number = np.unique(own, return_inverse=True)
        first = np.searchsorted(descs, roots)
        self.root[slots.of(descs.astype(np.uint32))] = number.astype(np.int32)
        start = rows["position"][first]
        self.root_start = np.where(start < 0, UNKNOWN, start)
        self.root_flags = rows["open_flags"][first].astype(np.uint32)
        self.root_file = desc_file[first]
        # A note of where a position was is of one descriptor only.
        gap, descriptors = rows["gap"][first], np.bincount(number, minlength=len(roots))
        self.root_lost = (gap >= layout.GAP_LOST) | ((gap == layout.GAP_RESUMED) & (descriptors > 1))


def _inodes(rows: NDArray[np.void]) -> NDArray[np.int64]:
    """A number from 1 for each device and inode among these descriptors; 0 for those that were not looked at."""
    looked_at = (rows["ino"] != 0) | (rows["dev"] != 0)
    _, device = np.unique(rows["dev"][looked_at], return_inverse=True)
    inodes, inode = np.unique(rows["ino"][looked_at], return_inverse=True)
    _, number = np.unique(device * len(inodes) + inode, return_inverse=True)
    result = np.zeros(len(rows), np.int64)
    result[looked_at] = number + 1
    return result


def _identities(
    rows: NDArray[np.void], inode: NDArray[np.int64], path: NDArray[np.int32], paths: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """(identity of each descriptor's file, identity of each path); 0: neither path nor inode is known."""
    by_path = -1 - np.arange(paths, dtype=np.int64)
    result, looked_at = _shared(rows["root"], inode, inode != 0)
    both = looked_at & (path >= 0)
    by_path[path[both]] = result[both]  # of several files that had this name, the latest
    rest = ~looked_at & (path >= 0)
    result[rest] = by_path[path[rest]]
    return result, by_path


def _shared(
    root: NDArray[np.uint32], file: NDArray[np.int64], looked_at: NDArray[np.bool_]
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """The identities with those of copies: what was looked at through one descriptor of a description goes for all."""
    if looked_at.all():
        return file, looked_at
    roots, at = np.unique(root, return_inverse=True)
    of_root = np.zeros(len(roots), np.int64)
    of_root[at[looked_at]] = file[looked_at]
    of_root[roots == 0] = 0
    file = np.where(looked_at, file, of_root[at])
    return file, file != 0
