"""How a program uses the datasets of HDF5 files: what it selects, and which chunks that touches."""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from pyio_trace.insights.library_use import Group, calls_of
from pyio_trace.insights.observed import Observed
from pyio_trace.light_dataclass import dataclass

READS = ("Dataset.__getitem__", "Dataset.read_direct", "Dataset.__array__")
WRITES = ("Dataset.__setitem__", "Dataset.write_direct")
#: Chunks of a dataset that are marked one by one; more are counted by volume.
MOST_CHUNKS = 1 << 22
_MOST_BOXES = 100_000
_MOST_AXES = 32
_SLICE = re.compile(r"(-?\d{1,18})?:(-?\d{1,18})?(?::(-?\d{1,18})?)?")
_DIGITS = re.compile(r"\d+")
_BITS = re.compile(r"(?:u?int|float|complex)(\d{1,3})")
#: Bytes of chunks that HDF5 keeps of a dataset unless it is told otherwise (8 MiB from HDF5 2.0 on).
DEFAULT_CACHE = 1 << 20
#: A cache larger than this is not advised.
LARGEST_CACHE = 1 << 30
#: Openings of a dataset for each read, from which on it counts as opened for each.
OFTEN = 0.8
#: What chunks should have at least and at most, bytes.
_SMALL_CHUNK, _LARGE_CHUNK = 256 << 10, 4 << 20

