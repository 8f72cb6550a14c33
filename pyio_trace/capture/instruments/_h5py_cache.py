"""What is remembered of HDF5's open files, datasets and other objects.

A dataset's name, its file's, its layout and its type are asked of HDF5 once for
each dataset that is opened: each answer takes microseconds.  They are kept by
the address of h5py's DatasetID with a weak reference to it, which tells whether
that address is still the one's it was.  So nothing is kept open, nothing is set
on the program's objects, and no code of ours runs when one dies.  An id never
comes to stand for another dataset, and of one dataset neither type nor layout
can change; its shape can, and is kept only where it cannot.
"""

from __future__ import annotations

import os
from _weakref import ref

from pyio_trace import native
from pyio_trace.capture.faults import is_the_programs
from pyio_trace.capture.remembered import address

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import ModuleType
    from typing import Any

    _Layout = tuple[dict[str, object], tuple[int, ...], int | None, int]  # the last four of Known

_FILTERS = {1: "gzip", 2: "shuffle", 3: "fletcher32", 4: "szip", 5: "nbit", 6: "scaleoffset", 32000: "lzf"}
_CHUNKED = 2  # H5D_layout_t
_LAYOUTS_OF_ONE_PIECE = {0: "compact", 1: "contiguous", 3: "virtual"}
#: Filters whose values say nothing: h5py and HDF5 make them of the type.
_WITHOUT_OPTIONS = frozenset((2, 3, 5, 32000))
_IN_MEMORY = b"h5py_in_memory_nonfile_"
_FILES_MOST, _LAYOUTS_MOST = 256, 1024
CONSTANT = -1  # an age

h5: Any = None  # h5py itself, once it is there


class Known:
    """What is known of an open object.  itemsize: None where its elements have no size.

    told: the details as they go into a row; age: of the shape in them, CONSTANT if that cannot change.
    """

    __slots__ = ("age", "alive", "itemsize", "name", "path", "shape", "told")

    def __init__(self, alive: Any, path: str | None, name: str | None, layout: _Layout) -> None:
        self.alive = alive
        self.path = path
        self.name = name
        self.told, self.shape, self.itemsize, self.age = layout


datasets: dict[int, Known] = {}  # by the address of a DatasetID
_objects: dict[int, Known] = {}  # likewise, of any object: its name and its file
_unnamed: dict[int, Any] = {}  # likewise, of those whose name HDF5 would have to look for: weak references
_files: dict[bytes, tuple[str | None, str | None, bool]] = {}  # name as HDF5 has it: path, driver, SWMR
_layouts: dict[bytes, dict[str | None, _Layout]] = {}  # by a file's name as HDF5 has it, while they are open
_age = 0  # goes up when a dataset's shape changes
_room = {"datasets": 1024, "objects": 1024, "unnamed": 1024}  # what they may hold before the dead are cleared out


def arm(module: ModuleType) -> None:
    """h5py has been imported."""
    global h5
    h5 = module


def disarm() -> None:
    """Nothing is traced any more."""
    global h5
    h5 = None
    forget_names()
    _unnamed.clear()
    _files.clear()
    _layouts.clear()


def forget_names() -> None:
    """What was beneath a name has another one now."""
    datasets.clear()
    _objects.clear()
    for layouts in list(_layouts.values()):
        layouts.clear()


def forget_shapes() -> None:
    """A dataset's shape is another now, and so is that of others who have it open."""
    global _age
    _age += 1


def _keep(where: str, kept: dict[int, Known], identity: Any, known: Known) -> None:
    """Add one; what is dead goes whenever there are twice as many as there were alive."""
    if len(kept) >= _room[where]:
        for key, old in list(kept.items()):
            if old.alive() is None:
                kept.pop(key, None)
        _room[where] = max(1024, 2 * len(kept))
    kept[address(identity)] = known


# ---- files -----------------------------------------------------------------------------


def file_opened(file: Any, path: str | None, driver: str, swmr: bool) -> None:
    """Notes where a name led to: HDF5 keeps it as it was given, and the program may go to another folder.

    path: None, where what was given is not to be asked.
    """
    if len(_files) >= _FILES_MOST:
        oldest = next(iter(_files))
        _files.pop(oldest, None)
        _layouts.pop(oldest, None)
    opened = h5.h5f.get_name(file._id)
    if path is None and driver != "fileobj":
        path = os.fsdecode(opened)
    if path is not None and "://" not in path:
        path = os.path.abspath(path)
    _files[opened] = path, driver, swmr
    _layouts[opened] = {}  # it may be another file by now


def file_closing(file: Any) -> None:
    """The layouts of what is in it are asked again, should it be opened again."""
    if file._id.valid:  # it may be closed already
        _layouts.pop(h5.h5f.get_name(file._id), None)


def _file_of(name: bytes) -> tuple[str | None, str | None, bool]:
    """(path, driver, SWMR) of a file by its name as HDF5 has it; of one that was opened unseen, only the path."""
    found = _files.get(name)
    if found is not None:
        return found
    return (None if name.startswith((b"<", _IN_MEMORY)) else os.path.abspath(os.fsdecode(name))), None, True


