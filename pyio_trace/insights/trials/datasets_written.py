"""Writes of HDF5 datasets by h5py, to files in scratch: in chunks of the size that is written, or flushed rarely."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from time import perf_counter_ns
from typing import Any

import numpy as np

from pyio_trace.insights.hdf5_use import WRITES, Box, box_of, chunks_for, extents_of
from pyio_trace.insights.trials import datasets_read
from pyio_trace.insights.trials.attempt import LARGEST, Attempt
from pyio_trace.insights.trials.replay import NotTried, Replay

_FLUSH, _RESIZE = "File.flush", "Dataset.resize"
#: Items between two flushes, with the remedy.
_RARELY = 100
_RARE_OPTIONS = {
    "libver": "latest", "meta_block_size": 1 << 20, "alignment_threshold": 4096, "alignment_interval": 4096,
}  # fmt: skip
#: Types of numbers, as the log names them.
_KINDS = ("float16", "float32", "float64", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")


@dataclass(frozen=True)
class _Twin:
    """A dataset like one of the log.  highest: one past the last that is written, of each axis."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    chunks: tuple[int, ...] | None
    highest: tuple[int, ...]


Detail = dict[str, Any]


def in_chunks(attempt: Attempt) -> Replay:
    """Reads, or writes, of parts of a contiguous dataset, and of one in chunks of such parts."""
    if not len(attempt.rows.where(layer="app", op=WRITES)):
        return datasets_read.other_chunks(attempt)
    h5py = datasets_read.h5py_module()
    rows = attempt.rows.where(layer="app", op=WRITES).heaviest()
    names: dict[tuple[str, str], _Twin] = {}
    steps: list[tuple[tuple[str, str], Box]] = []
    for path, detail in zip(rows.texts("path"), rows.details, strict=True):
        twin = _twin(detail)
        box = None if twin is None else box_of(detail.get("selection"), twin.shape)
        if twin is not None and box is not None and _bytes(box, twin.dtype) <= LARGEST:
            names.setdefault((path, str(detail.get("dataset"))), twin)
            steps.append(((path, str(detail.get("dataset"))), box))
    if not steps:
        raise NotTried("the log has no selections of it that could be written again")
    scratch = attempt.scratch(steps[0][0][0])
    scratch.check_room(sum(math.prod(twin.shape) * twin.dtype.itemsize for twin in names.values()))
    typical = Counter(tuple(stop - start for start, stop in box) for _, box in steps).most_common(1)[0][0]
    data = {name: np.zeros(_largest(steps, name), twin.dtype) for name, twin in names.items()}

    def run(count: int, chunked: bool) -> int:
        begin = perf_counter_ns()
        with h5py.File(scratch.path("trial.h5"), "w", locking=False) as file:
            made = {
                name: file.create_dataset(
                    f"d{number}",
                    twin.shape,
                    twin.dtype,
                    chunks=chunks_for(typical, twin.shape, twin.dtype.itemsize) if chunked else None,
                )
                for number, (name, twin) in enumerate(names.items())
            }
            for name, box in steps[:count]:
                _write(made[name], box, data[name])
        return perf_counter_ns() - begin

    recorded = max(rows.recorded(attempt.rows), len(steps))
    return Replay(
        lambda count: run(count, False), lambda count: run(count, True), len(steps), recorded, before=scratch.clear
    )


def flushed_rarely(attempt: Attempt) -> Replay:
    """The recorded writes with their flushes, and with one flush for a hundred and metadata in blocks of its own."""
    h5py = datasets_read.h5py_module()
    rows = attempt.rows.where(layer="app", op=(_FLUSH, _RESIZE, *WRITES)).heaviest()
    if not len(rows.where(op=_FLUSH)) or not len(rows.where(op=WRITES)):
        raise NotTried("the log has no writes of it that could be flushed again")
    twins, steps = _steps(rows.texts("path"), rows.texts("op"), rows.details)
    scratch = attempt.scratch(rows.texts("path")[0])
    scratch.check_room(sum(_in_chunks(twin) for twin in twins.values()))
    boxes = [(name, box) for _, name, box in steps if box is not None]
    data = {name: np.zeros(_largest(boxes, name), twin.dtype) for name, twin in twins.items()}

    def run(count: int, rarely: bool) -> int:
        flushes = 0
        begin = perf_counter_ns()
        options = _RARE_OPTIONS if rarely else {}
        with h5py.File(scratch.path("trial.h5"), "w", locking=False, **options) as file:
            made = {name: _made(file, f"d{number}", twin) for number, (name, twin) in enumerate(twins.items())}
            for resized, name, box in steps[:count]:
                if resized is not None:
                    made[name].resize(resized)
                elif box is not None:
                    _write(made[name], box, data[name])
                else:
                    flushes += 1
                    if not rarely or flushes % _RARELY == 0:
                        file.flush()
        return perf_counter_ns() - begin

    recorded = max(rows.recorded(attempt.rows), len(steps))
    return Replay(
        lambda count: run(count, False), lambda count: run(count, True), len(steps), recorded, before=scratch.clear
    )


