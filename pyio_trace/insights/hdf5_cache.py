"""Datasets whose chunks are fetched more than once, for the two rules on HDF5's chunk cache."""

from __future__ import annotations

import math
from collections.abc import Iterator

from pyio_trace.insights import library_use
from pyio_trace.insights.finding import Confidence, Evidence, Finding, Remedy
from pyio_trace.insights.hdf5_use import DEFAULT_CACHE, LARGEST_CACHE, OFTEN, DatasetUse, pattern_of, uses
from pyio_trace.insights.observed import Observed
from pyio_trace.light_dataclass import dataclass
from pyio_trace.units import seconds, size

_MIB = 1 << 20
#: HDF5's default number of slots in the hash table of a chunk cache.
_SLOTS = 521


@dataclass(frozen=True)
class Reuse:
    """fetched: chunks that HDF5 read from the file; different: how many different ones."""

    dataset: DatasetUse
    fetched: int
    different: int


def reused(observed: Observed, times: float) -> Iterator[Reuse]:
    """The datasets whose chunks were fetched so often on average, or more."""
    for dataset in uses(observed, writing=False):
        if dataset.chunks is None or math.prod(dataset.typical) >= math.prod(dataset.shape):
            continue  # what is read whole is read again, whatever its chunks
        needed, different = dataset.touched
        fetched = min(needed, dataset.group.total("reads"))  # HDF5 reads each chunk by a call of its own
        if different and fetched >= times * different and fetched > different:
            yield Reuse(dataset, fetched, different)


def finding(observed: Observed, use: Reuse, verb: str) -> Finding:
    """verb: what is done to chunks, "unpacked" or "read"."""
    dataset, group = use.dataset, use.dataset.group
    share = (use.fetched - use.different) / use.fetched
    times = use.fetched / use.different
    again = int(group.total("duration") * share)
    how = f"{use.fetched - use.different:,} of {use.fetched:,} chunks were {verb} before: that share of the reads' time"
    gain = observed.gain(group.scaled(again), how, "estimate")
    reopened = _reopened(observed, dataset)
    read = group.total("read")
    texts = [
        Evidence(
            f"{len(group):,} reads needed {use.different:,} different chunks of {_shape(dataset.chunks)} and {verb} "
            f"{use.fetched:,}.",
            {"reads": len(group), "chunks": use.different, "fetched": use.fetched},
        ),
        Evidence(
            f"{size(read)} were read for {size(group.total('asked'))} asked for; HDF5 itself took "
            f"{seconds(group.library_ns)}, reading {seconds(group.leaf_ns)}.",
            {"read": read, "asked": group.total("asked"), "library_ns": group.library_ns, "io_ns": group.leaf_ns},
        ),
    ]
    title = f"Each chunk of {dataset.name} is {verb} {times:.0f} times: it does not stay in HDF5's cache"
    confidence = Confidence(0.9, "selections, chunk shape, filters and the reads beneath are in the log")
    return library_use.finding(observed, group, title, gain, texts, _remedy(use, reopened), confidence)


def _reopened(observed: Observed, dataset: DatasetUse) -> bool:
    """Whether the dataset is opened for nearly every read: each opening begins with an empty cache."""
    opens = library_use.calls_of(observed, "Group.__getitem__")
    wanted = set(dataset.group.column("path").tolist())
    opens = opens.where(path in wanted for path in opens.column("path").tolist())
    names = [f"{str(one.get('object')).rstrip('/')}/{one.get('name')}" for one in opens.details]
    return sum(pattern_of(name) == dataset.name for name in names) >= OFTEN * len(dataset.group)


def _remedy(use: Reuse, reopened: bool) -> Remedy:
    dataset = use.dataset
    if reopened:
        return _kept_open(dataset)
    chunks, what = dataset.per_call, "a read needs"
    if chunks * dataset.chunk_bytes <= DEFAULT_CACHE:  # one read fits: what later ones need again does not
        chunks, what = -(-use.different // dataset.caches), "the reads need"
    cache = -(-chunks * dataset.chunk_bytes // _MIB) * _MIB
    if not 0 < cache <= LARGEST_CACHE:
        text = "Read along the chunks, so that each is needed once; or store the dataset in chunks of what is read."
        after = f"f.create_dataset(name, data=array, chunks={_shape(dataset.advised_chunks())})"
        return Remedy(text, f"chunks={_shape(dataset.chunks)}", after, "h5py")
    text = (
        f"Give the cache room for the {chunks:,} chunks that {what}, {size(cache)}; "
        "or read a block that covers whole chunks, and take the parts from it."
    )
    return Remedy(text, "h5py.File(path)", _opened(chunks, cache), "h5py")


def _kept_open(dataset: DatasetUse) -> Remedy:
    """The dataset stays open, and its cache has room for the chunks of a read."""
    text = "Keep the dataset open: file[name] opens it each time, and its cache begins empty"
    before, after = "for n in items:\n    use(file[name][n])", "d = file[name]\nfor n in items:\n    use(d[n])"
    cache = -(-dataset.per_call * dataset.chunk_bytes // _MIB) * _MIB
    if DEFAULT_CACHE < cache <= LARGEST_CACHE:
        text += f"; and give it room for the {dataset.per_call:,} chunks that a read needs, {size(cache)}"
        after = f"file = {_opened(dataset.per_call, cache)}\n{after}"
    return Remedy(text + ".", before, after, "h5py")


def _opened(chunks: int, cache: int) -> str:
    """The code that opens a file with a cache of so many chunks, or bytes."""
    slots = f", rdcc_nslots={_prime_above(100 * chunks)}" if chunks * 100 > _SLOTS else ""
    return f"h5py.File(path, rdcc_nbytes={cache // _MIB} << 20{slots})"


def _prime_above(number: int) -> int:
    candidate = number | 1
    while any(candidate % divisor == 0 for divisor in range(3, int(candidate**0.5) + 1, 2)):
        candidate += 2
    return candidate


def _shape(extents: tuple[int, ...] | None) -> str:
    return "(" + ", ".join(map(str, extents or ())) + ("," if extents and len(extents) == 1 else "") + ")"