# ---- objects ---------------------------------------------------------------------------


def has_no_name(thing: Any) -> None:
    """An object that was made without a name, or opened by a reference: asked for it, HDF5 reads through the file."""
    identity = getattr(thing, "_id", None)
    if identity is None:
        return
    if len(_unnamed) >= _room["unnamed"]:
        for key, alive in list(_unnamed.items()):
            if alive() is None:
                _unnamed.pop(key, None)
        _room["unnamed"] = max(1024, 2 * len(_unnamed))
    _unnamed[address(identity)] = ref(identity)


def _name_of(identity: Any) -> str | None:
    unnamed = _unnamed.get(address(identity))
    if unnamed is not None and unnamed() is identity:
        return None
    name: bytes | None = h5.h5i.get_name(identity)
    return None if name is None else name.decode("utf-8", "replace")


def of_object(thing: Any) -> Known | None:
    """Of a group, a file, or whatever has attributes."""
    identity = getattr(thing, "_id", None)
    known = _objects.get(address(identity))
    if known is not None and known.alive() is identity:
        return known
    try:
        name = _name_of(identity)
        known = Known(
            ref(identity), _file_of(h5.h5f.get_name(identity))[0], name, ({"object": name}, (), None, CONSTANT)
        )
    except Exception as problem:  # closed, or none at all: the call itself will say so
        if is_the_programs(problem):
            raise
        return None
    if name is not None:  # it may still be given one
        _keep("objects", _objects, identity, known)
    return known


def of_dataset(dataset: Any) -> Known | None:
    """None: it is closed, or no dataset at all."""
    return of_identity(getattr(dataset, "_id", None), dataset)


def of_identity(identity: Any, dataset: Any = None) -> Known | None:
    """Likewise, by its DatasetID.  dataset: whose id it is; without one its shape may change."""
    known = datasets.get(address(identity))
    if known is None or known.alive() is not identity:
        return _met(identity, bool(getattr(dataset, "_readonly", False)))
    if known.age not in (CONSTANT, _age):
        return _met(identity, False)  # h5py asks again as well
    return known


def _met(identity: Any, readonly: bool) -> Known | None:
    """A dataset that is asked for the first time since it was opened.

    A name keeps its meaning while the file is open, or h5py is seen to change
    that: who opens a dataset again for each read pays for two questions.
    """
    try:
        name, file = _name_of(identity), h5.h5f.get_name(identity)
        path, driver, swmr = _file_of(file)
        layouts = _layouts.get(file, {}) if name is not None else {}
        layout = layouts.get(name)
        if layout is None or layout[-1] not in (CONSTANT, _age):
            if len(layouts) >= _LAYOUTS_MOST:
                layouts.clear()
            layout = layouts[name] = _layout(identity, readonly and not swmr, {"dataset": name}, driver)
        known = Known(ref(identity), path, name, layout)
    except Exception as problem:  # closed, or none at all: the call itself will say so
        if is_the_programs(problem):
            raise
        return None
    if name is not None:  # it may still be given one
        _keep("datasets", datasets, identity, known)
    return known


def _layout(identity: Any, fixed: bool, details: dict[str, object], driver: str | None) -> _Layout:
    """Ask HDF5 all about a dataset.  Two of its answers take as long as a small read."""
    age = _age
    space, dtype, made = identity.get_space(), _dtype_of(identity), identity.get_create_plist()
    simple = space.get_simple_extent_type() == h5.h5s.SIMPLE
    shape: tuple[int, ...] = space.get_simple_extent_dims() if simple else ()
    layout = made.get_layout()
    details["shape"] = shape
    details["dtype"] = None if dtype is None else str(dtype)[:200]
    if layout == _CHUNKED:
        details["chunks"] = made.get_chunk()
    else:
        details["layout"] = _LAYOUTS_OF_ONE_PIECE.get(layout)
    filters = [_filter(*made.get_filter(i)) for i in range(made.get_nfilters())]
    if filters:
        details["filters"] = filters
    if driver is not None:
        details["driver"] = driver
    members = None if native.core is None else native.core.details_members(details)
    if fixed or not simple or space.get_simple_extent_dims(True) == shape:
        age = CONSTANT
    itemsize = None if dtype is None or dtype.hasobject else dtype.itemsize
    return details if members is None else {"": members}, shape, itemsize, age


def _dtype_of(identity: Any) -> Any:
    """None: HDF5 has types that numpy has not."""
    try:
        return identity.dtype
    except TypeError as problem:
        if is_the_programs(problem):
            raise
        return None


def _filter(code: int, flags: int, values: tuple[int, ...], name: bytes) -> str:
    known = _FILTERS.get(code) or f"{code} {name.decode('utf-8', 'replace')}".rstrip()
    options = () if code in _WITHOUT_OPTIONS else values[:8]
    return f"{known}({','.join(map(str, options))})" if options else known
