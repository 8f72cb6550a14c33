"""h5py: what a program asks of the datasets and attributes of HDF5 files.

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
from pyio_trace.capture.instrument import Instrument, Target

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import ModuleType
    from typing import Any

    _Layout = tuple[dict[str, object], tuple[int, ...], int | None, int]  # the last four of _Known

_FILTERS = {1: "gzip", 2: "shuffle", 3: "fletcher32", 4: "szip", 5: "nbit", 6: "scaleoffset", 32000: "lzf"}
_CHUNKED = 2  # H5D_layout_t
_LAYOUTS_OF_ONE_PIECE = {0: "compact", 1: "contiguous", 3: "virtual"}
#: Filters whose values say nothing: h5py and HDF5 make them of the type.
_WITHOUT_OPTIONS = frozenset((2, 3, 5, 32000))
#: Of a selection, what the log can write down itself.
_PLAIN = frozenset((slice, int, str, type(...), bool))
_IN_MEMORY = b"h5py_in_memory_nonfile_"
_FILES_MOST, _LAYOUTS_MOST = 256, 1024

_h5: Any = None  # h5py itself, once it is there


class _Known:
    """What is known of an open object.  itemsize: None where its elements have no size.

    told: the details as they go into a row; age: of the shape in them, CONSTANT if that cannot change.
    """

    __slots__ = ("age", "alive", "itemsize", "name", "path", "shape", "told")

    def __init__(self, alive: Any, path: str | None, name: str | None, layout: _Layout) -> None:
        self.alive = alive
        self.path = path
        self.name = name
        self.told, self.shape, self.itemsize, self.age = layout


_datasets: dict[int, _Known] = {}  # by the address of a DatasetID
_objects: dict[int, _Known] = {}  # likewise, of any object: its name and its file
_files: dict[bytes, tuple[str | None, str | None, bool]] = {}  # name as HDF5 has it: path, driver, SWMR
_layouts: dict[bytes, dict[str | None, _Layout]] = {}  # by a file's name as HDF5 has it, while they are open
CONSTANT = -1
_age = 0  # goes up when a dataset's shape changes
_room = {"datasets": 1024, "objects": 1024}


def _arm(module: ModuleType) -> None:
    global _h5
    _h5 = module


def _disarm() -> None:
    global _h5
    _h5 = None
    _forget()
    _files.clear()
    _layouts.clear()


def _forget() -> None:
    _datasets.clear()
    _objects.clear()
    for layouts in list(_layouts.values()):
        layouts.clear()


def _keep(where: str, kept: dict[int, _Known], identity: Any, known: _Known) -> None:
    """Add one; what is dead goes whenever there are twice as many as there were alive."""
    if len(kept) >= _room[where]:
        for key, old in list(kept.items()):
            if old.alive() is None:
                kept.pop(key, None)
        _room[where] = max(1024, 2 * len(kept))
    kept[id(identity)] = known


# ---- files -----------------------------------------------------------------------------


def _file_to_open(
    file: Any, /, name: Any = None, mode: str = "r", driver: str | None = None, *args: Any, **kwargs: Any
) -> Any:
    """Its path.  An object in the place of the name: another handle of an open file, which is no opening."""
    return NotImplemented if isinstance(name, _h5._objects.ObjectID) else name


def _opening(
    file: Any, /, name: Any = None, mode: str = "r", driver: str | None = None, *args: Any, **kwargs: Any
) -> dict[str, object]:
    details: dict[str, object] = {"mode": mode, "driver": _driver(name, driver)}
    details.update((key, kwargs[key]) for key in ("libver", "swmr", "rdcc_nbytes", "page_buf_size") if key in kwargs)
    return details


def _driver(name: Any, driver: str | None) -> str:
    if driver is None:
        return "fileobj" if hasattr(name, "read") and hasattr(name, "seek") else "sec2"
    return driver


def _opened(
    result: None, file: Any, /, name: Any, mode: str = "r", driver: str | None = None, libver: Any = None,
    userblock_size: Any = None, swmr: bool = False, *args: Any, **kwargs: Any,
) -> None:  # fmt: skip
    """Notes where a name led to: HDF5 keeps it as it was given, and the program may go to another folder."""
    driver = _driver(name, driver)
    path = _path_of_file_object(name) if driver == "fileobj" else os.fsdecode(name)
    if path is not None and "://" not in path:
        path = os.path.abspath(path)
    if len(_files) >= _FILES_MOST:
        oldest = next(iter(_files))
        _files.pop(oldest, None)
        _layouts.pop(oldest, None)
    opened = _h5.h5f.get_name(file._id)
    _files[opened] = path, driver, bool(swmr)
    _layouts[opened] = {}  # it may be another file by now


def _path_of_file_object(file: Any) -> str | None:
    """Only Python's own are asked: the name of others may be code of the program's."""
    name = file.name if type(file).__module__ == "_io" and hasattr(file, "name") else None
    return os.fsdecode(name) if isinstance(name, (str, bytes)) else None


def _file_of(name: bytes) -> tuple[str | None, str | None, bool]:
    """(path, driver, SWMR) of a file by its name as HDF5 has it; of one that was opened unseen, only the path."""
    found = _files.get(name)
    if found is not None:
        return found
    return (None if name.startswith((b"<", _IN_MEMORY)) else os.path.abspath(os.fsdecode(name))), None, True


def _closing(file: Any, *args: Any, **kwargs: Any) -> str | None:
    known = _object(file)
    if known is None:
        return None
    if file._id.valid:  # it may be closed already
        _layouts.pop(_h5.h5f.get_name(file._id), None)
    return known.path


# ---- objects ---------------------------------------------------------------------------


def _name_of(identity: Any) -> str | None:
    name: bytes | None = _h5.h5i.get_name(identity)
    return None if name is None else name.decode("utf-8", "replace")


def _object(thing: Any) -> _Known | None:
    """Of a group, a file, or whatever has attributes."""
    identity = getattr(thing, "_id", None)
    known = _objects.get(id(identity))
    if known is not None and known.alive() is identity:
        return known
    try:
        name = _name_of(identity)
        known = _Known(
            ref(identity), _file_of(_h5.h5f.get_name(identity))[0], name, ({"object": name}, (), None, CONSTANT)
        )
    except Exception:  # closed, or none at all: the call itself will say so
        return None
    if name is not None:  # it may still be given one
        _keep("objects", _objects, identity, known)
    return known


def _object_path(thing: Any, *args: Any, **kwargs: Any) -> str | None:
    known = _object(thing)
    return None if known is None else known.path


def _dataset(dataset: Any) -> _Known | None:
    identity = getattr(dataset, "_id", None)
    known = _datasets.get(id(identity))
    if known is None or known.alive() is not identity:
        return _met(identity, bool(getattr(dataset, "_readonly", False)))
    if known.age not in (CONSTANT, _age):
        return _met(identity, False)  # h5py asks again as well
    return known


def _met(identity: Any, readonly: bool) -> _Known | None:
    """A dataset that is asked for the first time since it was opened.

    A name keeps its meaning while the file is open, or h5py is seen to change
    that: who opens a dataset again for each read pays for two questions.
    """
    try:
        name, file = _name_of(identity), _h5.h5f.get_name(identity)
        path, driver, swmr = _file_of(file)
        layouts = _layouts.get(file, {}) if name is not None else {}
        layout = layouts.get(name)
        if layout is None or layout[-1] not in (CONSTANT, _age):
            if len(layouts) >= _LAYOUTS_MOST:
                layouts.clear()
            layout = layouts[name] = _layout(identity, readonly and not swmr, {"dataset": name}, driver)
        known = _Known(ref(identity), path, name, layout)
    except Exception:  # closed, or none at all: the call itself will say so
        return None
    if name is not None:  # it may still be given one
        _keep("datasets", _datasets, identity, known)
    return known


def _layout(identity: Any, fixed: bool, details: dict[str, object], driver: str | None) -> _Layout:
    """Ask HDF5 all about a dataset.  Two of its answers take as long as a small read."""
    age = _age
    space, dtype, made = identity.get_space(), _dtype_of(identity), identity.get_create_plist()
    simple = space.get_simple_extent_type() == _h5.h5s.SIMPLE
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
    except TypeError:
        return None


def _filter(code: int, flags: int, values: tuple[int, ...], name: bytes) -> str:
    known = _FILTERS.get(code) or f"{code} {name.decode('utf-8', 'replace')}".rstrip()
    options = () if code in _WITHOUT_OPTIONS else values[:8]
    return f"{known}({','.join(map(str, options))})" if options else known


def _about(dataset: Any, selection: Any, **more: object) -> tuple[str | None, dict[str, object]]:
    """Path and details of a call on a dataset."""
    known = _dataset(dataset)
    if known is None:
        return None, {"selection": _selection(selection), **more}
    return known.path, {**known.told, "selection": _selection(selection), **more}


# ---- selections ------------------------------------------------------------------------


def _selection(args: Any) -> object:
    """As given; arrays, long lists and objects of h5py's by what they are."""
    if type(args) is not tuple:
        return args if type(args) in _PLAIN else _part(args)
    for part in args:
        if type(part) not in _PLAIN:
            return tuple(_part(each) for each in args[:32])
    return args


