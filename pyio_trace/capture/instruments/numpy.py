"""numpy: arrays in files.  The bytes of `load` and `save` are the array's; the header is only in POSIX operations.

A program may save an object that can be converted to an array (a class with
__array__, an array of another library).  Such an object is not asked for its
shape, since that could run the program's code, or use a device.
"""

from __future__ import annotations

import sys

from pyio_trace.capture.instrumentation.instrument import Instrument, Target

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def _attribute(array: Any, name: str) -> Any:
    """An attribute of numpy's own classes, even if a subclass overrides it; None if it is not an array of numpy."""
    kinds = sys.modules["numpy"]
    for kind in (kinds.ndarray, kinds.generic):
        if issubclass(type(array), kind):
            return getattr(kind, name).__get__(array)
    return None


def _array(array: Any) -> dict[str, object]:
    shape = _attribute(array, "shape")
    return {} if shape is None else {"shape": shape, "dtype": str(_attribute(array, "dtype"))}


def _loaded(result: Any, *args: Any, **kwargs: Any) -> dict[str, object]:
    return _array(result)


def _bytes_loaded(result: Any, *args: Any, **kwargs: Any) -> int | None:
    """None for what is no array, since load() also reads pickles, and for a mapped one, whose pages are read later."""
    dtype = _attribute(result, "dtype")
    if dtype is None or dtype.hasobject or issubclass(type(result), sys.modules["numpy"].memmap):
        return None
    bytes_: int | None = _attribute(result, "nbytes")
    return bytes_


def _archive(npz: Any, key: str) -> object:
    return getattr(npz.zip, "filename", None)


def _member(npz: Any, key: str) -> dict[str, object]:
    return {"array": key}


def _saved(file: Any, arr: Any, *args: Any, **kwargs: Any) -> dict[str, object]:
    return _array(arr)


def _bytes_saved(result: Any, file: Any, arr: Any, *args: Any, **kwargs: Any) -> int | None:
    bytes_: int | None = _attribute(arr, "nbytes")
    return bytes_


def _archived(file: Any, *args: Any, **kwargs: Any) -> dict[str, object]:
    return {"arrays": len(args) + len(kwargs)}


def _bytes_archived(result: Any, file: Any, *args: Any, **kwargs: Any) -> int:
    return sum(_attribute(array, "nbytes") or 0 for array in (*args, *kwargs.values()))


def _written(array: Any, *args: Any, **kwargs: Any) -> dict[str, object]:
    return _array(array)


def _bytes_written(result: Any, array: Any, *args: Any, **kwargs: Any) -> int:
    return int(_attribute(array, "nbytes"))


def _mapped(result: Any, *args: Any, **kwargs: Any) -> dict[str, object]:
    return {**_array(result), "mode": result.mode, "offset": result.offset}


instrument = Instrument(
    "numpy",
    minimum="2.0",
    below="3",
    targets=(
        Target("load", kind="read", path="file", after=_loaded, moved=_bytes_loaded),
        Target(
            "NpzFile.__getitem__",
            module="numpy.lib._npyio_impl",
            kind="read",
            path=_archive,
            details=_member,
            after=_loaded,
            moved="nbytes",
        ),
        Target("save", kind="write", path="file", position=0, details=_saved, moved=_bytes_saved),
        Target("savez", kind="write", path="file", position=0, details=_archived, moved=_bytes_archived),
        Target("savez_compressed", kind="write", path="file", position=0, details=_archived, moved=_bytes_archived),
        Target("loadtxt", kind="read", path="fname", after=_loaded, moved="nbytes"),
        Target("savetxt", path="fname", position=0),
        Target("genfromtxt", kind="read", path="fname", after=_loaded, moved="nbytes"),
        Target("fromfile", kind="read", path="file", position=0, after=_loaded, moved="nbytes"),
        Target("fromregex", kind="read", path="file", position=0, after=_loaded, moved="nbytes"),
        Target("ndarray.tofile", kind="write", path="fid", position=1, details=_written, moved=_bytes_written),
        Target("memmap.__new__", name="numpy.memmap", path="filename", after=_mapped),
        Target("memmap.flush", path=lambda array: array.filename),
    ),
)
