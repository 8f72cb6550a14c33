"""Which file a call of pyarrow's is about: by its arguments, or by what was noted of its reader or writer.

A reader does not know its path afterwards.  So where one is made its place is
noted here, beside a weak reference.  Sources are of many kinds: paths, URIs,
descriptors, Python's file objects, lists of paths, paths within filesystems
of Arrow's or of fsspec's.  Of bytes in memory there is no place.
"""

from __future__ import annotations

import os

from pyio_trace.capture.instruments._files import is_path, may_have, path_of
from pyio_trace.capture.remembered import Remembered

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_FROM = ("source", "input_file", "where", "sink", "path", "path_or_paths")
_TO = ("where", "output_file", "dest", "root_path", "base_dir")


class Place:
    """What a reader reads, a writer writes.  path: as the engine takes it; moves: its bytes are in no row below;
    plain: it is not encrypted, for all that one knows."""

    __slots__ = ("moves", "path", "plain")

    def __init__(self, path: object, moves: bool = True, plain: bool = True) -> None:
        self.path = path
        self.moves = moves
        self.plain = plain


_places = Remembered()  # by reader or writer, and what else is made of a source


def note(made: Any, place: Place | None, plain: bool = True) -> None:
    """From here on `made` is known to be of that place."""
    if place is None or made is None:
        return
    path = place.path
    if isinstance(path, (str, bytes)):
        kept: object = path if "://" in os.fsdecode(path) else os.path.abspath(path)
    elif isinstance(path, int):
        kept = path
    else:  # a file object is not to be kept alive, a list may change
        kept = path_of(path)
        kept = () if kept is None else kept
    _places.note(made, Place(kept, place.moves, plain))


def noted(made: Any) -> Place | None:
    """None: it is of bytes in memory, or its making was not seen."""
    found: Place | None = _places.get(made)
    return found


def place_of(source: Any, filesystem: Any = None) -> Place | None:
    """Of what a function of pyarrow's was given to read or write; None: bytes in memory, or not known."""
    if is_path(source):
        return _within(filesystem, path_of(source))
    known = noted(source)
    if known is not None:
        return known
    if type(source).__module__ == "pyarrow.lib" and type(source).__name__ in ("OSFile", "MemoryMappedFile"):
        return None if source.closed else Place(source.fileno())
    if isinstance(source, (list, tuple)):
        paths = [path_of(one) for one in source if is_path(one)]
        if None in paths:
            return _within(filesystem, None)
        return _common([_within(filesystem, path) for path in paths])
    if may_have(source, "read"):
        return None if type(source).__module__.startswith("pyarrow") else Place(source, moves=False)
    return Place(source, moves=False) if may_have(source, "write") else None


def _within(filesystem: Any, path: Any) -> Place:
    """A path (None: it is not known) in a filesystem of Arrow's or of fsspec's, or a URI; None: the machine's."""
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
    """The one of them, or the folder that all are in."""
    if len(places) < 2:
        return places[0] if places else None
    paths = [os.fsdecode(place.path) for place in places if isinstance(place.path, (str, bytes))]
    ends = [path if "://" in path else os.path.abspath(path) for path in (min(paths), max(paths))]
    folder = os.path.commonprefix(ends).rpartition("/")[0]  # noqa: RUF071  # URLs too, and back to a slash
    return Place(folder or None, all(place.moves for place in places))


def place_of_dataset(made: Any) -> Place | None:
    """Of a dataset, a fragment, a scanner.  A dataset over bytes in memory must not be asked for its filesystem:
    pyarrow goes through a null pointer."""
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
    """In its place or by one of its names; None: not given, so that the call is about to fail."""
    if len(args) > index:
        return args[index]
    for name in names:
        if name in kwargs:
            return kwargs[name]
    return None


def source_of(args: tuple[Any, ...], kwargs: dict[str, Any], index: int = 0) -> Place | None:
    """What it reads, or, for the maker of a writer, what that is to write."""
    return place_of(argument(args, kwargs, index, _FROM), kwargs.get("filesystem"))


def sink_of(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Place | None:
    """What it writes its first argument to."""
    return place_of(argument(args, kwargs, 1, _TO), kwargs.get("filesystem"))