def _part(part: Any) -> object:
    kind = type(part)
    if kind in _PLAIN:
        return part
    if kind.__module__ == "numpy":
        if kind.__name__ == "ndarray":
            return f"<ndarray {part.dtype} {part.shape}>"
        return int(part) if hasattr(part, "__index__") else f"<{kind.__name__}>"
    if kind is list:
        return part if len(part) <= 8 else f"<list ({len(part)},)>"
    if kind.__name__ == "MultiBlockSlice":
        return repr(part)
    return f"<{kind.__name__}>"


def _count(args: Any, shape: tuple[int, ...]) -> int | None:
    """How many elements are selected; None: that would take work."""
    count, axis = 1, 0
    parts = args if type(args) is tuple else (args,)
    for part in parts:
        kind = type(part)
        if kind is slice:
            count *= len(range(*part.indices(shape[axis])))
        elif part is ...:
            skipped = len(shape) - len(parts) + 1
            for size in shape[axis : axis + skipped]:
                count *= size
            axis += skipped - 1
        elif kind is list:
            count *= sum(part) if part and type(part[0]) is bool else len(part)
        elif not (kind is int or (kind.__module__ == "numpy" and hasattr(part, "__index__") and part.ndim == 0)):
            return None
        axis += 1
    for size in shape[axis:]:
        count *= size
    return count


