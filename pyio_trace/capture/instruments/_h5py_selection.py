"""What a program selects of a dataset: its text for the log, and its number of elements.

A selection may be anything that h5py accepts, of any size, and belongs to the
program.  Of arrays in it, only type and shape are used: counting the elements
that they select would take as long as a small read.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

#: Types that the log can write as they are.
PLAIN = frozenset((slice, int, str, type(...), bool))


def described(args: Any) -> object:
    """The selection as given, but with arrays, long lists and objects of h5py described by type and size."""
    if type(args) is not tuple:
        return args if type(args) in PLAIN else _part(args)
    for part in args:
        if type(part) not in PLAIN:
            return tuple(_part(each) for each in args[:32])
    return args


def _part(part: Any) -> object:
    kind = type(part)
    if kind in PLAIN:
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


def elements(args: Any, shape: tuple[int, ...]) -> int | None:
    """How many elements are selected; None if counting would take long."""
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