#: (first, one past the last) of each axis.
Box = tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class DatasetUse:
    """What was read from, or written to, one dataset, or several that are alike.

    shape, chunks (None: it has none): elements of each axis; itemsize: bytes of
    an element; filters: as h5py names them; contiguous: stored in one piece.
    """

    group: Group
    name: str
    shape: tuple[int, ...]
    chunks: tuple[int, ...] | None
    itemsize: int
    filters: tuple[str, ...]
    contiguous: bool
    writing: bool

    @property
    def chunk_bytes(self) -> int:
        """Of one chunk, unpacked."""
        return math.prod(self.chunks or (0,)) * self.itemsize

    @property
    def compressed(self) -> bool:
        """Whether a filter has to unpack what is read."""
        return any(not one.startswith(("shuffle", "fletcher32")) for one in self.filters)

    @cached_property
    def boxes(self) -> list[Box | None]:
        """What each call selected; None: not known."""
        known: dict[str, Box | None] = {}
        by_code: dict[int, Box | None] = {}
        found = []
        for code, detail in zip(self.group.column("detail").tolist(), self.group.details, strict=True):
            if code not in by_code:
                text = str(detail.get("selection"))
                if text not in known:
                    known[text] = box_of(detail.get("selection"), self.shape) if len(known) < _MOST_BOXES else None
                by_code[code] = known[text]
            found.append(by_code[code])
        return found

    @cached_property
    def typical(self) -> tuple[int, ...]:
        """The extent that most calls selected, elements of each axis."""
        extents = Counter(tuple(stop - start for start, stop in box) for box in self.boxes if box is not None)
        return extents.most_common(1)[0][0] if extents else ()

    @cached_property
    def touched(self) -> tuple[int, int]:
        """(chunks that the calls needed, added up; how many different ones, in each process)."""
        if self.chunks is None:
            return 0, 0
        boxes: dict[tuple[int, int, str], Counter[Box]] = defaultdict(Counter)
        keys = zip(self.group.column("process").tolist(), self.group.column("path").tolist(), strict=True)
        for (process, path), detail, box in zip(keys, self.group.details, self.boxes, strict=True):
            if box is not None:
                boxes[process, path, str(detail.get("dataset"))][chunks_of(box, self.chunks)] += 1
        grid = tuple(-(-size // chunk) for size, chunk in zip(self.shape, self.chunks, strict=True))
        needed = different = 0
        for counts in boxes.values():
            needed += sum(count * volume(box) for box, count in counts.items())
            different += union(counts, grid)
        return needed, different

    @property
    def caches(self) -> int:
        """How many chunk caches HDF5 has for it: each process has one for each dataset of each file."""
        names = [str(detail.get("dataset")) for detail in self.group.details]
        columns = (self.group.column(name).tolist() for name in ("process", "path"))
        return len(set(zip(*columns, names, strict=True)))

    @property
    def per_call(self) -> int:
        """The most chunks that one call needed."""
        return max((volume(chunks_of(box, self.chunks or ())) for box in set(self.boxes) if box), default=0)

    def advised_chunks(self) -> tuple[int, ...]:
        """A shape of chunks that fits what most calls select, of a sensible size."""
        return chunks_for(self.typical, self.shape, self.itemsize)


def chunks_for(typical: Sequence[int], shape: Sequence[int], itemsize: int) -> tuple[int, ...]:
    """A shape of chunks of a sensible size for a dataset of which such an extent is read or written at a time."""
    found = list(typical) or list(shape)
    size = itemsize or 1
    while math.prod(found) * size > _LARGE_CHUNK and max(found) > 1:
        axis = found.index(max(found))
        found[axis] = -(-found[axis] // 2)
    while math.prod(found) * size < _SMALL_CHUNK:
        room = [axis for axis, extent in enumerate(found) if extent < shape[axis]]
        if not room:
            break
        axis = min(room, key=lambda one: found[one] / shape[one])
        found[axis] = min(found[axis] * 2, shape[axis])
    return tuple(found)


def uses(observed: Observed, writing: bool) -> Iterator[DatasetUse]:
    """The datasets that h5py read, or wrote.  Those stored alike, whose names differ only in digits, count as one in
    whatever file."""
    calls = calls_of(observed, *(WRITES if writing else READS))
    details = calls.details
    alike: dict[str, list[int]] = defaultdict(list)
    known: dict[int, str] = {}
    for number, (code, detail) in enumerate(zip(calls.column("detail").tolist(), details, strict=True)):
        if code not in known:
            stored = [detail.get(key) for key in ("shape", "chunks", "dtype", "filters", "layout")]
            known[code] = f"{pattern_of(str(detail.get('dataset')))} {stored}"
        alike[known[code]].append(number)
    for numbers in alike.values():
        group = Group(calls.calls, calls.at[numbers])
        detail = details[numbers[0]]
        shape, chunks = extents_of(detail.get("shape")), extents_of(detail.get("chunks"))
        if not group.paths() or shape is None or (chunks is not None and len(chunks) != len(shape)):
            continue
        filters = detail.get("filters")
        texts = tuple(map(str, filters)) if isinstance(filters, list) else ()
        contiguous, itemsize = detail.get("layout") == "contiguous", itemsize_of(str(detail.get("dtype")))
        yield DatasetUse(
            group, pattern_of(str(detail.get("dataset"))), shape, chunks, itemsize, texts, contiguous, writing
        )  # fmt: skip


def pattern_of(name: str) -> str:
    """A dataset's name, with * for digits."""
    return _DIGITS.sub("*", name)


def box_of(selection: Any, shape: Sequence[int]) -> Box | None:
    """The box around a selection, as _h5py_selection.py writes it; None: not known, or empty."""
    parts = selection if isinstance(selection, list) else [selection]
    if "..." in parts:
        at = parts.index("...")
        parts = [*parts[:at], *[":"] * (len(shape) - len(parts) + 1), *parts[at + 1 :]]
    if len(parts) > len(shape):
        return None
    box = []
    for part, size in zip([*parts, *[":"] * (len(shape) - len(parts))], shape, strict=True):
        found = _range_of(part, size)
        if found is None or found[0] >= found[1]:
            return None
        box.append(found)
    return tuple(box)


def _range_of(part: Any, size: int) -> tuple[int, int] | None:
    if isinstance(part, int) and not isinstance(part, bool):
        part += size if part < 0 else 0
        return (part, part + 1) if 0 <= part < size else None
    match = _SLICE.fullmatch(part) if isinstance(part, str) else None
    if match is None:
        return None
    ends = [int(text) if text else None for text in match.groups()]
    if ends[2] is not None and ends[2] < 1:
        return None
    start, stop, _ = slice(ends[0], ends[1]).indices(size)
    return start, stop


def chunks_of(box: Box, chunks: Sequence[int]) -> Box:
    """The chunks that a box touches, as a box of chunk numbers."""
    return tuple((start // size, -(-stop // size)) for (start, stop), size in zip(box, chunks, strict=False))


def grid_of(shape: Sequence[int], chunks: Sequence[int]) -> tuple[int, ...]:
    """How many chunks a dataset has along each axis."""
    return tuple(-(-size // chunk) for size, chunk in zip(shape, chunks, strict=True))


def union(boxes: Collection[Box], grid: Sequence[int]) -> int:
    """How many chunks lie in any of the boxes; at most, if there are very many."""
    volumes = sum(map(volume, boxes))
    if math.prod(grid) > MOST_CHUNKS or volumes > 1 << 26:
        return min(volumes, math.prod(grid))
    seen = np.zeros(grid, np.bool_)
    for box in boxes:
        seen[tuple(slice(start, stop) for start, stop in box)] = True
    return int(seen.sum())


def volume(box: Box) -> int:
    return math.prod(stop - start for start, stop in box)


def extents_of(value: Any) -> tuple[int, ...] | None:
    """A shape, with at least one axis and no empty one, of no more elements than a file can have."""
    if not isinstance(value, list) or not 0 < len(value) <= _MOST_AXES:
        return None
    whole = all(isinstance(one, int) and not isinstance(one, bool) and 0 < one < 1 << 48 for one in value)
    return tuple(value) if whole and math.prod(value) < 1 << 60 else None


def itemsize_of(dtype: str) -> int:
    """Bytes of an element; 1 for types that are not numbers."""
    match = _BITS.fullmatch(dtype)
    return max(int(match[1]) // 8, 1) if match else 1