def _bytes_selected(dataset: Any, args: Any) -> int | None:
    known = _dataset(dataset)
    if known is None or known.itemsize is None:
        return None
    count = _count(args, known.shape)
    return None if count is None else count * known.itemsize


# ---- reading and writing ---------------------------------------------------------------


def _reading(dataset: Any, args: Any = (), new_dtype: Any = None) -> tuple[str | None, dict[str, object]]:
    """What programs call most: _about, in few words."""
    identity = getattr(dataset, "_id", None)
    known = _datasets.get(id(identity))
    if new_dtype is None and known is not None and known.age == CONSTANT and known.alive() is identity:
        told = known.told.copy()
        told["selection"] = args if type(args) in _PLAIN else _selection(args)
        return known.path, told
    if new_dtype is None:
        return _about(dataset, args)
    names = getattr(new_dtype, "names", None)
    return _about(dataset, args, fields=list(names)) if names else _about(dataset, args, read_as=str(new_dtype))


def _bytes_read(result: Any, *args: Any, **kwargs: Any) -> int | None:
    """Of strings and the like an array has only pointers."""
    dtype = getattr(result, "dtype", None)
    return None if dtype is None or dtype.hasobject else getattr(result, "nbytes", None)


def _writing(dataset: Any, args: Any, val: Any) -> tuple[str | None, dict[str, object]]:
    return _about(dataset, args)


