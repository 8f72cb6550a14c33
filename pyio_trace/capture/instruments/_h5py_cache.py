"""A cache of facts about HDF5's open files, datasets and other objects.

HDF5 takes microseconds to tell a dataset's name, file, layout and type, so each
dataset is asked once after it is opened.  The answers are stored by the address
of h5py's DatasetID, with a weak reference that tells whether the address still
belongs to that object.  So nothing is kept open, no attribute is set on the
program's objects, and none of our code runs when one dies.  A DatasetID always
refers to the same dataset, whose type and layout cannot change.  Its shape may
change, and then is asked again.
"""

from __future__ import annotations

import os
from _weakref import ref

from pyio_trace import native
from pyio_trace.capture.instrumentation.exception_origin import is_the_programs
from pyio_trace.capture.instrumentation.weak_id_map import address

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import ModuleType
    from typing import Any

    _Layout = tuple[dict[str, object], tuple[int, ...], int | None, int]  # the last four of Info

_FILTERS = {1: "gzip", 2: "shuffle", 3: "fletcher32", 4: "szip", 5: "nbit", 6: "scaleoffset", 32000: "lzf"}
_CHUNKED = 2  # H5D_layout_t
_LAYOUTS_OF_ONE_PIECE = {0: "compact", 1: "contiguous", 3: "virtual"}
#: Filters whose values are not worth showing: h5py and HDF5 derive them from the type.
_WITHOUT_OPTIONS = frozenset((2, 3, 5, 32000))
_IN_MEMORY = b"h5py_in_memory_nonfile_"
_MOST_FILES, _MOST_LAYOUTS, _MOST_TYPES = 256, 1024, 256
CONSTANT = -1  # the age of a shape that cannot change

h5: Any = None  # the module h5py, once it is imported


class Info:
    """What is known about an open object.

    itemsize: None if its elements have no fixed size.  details: for its rows.
    age: _age when its shape was asked, or CONSTANT.
    """

    __slots__ = ("age", "alive", "details", "itemsize", "name", "path", "shape")

    def __init__(self, alive: Any, path: str | None, name: str | None, layout: _Layout) -> None:
        self.alive = alive
        self.path = path
        self.name = name
        self.details, self.shape, self.itemsize, self.age = layout


datasets: dict[int, Info] = {}  # by the address of a DatasetID
_objects: dict[int, Info] = {}  # likewise, for any object: its name and its file
_unnamed: dict[int, Any] = {}  # likewise, objects whose name HDF5 would have to search for
_files: dict[bytes, tuple[str | None, str | None, bool]] = {}  # by the name that HDF5 returns: path, driver, SWMR
_layouts: dict[bytes, dict[str | None, _Layout]] = {}  # by a file's name as HDF5 returns it, while it is open
_type_names: dict[Any, str] = {}  # by dtype: numpy takes microseconds to make one
_age = 0  # increases when the shape of any dataset changes
_room = {"datasets": 1024, "objects": 1024, "unnamed": 1024}  # their sizes at which dead entries are removed


def arm(module: ModuleType) -> None:
    """h5py has been imported."""
    global h5
    h5 = module


def disarm() -> None:
    """Tracing has stopped."""
    global h5
    h5 = None
    forget_names()
    _unnamed.clear()
    _files.clear()
    _layouts.clear()
    _type_names.clear()


def forget_names() -> None:
    """An object was moved or deleted: the names of all objects below it have changed."""
    datasets.clear()
    _objects.clear()
    for layouts in list(_layouts.values()):
        layouts.clear()


def forget_shapes() -> None:
    """A dataset's shape has changed, for every object that has it open."""
    global _age
    _age += 1


def _add(where: str, entries: dict[int, Info], identity: Any, known: Info) -> None:
    """Add an entry.  Dead ones are removed whenever the cache has doubled since the last time."""
    if len(entries) >= _room[where]:
        for key, old in list(entries.items()):
            if old.alive() is None:
                entries.pop(key, None)
        _room[where] = max(1024, 2 * len(entries))
    entries[address(identity)] = known


# ---- files -----------------------------------------------------------------------------


def file_opened(file: Any, path: str | None, driver: str, swmr: bool) -> None:
    """Store what path a file's name means: HDF5 returns the name as given, and the current folder may change.

    path: None if the given object must not be asked for it.
    """
    if len(_files) >= _MOST_FILES:
        oldest = next(iter(_files))
        _files.pop(oldest, None)
        _layouts.pop(oldest, None)
    opened = h5.h5f.get_name(file._id)
    if path is None and driver != "fileobj":
        path = os.fsdecode(opened)
    if path is not None and "://" not in path:
        path = os.path.abspath(path)
    _files[opened] = path, driver, swmr
    _layouts[opened] = {}  # it may be another file than the last one of this name


def file_closing(file: Any) -> None:
    """Drop the layouts of its datasets, in case it is opened again."""
    if file._id.valid:  # it may be closed already
        _layouts.pop(h5.h5f.get_name(file._id), None)


