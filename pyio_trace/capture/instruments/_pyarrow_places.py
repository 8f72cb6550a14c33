"""Which file a call of pyarrow concerns: from its arguments, or from what was noted about its reader or writer.

A reader does not know its path.  So when one is made, its place is noted here,
with a weak reference.  Sources are of many kinds: paths, URIs, descriptors,
Python's file objects, lists of paths, paths in filesystems of Arrow or fsspec.
Bytes in memory have no place.
"""

from __future__ import annotations

import os

from pyio_trace.capture.instrumentation.weak_id_map import WeakIdMap
from pyio_trace.capture.instruments._files import is_path, may_have, path_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_FROM = ("source", "input_file", "where", "sink", "path", "path_or_paths")
_TO = ("where", "output_file", "dest", "root_path", "base_dir")


class Place:
    """What a reader reads or a writer writes.

    path: as Target.path allows.  moves: whether the call's row has the bytes,
    because no row below has them.  plain: whether it is not encrypted, as far as
    is known.  mapped: the file is mapped, not read.
    """

    __slots__ = ("mapped", "moves", "path", "plain")

    def __init__(self, path: object, moves: bool = True, plain: bool = True, mapped: bool = False) -> None:
        self.path = path
        self.moves = moves
        self.plain = plain
        self.mapped = mapped


_places = WeakIdMap()  # by reader, writer, or other object made from a source


def note(made: Any, place: Place | None, plain: bool = True) -> None:
    """Note the place of the object `made`."""
    if place is None or made is None:
        return
    path = place.path
    if isinstance(path, (str, bytes)):
        stored: object = path if "://" in os.fsdecode(path) else os.path.abspath(path)
    elif isinstance(path, int):
        stored = path
    else:  # do not keep a file object alive; a list may change
        found = path_of(path)
        stored = () if found is None else found
    _places.set(made, Place(stored, place.moves, plain, place.mapped))


def noted(made: Any) -> Place | None:
    """The place noted; None for bytes in memory, and if its making was not seen."""
    found: Place | None = _places.get(made)
    return found


def place_of(source: Any, filesystem: Any = None) -> Place | None:
    """The place of the source or sink that a function was given; None for bytes in memory, or if not known."""
    if is_path(source):
        return _within(filesystem, path_of(source))
    known = noted(source)
    if known is not None:
        return known
    if type(source).__module__ == "pyarrow.lib" and type(source).__name__ in ("OSFile", "MemoryMappedFile"):
        mapped = type(source).__name__ == "MemoryMappedFile"
        return None if source.closed else Place(source.fileno(), mapped=mapped)
    if isinstance(source, (list, tuple)):
        paths = [path_of(one) for one in source if is_path(one)]
        if None in paths:
            return _within(filesystem, None)
        return _common([_within(filesystem, path) for path in paths])
    if may_have(source, "read"):
        return None if type(source).__module__.startswith("pyarrow") else Place(source, moves=False)
    return Place(source, moves=False) if may_have(source, "write") else None


def _within(filesystem: Any, path: Any) -> Place:
    """The place of a path in a filesystem of Arrow or fsspec, or below a URI.

    path: None if not known.  filesystem: None for the local one.
    """
    if filesystem is None:
        return Place(path)
    if path is None:
        return Place(None, _within(filesystem, "").moves)
    path = os.fsdecode(path)
    if isinstance(filesystem, str):
        return Place(f"{filesystem.rstrip('/')}/{path}")
    kind = getattr(filesystem, "type_name", None)
    if kind == "subtree":
        return _within(filesystem.base_fs, filesystem.base_path + path)
    if kind is not None and kind.startswith("py::"):
        inner = getattr(filesystem.handler, "fs", None)
        place = Place(f"{kind[4:]}://{path}") if inner is None else _within(inner, path)
        return Place(place.path, moves=False)
    if kind is None:  # fsspec's
        protocol = getattr(filesystem, "protocol", "")
        kind = protocol if isinstance(protocol, str) else protocol[0]
        return Place(path if kind in ("file", "local") else f"{kind}://{path}", moves=False)
    return Place(path if kind == "local" else f"{kind}://{path}")


def _common(places: list[Place]) -> Place | None:
    """The only one of them, or the folder that contains all."""
    if len(places) < 2:
        return places[0] if places else None
    paths = [os.fsdecode(place.path) for place in places if isinstance(place.path, (str, bytes))]
    ends = [path if "://" in path else os.path.abspath(path) for path in (min(paths), max(paths))]
    folder = os.path.commonprefix(ends).rpartition("/")[0]  # noqa: RUF071  # works for URLs, and goes back to a slash
    return Place(folder or None, all(place.moves for place in places))


def place_of_dataset(made: Any) -> Place | None:
    """The place of a dataset, a fragment or a scanner.

    A dataset over bytes in memory must not be asked for its filesystem: pyarrow
    would follow a null pointer.
    """
    place = noted(made)
    if place is not None:
        return place
    if type(made).__name__ == "FileSystemDataset":
        files = [path for path in made.files if not path.startswith("<")]  # <Buffer>, <File>
        place = _common([Place(path) for path in files]) if files else None
        if place is not None:
            place = place if os.path.isabs(os.fsdecode(place.path)) else Place(None)  # type: ignore[arg-type]
            note(made, place)
    elif type(made).__name__ == "UnionDataset":
        children = [found for found in map(place_of_dataset, made.children) if found is not None]
        place = Place(None, all(found.moves for found in children)) if children else None
    elif getattr(made, "filesystem", None) is not None:  # a fragment
        place = _within(made.filesystem, made.path)
    return place


# ---- by a call's arguments -----------------------------------------------------------------------


def argument(args: tuple[Any, ...], kwargs: dict[str, Any], index: int, names: tuple[str, ...]) -> Any:
    """An argument by position or by one of its names; None if it is missing and the call is going to fail."""
    if len(args) > index:
        return args[index]
    for name in names:
        if name in kwargs:
            return kwargs[name]
    return None


def source_of(args: tuple[Any, ...], kwargs: dict[str, Any], index: int = 0) -> Place | None:
    """What the call reads, or what the writer that it makes will write."""
    return place_of(argument(args, kwargs, index, _FROM), kwargs.get("filesystem"))


def sink_of(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Place | None:
    """Where the call writes its first argument."""
    return place_of(argument(args, kwargs, 1, _TO), kwargs.get("filesystem"))