def _bytes_written(result: None, dataset: Any, args: Any, val: Any) -> int | None:
    moved = _bytes_selected(dataset, args)
    if moved is None and getattr(getattr(val, "dtype", None), "hasobject", True) is False:
        return int(val.nbytes)
    return moved


def _reading_into(
    dataset: Any, dest: Any, source_sel: Any = None, dest_sel: Any = None
) -> tuple[str | None, dict[str, object]]:
    return _about(dataset, () if source_sel is None else source_sel)


def _bytes_read_into(result: None, dataset: Any, dest: Any, source_sel: Any = None, dest_sel: Any = None) -> int | None:
    return _bytes_selected(dataset, () if source_sel is None else source_sel)


def _writing_from(
    dataset: Any, source: Any, source_sel: Any = None, dest_sel: Any = None
) -> tuple[str | None, dict[str, object]]:
    return _about(dataset, () if dest_sel is None else dest_sel)


def _bytes_written_from(
    result: None, dataset: Any, source: Any, source_sel: Any = None, dest_sel: Any = None
) -> int | None:
    return _bytes_selected(dataset, () if dest_sel is None else dest_sel)


def _whole(dataset: Any, *args: Any, **kwargs: Any) -> tuple[str | None, dict[str, object]]:
    return _about(dataset, ())


def _resizing(dataset: Any, size: Any, axis: int | None = None) -> tuple[str | None, dict[str, object]]:
    known = _dataset(dataset)
    details = {"size": size} if axis is None else {"size": size, "axis": axis}
    return (None, details) if known is None else (known.path, {**known.told, **details})


def _extended(identity: Any, *args: Any, **kwargs: Any) -> tuple[str | None, dict[str, object]]:
    """Beneath resize, and in its place: its shape is another now, and so is that of others who have it open."""
    known = _dataset(_Bare(identity))
    return (None, {}) if known is None else (known.path, known.told)


def _changed(result: None, *args: Any, **kwargs: Any) -> None:
    global _age
    _age += 1


class _Bare:
    """A DatasetID in the place of a dataset."""

    __slots__ = ("_id",)

    def __init__(self, identity: Any) -> None:
        self._id = identity


def _chunk(identity: Any, offsets: Any, *args: Any, **kwargs: Any) -> tuple[str | None, dict[str, object]]:
    known = _dataset(_Bare(identity))
    return (None, {"offset": offsets}) if known is None else (known.path, {**known.told, "offset": offsets})


def _bytes_of_chunk(result: Any, *args: Any, **kwargs: Any) -> int:
    return len(result[1])


def _bytes_of_chunk_written(result: None, identity: Any, offsets: Any, data: Any, *args: Any, **kwargs: Any) -> int:
    return memoryview(data).nbytes


# ---- groups ----------------------------------------------------------------------------


def _creating(group: Any, name: Any, *args: Any, **kwargs: Any) -> tuple[str | None, dict[str, object]]:
    known = _object(group)
    if isinstance(name, bytes):
        name = name.decode("utf-8", "replace")
    if known is None or not isinstance(name, str) or name.startswith("/"):
        return None if known is None else known.path, {"name": name}
    return known.path, {"name": f"{str(known.name).rstrip('/')}/{name}"}


def _created(result: Any, *args: Any, **kwargs: Any) -> dict[str, object] | None:
    known = _dataset(result)
    return None if known is None else known.told


def _bytes_created(
    result: Any, group: Any, name: Any, shape: Any = None, dtype: Any = None, data: Any = None, **kwargs: Any
) -> int | None:
    """What is in it from the start."""
    return None if data is None or type(data).__name__ == "Empty" else _bytes_selected(result, ())


