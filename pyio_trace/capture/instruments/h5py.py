"""h5py: calls on the files, datasets, groups and attributes of HDF5.

This file says which calls are watched and what each concerns.  HDF5 is asked
only through _h5py_cache.py, which keeps the answers; _h5py_selection.py
describes selections.  Bytes are those of the elements that a call concerns.
What HDF5 moves for them, in whole chunks and compressed, is in the layers below.
"""

from __future__ import annotations

import os

from pyio_trace.capture.instrumentation.instrument import Instrument, Target
from pyio_trace.capture.instrumentation.weak_id_map import address
from pyio_trace.capture.instruments import _h5py_cache as cache
from pyio_trace.capture.instruments._files import is_path, may_have, path_of
from pyio_trace.capture.instruments._h5py_selection import PLAIN, described, elements

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    PathAndDetails = tuple[str | None, dict[str, object]]

# ---- files -----------------------------------------------------------------------------


def _file_to_open(
    file: Any, /, name: Any = None, mode: str = "r", driver: str | None = None, *args: Any, **kwargs: Any
) -> Any:
    """The path.  With an ObjectID in place of a name, the call makes another handle of an open file: it opens none."""
    return NotImplemented if isinstance(name, cache.h5._objects.ObjectID) else name


def _opening(
    file: Any, /, name: Any = None, mode: str = "r", driver: str | None = None, *args: Any, **kwargs: Any
) -> dict[str, object]:
    details: dict[str, object] = {"mode": mode, "driver": _driver(name, driver)}
    details.update((key, kwargs[key]) for key in ("libver", "swmr", "rdcc_nbytes", "page_buf_size") if key in kwargs)
    return details


def _driver(name: Any, driver: str | None) -> str:
    if driver is None:
        return "fileobj" if not is_path(name) and may_have(name, "read") and may_have(name, "seek") else "sec2"
    return driver


def _opened(
    result: None, file: Any, /, name: Any, mode: str = "r", driver: str | None = None, libver: Any = None,
    userblock_size: Any = None, swmr: bool = False, *args: Any, **kwargs: Any,
) -> None:  # fmt: skip
    driver = _driver(name, driver)
    path = path_of(name)
    cache.file_opened(file, None if path is None else os.fsdecode(path), driver, bool(swmr))


def _closing(file: Any, *args: Any, **kwargs: Any) -> str | None:
    known = cache.object_info(file)
    if known is None:
        return None
    cache.file_closing(file)
    return known.path


def _object_path(thing: Any, *args: Any, **kwargs: Any) -> str | None:
    known = cache.object_info(thing)
    return None if known is None else known.path


# ---- reading and writing ---------------------------------------------------------------


def _about(dataset: Any, selection: Any, **more: object) -> PathAndDetails:
    """Path and details of a call on a dataset."""
    known = cache.dataset_info(dataset)
    if known is None:
        return None, {"selection": described(selection), **more}
    return known.path, {**known.details, "selection": described(selection), **more}


def _bytes_selected(dataset: Any, args: Any) -> int | None:
    known = cache.dataset_info(dataset)
    if known is None or known.itemsize is None:
        return None
    count = elements(args, known.shape)
    return None if count is None else count * known.itemsize


def _reading(dataset: Any, args: Any = (), new_dtype: Any = None) -> PathAndDetails:
    """The same as _about, but faster: this is the most frequent call."""
    identity = getattr(dataset, "_id", None)
    known = cache.datasets.get(address(identity))
    if new_dtype is None and known is not None and known.age == cache.CONSTANT and known.alive() is identity:
        details = known.details.copy()
        details["selection"] = args if type(args) in PLAIN else described(args)
        return known.path, details
    if new_dtype is None:
        return _about(dataset, args)
    names = getattr(new_dtype, "names", None)
    return _about(dataset, args, fields=list(names)) if names else _about(dataset, args, read_as=str(new_dtype))


def _writing(dataset: Any, args: Any, val: Any) -> PathAndDetails:
    return _about(dataset, args)


def _bytes_written(result: None, dataset: Any, args: Any, val: Any) -> int | None:
    moved = _bytes_selected(dataset, args)
    if moved is None and type(val).__module__ == "numpy" and not val.dtype.hasobject:
        return int(val.nbytes)
    return moved


def _reading_into(dataset: Any, dest: Any, source_sel: Any = None, dest_sel: Any = None) -> PathAndDetails:
    return _about(dataset, () if source_sel is None else source_sel)


def _bytes_read_into(result: None, dataset: Any, dest: Any, source_sel: Any = None, dest_sel: Any = None) -> int | None:
    return _bytes_selected(dataset, () if source_sel is None else source_sel)


def _writing_from(dataset: Any, source: Any, source_sel: Any = None, dest_sel: Any = None) -> PathAndDetails:
    return _about(dataset, () if dest_sel is None else dest_sel)


def _bytes_written_from(
    result: None, dataset: Any, source: Any, source_sel: Any = None, dest_sel: Any = None
) -> int | None:
    return _bytes_selected(dataset, () if dest_sel is None else dest_sel)


def _whole(dataset: Any, *args: Any, **kwargs: Any) -> PathAndDetails:
    return _about(dataset, ())


def _resizing(dataset: Any, size: Any, axis: int | None = None) -> PathAndDetails:
    known = cache.dataset_info(dataset)
    details = {"size": size} if axis is None else {"size": size, "axis": axis}
    return (None, details) if known is None else (known.path, {**known.details, **details})


def _extended(identity: Any, *args: Any, **kwargs: Any) -> PathAndDetails:
    """resize() calls it, and programs may call it directly."""
    known = cache.identity_info(identity)
    return (None, {}) if known is None else (known.path, known.details)


