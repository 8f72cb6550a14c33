"""numpy: arrays in files.  What `load` and `save` move is the array; the header is POSIX's to tell.

A program may save what only can be made an array (a class with __array__, an array of another library): that
one is not asked, since it would be the program's code that answers, or a device.
"""

from __future__ import annotations

import sys

from pyio_trace.capture.instrument import Instrument, Target

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def _asked(array: Any, name: str) -> Any:
    """The array's own attribute, whatever its class has under that name; None: it is none of numpy's."""
    kinds = sys.modules["numpy"]
    for kind in (kinds.ndarray, kinds.generic):
        if issubclass(type(array), kind):
            return getattr(kind, name).__get__(array)
    return None


def _array(array: Any) -> dict[str, object]:
    shape = _asked(array, "shape")
    return {} if shape is None else {"shape": shape, "dtype": str(_asked(array, "dtype"))}


def _loaded(result: Any, *args: Any, **kwargs: Any) -> dict[str, object]:
    return _array(result)


def _archive(npz: Any, key: str) -> object:
    return getattr(npz.zip, "filename", None)


def _member(npz: Any, key: str) -> dict[str, object]:
    return {"array": key}


def _saved(file: Any, arr: Any, *args: Any, **kwargs: Any) -> dict[str, object]:
    return _array(arr)


def _bytes_saved(result: Any, file: Any, arr: Any, *args: Any, **kwargs: Any) -> int | None:
    bytes_: int | None = _asked(arr, "nbytes")
    return bytes_


def _archived(file: Any, *args: Any, **kwargs: Any) -> dict[str, object]:
    return {"arrays": len(args) + len(kwargs)}


def _bytes_archived(result: Any, file: Any, *args: Any, **kwargs: Any) -> int:
    return sum(_asked(array, "nbytes") or 0 for array in (*args, *kwargs.values()))


def _written(array: Any, *args: Any, **kwargs: Any) -> dict[str, object]:
    return _array(array)


def _bytes_written(result: Any, array: Any, *args: Any, **kwargs: Any) -> int:
    return int(_asked(array, "nbytes"))


def _mapped(result: Any, *args: Any, **kwargs: Any) -> dict[str, object]:
    return {**_array(result), "mode": result.mode, "offset": result.offset}


instrument = Instrument(
    "numpy",
    minimum="2.0",
    below="3",
    targets=(
        Target("load", kind="read", path="file", after=_loaded, moved="nbytes"),
        Target("NpzFile.__getitem__", module="numpy.lib._npyio_impl", kind="read", path=_archive, details=_member,
               after=_loaded, moved="nbytes"),
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
