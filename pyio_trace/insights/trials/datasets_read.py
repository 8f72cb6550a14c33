"""Reads of HDF5 datasets by h5py: with a larger chunk cache, from other chunks, or from a file that stays open.

A damaged or forged file can make HDF5 read others: external links, external
storage and virtual datasets are not followed.
"""

from __future__ import annotations

import importlib
import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from time import perf_counter_ns
from typing import Any

import numpy as np

from pyio_trace.insights.hdf5_use import (
    DEFAULT_CACHE,
    LARGEST_CACHE,
    MOST_CHUNKS,
    OFTEN,
    READS,
    Box,
    box_of,
    chunks_for,
    chunks_of,
    grid_of,
    union,
    volume,
)
from pyio_trace.insights.trials.attempt import LARGEST, Attempt
from pyio_trace.insights.trials.recorded import Rows
from pyio_trace.insights.trials.replay import NotTried, Replay

_MIB = 1 << 20
_OPENS = ("File.__init__",)
_DRIVERS = ("sec2", "stdio", "core")
#: Slots of the hash table of a chunk cache, for each chunk: a prime times this many.
_SLOTS = 10_007

#: (path, dataset) of a read.
Name = tuple[str, str]
#: A dataset, and the part of it that is read.
Selection = tuple[Name, tuple[slice, ...]]


def h5py_module() -> Any:
    """h5py.  Raises NotTried without it."""
    try:
        return importlib.import_module("h5py")
    except ImportError:
        raise NotTried("needs h5py") from None


class _Reads:
    """The selections that the thread with the most of them read."""

    def __init__(self, attempt: Attempt) -> None:
        self.h5py = h5py_module()
        rows = attempt.rows.where(layer="app", op=READS).heaviest()
        self.attempt = attempt
        self.boxes: list[Selection] = []
        self.extents: dict[Name, list[Box]] = {}
        for path, detail in zip(rows.texts("path"), rows.details, strict=True):
            self._add((path, str(detail.get("dataset"))), detail)
        self.recorded = max(rows.recorded(attempt.rows), len(self.boxes))
        if not self.boxes:
            raise NotTried("the log has no selections of it that could be read again")
        self.files = {path: attempt.originals.open(path) for path, _ in self.extents}
        self.shapes: dict[Name, Any] = {}
        with ExitStack() as opened:
            for name, dataset in self.open(opened).items():
                self.shapes[name] = (dataset.shape, dataset.chunks, dataset.dtype)

    def _add(self, name: Name, detail: Mapping[str, Any]) -> None:
        shape = detail.get("shape")
        if not isinstance(shape, list) or not all(isinstance(one, int) for one in shape):
            return
        box = box_of(detail.get("selection"), shape)
        if box is not None:
            self.boxes.append((name, tuple(slice(start, stop) for start, stop in box)))
            self.extents.setdefault(name, []).append(box)

    def open(self, opened: ExitStack, **options: Any) -> dict[Name, Any]:
        """All datasets, from newly opened files."""
        files = {path: opened.enter_context(self.file(path, **options)) for path in self.files}
        return {(path, name): checked(files[path], name, self.h5py) for path, name in self.extents}

    def file(self, path: str, **options: Any) -> Any:
        """An original, open for reading, through the descriptor that was checked."""
        return self.h5py.File(f"/proc/self/fd/{self.files[path]}", "r", locking=False, **options)

    def timed(self, before: Sequence[Selection] = (), **options: Any) -> Callable[[int], int]:
        """Opens the files with these options, and reads the first n selections.

        before: selections that are read first, untimed, to fill the chunk cache.
        """

        def run(count: int) -> int:
            with ExitStack() as opened:
                datasets = self.open(opened, **options)
                read(datasets, before)
                return read(datasets, self.boxes[:count])

        return run

    def first_uses(self) -> tuple[list[Selection], float]:
        """The selections that read some chunk for the first time; and of all reads of chunks, the share that read one
        again.  Raises NotTried for too many chunks."""
        grids = [grid_of(shape, chunks) for shape, chunks, _ in self.shapes.values() if chunks is not None]
        if sum(map(math.prod, grids)) > MOST_CHUNKS:
            raise NotTried(f"the datasets have more than {MOST_CHUNKS:,} chunks")
        seen = {
            name: np.zeros(grid_of(shape, chunks), np.bool_)
            for name, (shape, chunks, _) in self.shapes.items()
            if chunks is not None
        }
        found, uses = [], 0
        for name, box in self.boxes:
            if name not in seen:
                continue
            chunks = chunks_of(tuple((part.start, part.stop) for part in box), self.shapes[name][1])
            touched = seen[name][tuple(slice(*part) for part in chunks)]
            uses += touched.size
            if not touched.all():
                touched[...] = True
                found.append((name, box))
        return found, 1 - sum(int(one.sum()) for one in seen.values()) / max(uses, 1)

    def replay(self, plain: Callable[[int], int], remedy: Callable[[int], int]) -> Replay:
        return Replay(plain, remedy, len(self.boxes), self.recorded, originals=self.attempt.originals.ends())


