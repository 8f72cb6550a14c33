"""HDF5 files with thousands of small datasets or groups: each has a header, and a place to be looked up.

Creating or opening an object costs more in Python and HDF5 than a small one's
data.  One dataset for all items, with a second one that says where each
begins, is read in one call.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from pyio_trace.insights import library_use
from pyio_trace.insights.finding import Confidence, Evidence, Finding, Remedy
from pyio_trace.insights.library_use import NEEDS, Group, calls_of
from pyio_trace.insights.observed import Observed
from pyio_trace.insights.rule import Limit, Rule
from pyio_trace.units import seconds, size

_MAKING = ("Group.create_dataset", "Group.__setitem__", "H5Dcreate", "H5Gcreate")
_OPENING = ("Group.__getitem__",)
_ATTRIBUTES = (
    "AttributeManager.create", "AttributeManager.__getitem__", "AttributeManager.modify", "H5Acreate", "H5Awrite",
)  # fmt: skip


def find(observed: Observed, limits: Mapping[str, float]) -> Iterator[Finding]:
    """Files in which many objects are created or opened."""
    calls = calls_of(observed, *_MAKING, *_OPENING, *_ATTRIBUTES)
    moved = calls_of(observed, "Dataset.__getitem__", "Dataset.__setitem__", "H5Dread", "H5Dwrite", *_MAKING)
    for (path,), group in calls.by("path"):
        if path < 0 or len(group) < limits["objects"]:
            continue
        objects = _objects(group)
        asked = moved.where(moved.column("path") == path).total("asked")
        if not objects or objects < limits["objects"] or asked > limits["bytes"] * objects:
            continue
        if group.total("duration") >= limits["share"] * observed.wall_ns:
            yield _finding(observed, group, objects, asked)


def _objects(group: Group) -> int:
    """How many different objects were created, or opened, whichever is more."""
    opened = {(str(one.get("object")), str(one.get("name"))) for one in group.of(*_OPENING).details}
    return max(len(group.of(*_MAKING)), len(opened))


def _finding(observed: Observed, group: Group, objects: int, asked: int) -> Finding:
    time = group.total("duration")
    gain = observed.gain(
        group.scaled(time - time // objects), "creating and opening all objects but one; finding items takes some of it"
    )
    evidence = Evidence(
        f"Creating and opening {objects:,} objects, with their attributes, took {seconds(time)} in {len(group):,} "
        f"calls; they hold {size(asked // objects)} each.",
        {"objects": objects, "calls": len(group), "asked": asked, "duration_ns": time},
    )
    remedy = Remedy(
        "Keep all items in one dataset, and where each begins in another.",
        "for name, item in items.items():\n    f.create_dataset(name, data=item)",
        "f['values'] = numpy.concatenate(list(items.values()))\n"
        "f['starts'] = numpy.cumsum([0, *map(len, items.values())])\nf['names'] = list(items)",
        "h5py",
    )
    confidence = Confidence(0.7, "objects and bytes are in the log; whether one dataset suits all readers is not")
    name = group.paths()[0].rpartition("/")[2]
    title = f"{name} has {objects:,} objects of {size(asked // objects)}"
    return library_use.finding(observed, group, title, gain, [evidence], remedy, confidence)


RULE = Rule(
    "HDF5",
    find,
    {
        "objects": Limit(1000, "created or opened in a file, at least"),
        "bytes": Limit(16384, "read or written of each on average, at most"),
        "share": Limit(0.05, "of the wall time that creating and opening them takes, at least"),
    },
    NEEDS,
    topic="metadata",
)
