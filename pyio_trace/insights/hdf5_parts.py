"""Datasets that are read without h5py, of which HDF5 reads far more than it is asked for.

Of netCDF4, PyTables and other bindings the log has the calls of the HDF5 library:
elements asked for, the shape of the dataset's chunks, and the bytes that were read
from the file, but not which elements.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping

from pyio_trace.insights import library_use
from pyio_trace.insights.finding import Confidence, Evidence, Finding, Remedy
from pyio_trace.insights.hdf5_use import extents_of, pattern_of
from pyio_trace.insights.libraries import is_netcdf
from pyio_trace.insights.library_use import Group, calls_of, number
from pyio_trace.insights.observed import Observed
from pyio_trace.units import seconds, size

_TEXT = (
    "Store the {} in chunks of the shape that is read; or read a block that covers whole chunks, and take the parts "
    "from it."
)
_REMEDIES = {
    True: ("variable", "f.createVariable(name, 'f4', dims, chunksizes={})", "netCDF4"),
    False: ("array", "f.create_carray('/', name, obj=array, chunkshape={})", "tables"),
}


def of_other_bindings(observed: Observed, limits: Mapping[str, float]) -> Iterator[Finding]:
    """Datasets in chunks, of which little is used of what HDF5 reads.  limits: those of hdf5-chunk-shape."""
    calls = calls_of(observed, "H5Dread")
    alike: dict[tuple[str, str], list[int]] = defaultdict(list)
    for at, detail in enumerate(calls.details):
        alike[pattern_of(str(detail.get("dataset"))), str(detail.get("chunks"))].append(at)
    for numbers in alike.values():
        group = Group(calls.calls, calls.at[numbers])
        chunks = extents_of(group.details[0].get("chunks"))
        asked, read = group.total("asked"), group.total("read")
        if chunks and asked and read >= limits["amplification"] * asked and group.total("reads") >= limits["chunks"]:
            yield _finding(observed, group, chunks)


def _finding(observed: Observed, group: Group, chunks: tuple[int, ...]) -> Finding:
    names = {str(detail.get("dataset")) for detail in group.details}
    name = names.pop() if len(names) == 1 else pattern_of(names.pop())
    asked, read, count = group.total("asked"), group.total("read"), len(group)
    elements = sum(number(detail, "elements") for detail in group.details)
    whole = math.prod(chunks) * asked // max(elements, 1)
    how = "the share of the reads' time that the bytes not asked for have among those read from the file"
    gain = observed.gain(group.scaled(int(group.total("duration") * (1 - asked / read))), how)
    evidence = Evidence(
        f"{count:,} reads of {size(asked // count)}, {size(asked)} in all, read {size(read)} from the file, which has "
        f"chunks of {chunks}, {size(whole)} unpacked. They took {seconds(group.total('duration'))}, HDF5 itself "
        f"{seconds(group.library_ns)}.",
        {"reads": count, "asked": asked, "read": read, "chunk_bytes": whole},
    )
    what, made, library = _REMEDIES[any(map(is_netcdf, group.paths()))]
    remedy = Remedy(_TEXT.format(what), made.format(chunks), made.format("shape_of_a_read"), library)
    confidence = Confidence(0.6, "bytes and the shape of chunks are in the log; which elements are read is not")
    title = f"Reads of {name} take {size(asked // count)} out of chunks of {size(whole)}"
    return library_use.finding(observed, group, title, gain, [evidence], remedy, confidence)