def read(datasets: Mapping[Name, Any], boxes: Iterable[Selection]) -> int:
    """ns that reading these selections takes."""
    begin = perf_counter_ns()
    for name, box in boxes:
        datasets[name][box]
    return perf_counter_ns() - begin


def checked(file: Any, name: str, h5py: Any) -> Any:
    """A dataset that has all its data in this file.  Raises NotTried for any other object."""
    found = file
    for part in name.strip("/").split("/"):
        if not isinstance(found, h5py.Group) or not isinstance(found.get(part, getlink=True), h5py.HardLink):
            raise NotTried("a dataset is not where the log says")
        found = found[part]
    if not isinstance(found, h5py.Dataset) or found.is_virtual or found.external or found.dtype.hasobject:
        raise NotTried("it is not about numbers in datasets of the file itself")
    return found


def cached(attempt: Attempt) -> Replay:
    """The recorded selections with h5py's own chunk cache, and with one that has room for what a read needs."""
    reads = _Reads(attempt)
    opens = len(attempt.rows.where(layer="app", op="Group.__getitem__"))
    reopened = opens >= OFTEN * len(reads.boxes)
    room = _room(reads, reopened)
    if not room and not reopened:
        return other_chunks(attempt)
    # The first read of a chunk takes as long with any cache, so each run begins with the cache full.  Then one read
    # shows what the cache saves.
    before, share = reads.first_uses()
    if not share:
        raise NotTried("the thread with the most reads needs no chunk twice")
    plain = _reopened(reads) if reopened else reads.timed(before)
    larger = {"rdcc_nbytes": room, "rdcc_nslots": _SLOTS} if room else {}
    return replace(reads.replay(plain, reads.timed(before, **larger)), together=1, share=share)