def _file_of(name: bytes) -> tuple[str | None, str | None, bool]:
    """(path, driver, SWMR) of a file, by the name that HDF5 returns.  If its opening was not seen, only the path."""
    found = _files.get(name)
    if found is not None:
        return found
    return (None if name.startswith((b"<", _IN_MEMORY)) else os.path.abspath(os.fsdecode(name))), None, True


# ---- objects ---------------------------------------------------------------------------


def note_without_name(thing: Any) -> None:
    """Note an object made without a name or opened by a reference: to find its name, HDF5 would search the file."""
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


def object_info(thing: Any) -> Info | None:
    """The entry of a group, a file or an attribute manager; None if it is closed."""
    identity = getattr(thing, "_id", None)
    known = _objects.get(address(identity))
    if known is not None and known.alive() is identity:
        return known
    try:
        name = _name_of(identity)
        known = Info(
            ref(identity), _file_of(h5.h5f.get_name(identity))[0], name, ({"object": name}, (), None, CONSTANT)
        )
    except Exception as problem:  # it is closed, or not such an object: the call itself will fail
        if is_the_programs(problem):
            raise
        return None
    if name is not None:  # not if it has none: it may still get one
        _add("objects", _objects, identity, known)
    return known


def dataset_info(dataset: Any) -> Info | None:
    """The entry of a dataset; None if it is closed, or not a dataset."""
    return identity_info(getattr(dataset, "_id", None), dataset)


def identity_info(identity: Any, dataset: Any = None) -> Info | None:
    """Likewise, by its DatasetID.  dataset: the object with that id; without it, the shape counts as changeable."""
    known = datasets.get(address(identity))
    if known is None or known.alive() is not identity:
        return _query(identity, bool(getattr(dataset, "_readonly", False)))
    if known.age not in (CONSTANT, _age):
        return _reshaped(identity, known)  # h5py asks HDF5 again, too
    return known


def _reshaped(identity: Any, known: Info) -> Info | None:
    """Ask HDF5 for the shape alone, which takes a sixth of asking for everything.  None if it is closed."""
    age = _age
    try:
        shape = identity.get_space().get_simple_extent_dims()
    except Exception as problem:  # it is closed: the call itself will fail
        if is_the_programs(problem):
            raise
        return None
    known.details = {**known.details, "shape": shape}
    known.shape, known.age = shape, age
    return known


def _query(identity: Any, readonly: bool) -> Info | None:
    """Ask HDF5 about a dataset for the first time since it was opened.

    While the file is open, a name means the same dataset, unless h5py is seen to
    change that.  So a program that opens a dataset for each read pays for two
    questions only.
    """
    try:
        name, file = _name_of(identity), h5.h5f.get_name(identity)
        path, driver, swmr = _file_of(file)
        layouts = _layouts.get(file, {}) if name is not None else {}
        layout = layouts.get(name)
        if layout is None or layout[-1] not in (CONSTANT, _age):
            if len(layouts) >= _MOST_LAYOUTS:
                layouts.clear()
            layout = layouts[name] = _layout(identity, readonly and not swmr, {"dataset": name}, driver)
        known = Info(ref(identity), path, name, layout)
    except Exception as problem:  # it is closed, or not such an object: the call itself will fail
        if is_the_programs(problem):
            raise
        return None
    if name is not None:  # not if it has none: it may still get one
        _add("datasets", datasets, identity, known)
    return known


def _layout(identity: Any, fixed: bool, details: dict[str, object], driver: str | None) -> _Layout:
    """Ask HDF5 for everything about a dataset.  Two of the answers take as long as a small read."""
    age = _age
    space, dtype, made = identity.get_space(), _dtype_of(identity), identity.get_create_plist()
    simple = space.get_simple_extent_type() == h5.h5s.SIMPLE
    shape: tuple[int, ...] = space.get_simple_extent_dims() if simple else ()
    if fixed or not simple or space.get_simple_extent_dims(True) == shape:
        age = CONSTANT
        details["shape"] = shape
    layout = made.get_layout()
    details["dtype"] = None if dtype is None else _type_name(dtype)
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
    found: dict[str, object] = details if members is None else {"": members}
    if age != CONSTANT:
        found["shape"] = shape  # not in what is made into JSON once, because it changes
    itemsize = None if dtype is None or dtype.hasobject else dtype.itemsize
    return found, shape, itemsize, age


def _dtype_of(identity: Any) -> Any:
    """The dtype; None for types of HDF5 that numpy does not have."""
    try:
        return identity.dtype
    except TypeError as problem:
        if is_the_programs(problem):
            raise
        return None


def _type_name(dtype: Any) -> str:
    if dtype.names is not None:  # equal ones may have different names
        return str(dtype)[:200]
    name = _type_names.get(dtype)
    if name is None:
        if len(_type_names) >= _MOST_TYPES:
            _type_names.clear()
        name = _type_names[dtype] = str(dtype)[:200]
    return name


def _filter(code: int, flags: int, values: tuple[int, ...], name: bytes) -> str:
    known = _FILTERS.get(code) or f"{code} {name.decode('utf-8', 'replace')}".rstrip()
    options = () if code in _WITHOUT_OPTIONS else values[:8]
    return f"{known}({','.join(map(str, options))})" if options else known