#: The new shape, the dataset, what is written; neither shape nor box: a flush.
_Step = tuple[tuple[int, ...] | None, tuple[str, str], Box | None]


def _steps(paths: list[str], ops: list[str], details: list[Detail]) -> tuple[dict[tuple[str, str], _Twin], list[_Step]]:
    """The datasets, and what is done to them in order."""
    first: dict[tuple[str, str], _Twin] = {}
    shapes: dict[tuple[str, str], tuple[int, ...]] = {}
    highest: dict[tuple[str, str], tuple[int, ...]] = {}
    steps: list[_Step] = []
    for path, op, detail in zip(paths, ops, details, strict=True):
        name = (path, str(detail.get("dataset")))
        if op == _FLUSH:
            steps.append((None, ("", ""), None))
            continue
        if name not in first:
            twin = _twin(detail, empty=True)
            if twin is None:
                continue
            first[name], shapes[name], highest[name] = twin, twin.shape, (0,) * len(twin.shape)
        if op == _RESIZE:
            new = _resized(shapes[name], detail)
            if new is not None:
                shapes[name] = new
                steps.append((new, name, None))
            continue
        box = box_of(detail.get("selection"), shapes[name])
        if box is not None and _bytes(box, first[name].dtype) <= LARGEST:
            highest[name] = tuple(max(most, stop) for most, (_, stop) in zip(highest[name], box, strict=True))
            steps.append((None, name, box))
    twins = {name: _Twin(twin.shape, twin.dtype, twin.chunks, highest[name]) for name, twin in first.items()}
    return twins, steps


def _twin(detail: Detail, empty: bool = False) -> _Twin | None:
    """empty: a shape may have axes of length 0."""
    given = detail.get("shape")
    lengths = [max(one, 1) if isinstance(one, int) else one for one in given] if isinstance(given, list) else given
    shape, chunks = extents_of(lengths), extents_of(detail.get("chunks"))
    if shape is None or str(detail.get("dtype")) not in _KINDS or (chunks and len(chunks) != len(shape)):
        return None
    if not empty and shape != tuple(given or ()):
        return None
    return _Twin(shape, np.dtype(str(detail["dtype"])), chunks, shape)


def _resized(shape: tuple[int, ...], detail: Detail) -> tuple[int, ...] | None:
    size, axis = detail.get("size"), detail.get("axis")
    if isinstance(size, int) and isinstance(axis, int) and 0 <= axis < len(shape):
        size = [*shape[:axis], size, *shape[axis + 1 :]]
    new = extents_of(size)
    return new if new is not None and len(new) == len(shape) else None


def _in_chunks(twin: _Twin) -> int:
    """Bytes of the chunks that are written, at most."""
    if twin.chunks is None:
        return math.prod(twin.shape) * twin.dtype.itemsize
    lengths = (-(-most // chunk) * chunk for most, chunk in zip(twin.highest, twin.chunks, strict=True))
    return math.prod(lengths) * twin.dtype.itemsize


def _made(file: Any, name: str, twin: _Twin) -> Any:
    most = (None,) * len(twin.shape) if twin.chunks is not None else None
    return file.create_dataset(name, twin.shape, twin.dtype, chunks=twin.chunks, maxshape=most)


def _bytes(box: Box, dtype: np.dtype[Any]) -> int:
    return math.prod(stop - start for start, stop in box) * dtype.itemsize


def _largest(steps: list[tuple[tuple[str, str], Box]], name: tuple[str, str]) -> tuple[int, ...]:
    """The extent that holds every part that is written to a dataset."""
    extents = [[stop - start for start, stop in box] for one, box in steps if one == name]
    return tuple(map(max, zip(*extents, strict=True))) if extents else ()


def _write(dataset: Any, box: Box, data: Any) -> None:
    dataset[tuple(slice(start, stop) for start, stop in box)] = data[tuple(slice(stop - start) for start, stop in box)]
