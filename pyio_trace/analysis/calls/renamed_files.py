"""The present names of files that were renamed by calls that bypassed the hooks."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from pyio_trace.join.base.arrow_arrays import codes, of_codes, of_texts

if TYPE_CHECKING:
    import pyarrow as pa
    from numpy.typing import NDArray

    from pyio_trace.join.sources.facade import Log


def paths_of(paths: NDArray[np.int64], log: Log) -> pa.DictionaryArray:
    """The paths of these codes, null for -1.  Each text is there once: many files may have one long name."""
    return of_codes(paths, log.dictionary("path"))


def present_names(paths: pa.DictionaryArray, log: Log) -> tuple[pa.DictionaryArray, pa.DictionaryArray]:
    """(name of each file, its former name): files renamed by calls that bypassed the hooks have their present name."""
    before = {one["to"]: one["path"] for one in log.renames()}
    found = codes(paths)
    if not before:
        return paths, of_codes(np.full_like(found, -1), of_texts([]))
    after = {path: to for to, path in before.items()}
    names = [after.get(path, path) for path in paths.dictionary.to_pylist()]
    renamed = np.array([*(name in before for name in names), False], np.bool_)
    former = of_texts([before.get(name, "") for name in names])
    return of_codes(found, of_texts(names)), of_codes(np.where(renamed[found], found, -1), former)
