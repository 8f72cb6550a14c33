"""The present names of files that were renamed by calls that bypassed the hooks."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from pyio_trace.join.base.arrow_arrays import of_codes, of_texts

if TYPE_CHECKING:
    import pyarrow as pa
    from numpy.typing import NDArray

    from pyio_trace.join.sources.facade import Log


def present_names(
    files: NDArray[np.int64], paths: NDArray[np.int64], log: Log
) -> tuple[pa.DictionaryArray, pa.DictionaryArray]:
    """(name of each file, the name it was written under if the first one is inferred).

    files: identities; paths: of each, the code of the name it was used under last, -1: none.  A temporary name may
    have belonged to many files, so each is known by its identity.
    """
    texts = log.dictionary("path")
    former = np.full(len(paths), -1, np.int64)
    renames = log.renames()
    if not renames:
        return of_codes(paths, texts), of_codes(former, texts)
    words = texts.to_pylist()
    number = {text: code for code, text in enumerate(words)}
    order = np.argsort(files, kind="stable")
    ordered, now = files[order], paths.copy()
    for one in renames:
        rows = order[slice(*np.searchsorted(ordered, [one["file"], one["file"] + 1]))]
        before = number.get(one["path"], -1)
        rows = rows[(now[rows] == before) | (now[rows] == number.get(one["to"], -1))]
        if len(rows) and before >= 0:
            now[rows], former[rows] = number.setdefault(one["to"], len(number)), before
    names = of_texts(list(number))
    return of_codes(now, names), of_codes(former, names)