def _changed(result: None, *args: Any, **kwargs: Any) -> None:
    cache.forget_shapes()


def _chunk(identity: Any, offsets: Any, *args: Any, **kwargs: Any) -> PathAndDetails:
    known = cache.identity_info(identity)
    return (None, {"offset": offsets}) if known is None else (known.path, {**known.details, "offset": offsets})


def _bytes_of_chunk(result: Any, *args: Any, **kwargs: Any) -> int:
    return len(result[1])


def _bytes_of_chunk_written(result: None, identity: Any, offsets: Any, data: Any, *args: Any, **kwargs: Any) -> int:
    return memoryview(data).nbytes


# ---- groups ----------------------------------------------------------------------------


def _creating(group: Any, name: Any, *args: Any, **kwargs: Any) -> PathAndDetails:
    known = cache.object_info(group)
    if isinstance(name, bytes):
        name = name.decode("utf-8", "replace")
    if known is None or not isinstance(name, str) or name.startswith("/"):
        return None if known is None else known.path, {"name": name}
    return known.path, {"name": f"{str(known.name).rstrip('/')}/{name}"}


def _created(result: Any, *args: Any, **kwargs: Any) -> dict[str, object] | None:
    known = cache.dataset_info(result)
    return None if known is None else known.details


def _bytes_created(
    result: Any, group: Any, name: Any, shape: Any = None, dtype: Any = None, data: Any = None, **kwargs: Any
) -> int | None:
    """The bytes it is created with.  This is the first function called with the new dataset."""
    if name is None:
        cache.note_without_name(result)
    return None if data is None or type(data).__name__ == "Empty" else _bytes_selected(result, ())


def _getting(group: Any, name: Any) -> PathAndDetails:
    known = cache.object_info(group)
    name = name.decode("utf-8", "replace") if isinstance(name, bytes) else described(name)
    return (None, {"name": name}) if known is None else (known.path, {"object": known.name, "name": name})


def _got(result: Any, group: Any, name: Any) -> None:
    if not isinstance(name, (str, bytes)):
        cache.note_without_name(result)


def _setting(group: Any, name: Any, obj: Any) -> PathAndDetails:
    path, details = _getting(group, name)
    return path, {**details, "type": type(obj).__name__}


def _moved(result: None, *args: Any, **kwargs: Any) -> None:
    """Everything below it has another name now."""
    cache.forget_names()


# ---- attributes ------------------------------------------------------------------------


def _attribute(manager: Any, name: Any, *args: Any, **kwargs: Any) -> PathAndDetails:
    known = cache.object_info(manager)
    name = name.decode("utf-8", "replace") if isinstance(name, bytes) else name
    return (None, {"attribute": name}) if known is None else (known.path, {"object": known.name, "attribute": name})


def _bytes_of_attribute(
    result: None, manager: Any, name: Any, value: Any = None, *args: Any, **kwargs: Any
) -> int | None:
    """None for arrays of strings and the like, which hold pointers, and for values that are not numpy's."""
    value = kwargs.get("data", value)
    if type(value).__module__ != "numpy" or value.dtype.hasobject:
        return None
    return int(value.nbytes)


# ---- the table -------------------------------------------------------------------------

_DATASET, _FILE, _GROUP, _ATTRS = "h5py._hl.dataset", "h5py._hl.files", "h5py._hl.group", "h5py._hl.attrs"
_BELOW = "h5py.h5d"

instrument = Instrument(
    "h5py",
    minimum="3.11",
    below="4",
    arm=cache.arm,
    disarm=cache.disarm,
    targets=(
        Target("File.__init__", module=_FILE, path=_file_to_open, details=_opening, after=_opened),
        Target("File.close", module=_FILE, path=_closing),
        Target("File.flush", module=_FILE, path=_object_path),
        Target("Dataset.__getitem__", module=_DATASET, kind="read", path=_reading, moved="nbytes"),
        Target("Dataset.__setitem__", module=_DATASET, kind="write", path=_writing, moved=_bytes_written),
        Target("Dataset.read_direct", module=_DATASET, kind="read", path=_reading_into, moved=_bytes_read_into),
        Target("Dataset.write_direct", module=_DATASET, kind="write", path=_writing_from, moved=_bytes_written_from),
        Target("Dataset.__array__", module=_DATASET, kind="read", path=_whole, moved="nbytes"),
        Target("Dataset.resize", module=_DATASET, path=_resizing),
        Target("DatasetID.set_extent", module=_BELOW, path=_extended, after=_changed),
        Target("DatasetID.refresh", module=_BELOW, path=_extended, after=_changed, optional=True),
        Target("Dataset.flush", module=_DATASET, path=_whole, optional=True),
        Target("DatasetID.read_direct_chunk", module=_BELOW, kind="read", path=_chunk, moved=_bytes_of_chunk),
        Target("DatasetID.write_direct_chunk", module=_BELOW, kind="write", path=_chunk, moved=_bytes_of_chunk_written),
        Target(
            "Group.create_dataset", module=_GROUP, kind="write", path=_creating, after=_created, moved=_bytes_created
        ),
        Target("Group.__getitem__", module=_GROUP, path=_getting, after=_got),
        Target("Group.__setitem__", module=_GROUP, path=_setting),
        Target("Group.__delitem__", module=_GROUP, path=_getting, after=_moved),
        Target("Group.move", module=_GROUP, path=_object_path, after=_moved),
        Target("AttributeManager.__getitem__", module=_ATTRS, kind="read", path=_attribute, moved="nbytes"),
        Target("AttributeManager.create", module=_ATTRS, kind="write", path=_attribute, moved=_bytes_of_attribute),
        Target("AttributeManager.modify", module=_ATTRS, kind="write", path=_attribute, moved=_bytes_of_attribute),
    ),
)