def _room(reads: _Reads, reopened: bool) -> int:
    """Bytes for a chunk cache that has room for what a read needs, or for all that is read; 0: that is too much.

    reopened: the dataset is opened for each read, so its cache is always empty.
    """
    room = whole = 0
    for name, boxes in reads.extents.items():
        shape, chunks, dtype = reads.shapes[name]
        if chunks is not None:
            each = int(np.prod(chunks, dtype=np.float64)) * dtype.itemsize
            needed = {chunks_of(box, chunks) for box in boxes}
            room = max(room, max(map(volume, needed)) * each)
            whole = max(whole, union(needed, grid_of(shape, chunks)) * each)
    if reopened or room <= DEFAULT_CACHE:  # one read fits: what later ones need again does not
        room = whole
    room = -(-room // _MIB) * _MIB
    return room if room <= LARGEST_CACHE else 0


def _reopened(reads: _Reads) -> Callable[[int], int]:
    """Opens the dataset for each read, as `file[name][...]` does."""

    def run(count: int) -> int:
        with ExitStack() as opened:
            files = {path: opened.enter_context(reads.file(path)) for path in reads.files}
            begin = perf_counter_ns()
            for (path, name), box in reads.boxes[:count]:
                files[path][name][box]
            return perf_counter_ns() - begin

    return run


def other_chunks(attempt: Attempt) -> Replay:
    """The recorded selections from the datasets as they are, and from copies in chunks of what is read at a time."""
    reads = _Reads(attempt)
    near = next(iter(reads.files))
    scratch = attempt.scratch(near)
    scratch.check_room(
        sum(int(np.prod(shape, dtype=np.float64)) * dtype.itemsize for shape, _, dtype in reads.shapes.values())
    )
    copy = scratch.path(scratch.name())
    names = {name: f"d{number}" for number, name in enumerate(reads.extents)}
    with ExitStack() as opened:
        target = opened.enter_context(reads.h5py.File(copy, "w", locking=False))
        for name, dataset in reads.open(opened).items():
            extents = Counter(tuple(stop - start for start, stop in box) for box in reads.extents[name])
            typical = extents.most_common(1)[0][0]
            chunks = chunks_for(typical, dataset.shape, dataset.dtype.itemsize)
            _copy(dataset, target, names[name], chunks)

    def remedy(count: int) -> int:
        with reads.h5py.File(copy, "r", locking=False) as file:
            return read({name: file[own] for name, own in names.items()}, reads.boxes[:count])

    return reads.replay(reads.timed(), remedy)


def _copy(dataset: Any, target: Any, name: str, chunks: tuple[int, ...]) -> None:
    """A copy in other chunks, with the same filters."""
    filters = {
        key: getattr(dataset, key) for key in ("compression", "compression_opts", "shuffle", "fletcher32")
    }  # fmt: skip
    new = target.create_dataset(name, dataset.shape, dataset.dtype, chunks=chunks, **filters)
    row = max(int(np.prod(dataset.shape[1:], dtype=np.float64)) * dataset.dtype.itemsize, 1)
    rows = max(LARGEST // row // chunks[0] * chunks[0], 1)
    for start in range(0, dataset.shape[0], rows):
        new[start : start + rows] = dataset[start : start + rows]


def opened_once(attempt: Attempt) -> Replay:
    """A file that is opened for each use, with what is read of it, and one that stays open."""
    reads = _Reads(attempt)
    uses = _uses(attempt.rows.where(layer="app", op=(*_OPENS, *READS)).heaviest(), set(reads.extents))
    if not uses:
        raise NotTried("the log has no openings of it that could be done again")
    options = {driver: {"driver": driver} for driver in _DRIVERS} | {"core": {"driver": "core", "backing_store": False}}

    def plain(count: int) -> int:
        begin = perf_counter_ns()
        for path, driver, parts in uses[:count]:
            with reads.file(path, **options[driver]) as file:
                for name, box in parts:
                    file[name][box]
        return perf_counter_ns() - begin

    def remedy(count: int) -> int:
        with ExitStack() as opened:
            begin = perf_counter_ns()
            files: dict[str, Any] = {}
            for path, driver, parts in uses[:count]:
                if path not in files:
                    files[path] = opened.enter_context(reads.file(path, **options[driver]))
                for name, box in parts:
                    files[path][name][box]
            return perf_counter_ns() - begin

    opens = attempt.rows.where(layer="app", op=_OPENS).heaviest()
    recorded = max(opens.recorded(attempt.rows), len(uses))
    return Replay(plain, remedy, len(uses), recorded, originals=attempt.originals.ends())


def _uses(rows: Rows, known: set[Name]) -> list[tuple[str, str, list[tuple[str, tuple[slice, ...]]]]]:
    """(path, driver, what was read) of each opening."""
    uses: list[tuple[str, str, list[tuple[str, tuple[slice, ...]]]]] = []
    last: dict[str, list[tuple[str, tuple[slice, ...]]]] = {}
    for path, op, detail in zip(rows.texts("path"), rows.texts("op"), rows.details, strict=True):
        name = str(detail.get("dataset"))
        if op in _OPENS:
            driver = str(detail.get("driver"))
            last[path] = []
            if any(path == one for one, _ in known):
                uses.append((path, driver if driver in _DRIVERS else "sec2", last[path]))
        elif path in last and (path, name) in known:
            box = box_of(detail.get("selection"), detail["shape"]) if isinstance(detail.get("shape"), list) else None
            if box is not None:
                last[path].append((name, tuple(slice(start, stop) for start, stop in box)))
    return uses