def _getting(group: Any, name: Any) -> tuple[str | None, dict[str, object]]:
    known = _object(group)
    name = name.decode("utf-8", "replace") if isinstance(name, bytes) else _selection(name)
    return (None, {"name": name}) if known is None else (known.path, {"object": known.name, "name": name})


def _setting(group: Any, name: Any, obj: Any) -> tuple[str | None, dict[str, object]]:
    path, details = _getting(group, name)
    return path, {**details, "type": type(obj).__name__}


def _moved(result: None, *args: Any, **kwargs: Any) -> None:
    """Whatever was beneath it has another name now."""
    _forget()


# ---- attributes ------------------------------------------------------------------------


def _attribute(manager: Any, name: Any, *args: Any, **kwargs: Any) -> tuple[str | None, dict[str, object]]:
    known = _object(manager)
    name = name.decode("utf-8", "replace") if isinstance(name, bytes) else name
    return (None, {"attribute": name}) if known is None else (known.path, {"object": known.name, "attribute": name})


def _bytes_of_attribute(
    result: None, manager: Any, name: Any, value: Any = None, *args: Any, **kwargs: Any
) -> int | None:
    return _bytes_read(kwargs.get("data", value))


_DATASET, _FILE, _GROUP, _ATTRS = "h5py._hl.dataset", "h5py._hl.files", "h5py._hl.group", "h5py._hl.attrs"

instrument = Instrument(
    "h5py",
    minimum="3.11",
    below="4",
    arm=_arm,
    disarm=_disarm,
    targets=(
        Target("File.__init__", module=_FILE, path=_file_to_open, details=_opening, after=_opened),
        Target("File.close", module=_FILE, path=_closing),
        Target("File.flush", module=_FILE, path=_object_path),
        Target("Dataset.__getitem__", module=_DATASET, kind="read", path=_reading, moved="nbytes"),
        Target(
            "Dataset.__setitem__",
            module=_DATASET,
            kind="write",
            path=_writing,
            moved=_bytes_written,
        ),
        Target(
            "Dataset.read_direct",
            module=_DATASET,
            kind="read",
            path=_reading_into,
            moved=_bytes_read_into,
        ),
        Target(
            "Dataset.write_direct",
            module=_DATASET,
            kind="write",
            path=_writing_from,
            moved=_bytes_written_from,
        ),
        Target("Dataset.__array__", module=_DATASET, kind="read", path=_whole, moved="nbytes"),
        Target("Dataset.resize", module=_DATASET, path=_resizing),
        Target("DatasetID.set_extent", module="h5py.h5d", path=_extended, after=_changed),
        Target("DatasetID.refresh", module="h5py.h5d", path=_extended, after=_changed, optional=True),
        Target("Dataset.flush", module=_DATASET, path=_whole, optional=True),
        Target(
            "DatasetID.read_direct_chunk",
            module="h5py.h5d",
            kind="read",
            path=_chunk,
            moved=_bytes_of_chunk,
        ),
        Target(
            "DatasetID.write_direct_chunk",
            module="h5py.h5d",
            kind="write",
            path=_chunk,
            moved=_bytes_of_chunk_written,
        ),
        Target(
            "Group.create_dataset",
            module=_GROUP,
            kind="write",
            path=_creating,
            after=_created,
            moved=_bytes_created,
        ),
        Target("Group.__getitem__", module=_GROUP, path=_getting),
        Target("Group.__setitem__", module=_GROUP, path=_setting),
        Target("Group.__delitem__", module=_GROUP, path=_getting, after=_moved),
        Target("Group.move", module=_GROUP, path=_object_path, after=_moved),
        Target(
            "AttributeManager.__getitem__",
            module=_ATTRS,
            kind="read",
            path=_attribute,
            moved="nbytes",
        ),
        Target(
            "AttributeManager.create",
            module=_ATTRS,
            kind="write",
            path=_attribute,
            moved=_bytes_of_attribute,
        ),
        Target(
            "AttributeManager.modify",
            module=_ATTRS,
            kind="write",
            path=_attribute,
            moved=_bytes_of_attribute,
        ),
    ),
)
